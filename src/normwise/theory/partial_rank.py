"""Partial rank correlation: what two ranks still share once the controls have been taken out of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from normwise.core.records import Interval
from normwise.core.shapes import Float

_RIDGE = 1e-9
_BATCH_DRAWS = 1 << 22
# A correlation of exactly +-1 has no finite Fisher score.
_NEAR_ONE = 1.0 - 1e-12


@dataclass(frozen=True)
class Residuals:
    """Columns with what the controls explain taken out; `leverage` is each row's own weight in that fit."""

    values: Float[np.ndarray, "N K"]
    leverage: Float[np.ndarray, " N"]
    freedom: int


def residuals(columns: Float[np.ndarray, "N K"], controls: Float[np.ndarray, "N C"] | None) -> Residuals:
    """Return columns minus their least-squares fit on a constant and the controls.

    Equation: e = (I - H) y, H = 1/N + X (X'X)^-1 X', leverage_i = H_ii; a relative ridge of 1e-9 keeps dependent controls harmless.

    Args:
        columns: (N, K) what is to be explained.
        controls: (N, C) centered controls of variance near 1, or None for the constant alone.

    Returns:
        The residuals, the leverages and the N - 1 - C degrees of freedom that are left.

    Example:
        >>> x = np.arange(4.0)[:, None] - 1.5
        >>> float(np.abs(residuals(3 * x + 1, x).values).max()) < 1e-8
        True
    """
    rows = columns.shape[0]
    centered = columns - columns.mean(axis=0)
    leverage = np.full(rows, 1.0 / rows)
    if controls is None or controls.shape[1] == 0:
        return Residuals(centered, leverage, rows - 1)
    gram = controls.T @ controls
    gram[np.diag_indices_from(gram)] += _RIDGE * rows
    solved = np.linalg.solve(gram, np.concatenate([controls.T @ centered, np.eye(gram.shape[0])], axis=1))
    left = centered - controls @ solved[:, : columns.shape[1]]
    leverage += np.einsum("nc,nc->n", controls @ solved[:, columns.shape[1] :], controls)
    rank = int(round(float(leverage.sum())))
    return Residuals(left, np.minimum(leverage, 0.99), max(rows - rank, 1))


def correlation_test(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], left: Residuals) -> tuple[float, float]:
    """Return the correlation of two residuals and the two-sided p-value that they share nothing.

    Equation: T = sum_i x_i y_i / sqrt(sum_i (x_i y_i)^2 / (1 - leverage_i)), against Student's t. The products are
    studentized by themselves, so neither side's spread needs to be the same everywhere; permuting residuals would ask that.
    A fit shrinks the square of a residual by 1 - leverage, but not the variance of the sum, hence the division below only.

    Args:
        x: (N,) residual of the factor's rank.
        y: (N,) residual of the norm's rank.
        left: the fit they come from, for leverages and degrees of freedom.

    Returns:
        The correlation and the p-value.

    Reference: the generalised covariance measure of Shah and Peters (2020); taking it of ranks, with leverages, is ours.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(100, 2))
        >>> e = residuals(z, None)
        >>> correlation_test(e.values[:, 0], e.values[:, 0], e)[1] < 1e-6
        True
    """
    products = x * y
    scale = float(np.sqrt(np.sum(products**2 / (1.0 - left.leverage))))
    if scale == 0.0:
        return 0.0, 1.0
    statistic = abs(float(products.sum())) / scale
    correlation = float(np.sum(x * y) / np.sqrt(np.sum(x**2) * np.sum(y**2)))
    return correlation, float(2.0 * stdtr(left.freedom, -statistic))


