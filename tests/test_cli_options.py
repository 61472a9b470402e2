"""Mistakes in options are told by the options' names and in this package's words."""

import math
import re

import pytest
from pydantic import ValidationError

from normwise.cli_options import built, option_names
from normwise.core.errors import InputError
from normwise.core.norm_records import TrainingEvidence
from normwise.core.problem_words import causes_of, words_of
from normwise.workflows.concept_cells import ConceptConfig
from normwise.workflows.simulate_config import SimulationConfig

BAD = (-1, -1.5, 2.5, math.inf, math.nan, True, "x", "", None, [], ["x"], [math.nan], [-1.0], {}, {"a": 1}, 10**400)
PYDANTIC = re.compile(r"Input should|valid (integer|number|boolean)|greater than|less than|Value error")


def refusal(model, field, value):
    try:
        built(model, {field: value}, options=option_names([field]), source="here")
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("model", [SimulationConfig, ConceptConfig, TrainingEvidence])
def test_no_option_is_refused_in_the_voice_of_the_library(model):
    """Every field with every kind of bad value: what is refused is named as the option and says what was expected."""
    told = [(field, refusal(model, field, value)) for field in model.model_fields for value in BAD]
    refused = [(field, words) for field, words in told if words]
    assert len(refused) > 5 * len(model.model_fields)
    assert [words for _, words in refused if PYDANTIC.search(words)] == []
    assert [words for field, words in refused if option_names([field])[field] not in words and not words.startswith("here: ")] == []


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"learning_rate": -1.0}, ["learning_rate"], "--learning-rate is -1.0; expected above 0"),
        ({"learning_rate": -1.0}, [], "norms: learning_rate is -1.0; expected above 0"),
        ({"width": 3}, ["width"], "--width is 3; expected 4 or above"),
        ({"visit_rate": 1.5}, ["visit_rate"], "--visit-rate is 1.5; expected 1 or below"),
        ({"steps": 2.5}, ["steps"], "--steps is 2.5; expected a whole number"),
        ({"lazy": 3}, [], "norms: lazy is 3; expected true or false"),
        ({"optimizer": "sdg"}, ["optimizer"], "--optimizer is 'sdg'; expected 'sgd', 'momentum', 'adam' or 'adamw'"),
        ({"kappa": [1.0, math.nan]}, ["kappa"], "--kappa holds nan; expected a finite number"),
        ({"kappa": []}, ["kappa"], "--kappa is an empty list; expected at least 1 item"),
        ({"stepz": 4}, [], "norms: unknown key 'stepz': did you mean steps?"),
        (
            {"learning_rate": 1.0, "weight_decay": 1.0},
            ["weight_decay"],
            "norms: --weight-decay is 1.0; expected >= 0 and below 1 / learning_rate = 1",
        ),
    ],
)
def test_a_mistake_is_told_by_what_was_typed(values, options, words):
    with pytest.raises(InputError, match=f"^{re.escape(words)}$"):
        built(SimulationConfig, values, options=option_names(options), source="norms")


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InputError, match=r"^--items is 0; expected 1 or above; norms: seed is -1; expected 0 or above$"):
        built(SimulationConfig, {"items": 0, "seed": -1}, options=option_names(["items"]), source="norms")


def test_good_options_make_the_value():
    assert built(SimulationConfig, {"items": 5}, options={}, source="norms") == SimulationConfig(items=5)


def test_what_only_follows_is_left_out_and_unknown_kinds_keep_their_words():
    with pytest.raises(ValidationError, match="too_short") as caught:
        SimulationConfig.model_validate({"kappa": [math.nan]})
    assert [problem["loc"] for problem in causes_of(caught.value.errors())] == [("kappa", 0)]
    assert words_of({"type": "too_short", "msg": "", "ctx": {"min_length": 2}}) == "expected at least 2 items"
    assert words_of({"type": "other", "msg": "Input should be a rose"}) == "expected a rose"
    assert words_of({"type": "value_error", "msg": "Value error, leave it out"}) == "leave it out"
