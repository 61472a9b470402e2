"""Calibration errors: loops over bins, closed forms, the rules of edges and ties, the debiased mean, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.calibration_error import (
    debiased_calibration_error,
    debiased_errors,
    debiased_squared_error,
    debiased_squares,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    ks_errors,
    mass_bins,
    mass_errors,
    reliability_bins,
    width_errors,
)
from normwise.theory.resamples import Resamples
from normwise.theory.tied_answers import Answers, tied_answers

tied = st.sampled_from([0.0, 0.1, 0.2, 1 / 3, 0.4, 0.6, 2 / 3, 0.8, 1.0])
answers = st.lists(st.tuples(tied | st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=30)
FIGURES = (
    expected_calibration_error,
    equal_mass_calibration_error,
    debiased_squared_error,
    debiased_calibration_error,
    ks_calibration_error,
    reliability_bins,
)


def arrays(pairs):
    return np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])


def in_width_bins(pairs, bins):
    """The bin of p is the one with b/M <= p < (b+1)/M, the last one also where p = 1."""
    result = [[] for _ in range(bins)]
    for p, y in pairs:
        place = next(b for b in range(bins) if b / bins <= p and (p < (b + 1) / bins or b == bins - 1))
        result[place].append((p, y))
    return result


def in_mass_bins(pairs, bins):
    result = [[] for _ in range(bins)]
    for p, y in pairs:
        above, equal = sum(q > p for q, _ in pairs), sum(q == p for q, _ in pairs)
        result[bins * (2 * above + equal) // (2 * len(pairs))].append((p, y))
    return result


def gaps(binned):
    """Of each bin that holds something: its size, share right, mean confidence."""
    return [(len(b), sum(y for _, y in b) / len(b), sum(p for p, _ in b) / len(b)) for b in binned if b]


@given(answers, st.integers(1, 6) | st.just(15))
def test_errors_over_bins_are_the_loops(pairs, bins):
    confidence, right = arrays(pairs)
    for found, binned in (
        (expected_calibration_error(confidence, right, bins=bins), in_width_bins(pairs, bins)),
        (equal_mass_calibration_error(confidence, right, bins=bins), in_mass_bins(pairs, bins)),
    ):
        assert found == pytest.approx(sum(n / len(pairs) * abs(a - c) for n, a, c in gaps(binned)), abs=1e-12)


@given(answers, st.integers(1, 6))
def test_the_debiased_error_is_the_loop(pairs, bins):
    confidence, right = arrays(pairs)
    terms = [n / len(pairs) * ((a - c) ** 2 - a * (1 - a) / (n - 1)) for n, a, c in gaps(in_mass_bins(pairs, bins)) if n > 1]
    assert debiased_squared_error(confidence, right, bins=bins) == pytest.approx(sum(terms), abs=1e-12)
    assert debiased_calibration_error(confidence, right, bins=bins) == pytest.approx(math.sqrt(max(0.0, sum(terms))), abs=1e-7)


@given(answers)
def test_the_ks_error_is_the_loop(pairs):
    pairs = sorted(pairs)
    ends = [k for k in range(1, len(pairs) + 1) if k == len(pairs) or pairs[k][0] != pairs[k - 1][0]]
    expected = max(abs(sum(y - p for p, y in pairs[:k])) / len(pairs) for k in ends)
    assert ks_calibration_error(*arrays(pairs)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("value", "low"), [(0.0, 0.0), (0.2, 0.2), (3 / 15, 0.2), (0.6, 0.6), (2 / 3, 10 / 15), (1.0, 14 / 15)])
def test_a_value_on_an_edge_belongs_to_the_bin_above_and_one_to_the_last(value, low):
    (found,) = reliability_bins(np.array([value]), np.array([True]))
    assert found.low == pytest.approx(low)
    assert found.low <= value <= found.high


def test_equal_confidences_never_part():
    """Two bins of two would cut the three equal ones: their middle lies below the cut, so all three are in the lower bin."""
    confidence, right = np.array([0.9, 0.5, 0.5, 0.5]), np.array([True, True, False, False])
    assert equal_mass_calibration_error(confidence, right, bins=2) == pytest.approx(0.25 * 0.1 + 0.75 * (0.5 - 1 / 3))
    assert equal_mass_calibration_error(np.full(50, 0.5), np.arange(50) < 25) == 0.0


@given(st.integers(1, 60), st.integers(1, 15), st.integers(0, 10**6))
def test_bins_of_equal_mass_are_even_without_ties(count, bins, seed):
    rng = np.random.default_rng(seed)
    sizes = mass_bins(tied_answers(Answers(rng.random(count), rng.random(count) < 0.5)), bins=bins).sizes[0]
    assert sizes.sum() == count
    assert np.ptp(sizes) <= 1


@given(answers, st.integers(1, 9), st.integers(0, 10**6))
def test_resamples_are_repeated_answers(pairs, bins, seed):
    confidence, right = arrays(pairs)
    times = np.random.default_rng(seed).integers(0, 4, size=(4, right.size))
    times[:, 0] += ~times.any(axis=1)
    tied = tied_answers(Answers(confidence, right), Resamples(times.astype(float), np.arange(right.size)))
    repeated = [(np.repeat(confidence, row), np.repeat(right, row)) for row in times]
    for resampled, plain in (
        (width_errors, expected_calibration_error),
        (mass_errors, equal_mass_calibration_error),
        (debiased_squares, debiased_squared_error),
    ):
        assert resampled(tied, bins=bins) == pytest.approx([plain(*each, bins=bins) for each in repeated], abs=1e-12)
    assert ks_errors(tied) == pytest.approx([ks_calibration_error(*each) for each in repeated], abs=1e-12)
    assert debiased_errors(tied) == pytest.approx([debiased_calibration_error(*each) for each in repeated], abs=1e-7)


@given(st.integers(1, 15), st.integers(1, 40))
def test_a_perfect_binning_has_no_error(rights, times):
    """Groups whose share right is their confidence."""
    confidence = np.repeat([rights / 20, 0.8], [20, 5 * times])
    right = np.concatenate([np.arange(20) < rights, np.arange(5 * times) < 4 * times])
    for error in (expected_calibration_error, ks_calibration_error, debiased_calibration_error):
        assert error(confidence, right) == pytest.approx(0.0, abs=1e-9)
    assert debiased_squared_error(confidence, right) < 0.0


def test_the_debiased_error_is_unbiased_where_the_plain_one_is_not():
    """Three groups, each wrong by .1: the mean over samples is .01, the plain square adds the noise .16 to .25 over n."""
    rng = np.random.default_rng(0)
    confidence = np.repeat([0.2, 0.5, 0.8], 40)
    squares, plain, calibrated = [], [], []
    for _ in range(1500):
        right = rng.random(120) < confidence + 0.1
        squares.append(debiased_squared_error(confidence, right, bins=3))
        plain.append(np.mean((right.reshape(3, 40).mean(axis=1) - [0.2, 0.5, 0.8]) ** 2))
        calibrated.append(debiased_squared_error(confidence, rng.random(120) < confidence, bins=3))
    assert np.mean(squares) == pytest.approx(0.01, abs=4.0 * np.std(squares) / math.sqrt(1500))
    assert np.mean(plain) > 0.013
    assert np.mean(calibrated) == pytest.approx(0.0, abs=4.0 * np.std(calibrated) / math.sqrt(1500))
    assert 0.3 < np.mean(np.array(calibrated) < 0.0) < 0.8, "negative about as often as not"


def test_one_bin_and_one_answer():
    for error in (expected_calibration_error, equal_mass_calibration_error):
        assert error(np.array([0.3]), np.array([True])) == pytest.approx(0.7)
        assert error(np.array([0.2, 0.6]), np.array([False, True]), bins=1) == pytest.approx(0.1)
    assert ks_calibration_error(np.array([0.3]), np.array([True])) == pytest.approx(0.7)
    assert debiased_squared_error(np.array([0.3]), np.array([True])) == 0.0


@given(answers, st.randoms(use_true_random=False))
def test_the_order_of_queries_does_not_count(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    for figure in FIGURES[:-1]:
        assert figure(*arrays(shuffled)) == pytest.approx(figure(*arrays(pairs)), abs=1e-6)


@given(answers, st.integers(1, 9))
def test_reliability_bins_hold_every_answer_and_the_error(pairs, bins):
    confidence, right = arrays(pairs)
    found = reliability_bins(confidence, right, bins=bins)
    assert sum(each.queries for each in found) == len(pairs)
    assert [each.low for each in found] == sorted(each.low for each in found)
    error = sum(each.queries / len(pairs) * abs(each.right - each.probability) for each in found)
    assert error == pytest.approx(expected_calibration_error(confidence, right, bins=bins), abs=1e-12)
    for each in found:
        assert 0.0 <= each.ci_low <= each.right + 1e-12
        assert each.right - 1e-12 <= each.ci_high <= 1.0
        assert each.low - 1e-12 <= each.probability <= each.high + 1e-12


@pytest.mark.parametrize(("count", "hits"), [(10, 0), (10, 3), (80, 79), (1, 1)])
def test_wilson_ends_solve_the_score_equation(count, hits):
    """The ends are the shares q at which (a - q)^2 = z^2 q (1 - q) / n."""
    (found,) = reliability_bins(np.full(count, 0.5), np.arange(count) < hits, level=0.9)
    for end in (found.ci_low, found.ci_high):
        assert (hits / count - end) ** 2 == pytest.approx(1.6448536269514722**2 * end * (1.0 - end) / count, abs=1e-12)
    assert found.ci_low < found.ci_high


@pytest.mark.parametrize(
    ("confidence", "right", "message"),
    [
        (np.array([]), np.array([], dtype=bool), "holds no answer"),
        (np.array([0.5]), np.array([True, False]), r"confidence has shape \(1,\), right \(2,\)"),
        (np.array([0.5, np.nan]), np.array([True, False]), "confidence of query 1 is nan; expected a finite number"),
        (np.array([0.5, 1.5]), np.array([True, False]), "confidence of query 1 is 1.5; expected a probability"),
        (np.array([-0.5, 0.5]), np.array([True, False]), "confidence of query 0 is -0.5; expected a probability"),
    ],
)
def test_refusals(confidence, right, message):
    for figure in FIGURES:
        with pytest.raises(InputError, match=message):
            figure(confidence, right)


@pytest.mark.parametrize("figure", [*FIGURES[:4], reliability_bins])
def test_at_least_one_bin(figure):
    with pytest.raises(InputError, match="bins is 0; expected at least 1"):
        figure(np.array([0.5]), np.array([True]), bins=0)


def test_a_level_is_a_coverage():
    with pytest.raises(InputError, match="level is 1.0; expected a coverage"):
        reliability_bins(np.array([0.5]), np.array([True]), level=1.0)
