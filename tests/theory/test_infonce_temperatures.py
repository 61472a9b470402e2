"""The same vectors at several temperatures: each is what a call of its own finds, and differences are paired."""

import numpy as np
import pytest
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.theory.infonce_temperatures import temperature_sweep


def world(seed=0, *, queries=400, pool=3000, noise=0.6, width=6):
    random = np.random.default_rng(seed)
    target = random.normal(size=(queries, width))
    asked = target + noise * random.normal(size=(queries, width))
    others = random.normal(size=(pool, width))
    return tuple(part / np.linalg.norm(part, axis=1, keepdims=True) for part in (asked, target, others))


def test_figures_are_those_of_their_definitions():
    queries, positives, pool = world()
    found = temperature_sweep(queries, positives, pool, temperature=0.2, others=[0.5, 0.2])
    assert [each.temperature for each in found] == [0.2, 0.5]
    for each in found:
        scores, own = queries @ pool.T / each.temperature, (queries * positives).sum(axis=1) / each.temperature
        total = logsumexp(scores, axis=1)
        residual = 1.0 / (1.0 + np.exp(own - total))
        np.testing.assert_allclose(each.residuals, np.quantile(residual, (0.1, 0.5, 0.9)), rtol=1e-4)
        weights = np.exp(scores - total[:, None])
        assert each.effective_negatives == pytest.approx(np.median(1.0 / (weights**2).sum(axis=1)), rel=1e-4)
        risk = np.logaddexp(-np.log(3000), total - np.log(3000) - own).mean()
        assert each.risk.value == pytest.approx(risk, abs=1e-5)


def test_the_change_against_the_own_temperature_is_paired():
    queries, positives, pool = world(1)
    found = temperature_sweep(queries, positives, pool, temperature=0.3, others=[0.25])
    near, own = found
    assert own.change is not None
    assert (own.change.value, own.change.error) == (0.0, 0.0)
    assert near.change is not None
    assert near.change.value == pytest.approx(near.cross_entropy.value - own.cross_entropy.value, abs=1e-9)
    assert near.change.error < 0.3 * np.hypot(near.cross_entropy.error, own.cross_entropy.error)


def test_the_change_over_the_pool_is_paired_and_of_queries_alone():
    queries, positives, pool = world(5, pool=400)
    near, own = temperature_sweep(queries, positives, pool, temperature=0.3, others=[0.05], masked=(np.array([2, 2]), np.array([7, 9])))
    assert near.change is None
    scores, mine = queries @ pool.T, (queries * positives).sum(axis=1)
    scores[2, [7, 9]] = -np.inf
    k = np.isfinite(scores).sum(axis=1)
    at = {tau: np.logaddexp(0.0, logsumexp(scores / tau, axis=1) - mine / tau) - np.log(k) for tau in (0.3, 0.05)}
    each = at[0.05] - at[0.3]
    assert near.pool_change.value == pytest.approx(each.mean(), abs=1e-5)
    assert near.pool_change.error == pytest.approx(each.std(ddof=1) / 20.0, rel=1e-4)
    assert (own.pool_change.value, own.pool_change.error) == (0.0, 0.0)


def test_the_least_cross_entropy_is_at_the_temperature_that_made_the_positives():
    """Positives drawn by a softmax over many points at .3: no other temperature tells them better."""
    random = np.random.default_rng(4)
    points = random.normal(size=(4000, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    queries = points[:1500]
    scores = queries @ points.T / 0.3
    chosen = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    found = temperature_sweep(queries, points[chosen], points, temperature=0.3, others=[0.15, 0.22, 0.42, 0.6])
    assert min(found, key=lambda each: each.cross_entropy.value).temperature == 0.3


def test_a_temperature_whose_limit_cannot_be_told_has_none():
    queries, positives, pool = world(2)
    cold, own = temperature_sweep(queries, positives, pool[:64], temperature=0.5, others=[0.01])
    assert cold.cross_entropy is None
    assert cold.change is None
    assert own.cross_entropy is not None


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_no_temperature_is_refused(temperature):
    queries, positives, pool = world(3, queries=3, pool=20)
    with pytest.raises(InputError, match="expected a finite number above 0"):
        temperature_sweep(queries, positives, pool, temperature=0.1, others=[temperature])
