"""Popular candidates: how likely one is to be drawn as a negative, and what each query counts when all candidates count alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float


def log_sampling_probabilities(counts: np.ndarray, *, smoothing: float) -> Float[np.ndarray, " N"]:
    """Return the log of each candidate's share of the training pairs, additively smoothed.

    Equation: log g(d) = log(n_d + s) - log(sum_e n_e + s N).

    Args:
        counts: (N,) training counts n_d >= 0 (whole numbers or weights).
        smoothing: s >= 0, added to every count; 0 is allowed only where every count is positive.

    Returns:
        (N,) float64 values <= 0 whose exponentials sum to 1.

    Raises:
        InputError: no count, a negative or non-finite one, or log 0 would result.

    Reference: the sampled-softmax correction "logit - log g" of Bengio and Senecal (2008); the smoothing is ours.

    Example:
        >>> np.exp(log_sampling_probabilities(np.array([3, 1, 0]), smoothing=1.0)).round(3).tolist()
        [0.571, 0.286, 0.143]
    """
    if counts.ndim != 1 or counts.size == 0:
        raise InputError(f"counts have shape {counts.shape}; expected one count per candidate")
    if not np.isfinite(smoothing) or smoothing < 0:
        raise InputError(f"smoothing is {smoothing}; expected a finite number >= 0")
    values = counts.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise InputError(f"counts: candidate {bad[0]} has count {values[bad[0]]}; expected a finite number >= 0")
    smoothed = values + smoothing
    zero = np.flatnonzero(smoothed == 0)
    if zero.size:
        raise InputError(f"counts: candidate {zero[0]} was never seen and smoothing is 0, so its log is infinite: set smoothing > 0")
    return np.log(smoothed) - np.log(smoothed.sum())


def one_query_per_candidate_weights(relevance: Sequence[Mapping[int, float]]) -> Float[np.ndarray, " B"] | None:
    """Return what each query counts when every relevant candidate counts once, however many queries ask for it.

    Equation: w_q = sum over d relevant to q of 1 / n_d, with n_d the number of queries that d is relevant to. The weighted
    mean of a metric is then its expectation when a candidate is drawn uniformly, and one of its queries after it. Where
    queries are drawn as in use, the plain mean weighs candidates by popularity; the best model for one need not be best
    for the other.

    Args:
        relevance: for each query, candidate row -> gain; gains <= 0 are not relevant.

    Returns:
        (B,) float64 weights >= 0; None where no candidate is shared, since both means are then the same.

    Reference: our derivation; sampled-softmax corrections meet the same two optima (Yi et al., RecSys 2019).

    Example:
        >>> one_query_per_candidate_weights([{7: 1.0}, {7: 1.0}, {2: 1.0}]).tolist()
        [0.5, 0.5, 1.0]
        >>> one_query_per_candidate_weights([{7: 1.0}, {2: 1.0}]) is None
        True
    """
    asked: dict[int, int] = {}
    for judged in relevance:
        for row, gain in judged.items():
            if gain > 0.0:
                asked[row] = asked.get(row, 0) + 1
    if not any(count > 1 for count in asked.values()):
        return None
    return np.array([sum(1.0 / asked[row] for row, gain in judged.items() if gain > 0.0) for judged in relevance], dtype=np.float64)
