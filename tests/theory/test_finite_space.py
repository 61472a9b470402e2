"""Risks of a finite space against sums over every tuple, sampled tuples, identities and limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory import finite_space
from normwise.theory.finite_space import FiniteSpace, count_vectors
from normwise.theory.infonce_loss import decoupled_losses, infonce_losses

seeds = st.integers(0, 10**6)
negatives = st.integers(1, 4)


def a_space(seed, *, n=3, spread=1.5):
    rng = np.random.default_rng(seed)
    return FiniteSpace(rng.dirichlet(np.full(n, 2.0)), spread * rng.normal(size=(n, n)), rng.dirichlet(np.ones(n), size=n))


def every_tuple(space, k):
    """Each z, z+ and k negatives with its chance."""
    points = range(space.law.size)
    for z, plus in itertools.product(points, repeat=2):
        for draws in itertools.product(points, repeat=k):
            yield space.law[z] * space.positives[z, plus] * math.prod(space.law[j] for j in draws), z, plus, draws


def slow_risk(space, k):
    s = space.scores
    return math.fsum(
        chance * math.log(1 / k + math.fsum(math.exp(s[z, j] - s[z, plus]) for j in draws) / k)
        for chance, z, plus, draws in every_tuple(space, k)
    )


def slow_decoupled_risk(space, k):
    s = space.scores
    return math.fsum(
        chance * math.log(math.fsum(math.exp(s[z, j] - s[z, plus]) for j in draws) / k) for chance, z, plus, draws in every_tuple(space, k)
    )


def slow_search_cross_entropy(space, m):
    """Cross-entropy of two laws on the m places of a draw, each relative to the uniform one."""
    total = []
    for z in range(space.law.size):
        for draws in itertools.product(range(space.law.size), repeat=m):
            chance = space.law[z] * math.prod(space.law[j] for j in draws)
            weights = [space.positives[z, j] / space.law[j] for j in draws]
            found = [math.exp(space.scores[z, j]) for j in draws]
            total += [chance * w / sum(weights) * -math.log(f / sum(found) * m) for w, f in zip(weights, found, strict=True)]
    return math.fsum(total)


def slow_cross_entropy(space):
    """E_z sum_z+ M(z, z+) * -log of the density of softmax search over all points."""
    total = []
    for z, law in enumerate(space.law):
        mean = math.fsum(p * math.exp(s) for p, s in zip(space.law, space.scores[z], strict=True))
        total += [-law * m * math.log(math.exp(s) / mean) for m, s in zip(space.positives[z], space.scores[z], strict=True)]
    return math.fsum(total)


def figures(space, k):
    """All that a space tells."""
    found = [space.risk(k), space.decoupled_risk(k), space.search_cross_entropy(k), space.cross_entropy, space.information, space.chi2]
    return np.array([*found, float(space.law @ space.cv2)])


@given(seeds, negatives)
def test_risks_are_sums_over_every_tuple(seed, k):
    space = a_space(seed)
    assert space.risk(k) == pytest.approx(slow_risk(space, k), abs=1e-11)
    assert space.decoupled_risk(k) == pytest.approx(slow_decoupled_risk(space, k), abs=1e-11)


@given(seeds, negatives)
def test_the_search_cross_entropy_is_a_sum_over_every_draw(seed, m):
    space = a_space(seed)
    assert space.search_cross_entropy(m) == pytest.approx(slow_search_cross_entropy(space, m), abs=1e-11)


@given(seeds)
def test_what_a_space_tells_of_its_laws(seed):
    space = a_space(seed)
    assert space.cross_entropy == pytest.approx(slow_cross_entropy(space), abs=1e-12)
    law, scores, positives = space.law, space.scores, space.positives
    for z in range(3):
        weights = np.exp(scores[z])
        mean = weights @ law
        assert space.log_mean[z] == pytest.approx(np.log(mean))
        assert space.density[z] == pytest.approx(weights / mean)
        assert space.density[z] @ law == pytest.approx(1.0)
        assert space.cv2[z] == pytest.approx((weights**2 @ law - mean**2) / mean**2)
    pairs = list(itertools.product(range(3), repeat=2))
    assert space.information == pytest.approx(math.fsum(law[z] * positives[z, y] * math.log(positives[z, y] / law[y]) for z, y in pairs))
    assert space.chi2 == pytest.approx(math.fsum(law[z] * positives[z, y] ** 2 / law[y] for z, y in pairs) - 1.0, abs=1e-12)


def test_sampled_tuples_have_these_risks():
    space, k, count = a_space(7, n=4), 20, 100_000
    rng = np.random.default_rng(0)
    z = rng.choice(4, p=space.law, size=count)
    plus = (rng.random(count)[:, None] > np.cumsum(space.positives, axis=1)[z, :3]).sum(axis=1)
    drawn = rng.choice(4, p=space.law, size=(count, k))
    positive, others = space.scores[z, plus], space.scores[z[:, None], drawn]
    for losses, risk in ((infonce_losses(positive, others), space.risk(k)), (decoupled_losses(positive, others), space.decoupled_risk(k))):
        assert abs(losses.mean() - risk) < 4.0 * losses.std() / math.sqrt(count)


@given(seeds, st.floats(0.0, 20.0))
def test_the_information_bounds_the_cross_entropy(seed, spread):
    space = a_space(seed, spread=spread)
    assert space.cross_entropy >= -space.information - 1e-12


@given(seeds)
def test_the_best_encoder_reaches_the_information(seed):
    """Whatever is added to the scores of a row; any other change is a loss."""
    space = a_space(seed)
    best = FiniteSpace.at_optimum(space.law, space.positives)
    assert best.density * space.law == pytest.approx(space.positives)
    assert best.cross_entropy == pytest.approx(-space.information, abs=1e-12)
    rows = np.random.default_rng(seed).normal(size=(3, 1))
    assert FiniteSpace(space.law, best.scores + 10 * rows, space.positives).cross_entropy == pytest.approx(-space.information, abs=1e-12)
    off = FiniteSpace(space.law, best.scores + 0.5 * np.eye(3), space.positives)
    assert off.cross_entropy > -space.information + 1e-6


@given(seeds, negatives, st.floats(0.0, 50.0))
def test_a_risk_has_its_floor_and_its_order(seed, k, spread):
    """-log k <= R_k; the positive in the denominator adds to every loss; Jensen: DCL risks rise with k to H."""
    space = a_space(seed, spread=spread)
    rounding = 1e-11 * (1.0 + spread)
    risk, decoupled = space.risk(k), space.decoupled_risk(k)
    assert risk >= max(-math.log(k), decoupled) - rounding
    assert decoupled <= space.decoupled_risk(k + 1) + rounding
    assert decoupled <= space.cross_entropy + rounding


@given(seeds, st.integers(1, 60), st.floats(-500.0, 500.0))
def test_equal_scores_tell_nothing(seed, k, level):
    space = a_space(seed)
    flat = FiniteSpace(space.law, np.full((3, 3), level), space.positives)
    assert flat.risk(k) == pytest.approx(math.log1p(1 / k), rel=1e-10)
    assert [flat.decoupled_risk(k), flat.search_cross_entropy(k), flat.cross_entropy, *flat.cv2] == pytest.approx([0.0] * 6, abs=1e-10)


@given(seeds, negatives)
def test_a_term_of_the_query_alone_changes_nothing(seed, k):
    space = a_space(seed)
    rows = 30.0 * np.random.default_rng(seed + 1).normal(size=(3, 1))
    assert figures(FiniteSpace(space.law, space.scores + rows, space.positives), k) == pytest.approx(figures(space, k), abs=1e-10)


@given(seeds, negatives, st.permutations(range(4)))
def test_the_names_of_points_change_nothing(seed, k, order):
    space = a_space(seed, n=4)
    named = FiniteSpace(space.law[order], space.scores[np.ix_(order, order)], space.positives[np.ix_(order, order)])
    assert figures(named, k) == pytest.approx(figures(space, k), abs=1e-11)


@given(seeds, negatives, st.floats(0.05, 0.95))
def test_a_point_in_two_halves_is_one_point(seed, k, share):
    space = a_space(seed)
    twice = [0, 1, 2, 2]
    parts = np.array([1.0, 1.0, share, 1.0 - share])
    split = FiniteSpace(space.law[twice] * parts, space.scores[np.ix_(twice, twice)], space.positives[np.ix_(twice, twice)] * parts)
    assert figures(split, k) == pytest.approx(figures(space, k), abs=1e-11)


def test_many_negatives_reach_the_cross_entropy():
    space = a_space(1, n=2)
    gaps = [[found - space.cross_entropy for found in (space.risk(k), space.decoupled_risk(k))] for k in (1_000, 10_000, 100_000)]
    assert np.abs(gaps[2]) == pytest.approx(np.zeros(2), abs=5e-5)
    assert np.array(gaps[0]) / np.array(gaps[1]) == pytest.approx(np.full(2, 10.0), rel=0.01)
    assert abs(space.search_cross_entropy(100_000) - space.cross_entropy) < 5e-5


def test_one_point_is_always_found():
    space = FiniteSpace(np.ones(1), np.full((1, 1), 3.0), np.ones((1, 1)))
    assert space.cross_entropy == 0.0
    assert space.risk(4) == pytest.approx(math.log(5 / 4))


@pytest.mark.parametrize("size", [100.0, 400.0])
def test_scores_of_short_temperatures_and_long_vectors(size):
    """Two points of scores +-c: every expectation has a closed form, where e^{2c} does not fit in float64."""
    law, scores = np.full(2, 0.5), size * np.array([[1.0, -1.0], [-1.0, 1.0]])
    good, bad = FiniteSpace(law, scores, np.eye(2)), FiniteSpace(law, scores, np.eye(2)[::-1])
    assert good.cross_entropy == pytest.approx(math.log(0.5))
    assert bad.cross_entropy == pytest.approx(2 * size + math.log(0.5))
    assert good.risk(1) == pytest.approx(0.5 * math.log(2.0))
    assert bad.risk(1) == pytest.approx(0.5 * (2 * size + math.log(2.0)))
    assert good.decoupled_risk(1) == pytest.approx(-size)
    assert good.cv2 == pytest.approx([1.0, 1.0])
    mixed = FiniteSpace(law, scores, np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert np.isfinite(figures(mixed, 8)).all()


@pytest.mark.parametrize("scale", [1e-3, 1e-7])
def test_the_spread_of_nearly_equal_scores_keeps_its_digits(scale):
    """cv2 = Var(s) + O(s^3)."""
    space = a_space(2)
    scores = scale * space.scores
    variance = (scores - (scores @ space.law)[:, None]) ** 2 @ space.law
    assert FiniteSpace(space.law, 100.0 + scores, space.positives).cv2 == pytest.approx(variance, rel=1e-6 + 10 * scale, abs=0)


@given(st.integers(1, 6), st.integers(1, 4))
def test_counts_are_all_ways_to_draw(k, points):
    found = count_vectors(k, points)
    ways = {tuple(draws.count(point) for point in range(points)) for draws in itertools.product(range(points), repeat=k)}
    assert [tuple(row) for row in found.tolist()] == sorted(ways)


def test_the_largest_enumeration(monkeypatch):
    assert len(count_vectors(96, 4)) == 156_849
    with pytest.raises(InputError, match="10000000 draws fall on 2 points in more than 10,000,000 ways; take fewer draws or fewer points"):
        count_vectors(10_000_000, 2)
    with pytest.raises(InputError, match="1000 draws fall on 1000 points in more than 20,000 ways"):
        FiniteSpace(np.full(1000, 0.001), np.zeros((1000, 1000)), np.full((1000, 1000), 0.001)).risk(1000)
    monkeypatch.setattr(finite_space, "MOST_COUNTS", 30)
    assert count_vectors(3, 3).size == 30
    with pytest.raises(InputError, match="4 draws fall on 3 points in more than 10 ways"):
        count_vectors(4, 3)


@pytest.mark.parametrize(("k", "points"), [(0, 2), (-1, 2), (2, 0)])
def test_no_draw_is_refused(k, points):
    with pytest.raises(InputError, match=f"k is {k}, points is {points}; expected at least 1 draw on at least 1 point"):
        count_vectors(k, points)


@pytest.mark.parametrize("name", ["risk", "decoupled_risk", "search_cross_entropy"])
def test_risks_without_negatives_are_refused(name):
    with pytest.raises(InputError, match="k is 0, points is 3; expected at least 1 draw"):
        getattr(a_space(0), name)(0)


EVEN, FLAT = np.full(2, 0.5), np.zeros((2, 2))


@pytest.mark.parametrize(
    ("law", "scores", "positives", "message"),
    [
        (np.full((2, 1), 0.5), FLAT, np.eye(2), r"law has shape \(2, 1\); expected \(n,\) for law"),
        (np.empty(0), np.empty((0, 0)), np.empty((0, 0)), r"law has shape \(0,\); expected .* n at least 1"),
        (EVEN, np.zeros((2, 3)), np.eye(2), r"scores has shape \(2, 3\)"),
        (EVEN, FLAT, np.ones(2), r"positives has shape \(2,\)"),
        (EVEN, np.array([[0.0, np.inf], [0.0, 0.0]]), np.eye(2), r"scores is inf at \(0, 1\); expected finite values"),
        (np.array([0.5, np.nan]), FLAT, np.eye(2), r"law is nan at \(1,\)"),
        (np.array([1.0, 0.0]), FLAT, np.eye(2), "law sums to 1, its least value is 0; expected values above 0 of sum 1"),
        (np.array([0.5, 0.6]), FLAT, np.eye(2), "law sums to 1.1, its least value is 0.5"),
        (EVEN, FLAT, np.array([[0.5, 0.5], [1.5, -0.5]]), "positives: row 1 sums to 1, its least value is -0.5; expected"),
        (EVEN, FLAT, np.array([[0.5, 0.4], [0.5, 0.5]]), "positives: row 0 sums to 0.9, .* divide each row by its sum"),
    ],
)
def test_what_is_no_space_is_refused(law, scores, positives, message):
    with pytest.raises(InputError, match=message):
        FiniteSpace(law, scores, positives)


def test_positives_of_probability_0_have_no_best_score_and_no_ideal_search():
    with pytest.raises(InputError, match=r"positives is 0 at \(0, 1\); the score of the best encoder, log dM/dpi, is not defined there"):
        FiniteSpace.at_optimum(EVEN, np.eye(2))
    with pytest.raises(InputError, match=r"positives is 0 at \(0, 1\); the ideal search over m points is not defined there"):
        FiniteSpace(EVEN, FLAT, np.eye(2)).search_cross_entropy(3)
    with pytest.raises(InputError, match=r"positives has shape \(2, 3\)"):
        FiniteSpace.at_optimum(EVEN, np.full((2, 3), 1 / 3))
    assert FiniteSpace(EVEN, FLAT, np.eye(2)).information == pytest.approx(math.log(2.0))
