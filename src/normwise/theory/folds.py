"""Folds of a cross-validation that keep clusters of queries whole."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Int


def cluster_folds(clusters: Int[np.ndarray, " B"], *, folds: int, seed: int) -> Int[np.ndarray, " B"]:
    """Return the fold of each query: no cluster is split, and folds are as even as clusters allow.

    Clusters come in random order, large ones first, and each joins the fold that is smallest so far.

    Args:
        clusters: (B,) the cluster of each query.
        folds: how many, 2 or more; at most the number of clusters are made.
        seed: of the order.

    Returns:
        (B,) int64 numbers from 0; each of them occurs.

    Raises:
        InputError: fewer than two folds or clusters.

    Example:
        >>> cluster_folds(np.array([4, 4, 9, 9]), folds=2, seed=0)[[0, 2]].tolist() in ([0, 1], [1, 0])
        True
    """
    _, cluster, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    if folds < 2 or sizes.size < 2:
        raise InputError(f"{folds} folds of {sizes.size} clusters of queries: expected at least two of both")
    order = np.random.default_rng(seed).permutation(sizes.size)
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = np.zeros(min(folds, sizes.size), dtype=np.int64)
    fold_of = np.empty(sizes.size, dtype=np.int64)
    for each in order:
        fold_of[each] = np.argmin(filled)
        filled[fold_of[each]] += sizes[each]
    return fold_of[cluster]
