"""The standard error of a mean over queries that come in clusters."""

from __future__ import annotations

import numpy as np

from normwise.core.shapes import Float, Int


def standard_error(values: Float[np.ndarray, " B"], clusters: Int[np.ndarray, " B"]) -> float | None:
    """Return the cluster-robust standard error of a mean over queries.

    Equation: SE^2 = C / (C - 1) sum_c (sum_{i in c} (x_i - mean))^2 / B^2, C the number of clusters.

    Args:
        values: (B,) finite numbers.
        clusters: (B,) the cluster of each.

    Returns:
        The error, >= 0; None with a single cluster.

    Reference: the sandwich estimator of Liang and Zeger (1986) for a mean.

    Example:
        >>> round(standard_error(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1])), 6), standard_error(np.ones(2), np.zeros(2, int))
        (0.5, None)
    """
    _, cluster = np.unique(clusters, return_inverse=True)
    sums = np.bincount(cluster, weights=values - values.mean())
    if sums.size < 2:
        return None
    return float(np.sqrt(sums.size / (sums.size - 1.0) * (sums**2).sum()) / values.size)
