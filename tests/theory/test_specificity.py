"""Bessel ratio, von Mises-Fisher moments and the InfoNCE gradient: references, closed forms, loops, finite differences."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ive

from normwise.core.errors import InputError
from normwise.theory.equilibria import equilibrium_norm_sgd
from normwise.theory.specificity import (
    bessel_ratio,
    guide_second_moment,
    infonce_candidate_gradients,
    infonce_gradient_factors,
    infonce_tangential_gradient,
    vmf_chord_moment,
)

WIDTHS = (1, 2, 3, 8, 32, 384, 4096)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_ratio_agrees_with_arbitrary_precision(width):
    mpmath = pytest.importorskip("mpmath")
    kappas = [1e-12, 0.1, 1.0, 10.0, 33.0, 500.0, 3e3, 2e4]
    with mpmath.workdps(25):
        exact = [
            float(mpmath.besseli(mpmath.mpf(width) / 2, k, maxterms=10**6) / mpmath.besseli(mpmath.mpf(width) / 2 - 1, k, maxterms=10**6))
            for k in map(mpmath.mpf, kappas)
        ]
    assert bessel_ratio(width, kappas) == pytest.approx(exact, rel=2e-15, abs=0)


@pytest.mark.parametrize("width", [2, 3, 32, 384, 4096])
def test_the_ratio_agrees_with_scaled_bessel_functions_where_they_exist(width):
    kappas = np.geomspace(1e-3, 1e6, 60)
    above, below = ive(width / 2, kappas), ive(width / 2 - 1, kappas)
    usable = (above > 1e-290) & np.isfinite(below)
    assert usable.sum() >= 15
    assert usable[-1]
    assert bessel_ratio(width, kappas)[usable] == pytest.approx((above / np.where(usable, below, 1.0))[usable], rel=1e-12)


def test_the_ratio_has_its_elementary_forms():
    kappas = np.array([0.5, 2.0, 30.0, 300.0])
    assert bessel_ratio(1, kappas) == pytest.approx(np.tanh(kappas), rel=1e-14)
    assert bessel_ratio(3, kappas) == pytest.approx(1 / np.tanh(kappas) - 1 / kappas, rel=1e-14)


@given(st.integers(2, 10**6), st.floats(1e-10, 1e12))
def test_the_ratio_lies_within_the_bounds_of_amos(width, kappa):
    order = width / 2 - 1
    found = float(bessel_ratio(width, kappa))
    low = kappa / (order + 0.5 + math.hypot(kappa, order + 1.5))
    high = kappa / (order + 0.5 + math.hypot(kappa, order + 0.5))
    assert low * (1 - 1e-14) <= found <= high * (1 + 1e-14)


@given(st.integers(1, 5000), st.just(0.0) | st.floats(1e-290, 1e6))
def test_the_ratio_satisfies_the_recurrence_of_widths(width, kappa):
    """A_d = 1 / (d / kappa + A_{d + 2}), multiplied out."""
    first, second = bessel_ratio([width, width + 2], kappa)
    assert first * (width + kappa * second) == pytest.approx(kappa, rel=1e-13, abs=0)


@given(st.integers(2, 500), st.floats(0.01, 1e4))
def test_the_slope_of_the_ratio_is_the_variance_of_the_cosine(width, kappa):
    """A' = 1 - A^2 - (d - 1) A / kappa, with the last term the chord moment."""
    step = 1e-4 * kappa
    low, a, high = bessel_ratio(width, [kappa - step, kappa, kappa + step])
    assert (high - low) / (2 * step) == pytest.approx(1 - a * a - float(vmf_chord_moment(width, kappa)), abs=1e-6 * max(1.0, 1.0 / kappa))


@pytest.mark.parametrize(("width", "kappa"), [(2, 3.0), (3, 0.7), (5, 40.0), (32, 5.0), (32, 1280.0), (384, 100.0)])
def test_moments_are_those_of_the_density(width, kappa):
    """The cosine s has density ~ (1 - s^2)^((d - 3) / 2) e^(kappa s); with s = cos t the ends are smooth."""

    def weight(t):
        return math.sin(t) ** (width - 2) * math.exp(kappa * (math.cos(t) - 1.0))

    peak = max(np.linspace(0.01, 3.13, 500), key=weight)
    total, cosine, square = (
        quad(lambda t, f=f: f(t) * weight(t) / weight(peak), 0.0, math.pi, points=[peak], epsrel=1e-12, epsabs=0.0, limit=200)[0]
        for f in (lambda t: 1.0, math.cos, lambda t: math.sin(t) ** 2)
    )
    assert float(bessel_ratio(width, kappa)) == pytest.approx(cosine / total, rel=1e-9, abs=0)
    assert float(vmf_chord_moment(width, kappa)) == pytest.approx(square / total, rel=1e-9)


