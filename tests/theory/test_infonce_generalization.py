"""What bounds the InfoNCE risk, against worlds where it is a finite sum: gaps of finite k, classes of encoders, certificates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.finite_space import FiniteSpace
from normwise.theory.infonce_bounds import gap_bounds, search_gap_bound, weighted_spread
from normwise.theory.infonce_continuity import EmbeddedTuple, continuity_bound
from normwise.theory.infonce_generalization import (
    EncoderClass,
    bernstein_certificate,
    complexity_bound,
    gap_bound,
    hoeffding_certificate,
    input_scale,
    loss_lipschitz,
    loss_range,
)
from normwise.theory.infonce_loss import infonce_losses

seeds = st.integers(0, 10**6)


def any_space(seed, c):
    """2..4 points, laws and positives from even to nearly one point, scores of at most c: any, or only the two ends."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    law, positives = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1, 1))), rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1, 1)), size=n)
    law, positives = (law + 1e-6) / (1.0 + n * 1e-6), (positives + 1e-9) / (1.0 + n * 1e-9)
    scores = c * (rng.choice([-1.0, 1.0], size=(n, n)) if rng.random() < 0.5 else rng.uniform(-1.0, 1.0, size=(n, n)))
    return FiniteSpace(law, scores, positives)


def spread_of(space):
    rows = zip(space.log_mean, space.cv2, space.scores.min(axis=1), strict=True)
    return float(sum(p * weighted_spread(*(np.array([value]) for value in row)) for p, row in zip(space.law, rows, strict=True)))


# --- the gap of finite k: proposition 1, ours, proposition 2 ---


@given(seeds, st.integers(1, 12), st.floats(0.01, 12.0))
def test_no_bound_on_the_gap_of_the_risk_is_violated(seed, k, c):
    space = any_space(seed, c)
    bounds = gap_bounds(k, c, weighted_spread=spread_of(space))
    rounding = 1e-11 * (1.0 + c)
    coupled, decoupled = space.cross_entropy - space.risk(k), space.cross_entropy - space.decoupled_risk(k)
    assert bounds.low - rounding <= coupled <= decoupled + rounding
    assert decoupled >= -rounding
    for name in ("published", "uniform", "scores", "instance", "high"):
        assert decoupled <= getattr(bounds, name) * (1.0 + 1e-9) + rounding, name


@given(seeds, st.integers(1, 12), st.floats(0.01, 12.0))
def test_no_bound_on_the_search_is_violated(seed, k, c):
    space = any_space(seed, c)
    search, rounding = space.search_cross_entropy(k), 1e-11 * (1.0 + c)
    bound = search_gap_bound(k, c, 1.0 + space.chi2)
    assert abs(search - space.risk(k)) <= bound + rounding
    assert abs(search - space.decoupled_risk(k)) <= bound + gap_bounds(k, c).low + rounding


def test_the_uniform_bound_is_reached_for_small_scores_and_within_four_for_large_ones():
    even = FiniteSpace(np.full(2, 0.5), 0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]]), np.full((2, 2), 0.5))
    bounds, gap = gap_bounds(20, 0.01), even.cross_entropy - even.decoupled_risk(20)
    assert 0.97 * bounds.uniform < gap <= bounds.uniform
    assert 0.97 * bounds.published < gap <= bounds.published
    rare = 1.0 / (1.0 + math.exp(8.0))
    law = np.array([rare, 1.0 - rare])
    skewed = FiniteSpace(law, 4.0 * np.array([[1.0, -1.0], [1.0, -1.0]]), np.tile(law, (2, 1)))
    gap = 20_000 * (skewed.cross_entropy - skewed.decoupled_risk(20_000))
    assert gap > 0.22 * 20_000 * gap_bounds(20_000, 4.0).uniform
    assert gap == pytest.approx(math.sinh(4.0) ** 2 / 2.0, rel=0.05)
    assert gap < 0.001 * 20_000 * gap_bounds(20_000, 4.0).published


