"""Weight decay against growth under SGD: one law from the start to the equilibrium, momentum, relaxation, against moving vectors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moving_vectors import moved_norms

from normwise.core.errors import InputError
from normwise.theory.dynamics import angular_step, mean_loss_moment
from normwise.theory.equilibria import (
    equilibrium_angular_step,
    equilibrium_norm_sgd,
    predicted_norm_sgd,
    relaxation_steps,
)

positive = st.floats(1e-3, 1e3)


PRINTED_RATES = np.array([1.0, 0.3, 0.1, 0.03])
PRINTED_DENSE = np.array([1.572, 1.187, 0.933, 0.728])


def printed_moments():
    """The second moments behind the printed theory column: the law solved for G at eta = .1, lambda = .02."""
    return PRINTED_DENSE**4 * (1 - (1 - 0.1 * 0.02) ** 2) / 0.1**2 / PRINTED_RATES


def test_dense_equilibrium_is_met_by_vectors():
    moments = printed_moments()
    law = equilibrium_norm_sgd(visit_rate=PRINTED_RATES, second_moment=moments, learning_rate=0.1, weight_decay=0.02)
    assert law == pytest.approx(PRINTED_DENSE, rel=1e-9)
    assert law**4 == pytest.approx(0.1 * PRINTED_RATES * moments / (2 * 0.02 - 0.1 * 0.02**2))
    measured = moved_norms(
        items=240,
        width=8,
        steps=2000,
        second_moment=np.repeat(moments, 60),
        eta=0.1,
        rate=np.repeat(PRINTED_RATES, 60),
        decay=0.02,
        keep=900,
    )
    error = measured.reshape(4, 60).mean(axis=1) / law - 1
    assert np.abs(error[:3]).max() < 0.03
    assert abs(error[3]) < 0.05


def test_lazy_equilibrium_forgets_the_frequency():
    moment = printed_moments()[0]
    setting = {"second_moment": moment, "learning_rate": 0.1, "weight_decay": 0.02, "lazy_decay": True}
    assert equilibrium_norm_sgd(visit_rate=PRINTED_RATES, **setting) == pytest.approx(np.full(4, 1.572), rel=1e-9)
    rates = np.array([1.0, 0.3, 0.1])
    found = moved_norms(
        items=90, width=8, steps=4000, second_moment=moment, eta=0.1, rate=np.repeat(rates, 30), decay=0.02, lazy=True, keep=800
    )
    assert found.reshape(3, 30).mean(axis=1) == pytest.approx(np.full(3, 1.572), rel=0.03)
    # The rarest items have not had their visits yet: the law with relaxation knows.
    short = moved_norms(items=60, width=8, steps=3000, second_moment=moment, eta=0.1, rate=0.03, decay=0.02, lazy=True)
    law = float(predicted_norm_sgd(1.0, steps=3000, visit_rate=0.03, **setting))
    assert law < 0.95 * 1.572
    assert short.mean() == pytest.approx(law, rel=0.03)


@pytest.mark.parametrize(("coupled", "printed"), [(True, 2.817), (False, 5.010)])
def test_momentum_equilibria_are_met_by_vectors(coupled, printed):
    """The printed theory column at b = .9, to leading order in eta lambda; vectors tell the finite-rate form from it."""
    moment = 2.817**4 * 2 * 0.02 * (1 - 0.9) / 0.1
    setting = {"visit_rate": 1.0, "second_moment": moment, "momentum": 0.9, "coupled": coupled}
    leading = 0.1 * moment / (2 * 0.02 * (1 - 0.9) ** (1 if coupled else 2))
    assert leading**0.25 == pytest.approx(printed, rel=5e-4)
    law = float(equilibrium_norm_sgd(learning_rate=0.1, weight_decay=0.02, **setting))
    assert law == pytest.approx(printed, rel=0.006)
    found = moved_norms(items=100, width=12, steps=1500, second_moment=moment, eta=0.1, decay=0.02, b=0.9, coupled=coupled, keep=700)
    assert found.mean() == pytest.approx(law, rel=0.004)


@given(st.floats(1e-3, 1.0), positive, st.floats(1e-4, 0.5), st.floats(0.0, 0.97), st.booleans())
def test_momentum_equilibria_have_the_printed_leading_order(rate, moment, eta, b, coupled):
    decay = 1e-9 * (1 - b) ** 2 / eta
    law = float(
        equilibrium_norm_sgd(visit_rate=rate, second_moment=moment, learning_rate=eta, weight_decay=decay, momentum=b, coupled=coupled)
    )
    assert law**4 == pytest.approx(eta * rate * moment / (2 * decay * (1 - b) ** (1 if coupled else 2)), rel=1e-6)


@pytest.mark.parametrize("coupled", [True, False])
@given(st.floats(1e-4, 0.3), st.floats(0.0, 0.95))
def test_momentum_equilibria_are_stationary_variances(coupled, share, b):
    """The stationary second moment of the linear process, solved from its 2 x 2 covariance equation."""
    eta, decay = 0.2, share / 0.2
    law = float(equilibrium_norm_sgd(visit_rate=1.0, second_moment=1.0, learning_rate=eta, weight_decay=decay, momentum=b, coupled=coupled))
    # State (u, buffer); the gradient, of variance 1 / r^2, enters the buffer and through it the vector.
    if coupled:
        move = np.array([[1 - share, -eta * b], [decay, b]])
    else:
        move = np.array([[1 - share, -eta * b], [0.0, b]])
    noise = np.array([[-eta], [1.0]])
    covariance = np.linalg.solve(np.eye(4) - np.kron(move, move), (noise @ noise.T).reshape(4)).reshape(2, 2)
    assert law**4 == pytest.approx(covariance[0, 0], rel=1e-6)


def test_without_momentum_coupling_changes_nothing():
    setting = {"visit_rate": [0.1, 1.0], "second_moment": 3.0, "learning_rate": 0.3, "weight_decay": 0.7}
    assert equilibrium_norm_sgd(**setting, coupled=True) == pytest.approx(equilibrium_norm_sgd(**setting), rel=1e-12)
    assert relaxation_steps(learning_rate=0.3, weight_decay=0.7, coupled=True) == pytest.approx(
        float(relaxation_steps(learning_rate=0.3, weight_decay=0.7)), rel=1e-12
    )


def slope(values, factor):
    return math.log(float(values[1]) / float(values[0])) / math.log(factor)


@pytest.mark.parametrize(("name", "exponent"), [("steps", 0.25), ("visit_rate", 0.25), ("second_moment", 0.25), ("learning_rate", 0.5)])
@given(st.floats(1e-3, 0.4), positive, st.floats(1e-3, 1.0))
def test_growth_has_the_exponents_of_the_law(name, exponent, rate, moment, eta):
    base = {"steps": 1000.0, "visit_rate": rate, "second_moment": moment, "learning_rate": eta}
    twice = predicted_norm_sgd(0.0, **base | {name: np.array([base[name], 2 * base[name]])})
    assert slope(twice, 2.0) == pytest.approx(exponent, abs=1e-9)


def test_growth_is_met_by_vectors_in_the_noise_regime():
    """Slope 1 of log(r_T^4 - r_0^4) on log f and log T, within a tenth."""
    rates, steps = np.array([0.05, 0.2, 0.8]), (400, 1600)
    found = [
        moved_norms(items=300, width=8, steps=n, second_moment=1.0, eta=0.1, rate=np.repeat(rates, 100)).reshape(3, 100) for n in steps
    ]
    growth = np.log((np.array(found) ** 4 - 1.0).mean(axis=2))
    assert np.polyfit(np.log(rates), growth[1], 1)[0] == pytest.approx(1.0, abs=0.1)
    assert (growth[1] - growth[0]) / math.log(4.0) == pytest.approx(1.0, abs=0.1)
    law = predicted_norm_sgd(1.0, steps=np.array(steps)[:, None], visit_rate=rates, second_moment=1.0, learning_rate=0.1)
    assert np.mean(found, axis=2) == pytest.approx(law, rel=0.03)


@pytest.mark.parametrize(("b", "coupled"), [(0.0, False), (0.9, False), (0.9, True), (0.5, True)])
@pytest.mark.parametrize("lazy", [False, True])
def test_growth_and_equilibrium_are_limits_of_one_law(b, coupled, lazy):
    setting = {"visit_rate": [0.2, 1.0], "second_moment": 2.0, "learning_rate": 0.1, "momentum": b, "coupled": coupled}
    eq = equilibrium_norm_sgd(weight_decay=0.01, lazy_decay=lazy, **setting)
    assert predicted_norm_sgd(5.0, steps=1e7, weight_decay=0.01, lazy_decay=lazy, **setting) == pytest.approx(eq, rel=1e-12)
    assert predicted_norm_sgd(eq, steps=37.0, weight_decay=0.01, lazy_decay=lazy, **setting) == pytest.approx(eq, rel=1e-12)
    grown = predicted_norm_sgd(1.0, steps=500, lazy_decay=lazy, **setting)
    assert grown**4 == pytest.approx(1.0 + 2 * (0.1 / (1 - b)) ** 2 * np.array([0.2, 1.0]) * 500 * 2.0, rel=1e-12)
    nearly = predicted_norm_sgd(1.0, steps=500, weight_decay=1e-12, lazy_decay=lazy, **setting)
    assert nearly == pytest.approx(grown, rel=1e-8)
    assert predicted_norm_sgd(1.5, steps=0, weight_decay=0.01, **setting) == pytest.approx(np.full(2, 1.5))


@pytest.mark.parametrize(("b", "coupled"), [(0.0, False), (0.9, False), (0.9, True)])
def test_relaxation_is_an_e_folding(b, coupled):
    rates = {"learning_rate": 0.01, "weight_decay": 0.01, "momentum": b, "coupled": coupled}
    setting = rates | {"visit_rate": 1.0, "second_moment": 2.0}
    steps = float(relaxation_steps(**rates))
    assert steps == pytest.approx(1 / (4 * 0.01 * 0.01) * (1 - b if coupled else 1), rel=0.02)
    eq = float(equilibrium_norm_sgd(**setting)) ** 4
    assert float(predicted_norm_sgd(9.0, steps=steps, **setting)) ** 4 - eq == pytest.approx((9.0**4 - eq) / math.e, rel=1e-9)


def test_a_strongly_coupled_buffer_decays_as_its_complex_roots():
    """Beyond eta lambda = (1 - sqrt b)^2 the vector swings while it dies out as sqrt b: seen on the recursion itself."""
    u, buffer = 1.0, 0.0
    sizes = []
    for _ in range(400):
        buffer = 0.81 * buffer + 0.5 * u
        u -= 0.4 * buffer
        sizes.append(abs(u))
    measured = -math.log(max(sizes[300:]) / max(sizes[100:200])) / 200
    found = float(relaxation_steps(learning_rate=0.4, weight_decay=0.5, momentum=0.81, coupled=True))
    assert 1 / found / 4 == pytest.approx(measured, rel=0.02)
    assert 1 / found / 4 == pytest.approx(-math.log(0.9), rel=1e-12)


def test_relaxation_of_the_mean_field_is_met_by_vectors():
    law = predicted_norm_sgd(1.0, steps=60, visit_rate=[0.3, 1.0], second_moment=2.0, learning_rate=0.1, weight_decay=0.05)
    found = moved_norms(items=400, width=8, steps=60, second_moment=2.0, eta=0.1, rate=np.repeat([0.3, 1.0], 200), decay=0.05)
    assert found.reshape(2, 200).mean(axis=1) == pytest.approx(law, rel=0.03)


@given(st.floats(1e-6, 0.5), st.floats(1e-3, 1.0), positive)
def test_the_equilibrium_angular_step_knows_no_gradient(eta, decay, moment):
    r = equilibrium_norm_sgd(visit_rate=1.0, second_moment=moment, learning_rate=eta, weight_decay=decay)
    found = float(equilibrium_angular_step(learning_rate=eta, weight_decay=decay))
    assert float(angular_step(r, moment, learning_rate=eta)) == pytest.approx(found, rel=1e-9)
    assert found == pytest.approx(math.sqrt(2 * eta * decay), rel=eta * decay)


def test_a_mean_over_anchors_divides_the_gradient_not_the_decay():
    """Without decay it is eta / N; with decay only G / N^2 is met by vectors, and eta / N throughout is not."""
    growth = {"steps": 300, "visit_rate": 1.0}
    moment = float(mean_loss_moment(90.0, anchors=3))
    assert moment == pytest.approx(10.0)
    assert float(predicted_norm_sgd(1.0, second_moment=moment, learning_rate=0.3, **growth)) == pytest.approx(
        float(predicted_norm_sgd(1.0, second_moment=90.0, learning_rate=0.1, **growth))
    )
    found = moved_norms(items=60, width=8, steps=900, second_moment=90.0 / 9.0, eta=0.1, decay=0.05, keep=300).mean()
    right = equilibrium_norm_sgd(visit_rate=1.0, second_moment=moment, learning_rate=0.1, weight_decay=0.05)
    wrong = equilibrium_norm_sgd(visit_rate=1.0, second_moment=90.0, learning_rate=0.1 / 3, weight_decay=0.05)
    assert found == pytest.approx(float(right), rel=0.01)
    assert float(wrong) > 1.2 * found


def test_what_never_moves_has_no_equilibrium():
    setting = {"second_moment": [1.0, 0.0], "learning_rate": 0.1}
    assert equilibrium_norm_sgd(visit_rate=0.0, weight_decay=0.1, **setting).tolist() == [0.0, 0.0]
    lazy = equilibrium_norm_sgd(visit_rate=0.0, weight_decay=0.1, lazy_decay=True, **setting)
    assert np.isnan(lazy).all()
    free = equilibrium_norm_sgd(visit_rate=1.0, weight_decay=0.0, **setting)
    assert free[0] == math.inf
    assert math.isnan(free[1])
    assert float(relaxation_steps(learning_rate=0.1, weight_decay=0.0)) == math.inf
    for lazy_decay, kept in ((True, 2.0), (False, 2.0 * 0.99**50)):
        found = predicted_norm_sgd(
            2.0, steps=50, visit_rate=0.0, second_moment=5.0, learning_rate=0.1, weight_decay=0.1, lazy_decay=lazy_decay
        )
        assert float(found) == pytest.approx(kept, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e80, 1e150])
def test_huge_and_tiny_norms_stay_in_range(scale):
    """r -> s r with eta -> s^2 eta and lambda -> lambda / s^2 scales every law by s."""
    rates = {"visit_rate": 0.5, "second_moment": 2.0}
    scaled = rates | {"learning_rate": 0.1 * scale**2, "weight_decay": 0.1 / scale**2}
    plain = rates | {"learning_rate": 0.1, "weight_decay": 0.1}
    grown = float(predicted_norm_sgd(scale, steps=100, **scaled))
    assert grown == pytest.approx(scale * float(predicted_norm_sgd(1.0, steps=100, **plain)), rel=1e-12, abs=0)
    assert float(equilibrium_norm_sgd(**scaled)) == pytest.approx(scale * float(equilibrium_norm_sgd(**plain)), rel=1e-12, abs=0)


def test_arrays_broadcast_and_numbers_stay_numbers():
    table = predicted_norm_sgd(
        np.ones((3, 1)), steps=10, visit_rate=np.linspace(0, 1, 4), second_moment=1, learning_rate=0.1, weight_decay=[[0.0], [0.1], [0.2]]
    )
    assert table.shape == (3, 4)
    one = predicted_norm_sgd(1.0, steps=10, visit_rate=1.0, second_moment=1.0, learning_rate=0.1, weight_decay=0.2)
    assert isinstance(one, float)
    assert one == table[2, 3]
    assert isinstance(equilibrium_norm_sgd(visit_rate=1, second_moment=1, learning_rate=0.1, weight_decay=0.1), float)
    assert isinstance(relaxation_steps(learning_rate=0.1, weight_decay=0.1), float)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: predicted_norm_sgd(1.0, steps=1, visit_rate=[0.5, 1.5], second_moment=1.0, learning_rate=0.1),
            r"^visit_rate\[1\] is 1.5; expected a number in 0..1$",
        ),
        (
            lambda: predicted_norm_sgd(1.0, steps=1, visit_rate=1.0, second_moment=1.0, learning_rate=0.1, momentum=1.0),
            r"^momentum is 1.0; expected a number >= 0 and < 1$",
        ),
        (
            lambda: predicted_norm_sgd(1.0, steps=1, visit_rate=1.0, second_moment=1.0, learning_rate=2.0, weight_decay=0.6),
            r"learning_rate \* weight_decay is 1.2; expected below 1",
        ),
        (
            lambda: equilibrium_norm_sgd(visit_rate=1.0, second_moment=1.0, learning_rate=0.0, weight_decay=0.1),
            r"^learning_rate is 0.0; expected a finite number > 0$",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(InputError, match=words):
        call()
