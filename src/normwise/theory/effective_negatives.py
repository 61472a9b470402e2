"""How many of k negatives count: the effective number of a softmax over each of many sets of k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float

_FEWEST_QUERIES, _MOST_QUERIES = 50, 200
_ENOUGH_SCORES = 1 << 21
_TWO = 2
_BLOCK_VALUES = 1 << 22
_STREAM = 9


def effective_counts(scores: Float[np.ndarray, " M"], ks: Sequence[int]) -> list[float]:
    """Return the mean effective number of negatives in disjoint sets of k of them, for each k.

    Equation: n_k = mean over sets of (sum e^s)^2 / sum e^{2s} = mean of 1 / sum w^2, w the softmax of the set.

    How: sets of 2k are made of two sets of k, each with a shift of its own, so that the whole curve costs one exponential a score and no
    set underflows beside another.

    Args:
        scores: (M,) finite scores of one query's negatives, in a random order.
        ks: sizes of sets, ascending, 1 to M; what is left over of M belongs to no set.

    Returns:
        One number for each k, 1 <= n_k <= k; 1 exactly at k = 1. It need not grow with k: a set that holds the one negative that outweighs
        all others has 1.

    Raises:
        InputError: a k that is not in 1..M, or not above the one before.

    Reference: Kish (1965) for the effective size of a weighted sample.

    Example:
        >>> effective_counts(np.array([0.0, 0.0, 900.0, 0.0]), [1, 2, 4])
        [1.0, 1.5, 1.0]
    """
    found, shift, last = [], np.asarray(scores, dtype=np.float64), 1
    first, second = np.ones_like(shift), np.ones_like(shift)
    for k in ks:
        if not last <= k <= scores.size or (found and k == last):
            raise InputError(f"ks has {k} after {last} of {scores.size} scores; expected ascending sizes, 1 to that number")
        if k == last:
            parts = 1
        elif k % last == 0:
            parts = k // last
        else:
            # No multiple of the one before: from the scores again.
            shift, parts = np.asarray(scores, dtype=np.float64), k
            first, second = np.ones_like(shift), np.ones_like(shift)
        shift, first, second = _joined(shift, first, second, parts)
        found.append(float(np.clip(first * first / second, 1.0, k).mean()))
        last = k
    return found


def effective_curve(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "M _"],
    ks: Sequence[int],
    *,
    masked: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
) -> Float[np.ndarray, " K"]:
    """Return medians over queries of `effective_counts`, of at most 200 queries that are drawn by the seed, 50 where the pool is large.

    Args:
        queries: (B, D) scaled so that the product with a candidate is the score, similarity / temperature.
        candidates: (M, D) the pool in a random order.
        ks: ascending sizes of sets, none above the negatives that any query has.
        masked: rows of queries and of candidates, (P,) each, of pairs that are no negatives.
        seed: of the draw.

    Returns:
        (K,) medians, 1 <= n_k <= k.

    Raises:
        InputError: as `effective_counts`.

    Example:
        >>> effective_curve(np.eye(3), np.ones((8, 3)), [1, 4, 7]).tolist()
        [1.0, 4.0, 7.0]
    """
    rows = np.arange(len(queries))
    most = min(max(_FEWEST_QUERIES, _ENOUGH_SCORES // len(candidates)), _MOST_QUERIES)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng([seed, _STREAM]).choice(rows, most, replace=False))
    own, places = (np.empty(0, dtype=np.int64),) * 2 if masked is None else masked
    order = np.argsort(own, kind="stable")
    own, places = own[order], places[order]
    found, step = [], max(1, _BLOCK_VALUES // len(candidates))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        for row, scores in zip(block.tolist(), queries[block] @ candidates.T, strict=True):
            gone = places[np.searchsorted(own, row) : np.searchsorted(own, row, side="right")]
            found.append(effective_counts(np.delete(scores, gone), ks))
    return np.median(np.array(found), axis=0)


def _joined(shift: np.ndarray, first: np.ndarray, second: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets of so many sets: their largest score, and sums of e^(s - it) and of the square."""
    if parts == 1:
        return shift, first, second
    sets = len(shift) // parts
    shift, first, second = (each[: sets * parts].reshape(sets, parts) for each in (shift, first, second))
    if parts == _TWO:
        return _paired(shift, first, second)
    top = shift.max(axis=1)
    terms = np.exp(shift - top[:, None])
    return top, (first * terms).sum(axis=1), (second * terms * terms).sum(axis=1)


def _paired(shift: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_joined` of two, with one exponential: the larger score of a pair is its own shift."""
    left = shift[:, 0] >= shift[:, 1]
    term = np.exp(-np.abs(shift[:, 0] - shift[:, 1]))
    sums = [np.where(left, each[:, 0], each[:, 1]) for each in (shift, first, second)]
    sums[1] += term * np.where(left, first[:, 1], first[:, 0])
    sums[2] += term * term * np.where(left, second[:, 1], second[:, 0])
    return sums[0], sums[1], sums[2]
