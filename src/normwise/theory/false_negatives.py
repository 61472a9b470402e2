"""How many of the negatives may be positives in truth, from scores alone; and how a pool differs from the positives of other queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float

# Where positives are thick enough on the ground to be counted, from their median up.
_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9)
_LEAST_ABOVE = 20
_BLOCK_VALUES = 1 << 22
# 95% for the least of five bounds at once.
_Z = 2.5758293035489004
_NONE_SEEN = 3.0


@dataclass(frozen=True)
class FalseNegatives:
    """An upper bound on the share of negatives that are positives in truth.

    Args:
        at_most: estimate of the bound, 0..1; NaN where too few positives came.
        high: upper end of its 95% interval.
        threshold: the score at which it was reached.
        above_own: mean share of a query's negatives that score above its own positive.
        hit_rate: share of queries whose positive is found first; where t negatives tie with it and none is above, it is so once in
            1 + t times. No tie is above.
    """

    at_most: float
    high: float
    threshold: float
    above_own: float
    hit_rate: float


def false_negative_bound(
    queries: Float[np.ndarray, "B D"],
    positives: Float[np.ndarray, "N _"],
    pool: Float[np.ndarray, "M _"],
    *,
    masked: tuple[np.ndarray, np.ndarray] | None = None,
) -> FalseNegatives:
    """Bound the share of negatives that are positives in truth, and count what negatives outrank.

    Equation: were a share pi of the negatives drawn like positives, then P_neg(s >= t) >= pi P_pos(s >= t) for every t; so
    pi <= min_t P_neg(s >= t) / P_pos(s >= t), over thresholds t at the median to the 90% quantile of the positives' scores.

    Args:
        queries: (B, D) such that the product with a candidate is the similarity.
        positives: (B, D) likewise.
        pool: (M, D) likewise.
        masked: rows of queries and of the pool, (P,) each, of pairs that are known to be no negatives.

    Returns:
        The bound: true whatever the model, and close only where some negatives score as only positives do. A negative is above a positive
        if its score is higher by more than float32 rounds scores, sqrt(D) 2^-23 ||q|| ||x||, and ties with it if it is no lower by more.

    Raises:
        InputError: shapes do not fit.

    Reference: Blanchard, Lee and Scott (2010), for mixture proportions; thresholds and interval are ours.

    Example:
        >>> found = false_negative_bound(np.eye(2), np.eye(2), -np.ones((3, 2)))
        >>> found.hit_rate, found.above_own
        (1.0, 0.0)
    """
    if queries.shape != positives.shape or queries.ndim != 2 or pool.ndim != 2 or pool.shape[1] != queries.shape[1]:
        raise InputError(f"queries have shape {queries.shape}, positives {positives.shape}, pool {pool.shape}; expected rows of one width")
    own = np.einsum("ij,ij->i", queries, positives, dtype=np.float64)
    levels = np.quantile(own, _QUANTILES)
    above, above_pool = np.zeros((len(own), len(levels))), np.zeros((len(pool), len(levels)))
    beaten, ties, size = np.zeros(len(own)), np.zeros(len(own)), np.full(len(own), float(len(pool)))
    rows, places = (np.empty(0, dtype=np.int64),) * 2 if masked is None else masked
    np.subtract.at(size, rows, 1.0)
    lengths, rounding = np.linalg.norm(queries, axis=1), np.linalg.norm(pool, axis=1) * np.sqrt(pool.shape[1]) * np.finfo(np.float32).eps
    step = max(1, _BLOCK_VALUES // len(pool))
    for low in range(0, len(own), step):
        block = slice(low, low + step)
        scores = np.asarray(queries[block] @ pool.T, dtype=np.float64)
        here = (rows >= low) & (rows < low + step)
        scores[rows[here] - low, places[here]] = -np.inf
        slack = lengths[block, None] * rounding
        beaten[block] = (scores - slack > own[block, None]).sum(axis=1)
        ties[block] = (scores + slack >= own[block, None]).sum(axis=1) - beaten[block]
        for column, level in enumerate(levels):
            higher = scores >= level
            above[block, column] = higher.sum(axis=1)
            above_pool[:, column] += higher.sum(axis=0)
    kept = size > 0.0
    if not kept.any():
        raise InputError("no query has a negative: every candidate of the pool is its own positive; give a larger pool")
    # The draw of queries and that of the pool, which all of them share.
    shares = above[kept] / size[kept, None]
    spread = _variance(shares) + _variance(above_pool / kept.sum())
    above_own = float((beaten[kept] / size[kept]).mean())
    hit_rate = float(np.where(beaten == 0.0, 1.0 / (1.0 + ties), 0.0)[kept].mean())
    return _bound(own, levels, shares.mean(axis=0), np.sqrt(spread), len(pool), above_own=above_own, hit_rate=hit_rate)


def _variance(values: np.ndarray) -> np.ndarray:
    """Of the mean of (N, L) values over their first axis."""
    return values.var(axis=0, ddof=1) / len(values) if len(values) > 1 else np.full(values.shape[1], np.inf)


def _bound(
    own: np.ndarray, levels: np.ndarray, negative: np.ndarray, error: np.ndarray, pool: int, *, above_own: float, hit_rate: float
) -> FalseNegatives:
    counts = (own[:, None] >= levels).sum(axis=0)
    positive = counts / own.size
    usable = counts >= min(_LEAST_ABOVE, own.size)
    if own.size < 2 or not usable.any():
        return FalseNegatives(float("nan"), float("nan"), float("nan"), above_own, hit_rate)
    least = np.maximum(positive - _Z * np.sqrt(positive * (1.0 - positive) / own.size), 1.0 / own.size)
    estimates = np.where(usable, negative / positive, np.inf)
    # Where none of the pool was seen so high, a share of 3 / M of it would still be missed once in twenty times.
    high = np.where(usable, np.maximum(negative + _Z * error, _NONE_SEEN / pool) / least, np.inf)
    best = int(np.argmin(estimates))
    return FalseNegatives(
        at_most=float(min(1.0, estimates[best])),
        high=float(min(1.0, high.min())),
        threshold=float(levels[best]),
        above_own=above_own,
        hit_rate=hit_rate,
    )


def score_shift(
    queries: Float[np.ndarray, "B D"],
    first: Float[np.ndarray, "N D"],
    second: Float[np.ndarray, "M D"],
    *,
    seed: int = 0,
    draws: int = 20_000,
) -> float:
    """Return the Kolmogorov-Smirnov distance between scores of random pairs with two sets of candidates, 0..1.

    In-batch negatives are positives of other queries: with `first` the positives and `second` a pool, it says how far the law of the
    one is from that of the other, as far as scores show it.

    Args:
        queries: (B, D) such that the product with a candidate is the similarity.
        first: (N, D) candidates; where N = B a query is never paired with its own row.
        second: (M, D) other ones.
        seed: of the pairs.
        draws: pairs with each set.

    Raises:
        InputError: a single query with its own row alone.

    Example:
        >>> round(score_shift(np.eye(2), np.eye(2), -np.eye(2)), 1)
        0.5
    """
    random = np.random.default_rng(seed)
    same = len(first) == len(queries)
    if same and len(first) < 2:
        raise InputError("one query and one positive: no other pair can be drawn; give at least 2")
    rows = random.integers(len(queries), size=(2, draws))
    own = (rows[0] + random.integers(1, len(first), size=draws)) % len(first) if same else random.integers(len(first), size=draws)
    other = random.integers(len(second), size=draws)
    scores = [np.einsum("ij,ij->i", queries[rows[0]], first[own]), np.einsum("ij,ij->i", queries[rows[1]], second[other])]
    grid = np.sort(np.concatenate(scores))
    shares = [np.searchsorted(np.sort(part), grid, side="right") / draws for part in scores]
    return float(np.abs(shares[0] - shares[1]).max())
