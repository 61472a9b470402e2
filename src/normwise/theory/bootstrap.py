"""Intervals of means over queries: percentile bootstrap over clusters of queries, and over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.shapes import Float, Int

SAMPLES = 1000
_TAIL_DRAWS = 20
_CHUNK_DRAWS = 1 << 21


def cluster_mean_interval(
    values: Float[np.ndarray, " B"],
    clusters: Int[np.ndarray, " _"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int = SAMPLES,
    weights: Float[np.ndarray, " _"] | None = None,
) -> Interval:
    """Return the mean over queries with the percentile interval of a bootstrap that draws whole clusters.

    Equation: mean* = sum_c m_c s_c / sum_c m_c n_c, with s_c and n_c the sum and number of values in cluster c and
    m ~ Multinomial(C, 1/C), C the number of clusters. The mean weighs queries, not clusters, equally, unless `weights` says
    otherwise: s_c and n_c are then sums of w x and of w.

    Args:
        values: (B,) one value per query; NaN means undefined and is left out.
        clusters: (B,) the cluster of each query; queries that share a target or a source file belong together.
        seed: of the draws; equal seeds and clusters give equal draws, whatever the values.
        level: coverage in 0..1.
        samples: least number of draws; more are taken so that at least 20 lie in each tail.
        weights: (B,) finite, >= 0; None weighs all alike.

    Returns:
        The interval. With one cluster left nothing can be resampled: the mean stands, its interval is None. Without a
        defined value all three are None.

    Raises:
        InputError: lengths differ, or level or samples is out of range.

    Example:
        >>> cluster_mean_interval(np.array([0.0, 1.0, 1.0, np.nan]), np.array([0, 1, 2, 3]), seed=0).mean
        0.6666666666666666
        >>> cluster_mean_interval(np.array([0.0, 1.0]), np.array([5, 5]), seed=0).ci_low is None
        True
    """
    return hierarchical_interval(values[None, :], clusters, seed=seed, level=level, samples=samples, weights=weights)


def paired_difference_interval(
    candidate: Float[np.ndarray, " B"],
    baseline: Float[np.ndarray, " _"],
    clusters: Int[np.ndarray, " _"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int = SAMPLES,
) -> Interval:
    """Return the mean of `candidate - baseline` over the same queries with its cluster bootstrap interval.

    Args:
        candidate: (B,) values of the one.
        baseline: (B,) values of the other on the same queries; a query undefined in either is left out.
        clusters: (B,) as in `cluster_mean_interval`.
        seed: of the draws.
        level: coverage in 0..1; see `bonferroni_level` for several comparisons.
        samples: least number of draws; more are taken so that at least 20 lie in each tail.

    Returns:
        The interval of the difference, as in `cluster_mean_interval`.

    Raises:
        InputError: lengths differ, or level or samples is out of range.

    Example:
        >>> paired_difference_interval(np.array([1.0, 1.0]), np.array([0.5, 0.5]), np.array([0, 1]), seed=0)
        Interval(mean=0.5, ci_low=0.5, ci_high=0.5)
    """
    if candidate.shape != baseline.shape:
        raise InputError(
            f"candidate has {candidate.shape[0]} queries, baseline {baseline.shape[0]}: a paired difference needs the same queries"
        )
    return cluster_mean_interval(candidate - baseline, clusters, seed=seed, level=level, samples=samples)


def hierarchical_interval(
    values: Float[np.ndarray, "S B"],
    clusters: Int[np.ndarray, " _"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int = SAMPLES,
    weights: Float[np.ndarray, " _"] | None = None,
) -> Interval:
    """Return the mean over seeds and queries with the interval of a bootstrap that draws seeds, then clusters.

    Each draw takes S seeds with replacement, then C clusters with replacement, **the same clusters for all its seeds**:
    every seed is evaluated on the same queries, so drawing clusters anew per seed would count one query's luck S times
    as if it were S queries, and give intervals too narrow by up to sqrt(S).

    Args:
        values: (S, B) one row per seed; NaN is left out. One row leaves the seed's luck out of the interval.
        clusters: (B,) as in `cluster_mean_interval`.
        seed: of the draws.
        level: coverage in 0..1.
        samples: least number of draws; more are taken so that at least 20 lie in each tail.
        weights: (B,) as in `cluster_mean_interval`.

    Returns:
        The interval; with one cluster and one seed it is None around the mean. Draws that hold no defined value (possible
        when most are NaN) are left out.

    Raises:
        InputError: lengths differ, or level or samples is out of range.

    Reference: the pigeonhole bootstrap of crossed factors (Owen 2007), applied to seeds and clusters.

    Example:
        >>> hierarchical_interval(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0, 1]), seed=0).mean
        0.5
    """
    _check(values, clusters, level=level, samples=samples)
    weighed = np.ones(values.shape[1]) if weights is None else _checked_weights(weights, values.shape[1])
    defined = ~np.isnan(values) & (weighed > 0.0)
    if not defined.any():
        return Interval(mean=None, ci_low=None, ci_high=None)
    share = np.where(defined, weighed, 0.0)
    total = np.where(defined, values, 0.0) * share
    mean = float(values[defined].mean()) if weights is None else float(total.sum() / share.sum())
    used = defined.any(axis=0)
    _, cluster = np.unique(clusters[used], return_inverse=True)
    count = int(cluster.max()) + 1
    rows = defined.any(axis=1)
    sums = _cluster_sums(total[rows][:, used], cluster, count)
    numbers = _cluster_sums(share[rows][:, used], cluster, count)
    if count == 1 and sums.shape[0] == 1:
        return Interval(mean=mean, ci_low=None, ci_high=None)
    draws = max(samples, math.ceil(2.0 * _TAIL_DRAWS / (1.0 - level)))
    means = np.concatenate(list(_resampled_means(sums, numbers, seed=seed, samples=draws)))
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(mean=mean, ci_low=float(low), ci_high=float(high))


def paired_hierarchical_interval(
    candidate: Float[np.ndarray, "S B"],
    baseline: Float[np.ndarray, "_ _"],
    clusters: Int[np.ndarray, " _"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int = SAMPLES,
) -> Interval:
    """Return the mean of `candidate - baseline`, paired by seed and query, with its hierarchical bootstrap interval.

    Args:
        candidate: (S, B) values of the one.
        baseline: (S, B) values of the other for the same seeds and queries.
        clusters: (B,) as in `cluster_mean_interval`.
        seed: of the draws.
        level: coverage in 0..1.
        samples: least number of draws, as in `hierarchical_interval`.

    Returns:
        The interval, as in `hierarchical_interval`.

    Raises:
        InputError: shapes differ, or level or samples is out of range.

    Example:
        >>> paired_hierarchical_interval(np.ones((2, 3)), np.zeros((2, 3)), np.arange(3), seed=0).ci_low
        1.0
    """
    if candidate.shape != baseline.shape:
        came = f"candidate has shape {candidate.shape}, baseline {baseline.shape}"
        raise InputError(f"{came}: a paired difference needs the same seeds and queries")
    return hierarchical_interval(candidate - baseline, clusters, seed=seed, level=level, samples=samples)


def bonferroni_level(level: float, comparisons: int) -> float:
    """Return the coverage that each of several intervals needs so that all hold together at `level`.

    Equation: 1 - (1 - level) / m.

    Example:
        >>> round(bonferroni_level(0.95, 5), 6)
        0.99
    """
    return 1.0 - (1.0 - level) / max(1, comparisons)


def holm_levels(claims: Sequence[Callable[[float], Interval]], *, level: float = 0.95) -> list[tuple[Interval, float]]:
    """Return the interval of each of M claims at the level that Holm's step-down test reaches for it.

    The rule: all claims are looked at with coverage 1 - (1 - level) / M. Those whose interval excludes 0 are settled and
    leave; the others are looked at again with M reduced by their number, until none leaves. With p-values in place of
    intervals this is Holm's test, and the chance of any false exclusion is at most 1 - level.

    Args:
        claims: for each claim, a function from coverage to its interval.
        level: joint coverage in 0..1.

    Returns:
        For each claim, in the order given, its interval and the coverage at which it was last looked at.

    Reference: Holm (1979).

    Example:
        >>> near, far = Interval(mean=1, ci_low=-1, ci_high=3), Interval(mean=9, ci_low=8, ci_high=10)
        >>> [round(used, 3) for _, used in holm_levels([lambda _: near, lambda _: far])]
        [0.95, 0.975]
    """
    result: dict[int, tuple[Interval, float]] = {}
    open_claims = list(range(len(claims)))
    while open_claims:
        corrected = bonferroni_level(level, len(open_claims))
        result |= {claim: (claims[claim](corrected), corrected) for claim in open_claims}
        left = [claim for claim in open_claims if not excludes_zero(result[claim][0])]
        if len(left) == len(open_claims):
            break
        open_claims = left
    return [result[claim] for claim in range(len(claims))]


def excludes_zero(interval: Interval) -> bool:
    """Return whether the whole interval lies above or below 0; one that is None excludes nothing.

    Example:
        >>> excludes_zero(Interval(mean=0.2, ci_low=0.0, ci_high=0.3))
        False
    """
    return interval.ci_low is not None and interval.ci_high is not None and (interval.ci_low > 0.0 or interval.ci_high < 0.0)


def clusters_by_target(relevance: Sequence[Mapping[int, float]]) -> Int[np.ndarray, " B"]:
    """Return a cluster number per query; queries linked by a shared relevant candidate, also through others, are one.

    Args:
        relevance: for each query, candidate row -> gain; gains <= 0 link nothing.

    Returns:
        (B,) int64 cluster numbers from 0.

    Example:
        >>> clusters_by_target([{0: 1.0}, {5: 1.0}, {0: 1.0, 7: 2.0}, {}]).tolist()
        [0, 1, 0, 2]
    """
    links = [(query, row) for query, judged in enumerate(relevance) for row, gain in judged.items() if gain > 0.0]
    if not links:
        return np.arange(len(relevance), dtype=np.int64)
    owners = np.array([query for query, _ in links])
    _, targets = np.unique(np.array([row for _, row in links]), return_inverse=True)
    size = len(relevance) + int(targets.max()) + 1
    graph = coo_array((np.ones(owners.size), (owners, len(relevance) + targets)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: len(relevance)]
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _cluster_sums(values: np.ndarray, cluster: np.ndarray, count: int) -> np.ndarray:
    return np.stack([np.bincount(cluster, weights=row, minlength=count) for row in values])


def _resampled_means(sums: np.ndarray, numbers: np.ndarray, *, seed: int, samples: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    seeds, count = sums.shape
    step = max(1, _CHUNK_DRAWS // count)
    for start in range(0, samples, step):
        draws = min(step, samples - start)
        picked = _counts(rng, draws, count)
        weights = _counts(rng, draws, seeds)
        total = np.einsum("rs,rs->r", weights, picked @ sums.T)
        number = np.einsum("rs,rs->r", weights, picked @ numbers.T)
        yield total[number > 0] / number[number > 0]


def _counts(rng: np.random.Generator, draws: int, size: int) -> np.ndarray:
    """How often each of `size` items comes up in `size` draws with replacement: (draws, size) multinomial counts."""
    picks = rng.integers(size, size=(draws, size)) + np.arange(draws)[:, None] * size
    return np.bincount(picks.reshape(-1), minlength=draws * size).reshape(draws, size).astype(np.float64)


def _checked_weights(weights: np.ndarray, queries: int) -> np.ndarray:
    if weights.shape[0] != queries:
        raise InputError(f"weights have {weights.shape[0]} queries, values {queries}: expected one weight per query")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0.0))
    if bad.size:
        raise InputError(f"weights: query {bad[0]} has weight {weights[bad[0]]}; expected a finite number >= 0")
    return weights


def _check(values: np.ndarray, clusters: np.ndarray, *, level: float, samples: int) -> None:
    if values.shape[1] != clusters.shape[0]:
        raise InputError(f"values have {values.shape[1]} queries, clusters {clusters.shape[0]}: expected one cluster per query")
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; expected a coverage between 0 and 1, such as 0.95")
    if samples < 1:
        raise InputError(f"samples is {samples}; expected at least 1")
    if np.isinf(values).any():
        raise InputError("values hold an infinite number; expected finite values, or NaN where a metric is undefined")
