"""Log odds in a softmax against exact arithmetic, their slopes against differences, and Newton inside its box."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from normwise.theory.bounded_newton import bounded_newton
from normwise.theory.first_place import CERTAIN, log_odds, log_odds_slopes, probability, rivals


@given(seed=st.integers(0, 999), depth=st.integers(2, 9), inverse=st.floats(1e-3, 50.0))
def test_log_odds_of_any_place_are_those_of_the_softmax(seed, depth, inverse):
    rng = np.random.default_rng(seed)
    keys, places = rng.normal(size=(4, depth)), rng.integers(depth, size=4)
    odds = log_odds(rivals(keys, places), np.full(4, inverse))
    for row, place in enumerate(places):
        z = inverse * keys[row]
        assert odds[row] == pytest.approx(z[place] - logsumexp(np.delete(z, place)), abs=1e-10)


def test_tiny_doubt_keeps_its_digits():
    """1 - p of 3e-18 is lost in a softmax in float64; here it is exact."""
    odds = log_odds(rivals(np.array([[40.0, 0.0]]), np.array([0])), np.ones(1))
    assert odds[0] == 40.0


def test_slopes_are_differences_of_the_log_odds():
    rng = np.random.default_rng(0)
    gaps, inverse, step = rivals(rng.normal(size=(50, 7)), np.zeros(50, dtype=np.int64)), rng.uniform(0.1, 9, size=50), 1e-4
    value, slope, curvature = log_odds_slopes(gaps, inverse)
    up, down = log_odds(gaps, inverse + step), log_odds(gaps, inverse - step)
    np.testing.assert_allclose(value, log_odds(gaps, inverse), atol=1e-12)
    np.testing.assert_allclose(slope, (up - down) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(curvature, (up - 2 * value + down) / step**2, atol=1e-5)


def test_a_hit_that_is_out_of_the_race_is_no_hit():
    keys = np.array([[2.0, -np.inf, 1.0], [1.0, -np.inf, -np.inf]])
    gaps = rivals(keys, np.zeros(2, dtype=np.int64))
    odds, slope, curvature = log_odds_slopes(gaps, np.full(2, 3.0))
    assert odds[0] == 3.0
    assert slope[0] == 1.0
    assert curvature[0] == 0.0
    assert probability(odds, np.ones(2, dtype=bool))[1] == 1.0 - CERTAIN
    assert gaps.mean_gap == 1.0, "only the one rival that races"


def test_mean_gap_is_the_mean_over_all_pairs():
    keys = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, -1.0]])
    wanted = Fraction(2 + 1 + 0 + 2, 4)
    assert rivals(keys, np.zeros(2, dtype=np.int64)).mean_gap == float(wanted)


def test_newton_walks_out_of_a_region_that_bends_the_wrong_way():
    """Rosenbrock's valley: the Hessian has a negative eigenvalue on the way."""

    def valley(x):
        a, b = x
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        gradient = np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])
        return float(value), gradient, np.array([[2 - 400 * b + 1200 * a * a, -400 * a], [-400 * a, 200.0]])

    box = np.full(2, -5.0), np.full(2, 5.0)
    point, value = bounded_newton(valley, np.array([-1.0, 2.5]), low=box[0], high=box[1])
    np.testing.assert_allclose(point, 1.0, atol=1e-3)
    assert value < 1e-8


def test_newton_goes_down_where_the_function_bends_the_wrong_way():
    """-cos near its top: plain Newton would climb to it; the same length of step the other way finds the valley."""
    seen = []

    def wave(x):
        seen.append(float(x[0]))
        return float(-np.cos(x[0])), np.sin(x), np.cos(x)[:, None]

    point, value = bounded_newton(wave, np.array([2.6]), low=np.array([-9.0]), high=np.array([9.0]))
    assert seen[1] == pytest.approx(2.6 + np.tan(2.6))
    assert point[0] == pytest.approx(0.0, abs=1e-6)
    assert value == -1.0


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_at_an_edge_the_other_numbers_still_find_their_best(side):
    """A tilted bowl around (3, 1): on the line x = 2 its lowest point is y = 1.75, where no step towards (3, 1) leads."""
    bend = np.array([[2.0, 1.5], [1.5, 2.0]])

    def bowl(x):
        away = x - side * np.array([3.0, 1.0])
        return float(away @ bend @ away) / 2, bend @ away, bend

    point, _ = bounded_newton(bowl, np.zeros(2), low=np.full(2, -2.0), high=np.full(2, 2.0))
    np.testing.assert_allclose(point, side * np.array([2.0, 1.75]), atol=1e-4)


@given(center=st.lists(st.floats(-9, 9), min_size=1, max_size=3), start=st.floats(-2, 2))
def test_newton_ends_at_the_nearest_point_of_the_box(center, start):
    goal = np.array(center)
    low, high = np.full(goal.size, -2.0), np.full(goal.size, 2.0)
    point, _ = bounded_newton(
        lambda x: (float(((x - goal) ** 2).sum()), 2 * (x - goal), 2 * np.eye(x.size)), np.full(goal.size, start), low=low, high=high
    )
    np.testing.assert_allclose(point, np.clip(goal, low, high), atol=1e-4)
