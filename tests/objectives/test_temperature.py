"""Temperature: fixed, learned on the model, saved and restored, matched at a switch."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from normwise.core.config import FocalConfig, TemperatureConfig
from normwise.core.errors import InputError, WorkError
from normwise.core.similarity import Similarity
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.scores import norms, score_matrix
from normwise.objectives.temperature import (
    FixedTemperature,
    LearnableTemperature,
    build_temperature,
    load_temperature_state,
    matched_temperature,
    remove_learnable_temperature,
    temperature_state,
)

LEARN = TemperatureConfig(mode="learnable", value=0.05, minimum=0.02, maximum=0.5)


def test_fixed_divides_and_has_no_parameter():
    temperature = FixedTemperature(0.05)
    scores = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
    torch.testing.assert_close(temperature.divide(scores), scores / 0.05)
    assert float(temperature.current()) == 0.05
    assert list(temperature.parameters()) == []


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_that_is_not_a_positive_number_is_refused(value):
    with pytest.raises(InputError, match="temperature must be a finite number > 0"):
        FixedTemperature(value)


def test_the_learnable_parameter_lives_on_the_model_only_and_out_of_its_state():
    model = nn.Linear(2, 2)
    before = set(model.state_dict())
    temperature = LearnableTemperature(model, LEARN)
    assert dict(temperature.named_parameters()) == {}
    names = dict(model.named_parameters())
    assert names["temperature_bias"] is temperature.parameter
    assert set(model.state_dict()) == before
    model.load_state_dict(nn.Linear(2, 2).state_dict())  # strict: the checkpoint of a trainer lacks the parameter
    with pytest.raises(RuntimeError, match="weight"):
        model.load_state_dict({"bias": torch.zeros(2)})


def test_the_gradient_of_the_learned_scale_is_the_sum_over_logits():
    temperature = LearnableTemperature(nn.Linear(2, 2), LEARN)
    scores = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    upstream = torch.tensor([[2.0, 5.0]], dtype=torch.float64)
    logits = temperature.divide(scores)
    torch.testing.assert_close(logits, scores / 0.05, rtol=1e-6, atol=0)
    (upstream * logits).sum().backward()
    torch.testing.assert_close(temperature.parameter.grad, torch.tensor(float((upstream * scores / 0.05).sum())))


@pytest.mark.parametrize(("bias", "expected"), [(50.0, 0.02), (-50.0, 0.5)])
def test_a_scale_that_ran_away_is_pulled_back_and_not_stuck(bias, expected):
    temperature = LearnableTemperature(nn.Linear(2, 2), LEARN)
    with torch.no_grad():
        temperature.parameter.fill_(bias)
    assert float(temperature.current()) == pytest.approx(expected, rel=1e-6)
    logits = temperature.divide(torch.tensor([[1.0]]))
    assert float(logits.detach()) == pytest.approx(1 / expected, rel=1e-5)
    logits.sum().backward()
    assert float(temperature.parameter.grad) == pytest.approx(1 / expected, rel=1e-5)
    assert float(temperature.parameter.detach()) == pytest.approx(-math.log(expected), rel=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(temperature.divide(torch.tensor([[1.0]])), logits.detach())


def test_a_newer_temperature_replaces_the_old_one_loudly_and_removal_leaves_no_trace():
    model = nn.Sequential(nn.Linear(2, 2))
    hooks = (len(model._forward_hooks), len(model._state_dict_hooks), len(model._load_state_dict_post_hooks))
    old = LearnableTemperature(model, LEARN)
    new = LearnableTemperature(model, LEARN)
    assert float(new.current()) == pytest.approx(0.05)
    with pytest.raises(WorkError, match="build the loss anew"):
        old.current()
    assert remove_learnable_temperature(model)
    assert not remove_learnable_temperature(model)
    assert "temperature_bias" not in dict(model.named_parameters())
    assert (len(model._forward_hooks), len(model._state_dict_hooks), len(model._load_state_dict_post_hooks)) == hooks


def test_a_copy_has_its_own_parameter():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Linear(2, 2)
            self.temperature = LearnableTemperature(self.model, LEARN)

    holder = Holder()
    twin = copy.deepcopy(holder)
    with torch.no_grad():
        twin.temperature.parameter.fill_(-math.log(0.1))
    assert float(twin.temperature.current()) == pytest.approx(0.1)
    assert float(holder.temperature.current()) == pytest.approx(0.05)
    assert twin.model.temperature_bias is twin.temperature.parameter


def test_match_has_to_be_measured_first():
    with pytest.raises(InputError, match="measure it with matched_temperature"):
        build_temperature(nn.Linear(1, 1), TemperatureConfig(mode="match"))
    with pytest.raises(InputError, match="mode learnable"):
        LearnableTemperature(nn.Linear(1, 1), TemperatureConfig(value=0.1))


def test_the_state_comes_back_bit_for_bit_and_foreign_states_are_refused():
    first = FocalEmbeddingLoss(nn.Linear(2, 2), temperature=LEARN)
    with torch.no_grad():
        first.temperature.parameter.fill_(2.7182817)
    first.draws = 5
    state = temperature_state(first)
    second = FocalEmbeddingLoss(nn.Linear(2, 2), temperature=LEARN)
    load_temperature_state(second, state)
    assert torch.equal(second.temperature.parameter, first.temperature.parameter)
    assert second.draws == 5
    fixed = FocalEmbeddingLoss(nn.Linear(2, 2), temperature=0.05)
    with pytest.raises(InputError, match="resume with the saved settings"):
        load_temperature_state(fixed, state)
    with pytest.raises(InputError, match="state lacks bias, draws"):
        load_temperature_state(fixed, {"mode": "fixed", "temperature": 0.05})
    with pytest.raises(InputError, match=r"holds 0\.1, the loss 0\.05"):
        load_temperature_state(fixed, temperature_state(FocalEmbeddingLoss(nn.Linear(2, 2), temperature=0.1)))
    load_temperature_state(fixed, temperature_state(fixed))


@given(
    seed=st.integers(0, 2**31),
    a=st.sampled_from(list(Similarity)),
    b=st.sampled_from(list(Similarity)),
    c=st.sampled_from(list(Similarity)),
)
def test_matching_keeps_logits_for_constant_norms_and_composes(seed, a, b, c):
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(3, 5, generator=generator).double(), torch.randn(4, 5, generator=generator).double()
    q, k = 7 * q / q.norm(dim=1, keepdim=True), 0.2 * k / k.norm(dim=1, keepdim=True)
    sizes = {"query_norms": norms(q), "candidate_norms": norms(k)}

    def match(tau, previous, following):
        return matched_temperature(tau, sizes["query_norms"], sizes["candidate_norms"], previous=previous, following=following)

    tau = match(0.1, a, b)
    torch.testing.assert_close(score_matrix(q, k, b) / tau, score_matrix(q, k, a) / 0.1)
    assert match(0.1, a, a) == pytest.approx(0.1)
    assert match(tau, b, a) == pytest.approx(0.1)
    assert match(tau, b, c) == pytest.approx(match(0.1, a, c))


def test_cosine_to_dot_is_the_rule_of_the_paper():
    tau = matched_temperature(0.1, torch.tensor([31.0, 33.0]), torch.tensor([32.0]), previous=Similarity.COSINE, following=Similarity.DOT)
    assert tau == pytest.approx(102.4)


def test_matching_refuses_norms_that_say_nothing():
    one = torch.ones(2)
    for name, q, c in (
        ("query_norms", torch.zeros(2), one),
        ("candidate_norms", one, torch.tensor([torch.nan, 1.0])),
        ("query_norms", one[:0], one),
    ):
        with pytest.raises(InputError, match=f"{name}: at least one positive norm"):
            matched_temperature(0.1, q, c, previous=Similarity.COSINE, following=Similarity.DOT)
    with pytest.raises(InputError, match="previous_tau must be"):
        matched_temperature(0.0, one, one, previous=Similarity.COSINE, following=Similarity.DOT)


def test_tau_w_falls_back_on_the_cosine_temperature():
    model = nn.Linear(2, 2)
    assert FocalEmbeddingLoss(model, temperature=0.2).confidence_temperature == 0.2
    assert FocalEmbeddingLoss(model, temperature=0.2, focal=FocalConfig(temperature=0.1)).confidence_temperature == 0.1
    assert FocalEmbeddingLoss(model, similarity="dot", temperature=9.0, focal=None).confidence_temperature is None
    assert FocalEmbeddingLoss(model, temperature=LEARN).confidence_temperature == pytest.approx(0.05)
