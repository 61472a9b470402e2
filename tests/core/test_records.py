"""Results: frozen, strict, and the same after a trip through JSON."""

import json

import pytest
from pydantic import ValidationError

from normwise.core.errors import InputError, MissingExtraError, NormwiseError, WorkError, near_names
from normwise.core.records import METRICS, Decision, Evaluation, Interval, StageResult

TABLE = {name: Interval(mean=0.5, ci_low=0.4, ci_high=0.6) for name in METRICS}
RESULT = Evaluation(
    model="m",
    data="d",
    queries=3,
    candidates=4,
    clusters=2,
    similarities={"dot": TABLE},
    geometry={"A1": 0.25, "E1": None},
    decision=Decision(similarity="dot", reason="ähnlich"),
)


def test_round_trip():
    assert Evaluation.from_json(RESULT.to_json()) == RESULT
    assert json.loads(RESULT.to_json())["similarities"]["dot"]["p@1"] == {"mean": 0.5, "ci_low": 0.4, "ci_high": 0.6}


def test_not_a_number_becomes_null():
    text = Interval(mean=float("nan"), ci_low=float("-inf"), ci_high=1.0).to_json()
    assert json.loads(text) == {"mean": None, "ci_low": None, "ci_high": 1.0}


def test_results_are_frozen_and_strict():
    with pytest.raises(ValidationError, match="frozen"):
        RESULT.queries = 5
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Decision.model_validate({"similarity": "dot", "reason": "", "score": 1})


def test_a_curve_gives_the_points_it_has():
    stage = StageResult(
        name="a",
        similarity="dot",
        trainable="full",
        steps=3,
        temperature=0.1,
        seconds=1,
        curve=({"step": 1, "loss": 2.0}, {"step": 2, "loss": None}, {"step": 3, "loss": 1.0}, {"loss": 9.0}),
    )
    assert list(stage.series("loss")) == [(1, 2.0), (3, 1.0)]
    assert list(stage.series("norm")) == []


def test_exit_codes_tell_bad_input_from_failed_work():
    missing = MissingExtraError("faiss", extra="index")
    assert [NormwiseError("x").exit_code, WorkError("x").exit_code, InputError("x").exit_code, missing.exit_code] == [1, 1, 2, 2]
    assert isinstance(InputError("x"), ValueError)
    assert isinstance(missing, ImportError)


def test_near_names_have_at_most_three():
    assert near_names("stage", ["stage1", "stage2", "stage3", "stage4"]).count("stage") == 3
    assert near_names("x", []) == "known names: "
