"""Two sets of rows compared, with intervals of a bootstrap over whole units that rows of both sets may share."""

from __future__ import annotations

import numpy as np

from normwise.core.records import Interval
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.resamples import cluster_resamples

DRAWS = 1000


def auc_interval(
    scores: Float[np.ndarray, " N"], is_first: Bool[np.ndarray, " _"], clusters: Int[np.ndarray, " _"], *, seed: int
) -> Interval:
    """Return the chance that a row of the first set scores above one of the second (ties count half), with its interval.

    Args:
        scores: (N,) of all rows.
        is_first: (N,) which are of the first set.
        clusters: (N,) units that are drawn whole.
        seed: of the bootstrap.

    Example:
        >>> auc_interval(np.array([2.0, 3.0, 0.0, 1.0]), np.array([True, True, False, False]), np.arange(4), seed=0).mean
        1.0
    """
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(scores[order]) > 0.0])
    first = is_first[order].astype(np.float64)

    def areas(times: np.ndarray) -> np.ndarray:
        ups = np.add.reduceat(times * first, starts, axis=1)
        downs = np.add.reduceat(times * (1.0 - first), starts, axis=1)
        below = np.cumsum(downs, axis=1) - downs / 2.0
        pairs = ups.sum(axis=1) * downs.sum(axis=1)
        return (ups * below).sum(axis=1)[pairs > 0] / pairs[pairs > 0]

    found = np.concatenate([areas(part.times(order)) for part in cluster_resamples(clusters, seed=seed, samples=DRAWS)])
    low, high = np.quantile(found, [0.025, 0.975])
    return Interval(mean=float(areas(np.ones((1, order.size)))[0]), ci_low=float(low), ci_high=float(high))


def mean_difference_interval(
    values: Float[np.ndarray, " N"], is_first: Bool[np.ndarray, " _"], clusters: Int[np.ndarray, " _"], *, seed: int
) -> Interval:
    """Return the mean of the first set minus that of the second, with the interval of a bootstrap over whole units.

    Example:
        >>> mean_difference_interval(np.array([3.0, 3.0, 1.0, 1.0]), np.array([True, True, False, False]), np.arange(4), seed=0).mean
        2.0
    """
    first = is_first.astype(np.float64)
    draws = []
    for part in cluster_resamples(clusters, seed=seed, samples=DRAWS):
        times = part.times(np.arange(values.size))
        ups, downs = times @ first, times @ (1.0 - first)
        kept = (ups > 0) & (downs > 0)
        draws.append((times @ (values * first))[kept] / ups[kept] - (times @ (values * (1.0 - first)))[kept] / downs[kept])
    low, high = np.quantile(np.concatenate(draws), [0.025, 0.975])
    return Interval(mean=float(values[is_first].mean() - values[~is_first].mean()), ci_low=float(low), ci_high=float(high))
