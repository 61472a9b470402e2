"""Nearest directions within small sets, as the geometry figures need them."""

from __future__ import annotations

import numpy as np

from normwise.core.shapes import Float, Int


def nearest_directions(
    queries: Float[np.ndarray, "B D"], candidates: Float[np.ndarray, "N D"], *, k: int, skip_self: bool = False
) -> Int[np.ndarray, "B K"]:
    """Return the k candidates of largest inner product for every query, best first, ties to the lower row.

    It holds the whole (B, N) matrix: for samples of some thousand rows. `exact_top_k` is for searches.

    Args:
        queries: (B, D) unit vectors.
        candidates: (N, D) unit vectors.
        k: how many; at most N (N - 1 with `skip_self`).
        skip_self: the two sets are the same, and row i is no neighbor of itself.

    Returns:
        (B, k) rows of `candidates`.

    Example:
        >>> nearest_directions(np.eye(3)[:1], np.eye(3), k=2).tolist()
        [[0, 1]]
    """
    scores = queries @ candidates.T
    if skip_self:
        np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]
