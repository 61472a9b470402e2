"""How far confidences are from the shares of right answers: calibration errors by bins, debiased, and without bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from normwise.core.calibration_records import ReliabilityBin
from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float
from normwise.theory.tied_answers import Answers, TiedAnswers, sums_before, tied_answers

BINS = 15


def expected_calibration_error(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS) -> float:
    """Return the expected calibration error over bins of equal width.

    Equation: ECE = sum_b (n_b / B) |acc_b - conf_b|, with the mean confidence and the share right of the n_b answers in bin b.
    Bin b = 1..M holds (b - 1)/M <= p < b/M, the last also p = 1: a value on an inner edge belongs to the bin above it.

    Args:
        confidence: (B,) probabilities p, 0 to 1.
        right: (B,) whether each answer is right.
        bins: M, how many.

    Returns:
        The error, 0..1. It is biased upwards: calibrated probabilities have an ECE of order sqrt(M / B), not 0.

    Raises:
        InputError: no answer, lengths differ, a confidence outside 0..1 or not finite, or no bin.

    Reference: Guo et al. (2017), eq. 3; they put an inner edge into the bin below it.

    Example:
        >>> expected_calibration_error(np.array([0.75, 0.75, 0.25, 0.25]), np.array([True, True, True, False]))
        0.25
    """
    return float(width_errors(_tied(confidence, right), bins=bins)[0])


def equal_mass_calibration_error(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS) -> float:
    """Return the expected calibration error over bins of equally many answers (adaptive ECE).

    Equation: as `expected_calibration_error`, with the bin of an answer floor(M (K + m / 2) / B): K answers are more confident,
    and m, itself among them, just as confident. Equal confidences never part, so bins are even only as far as ties allow;
    without ties their sizes differ by at most one.

    Args:
        confidence: (B,) probabilities, 0 to 1.
        right: (B,) whether each answer is right.
        bins: M, how many.

    Returns:
        The error, 0..1, biased upwards as `expected_calibration_error`.

    Raises:
        InputError: as `expected_calibration_error`.

    Reference: Nguyen and O'Connor (2015) for bins of equal mass; the rule for ties is ours.

    Example:
        >>> equal_mass_calibration_error(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, False, False]), bins=2).__round__(3)
        0.2
    """
    return float(mass_errors(_tied(confidence, right), bins=bins)[0])


def debiased_squared_error(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS) -> float:
    """Return the squared calibration error over bins of equal mass, less the part that is only noise of the labels.

    Equation: sum_b (n_b / B) [(acc_b - conf_b)^2 - acc_b (1 - acc_b) / (n_b - 1)]. A bin of one answer has no noise estimate
    and counts 0. What is taken away is the plug-in bias, so the sum is **negative** where the bins lie closer to calibration
    than their noise: no miscalibration can be seen. `debiased_calibration_error` is then 0.

    Args:
        confidence: (B,) probabilities, 0 to 1.
        right: (B,) whether each answer is right.
        bins: M, how many, of equal mass as in `equal_mass_calibration_error`.

    Returns:
        The squared error, possibly negative. It is unbiased for the error of the bins' means, which is at most that of the
        probabilities themselves.

    Raises:
        InputError: as `expected_calibration_error`.

    Reference: Kumar, Liang and Ma (2019), section 4.

    Example:
        >>> debiased_squared_error(np.array([0.5, 0.5]), np.array([True, False]))
        -0.25
    """
    return float(debiased_squares(_tied(confidence, right), bins=bins)[0])


def debiased_calibration_error(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS) -> float:
    """Return sqrt(max(0, D)), D of `debiased_squared_error`: 0 where no miscalibration can be seen beyond noise.

    Example:
        >>> debiased_calibration_error(np.array([0.5, 0.5]), np.array([True, False]))
        0.0
    """
    return float(np.sqrt(max(0.0, debiased_squared_error(confidence, right, bins=bins))))


def ks_calibration_error(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"]) -> float:
    """Return the Kolmogorov-Smirnov calibration error: the largest gap of running sums of confidences and of right answers.

    Equation: KS = max_k (1/B) |sum_{i <= k} (y_(i) - p_(i))|, answers in ascending confidence, k only where a group of equal
    confidences ends. It needs no bins.

    Args:
        confidence: (B,) probabilities, 0 to 1.
        right: (B,) whether each answer is right.

    Returns:
        The error, 0..1.

    Raises:
        InputError: as `expected_calibration_error`.

    Reference: Gupta et al. (2021), eq. 5.

    Example:
        >>> ks_calibration_error(np.array([0.25, 0.75]), np.array([True, True]))
        0.5
    """
    return float(ks_errors(_tied(confidence, right))[0])


def reliability_bins(
    confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS, level: float = 0.95
) -> tuple[ReliabilityBin, ...]:
    """Return the bins of the reliability diagram, those of `expected_calibration_error`, empty ones left out.

    Equation: Wilson's interval (a + z^2 / 2n +- z sqrt(a (1 - a) / n + z^2 / 4n^2)) / (1 + z^2 / n) around the share right a
    of n answers, z the normal quantile. It takes the queries of a bin as independent: clusters make it too narrow.

    Args:
        confidence: (B,) probabilities, 0 to 1.
        right: (B,) whether each answer is right.
        bins: how many, of equal width.
        level: coverage of the intervals, 0 to 1.

    Returns:
        The bins from low to high.

    Raises:
        InputError: as `expected_calibration_error`, or a level outside 0..1.

    Reference: Wilson (1927).

    Example:
        >>> found = reliability_bins(np.array([0.6, 0.7]), np.array([True, False]), bins=2)
        >>> [(each.low, each.queries, each.right, round(each.ci_low, 3)) for each in found]
        [(0.5, 2, 0.5, 0.095)]
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; expected a coverage between 0 and 1, such as 0.95")
    binned = width_bins(_tied(confidence, right), bins=bins)
    z = float(norm.ppf((1.0 + level) / 2.0))
    result = []
    for place in reversed(range(bins)):
        count, share = int(binned.sizes[0, place]), float(binned.shares_right[0, place])
        if not count:
            continue
        center, scale = share + z * z / (2.0 * count), 1.0 + z * z / count
        half = z * np.sqrt(share * (1.0 - share) / count + (z / (2.0 * count)) ** 2)
        result.append(
            ReliabilityBin(
                low=(bins - 1 - place) / bins,
                high=(bins - place) / bins,
                queries=count,
                probability=min(1.0, max(0.0, float(share + binned.gaps[0, place] / count))),
                right=share,
                ci_low=max(0.0, float((center - half) / scale)),
                ci_high=min(1.0, float((center + half) / scale)),
            )
        )
    return tuple(result)