def correlation_influence(
    residual_x: Float[np.ndarray, " N"],
    residual_y: Float[np.ndarray, " N"],
    score_x: Float[np.ndarray, " N"],
    score_y: Float[np.ndarray, " N"],
    leverage: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """Return each row's first-order effect on the partial rank correlation, the change of everybody's ranks included.

    Equation: with C = mean e_x e_y, V = mean e^2 and rho = C / sqrt(V_x V_y),
    IF(rho) = IF(C) / sqrt(V_x V_y) - rho/2 (IF(V_x)/V_x + IF(V_y)/V_y),
    IF(C)_i = e_x e_y - C + A_x[e_y]_i + A_y[e_x]_i,   IF(V_x)_i = e_x^2 - V_x + 2 A_x[e_x]_i,
    A_x[v]_i = mean_k (1{x_i < x_k} + 1/2 1{x_i = x_k}) v_k - mean_k u_k v_k. The fit's own change is of second order.

    Args:
        residual_x: (N,) of the factor's rank.
        residual_y: (N,) of the norm's rank.
        score_x: (N,) the factor's centered mid-ranks.
        score_y: (N,) the norm's centered mid-ranks.
        leverage: (N,) of the fit; a row that bends the fit to itself counts 1 / (1 - leverage).

    Returns:
        (N,) values whose mean is near 0; their standard deviation / sqrt(N) is the standard error.

    Reference: our derivation.

    Example:
        >>> u = np.arange(5.0) / 5 - 0.4
        >>> float(np.abs(correlation_influence(u, u, u, u, np.zeros(5))).max()) < 1e-12
        True
    """
    c, v_x, v_y = (float(np.mean(a)) for a in (residual_x * residual_y, residual_x**2, residual_y**2))
    of_c = residual_x * residual_y - c + _rank_effect(score_x, residual_y) + _rank_effect(score_y, residual_x)
    of_x = residual_x**2 - v_x + 2.0 * _rank_effect(score_x, residual_x)
    of_y = residual_y**2 - v_y + 2.0 * _rank_effect(score_y, residual_y)
    root = np.sqrt(v_x * v_y)
    return (of_c / root - c / (2.0 * root) * (of_x / v_x + of_y / v_y)) / (1.0 - leverage)


def slope_influence(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], leverage: Float[np.ndarray, " N"]) -> tuple[float, np.ndarray]:
    """Return the slope of one residual on another and each row's first-order effect on it.

    Equation: b = sum x y / sum x^2, IF_i = x_i (y_i - b x_i) / mean x^2 / (1 - leverage_i).

    Example:
        >>> x = np.array([-1.0, 0.0, 1.0])
        >>> slope_influence(x, 2 * x, np.zeros(3))[0]
        2.0
    """
    spread = float(np.mean(x**2))
    slope = float(np.mean(x * y)) / spread
    return slope, x * (y - slope * x) / spread / (1.0 - leverage)


def resampled_deviations(influences: Float[np.ndarray, "M N"], *, seed: int, resamples: int) -> Float[np.ndarray, "S M"]:
    """Return how far M figures move in bootstrap resamples of the rows, to first order.

    Equation: deviation = (1/N) sum_i (w_i - 1) IF_i, with w ~ Multinomial(N, 1/N): the pairs bootstrap through the influence values.

    Args:
        influences: (M, N) one row per figure.
        seed: of the draws.
        resamples: S >= 1.

    Returns:
        (S, M) deviations, all figures of one line from the same resample.

    Example:
        >>> resampled_deviations(np.zeros((2, 10)), seed=0, resamples=3).tolist()
        [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    rng = np.random.default_rng(seed)
    rows = influences.shape[1]
    centered = influences - influences.mean(axis=1, keepdims=True)
    step = max(1, _BATCH_DRAWS // rows)
    parts = []
    for start in range(0, resamples, step):
        draws = min(step, resamples - start)
        picks = rng.integers(rows, size=(draws, rows)) + np.arange(draws)[:, None] * rows
        counts = np.bincount(picks.reshape(-1), minlength=draws * rows).reshape(draws, rows)
        parts.append(counts.astype(np.float64) @ centered.T / rows)
    return np.concatenate(parts)


def fisher_interval(correlation: float, deviations: Float[np.ndarray, " S"], *, level: float = 0.95) -> Interval:
    """Return the percentile interval of a correlation, taken on Fisher's scale so that it stays within -1..1.

    Equation: tanh(quantiles of atanh(rho) + deviation / (1 - rho^2)), by the addition theorem (rho + t) / (1 + rho t) with
    t = tanh(quantile of deviation / (1 - rho^2)), which gives rho itself where nothing deviates.

    Example:
        >>> fisher_interval(0.5, np.zeros(10)).ci_low
        0.5
    """
    inside = float(np.clip(correlation, -_NEAR_ONE, _NEAR_ONE))
    moved = np.tanh(np.quantile(deviations / (1.0 - inside**2), [(1.0 - level) / 2.0, (1.0 + level) / 2.0]))
    low, high = (inside + moved) / (1.0 + inside * moved)
    return Interval(mean=correlation, ci_low=min(float(low), correlation), ci_high=max(float(high), correlation))


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction, in the order given.

    Equation: the i-th smallest of M becomes max over j <= i of min(1, (M - j + 1) p_(j)).

    Reference: Holm (1979).

    Example:
        >>> holm_adjusted([0.04, 0.01, 0.03])
        [0.06, 0.03, 0.06]
    """
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for step, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _rank_effect(score: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A[v]: how the mean of u v moves when one more row joins, through the ranks of all others."""
    levels, group = np.unique(score, return_inverse=True)
    sums = np.bincount(group, weights=values, minlength=levels.size)
    above = np.concatenate([np.cumsum(sums[::-1])[::-1][1:], [0.0]])
    return ((above + 0.5 * sums)[group] - float(score @ values)) / score.shape[0] - 0.5 * float(values.mean())
