"""Draws, gradients and optimizers of the simulated table, each against the slow form of its equation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.simulated_gradients import InfoNce, NegativeKind, PureNoise, specificity_source
from normwise.theory.simulated_updates import Optimizer, UpdateRule, start_rows
from normwise.theory.specificity import bessel_ratio, infonce_tangential_gradient, vmf_chord_moment
from normwise.theory.vmf_draws import (
    orthogonal_directions,
    sphere_coordinates,
    uniform_directions,
    vmf_cosines,
    vmf_directions,
    zipf_rates,
)


def close(values, expected, errors=5.0):
    """Whether a mean over the first axis is what it should be, to so many standard errors."""
    values = np.asarray(values)
    error = values.std(axis=0) / np.sqrt(values.shape[0])
    return bool(np.all(np.abs(values.mean(axis=0) - expected) < errors * error + 1e-12))


@pytest.mark.parametrize("width", [4, 32, 300])
def test_vmf_cosines_have_the_two_moments_of_the_law(width):
    kappa = np.array([1.0, 20.0, 500.0, 1e6])
    drawn = vmf_cosines(np.random.default_rng(1), kappa, width=width, count=20_000)
    assert close(drawn.T, bessel_ratio(width, kappa))
    assert close(1.0 - drawn.T**2, vmf_chord_moment(width, kappa))


def test_vmf_of_no_concentration_is_uniform():
    drawn = vmf_cosines(np.random.default_rng(1), np.zeros(1), width=10, count=40_000)[0]
    assert close(drawn, 0.0)
    assert close(drawn**2, 1 / 10)


@given(seed=st.integers(0, 2**31), width=st.integers(4, 40), kappa=st.floats(0.0, 1e7))
def test_vmf_directions_are_unit_and_symmetric_tools_are_orthogonal(seed, width, kappa):
    random = np.random.default_rng(seed)
    means = uniform_directions(random, 3, width)
    drawn = vmf_directions(random, means, np.full(3, kappa), count=2)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=-1), 1.0, rtol=1e-12)
    beside = orthogonal_directions(random, means)
    np.testing.assert_allclose(np.einsum("nd,nd->n", beside, means), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(beside, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("width", [2, 3, 4, 33])
def test_sphere_coordinates_have_the_moments_of_a_coordinate(width):
    drawn = sphere_coordinates(np.random.default_rng(0), (60_000,), width=width)
    assert np.abs(drawn).max() <= 1.0
    assert close(drawn, 0.0)
    assert close(drawn**2, 1 / width)
    assert close(drawn**4, 3 / (width * (width + 2)))


def test_zipf_rates_are_refused_where_they_are_no_rates():
    np.testing.assert_allclose(zipf_rates(3, exponent=2.0, largest=0.5), [0.5, 0.125, 0.5 / 9])
    with pytest.raises(InputError, match=r"largest is 1\.5; expected a share"):
        zipf_rates(3, exponent=1.0, largest=1.5)
    with pytest.raises(InputError, match="exponent is -1"):
        zipf_rates(3, exponent=-1.0)
    with pytest.raises(InputError, match="count is 0"):
        zipf_rates(0, exponent=1.0)


@pytest.mark.parametrize("kind", NegativeKind)
@pytest.mark.parametrize(("positives", "angle", "kappa", "tau"), [(1, 0.7, 6.0, 0.3), (3, 1.5, 6.0, 0.3), (1, 0.0, 1e6, 3.0)])
def test_gradients_have_the_law_of_explicitly_drawn_vectors(kind, positives, angle, kappa, tau):
    """The drawn cosines against a loop over drawn vectors and their gradient: means, squares and the plane's share of them.

    The last case is a sum of negatives alone, whose fourth moment comes from the angles between them.
    """
    width, k, count = 8, 5, 20_000
    random = np.random.default_rng(3)
    axes = uniform_directions(random, 400, width)
    axes[0], axes[1] = np.eye(width)[0], np.eye(width)[1]
    anchor = np.cos(angle) * axes[0] + np.sin(angle) * axes[1]
    beside = np.cos(angle) * axes[1] - np.sin(angle) * axes[0]
    source = InfoNce(axes, np.full(400, kappa), tau, k, kind, positives)
    drawn = source.draw(np.zeros(count, dtype=np.int64), np.tile(anchor, (count, 1)), random)
    positive = vmf_directions(random, axes[:1], np.array([kappa]), count=600 * positives)[0]
    slow = np.zeros((600, width))
    losses = np.zeros(600)
    for row in range(600):
        for one in range(positives):
            if kind is NegativeKind.UNIFORM:
                negatives = uniform_directions(random, k, width)
            else:
                negatives = axes[random.integers(1, 400, k)]
            plus = positive[row * positives + one]
            slow[row] += infonce_tangential_gradient(anchor, plus, negatives, temperature=tau) / positives
            scores = np.concatenate([[plus @ anchor], negatives @ anchor]) / tau
            losses[row] += (np.log(np.exp(scores).sum()) - scores[0]) / positives

    def features(values):
        return np.column_stack([values @ beside, (values @ beside) ** 2, (values**2).sum(axis=1), (values**2).sum(axis=1) ** 2])

    fast, slower = features(drawn.values), features(slow)
    error = np.sqrt(fast.var(axis=0) / count + slower.var(axis=0) / 600)
    assert np.all(np.abs(fast.mean(axis=0) - slower.mean(axis=0)) < 4.5 * error)
    assert close(losses, drawn.losses.mean(), errors=4.5)
    np.testing.assert_allclose(drawn.values @ anchor, 0.0, atol=1e-10)


def test_an_item_is_no_negative_of_itself():
    means = np.eye(4)[:2]
    source = InfoNce(means, np.full(2, 1e9), 0.5, 3, NegativeKind.ITEM_MEANS)
    drawn = source.draw(np.array([0, 1]), means, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.losses, np.log(1 + 3 * np.exp(-1 / 0.5)), rtol=1e-4)


def test_blocks_of_many_positives_join_without_a_seam(monkeypatch):
    from normwise.theory import simulated_gradients

    source = replace(specificity_source(np.full(30, 20.0), np.random.default_rng(0), width=8), positives=4)
    monkeypatch.setattr(simulated_gradients, "_BLOCK_VALUES", 4 * 16 * 7)
    drawn = source.draw(np.arange(30), source.means, np.random.default_rng(1))
    assert drawn.values.shape == (30, 8)
    assert drawn.losses.shape == drawn.hardness.shape == (30,)
    np.testing.assert_allclose(np.einsum("nd,nd->n", drawn.values, source.means), 0.0, atol=1e-9)


def test_pure_noise_has_the_given_second_moment():
    source = PureNoise(np.array([0.5, 8.0]), width=16)
    rows = np.repeat([0, 1], 20_000)
    directions = uniform_directions(np.random.default_rng(0), rows.size, 16)
    drawn = source.draw(rows, directions, np.random.default_rng(1)).values
    squares = (drawn**2).sum(axis=1).reshape(2, -1)
    assert close(squares.T, source.second_moments)
    np.testing.assert_allclose(np.einsum("nd,nd->n", drawn, directions), 0.0, atol=1e-12)


RULES = {
    "sgd": UpdateRule(Optimizer.SGD, learning_rate=0.1),
    "sgd, decay": UpdateRule(Optimizer.SGD, learning_rate=0.1, weight_decay=0.3),
    "sgd, lazy decay": UpdateRule(Optimizer.SGD, learning_rate=0.1, weight_decay=0.3, lazy=True),
    "momentum": UpdateRule(Optimizer.MOMENTUM, learning_rate=0.1, momentum=0.9),
    "momentum, decoupled": UpdateRule(Optimizer.MOMENTUM, learning_rate=0.1, weight_decay=0.2, momentum=0.9),
    "momentum, coupled": UpdateRule(Optimizer.MOMENTUM, learning_rate=0.1, weight_decay=0.2, momentum=0.8, coupled=True),
    "momentum, lazy": UpdateRule(Optimizer.MOMENTUM, learning_rate=0.1, weight_decay=0.2, momentum=0.8, coupled=True, lazy=True),
    "adam": UpdateRule(Optimizer.ADAM, learning_rate=0.05, epsilon=0.0),
    "adam, epsilon": UpdateRule(Optimizer.ADAM, learning_rate=0.05),
    "adamw": UpdateRule(Optimizer.ADAMW, learning_rate=0.05, weight_decay=0.5, beta1=0.8, beta2=0.95, epsilon=0.0),
    "adamw, lazy": UpdateRule(Optimizer.ADAMW, learning_rate=0.05, weight_decay=0.5, lazy=True),
}


def slow_run(rule, vector, gradients, visited):
    """One row, every step of it, transcribed from the equations."""
    u, m, v, own = vector.copy(), np.zeros_like(vector), np.zeros_like(vector), 0
    for t, (q, here) in enumerate(zip(gradients, visited, strict=True), start=1):
        if rule.lazy and not here:
            continue
        own += 1
        q = q if here else np.zeros_like(q)
        shrink = 1 - rule.learning_rate * rule.weight_decay
        if rule.optimizer in (Optimizer.SGD, Optimizer.MOMENTUM):
            m = rule.momentum * m + q + (rule.weight_decay * u if rule.coupled else 0.0)
            u = (1.0 if rule.coupled else shrink) * u - rule.learning_rate * m
            continue
        count = own if rule.lazy else t
        m = rule.beta1 * m + (1 - rule.beta1) * q
        v = rule.beta2 * v + (1 - rule.beta2) * q**2
        below = np.sqrt(v / (1 - rule.beta2**count)) + rule.epsilon
        u = shrink * u - rule.learning_rate * np.where(v > 0, m / (1 - rule.beta1**count) / np.where(v > 0, below, 1.0), 0.0)
    return u


@pytest.mark.parametrize("name", RULES)
def test_closed_form_rests_are_every_step_of_them(name):
    rule, steps, width = RULES[name], 120, 5
    random = np.random.default_rng(4)
    rates = np.array([1.0, 0.4, 0.03, 0.0])
    visited = random.random((4, steps)) < rates[:, None]
    visited[2, 17] = True
    order = np.argsort(-visited.sum(axis=1), kind="stable")
    visited = visited[order]
    gradients = random.normal(size=(4, steps, width))
    start = random.normal(size=(4, width))
    rows = start_rows(rule, start.copy(), steps=steps)
    done = np.zeros(4, dtype=np.int64)
    times = [np.flatnonzero(row) + 1 for row in visited]
    for event in range(len(times[0])):
        active = sum(len(own) > event for own in times)
        now = np.array([own[event] for own in times[:active]])
        rows.rest(done[:active], now - 1 - done[:active])
        counts = np.full(active, event + 1) if rule.lazy else now
        rows.step(np.stack([gradients[row, t - 1] for row, t in enumerate(now)]), counts)
        done[:active] = now
    rows.rest(done, steps - done)
    expected = np.stack([slow_run(rule, start[row], gradients[row], visited[row]) for row in range(4)])
    np.testing.assert_allclose(rows.vectors, expected, rtol=1e-6 if rule.is_adam and rule.epsilon else 1e-11)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"learning_rate": 0.5, "weight_decay": 2.0}, r"weight_decay is 2.0; expected >= 0 and below 1 / learning_rate = 2"),
        ({"learning_rate": 0.1, "momentum": 0.9}, "belong to the optimizer momentum, not to sgd"),
        ({"learning_rate": 0.1, "optimizer": Optimizer.MOMENTUM}, "needs momentum > 0"),
        ({"learning_rate": 0.1, "optimizer": Optimizer.ADAM, "weight_decay": 0.1}, "use adamw"),
        ({"learning_rate": 0.1, "optimizer": Optimizer.ADAM, "beta1": 0.99, "beta2": 0.9}, "beta1 is 0.99; expected below"),
        ({"learning_rate": 0.1, "beta2": 1.0}, "beta2 1.0"),
        ({"learning_rate": 0.1, "epsilon": -1.0}, "epsilon is -1"),
    ],
)
def test_rules_that_make_no_sense_are_refused(values, words):
    with pytest.raises(InputError, match=words):
        UpdateRule(**{"optimizer": Optimizer.SGD, **values})


def test_sources_that_make_no_sense_are_refused():
    means = np.eye(4)
    with pytest.raises(InputError, match="width is 3; expected at least 4"):
        PureNoise(np.ones(2), width=3)
    with pytest.raises(InputError, match=r"second_moments: item 1 has 0\.0; expected a finite number > 0"):
        PureNoise(np.array([1.0, 0.0]), width=4)
    with pytest.raises(InputError, match="concentrations: item 0 has nan"):
        InfoNce(means, np.array([np.nan, 1, 1, 1]), 0.2, 4)
    with pytest.raises(InputError, match=r"means: item 0 has length 2\.0; expected unit vectors"):
        InfoNce(2 * means, np.ones(4), 0.2, 4)
    with pytest.raises(InputError, match="concentrations are 3 for 4 means"):
        InfoNce(means, np.ones(3), 0.2, 4)
    with pytest.raises(InputError, match="temperature is 0"):
        InfoNce(means, np.ones(4), 0.0, 4)
    with pytest.raises(InputError, match="negatives are 0"):
        InfoNce(means, np.ones(4), 0.2, 0)
    with pytest.raises(InputError, match="need at least 2 items"):
        InfoNce(means[:1], np.ones(1), 0.2, 4, NegativeKind.ITEM_MEANS)
