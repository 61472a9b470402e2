"""The closed form against numerical integration of the true gradient flow, and where it ends to hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from sequence_law import additions, frequencies, label_signature

from normwise.core.errors import InputError
from normwise.theory.early_phase import EarlyPhase

N, OUTPUTS, WIDTH, INIT = 8, 24, 12, 1e-3


def phase_of(tokens, labels, *, outputs=OUTPUTS):
    """The early phase of all these sequences, with as many token ids as outputs."""
    weights = np.full(len(tokens), 1.0 / len(tokens))
    signature = label_signature(tokens, labels, weights, order=0, vocabulary=outputs, outputs=outputs)
    return EarlyPhase(signature, frequencies(tokens, weights, outputs), length=tokens.shape[1])


def starts(seed, rows, columns, *, scale=INIT, width=WIDTH):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(rows, width)), scale * rng.normal(size=(columns, width))


def identity(z):
    return z, np.ones_like(z)


def bent(z):
    return z + 0.7 * z**2, 1.0 + 1.4 * z


def relu(z):
    return np.maximum(z, 0.0), (z > 0.0).astype(float)


def true_flow(tokens, labels, embedding, unembedding, *, times, sigma=identity, steps=120):
    """Embeddings (T, V, d) under gradient flow of the mean cross-entropy of f = U sigma(sum_i e_{x_i}), by Runge-Kutta of order 4."""
    counts = np.zeros((len(tokens), len(embedding)))
    np.add.at(counts, (np.arange(len(tokens))[:, None], tokens), 1.0)
    observed = np.eye(len(unembedding))[labels]

    def slope(rows, columns):
        hidden, steep = sigma(counts @ rows)
        chances = np.exp(hidden @ columns.T)
        residuals = (observed - chances / chances.sum(axis=1, keepdims=True)) / len(labels)
        return np.array([counts.T @ ((residuals @ columns) * steep), residuals.T @ hidden])

    state, found = np.array([embedding, unembedding]), []
    for step in np.diff([0.0, *times]) / steps:
        for _ in range(steps):
            first = slope(*state)
            second = slope(*(state + step / 2.0 * first))
            third = slope(*(state + step / 2.0 * second))
            state = state + step / 6.0 * (first + 2.0 * second + 2.0 * third + slope(*(state + step * third)))
        found.append(state[0])
    return np.array(found)


@pytest.mark.parametrize(("tokens", "outputs", "width"), [(N, OUTPUTS, WIDTH), (20, 81, 4)])
@pytest.mark.parametrize("modular", [False, True])
def test_it_is_the_true_flow_until_logits_are_no_longer_far_below_one(tokens, outputs, width, modular):
    sequences, labels = additions(tokens, modulus=tokens if modular else None)
    phase = phase_of(sequences, labels, outputs=outputs)
    start = starts(0, outputs, outputs, width=width)
    end = phase.ends(*start)
    times = np.array([0.25 * end, end, phase.ends(*start, logit=0.01), phase.ends(*start, logit=1.0)])
    errors = []
    for time, expected in zip(times, true_flow(sequences, labels, *start, times=times), strict=True):
        moved = np.linalg.norm(expected - start[0])
        errors.append(np.linalg.norm(phase.at(time, *start).embedding - expected) / moved)
    assert moved > 20.0 * np.linalg.norm(start[0])
    assert max(errors[:2]) < 2e-3
    assert errors[0] < 0.1 * errors[1]
    # The error is of first order in the largest logit, .005, .01 and 1: no more than a quarter of it, and there it no longer holds.
    assert errors[2] == pytest.approx(2.0 * errors[1], rel=0.05)
    assert 0.1 * 0.01 < errors[2] < 0.26 * 0.01
    assert errors[3] > 0.05


def test_a_bent_activation_holds_while_it_is_straight_at_the_size_of_its_argument():
    tokens, labels = additions(N)
    phase = phase_of(tokens, labels)
    times, errors = np.array([20.0]), []
    for scale in (1e-3, 1e-4):
        start = starts(1, OUTPUTS, OUTPUTS, scale=scale)
        expected = true_flow(tokens, labels, *start, times=times, sigma=bent)[0]
        errors.append(np.linalg.norm(phase.at(20.0, *start).embedding - expected) / np.linalg.norm(expected - start[0]))
    assert errors[0] < 0.02
    assert errors[1] == pytest.approx(errors[0] / 10.0, rel=0.1)


def test_relu_outgrows_its_mean_slope_at_any_size():
    tokens, labels = additions(N)
    half = EarlyPhase(phase_of(tokens, labels).order_zero, phase_of(tokens, labels).frequency, length=2, slope=0.5)
    ratios = []
    for scale in (1e-3, 1e-6):
        start = starts(2, OUTPUTS, OUTPUTS, scale=scale)
        true = true_flow(tokens, labels, *start, times=np.array([20.0]), sigma=relu)[0]
        ratios.append(np.linalg.norm(true[:N]) / np.linalg.norm(half.at(20.0, *start).embedding[:N]))
    assert ratios[0] > 1.1
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-3)


def test_a_matrix_exponential_says_the_same():
    rng = np.random.default_rng(2)
    phase = EarlyPhase(rng.dirichlet(np.ones(5), size=7), rng.dirichlet(np.ones(7)), length=3, slope=-0.7)
    first, second = starts(3, 7, 5, scale=1.0)
    block = np.block([[np.zeros((7, 7)), phase.drive], [phase.drive.T, np.zeros((5, 5))]])
    for time in (0.0, 1e-9, 0.5, 4.0, 30.0):
        state = phase.at(time, first, second)
        expected = expm(time * block) @ np.concatenate([first, second])
        assert np.concatenate([state.embedding, state.unembedding]) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@given(st.integers(0, 10**6), st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_two_times_one_after_the_other_are_their_sum_and_energy_is_kept(seed, early, late):
    rng = np.random.default_rng(seed)
    phase = EarlyPhase(rng.dirichlet(np.ones(4), size=3), rng.dirichlet(np.ones(3)), length=2)
    start = starts(seed, 3, 4, scale=1.0)
    first = phase.at(early, *start)
    second = phase.at(late, first.embedding, first.unembedding)
    whole = phase.at(early + late, *start)
    assert second.embedding == pytest.approx(whole.embedding, rel=1e-9, abs=1e-9 * np.exp(whole.log_scale))
    # ||E||^2 - ||U||^2 is a constant of the linear flow.
    difference = (whole.embedding**2).sum() - (whole.unembedding**2).sum()
    assert difference == pytest.approx((start[0] ** 2).sum() - (start[1] ** 2).sum(), abs=1e-9 * np.exp(2.0 * whole.log_scale))


def test_late_the_gram_is_that_of_the_leading_direction_of_the_centered_signatures():
    tokens, labels = additions(N)
    phase = phase_of(tokens, labels)
    state = phase.at(4000.0, *starts(4, OUTPUTS, OUTPUTS))
    gram = state.scaled_embedding @ state.scaled_embedding.T
    leading = np.linalg.eigh(phase.drive @ phase.drive.T)[1][:, -1]
    assert gram / np.trace(gram) == pytest.approx(np.outer(leading, leading), abs=1e-9)
    assert state.log_scale == pytest.approx(4000.0 * np.linalg.svd(phase.drive)[1][0])


def test_a_time_beyond_float64_keeps_its_direction_and_says_so():
    phase = phase_of(*additions(N))
    state = phase.at(1e6, *starts(5, OUTPUTS, OUTPUTS))
    assert np.isfinite(state.scaled_embedding).all()
    assert np.abs(state.scaled_embedding).max() > 0.0
    with pytest.raises(InputError, match="at time 1e\\+06 the early phase has grown by e.*take scaled_embedding"):
        _ = state.embedding
    with pytest.raises(InputError, match="take scaled_embedding"):
        _ = state.unembedding


def test_tokens_that_never_occur_stay_where_they_are():
    phase = phase_of(*additions(N))
    start = starts(6, OUTPUTS, OUTPUTS)
    assert phase.at(20.0, *start).embedding[N:] == pytest.approx(start[0][N:], rel=1e-9)


def test_no_logit_exceeds_the_bound_and_one_reaches_it():
    tokens, labels = additions(N)
    phase = phase_of(tokens, labels)
    state = phase.at(30.0, *starts(7, OUTPUTS, OUTPUTS))
    logits = state.embedding[tokens].sum(axis=1) @ state.unembedding.T
    assert np.log(np.abs(logits).max()) == pytest.approx(phase.log_logit(state))  # by a sequence of one token twice


def test_the_end_is_where_the_bound_is_reached():
    phase = phase_of(*additions(N))
    start = starts(8, OUTPUTS, OUTPUTS)
    for logit in (1e-3, 0.01, 1.0, 1e300):
        end = phase.ends(*start, logit=logit)
        assert phase.log_logit(phase.at(end, *start)) == pytest.approx(np.log(logit), abs=1e-6)
    assert phase.ends(*start, logit=1e-9) == 0.0


def test_nothing_that_grows_never_ends():
    flat = EarlyPhase(np.full((4, 4), 0.25), np.full(4, 0.25), length=2)
    start = starts(9, 4, 4)
    assert flat.ends(*start) == np.inf
    assert flat.at(1e5, *start).embedding == pytest.approx(start[0], rel=1e-9)
    zeros = np.zeros((OUTPUTS, 2))
    assert phase_of(*additions(N)).ends(zeros, zeros) == np.inf


def test_rows_are_told_equal_or_not_over_tokens_that_occur():
    assert phase_of(*additions(N, modulus=N)).rows_equal
    assert not phase_of(*additions(N)).rows_equal


def test_bad_values_are_refused():
    rows, rates = np.full((2, 2), 0.5), np.full(2, 0.5)
    with pytest.raises(InputError, match=r"order_zero has shape \(2,\); expected \(V, Y\)"):
        EarlyPhase(rates, rates, length=2)
    with pytest.raises(InputError, match=r"order_zero: row 0 sums to 1.5, .* divide counts by their sum"):
        EarlyPhase(3.0 * rows - 0.75, rates, length=2)
    with pytest.raises(InputError, match="its least value is -0.5"):
        EarlyPhase(np.array([[1.5, -0.5], [0.5, 0.5]]), rates, length=2)
    with pytest.raises(InputError, match=r"frequency has shape \(2,\), least value 1 and sum 2; expected \(2,\), .* sum 1 at most"):
        EarlyPhase(rows, np.ones(2), length=2)
    with pytest.raises(InputError, match="length is 0.0; expected a whole number >= 1"):
        EarlyPhase(rows, rates, length=0)
    with pytest.raises(InputError, match="slope is nan; expected a finite number"):
        EarlyPhase(rows, rates, length=2, slope=float("nan"))
    phase = EarlyPhase(rows, rates, length=2)
    with pytest.raises(InputError, match="time is -1.0; expected a finite number >= 0"):
        phase.at(-1.0, rows, rows)
    with pytest.raises(InputError, match=r"embedding has shape \(2, 2\) and unembedding \(2, 1\); expected \(2, d\) and \(2, d\)"):
        phase.at(1.0, rows, rows[:, :1])
    with pytest.raises(InputError, match="logit is 0.0; expected a finite number > 0"):
        phase.ends(rows, rows, logit=0.0)
