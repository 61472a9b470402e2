"""The slope of InfoNCE against finite differences; the continuity bounds against random moves, and moves that reach their constants."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.infonce_continuity import (
    EmbeddedTuple,
    continuity_bound,
    log_power_means,
    loss_slope,
    mean_step,
    residual_bound,
    spread_bound,
)
from normwise.theory.infonce_loss import infonce_losses

seeds = st.integers(0, 10**6)
temperatures = st.sampled_from([0.01, 0.05, 0.2, 0.7, 3.0])
counts = st.sampled_from([1, 2, 5, 33])
ROUNDING = 1e-12


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def of_rows(rows):
    return EmbeddedTuple(rows[0], rows[1], rows[2:])


def two_embeddings(seed, k, *, step=None, largest_norm=None):
    """A tuple embedded twice on the sphere, or in a ball; one or more of anchor, positive and negatives moves, a little or far."""
    rng = np.random.default_rng(seed)
    width = rng.integers(2, 6)
    first = unit(rng.standard_normal((k + 2, width)))
    moves = np.array([[True, False, False], [False, True, False], [False, False, True], [True, True, True]])[rng.integers(4)]
    moves = np.concatenate([moves[:2], np.full(k, moves[2])])
    if rng.random() < 0.4:  # of the negatives only the nearest, which has most of the softmax
        moves[2:] &= np.arange(k) == np.argmax(first[2:] @ first[0])
    size = 10.0 ** rng.uniform(-3.0, 1.0) if step is None else step
    last = np.where(moves[:, None], unit(first + size * rng.standard_normal(first.shape)), first)
    if largest_norm is not None:
        first, last = first * largest_norm * rng.random((k + 2, 1)), last * largest_norm * rng.random((k + 2, 1))
    return of_rows(first), of_rows(last)


def between(start, end, at):
    return of_rows(start.rows + at * (end.rows - start.rows))


def loss(embedded, temperature):
    """Through the scores and the loss of the package; without log k, which cancels in differences."""
    scores = embedded.rows[1:] @ embedded.rows[0] / temperature
    return float(infonce_losses(scores[:1], scores[None, 1:])[0])


# --- the slope ---


@given(seeds, counts, temperatures, st.floats(0.0, 1.0))
def test_the_slope_is_the_limit_of_differences(seed, k, temperature, at):
    start, end = two_embeddings(seed, k, step=0.5)
    half = 1e-4 * min(temperature, 1.0)
    difference = (loss(between(start, end, at + half), temperature) - loss(between(start, end, at - half), temperature)) / (2.0 * half)
    assert loss_slope(start, end, temperature, at=at) == pytest.approx(difference, rel=1e-4, abs=1e-5 / temperature)


@given(seeds, counts, st.sampled_from([0.1, 0.7, 3.0]))
def test_the_slope_adds_up_to_the_change(seed, k, temperature):
    start, end = two_embeddings(seed, k)
    places, weights = np.polynomial.legendre.leggauss(60)
    slopes = [loss_slope(start, end, temperature, at=(1.0 + place) / 2.0) for place in places]
    assert np.dot(weights, slopes) / 2.0 == pytest.approx(loss(end, temperature) - loss(start, temperature), abs=1e-6 / temperature)


@given(seeds, counts, temperatures)
def test_the_slope_is_the_sum_over_pairs(seed, k, temperature):
    """The slow loop of the gradient of log(1 + sum_j e^{s_j - s_+}), pair by pair."""
    start, end = two_embeddings(seed, k)
    first, step = start.rows, end.rows - start.rows

    def score_slope(row):
        return (np.dot(step[0], first[row]) + np.dot(first[0], step[row])) / temperature

    gaps = [np.dot(first[0], first[row] - first[1]) / temperature for row in range(2, k + 2)]
    largest = max(0.0, *gaps)
    weights = [math.exp(gap - largest) for gap in gaps]
    whole = math.exp(-largest) + sum(weights)
    expected = sum(weight / whole * (score_slope(row + 2) - score_slope(1)) for row, weight in enumerate(weights))
    assert loss_slope(start, end, temperature) == pytest.approx(expected, rel=1e-9, abs=1e-9 / temperature)


# --- no bound is ever violated ---


@given(seeds, counts, temperatures)
def test_cosine_bounds_hold_and_are_ordered(seed, k, temperature):
    start, end = two_embeddings(seed, k)
    found = continuity_bound(start, end, temperature)
    assert found.change == pytest.approx(abs(loss(end, temperature) - loss(start, temperature)), abs=1e-12 / temperature)
    assert found.change <= found.bound * (1.0 + 1e-9) + ROUNDING / temperature
    assert found.bound <= found.uniform * (1.0 + 1e-12)
    assert found.uniform <= found.published * (1.0 + 1e-12)
    assert found.published <= 4.0 * found.uniform * (1.0 + 1e-12)


@given(seeds, counts, temperatures, st.sampled_from([0.3, 2.0, 20.0]))
def test_dot_product_bounds_hold(seed, k, temperature, largest_norm):
    assume(largest_norm**2 / temperature <= 4e4)
    start, end = two_embeddings(seed, k, largest_norm=largest_norm)
    found = continuity_bound(start, end, temperature, largest_norm=largest_norm)
    assert found.change <= found.bound * (1.0 + 1e-9) + ROUNDING * (1.0 + largest_norm**2 / temperature)
    assert found.bound <= found.uniform <= found.published


@given(seeds, counts, temperatures, st.floats(0.25, 4.0))
def test_lengths_and_temperature_trade(seed, k, temperature, factor):
    """Vectors f times as long at f^2 times the temperature have the same scores, so the same bounds."""
    start, end = two_embeddings(seed, k)
    one = continuity_bound(start, end, temperature)
    other = continuity_bound(of_rows(factor * start.rows), of_rows(factor * end.rows), factor**2 * temperature, largest_norm=factor)
    for name in ("change", "bound", "residual", "spread", "uniform", "published"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-10)


@given(seeds, counts, temperatures)
def test_the_way_back_is_as_long(seed, k, temperature):
    start, end = two_embeddings(seed, k)
    one, other = continuity_bound(start, end, temperature), continuity_bound(end, start, temperature)
    assert other.bound == pytest.approx(one.bound, rel=1e-9, abs=1e-14)
    assert other.change == pytest.approx(one.change, rel=1e-9, abs=1e-12 / temperature)


# --- residual and spread are bounds of a supremum ---


@given(seeds, counts, temperatures, st.sampled_from([1, 3, 32]))
def test_residual_and_spread_hold_all_along_the_way(seed, k, temperature, pieces):
    start, end = two_embeddings(seed, k)
    residual, spread = residual_bound(start, end, temperature, pieces=pieces), spread_bound(start, end, temperature, pieces=pieces)
    for at in np.linspace(0.0, 1.0, 101):
        scores = (lambda rows: rows[1:] @ rows[0] / temperature)(between(start, end, at).rows)
        assert -np.expm1(scores[0] - np.logaddexp.reduce(scores)) <= residual + 1e-12 / temperature
        assert np.ptp(scores[1:]) <= spread + 1e-12 / temperature


@given(seeds, counts, temperatures)
def test_finer_pieces_are_sharper_and_reach_the_supremum(seed, k, temperature):
    start, end = two_embeddings(seed, k)
    ways = [between(start, end, at).rows for at in np.linspace(0.0, 1.0, 513)]
    scores = np.array([rows[1:] @ rows[0] / temperature for rows in ways])
    odds = np.logaddexp.reduce(scores[:, 1:], axis=1) - scores[:, 0]
    for bound, reached in ((residual_bound, 1.0 / (1.0 + np.exp(-odds.max()))), (spread_bound, np.ptp(scores[:, 1:], axis=1).max())):
        coarse, fine = bound(start, end, temperature, pieces=1), bound(start, end, temperature, pieces=512)
        assert fine <= coarse * (1.0 + 1e-9) + 1e-13
        # Between two of 512 places a score of unit vectors moves by less than 8 / (512 tau).
        assert reached - 1e-9 <= fine <= reached + 32.0 / (512.0 * temperature)


def test_a_supremum_inside_the_way_is_not_missed():
    """Start and end are alike, but half way the anchor passes through 0: the residual is largest in the middle."""
    start, end = of_rows(np.array([[1.0], [1.0], [-1.0]])), of_rows(np.array([[-1.0], [-1.0], [1.0]]))
    assert residual_bound(start, start, 0.1) == pytest.approx(1.0 / (1.0 + math.exp(20.0)))
    assert residual_bound(end, end, 0.1) == pytest.approx(1.0 / (1.0 + math.exp(20.0)))
    assert residual_bound(start, end, 0.1, pieces=1) == pytest.approx(0.5)


@given(seeds, temperatures)
def test_confident_tuples_are_insensitive(seed, temperature):
    """Positive next to the anchor and negatives opposite: the bound falls as the residual, below the smallest that a float64 loss shows."""
    rng = np.random.default_rng(seed)
    first = np.tile([1.0, 0.0], (6, 1)) * np.array([1, 1, -1, -1, -1, -1])[:, None]
    start, end = of_rows(first), of_rows(unit(first + 0.01 * rng.standard_normal(first.shape)))
    found = continuity_bound(start, end, temperature)
    assert found.change <= found.bound
    assert found.bound <= found.uniform * 5.0 * math.exp(-1.99 / temperature)


# --- the constants cannot be lowered ---


def moved_alone(part):
    """A move of one part that its constant is reached by: straight along what it is multiplied with, at residual ~ 1."""
    small, tau, k = 1e-3, 0.5, 5000
    end = (1.0 - small**2) ** 0.5
    across = np.array([[-small, end], [small, end]])
    near, far = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    if part == "anchor":  # positive and negatives opposite, the anchor crosses between them
        ways = [(each, near, np.tile(far, (k, 1))) for each in across]
    elif part == "positive":
        ways = [(near, each, np.tile(near, (k, 1))) for each in across]
    else:
        ways = [(near, far, np.tile(each, (k, 1))) for each in across]
    return *(EmbeddedTuple(*way) for way in ways), tau, 2.0 * small


@pytest.mark.parametrize(("part", "constant"), [("anchor", 2.0), ("positive", 1.0), ("negatives", 1.0)])
def test_the_constants_two_one_one_are_reached(part, constant):
    start, end, tau, step = moved_alone(part)
    found = continuity_bound(start, end, tau)
    needed = tau * abs(loss(end, tau) - loss(start, tau)) / step
    assert needed >= 0.995 * constant
    assert needed <= constant
    assert found.bound == pytest.approx(constant * step / tau, rel=2e-3)
    assert found.published == pytest.approx({"anchor": 2.0, "positive": 1.0, "negatives": 3.0}[part] * found.uniform)


@pytest.mark.parametrize(("part", "reached"), [(0, 1.85), (1, 0.98), (2, 0.95)])
def test_a_search_reaches_the_constants(part, reached):
    """Hill climbing over small moves of one part, which knows nothing of the constants or of how they are reached."""
    rng = np.random.default_rng(part)
    k, tau, best, kept = 8, 0.1, 0.0, None
    for trial in range(1500):
        first, step = (rng.standard_normal((k + 2, 2)) for _ in range(2))
        if kept is not None and trial > 200:
            scale = 0.5 ** (trial / 200.0)
            first, step = kept[0] + scale * first, kept[1] + scale * step
        rows = slice(part, part + 1) if part < 2 else slice(2, None)
        start, end = unit(first), unit(first)
        end[rows] = unit(start[rows] + 1e-3 * step[rows])
        longest = np.linalg.norm(end - start, axis=1).max()
        found = tau * abs(loss(of_rows(end), tau) - loss(of_rows(start), tau)) / longest
        if found > best:
            best, kept = found, (first, step)
    assert reached <= best <= (2.0, 1.0, 1.0)[part] * (1.0 + 1e-9)


# --- the mean over negatives ---


@given(st.lists(st.sampled_from([0.0, 1e-3, 0.4, 2.0]), min_size=1, max_size=9), st.sampled_from([0.0, 0.5, 4.0, 200.0]))
def test_the_mean_step_is_the_least_of_the_grid(steps, spread):
    found, beta = mean_step(np.array(steps), spread, largest_exponent=2.0 * spread)
    longest = max([*steps, 1e-9])
    shares = np.array(steps) / longest
    grid = [math.exp(spread / b) * np.mean(shares**b) ** (1.0 / b) for b in range(1, max(1, math.ceil(2.0 * spread)) + 1)]
    assert found == pytest.approx(longest * min(*grid, max(shares)), rel=1e-9)
    assert beta == math.inf or beta == round(beta) >= 1


@given(seeds, counts, st.floats(0.0, 30.0))
def test_the_mean_step_bounds_the_mean_under_any_softmax(seed, k, spread):
    rng = np.random.default_rng(seed)
    steps = 10.0 ** rng.uniform(-3.0, 0.0, size=k)
    scores = spread * rng.choice([0.0, 1.0, rng.random()], size=k)
    shares = np.exp(scores) / np.exp(scores).sum()
    assert shares @ steps <= mean_step(steps, spread, largest_exponent=2.0 * spread)[0] * (1.0 + 1e-12)


def test_one_long_step_among_many_counts_as_a_share():
    """What the average over negatives is for: the bound of the longest step does not see that all others stand still."""
    rng = np.random.default_rng(0)
    first = unit(rng.standard_normal((1002, 8)))
    last = first.copy()
    last[2] = -last[2]
    found = continuity_bound(of_rows(first), of_rows(last), 1.0)
    assert found.change <= found.bound < 0.02 * 2.0
    assert found.beta == 1.0


def test_the_factor_of_the_spread_is_reached():
    """Of 5,000 negatives one scores 3 above the rest, has e^3 of their shares, and moves alone: its mean step counts e^3 times."""
    near, far, small, tau, k = np.array([1.0, 0.0]), np.array([-1.0, 0.0]), 1e-3, 1.0 / 3.0, 5000
    across = unit(np.array([[-small, 1.0], [small, 1.0]]))
    start, end = (EmbeddedTuple(near, far, np.stack([each, *[far] * (k - 1)])) for each in across)
    found = continuity_bound(start, end, tau)
    assert found.spread == pytest.approx(3.0, rel=2e-3)
    assert found.beta == 1.0
    assert found.bound == pytest.approx(math.exp(3.0) * 2.0 * small / k / tau, rel=5e-3)
    assert 0.99 * found.bound <= found.change <= found.bound


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=8), st.sampled_from([0.5, 1.0, 2.0, 7.0, 200.0]))
def test_power_means_are_their_formula_and_grow(values, exponent):
    found = log_power_means(np.array(values), np.array([exponent, exponent + 1.0, np.inf]))
    assert found[0] == pytest.approx(math.log(np.mean(np.array(values) ** exponent)) / exponent, abs=1e-9)
    assert found[0] <= found[1] + 1e-12 <= found[2] + 2e-12
    assert found[2] == pytest.approx(math.log(max(values)))


def test_power_means_of_nothing_but_zeros_and_of_huge_values():
    assert log_power_means(np.zeros(3), np.array([1.0, np.inf])).tolist() == [-np.inf, -np.inf]
    assert log_power_means(np.array([1e300, 1e-300, 0.0]), np.array([200.0]))[0] == pytest.approx(math.log(1e300) - math.log(3.0) / 200.0)


# --- limits ---


def test_nothing_moves_nothing_changes():
    start, _ = two_embeddings(3, 5)
    found = continuity_bound(start, start, 0.05)
    assert (found.change, found.bound, found.uniform, found.published) == (0.0, 0.0, 0.0, 0.0)
    assert loss_slope(start, start, 0.05) == 0.0


def test_large_scores_stay_finite():
    """Cosine at temperature .01, and dot products of 400."""
    for factor, temperature in ((1.0, 0.01), (20.0, 1.0)):
        start, end = two_embeddings(1, 9, step=5.0)
        start, end = of_rows(factor * start.rows), of_rows(factor * end.rows)
        found = continuity_bound(start, end, temperature, largest_norm=factor)
        assert 0.0 < found.change <= found.bound <= found.uniform <= found.published < 1e4
        assert abs(loss_slope(start, end, temperature, at=0.5)) <= found.bound * (1.0 + 1e-9)
    start, end = of_rows(np.array([[18.0], [18.0], [-18.0]])), of_rows(np.array([[18.0], [18.0], [-17.0]]))
    found = continuity_bound(start, end, 1.0, largest_norm=18.0)
    assert 0.0 < found.change <= found.bound < 1e-250


def test_float32_is_taken_as_it_is():
    rows = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)
    end = rows.copy()
    end[0] = -end[0]
    assert continuity_bound(of_rows(rows), of_rows(end), 0.1).change > 0.0


# --- errors ---

ONE = of_rows(np.eye(3))


@pytest.mark.parametrize(
    ("shapes", "values", "words"),
    [
        (((3,), (2,), (1, 3)), 1.0, r"shapes \(\(3,\), \(2,\), \(1, 3\)\); expected \(D,\), \(D,\) and \(k, D\)"),
        (((3,), (3,), (0, 3)), 1.0, "k at least 1"),
        (((3,), (3,), (3,)), 1.0, r"expected \(D,\), \(D,\) and \(k, D\)"),
        (((3,), (3,), (2, 3)), np.nan, "anchor holds a value that is not finite"),
    ],
)
def test_tuples_that_are_none(shapes, values, words):
    with pytest.raises(InputError, match=words):
        EmbeddedTuple(*(np.full(shape, values) for shape in shapes))


def test_errors_name_the_argument():
    with pytest.raises(InputError, match=r"temperature is 0\.0; expected a finite number above 0"):
        loss_slope(ONE, ONE, 0.0)
    with pytest.raises(InputError, match=r"start has negatives of shape \(1, 3\), end \(2, 3\); expected one tuple"):
        loss_slope(ONE, of_rows(np.ones((4, 3))), 1.0)
    with pytest.raises(InputError, match=r"a vector has norm 2; expected at most largest_norm = 1"):
        continuity_bound(ONE, of_rows(2.0 * np.eye(3)), 1.0)
    with pytest.raises(InputError, match=r"largest_norm is -1\.0; expected a finite number above 0"):
        continuity_bound(ONE, ONE, 1.0, largest_norm=-1.0)
    with pytest.raises(InputError, match="pieces is 0; expected at least 1"):
        continuity_bound(ONE, ONE, 1.0, pieces=0)
