"""How fast the zeroth stair comes, and when there is none."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_law import additions, frequencies, label_signature

from normwise.core.errors import InputError
from normwise.theory.early_phase import EarlyPhase
from normwise.theory.zeroth_stair import NoZerothStair, ZerothStair, modular_growth_rate, staircase_time, zeroth_stair


def phase_of(tokens, labels, *, outputs, slope=1.0):
    weights = np.full(len(tokens), 1.0 / len(tokens))
    signature = label_signature(tokens, labels, weights, order=0, vocabulary=outputs, outputs=outputs)
    return EarlyPhase(signature, frequencies(tokens, weights, outputs), length=tokens.shape[1], slope=slope)


@pytest.mark.parametrize(("modulus", "outputs", "slope"), [(20, 81, 1.0), (20, 20, 1.0), (6, 7, 0.5), (1, 9, -2.0), (5, 400, 1.0)])
def test_the_closed_form_is_the_singular_value(modulus, outputs, slope):
    phase = phase_of(*additions(modulus, modulus=modulus), outputs=outputs, slope=slope)
    expected = modular_growth_rate(modulus, outputs, slope=slope)
    assert phase.growth_rate == pytest.approx(expected, abs=1e-14)
    assert phase.growth_rates[1:] == pytest.approx(np.zeros(outputs - 1), abs=1e-14)  # rank one


@pytest.mark.parametrize("length", [3, 4])
def test_longer_modular_sums_too(length):
    tokens = np.array(list(itertools.product(range(3), repeat=length)))
    phase = phase_of(tokens, tokens.sum(axis=1) % 3, outputs=5)
    assert phase.growth_rate == pytest.approx(modular_growth_rate(3, 5, length=length), rel=1e-12)


@given(st.integers(1, 60), st.integers(0, 60))
def test_more_outputs_than_labels_alone_make_the_modular_stair(modulus, more):
    rate = modular_growth_rate(modulus, modulus + more)
    assert (rate > 0.0) == (more > 0)
    assert rate < modular_growth_rate(modulus, modulus + more + 1) < 2.0 / modulus


def test_the_largest_growth_rate_of_the_paper_s_task():
    assert modular_growth_rate(20, 81) == pytest.approx(0.0868, abs=5e-5)


def test_with_as_many_outputs_as_labels_there_is_no_stair():
    found = zeroth_stair(phase_of(*additions(6, modulus=6), outputs=6), init_scale=0.01)
    assert isinstance(found, NoZerothStair)
    assert "labels uniform over all 6 outputs" in found.reason
    assert found.growth_rate == pytest.approx(0.0, abs=1e-14)


def test_a_token_that_never_occurs_makes_no_stair():
    phase = EarlyPhase(np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]), np.array([0.5, 0.5, 0.0]), length=2)
    assert isinstance(zeroth_stair(phase, init_scale=0.01), NoZerothStair)


def test_equal_rows_over_more_outputs_are_a_stair_that_tells_no_tokens_apart():
    found = zeroth_stair(phase_of(*additions(6, modulus=6), outputs=9), init_scale=0.01, learning_rate=0.5)
    assert isinstance(found, ZerothStair)
    assert not found.tells_tokens_apart
    assert found.growth_rate == pytest.approx(modular_growth_rate(6, 9))
    assert found.time == pytest.approx(np.log(100.0) / found.growth_rate)
    assert found.steps == pytest.approx(2.0 * found.time)


def test_sums_have_a_stair_that_tells_tokens_apart_with_no_more_outputs_than_labels():
    found = zeroth_stair(phase_of(*additions(6), outputs=11), init_scale=0.01)
    assert isinstance(found, ZerothStair)
    assert found.tells_tokens_apart


def test_an_activation_without_slope_has_no_zeroth_stair():
    found = zeroth_stair(phase_of(*additions(6), outputs=11, slope=0.0), init_scale=0.01)
    assert isinstance(found, NoZerothStair)
    assert "no slope at 0" in found.reason


def test_noise_of_a_sample_is_a_stair_unless_the_tolerance_is_above_it():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(1000, np.full(5, 0.2), size=5) / 1000.0
    phase = EarlyPhase(counts, np.full(5, 0.2), length=2)
    assert isinstance(zeroth_stair(phase, init_scale=0.1), ZerothStair)
    assert isinstance(zeroth_stair(phase, init_scale=0.1, tolerance=0.1), NoZerothStair)


def test_the_time_is_that_of_an_init_on_the_fastest_direction():
    phase = phase_of(*additions(6), outputs=11)
    left, _, right = np.linalg.svd(phase.drive)
    scale = 1e-4
    time = staircase_time(phase.growth_rate, scale)
    state = phase.at(float(time), scale * left[:, :1], scale * right[:1].T)
    assert state.embedding == pytest.approx(left[:, :1], rel=1e-9)


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="init_scale is 1; expected below 1"):
        staircase_time(0.5, 1.0)
    with pytest.raises(InputError, match="init_scale is 0.0; expected a finite number > 0"):
        staircase_time(0.5, 0.0)
    with pytest.raises(InputError, match="growth_rate is -1.0"):
        staircase_time(-1.0, 0.5)
    with pytest.raises(InputError, match="outputs is 19, modulus 20, length 2; expected as many outputs as labels"):
        modular_growth_rate(20, 19)
    with pytest.raises(InputError, match="length 1"):
        modular_growth_rate(20, 81, length=1)
    phase = phase_of(*additions(3), outputs=5)
    with pytest.raises(InputError, match="learning_rate is 0.0; expected a finite number > 0"):
        zeroth_stair(phase, init_scale=0.1, learning_rate=0.0)
    with pytest.raises(InputError, match="tolerance is -1.0"):
        zeroth_stair(phase, init_scale=0.1, tolerance=-1.0)
