"""Where the risk of InfoNCE has begun to go like 1/k, and whether its limit may be extrapolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from normwise.core.shapes import Float
from normwise.theory.infonce_estimates import Estimate, RiskCurve, jackknife_cross_entropy
from normwise.theory.negative_sums import NegativeSums

# A leading term of a tenth leaves a next one of about a hundredth.
FAR_ABOVE = 10.0
_FEWEST_POINTS = 3
FEWEST_NEGATIVES = 16


@dataclass(frozen=True)
class Regime:
    """Spread of e^s over the negatives, and where 1/k starts.

    Args:
        cv2_median: median over queries of cv2 = Var(e^s) / (E e^s)^2.
        cv2_p90: its 90% quantile.
        cv2_mean: its mean, twice the constant of the DCL gap.
        positive_weight: mean of e^{s_+} / E e^s: the weight of the positive among k negatives is that over k.
        decoupled_start: k from which 1/k leads the gap of DCL, and a jackknife may take it off: 10 mean cv2.
        start: k from which it also leads the gap of InfoNCE: 10 times the larger of mean cv2 and the positive's weight.
        pool: M, the most negatives at hand.
    """

    cv2_median: float
    cv2_p90: float
    cv2_mean: float
    positive_weight: float
    decoupled_start: float
    start: float
    pool: int

    @property
    def extrapolates(self) -> bool:
        """Whether the pool is large enough that its jackknife estimates H."""
        return self.pool >= max(self.decoupled_start, FEWEST_NEGATIVES)

    @property
    def constant(self) -> float:
        """C_1 = mean cv2 / 2 - positive weight: k (H - R_k) for large k."""
        return self.cv2_mean / 2.0 - self.positive_weight


@dataclass(frozen=True)
class Fit:
    """R_k = limit - constant / k, fitted to the k of a curve from `start` on; `points` of them, none where there are fewer than three."""

    limit: float
    constant: float
    start: float
    points: int


def regime_of(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> Regime:
    """Find where 1/k starts.

    Equation: E log(1/k + b mu_k) = log(b mu) + 1/(k b mu) - cv2/(2k) + O(1/k^2), b = e^{-s_+}: both terms must be small.

    Args:
        positive: (B,) scores of the positives.
        sums: of the same queries. cv2 can be told up to the number of negatives, so that `extrapolates` refuses tails that the
            pool does not reach.

    Reference: ours, from the expansion of the logarithm.

    Example:
        >>> from normwise.theory.negative_sums import negative_sums
        >>> found = regime_of(np.zeros(2), negative_sums(np.zeros((2, 2)), np.ones((64, 2))))
        >>> found.start, found.extrapolates, found.constant
        (10.0, True, -1.0)
    """
    cv2 = sums.cv2
    mean = float(cv2.mean())
    with np.errstate(over="ignore"):
        weight = float(np.exp(logsumexp(positive - sums.log_mean) - np.log(positive.size)))
    return Regime(
        cv2_median=float(np.median(cv2)),
        cv2_p90=float(np.quantile(cv2, 0.9)),
        cv2_mean=mean,
        positive_weight=weight,
        decoupled_start=FAR_ABOVE * mean,
        start=FAR_ABOVE * max(mean, weight),
        pool=int(sums.size.min()),
    )


def limit_of(positive: Float[np.ndarray, " B"], sums: NegativeSums, regime: Regime) -> tuple[Estimate, float] | None:
    """Estimate H with what the next order may still change, or nothing where 1/k has not begun.

    Equation: H by the jackknife; beyond it |H_2 - H_1|, H_1 = 2 L_M - L_{M/2} and H_2 = (8 L_M - 6 L_{M/2} + L_{M/4}) / 3 the limits that
    cancel one and two orders of 1/k, L the DCL risk on the whole, on halves and on quarters of the pool.

    Args:
        positive: (B,) scores of the positives.
        sums: of the same queries.
        regime: of the same.

    Returns:
        The estimate and by how much more its interval is to be widened; None where the pool is too small for the spread of its scores.
    """
    if not regime.extrapolates:
        return None
    whole, half, quarter = (_decoupled(positive, sums, parts) for parts in (1, 2, 4))
    first, second = 2.0 * whole - half, (8.0 * whole - 6.0 * half + quarter) / 3.0
    beyond = abs(second - first)
    return jackknife_cross_entropy(positive, sums), beyond if np.isfinite(beyond) else 0.0


def fit_curve(curve: RiskCurve, start: float) -> Fit:
    """Fit 1/k to the InfoNCE risks of a curve from `start` on, each weighted by its error.

    Returns:
        The fit; NaN where fewer than three points lie there.

    Example:
        >>> k = np.array([8, 16, 32, 64])
        >>> ones = np.ones(4)
        >>> found = fit_curve(RiskCurve(k, 1.0 + 2.0 / k, ones, ones, ones, ones[1:], ones[1:]), 16.0)
        >>> round(found.limit, 6), round(found.constant, 6), found.points
        (1.0, -2.0, 3)
    """
    chosen = curve.k >= start
    if chosen.sum() < _FEWEST_POINTS:
        return Fit(float("nan"), float("nan"), start, int(chosen.sum()))
    errors = curve.risk_error[chosen]
    weights = 1.0 / np.where(np.isfinite(errors) & (errors > 0.0), errors, 1.0)
    design = np.stack([np.ones(chosen.sum()), -1.0 / curve.k[chosen]], axis=1)
    limit, constant = np.linalg.lstsq(design * weights[:, None], curve.risk[chosen] * weights, rcond=None)[0]
    return Fit(float(limit), float(constant), start, int(chosen.sum()))


def _decoupled(positive: np.ndarray, sums: NegativeSums, parts: int) -> float:
    """The DCL risk on disjoint parts of the pool, made of its tiles; NaN where there are too few."""
    per = sums.tiles.shape[1] // parts
    if not per:
        return float("nan")
    shape = len(positive), parts, per
    logs = np.logaddexp.reduce(sums.tiles[:, : parts * per].reshape(shape), axis=2)
    counts = sums.counts[:, : parts * per].reshape(shape).sum(axis=2)
    # A part that holds no negative of a query says nothing of it.
    logs = np.where(counts > 0, logs - np.log(np.maximum(counts, 1)), np.nan)
    return float(np.nanmean(logs + (sums.shift - positive)[:, None]))
