"""How well a confidence tells right answers from wrong ones: negative log likelihood, and the area under risk and coverage."""

from __future__ import annotations

import numpy as np
from scipy.special import xlog1py, xlogy
from scipy.stats import rankdata

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float


def negative_log_likelihood(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> float:
    """Return the mean negative log likelihood of right and wrong answers under their confidences.

    Equation: NLL = -(1/B) sum_i [y_i log p_i + (1 - y_i) log(1 - p_i)]; a certainty that proves wrong makes it infinite.

    Args:
        confidence: (B,) probabilities p in 0..1 that an answer is right.
        correct: (B,) whether it is.

    Returns:
        The mean in nats, >= 0.

    Raises:
        InputError: no answer, lengths differ, or a confidence outside 0..1.

    Example:
        >>> round(negative_log_likelihood(np.array([0.5, 0.5]), np.array([True, False])), 4)
        0.6931
    """
    return float(np.mean(log_losses(confidence, correct)))


def log_losses(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> Float[np.ndarray, " B"]:
    """Return each answer's own term of `negative_log_likelihood`, for paired comparisons.

    Example:
        >>> log_losses(np.array([1.0, 0.5]), np.array([True, False])).round(4).tolist()
        [0.0, 0.6931]
    """
    _check(confidence, correct)
    if ((confidence < 0.0) | (confidence > 1.0)).any():
        raise InputError(f"confidence runs from {confidence.min()} to {confidence.max()}; expected probabilities, 0 to 1")
    return -(xlogy(correct, confidence) + xlog1py(~correct, -confidence)) + 0.0


def aurc(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> float:
    """Return the area under the risk-coverage curve: the mean error rate among the k most confident answers, over all k.

    Equation: R(k) = (1/k) sum_{i <= k} (1 - y_(i)) with answers in descending confidence, AURC = (1/B) sum_k R(k). Answers of
    equal confidence count as their mean over all orders among themselves, so the figure does not depend on how they are sorted.

    Args:
        confidence: (B,) finite numbers; only their order counts.
        correct: (B,) whether an answer is right.

    Returns:
        The area, 0 (all right) to 1 (all wrong).

    Raises:
        InputError: no answer, lengths differ, or a confidence is not finite.

    Reference: Geifman and El-Yaniv (2017) for the curve; the mean over ties is ours.

    Example:
        >>> aurc(np.array([0.9, 0.5]), np.array([True, False])), aurc(np.array([0.7, 0.7]), np.array([True, False]))
        (0.25, 0.5)
    """
    _check(confidence, correct)
    order, starts = _ranked(confidence)
    wrong = (~correct[order]).astype(np.float64)
    if starts.size < wrong.size:
        sizes = np.diff(np.append(starts, wrong.size))
        wrong = np.repeat(np.add.reduceat(wrong, starts) / sizes, sizes)
    return float(np.mean(np.cumsum(wrong) / np.arange(1, wrong.size + 1)))


def excess_aurc(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> float:
    """Return E-AURC: the area under risk and coverage, less that of the best order of the same answers.

    Equation: E-AURC = AURC - AURC*, AURC* = (1/B) sum_{k > B - m} (k - (B - m)) / k with m wrong answers, all of them last. For
    many answers and error rate e, AURC* tends to e + (1 - e) log(1 - e).

    Args:
        confidence: (B,) finite numbers; only their order counts.
        correct: (B,) whether an answer is right.

    Returns:
        The excess, >= 0; 0 where every right answer is more confident than every wrong one.

    Raises:
        InputError: as `aurc`.

    Reference: Geifman, Uziel and El-Yaniv (2019).

    Example:
        >>> excess_aurc(np.array([0.2, 0.1]), np.array([True, False])), excess_aurc(np.array([0.1, 0.2]), np.array([True, False]))
        (0.0, 0.5)
    """
    # The best order through the same sums: a perfect confidence has an excess of exactly 0.
    return aurc(confidence, correct) - aurc(correct.astype(np.float64) - np.arange(correct.size) / (2.0 * correct.size), correct)


def auroc(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> float | None:
    """Return the chance that a right answer has more confidence than a wrong one, ties counting half.

    Equation: AUROC = (mean rank of right answers - (n_right + 1) / 2) / n_wrong (Mann-Whitney).

    Args:
        confidence: (B,) finite numbers; only their order counts.
        correct: (B,) whether an answer is right.

    Returns:
        The chance, 0..1; None where all answers are right or all are wrong.

    Raises:
        InputError: as `aurc`.

    Example:
        >>> auroc(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))
        0.75
    """
    _check(confidence, correct)
    right = int(np.count_nonzero(correct))
    wrong = correct.size - right
    if right == 0 or wrong == 0:
        return None
    return float((rankdata(confidence)[correct].mean() - (right + 1.0) / 2.0) / wrong)


def _ranked(confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The answers in descending confidence, and where each group of equal ones starts."""
    order = np.argsort(-confidence, kind="stable")
    ranked = confidence[order]
    return order, np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))


def _check(confidence: np.ndarray, correct: np.ndarray) -> None:
    if confidence.shape != correct.shape:
        raise InputError(f"confidence has {confidence.shape[0]} answers, correct {correct.shape[0]}: expected one of both for each")
    if not confidence.size:
        raise InputError("confidence holds no answer: expected at least one")
    if not np.isfinite(confidence).all():
        place = int(np.flatnonzero(~np.isfinite(confidence))[0])
        raise InputError(f"confidence: answer {place} has {confidence[place]}; expected a finite number")
