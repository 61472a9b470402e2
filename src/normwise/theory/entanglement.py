"""How much the norm repeats the direction: correlations of log norms with cosines, neighbors and directions."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from normwise.core.shapes import Float, Int

NAN = float("nan")


def pearson(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> float:
    """Return the correlation of two samples; NaN below 3 values or where one does not vary.

    Equation: sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2). Standardizing either changes nothing.

    Example:
        >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])), 6)
        1.0
    """
    if x.size < 3:
        return NAN
    dx, dy = x - x.mean(), y - y.mean()
    scale = np.sqrt((dx @ dx) * (dy @ dy))
    return float(dx @ dy / scale) if scale > 0.0 else NAN


def spearman(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> float:
    """Return the correlation of ranks, ties sharing the middle of theirs; NaN as in `pearson`.

    Example:
        >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0])), 6)
        1.0
    """
    return pearson(rankdata(x), rankdata(y)) if x.size >= 3 else NAN


def moran_index(values: Float[np.ndarray, " N"], neighbors: Int[np.ndarray, "N K"]) -> float:
    """Return Moran's I of values on a directed graph of K neighbors per item with weights 1.

    Equation: I = (N / (N K)) sum_i sum_{j in neighbors(i)} z_i z_j / sum_i z_i^2, with z = values - mean. Near
    -1 / (N - 1) where neighbors are unrelated, toward 1 where they are alike.

    Args:
        values: (N,) one value per item.
        neighbors: (N, K) rows of each item's neighbors, the item itself left out.

    Returns:
        The index; NaN where the values do not vary.

    Reference: Moran (1950).

    Example:
        >>> moran_index(np.array([1.0, 1.0, -1.0, -1.0]), np.array([[1], [0], [3], [2]]))
        1.0
    """
    z = values - values.mean()
    spread = float(z @ z)
    if spread <= 0.0 or neighbors.size == 0:
        return NAN
    return float((z[:, None] * z[neighbors]).sum()) / neighbors.shape[1] / spread


def distance_correlation(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"]) -> float:
    """Return the bias-corrected distance correlation of two samples: 0 in expectation where they are independent.

    Equations: with a_ij, b_ij the Euclidean distances within x and y, U-centered for i != j as
    A_ij = a_ij - sum_l a_il / (n - 2) - sum_k a_kj / (n - 2) + sum_kl a_kl / ((n - 1)(n - 2)), and
    (A, B) = sum_{i != j} A_ij B_ij / (n (n - 3)):  R* = (A, B) / sqrt((A, A)(B, B)), returned as sqrt(max(0, R*)).
    The plain statistic is not used: in many dimensions it nears 1 for independent samples. A negative R*, which only
    independence gives, is returned as 0.

    Args:
        x: (N, D) points.
        y: (N,) values.

    Returns:
        A value in 0..1; NaN below 4 items or where one sample does not vary.

    Reference: Szekely and Rizzo (2013), the t-test of distance correlation in high dimension.

    Example:
        >>> line = np.arange(8.0)
        >>> round(distance_correlation(line[:, None], 3.0 * line), 6)
        1.0
    """
    n = y.size
    if n < 4:
        return NAN
    squares = (x * x).sum(axis=1)
    a = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (x @ x.T), 0.0))
    np.fill_diagonal(a, 0.0)
    a, b = _u_centered(a), _u_centered(np.abs(y[:, None] - y))
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float(np.sqrt(max(0.0, float((a * b).sum()) / scale))) if scale > 0.0 else NAN


def _u_centered(distances: np.ndarray) -> np.ndarray:
    n = distances.shape[0]
    rows = distances.sum(axis=1)
    centered = distances - (rows[:, None] + rows) / (n - 2) + rows.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centered, 0.0)
    return centered
