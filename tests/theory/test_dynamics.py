"""SGD on a loss of directions, step by step: exact recursions and growth, against vectors that really move."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moving_vectors import tangential_noise

from normwise.core.errors import InputError
from normwise.theory.dynamics import (
    angular_step,
    fourth_root_of_sum,
    mean_loss_moment,
    quartic_growth,
    sgd_norms,
    sgd_step_norm,
)
from normwise.theory.specificity import infonce_tangential_gradient

positive = st.floats(1e-3, 1e3)


def infonce_run(*, eta, decay, steps, seed=0):
    """One free vector under a cosine-InfoNCE loss with random positives and negatives; its norms and ||g||^2."""
    rng = np.random.default_rng(seed)
    u, norms, squares = rng.normal(size=16), [], []
    norms.append(np.sqrt(u @ u))
    for _ in range(steps):
        c = rng.normal(size=(9, 16))
        c[0] += 4.0
        c /= np.linalg.norm(c, axis=1, keepdims=True)
        r = np.sqrt(u @ u)
        g = infonce_tangential_gradient(u / r, c[0], c[1:], temperature=0.2)
        u = (1.0 - eta * decay) * u - eta / r * g
        norms.append(np.sqrt(u @ u))
        squares.append(g @ g)
    return np.array(norms), np.array(squares)


@pytest.mark.parametrize("decay", [0.0, 0.02, 3.0])
@pytest.mark.parametrize("eta", [0.05, 0.3])
def test_the_recursion_is_exact_along_a_run_of_vectors(eta, decay):
    norms, squares = infonce_run(eta=eta, decay=decay, steps=200)
    assert sgd_step_norm(norms[:-1], squares, learning_rate=eta, weight_decay=decay) == pytest.approx(norms[1:], rel=1e-9)
    assert sgd_norms(norms[0], squares, learning_rate=eta, weight_decay=decay) == pytest.approx(norms, rel=1e-9)


def test_the_quartic_identity_is_exact_and_its_last_term_small():
    """The printed check has r_T^4 near 47.3 with .05% from the last sum at eta = .05: so has this run."""
    rng = np.random.default_rng(0)
    u, squares, norms = np.zeros((1, 32)), [], []
    u[0, 0] = 1.0
    for _ in range(2000):
        norms.append(float(np.linalg.norm(u)))
        g = tangential_noise(rng, u, 4.63)
        squares.append(float((g * g).sum()))
        u = u - 0.05 / norms[-1] * g
    squares, before, final = np.array(squares), np.array(norms), float(np.linalg.norm(u))
    quartic = (squares**2 / before**4).sum()
    exact = float(quartic_growth(1.0, squares.sum(), learning_rate=0.05, quartic_sum=quartic))
    approximate = float(quartic_growth(1.0, squares.sum(), learning_rate=0.05))
    assert final**4 == pytest.approx(47.3, rel=0.03)
    assert exact == pytest.approx(final, rel=1e-9)
    assert 0.0003 < (exact**4 - approximate**4) / exact**4 < 0.0008
    # The last sum in closed form: sum of (eta^2 G)^2 / (1 + 2 eta^2 G t) = eta^2 G / 2 log(r_T^4 / r_0^4).
    assert 0.05**4 * quartic == pytest.approx(0.05**2 * 4.63 / 2 * math.log(final**4), rel=0.1)


@given(positive, st.floats(0.0, 100.0), st.floats(1e-3, 2.0))
def test_one_step_and_the_quartic_identity_agree(r, g2, eta):
    step = float(sgd_step_norm(r, g2, learning_rate=eta))
    assert float(quartic_growth(r, g2, learning_rate=eta, quartic_sum=g2**2 / r**4)) == pytest.approx(step, rel=1e-9)
    assert float(quartic_growth(r, g2, learning_rate=eta)) <= step * (1 + 1e-12)
    assert step == pytest.approx(r * math.hypot(1.0, float(angular_step(r, g2, learning_rate=eta))), rel=1e-12)


def test_the_path_follows_schedules_and_lazy_decay():
    squares = np.random.default_rng(0).random((6, 3)) * (np.arange(18).reshape(6, 3) % 4 > 0)
    etas, decays = np.linspace(0.5, 0.1, 6)[:, None], 0.3 * (squares > 0)
    path = sgd_norms([1.0, 2.0, 3.0], squares, learning_rate=etas, weight_decay=decays)
    for item, r in enumerate([1.0, 2.0, 3.0]):
        for t in range(6):
            assert path[t, item] == pytest.approx(r)
            r = math.sqrt((1 - etas[t, 0] * decays[t, item]) ** 2 * r**2 + etas[t, 0] ** 2 * squares[t, item] / r**2)
    assert path[1, 0] == 1.0  # not visited: neither growth nor decay


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e80, 1e150])
def test_huge_and_tiny_norms_stay_in_range(scale):
    """r -> s r with eta -> s^2 eta scales every law by s."""
    eta = 0.1 * scale**2
    assert float(sgd_step_norm(scale, 4.0, learning_rate=eta)) == pytest.approx(scale * math.sqrt(1.04), rel=1e-12, abs=0)
    assert float(quartic_growth(scale, 4.0, learning_rate=eta)) == pytest.approx(scale * 1.08**0.25, rel=1e-12, abs=0)


def test_arrays_broadcast_and_numbers_stay_numbers():
    assert sgd_step_norm(np.ones((3, 1)), np.ones(4), learning_rate=[[0.1], [0.2], [0.3]]).shape == (3, 4)
    assert isinstance(sgd_step_norm(1, 1, learning_rate=1), float)
    assert isinstance(fourth_root_of_sum(1.0, 2.0), float)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sgd_step_norm(0.0, 1.0, learning_rate=0.1), r"^r is 0.0; expected a finite number > 0$"),
        (lambda: sgd_step_norm(1.0, -1.0, learning_rate=0.1), r"^g2 is -1.0; expected"),
        (lambda: sgd_norms(1.0, 1.0, learning_rate=0.1), r"g2 is one number.*wrap it as \[g2\]"),
        (lambda: sgd_norms([1.0, 1.0], [1.0, 2.0], learning_rate=0.1), r"give no path; expected g2 \(steps, items\)"),
        (lambda: quartic_growth(1.0, math.inf, learning_rate=0.1), r"^g2_sum is inf"),
        (lambda: mean_loss_moment(1.0, anchors=0), r"^anchors is 0.0; expected a whole number >= 1$"),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(InputError, match=words):
        call()
