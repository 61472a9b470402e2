"""The columns that hold a factor fixed: splines of ranks, indicators of categories, low products of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import ndtri
from scipy.stats import rankdata

from normwise.core.shapes import Float, Int

# Splines: a cubic at 30 rows, ten pieces of freedom from 1,000 rows on. The cube root of N keeps bias and variance of a
# regression spline in balance; more than ten buys nothing for functions of a rank, which live on a bounded interval.
_LEAST_COLUMNS, _MOST_COLUMNS = 3, 10
# Products of pairs cost four columns a pair, which fewer rows cannot pay for.
_ROWS_FOR_PRODUCTS = 200
_TINY_SHARE = 1e-9


@dataclass(frozen=True)
class FactorColumns:
    """One factor, ready for regression.

    `score` is the centered mid-rank in (-1/2, 1/2), None for categories; `control` the columns that hold the factor
    fixed; `shape` those that test it as a whole (a cubic in the rank, or the indicators); `codes` its distinct values.
    """

    score: Float[np.ndarray, " N"] | None
    control: Float[np.ndarray, "N C"]
    shape: Float[np.ndarray, "N P"]
    codes: Int[np.ndarray, " N"]


def centered_midranks(values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return ranks that share ties, scaled and centered.

    Equation: u_i = (rank_i - 1/2)/N - 1/2, rank_i the mean rank of the values equal to the i-th; the mean of u is 0.

    Args:
        values: (N,) numbers without NaN.

    Returns:
        (N,) float64 in (-1/2, 1/2).

    Example:
        >>> centered_midranks(np.array([3.0, 1.0, 1.0, 9.0])).tolist()
        [0.125, -0.25, -0.25, 0.375]
    """
    return (rankdata(values) - 0.5) / values.shape[0] - 0.5


def numeric_columns(values: np.ndarray) -> FactorColumns:
    """Return the columns of a numeric factor; they depend on its ranks only, so its unit and scale do not matter.

    Up to as many distinct values as the spline has columns are held fixed by one indicator each, which is exact.

    Args:
        values: (N,) finite numbers, not all equal.

    Returns:
        The columns; `control` is a cubic spline of the rank joined by its normal score, which follows heavy tails.

    Example:
        >>> numeric_columns(np.arange(100.0)).control.shape
        (100, 5)
        >>> numeric_columns(np.arange(100.0) > 50).control.shape
        (100, 1)
    """
    score = centered_midranks(values)
    codes = np.unique(values, return_inverse=True)[1]
    levels = int(codes.max()) + 1
    freedom = spline_freedom(values.shape[0])
    shape = _full_rank(np.stack([score, score**2, score**3], axis=1)[:, : levels - 1])
    control = _indicators(codes) if levels <= freedom + 1 else _full_rank(_spline(score, freedom))
    return FactorColumns(score=score, control=control, shape=shape, codes=codes)


def categorical_columns(codes: Int[np.ndarray, " N"]) -> FactorColumns:
    """Return the columns of a categorical factor: one indicator per category, the first left out.

    Args:
        codes: (N,) category numbers from 0, at least two of them present.

    Returns:
        The columns, without a score.

    Example:
        >>> categorical_columns(np.array([0, 1, 2, 1])).control.shape
        (4, 2)
    """
    columns = _indicators(codes)
    return FactorColumns(score=None, control=columns, shape=columns, codes=codes)


def control_columns(factors: Sequence[FactorColumns]) -> Float[np.ndarray, "N C"]:
    """Return the columns that hold several factors fixed together.

    The sum of a spline of each, and from 200 rows on the products P_a(u_i) P_b(u_j) with 1 <= a, b <= 2 for each pair of
    numeric ones: ranks bend a sum of two effects, and without the products that bend would be read as a third factor.

    Args:
        factors: at least one, on the same rows.

    Returns:
        (N, C) centered columns of variance 1, without a constant; dependent ones are dropped within a factor only.

    Example:
        >>> both = [numeric_columns(np.arange(300.0)), numeric_columns(np.arange(300.0)[::-1])]
        >>> control_columns(both).shape
        (300, 17)
    """
    blocks = [factor.control for factor in factors]
    scores = [factor.score for factor in factors if factor.score is not None]
    if scores and scores[0].shape[0] >= _ROWS_FOR_PRODUCTS:
        for i, first in enumerate(scores):
            blocks += [_products(first, second) for second in scores[i + 1 :]]
    return np.concatenate(blocks, axis=1)


def spline_freedom(rows: int) -> int:
    """Return how many columns the spline of a rank gets: N^(1/3), between 3 and 10.

    Example:
        >>> [spline_freedom(n) for n in (30, 100, 1000, 10**6)]
        [3, 4, 10, 10]
    """
    return int(np.clip(np.cbrt(rows) + 1e-9, _LEAST_COLUMNS, _MOST_COLUMNS))


def _spline(score: np.ndarray, freedom: int) -> np.ndarray:
    """Cubic B-splines of the rank, knots at equal steps, one left out for the constant; then the normal score."""
    inner = np.linspace(0.0, 1.0, freedom - 1)[1:-1]
    knots = np.concatenate([np.zeros(4), inner, np.ones(4)])
    splines = BSpline.design_matrix(score + 0.5, knots, 3).toarray()
    return np.concatenate([splines[:, 1:], ndtri(score + 0.5)[:, None]], axis=1)


def _indicators(codes: np.ndarray) -> np.ndarray:
    return _full_rank((codes[:, None] == np.arange(1, int(codes.max()) + 1)).astype(np.float64))


def _products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    bent = [(u, u**2 - np.mean(u**2)) for u in (first, second)]
    return _full_rank(np.stack([a * b for a in bent[0] for b in bent[1]], axis=1))


def _full_rank(columns: np.ndarray) -> np.ndarray:
    """Centered uncorrelated columns of variance 1 that span the same functions up to a constant."""
    centered = columns - columns.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / columns.shape[0])
    kept = values > _TINY_SHARE * values.max()
    return centered @ (vectors[:, kept] / np.sqrt(values[kept]))