@given(st.sampled_from([1, 5, 12]), st.sampled_from([0.1, 1.0, 4.0]))
def test_the_lower_bound_is_reached(k, c):
    """Positives that no negative ever is, scored c, and negatives that all score -c."""
    law, scores = np.array([1e-9, 1.0 - 1e-9]), c * np.array([[1.0, -1.0], [1.0, -1.0]])
    space = FiniteSpace(law, scores, np.array([[1.0, 0.0], [1.0, 0.0]]))
    low = gap_bounds(k, c).low
    assert low <= space.cross_entropy - space.risk(k) <= 0.999 * low


# --- the range of the loss ---


@given(seeds, st.sampled_from([1, 3, 50]), st.sampled_from([0.0, 0.3, 5.0, 100.0]))
def test_losses_lie_in_their_range_and_reach_its_ends(seed, k, c):
    rng = np.random.default_rng(seed)
    low, high = loss_range(k, c)
    losses = infonce_losses(rng.uniform(-c, c, size=20), rng.uniform(-c, c, size=(20, k)))
    assert (losses >= low - 1e-12).all()
    assert (losses <= high + 1e-12).all()
    ends = infonce_losses(np.array([c, -c]), np.array([[-c] * k, [c] * k]))
    assert ends.tolist() == pytest.approx([low, high], abs=1e-12)
    assert high - low <= 4.0 * c + 1e-12
    if c:
        assert np.ptp(loss_range(2 * k, c)) >= np.ptp(loss_range(k, c)) or k > 1


def test_the_range_at_low_temperature_is_finite():
    assert loss_range(1, 100.0) == pytest.approx((0.0, 200.0), abs=1e-9)
    assert loss_range(1024, 400.0) == pytest.approx((-math.log(1024), 800.0))


# --- the size of the inputs ---


@given(seeds, st.sampled_from([0.05, 0.5, 1.0, 4.0]))
def test_the_input_scale_is_its_formula(seed, temperature):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 6, size=2)
    anchors, positives, negatives = rng.random(n), rng.random(n), 10.0 ** rng.uniform(-2, 1, size=(n, k))
    power = min(1.0, temperature)
    total = sum(value ** (2.0 / power) for row in negatives.tolist() for value in row)
    expected = (sum(a * a for a in anchors) / n) ** 0.5 + (sum(p * p for p in positives) / n) ** 0.5 + (total / (n * k)) ** (power / 2.0)
    found = input_scale(anchors, positives, negatives, temperature)
    assert found == pytest.approx(expected, rel=1e-9)
    assert input_scale(3.0 * anchors, 3.0 * positives, 3.0 * negatives, temperature) == pytest.approx(3.0 * found)


def test_the_input_scale_settles_as_negatives_grow_where_the_longest_does_not():
    """Lengths of an exponential law have moments but no end: E x^4 = 24."""
    rng = np.random.default_rng(0)
    few, many = (rng.exponential(size=(200, k)) for k in (4, 4000))
    ones = np.ones(200)
    found = [input_scale(ones, ones, lengths, 0.5) for lengths in (few, many)]
    assert found[1] == pytest.approx(2.0 + 24.0**0.25, rel=0.01)
    assert found[0] == pytest.approx(found[1], rel=0.1)
    assert many.max(axis=1).mean() > 3.0 * few.max(axis=1).mean()


def test_the_input_scale_at_low_temperature_nears_the_longest_and_stays_finite():
    negatives = np.array([[1e3, 1.0, 0.0], [1.0, 2.0, 3.0]])
    zeros = np.zeros(2)
    assert input_scale(zeros, zeros, negatives, 0.01) == pytest.approx(1e3 * 6.0**-0.005)
    rising = [input_scale(zeros, zeros, negatives, t) for t in (4.0, 1.0, 0.5, 0.1, 0.01)]
    assert rising == sorted(rising)
    assert rising[0] == rising[1]


# --- the class of encoders ---


def circle_tuple(theta, inputs):
    """z -> (cos <theta, z>, sin <theta, z>), which has C = 1."""
    angles = inputs @ theta
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return EmbeddedTuple(rows[0], rows[1], rows[2:])