def test_limits_of_small_and_huge_concentration():
    for width in WIDTHS:
        assert float(bessel_ratio(width, 0.0)) == 0.0
        assert float(vmf_chord_moment(width, 0.0)) == pytest.approx(1 - 1 / width, rel=1e-14)
        assert float(bessel_ratio(width, 1e-200)) == pytest.approx(1e-200 / width, rel=1e-14, abs=0)
        assert float(bessel_ratio(width, 1e300)) == 1.0
        assert float(bessel_ratio(width, 1e13)) == pytest.approx(1 - (width - 1) / 2e13, abs=1e-15)
        assert float(vmf_chord_moment(width, 1e13)) == pytest.approx((width - 1) / 1e13, rel=1e-9, abs=0)
    assert float(vmf_chord_moment(4096, 1.7e308)) == pytest.approx(4095 / 1.7e308, rel=1e-12, abs=0)


def test_moments_fall_with_concentration_and_broadcast():
    kappas = np.geomspace(1e-3, 1e6, 200)
    table = vmf_chord_moment(np.array([[2], [32], [4096]]), kappas)
    assert table.shape == (3, 200)
    assert (np.diff(table, axis=1) < 0).all()
    assert (np.diff(bessel_ratio([[2], [32], [4096]], kappas), axis=1) > 0).all()
    assert isinstance(bessel_ratio(32, 1), float)


def test_the_printed_tangential_variance():
    found = guide_second_moment(1.0, 32, [5.0, 20.0, 80.0, 320.0, 1280.0], temperature=0.2)
    assert found == pytest.approx([23.7, 18.8, 8.0, 2.3, 0.6], abs=0.051)


def vmf_draws(rng, count, width, kappa):
    """Draws around the first axis: the cosine by inverting its distribution on a grid."""
    grid = np.linspace(-1.0, 1.0, 100_001)[1:-1]
    log_density = (width - 3) / 2 * np.log1p(-(grid**2)) + kappa * grid
    cumulative = np.cumsum(np.exp(log_density - log_density.max()))
    cosine = np.interp(rng.random(count), cumulative / cumulative[-1], grid)
    across = unit(rng.normal(size=(count, width - 1)))
    return np.column_stack([cosine, np.sqrt(1 - cosine**2)[:, None] * across])


def test_the_printed_second_moments_and_their_guide():
    """d = 32, tau = .2, 16 random negatives, at the stationary direction: G .90 .145 .071, guide .64 .066 .013."""
    rng = np.random.default_rng(0)
    moments, guides = [], []
    for kappa in (80.0, 320.0, 1280.0):
        positives = vmf_draws(rng, 6000, 32, kappa)
        negatives = unit(rng.normal(size=(6000, 16, 32)))
        found = infonce_gradient_factors(np.eye(32)[0], positives, negatives, temperature=0.2)
        moments.append(found.second_moment)
        guides.append(float(guide_second_moment(found.hardness, 32, kappa, temperature=0.2)))
        assert found.mean_square_chord > float(vmf_chord_moment(32, kappa))  # the negatives add theirs
    assert moments == pytest.approx([0.90, 0.145, 0.071], rel=0.05)
    assert guides == pytest.approx([0.64, 0.066, 0.013], rel=0.05)
    assert (guides[2] / moments[2]) ** 0.25 == pytest.approx(0.65, abs=0.02)


def test_the_printed_equilibria_follow_from_the_printed_second_moments():
    found = equilibrium_norm_sgd(visit_rate=1.0, second_moment=[21.6, 10.6, 1.01, 0.167, 0.081], learning_rate=0.1, weight_decay=0.02)
    assert found == pytest.approx([2.71, 2.27, 1.26, 0.80, 0.67], abs=0.006)


def loss(u, positive, negatives, tau):
    """Cosine InfoNCE of one raw anchor, term by term."""
    u = u / math.sqrt(sum(x * x for x in u))
    scores = [sum(a * b for a, b in zip(u, c, strict=True)) / tau for c in (positive, *negatives)]
    top = max(scores)
    return top + math.log(math.fsum(math.exp(s - top) for s in scores)) - scores[0]


