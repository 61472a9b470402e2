"""Bounds on the gap of finite k: their equations, where they are tight, their order, and spaces that they must hold on."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.finite_space import FiniteSpace
from normwise.theory.infonce_bounds import gap_bounds, search_gap_bound, weighted_spread

seeds = st.integers(0, 10**6)
counts = st.integers(1, 10**6)
scores = st.floats(0.0, 50.0)


def two_points(share, c):
    """A query-free world: the score is c with a chance, and else -c."""
    law = np.array([share, 1.0 - share])
    return FiniteSpace(law, np.tile([c, -c], (2, 1)), np.tile(law, (2, 1)))


def spread_of(space):
    """Each point with its chance."""
    rows = np.stack([space.log_mean, space.cv2, space.scores.min(axis=1)])
    return float(sum(p * weighted_spread(*rows[:, [z]]) for z, p in enumerate(space.law)))


@given(counts, st.floats(0.0, 15.0))
def test_the_equations(k, c):
    found = gap_bounds(k, c, weighted_spread=0.75)
    assert found.low == pytest.approx(-math.log(1 + math.exp(2 * c) / k))
    assert found.published == pytest.approx((math.exp(2 * c) - 1) ** 2 / (8 * k), rel=1e-6, abs=1e-15)
    assert found.uniform == pytest.approx((math.exp(c) - 1) ** 2 / (2 * k), rel=1e-6, abs=1e-15)
    assert found.scores == 2 * c
    assert found.instance == pytest.approx(0.75 / (2 * k))
    assert found.high == min(found.published, found.uniform, found.scores, 0.75 / (2 * k))
    unknown = gap_bounds(k, c)
    assert unknown.instance is None
    assert unknown.high == min(found.published, found.uniform, found.scores)


def test_small_scores_keep_their_digits():
    """(e^c - 1)^2 / 2 = c^2 / 2 (1 + c + ...), and the published one four times as much over four."""
    found = gap_bounds(1, 1e-9)
    assert found.uniform == pytest.approx(0.5e-18, rel=1e-8)
    assert found.published == pytest.approx(0.5e-18, rel=1e-8)


# The figures that the sharper bound is announced with, times k.
@pytest.mark.parametrize(("c", "sharper", "published", "true"), [(2.0, 20.4, 359.0, 6.58), (4.0, 1436.0, 1.1e6, 372.0)])
def test_printed_figures(c, sharper, published, true):
    found = gap_bounds(1, c)
    assert found.uniform == pytest.approx(sharper, rel=2e-3)
    assert found.published == pytest.approx(published, rel=0.02)
    largest = max(float(two_points(share, c).cv2[0]) for share in np.geomspace(1e-5, 0.5, 1001)) / 2
    assert largest == pytest.approx(math.sinh(c) ** 2 / 2, rel=1e-3)
    assert largest == pytest.approx(true, rel=5e-3)
    assert 1.0 < found.uniform / largest < 4.0


@given(scores.filter(lambda c: c > 0.1))
def test_the_sharper_constant_is_never_worse(c):
    found = gap_bounds(7, c)
    assert found.uniform < found.published


@given(seeds, st.floats(0.1, 8.0))
def test_the_spread_at_hand_is_a_mean_and_never_worse_than_the_uniform_bound(seed, c):
    """Bhatia and Davis: Var <= (largest - mean)(mean - least)."""
    rng = np.random.default_rng(seed)
    space = FiniteSpace(rng.dirichlet(np.ones(4)) * 0.99 + 0.0025, rng.uniform(-c, c, size=(4, 4)), rng.dirichlet(np.ones(4), size=4))
    log_mean, cv2, least = space.log_mean, space.cv2, space.scores.min(axis=1)
    found = weighted_spread(log_mean, cv2, least)
    assert found == pytest.approx(math.fsum(v * math.exp(m - low) for m, v, low in zip(log_mean, cv2, least, strict=True)) / 4)
    assert found <= math.expm1(c) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("c", [0.5, 2.0, 6.0])
def test_the_uniform_bound_is_the_worst_spread(c):
    """Two scores, +-c, whose mean e^s is the geometric mean of the two: 1."""
    share = (1 - math.exp(-c)) / (math.exp(c) - math.exp(-c))
    space = two_points(share, c)
    assert space.log_mean == pytest.approx([0.0, 0.0], abs=1e-12)
    assert spread_of(space) == pytest.approx(math.expm1(c) ** 2)


def test_the_lower_bound_is_reached_by_negatives_that_are_all_far():
    """The positive is a rare point of score c, all negatives of chance but it have -c."""
    k, c = 8, 3.0
    rare = 1e-9
    space = FiniteSpace(np.array([rare, 1 - rare]), np.tile([c, -c], (2, 1)), np.tile([1.0, 0.0], (2, 1)))
    gap = space.cross_entropy - space.risk(k)
    low = gap_bounds(k, c).low
    assert gap >= low
    assert gap == pytest.approx(low, rel=1e-5)


def test_a_gap_of_nearly_twice_the_largest_score():
    space = two_points(0.01, 50.0)
    gap = space.cross_entropy - space.decoupled_risk(1)
    assert 0.9 < gap / gap_bounds(1, 50.0).scores <= 1.0
    assert gap_bounds(1, 50.0).high == 100.0


@given(seeds, st.integers(1, 12), st.floats(0.05, 12.0))
def test_spaces_respect_every_bound(seed, k, c):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    # Laws and positives from even to all on one point, and scores at the ends as often as between them.
    drawn = rng.uniform(-c, c, size=(n, n)) if rng.random() < 0.5 else c * rng.choice([-1.0, 1.0], size=(n, n))
    law = rng.dirichlet(np.full(n, rng.choice([0.3, 1.0, 5.0]))) * 0.999 + 0.001 / n
    positives = rng.dirichlet(np.full(n, rng.choice([0.3, 1.0, 5.0])), size=n) * 0.999 + 0.001 / n
    space = FiniteSpace(law, drawn, positives)
    found, rounding = gap_bounds(k, c, weighted_spread=spread_of(space)), 1e-11 * (1 + c)
    gap, decoupled = space.cross_entropy - space.risk(k), space.cross_entropy - space.decoupled_risk(k)
    assert found.low - rounding <= gap <= decoupled + rounding
    assert -rounding <= decoupled
    for bound in (found.published, found.uniform, found.scores, found.instance):
        assert decoupled <= bound + rounding
    search, ratio = space.search_cross_entropy(k), 1 + space.chi2
    assert abs(search - space.risk(k)) <= search_gap_bound(k, c, ratio) + rounding
    assert abs(search - space.decoupled_risk(k)) <= search_gap_bound(k, c, ratio) + found.low + rounding


@given(counts, scores, st.floats(1.0, 1e6))
def test_the_bound_of_a_search(k, c, ratio):
    expected = min(4 * c / k * ratio, 2 * c) + math.log1p(math.exp(2 * c) / k)
    assert search_gap_bound(k, c, ratio) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_divergence_without_end_leaves_the_bound_of_the_scores():
    assert search_gap_bound(10**9, 1.0, math.inf) == pytest.approx(2.0)


@given(counts, st.floats(0.01, 10.0), st.floats(1.01, 3.0))
def test_bounds_grow_with_scores_and_shrink_with_negatives(k, c, factor):
    few, many, large = gap_bounds(k, c), gap_bounds(2 * k, c), gap_bounds(k, factor * c)
    for name in ("published", "uniform"):
        assert getattr(many, name) == pytest.approx(getattr(few, name) / 2)
        assert getattr(large, name) > getattr(few, name)
    assert few.low < many.low < 0
    assert large.low < few.low
    assert large.scores > few.scores == many.scores


@pytest.mark.parametrize("c", [0.0, 400.0, 1e4, 1e300])
@pytest.mark.parametrize("k", [1, 10**6])
def test_extreme_scores_give_numbers(k, c):
    found = gap_bounds(k, c, weighted_spread=math.inf)
    assert not any(math.isnan(value) for value in dataclasses.astuple(found))
    assert found.high == min(2 * c, found.uniform)
    assert -2 * c - math.log(2) <= found.low <= 0
    assert math.isfinite(search_gap_bound(k, c, 2.0))


def test_a_spread_beyond_float64_is_infinite_and_one_within_is_not():
    wide = np.array([800.0, 0.0])
    assert weighted_spread(wide, np.array([0.0, 0.5]), np.zeros(2)) == pytest.approx(0.25)
    assert weighted_spread(wide, np.array([1e-300, 0.0]), np.zeros(2)) == pytest.approx(0.5 * math.exp(800.0 + math.log(1e-300)))
    assert weighted_spread(wide, np.ones(2), np.zeros(2)) == math.inf
    assert weighted_spread(wide, np.zeros(2), np.zeros(2)) == 0.0


@pytest.mark.parametrize("k", [0, -3])
def test_no_negative_is_refused(k):
    with pytest.raises(InputError, match=f"k is {k}; expected at least 1 negative"):
        gap_bounds(k, 1.0)
    with pytest.raises(InputError, match=f"k is {k}; expected at least 1 negative"):
        search_gap_bound(k, 1.0, 2.0)


@pytest.mark.parametrize("c", [-1.0, math.inf, math.nan])
def test_a_largest_score_that_is_none_is_refused(c):
    with pytest.raises(InputError, match=f"largest_score is {c}; expected a finite number of at least 0, such as 1 / temperature"):
        gap_bounds(1, c)


@pytest.mark.parametrize("spread", [-1e-9, math.nan])
def test_a_spread_that_is_none_is_refused(spread):
    with pytest.raises(InputError, match=f"weighted_spread is {spread}; expected at least 0, or None"):
        gap_bounds(1, 1.0, weighted_spread=spread)


@pytest.mark.parametrize("ratio", [0.99, math.nan])
def test_a_ratio_below_one_is_refused(ratio):
    with pytest.raises(InputError, match=f"squared_ratio is {ratio}; expected at least 1"):
        search_gap_bound(1, 1.0, ratio)


@pytest.mark.parametrize(
    ("log_mean", "cv2", "least", "message"),
    [
        (np.zeros(2), np.zeros(3), np.zeros(2), r"log_mean has shape \(2,\), cv2 \(3,\), least \(2,\); expected \(B,\) of each"),
        (np.zeros(2), np.zeros(2), np.zeros(1), r"least \(1,\); expected"),
        (np.empty(0), np.empty(0), np.empty(0), "B at least 1"),
        (np.zeros(2), np.array([0.0, -1.0]), np.zeros(2), "cv2 of query 1 is -1.0; expected at least 0"),
        (np.zeros(2), np.array([np.nan, 0.0]), np.zeros(2), "cv2 of query 0 is nan; expected at least 0"),
    ],
)
def test_what_has_no_spread_is_refused(log_mean, cv2, least, message):
    with pytest.raises(InputError, match=message):
        weighted_spread(log_mean, cv2, least)
