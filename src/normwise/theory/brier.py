"""The Brier score and its exact parts: reliability, resolution, uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Bool, Float
from normwise.theory.calibration_error import BINS, width_bins
from normwise.theory.tied_answers import Answers, TiedAnswers, tied_answers


@dataclass(frozen=True)
class BrierParts:
    """The Brier score and what it is made of: score = reliability - resolution + uncertainty, up to rounding.

    Args:
        score: the mean squared error, 0..1.
        reliability: what miscalibration of the bins costs, >= 0.
        resolution: what telling answers apart gains; where confidences mislead inside bins it can be negative.
        uncertainty: a (1 - a) of the share right a, 0..1/4: the score of the constant a.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float


def brier_score(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"]) -> float:
    """Return the mean squared difference of probabilities and answers.

    Equation: BS = (1/B) sum_i (p_i - y_i)^2.

    Args:
        confidence: (B,) probabilities p, 0 to 1.
        right: (B,) whether each answer is right.

    Returns:
        The score, 0 (certain and right throughout) to 1.

    Raises:
        InputError: no answer, lengths differ, or a confidence outside 0..1 or not finite.

    Reference: Brier (1950), half his sum over two classes.

    Example:
        >>> brier_score(np.array([1.0, 0.5]), np.array([True, False]))
        0.125
    """
    return brier_parts(confidence, right).score


def brier_parts(confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], *, bins: int = BINS) -> BrierParts:
    """Return the Brier score in its parts over bins of equal width, exact for any probabilities.

    Equations, with n_k answers, mean probability f_k and share right a_k in bin k, and a the share right of all:

        reliability = (1/B) sum_k n_k (f_k - a_k)^2
        resolution  = (1/B) sum_k n_k (a_k - a)^2 - V + C
        V = (1/B) sum_k sum_{i in k} (p_i - f_k)^2,  C = (2/B) sum_k sum_{i in k} (y_i - a_k) (p_i - f_k)
        uncertainty = a (1 - a)

    V and C, variance and covariance inside the bins, are what Murphy's parts lose where a bin holds unequal probabilities;
    the resolution takes them in. Then score = reliability - resolution + uncertainty holds exactly.

    Args:
        confidence: (B,) probabilities p, 0 to 1.
        right: (B,) whether each answer is right, y.
        bins: how many; see `expected_calibration_error` for their edges.

    Returns:
        The parts.

    Raises:
        InputError: as `brier_score`, or no bin.

    Reference: Murphy (1973); Stephenson, Coelho and Jolliffe (2008), eq. 6, for V and C and the generalized resolution.

    Example:
        >>> parts = brier_parts(np.array([0.75, 0.75, 0.25, 0.25]), np.array([True, True, True, False]))
        >>> parts.score, parts.reliability, parts.resolution, parts.uncertainty
        (0.1875, 0.0625, 0.0625, 0.1875)
    """
    found = brier_values(tied_answers(Answers(confidence, right).as_probabilities()), bins=bins)
    return BrierParts(*(float(found[name][0]) for name in ("brier", "reliability", "resolution", "uncertainty")))


def brier_values(tied: TiedAnswers, *, bins: int = BINS) -> dict[str, Float[np.ndarray, " R"]]:
    """Return "brier", "reliability", "resolution" and "uncertainty" of each resample; see `brier_parts`."""
    probability, size = tied.confidence, tied.size
    squares = tied.counts @ probability**2
    right_sums = tied.right_counts @ probability
    right = tied.held_right[:, -1]
    binned = width_bins(tied, bins=bins)
    share, whole = binned.shares_right, right / size
    mean = share + binned.mean_gaps
    within = squares - (binned.sizes * mean**2).sum(axis=1)
    together = 2.0 * (right_sums - (binned.sizes * mean * share).sum(axis=1))
    between = (binned.sizes * (share - whole[:, None]) ** 2).sum(axis=1)
    return {
        "brier": np.maximum(0.0, squares - 2.0 * right_sums + right) / size,
        "reliability": (binned.sizes * binned.mean_gaps**2).sum(axis=1) / size,
        "resolution": (between - within + together) / size,
        "uncertainty": whole * (1.0 - whole),
    }