@given(seeds, st.sampled_from([1, 4]), st.sampled_from([0.1, 0.5, 1.5, 5.0]))
def test_losses_of_a_lipschitz_class_are_lipschitz(seed, k, temperature):
    rng = np.random.default_rng(seed)
    theta, move = rng.standard_normal((2, 3)) * np.array([[1.0], [10.0 ** rng.uniform(-3, 0.5)]])
    tuples = rng.standard_normal((5, k + 2, 3)) * 10.0 ** rng.uniform(-1, 0.5, size=(5, k + 2, 1))
    lengths = np.linalg.norm(tuples, axis=2)
    changes = [continuity_bound(circle_tuple(theta, z), circle_tuple(theta + move, z), temperature).change for z in tuples]
    scale = input_scale(lengths[:, 0], lengths[:, 1], lengths[:, 2:], temperature)
    slope = loss_lipschitz(temperature, scale=scale, lipschitz=1.0)
    assert np.sqrt(np.mean(np.square(changes))) <= slope * np.linalg.norm(move) * (1.0 + 1e-9) + 1e-12


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.02, 2.0), st.floats(0.0, 50.0), st.floats(0.001, 0.5))
def test_the_gap_bound_is_the_sum_of_its_terms(n, parameters, temperature, scale, delta):
    k, radius, lipschitz = 7, 0.8, 1.5
    a = math.e / 4.0 * radius * scale * lipschitz
    inner = min(a * math.sqrt(math.log(3.0) + 1.0), math.sqrt(math.log(1.0 + 2.0 * a) + 1.0))
    span = math.log((1.0 / k + math.exp(2.0 / temperature)) / (1.0 / k + math.exp(-2.0 / temperature)))
    expected = 2.0 * 96.0 / temperature * math.sqrt(parameters / n) * inner + 3.0 * span * math.sqrt(math.log(2.0 / delta) / (2.0 * n))
    found = gap_bound(n, k, temperature, EncoderClass(parameters, radius, lipschitz), scale=scale, delta=delta)
    assert found.total == pytest.approx(expected, rel=1e-9)
    assert found.range == pytest.approx(span)
    assert found.vacuous == (expected >= span)


@given(st.floats(0.02, 2.0), st.floats(0.001, 50.0))
def test_four_times_the_slope_gives_the_published_complexity(temperature, scale):
    n, d, radius = 500, 12, 0.7
    a = math.e * radius * scale
    published = 96.0 / temperature * math.sqrt(d / n) * min(a * math.sqrt(math.log(3.0) + 1.0), math.sqrt(math.log(1.0 + 2.0 * a) + 1.0))
    slope = loss_lipschitz(temperature, scale=scale, lipschitz=1.0)
    assert complexity_bound(n, d, reach=4.0 * slope * radius, diameter=4.0 / temperature) == pytest.approx(published)
    assert complexity_bound(n, d, reach=slope * radius, diameter=4.0 / temperature) < published


@given(st.floats(0.001, 100.0), st.floats(0.01, 100.0))
def test_the_complexity_is_above_the_entropy_integral_from_the_center(reach, diameter):
    """What chaining proves, 12 / sqrt n times the integral up to half the radius, by quadrature: the published form is never below it."""
    half = min(reach, diameter) / 2.0
    places, weights = np.polynomial.legendre.leggauss(80)
    scales = half * ((1.0 + places) / 2.0) ** 2
    integral = np.dot(weights, np.sqrt(np.log1p(2.0 * reach / scales)) * half * (1.0 + places) / 2.0)
    assert complexity_bound(9, 4, reach=reach, diameter=diameter) >= 12.0 * math.sqrt(4 / 9) * integral