def slow_gradient(u, positive, negatives, tau):
    """Transcribed: -(rho / tau) P_u (c_+ - sum_neg p_j c_j / rho)."""
    scores = [float(u @ c) / tau for c in (positive, *negatives)]
    total = sum(math.exp(s) for s in scores)
    p = [math.exp(s) / total for s in scores]
    rho = 1 - p[0]
    mean = sum(share * c for share, c in zip(p[1:], negatives, strict=True)) / rho
    return -rho / tau * (np.eye(len(u)) - np.outer(u, u)) @ (positive - mean)


def draws(seed, *, batch=4, negatives=5, width=6):
    rng = np.random.default_rng(seed)
    return unit(rng.normal(size=(batch, width))), unit(rng.normal(size=(batch, width))), unit(rng.normal(size=(batch, negatives, width)))


@given(st.integers(0, 10**6), st.floats(0.1, 3.0), st.floats(0.2, 5.0))
def test_the_gradient_is_that_of_the_loss_divided_by_the_norm(seed, tau, r):
    anchors, positives, negatives = draws(seed, batch=1)
    g = infonce_tangential_gradient(anchors, positives, negatives, temperature=tau)[0]
    raw, step = r * anchors[0], 1e-5 * r
    moves = step * np.eye(6)
    differences = [
        (loss(raw + e, positives[0], negatives[0], tau) - loss(raw - e, positives[0], negatives[0], tau)) / (2 * step) for e in moves
    ]
    assert g / r == pytest.approx(np.array(differences), abs=1e-6 / r / tau**3)
    assert abs(g @ anchors[0]) < 1e-12 / tau


@given(st.integers(0, 10**6), st.floats(0.2, 3.0))
def test_the_gradient_and_its_factors_equal_the_loop(seed, tau):
    anchors, positives, negatives = draws(seed)
    g = infonce_tangential_gradient(anchors, positives, negatives, temperature=tau)
    slow = np.array([slow_gradient(*row, tau) for row in zip(anchors, positives, negatives, strict=True)])
    assert g == pytest.approx(slow, rel=1e-9, abs=1e-12)
    found = infonce_gradient_factors(anchors, positives, negatives, temperature=tau)
    assert found.squares == pytest.approx((g**2).sum(axis=1), rel=1e-9)
    assert found.second_moment == pytest.approx((slow**2).sum(axis=1).mean(), rel=1e-9)
    assert found.hardness == pytest.approx((found.residual**2).mean())


def test_shared_anchors_and_negatives_broadcast():
    anchors, positives, negatives = draws(0)
    one = infonce_tangential_gradient(anchors[0], positives, negatives[0], temperature=0.5)
    many = infonce_tangential_gradient(np.tile(anchors[:1], (4, 1)), positives, np.tile(negatives[:1], (4, 1, 1)), temperature=0.5)
    assert one == pytest.approx(many, rel=1e-14)
    single = infonce_gradient_factors(anchors[0], positives[0], negatives[0], temperature=0.5)
    assert single.residual.shape == ()
    assert single.second_moment == pytest.approx(float((one[0] ** 2).sum()))


def test_the_residual_keeps_its_digits_where_the_positive_is_certain():
    u, away = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    near = unit(np.array([1.0, 1e-3, 0.0]))
    found = infonce_gradient_factors(u, near, np.array([away, -away]), temperature=0.005)
    assert float(found.residual) == pytest.approx(2 * math.exp(-near[0] / 0.005), rel=1e-9, abs=0)
    g = infonce_tangential_gradient(u, near, np.array([away, -away]), temperature=0.005)
    assert 0 < np.abs(g).max() < 1e-80
    hard = infonce_gradient_factors(u, -u, np.array([u, u]), temperature=1e-4)
    assert float(hard.residual) == 1.0
    assert float(hard.chord) == 0.0


def test_orthogonal_balanced_negatives_leave_the_chord_of_the_positive():
    rng = np.random.default_rng(2)
    u = np.eye(8)[0]
    positives = unit(rng.normal(size=(50, 8)))
    across = unit(np.column_stack([np.zeros(6), rng.normal(size=(6, 7))]))
    found = infonce_gradient_factors(u, positives, np.vstack([across, -across]), temperature=0.3)
    assert found.chord**2 == pytest.approx(1 - positives[:, 0] ** 2, rel=1e-12)


