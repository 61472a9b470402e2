"""Directions in two dimensions, for pictures."""

from __future__ import annotations

import numpy as np

from normwise.core.shapes import Float
from normwise.theory.directions import normalize, norms


def principal_plane(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N 2"]:
    """Project centered directions on their first two principal axes.

    Args:
        vectors: (N, D) raw vectors, N >= 1, D >= 2; their norms do not enter.

    Returns:
        (N, 2) coordinates. Each axis points to the side where its largest loading is positive, so that the picture
        does not flip between machines.

    Example:
        >>> bool(np.allclose(principal_plane(np.array([[1.0, 0.0], [3.0, 0.0]])), 0.0))
        True
    """
    directions = normalize(vectors).astype(np.float64)
    centered = directions - directions.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    axes = axes[:2]
    if len(axes) < 2:
        axes = np.vstack([axes, np.zeros((2 - len(axes), axes.shape[1]))])
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(2), largest])
    return centered @ (axes * np.where(signs == 0, 1.0, signs)[:, None]).T


def norm_percentiles(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
    """The percentile (0 to 100) of each vector's norm among the given ones; equal norms share the middle of their ranks.

    Example:
        >>> norm_percentiles(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])).tolist()
        [0.0, 50.0, 100.0]
    """
    from scipy.stats import rankdata

    if len(vectors) == 1:
        return np.array([50.0])
    return (rankdata(norms(vectors).astype(np.float64)) - 1) / (len(vectors) - 1) * 100
