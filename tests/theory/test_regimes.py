"""The table of statements against the formulas themselves; signal, noise and where one gives way to the other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from normwise.core.errors import InputError
from normwise.theory.adaptive import equilibrium_norm_adam, predicted_norm_adam
from normwise.theory.equilibria import equilibrium_norm_sgd, predicted_norm_sgd
from normwise.theory.regimes import (
    STATEMENTS,
    SecondMoment,
    Statement,
    crossover_steps,
    signal_norm,
    split_second_moment,
    statement_for,
)
from normwise.theory.specificity import infonce_gradient_factors, infonce_tangential_gradient
from normwise.theory.static_optimum import half_squared_norm, information_gain


def noise_norm(statement, frequency, dispersion, tau):
    """The norm by the law of a statement; G ~ dispersion / tau^2 at given residuals."""
    moment = dispersion / tau**2
    if statement.regime == "signal":
        # Loss removed from an orthogonal start: s_+ / tau, larger for specific concepts.
        return float(signal_norm(0.0, math.sqrt(1 - min(dispersion, 0.99)) / tau, learning_rate=0.1, loss_weight=frequency))
    if statement.optimizer == "sgd":
        common = {"visit_rate": frequency, "second_moment": moment, "learning_rate": 0.1}
        if statement.decay == "none":
            return float(predicted_norm_sgd(0.0, steps=1000, **common))
        return float(equilibrium_norm_sgd(**common, weight_decay=0.02, lazy_decay=statement.decay == "lazy"))
    common = {"visit_rate": frequency, "width": 32, "learning_rate": 1e-3, "lazy": statement.lazy_updates}
    if statement.decay == "none":
        return float(predicted_norm_adam(0.0, steps=1000, **common))
    return float(equilibrium_norm_adam(**common, weight_decay=0.1))


def log_slope(statement, name, at):
    point = {"frequency": 0.2, "dispersion": 0.3, "tau": 0.2} | at
    more = point | {name: point[name] * 1.01}
    return math.log(noise_norm(statement, **more) / noise_norm(statement, **point)) / math.log(1.01)


def sign(value):
    return 0 if abs(value) < 1e-9 else int(math.copysign(1, value))


@pytest.mark.parametrize("statement", [s for s in STATEMENTS if s.regime != "static"], ids=lambda s: s.name)
def test_signs_and_exponents_are_those_of_the_formulas(statement):
    rare = {"frequency": 1e-5}
    assert sign(log_slope(statement, "frequency", rare)) == statement.frequency
    assert sign(log_slope(statement, "dispersion", {})) == statement.dispersion
    assert sign(log_slope(statement, "tau", {})) == statement.temperature
    if statement.frequency_exponent is not None:
        assert log_slope(statement, "frequency", {}) == pytest.approx(statement.frequency_exponent, abs=1e-6)
        assert log_slope(statement, "frequency", rare) == pytest.approx(statement.frequency_exponent, abs=1e-6)
    if statement.temperature_exponent is not None:
        assert log_slope(statement, "tau", {}) == pytest.approx(statement.temperature_exponent, abs=1e-6)
    flat_above = abs(log_slope(statement, "frequency", {"frequency": 0.5})) < 0.005
    assert statement.frequency_below_knee == (flat_above and statement.frequency == 1)


def test_the_static_optimum_makes_specific_words_long():
    """A word that picks fewer contexts has more gain and more norm: the sign for dispersion is -1."""
    statement = statement_for(regime="static")
    assert (statement.dispersion, statement.frequency, statement.temperature) == (-1, None, None)
    contexts, prior = np.random.default_rng(0).normal(size=(200, 8)), np.full(200, 1 / 200)
    word = np.random.default_rng(1).normal(size=8)
    words = np.array([0.1, 0.3, 1.0, 2.0])[:, None] * word
    gains = information_gain(words, contexts, prior)
    assert (np.diff(gains) > 0).all()
    assert gains[0] == pytest.approx(half_squared_norm(words, contexts, prior)[0], rel=0.1)


def test_the_table_is_whole_and_frozen():
    assert len(STATEMENTS) == 9
    assert len({s.name for s in STATEMENTS}) == 9
    assert len({(s.regime, s.decay, s.lazy_updates) for s in STATEMENTS}) == 9
    for statement in STATEMENTS:
        assert Statement.from_json(statement.to_json()) == statement
        assert statement_for(regime=statement.regime, decay=statement.decay, lazy_updates=statement.lazy_updates) is statement
    with pytest.raises(ValidationError, match="frozen"):
        STATEMENTS[0].dispersion = -1


def test_the_sign_of_specificity_needs_the_regime():
    assert {s.dispersion for s in STATEMENTS} == {-1, 0, 1}
    with pytest.raises(
        InputError, match=r"no statement for regime, decay, lazy_updates = signal, dense, False; expected one of: noise, none"
    ):
        statement_for(regime="signal", decay="dense")


@given(st.integers(0, 10**6), st.integers(2, 20), st.floats(-3, 3))
def test_the_split_equals_the_loop_and_adds_up(seed, count, shift):
    g = np.random.default_rng(seed).normal(size=(count, 3)) + shift
    found = split_second_moment(g)
    mean = [sum(column) / count for column in g.T]
    noise = sum((g[n, k] - mean[k]) ** 2 for n in range(count) for k in range(3)) / (count - 1)
    assert found.noise == pytest.approx(noise)
    assert found.signal == pytest.approx(sum(m * m for m in mean) - noise / count)
    assert found.signal + found.noise == pytest.approx((g**2).sum(axis=1).mean())


def test_the_split_is_unbiased():
    rng = np.random.default_rng(0)
    found = [split_second_moment(rng.normal(size=(4, 5)) * 2.0 + 0.5) for _ in range(4000)]
    assert np.mean([f.signal for f in found]) == pytest.approx(5 * 0.25, abs=0.15)
    assert np.mean([f.noise for f in found]) == pytest.approx(5 * 4.0, rel=0.02)


def test_averaging_positives_divides_the_noise():
    rng = np.random.default_rng(0)
    parts = split_second_moment(rng.normal(size=(200_000, 4)) + [1.0, 0.0, 0.0, 0.0])
    averaged = (rng.normal(size=(50_000, 8, 4)) + [1.0, 0.0, 0.0, 0.0]).mean(axis=1)
    assert float(parts.per_step(8)) == pytest.approx((averaged**2).sum(axis=1).mean(), rel=0.01)
    assert parts.per_step([1, 4]).shape == (2,)
    assert parts.signal_share == pytest.approx(1 / 5, abs=0.01)
    assert math.isnan(SecondMoment(signal=0.0, noise=0.0, draws=2).signal_share)
    assert SecondMoment(signal=-0.1, noise=1.0, draws=2).signal_share == 0.0
    assert SecondMoment.from_json(parts.to_json()) == parts


def descend(*, eta, steps, positives, cosine):
    """One vector from an orthogonal start on the mean loss of fixed positives around an axis, 12 fixed negatives; norm, loss drop."""
    rng = np.random.default_rng(3)
    across = rng.normal(size=(positives, 15))
    c = np.column_stack([np.full(positives, cosine), math.sqrt(1 - cosine**2) * across / np.linalg.norm(across, axis=1, keepdims=True)])
    negatives = rng.normal(size=(12, 16))
    negatives /= np.linalg.norm(negatives, axis=1, keepdims=True)
    u, losses = np.eye(16)[1], []
    for _ in range(steps):
        r = np.linalg.norm(u)
        losses.append(-np.log1p(-infonce_gradient_factors(u / r, c, negatives, temperature=0.5).residual).mean())
        u = u - eta / r * infonce_tangential_gradient(u / r, c, negatives, temperature=0.5).mean(axis=0)
    return float(np.linalg.norm(u)), losses[0] - losses[-1]


def test_without_noise_the_norm_pays_for_the_loss_removed():
    """r_T^2 - r_0^2 = eta Delta L in the limit of small steps; finite steps add to it, in proportion to eta."""
    excess = []
    for eta, steps in ((0.2, 120), (0.1, 240)):
        r, drop = descend(eta=eta, steps=steps, positives=16, cosine=0.9)
        assert float(signal_norm(1.0, drop, learning_rate=eta)) <= r
        excess.append((r**2 - 1) / (eta * drop) - 1)
    assert excess[0] < 0.25
    assert excess[1] == pytest.approx(excess[0] / 2, rel=0.3)


def test_under_signal_the_specific_concept_is_longer():
    broad, specific = (descend(eta=0.1, steps=100, positives=64, cosine=cosine) for cosine in (0.3, 0.95))
    assert specific[1] > broad[1]
    assert specific[0] > broad[0]


@given(st.floats(0.1, 10.0), st.floats(0.01, 5.0), st.floats(0.01, 50.0), st.floats(1e-3, 1.0), st.integers(1, 512))
def test_the_crossover_is_where_noise_matches_signal(r, drop, noise, eta, positives):
    steps = float(crossover_steps(r, drop, noise, learning_rate=eta, positives=positives))
    heat = float(predicted_norm_sgd(0.0, steps=steps, visit_rate=1.0, second_moment=noise / positives, learning_rate=eta)) ** 4
    signal = float(signal_norm(0.0, drop, learning_rate=eta)) ** 2
    assert heat == pytest.approx(2 * r**2 * signal, rel=1e-9)


def test_no_noise_never_crosses_and_nothing_to_learn_crosses_at_once():
    assert crossover_steps(1.0, [1.0, 0.0], [0.0, 1.0], learning_rate=0.1).tolist() == [math.inf, 0.0]
    assert float(crossover_steps(1e200, 1.0, 1e300, learning_rate=0.1)) == pytest.approx(1e101)
    assert float(signal_norm(1e200, 1.0, learning_rate=0.1)) == 1e200
    assert isinstance(signal_norm(1, 1, learning_rate=1), float)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: signal_norm(1.0, -0.1, learning_rate=0.1), r"^loss_drop is -0.1; expected a finite number >= 0$"),
        (lambda: crossover_steps(1.0, 1.0, 1.0, learning_rate=0.1, positives=0), r"^positives is 0.0; expected a whole number >= 1$"),
        (lambda: crossover_steps(0.0, 1.0, 1.0, learning_rate=0.1), r"^r is 0.0; expected a finite number > 0$"),
        (lambda: split_second_moment(np.ones((1, 3))), r"gradients hold 1 draws; expected at least 2"),
        (lambda: split_second_moment(np.array([[1.0], [math.nan]])), r"gradients: row 1 is not finite"),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(InputError, match=words):
        call()
