"""Answering only when confident: risk at a coverage, coverage at a risk, and the areas of many resamples."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float
from normwise.theory.tied_answers import Answers, TiedAnswers, first_totals, tied_answers

# A share of the answers that is a whole number but for rounding is that number.
_ROUNDING = 1e-9


def risk_at_coverage(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, coverage: float) -> float:
    """Return the share of wrong answers among the most confident ones that make up a coverage.

    Equation: R(k) = (1/k) sum_{i <= k} (1 - y_(i)), k = max(1, ceil(coverage B)), answers in descending confidence; equal
    confidences count as their mean, as in `aurc`.

    Args:
        confidence: (B,) finite numbers; only their order counts.
        right: (B,) whether each answer is right.
        coverage: share of the queries that is answered, above 0, at most 1.

    Returns:
        The risk, 0..1.

    Raises:
        InputError: no answer, lengths differ, a confidence is not finite, or a coverage outside 0..1.

    Reference: El-Yaniv and Wiener (2010).

    Example:
        >>> risk_at_coverage(np.array([0.9, 0.8, 0.7]), np.array([True, False, False]), coverage=0.5)
        0.5
    """
    return float(risk_curve(confidence, right, coverages=np.array([coverage]))[0])


def risk_curve(
    confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, coverages: Float[np.ndarray, " Q"]
) -> Float[np.ndarray, " Q"]:
    """Return `risk_at_coverage` at each of some coverages: the curve that a page draws.

    The mean of the curve over the coverages 1/B, 2/B, ..., 1 is `aurc`.

    Args:
        confidence: (B,) finite numbers; only their order counts.
        right: (B,) whether each answer is right.
        coverages: (Q,) shares above 0, at most 1.

    Returns:
        (Q,) the risks, 0..1.

    Raises:
        InputError: as `risk_at_coverage`.

    Example:
        >>> risk_curve(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]), coverages=np.array([0.1, 0.6, 1.0])).round(3).tolist()
        [0.0, 0.25, 0.333]
    """
    return risks(tied_answers(Answers(confidence, right)), coverages)[0]


def coverage_at_risk(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, risk: float) -> float:
    """Return the largest coverage at which the share of wrong answers is at most a risk, on these very answers.

    Equation: max {k / B : R(k) <= risk}, k only where a group of equal confidences ends: no threshold can part them. 0 where
    no k does it. This describes a sample and promises nothing: the k is chosen by the answers that it is judged on. A
    threshold that is to hold needs fixed-sequence testing.

    Args:
        confidence: (B,) finite numbers; only their order counts.
        right: (B,) whether each answer is right.
        risk: highest share of wrong answers, 0..1.

    Returns:
        The coverage, 0..1.

    Raises:
        InputError: as `risk_at_coverage`, or a risk outside 0..1.

    Reference: Geifman and El-Yaniv (2017).

    Example:
        >>> coverage_at_risk(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, True]), risk=0.25)
        1.0
    """
    return float(coverages_at(tied_answers(Answers(confidence, right)), risk)[0])


def risks(tied: TiedAnswers, coverages: Float[np.ndarray, " Q"]) -> Float[np.ndarray, "R Q"]:
    """Return `risk_at_coverage` of each resample at each coverage."""
    bad = np.flatnonzero(~((coverages > 0.0) & (coverages <= 1.0)))
    if bad.size:
        raise InputError(f"coverage is {coverages[bad[0]]:g}; expected a share of the queries above 0, at most 1")
    firsts = np.maximum(1.0, np.ceil(coverages * tied.size[:, None] - _ROUNDING))
    return (firsts - first_totals(tied.held, tied.held_right, firsts)) / firsts


def coverages_at(tied: TiedAnswers, risk: float) -> Float[np.ndarray, " R"]:
    """Return `coverage_at_risk` of each resample."""
    if not 0.0 <= risk <= 1.0:
        raise InputError(f"risk is {risk}; expected a share of wrong answers, 0 to 1")
    # A quotient of whole numbers is the nearest float, as is the literal 0.05: 5 of 100 are a risk of 0.05.
    low_enough = tied.held_risks <= risk
    last = low_enough.shape[1] - 1 - np.argmax(low_enough[:, ::-1], axis=1)
    draws = np.arange(last.size)
    return np.where(low_enough[draws, last], tied.held[draws, last], 0.0) / tied.size


def areas(tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the `aurc` of each resample.

    Equation: with H the harmonic numbers and L(k) = H_0 + ... + H_{k-1} = k H_k - k, a group of m answers of which w are
    wrong, after K others, adds w (H_n - (L(K + m) - L(K)) / m) / n: its error w / m counts in R(k) for each k after it.
    """
    sums = np.take(_sums_of_harmonics(tied.size), tied.held.astype(np.int64))
    steps = sums.copy()
    steps[:, 1:] -= sums[:, :-1]
    # An empty group has no step.
    steps /= np.maximum(tied.counts, 1.0)
    whole = _harmonic(tied.size)[tied.size.astype(np.int64)]
    return (tied.wrong * whole - np.einsum("rg,rg->r", tied.wrong_counts, steps)) / tied.size


def excess_areas(tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the `excess_aurc` of each resample."""
    return excess_of(areas(tied), tied)


def excess_of(area: Float[np.ndarray, " R"], tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the excess of areas of `areas` over those of the best order of the same answers, never below 0.

    Equation: AURC* = (w - (n - w) (H_n - H_{n-w})) / n with w wrong answers of n and H the harmonic numbers.
    """
    harmonic, right = _harmonic(tied.size), tied.size - tied.wrong
    tail = harmonic[tied.size.astype(np.int64)] - harmonic[right.astype(np.int64)]
    return np.maximum(0.0, area - (tied.wrong - right * tail) / tied.size)


def pair_shares(tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the `auroc` of each resample; NaN where all its answers are right, or all wrong."""
    right = tied.held_right[:, -1]
    # Whole numbers and halves: no order of the sums changes them.
    pairs = np.einsum("rg,rg->r", tied.wrong_counts, tied.held_right) - np.einsum("rg,rg->r", tied.wrong_counts, tied.right_counts) / 2.0
    both = right * tied.wrong
    return np.divide(pairs, both, out=np.full(right.shape, np.nan), where=both > 0.0)


def _harmonic(size: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(size.max()) + 1))])


def _sums_of_harmonics(size: np.ndarray) -> np.ndarray:
    harmonic = _harmonic(size)
    count = np.arange(harmonic.size)
    return count * harmonic - count
