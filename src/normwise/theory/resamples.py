"""Bootstrap draws of whole clusters of queries, as counts: how often each draw holds each query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float, Int

# Values of one array of a chunk of resamples: 2 MB each, so that the dozen arrays at work stay near the caches.
_CHUNK_VALUES = 1 << 18


@dataclass(frozen=True)
class Resamples:
    """How often each of R resamples holds each query: a query counts as often as its cluster.

    Args:
        drawn: (R, C) float64 counts of the clusters, each row with at least one.
        cluster: (B,) the cluster of each query, 0..C-1.
    """

    drawn: np.ndarray
    cluster: np.ndarray

    def times(self, order: Int[np.ndarray, " B"]) -> Float[np.ndarray, "R B"]:
        """(R, B) how often each query counts, the queries in this order."""
        return np.take(self.drawn, self.cluster[order], axis=1)


def once(queries: int) -> Resamples:
    """Return the sample itself: every query counts once.

    Example:
        >>> once(2).times(np.array([1, 0])).tolist()
        [[1.0, 1.0]]
    """
    return Resamples(np.ones((1, queries)), np.arange(queries))


def cluster_resamples(clusters: Int[np.ndarray, " B"], *, seed: int, samples: int) -> Iterator[Resamples]:
    """Draw C clusters with replacement, `samples` times, in chunks of few MB; one seed gives the same draws in any chunks.

    Args:
        clusters: (B,) the cluster of each query, of which C are distinct.
        seed: of the draws.
        samples: how many.

    Yields:
        The draws, R of them at a time.

    Example:
        >>> [part.drawn.sum(axis=1).tolist() for part in cluster_resamples(np.array([3, 3, 8]), seed=0, samples=3)]
        [[2.0, 2.0, 2.0]]
    """
    _, cluster = np.unique(clusters, return_inverse=True)
    count = int(cluster.max()) + 1
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK_VALUES // cluster.size)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picked = random.integers(count, size=(rows, count)) + np.arange(rows)[:, None] * count
        drawn = np.bincount(picked.reshape(-1), minlength=rows * count).reshape(rows, count)
        yield Resamples(drawn.astype(np.float64), cluster)
