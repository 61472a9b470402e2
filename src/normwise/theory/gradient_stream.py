"""Streaming moments of items' gradients: mean, scatter and agreement in one pass, memory of two vectors per item."""

from __future__ import annotations

from typing import final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int


@final
class GradientStream:
    """Running moments of each item's gradients, one visit at a time.

    Equations (Welford), at visit n of an item with gradient g:

        delta = g - mean;  mean += delta / n;  scatter += <delta, g - mean>;  products += <g, g of visit n - 1>
        noise = scatter / (n - 1);  signal = ||mean||^2 - noise / n;  G = mean ||g||^2 = signal + noise exactly

    Args:
        items: N >= 1.
        width: D >= 1.

    Raises:
        InputError: a size below 1.

    Reference: Welford (1962); the split is that of `regimes.split_second_moment`.

    Example:
        >>> stream = GradientStream(1, 2)
        >>> for g in ([1.0, 1.0], [1.0, -1.0]):
        ...     stream.add(np.array([0]), np.array([g]))
        >>> stream.second_moments.tolist(), stream.signals.tolist(), stream.noises.tolist(), stream.agreements.tolist()
        ([2.0], [0.0], [2.0], [0.0])
    """

    def __init__(self, items: int, width: int) -> None:
        if items < 1 or width < 1:
            raise InputError(f"items is {items} and width {width}; expected at least 1 of each")
        self.width = width
        self.visits = np.zeros(items, dtype=np.int64)
        self._means = np.zeros((items, width))
        self._last = np.zeros((items, width), dtype=np.float32)
        self._scatter = np.zeros(items)
        self._squares = np.zeros(items)
        self._products = np.zeros(items)

    def add(self, rows: Int[np.ndarray, " B"], gradients: Float[np.ndarray, "B D"]) -> None:
        """Take one visit of each given item.

        Args:
            rows: (B,) items, each at most once.
            gradients: (B, D) finite gradients.

        Raises:
            InputError: an item twice, or values that are not finite.
        """
        if np.unique(rows).size != rows.size:
            raise InputError("rows name an item twice in one visit: add its gradients up first")
        g = gradients.astype(np.float64)
        squares = np.einsum("bd,bd->b", g, g)
        if not np.isfinite(squares).all():
            raise InputError(f"gradients: item {rows[np.argmin(np.isfinite(squares))]} has a gradient that is not finite")
        self._products[rows] += np.einsum("bd,bd->b", g, self._last[rows])
        self._last[rows] = g
        self._squares[rows] += squares
        self.visits[rows] += 1
        mean = self._means[rows]
        delta = g - mean
        mean += delta / self.visits[rows][:, None]
        self._means[rows] = mean
        self._scatter[rows] += np.einsum("bd,bd->b", delta, g - mean)

    @property
    def second_moments(self) -> Float[np.ndarray, " N"]:
        """G = mean ||g||^2; NaN for an item without a visit."""
        return _ratio(self._squares, self.visits)

    @property
    def noises(self) -> Float[np.ndarray, " N"]:
        """Unbiased tr Cov(g) over the visits; NaN below two of them."""
        return _ratio(self._scatter, self.visits - 1)

    @property
    def signals(self) -> Float[np.ndarray, " N"]:
        """Unbiased ||E g||^2, with E the mean over the visits; NaN below two of them."""
        return self.second_moments - self.noises

    @property
    def agreements(self) -> Float[np.ndarray, " N"]:
        """Mean <g, g of the visit before>; NaN below two visits."""
        return _ratio(self._products, self.visits - 1)

    @property
    def signal_shares(self) -> Float[np.ndarray, " N"]:
        """max(signal, 0) / (max(signal, 0) + noise), 0 to 1; NaN where undefined."""
        signal = np.maximum(self.signals, 0.0)
        total = signal + self.noises
        return np.divide(signal, total, out=np.full(total.shape, np.nan), where=total > 0.0)


def tangential(vectors: Float[np.ndarray, "B D"], gradients: Float[np.ndarray, "B D"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients on the unit sphere, and how much of the raw ones points along the vectors.

    Equation: g = r P_u dL/dz, with r = ||z||, hat u = z / r; along = r <hat u, dL/dz>, which is 0 where L sees directions only.

    Args:
        vectors: (B, D) z, none of them zero.
        gradients: (B, D) dL/dz.

    Returns:
        (B, D) tangential g, and (B,) along.

    Reference: chain rule of a cosine loss, our derivation.

    Example:
        >>> g, along = tangential(np.array([[2.0, 0.0]]), np.array([[0.5, 3.0]]))
        >>> g.tolist(), along.tolist()
        ([[0.0, 6.0]], [1.0])
    """
    z, d = vectors.astype(np.float64), gradients.astype(np.float64)
    norms = np.sqrt(np.einsum("bd,bd->b", z, z))[:, None]
    directions = z / norms
    scaled = norms * d
    along = np.einsum("bd,bd->b", directions, scaled)
    return scaled - along[:, None] * directions, along


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
