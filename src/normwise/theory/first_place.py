"""The chance of one hit in a softmax over its row, by its log odds against the others: exact where it nears 0 or 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from normwise.core.shapes import Bool, Float, Int

# A saturated 0 or 1 would make one wrong answer infinitely bad.
CERTAIN = 1e-12
# Blocks of rows that stay in the cache between passes.
_BLOCK_VALUES = 1 << 17
# Stands for a hit that is out of the race: its weight is 0 and its product with 0 is no NaN.
OUT = 1e30


@dataclass(frozen=True)
class Rivals:
    """How far the other hits of each row lie below its chosen one.

    Args:
        second: (B,) key of the chosen hit less the best other key; below 0 where another is better.
        excess: (B, K - 1) best other key less each other one, >= 0; `OUT` for a hit that is out of the race.
    """

    second: np.ndarray
    excess: np.ndarray

    def subset(self, rows: np.ndarray) -> Rivals:
        """Return the gaps of some rows."""
        return Rivals(self.second[rows], self.excess[rows])

    @property
    def mean_gap(self) -> float:
        """Mean distance of a hit in the race from the chosen one, the unit of keys."""
        racing = (self.excess < OUT) & (self.second < OUT)[:, None]
        gaps = np.where(racing, self.excess, 0.0).sum(axis=1, dtype=np.float64) + np.where(
            self.second < OUT, self.second, 0.0
        ) * racing.sum(axis=1)
        return float(np.abs(gaps).sum() / max(int(racing.sum()), 1))


def rivals(keys: Float[np.ndarray, "B K"], places: Int[np.ndarray, " B"], *, dtype: type = np.float64) -> Rivals:
    """Return the gaps between each row's chosen hit and all its others.

    Args:
        keys: (B, K) by which hits are ranked, K >= 2; -inf = out of the race.
        places: (B,) the chosen hits, whose keys are finite.
        dtype: of `excess`; float32 halves the time of a fit and moves a probability by about 1e-7.

    Example:
        >>> found = rivals(np.array([[0.75, 0.5, 0.25]]), np.array([0]))
        >>> found.second.tolist(), found.excess.tolist()
        ([0.25], [[0.0, 0.25]])
    """
    rows = np.arange(keys.shape[0])
    if places.any():
        others = np.where(np.arange(keys.shape[1] - 1) < places[:, None], keys[:, :-1], keys[:, 1:])
    else:
        others = keys[:, 1:]
    best = others.max(axis=1)
    racing = np.isfinite(best)
    held = np.where(racing, best, 0.0)
    excess = np.minimum(held[:, None] - others, OUT).astype(dtype, copy=False)
    # A row whose other hits are all out: its chosen hit is certain, at a distance that none else has.
    excess[~racing, 0] = 0.0
    return Rivals(np.where(racing, keys[rows, places] - held, OUT), excess)


def log_odds(gaps: Rivals, inverse: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """Return the log odds of the chosen hits.

    Equation: p = exp(b k_1) / sum_j exp(b k_j), so log p / (1 - p) = b second - log sum_{j != 1} exp(-b excess_j): no term
    overflows, and neither p near 1 nor 1 - p near 1 loses digits.

    Args:
        gaps: of B rows.
        inverse: (B,) inverse temperatures b >= 0.

    Returns:
        (B,) log odds.

    Example:
        >>> log_odds(rivals(np.array([[2.0, 2.0, 2.0]]), np.array([0])), np.array([5.0])).round(4).tolist()
        [-0.6931]
    """
    result = np.empty(inverse.size)
    for rows in _blocks(gaps):
        weights = np.exp(-inverse[rows, None] * gaps.excess[rows])
        result[rows] = inverse[rows] * gaps.second[rows] - np.log(weights.sum(axis=1))
    return result


def log_odds_slopes(
    gaps: Rivals, inverse: Float[np.ndarray, " B"]
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"], Float[np.ndarray, " B"]]:
    """Return `log_odds` with its first and second derivative in b, from one pass.

    Equation: with w_j = exp(-b excess_j) / sum over the others, slope = second + E_w[excess], curvature = -Var_w[excess]: the
    log odds are concave in b.

    Example:
        >>> gaps = rivals(np.array([[0.5, 0.25, 0.25]]), np.array([0]))
        >>> [round(float(part[0]), 4) for part in log_odds_slopes(gaps, np.array([4.0]))]
        [0.3069, 0.25, 0.0]
    """
    value, slope, curvature = np.empty(inverse.size), np.empty(inverse.size), np.empty(inverse.size)
    for rows in _blocks(gaps):
        excess = gaps.excess[rows]
        weights = excess * (-inverse[rows, None]).astype(excess.dtype, copy=False)
        np.exp(weights, out=weights)
        total = weights.sum(axis=1)
        weighted = np.multiply(weights, excess, out=weights)
        mean = weighted.sum(axis=1) / total
        square = np.einsum("ij,ij->i", weighted, excess) / total
        value[rows] = inverse[rows] * gaps.second[rows] - np.log(total)
        slope[rows] = gaps.second[rows] + mean
        curvature[rows] = mean * mean - square
    return value, slope, curvature


def probability(odds: Float[np.ndarray, " B"], usable: Bool[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """Return probabilities from log odds, kept within 1e-12 of 0 and 1; 0 where a row is not usable.

    Example:
        >>> probability(np.array([0.0, 900.0, 3.0]), np.array([True, True, False])).tolist()
        [0.5, 0.999999999999, 0.0]
    """
    return np.where(usable, np.clip(expit(odds), CERTAIN, 1.0 - CERTAIN), 0.0)


def _blocks(gaps: Rivals) -> Iterator[slice]:
    step = max(1, _BLOCK_VALUES // max(gaps.excess.shape[1], 1))
    for start in range(0, gaps.second.size, step):
        yield slice(start, start + step)