@dataclass(frozen=True)
class Bins:
    """Sums over the M bins of each of R resamples, the bin of the highest confidence first.

    Args:
        sizes: (R, M) answers.
        right: (R, M) right answers.
        gaps: (R, M) sum of confidences less right answers.
    """

    sizes: np.ndarray
    right: np.ndarray
    gaps: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """(R,) answers in all."""
        return self.sizes.sum(axis=1)

    @property
    def shares_right(self) -> np.ndarray:
        """(R, M) share of right answers; 0 in an empty bin."""
        return self.right / np.maximum(self.sizes, 1.0)

    @property
    def mean_gaps(self) -> np.ndarray:
        """(R, M) mean confidence less share right; 0 in an empty bin."""
        return self.gaps / np.maximum(self.sizes, 1.0)


def width_bins(tied: TiedAnswers, *, bins: int = BINS) -> Bins:
    """Return the sums over bins of equal width; see `expected_calibration_error` for the edges."""
    _check_bins(bins)
    lower_edges = np.arange(bins - 1, -1, -1) / bins
    ends = np.searchsorted(-tied.confidence, -lower_edges, side="right")
    return _binned(tied, np.broadcast_to(ends, (tied.held.shape[0], bins)))


def mass_bins(tied: TiedAnswers, *, bins: int = BINS) -> Bins:
    """Return the sums over bins of equal mass; see `equal_mass_calibration_error` for the rule."""
    _check_bins(bins)
    # floor(M (K + m / 2) / B) >= b in whole numbers, K + m the answers held: 2 (K + m) - m >= 2 b B / M.
    middles = 2.0 * tied.held - tied.counts
    wanted = np.ceil(2.0 * np.arange(1, bins) * tied.size[:, None] / bins)
    inner = np.array([np.searchsorted(row, edges) for row, edges in zip(middles, wanted, strict=True)], dtype=np.int64)
    return _binned(tied, np.concatenate([inner, np.full((middles.shape[0], 1), middles.shape[1])], axis=1))


def width_errors(tied: TiedAnswers, *, bins: int = BINS) -> Float[np.ndarray, " R"]:
    """Return the `expected_calibration_error` of each resample."""
    return _absolute(width_bins(tied, bins=bins))


def mass_errors(tied: TiedAnswers, *, bins: int = BINS) -> Float[np.ndarray, " R"]:
    """Return the `equal_mass_calibration_error` of each resample."""
    return _absolute(mass_bins(tied, bins=bins))


def debiased_squares(tied: TiedAnswers, *, bins: int = BINS) -> Float[np.ndarray, " R"]:
    """Return the `debiased_squared_error` of each resample."""
    binned = mass_bins(tied, bins=bins)
    share = binned.shares_right
    terms = binned.mean_gaps**2 - share * (1.0 - share) / np.maximum(binned.sizes - 1.0, 1.0)
    return np.where(binned.sizes > 1.0, binned.sizes * terms, 0.0).sum(axis=1) / binned.total


def debiased_errors(tied: TiedAnswers, *, bins: int = BINS) -> Float[np.ndarray, " R"]:
    """Return the `debiased_calibration_error` of each resample."""
    return np.sqrt(np.maximum(0.0, debiased_squares(tied, bins=bins)))


def ks_errors(tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the `ks_calibration_error` of each resample."""
    # Running sums from below are the whole less those from above.
    whole = tied.held_gap[:, -1]
    largest = np.maximum(tied.held_gap.max(axis=1) - whole, whole - tied.held_gap.min(axis=1))
    return np.maximum(largest, np.abs(whole)) / tied.size


def _binned(tied: TiedAnswers, ends: np.ndarray) -> Bins:
    """Sums of the bins that end before some groups, (R, M) places that ascend."""
    running = (tied.held, tied.held_right, tied.held_gap)
    return Bins(*(np.diff(sums_before(sums, ends), axis=1, prepend=0.0) for sums in running))


def _absolute(binned: Bins) -> np.ndarray:
    return np.abs(binned.gaps).sum(axis=1) / binned.total


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise InputError(f"bins is {bins}; expected at least 1, such as {BINS}")


def _tied(confidence: np.ndarray, right: np.ndarray) -> TiedAnswers:
    return tied_answers(Answers(confidence, right).as_probabilities())
