"""Exact mean and spread of a product of two matrices when the items of one are permuted: a null without a draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float, Int


@dataclass(frozen=True)
class MatrixSums:
    """What the moments of <K, P L P^T>_F over permutations P take from a symmetric matrix K (n, n).

    Of the diagonal k and the rest X, with row sums x_i: sum k, sum k^2, sum k_i x_i, sum X_ij^2, sum x_i^2, sum X_ij.
    """

    count: int
    diagonal: float
    diagonal_squares: float
    diagonal_rows: float
    squares: float
    row_squares: float
    total: float

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "A A"]) -> MatrixSums:
        """Sum up a symmetric matrix."""
        diagonal = np.diagonal(matrix)
        rows = matrix.sum(axis=1) - diagonal
        squares = float(np.vdot(matrix, matrix) - diagonal @ diagonal)
        return cls(
            rows.size,
            float(diagonal.sum()),
            float(diagonal @ diagonal),
            float(diagonal @ rows),
            squares,
            float(rows @ rows),
            float(rows.sum()),
        )

    @classmethod
    def of_pairs(cls, values: Float[np.ndarray, " P"], pairs: Int[np.ndarray, "2 P"], *, count: int) -> MatrixSums:
        """Sum up the symmetric matrix with these values at the pairs of `count` tokens and zeros elsewhere."""
        rows = np.bincount(pairs[0], values, count) + np.bincount(pairs[1], values, count)
        return cls(count, 0.0, 0.0, 0.0, 2.0 * float(values @ values), float(rows @ rows), float(rows.sum()))


def permutation_moments(first: MatrixSums, second: MatrixSums) -> tuple[float, float]:
    """Return mean and standard deviation of <K, P L P^T>_F over all n! permutations P, exactly.

    Equation: a product K_ij L_{P i, P j} depends only on which of its indices are equal, and so does each term of the square, so that
    both moments are sums over patterns of equal indices of (sum of K over the pattern)(sum of L over it) / (places of the pattern).

    Args:
        first: of K, symmetric, n >= 2.
        second: of L, of the same n.

    Returns:
        (mean, standard deviation).

    Reference: Mantel (1967) for zero diagonals; the diagonal is ours.

    Example:
        >>> swap = MatrixSums.of(np.array([[1.0, 0.0], [0.0, 3.0]]))
        >>> permutation_moments(swap, swap)
        (8.0, 2.0)
    """
    n = first.count
    two = n * (n - 1.0)
    three = two * (n - 2.0)
    places = (n, two, 2.0 * two, three, 2.0 * two, 4.0 * three, three * (n - 3.0))
    # Diagonal and rest make two mixed terms in the square.
    times = (1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0)
    mean = first.diagonal * second.diagonal / n + first.total * second.total / two
    square = 0.0
    for k, m, time, place in zip(_patterns(first), _patterns(second), times, places, strict=True):
        square += time * k * m / place if place else 0.0
    return mean, float(np.sqrt(max(0.0, square - mean * mean)))


def _patterns(sums: MatrixSums) -> tuple[float, ...]:
    """Sums over patterns of equal indices: ii ii, ii jj, ii ij, ii jk, ij ij, ij ik, ij kl."""
    touching = 4.0 * (sums.row_squares - sums.squares)
    return (
        sums.diagonal_squares,
        sums.diagonal**2 - sums.diagonal_squares,
        2.0 * sums.diagonal_rows,
        sums.diagonal * sums.total - 2.0 * sums.diagonal_rows,
        2.0 * sums.squares,
        touching,
        sums.total**2 - 2.0 * sums.squares - touching,
    )