@given(st.integers(0, 10**6), st.floats(0.2, 3.0))
def test_candidate_gradients_equal_loop_and_finite_differences(seed, tau):
    rng = np.random.default_rng(seed)
    anchors, candidates, positives = unit(rng.normal(size=(5, 4))), unit(rng.normal(size=(3, 4))), rng.integers(0, 3, size=5)
    found = infonce_candidate_gradients(anchors, candidates, positives, temperature=tau)
    slow = np.zeros((3, 4))
    for i, q in enumerate(anchors):
        p = np.exp(candidates @ q / tau) / np.exp(candidates @ q / tau).sum()
        for j, c in enumerate(candidates):
            slow[j] += (p[j] - (positives[i] == j)) / tau * (q - (q @ c) * c)
    assert found == pytest.approx(slow, rel=1e-9, abs=1e-12)

    def total(table):
        scores = anchors @ unit(table).T / tau
        return (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(5), positives]).sum()

    for j, k in np.ndindex(3, 4):
        move = np.zeros((3, 4))
        move[j, k] = 1e-5
        assert (total(candidates + move) - total(candidates - move)) / 2e-5 == pytest.approx(found[j, k], abs=1e-6 / tau**3)


def test_candidate_gradients_keep_their_digits_where_the_positive_is_certain():
    c = np.array([[0.0, 1.0], [0.0, -1.0]])
    u = unit(np.array([[1.0, 1.0]]))
    found = infonce_candidate_gradients(u, c, np.array([0]), temperature=0.01)
    wrong = math.exp(-2 * u[0, 1] / 0.01)
    assert found[:, 0] == pytest.approx(u[0, 0] / 0.01 * np.array([-wrong, wrong]), rel=1e-9, abs=0)


def test_a_hard_negative_of_many_anchors_collects_gradient():
    rng = np.random.default_rng(0)
    anchors = unit(rng.normal(size=(40, 16)) + 2.0)
    hub, far = unit(np.ones(16) + 0.3 * rng.normal(size=16)), unit(np.r_[1.0, -np.ones(15)])
    candidates = np.vstack([anchors, hub, far])
    squares = (infonce_candidate_gradients(anchors, candidates, np.arange(40), temperature=0.1) ** 2).sum(axis=1)
    assert squares[40] > 100 * squares[41]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bessel_ratio(0, 1.0), r"^width is 0.0; expected a whole number >= 1$"),
        (lambda: bessel_ratio(2.5, 1.0), r"^width is 2.5; expected a whole number"),
        (lambda: bessel_ratio(3, [1.0, -1.0]), r"^kappa\[1\] is -1.0; expected a finite number >= 0$"),
        (lambda: vmf_chord_moment(3, math.inf), r"^kappa is inf"),
        (lambda: guide_second_moment(1.2, 3, 1.0, temperature=1.0), r"^mean_square_residual is 1.2; expected a number in 0..1$"),
        (lambda: infonce_tangential_gradient(*draws(0), temperature=0.0), r"^temperature is 0.0; expected a finite number > 0$"),
        (
            lambda: infonce_tangential_gradient(draws(0)[0], 3.0 * draws(0)[1], draws(0)[2], temperature=1.0),
            r"^positive\[0\] has norm 3; expected unit vectors: pass .*normalize",
        ),
        (
            lambda: infonce_gradient_factors(np.array([np.nan, 0.0]), np.array([1.0, 0.0]), np.array([[0.0, 1.0]]), temperature=1.0),
            r"^anchor has norm nan; expected unit vectors",
        ),
        (
            lambda: infonce_gradient_factors(np.zeros(2), np.array([1.0, 0.0]), np.array([[0.0, 1.0]]), temperature=1.0),
            r"^anchor has norm 0; expected unit vectors",
        ),
        (
            lambda: infonce_gradient_factors(np.eye(2)[0], np.eye(2)[0], np.zeros((0, 2)), temperature=1.0),
            r"expected \(..., N, D\) with at least one negative",
        ),
        (
            lambda: infonce_candidate_gradients(np.eye(2), np.eye(2), np.array([0, 2]), temperature=1.0),
            r"^positives\[1\] is 2; expected a row of candidates, 0 to 1$",
        ),
        (
            lambda: infonce_candidate_gradients(np.eye(2), np.eye(2), np.array([0, -1]), temperature=1.0),
            r"^positives\[1\] is -1; expected a row",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(InputError, match=words):
        call()
