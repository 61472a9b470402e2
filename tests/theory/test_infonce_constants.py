"""Constants of 1/k: against slow sums, their closed form at the optimum, and where float64 ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.finite_space import FiniteSpace
from normwise.theory.infonce_constants import decoupled_constant, leading_constants, risk_constant

seeds = st.integers(0, 10**6)
NONE = np.zeros(2)


def a_space(seed, *, n=4):
    rng = np.random.default_rng(seed)
    return FiniteSpace(rng.dirichlet(np.full(n, 2.0)), rng.normal(size=(n, n)), rng.dirichlet(np.ones(n), size=n))


@given(seeds)
def test_constants_are_sums_over_the_points(seed):
    space = a_space(seed)
    law, scores, kernel, points = space.law, space.scores, space.positives, range(4)
    spread = weight = search = 0.0
    for z in points:
        mean = math.fsum(law[y] * math.exp(scores[z, y]) for y in points)
        spread += law[z] * math.fsum(law[y] * (math.exp(scores[z, y]) - mean) ** 2 for y in points) / mean**2
        weight += law[z] * math.fsum(kernel[z, y] * math.exp(scores[z, y]) / mean for y in points)
        ratio = [kernel[z, y] / law[y] for y in points]
        product = math.fsum(kernel[z, y] * ratio[y] * scores[z, y] for y in points)
        means = [math.fsum(kernel[z, y] * value[y] for y in points) for value in (ratio, scores[z])]
        search += law[z] * (product - means[0] * means[1])
    found = leading_constants(space)
    assert found.decoupled == pytest.approx(spread / 2)
    assert found.risk == pytest.approx(spread / 2 - weight)
    assert found.search == pytest.approx(search, abs=1e-10)


@given(seeds)
def test_samples_that_are_the_space_give_its_constants(seed):
    """Points of one chance, each with one positive, make queries of one weight."""
    rng = np.random.default_rng(seed)
    law, plus = np.full(4, 0.25), rng.integers(0, 4, size=4)
    space = FiniteSpace(law, rng.normal(size=(4, 4)), np.eye(4)[plus])
    exact, positive = leading_constants(space), space.scores[np.arange(4), plus]
    assert decoupled_constant(space.cv2) == pytest.approx(exact.decoupled)
    assert risk_constant(space.cv2, positive, space.log_mean) == pytest.approx(exact.risk)


def test_sampled_queries_estimate_the_constants():
    space, count = a_space(5), 50_000
    rng = np.random.default_rng(0)
    z = rng.choice(4, p=space.law, size=count)
    plus = (rng.random(count)[:, None] > np.cumsum(space.positives, axis=1)[z, :3]).sum(axis=1)
    each = space.cv2[z] / 2 - np.exp(space.scores[z, plus] - space.log_mean[z])
    found = risk_constant(space.cv2[z], space.scores[z, plus], space.log_mean[z])
    assert found == pytest.approx(each.mean())
    assert abs(found - leading_constants(space).risk) < 4 * each.std() / math.sqrt(count)


@given(seeds)
def test_at_the_optimum_both_follow_from_one_divergence(seed):
    space = a_space(seed)
    best = leading_constants(FiniteSpace.at_optimum(space.law, space.positives))
    assert best.decoupled == pytest.approx(space.chi2 / 2)
    assert best.risk == pytest.approx(-(1 + space.chi2 / 2))


@given(seeds)
def test_a_term_of_the_query_alone_changes_no_constant(seed):
    space = a_space(seed)
    rows = 100.0 * np.random.default_rng(seed).normal(size=(4, 1))
    moved, exact = leading_constants(FiniteSpace(space.law, space.scores + rows, space.positives)), leading_constants(space)
    assert [moved.risk, moved.decoupled, moved.search] == pytest.approx([exact.risk, exact.decoupled, exact.search], rel=1e-10, abs=1e-10)


def test_equal_scores_lose_one_count():
    """R_k = log(1 + 1/k), so that k (H - R_k) -> -1, and 0 where log(k + 1) is taken off."""
    assert risk_constant(NONE, NONE, NONE) == pytest.approx(-1.0)
    assert risk_constant(NONE, NONE, NONE, log_of="k+1") == pytest.approx(0.0)
    assert decoupled_constant(NONE) == 0.0


@pytest.mark.parametrize("k", [1_000, 100_000])
def test_the_log_that_is_taken_off_moves_the_constant_by_one(k):
    space = a_space(3, n=2)
    gap = space.cross_entropy - space.risk(k)
    positive, cv2, log_mean = np.zeros(1), np.array([0.5]), np.zeros(1)
    moved = risk_constant(cv2, positive, log_mean, log_of="k+1") - risk_constant(cv2, positive, log_mean)
    # Less log(k + 1) in place of log k, each loss is log((k + 1) / k) lower.
    assert k * (gap + math.log1p(1 / k)) - k * gap == pytest.approx(moved, abs=1 / k)


@given(
    st.lists(
        st.tuples(st.one_of(st.floats(0.0, 1e308), st.just(math.inf)), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=5
    )
)
def test_no_constant_is_nan(rows):
    cv2, positive, log_mean = np.array(rows, dtype=np.float64).T
    found = risk_constant(cv2, positive, log_mean)
    assert not math.isnan(found)
    assert not math.isnan(decoupled_constant(cv2))
    if np.isinf(cv2).any():
        assert found == math.inf


@pytest.mark.parametrize(
    ("cv2", "distance", "expected"),
    [
        (0.0, 800.0, -math.inf),
        (math.inf, 800.0, math.inf),
        (math.inf, 0.0, math.inf),
        (1e308, 709.0, 0.5e308 - math.exp(709.0)),
        (2.0, 0.0, 0.0),
        (1e-300, -700.0, 0.5e-300 - math.exp(-700.0)),
    ],
)
def test_where_float64_ends(cv2, distance, expected):
    found = risk_constant(np.full(3, cv2), np.full(3, 400.0 + distance), np.full(3, 400.0))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-310 if abs(expected) < 1e-200 else 1e-12)


def test_a_mean_of_large_spreads_stays_finite():
    assert decoupled_constant(np.full(4, 1e308)) == pytest.approx(0.5e308)


@pytest.mark.parametrize(
    ("cv2", "positive", "log_mean", "message"),
    [
        (np.zeros(2), np.zeros(3), np.zeros(2), r"cv2 has shape \(2,\), positive \(3,\), log_mean \(2,\); expected \(B,\) of each"),
        (np.empty(0), np.empty(0), np.empty(0), r"cv2 holds no query; expected \(B,\) values of at least 0"),
        (np.array([0.0, -1e-9]), NONE, NONE, "cv2 of query 1 is -1e-09; expected"),
        (np.array([np.nan, 0.0]), NONE, NONE, "cv2 of query 0 is nan; expected"),
        (NONE, np.array([0.0, np.inf]), NONE, "scores of query 1 are not finite: positive inf, log_mean 0.0; check the vectors"),
        (NONE, NONE, np.array([-np.inf, 0.0]), "scores of query 0 are not finite: positive 0.0, log_mean -inf"),
    ],
)
def test_what_has_no_constant_is_refused(cv2, positive, log_mean, message):
    with pytest.raises(InputError, match=message):
        risk_constant(cv2, positive, log_mean)


def test_a_spread_is_checked_alone_too():
    with pytest.raises(InputError, match="cv2 of query 1 is nan"):
        decoupled_constant(np.array([0.0, np.nan]))