def test_the_complexity_bounds_that_of_a_class_it_can_be_computed_for():
    """One parameter on the circle, 40 tuples: the supremum over a fine grid of the ball, the mean over signs."""
    rng = np.random.default_rng(0)
    n, k, temperature, radius = 40, 4, 0.5, 1.0
    tuples = rng.standard_normal((n, k + 2, 1))
    grid = np.linspace(-radius, radius, 201)
    losses = []
    for theta in grid:
        angles = theta * tuples[:, :, 0]
        scores = np.cos(angles[:, :1] - angles[:, 1:]) / temperature
        losses.append(infonce_losses(scores[:, 0], scores[:, 1:]))
    signs = rng.choice([-1.0, 1.0], size=(2000, n))
    rademacher = (signs @ np.array(losses).T / n).max(axis=1).mean()
    lengths = np.abs(tuples[:, :, 0])
    slope = loss_lipschitz(temperature, scale=input_scale(lengths[:, 0], lengths[:, 1], lengths[:, 2:], temperature), lipschitz=1.0)
    assert 0.01 < rademacher <= complexity_bound(n, 1, reach=slope * radius, diameter=4.0 / temperature)


def test_the_label_says_when_the_bound_is_empty():
    small, large = EncoderClass(1, 1e-4, 1.0), EncoderClass(10**8, 1.0, 1.0)
    useful, empty = (gap_bound(100_000, 16, 0.1, encoders, scale=3.0, delta=0.05) for encoders in (small, large))
    assert (useful.vacuous, empty.vacuous) == (False, True)
    assert empty.total > empty.range > useful.total
    needed = empty.tuples_needed
    assert gap_bound(math.ceil(1.01 * needed), 16, 0.1, large, scale=3.0, delta=0.05).vacuous is False
    assert gap_bound(math.floor(0.99 * needed), 16, 0.1, large, scale=3.0, delta=0.05).vacuous is True


def test_the_bound_and_its_label_in_the_limits():
    encoders = EncoderClass(10, 1.0, 1.0)
    still = gap_bound(100, 4, 0.1, EncoderClass(10, 0.0, 1.0), scale=3.0, delta=0.05)
    assert still.complexity == 0.0
    assert still.variability > 0.0
    one, four = (gap_bound(n, 4, 0.1, encoders, scale=3.0, delta=0.05).total for n in (100, 400))
    assert one == pytest.approx(2.0 * four)
    cold, warm = (gap_bound(100, 4, t, encoders, scale=3.0, delta=0.05).total for t in (0.05, 0.5))
    assert cold > warm


# --- certificates of one encoder ---


@given(seeds, st.integers(2, 50), st.floats(0.001, 0.5), st.floats(0.1, 20.0))
def test_certificates_are_their_formulas(seed, n, delta, c):
    k = 5
    low, high = loss_range(k, c)
    losses = np.random.default_rng(seed).uniform(low, high, size=n)
    mean = sum(losses) / n
    pairs = sum((x - y) ** 2 for i, x in enumerate(losses) for y in losses[:i]) / (n * (n - 1))
    log = math.log(2.0 / delta)
    assert hoeffding_certificate(losses, k, c, delta=delta) == pytest.approx(mean + (high - low) * math.sqrt(math.log(1 / delta) / (2 * n)))
    expected = mean + math.sqrt(2.0 * pairs * log / n) + 7.0 * (high - low) * log / (3.0 * (n - 1))
    assert bernstein_certificate(losses, k, c, delta=delta) == pytest.approx(expected)


def draws(space, rng, shape, k):
    """Queries, positives and negatives of a finite space, independent of each other."""
    n = space.law.size
    queries = rng.choice(n, p=space.law, size=shape)
    positives = (rng.random(shape)[..., None] > np.cumsum(space.positives[queries], axis=-1)).sum(axis=-1).clip(max=n - 1)
    return queries, positives, rng.choice(n, p=space.law, size=(*shape, k))


def losses_of(space, queries, positives, negatives):
    flat = queries.ravel()
    scores = space.scores[flat[:, None], np.broadcast_to(negatives, (*queries.shape, negatives.shape[-1])).reshape(flat.size, -1)]
    return infonce_losses(space.scores[flat, positives.ravel()], scores).reshape(queries.shape)


