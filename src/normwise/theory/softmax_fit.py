"""Fitting the inverse temperature of a softmax, as one number or as a log-linear function of the query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float
from normwise.theory.bounded_newton import Objective, bounded_newton
from normwise.theory.first_place import Rivals, log_odds_slopes

# In units of 1 / (mean gap between first and other hits): from a softmax that is flat to one that knows no doubt.
LEAST_INVERSE, MOST_INVERSE = 1e-3, 1e4
# One standard deviation of a query's column may change the inverse temperature by a factor of e^5 at most.
_STEEPEST = 5.0
_GRID = 13
_STARTS = 3
_SAMPLE = 4096
_EQUAL = 1e-9


@dataclass(frozen=True)
class InverseFit:
    """log b = intercept + columns @ slopes, held inside `bounds` of b; `nll` is the mean loss in nats."""

    intercept: float
    slopes: tuple[float, ...]
    bounds: tuple[float, float]
    nll: float

    @property
    def inverse(self) -> float:
        """The inverse temperature b where no column counts."""
        return float(np.clip(np.exp(self.intercept), *self.bounds))


def fit_inverse(gaps: Rivals, right: Bool[np.ndarray, " B"], columns: Float[np.ndarray, "B C"] | None = None, *, name: str) -> InverseFit:
    """Fit log b_i = a_0 + sum_c a_c x_ic by the likelihood of the chosen hits being right.

    Equation: minimize mean softplus(-(2 y_i - 1) l_i), l_i the log odds of the chosen hit at b_i. The loss of a wrong hit is not
    convex in b, so the best of a grid of b, then several slopes, start a Newton search. b is held inside [1e-3, 1e4] / (mean
    gap), each slope inside +-5 per standard deviation: data that a softmax separates, or that it cannot help, end at an edge.

    Args:
        gaps: of B rows.
        right: (B,) whether the chosen hit is relevant.
        columns: (B, C) what b may depend on; a constant one gets slope 0.
        name: of the calibrator, for the message.

    Raises:
        InputError: all hits of all rows score alike, so that no temperature changes anything.
    """
    unit = gaps.mean_gap
    if not unit > 0.0:
        raise InputError(f"{name}: all hits of each query score alike, so no temperature changes anything: check the scores")
    bounds = (LEAST_INVERSE / unit, MOST_INVERSE / unit)
    edges = (float(np.log(bounds[0])), float(np.log(bounds[1])))
    point, value = _search_inverse(gaps, right, edges)
    if columns is None or columns.shape[1] == 0:
        return InverseFit(float(point[0]), (), bounds, value)
    center, spread = columns.mean(axis=0), columns.std(axis=0)
    varying = spread > _EQUAL * np.maximum(np.abs(center), 1.0)
    scale = np.where(varying, spread, 1.0)
    design = np.where(varying, (columns - center) / scale, 0.0)
    point, value = _search_slopes(gaps, right, design, np.concatenate([point, np.zeros(design.shape[1])]), edges)
    slopes = np.where(varying, point[1:] / scale, 0.0)
    return InverseFit(float(point[0] - slopes @ center), tuple(slopes.tolist()), bounds, value)


def _search_inverse(gaps: Rivals, right: np.ndarray, edges: tuple[float, float]) -> tuple[np.ndarray, float]:
    """The best of a grid on a sample, from there downhill on the sample, and from there on all rows."""
    sampled = np.arange(0, right.size, -(-right.size // _SAMPLE))
    rough = inverse_loss(gaps.subset(sampled), right[sampled], np.empty((right[sampled].size, 0)), edges)
    grid = np.linspace(*edges, _GRID)
    values = np.array([rough(np.array([each]))[0] for each in grid])
    before, after = np.append(np.inf, values[:-1]), np.append(values[1:], np.inf)
    valleys = np.flatnonzero((values <= before) & (values <= after))
    valleys = valleys[np.argsort(values[valleys], kind="stable")][:_STARTS]
    low, high = np.array(edges[:1]), np.array(edges[1:])
    start, _ = _lowest([bounded_newton(rough, grid[each, None], low=low, high=high) for each in valleys])
    return bounded_newton(inverse_loss(gaps, right, np.empty((right.size, 0)), edges), start, low=low, high=high)


def _search_slopes(
    gaps: Rivals, right: np.ndarray, design: np.ndarray, plain: np.ndarray, edges: tuple[float, float]
) -> tuple[np.ndarray, float]:
    """From the plain temperature and from some slopes, first on a sample; the end is never worse than the plain one."""
    steep = np.full(design.shape[1], _STEEPEST)
    low, high = np.append(edges[0], -steep), np.append(edges[1], steep)
    whole = inverse_loss(gaps, right, design, edges)
    sampled = np.arange(0, right.size, -(-right.size // _SAMPLE))
    rough = inverse_loss(gaps.subset(sampled), right[sampled], design[sampled], edges)
    starts = [plain]
    for column in range(1, plain.size):
        for slope in (-1.0, 1.0):
            starts.append(plain.copy())
            starts[-1][column] = slope
    found = bounded_newton(whole, _lowest([bounded_newton(rough, start, low=low, high=high) for start in starts])[0], low=low, high=high)
    return found if found[1] <= whole(plain)[0] else bounded_newton(whole, plain, low=low, high=high)


def inverse_loss(gaps: Rivals, right: np.ndarray, design: np.ndarray, edges: tuple[float, float]) -> Objective:
    """Return the mean loss as a function of (intercept, slopes), with gradient and Hessian.

    Equation: mean softplus(-(2 y_i - 1) l_i(b_i)), log b_i = (1, design_i) . point held inside `edges`, where it does not move.

    Args:
        gaps: of B rows.
        right: (B,) the y.
        design: (B, C) columns, C >= 0.
        edges: least and greatest log b.
    """
    sign = np.where(right, 1.0, -1.0)
    rows = np.column_stack([np.ones(right.size), design])

    def objective(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        eta = rows @ point
        held = np.clip(eta, *edges)
        inverse = np.exp(held)
        odds, slope, curvature = log_odds_slopes(gaps, inverse)
        moves = (eta >= edges[0]) & (eta <= edges[1])
        first = np.where(moves, inverse * slope, 0.0)
        second = np.where(moves, first + inverse**2 * curvature, 0.0)
        chance = expit(odds)
        error = chance - right
        bend = chance * (1.0 - chance) * first**2 + error * second
        value = float(np.mean(np.logaddexp(0.0, -sign * odds)))
        return value, rows.T @ (error * first) / right.size, rows.T @ (rows * bend[:, None]) / right.size

    return objective


def _lowest(found: list[tuple[np.ndarray, float]]) -> tuple[np.ndarray, float]:
    return min(found, key=lambda each: each[1])
