"""Weights: the powers of the loop, exact ones at gamma 0, unit mean, controls, rows without negatives."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.config import FocalConfig, Weighting
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.objectives.focal import focal_weights, query_weights, unit_mean_weights, weighted_mean
from normwise.objectives.infonce import infonce
from normwise.objectives.scores import score_matrix

probabilities = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=8)


@given(p=probabilities, gamma=st.floats(0.0, 6.0))
def test_focal_weights_are_the_loop_and_have_mean_one(p, gamma):
    raw = [(1 - x) ** gamma for x in p]
    mean = sum(raw) / len(raw)
    result = focal_weights(torch.tensor([math.log(1 - x) for x in p], dtype=torch.float64), gamma=gamma)
    torch.testing.assert_close(result.weights, torch.tensor([a / mean for a in raw], dtype=torch.float64))
    torch.testing.assert_close(float(result.mean), 1.0)
    torch.testing.assert_close(float(result.effective_sample_size), sum(raw) ** 2 / sum(a * a for a in raw))


@given(log_residual=st.lists(st.floats(-300, 0) | st.just(-math.inf), min_size=1, max_size=8))
def test_gamma_zero_is_exactly_ones(log_residual):
    result = focal_weights(torch.tensor(log_residual), gamma=0.0)
    assert result.weights.tolist() == [1.0] * len(log_residual)
    assert float(result.mean) == 1.0
    assert float(result.effective_sample_size) == len(log_residual)


def test_weights_survive_residuals_that_float32_cannot_hold():
    result = focal_weights(torch.tensor([-200.0, -200.5]), gamma=2.0)
    torch.testing.assert_close(result.weights, 2 * torch.softmax(torch.tensor([0.0, -1.0]), dim=0))


def test_a_query_without_negatives_weighs_nothing_unless_none_has_any():
    assert focal_weights(torch.tensor([-torch.inf, -1.0, -1.0]), gamma=2.0).weights.tolist() == [0.0, 1.5, 1.5]
    alone = focal_weights(torch.tensor([-torch.inf, -torch.inf]), gamma=2.0)
    assert alone.weights.tolist() == [1.0, 1.0]
    assert float(alone.effective_sample_size) == 2.0


def test_the_cap_comes_last_and_the_mean_falls():
    log_residual = torch.tensor([0.9, 0.1, 0.1]).log()
    free = focal_weights(log_residual, gamma=2.0)
    capped = focal_weights(log_residual, gamma=2.0, cap=1.5)
    torch.testing.assert_close(capped.weights, free.weights.clamp(max=1.5))
    assert free.weights.max() > 1.5
    torch.testing.assert_close(capped.mean, capped.weights.mean())
    assert capped.mean < 1
    torch.testing.assert_close(capped.effective_sample_size, capped.weights.sum() ** 2 / capped.weights.square().sum())


def cosine_batch(seed, rows=5, columns=7):
    generator = torch.Generator().manual_seed(seed)
    q, c = torch.randn(rows, 4, generator=generator).double(), torch.randn(columns, 4, generator=generator).double()
    positive = torch.arange(rows)
    excluded = torch.rand(rows, columns, generator=generator) < 0.2
    excluded[positive, positive] = False
    return q, c, positive, excluded


@given(seed=st.integers(0, 2**31), query_size=st.floats(0.01, 100), candidate_size=st.floats(0.01, 100))
def test_weights_do_not_see_norms(seed, query_size, candidate_size):
    q, c, positive, excluded = cosine_batch(seed)
    sizes = torch.linspace(0.5, candidate_size, len(c)).unsqueeze(1).double()
    one = query_weights(score_matrix(q, c, Similarity.COSINE), positive, focal=FocalConfig(), temperature=0.1, excluded=excluded)
    two = query_weights(
        score_matrix(query_size * q, sizes * c, Similarity.COSINE), positive, focal=FocalConfig(), temperature=0.1, excluded=excluded
    )
    torch.testing.assert_close(one.weights, two.weights, rtol=1e-6, atol=1e-9)


@given(seed=st.integers(0, 2**31), gamma=st.floats(0, 4))
def test_every_weighting_is_its_formula_with_mean_one(seed, gamma):
    q, c, positive, excluded = cosine_batch(seed)
    cosines = score_matrix(q, c, Similarity.COSINE)
    raw = {weighting: [] for weighting in Weighting}
    for i in range(5):
        negatives = [float(cosines[i, j]) for j in range(7) if j != i and not excluded[i, j]]
        own = float(cosines[i, i])
        rest = sum(math.exp(s / 0.1) for s in negatives)
        raw[Weighting.NONE].append(1.0)
        raw[Weighting.FOCAL].append((rest / (rest + math.exp(own / 0.1))) ** gamma)
        raw[Weighting.QUERY_POSITIVE].append(((1 - own) / 2) ** gamma)
        raw[Weighting.QUERY_NEGATIVE].append(((1 + max(negatives)) / 2) ** gamma if negatives else 0.0**gamma)
    for weighting in Weighting:
        result = query_weights(
            cosines,
            positive,
            focal=FocalConfig(weighting=weighting, gamma=gamma),
            temperature=0.1,
            excluded=excluded,
            generator=torch.Generator().manual_seed(seed),
        )
        torch.testing.assert_close(float(result.weights.mean()), 1.0)
        expected = torch.tensor(raw[Weighting.FOCAL if weighting is Weighting.RANDOM else weighting], dtype=torch.float64)
        expected = expected / expected.mean()
        if weighting is Weighting.RANDOM:
            torch.testing.assert_close(result.weights.sort().values, expected.sort().values)
        else:
            torch.testing.assert_close(result.weights, expected)


def test_random_weights_are_a_permutation_that_the_seed_fixes():
    q, c, positive, _ = cosine_batch(3, rows=20, columns=20)
    cosines = score_matrix(q, c, Similarity.COSINE)

    def draw(seed):
        focal = FocalConfig(weighting=Weighting.RANDOM)
        return query_weights(cosines, positive, focal=focal, temperature=0.1, generator=torch.Generator().manual_seed(seed)).weights

    focal = query_weights(cosines, positive, focal=FocalConfig(), temperature=0.1).weights
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert not torch.equal(draw(1), focal)


def test_what_a_rule_needs_is_asked_for():
    cosines, positive = torch.zeros(2, 2), torch.arange(2)
    with pytest.raises(InputError, match="set focal.temperature"):
        query_weights(cosines, positive, focal=FocalConfig(), temperature=None)
    with pytest.raises(InputError, match="pass a seeded torch.Generator"):
        query_weights(cosines, positive, focal=FocalConfig(weighting=Weighting.RANDOM), temperature=0.1)


@given(margin=st.floats(-8, 8), gamma=st.floats(0, 5))
def test_an_attached_weight_would_multiply_the_gradient_by_a_factor_between_one_and_one_plus_gamma(margin, gamma):
    logits = torch.tensor([[margin, 0.0]], dtype=torch.float64, requires_grad=True)
    result = infonce(logits, torch.tensor([0]))
    (attached,) = torch.autograd.grad((torch.exp(gamma * result.log_residual) * result.loss).sum(), logits, retain_graph=True)
    (detached,) = torch.autograd.grad((torch.exp(gamma * result.log_residual).detach() * result.loss).sum(), logits)
    factor = float(attached[0, 0] / detached[0, 0])
    p = 1 / (1 + math.exp(-margin))
    torch.testing.assert_close(factor, 1 + gamma * (-p * math.log(p)) / (1 - p), rtol=1e-6, atol=1e-9)
    assert 1 - 1e-9 <= factor <= 1 + gamma + 1e-6


def test_weights_carry_no_gradient_and_the_weighted_mean_is_the_formula():
    loss = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    weights = unit_mean_weights(loss.log()).weights
    assert not weights.requires_grad
    total = weighted_mean(loss, weights)
    torch.testing.assert_close(total, (loss.detach() ** 2).sum() / loss.detach().sum())
    total.backward()
    torch.testing.assert_close(loss.grad, weights / 3)
