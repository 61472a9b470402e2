"""How far the InfoNCE risk with k negatives may lie from the cross-entropy of softmax search over everything: proven bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float


@dataclass(frozen=True)
class GapBounds:
    """Bounds on how far risks with k negatives may lie from H, in nats.

    H - R_k, R_k InfoNCE less log k, is from `low` to `high`; H - Rt_k, Rt_k the decoupled (DCL) risk, is from 0 to `high`.

    Args:
        low: -log(1 + e^{2c}/k), c the largest |score|.
        published: (e^{2c} - 1)^2 / (8k).
        uniform: (e^c - 1)^2 / (2k).
        scores: 2c, whatever k.
        instance: from the spread of the scores at hand, E_z[cv2 mu / m] / (2k); None where that is not known.
    """

    low: float
    published: float
    uniform: float
    scores: float
    instance: float | None = None

    @property
    def high(self) -> float:
        """The least of the four upper bounds."""
        known = (self.published, self.uniform, self.scores, self.instance)
        return min(bound for bound in known if bound is not None)


def gap_bounds(k: int, largest_score: float, *, weighted_spread: float | None = None) -> GapBounds:
    """Return proven bounds on the gap between H, the cross-entropy of softmax search over all data, and the risk with k negatives.

    Equation, with |s| <= c: -log(1 + e^{2c}/k) <= H - R_k <= H - Rt_k, Rt_k the DCL risk, and 0 <= H - Rt_k <= each of
    (e^{2c} - 1)^2 / (8k), (e^c - 1)^2 / (2k), 2c, and (1/2k) E_z[cv2(z) mu(z) / m(z)], m(z) the least e^{s(z, .)}.

    Args:
        k: negatives, >= 1.
        largest_score: c >= 0: 1 / temperature for cosine, b^2 / temperature for dot products of vectors no longer than b.
        weighted_spread: what the function of that name returns, >= 0; may be infinite.

    Returns:
        The bounds; those that leave float64 are infinite.

    Raises:
        InputError: k < 1, c negative or not finite, or a spread that is negative or NaN.

    Reference: Whiteley (2026), proposition 1, for `low` and `published`; the others are ours, from -log x <= (1 - x) +
        (1 - x)^2 / (2 min(1, x)) and Bhatia and Davis (2000).

    Example:
        >>> found = gap_bounds(64, 2.0)
        >>> round(64 * found.published, 1), round(64 * found.uniform, 1), found.high == found.uniform
        (359.1, 20.4, True)
    """
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1 negative")
    if not (np.isfinite(largest_score) and largest_score >= 0.0):
        raise InputError(f"largest_score is {largest_score}; expected a finite number of at least 0, such as 1 / temperature")
    if weighted_spread is not None and not weighted_spread >= 0.0:
        raise InputError(f"weighted_spread is {weighted_spread}; expected at least 0, or None where the spread of the scores is not known")
    c = float(largest_score)
    with np.errstate(over="ignore"):
        published, uniform = float(np.expm1(2.0 * c) ** 2 / (8.0 * k)), float(np.expm1(c) ** 2 / (2.0 * k))
    return GapBounds(
        low=-float(np.logaddexp(0.0, 2.0 * c - np.log(k))),
        published=published,
        uniform=uniform,
        scores=2.0 * c,
        instance=None if weighted_spread is None else float(weighted_spread) / (2.0 * k),
    )


def weighted_spread(log_mean: Float[np.ndarray, " B"], cv2: Float[np.ndarray, " _"], least: Float[np.ndarray, " _"]) -> float:
    """Return the mean over queries of cv2 mu / m, m the least e^s: the factor E_z[cv2(z) mu(z) / m(z)] of the instance bound.

    All three are of the law that negatives are drawn from: a pool in full, or all data. Of a sample of it the bound is an estimate,
    since no sample need hold the least score.

    Args:
        log_mean: (B,) log mu of each query, mu the mean of e^s.
        cv2: (B,) squared coefficient of variation of e^s, >= 0.
        least: (B,) the least score that a negative can have, no more than log mu.

    Returns:
        The mean, at least that of cv2; infinite where it leaves float64.

    Raises:
        InputError: shapes differ, no query, or a cv2 that is negative or NaN.

    Example:
        >>> weighted_spread(np.array([0.0]), np.array([0.5]), np.array([0.0]))
        0.5
    """
    if not log_mean.shape == cv2.shape == least.shape or not cv2.size:
        raise InputError(f"log_mean has shape {log_mean.shape}, cv2 {cv2.shape}, least {least.shape}; expected (B,) of each, B at least 1")
    bad = np.flatnonzero(~(cv2 >= 0.0))
    if bad.size:
        raise InputError(f"cv2 of query {bad[0]} is {cv2[bad[0]]}; expected at least 0: a variance over a squared mean")
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.exp(logsumexp(np.log(cv2) + log_mean - least) - np.log(cv2.size)))


def search_gap_bound(k: int, largest_score: float, squared_ratio: float) -> float:
    """Return a bound on |H_k - R_k|, H_k the cross-entropy of a softmax search over k candidates.

    Equation: min((4c/k) E[(dM/dpi)^2], 2c) + log(1 + e^{2c}/k), c the largest |score|; the first term alone bounds |H_k - Rt_k|.

    Args:
        k: candidates, and negatives of the risk, >= 1.
        largest_score: c, as in `gap_bounds`.
        squared_ratio: E_{Z, Z' ~ pi}[(dM(Z, .)/dpi(Z'))^2] = 1 + E chi2(M || pi), >= 1; may be infinite. Pairs alone do not tell it.

    Raises:
        InputError: as `gap_bounds`, or a ratio below 1.

    Reference: Whiteley (2026), proposition 2, and its remark on the decoupled risk for 2c.

    Example:
        >>> round(search_gap_bound(1000, 2.0, 1.5), 4)
        0.0652
    """
    if not squared_ratio >= 1.0:
        raise InputError(f"squared_ratio is {squared_ratio}; expected at least 1: it is 1 + a divergence")
    bounds = gap_bounds(k, largest_score)
    search = bounds.scores * min(2.0 / k * float(squared_ratio), 1.0)
    return search - bounds.low