@pytest.mark.parametrize("certificate", [hoeffding_certificate, bernstein_certificate])
def test_certificates_cover_for_independent_tuples_and_fail_for_a_shared_pool(certificate):
    """All queries with the same two negatives share their luck: the mean does not settle, and the bound of n tuples is too narrow."""
    rng = np.random.default_rng(0)
    space = FiniteSpace(np.array([0.9, 0.1]), np.array([[-1.0, 1.0], [-1.0, 1.0]]), np.full((2, 2), 0.5))
    k, runs, n, delta = 2, 600, 3000, 0.1
    risk = space.risk(k)
    queries, positives, negatives = draws(space, rng, (runs, n), k)
    own = losses_of(space, queries, positives, negatives)
    shared = losses_of(space, queries, positives, negatives[:, :1])
    below = [np.mean([certificate(row, k, 1.0, delta=delta) < risk for row in rows]) for rows in (own, shared)]
    assert own.mean() == pytest.approx(risk, abs=0.01)
    assert below[0] <= delta
    assert below[1] > 3.0 * delta


def test_bernstein_gains_where_losses_hardly_vary():
    rng = np.random.default_rng(0)
    low, high = loss_range(16, 10.0)
    calm, wild = low + (high - low) * (0.2 + 0.01 * rng.random(20_000)), rng.choice([low, high], size=20_000)
    assert bernstein_certificate(calm, 16, 10.0, delta=0.05) < hoeffding_certificate(calm, 16, 10.0, delta=0.05)
    assert bernstein_certificate(wild, 16, 10.0, delta=0.05) > hoeffding_certificate(wild, 16, 10.0, delta=0.05)


# --- errors ---


def test_errors_name_the_argument():
    ones, encoders = np.ones(3), EncoderClass(1, 1.0, 1.0)
    with pytest.raises(InputError, match="k is 0; expected at least 1"):
        loss_range(0, 1.0)
    with pytest.raises(InputError, match=r"largest_score is -1\.0; expected a finite number of at least 0"):
        loss_range(1, -1.0)
    with pytest.raises(InputError, match=r"have shapes \(\(3,\), \(3,\), \(3, 0\)\); expected \(n,\), \(n,\) and \(n, k\)"):
        input_scale(ones, ones, np.ones((3, 0)), 1.0)
    with pytest.raises(InputError, match="negatives hold a norm that is negative or not finite"):
        input_scale(ones, ones, -np.ones((3, 1)), 1.0)
    with pytest.raises(InputError, match=r"temperature is 0\.0; expected a finite number above 0"):
        input_scale(ones, ones, np.ones((3, 1)), 0.0)
    with pytest.raises(InputError, match=r"scale is nan; expected a finite number"):
        loss_lipschitz(1.0, scale=float("nan"), lipschitz=1.0)
    with pytest.raises(InputError, match=r"diameter is 0\.0; expected a finite number above 0"):
        complexity_bound(1, 1, reach=1.0, diameter=0.0)
    with pytest.raises(InputError, match="parameters is 0; expected at least 1"):
        EncoderClass(0, 1.0, 1.0)
    with pytest.raises(InputError, match=r"radius is -1\.0; expected a finite number of at least 0"):
        EncoderClass(1, -1.0, 1.0)
    with pytest.raises(InputError, match="n is 0; expected at least 1"):
        gap_bound(0, 1, 1.0, encoders, scale=1.0, delta=0.1)
    with pytest.raises(InputError, match=r"delta is 1\.0; expected a probability of failure between 0 and 1"):
        gap_bound(1, 1, 1.0, encoders, scale=1.0, delta=1.0)


def test_losses_that_are_none_of_these_negatives():
    with pytest.raises(InputError, match=r"the loss of tuple 1 is 9; expected .* that log k was taken off"):
        hoeffding_certificate(np.array([0.0, 9.0]), 4, 1.0, delta=0.1)
    with pytest.raises(InputError, match="losses is empty"):
        hoeffding_certificate(np.array([]), 4, 1.0, delta=0.1)
    with pytest.raises(InputError, match=r"losses has 1 value; expected at least 2"):
        bernstein_certificate(np.array([0.0]), 4, 1.0, delta=0.1)
    with pytest.raises(InputError, match=r"delta is 0\.0"):
        bernstein_certificate(np.array([0.0, 0.1]), 4, 1.0, delta=0.0)
