"""Estimates of risks and of their limit: against enumeration, against brute force, and in how often their intervals hold."""

import numpy as np
import pytest
from infonce_world import circle, circle_limit
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.theory.finite_space import FiniteSpace
from normwise.theory.infonce_estimates import (
    delta_cross_entropy,
    jackknife_cross_entropy,
    leave_out_means,
    risk_change,
    risk_curve,
    search_risk,
)
from normwise.theory.negative_sums import negative_sums


def drawn(seed, **world):
    queries, positives, pool, positive = circle(np.random.default_rng(seed), **world)
    return positive, negative_sums(queries, pool), (queries, positives, pool)


def test_the_curve_is_the_mean_loss_over_sets():
    positive, sums, (queries, _, pool) = drawn(0, queries=40, pool=96, temperature=0.2)
    curve, scores = risk_curve(positive, sums), queries @ pool.T
    assert curve.k.tolist() == [1, 2, 4, 8, 16, 32, 64, 96]
    for at, k in enumerate(curve.k.tolist()):
        count = sums.sets[k].shape[1]
        parts = scores[:, : count * k].reshape(40, count, k)
        gaps = logsumexp(parts, axis=2) - np.log(k) - positive[:, None]
        assert curve.risk[at] == pytest.approx(np.logaddexp(-np.log(k), gaps).mean(), abs=1e-5)
        assert curve.decoupled[at] == pytest.approx(gaps.mean(), abs=1e-5)


