"""Correlation ratios: what a norm shares with a block of columns, such as the levels of a category or a curve of a rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import fdtrc, fdtri, ncfdtr

from normwise.core.records import Interval
from normwise.core.shapes import Float
from normwise.theory.partial_rank import Residuals

# Beyond this share the noncentral F distribution cannot be evaluated; the interval then starts where that of this share does.
_MOST_EXPLAINED = 0.999


def block_test(y: Float[np.ndarray, " N"], block: Float[np.ndarray, "N P"], left: Residuals) -> float:
    """Return the p-value that a residual shares nothing with a whole block: `correlation_test` for several columns at once.

    Equation: W = s' V^-1 s, s = sum_i b_i y_i, V = sum_i b_i b_i' y_i^2 / (1 - leverage_i), W / P against F(P, f). An
    analysis of variance would ask for equal spreads, which ranks of a bounded scale do not have.

    Args:
        y: (N,) residual of the norm's rank.
        block: (N, P) residuals of the block on the same controls.
        left: the fit they come from.

    Returns:
        The p-value; 1 where the block is spent.

    Reference: our derivation, after the generalised covariance measure of Shah and Peters (2020).

    Example:
        >>> from normwise.theory.partial_rank import residuals
        >>> z = np.random.default_rng(0).normal(size=(100, 3))
        >>> e = residuals(z, None)
        >>> block_test(e.values[:, 0], e.values[:, :2], e) < 1e-6
        True
    """
    basis = _orthonormal(block)
    if basis.shape[1] == 0:
        return 1.0
    total = basis.T @ y
    products = basis * (y / np.sqrt(1.0 - left.leverage))[:, None]
    spread = products.T @ products
    if not np.trace(spread) > 0.0:
        return 1.0
    statistic = float(total @ np.linalg.lstsq(spread, total, rcond=1e-10)[0])
    return float(fdtrc(basis.shape[1], left.freedom, statistic / basis.shape[1]))


def correlation_ratio(y: Float[np.ndarray, " N"], block: Float[np.ndarray, "N P"], freedom: int) -> Interval:
    """Return the correlation ratio of a residual on a block of columns with its 95% interval.

    Equations: R2 = 1 - RSS_block / RSS, F = (R2 / P) / ((1 - R2) / (f - P)), eta = sqrt(max(0, 1 - (1 - R2) f / (f - P))),
    f the degrees of freedom before the block. The interval inverts the noncentral F distribution: eta^2 = L / (L + f + 1) of
    its noncentrality L. The upper end is never below that of the median F of no effect: an F that came out small by chance
    would else exclude what the design cannot see, down to an interval [0, 0].

    Args:
        y: (N,) residual on the controls.
        block: (N, P) residuals of the block on the same controls.
        freedom: f, degrees of freedom that the controls leave.

    Returns:
        eta with its interval; 0 where the block explains no more than chance does.

    Reference: noncentral-F intervals of explained variance (Steiger 2004); the limit that power sets to an upper end, Cowan
    et al. (2011).

    Example:
        >>> y = np.array([-1.0, -1.0, 1.0, 1.0])
        >>> round(correlation_ratio(y, y[:, None], 3).mean, 9)
        1.0
    """
    basis = _orthonormal(block)
    width = basis.shape[1]
    rest = freedom - width
    if width == 0 or rest < 1:
        return Interval(mean=0.0, ci_low=0.0, ci_high=1.0)
    explained = min(float(np.sum((basis.T @ y) ** 2) / np.sum(y**2)), 1.0)
    inside = min(explained, _MOST_EXPLAINED)
    ratio = inside / width / ((1.0 - inside) / rest)
    eta = float(np.sqrt(max(0.0, 1.0 - (1.0 - explained) * freedom / rest)))
    usual = max(ratio, float(fdtri(width, rest, 0.5)))
    low, high = _noncentrality(ratio, width, rest, 0.975), _noncentrality(usual, width, rest, 0.025)
    ci_low, ci_high = (float(np.sqrt(value / (value + freedom + 1.0))) for value in (low, high))
    return Interval(mean=eta, ci_low=min(ci_low, eta), ci_high=max(ci_high, eta))


def _orthonormal(block: np.ndarray) -> np.ndarray:
    basis, values, _ = np.linalg.svd(block, full_matrices=False)
    return basis[:, values > 1e-7 * values.max(initial=0.0)]


def _noncentrality(ratio: float, width: int, rest: int, tail: float) -> float:
    """The noncentrality at which a ratio this large has probability `tail` of not being exceeded; 0 where none does."""
    if 1.0 - float(fdtrc(width, rest, ratio)) <= tail:
        return 0.0
    upper = max(1.0, ratio * width)
    while float(ncfdtr(width, rest, upper, ratio)) > tail and upper < 1e12:
        upper *= 2.0
    root: Any = brentq(lambda value: float(ncfdtr(width, rest, value, ratio)) - tail, 0.0, upper, xtol=1e-6)
    return float(root)