def test_risks_are_those_of_an_enumerable_space():
    random = np.random.default_rng(3)
    law = random.dirichlet(np.full(4, 3.0))
    points = random.normal(size=(4, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    kernel = random.dirichlet(np.full(4, 2.0), size=4)
    space = FiniteSpace(law, points @ points.T / 0.5, kernel)
    rows = random.choice(4, size=20_000, p=law)
    own = np.array([random.choice(4, p=kernel[row]) for row in rows])
    pool = points[random.choice(4, size=4096, p=law)]
    sums = negative_sums(points[rows] / 0.5, pool)
    curve = risk_curve(space.scores[rows, own], sums)
    for at, k in enumerate(curve.k.tolist()[:6]):
        assert abs(curve.risk[at] - space.risk(k)) < 4.0 * curve.risk_error[at]
        assert abs(curve.decoupled[at] - space.decoupled_risk(k)) < 4.0 * curve.decoupled_error[at]
    limit = jackknife_cross_entropy(space.scores[rows, own], sums)
    assert abs(limit.value - space.cross_entropy) < 4.0 * limit.error


def test_the_jackknife_is_the_one_of_the_textbook():
    positive, sums, (queries, _, pool) = drawn(1, queries=15, pool=40, temperature=0.2)
    scores, m = queries @ pool.T, 40
    values = []
    for row in scores:
        whole = logsumexp(row) - np.log(m)
        without = [logsumexp(np.delete(row, at)) - np.log(m - 1) for at in range(m)]
        values.append(m * whole - (m - 1) * np.mean(without))
    expected = np.mean(np.array(values) - positive)
    assert jackknife_cross_entropy(positive, sums).value == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("pool", [16, 64, 256])
def test_the_jackknife_is_nearer_to_the_limit_than_the_risk(pool):
    truth, errors = circle_limit(temperature=0.2), []
    for seed in range(40):
        positive, sums, _ = drawn([seed, pool], queries=1000, pool=pool, temperature=0.2)
        found = jackknife_cross_entropy(positive, sums).value, risk_curve(positive, sums).risk[-1], delta_cross_entropy(positive, sums)
        errors.append(np.array(found) - truth)
    bias = np.abs(np.mean(errors, axis=0))
    assert bias[0] < bias[1] / 2.0
    assert bias[2] < bias[1]


@pytest.mark.parametrize(("lean", "pool"), [(0.0, 256), (2.0, 64)])
def test_intervals_hold_the_limit_as_often_as_they_say(lean, pool):
    """The draw of a pool that all queries share is in them: without it, far fewer would hold."""
    truth, held, narrow = circle_limit(temperature=0.2, lean=lean), 0, 0
    for seed in range(150):
        positive, sums, _ = drawn([seed, 5], queries=1000, pool=pool, temperature=0.2, lean=lean)
        found = jackknife_cross_entropy(positive, sums)
        low, high = found.interval()
        held += low <= truth <= high
        half = 1.96 * (sums.log_mean - positive).std() / np.sqrt(1000)
        narrow += abs(found.value - truth) <= half
    assert held >= 135
    if lean:
        assert narrow < held


def test_steps_are_differences_of_the_curve_with_less_error_than_they_would_have_apart():
    positive, sums, _ = drawn(2, queries=500, pool=4096, temperature=0.2)
    curve = risk_curve(positive, sums)
    np.testing.assert_allclose(curve.step, np.diff(curve.risk), atol=1e-12)
    apart = np.hypot(curve.risk_error[1:], curve.risk_error[:-1])
    assert (curve.step_error[:5] < apart[:5]).all()
    assert risk_change(positive, sums, 1, 4).value == pytest.approx(curve.risk[2] - curve.risk[0])


def test_a_search_over_as_many_as_the_curve_has_is_that_of_the_curve():
    positive, sums, _ = drawn(4, queries=2000, pool=8192, temperature=0.5)
    curve = risk_curve(positive, sums)
    at = curve.k.tolist().index(1024)
    assert search_risk(positive, sums, 1024).value == pytest.approx(curve.risk[at], abs=2e-3)
    assert search_risk(positive, sums, 10**9).value == pytest.approx(jackknife_cross_entropy(positive, sums).value, abs=1e-6)
    with pytest.raises(InputError, match="candidates is 0"):
        search_risk(positive, sums, 0)


def test_one_negative_and_equal_scores_have_plain_answers():
    sums = negative_sums(np.zeros((3, 2)), np.ones((1, 2)))
    assert jackknife_cross_entropy(np.zeros(3), sums).value == 0.0
    assert np.isnan(jackknife_cross_entropy(np.zeros(3), sums).error)
    curve = risk_curve(np.zeros(3), negative_sums(np.zeros((3, 2)), np.ones((64, 2))))
    np.testing.assert_allclose(curve.risk, np.log1p(1.0 / curve.k), atol=1e-6)
    assert (curve.risk_error < 1e-9).all()


def test_left_out_tiles_are_the_pool_without_them():
    positive, sums, (queries, _, pool) = drawn(6, queries=30, pool=64, temperature=0.3)
    scores, tile = queries @ pool.T, 64 // sums.tiles.shape[1]
    found = leave_out_means(positive, sums)
    for at in range(sums.tiles.shape[1]):
        rest = np.delete(scores, np.arange(at * tile, (at + 1) * tile), axis=1)
        assert found[at] == pytest.approx((logsumexp(rest, axis=1) - np.log(rest.shape[1]) - positive).mean(), abs=1e-5)


def test_scores_of_other_queries_are_refused():
    positive, sums, _ = drawn(0, queries=4, pool=8, temperature=0.2)
    with pytest.raises(InputError, match="positive has shape"):
        risk_curve(positive[:2], sums)


def test_a_limit_that_is_exact_but_for_rounding_lies_in_its_interval():
    found = jackknife_cross_entropy(np.zeros(60), negative_sums(np.zeros((60, 8)), np.random.default_rng(0).normal(size=(700, 8))))
    low, high = found.interval()
    assert low <= 0.0 <= high
    assert high - low < 2e-5


@pytest.mark.parametrize("above", [30.0, 60.0, 200.0])
def test_what_is_left_beside_a_tile_far_above_is_the_others(above):
    q, n = np.ones((1, 1)), np.zeros((64, 1))
    n[40] = above
    found = leave_out_means(np.zeros(1), negative_sums(q, n))
    tile = 64 // found.size
    np.testing.assert_allclose(found[40 // tile], 0.0, atol=1e-6)
    np.testing.assert_allclose(np.delete(found, 40 // tile), above - np.log(64 - tile), rtol=1e-6)
