"""What each temperature makes of the same vectors: risk, its limit, how much is left to learn, and how many negatives count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from normwise.core.shapes import Float
from normwise.theory.infonce_estimates import Estimate, jackknife_log_means, leave_out_means, pool_risk
from normwise.theory.infonce_regime import Regime, limit_of, regime_of
from normwise.theory.negative_sums import NegativeSums, negative_sums
from normwise.theory.signals import check_temperature

RESIDUAL_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class AtTemperature:
    """What a temperature makes of queries, positives and a pool.

    Args:
        temperature: tau.
        risk: InfoNCE risk with the whole pool as negatives, less log k.
        cross_entropy: H, and `beyond` by how much more its interval is to be widened; None where the pool is too small to tell.
        beyond: see `cross_entropy`.
        residuals: quantiles .1, .5 and .9 over queries of 1 - p_+, the part of a softmax over positive and pool that is not the
            positive's: the weight of a query's gradient.
        effective_negatives: median over queries of 1 / sum w^2, w the softmax over the pool.
        regime: where 1/k starts.
        change: H less that at the temperature of the training, of the same queries and negatives; None where either is.
        pool_change: the risk over the whole pool less that at the temperature of the training. Its error is of the draw of queries alone:
            it is about these candidates.
    """

    temperature: float
    risk: Estimate
    cross_entropy: Estimate | None
    beyond: float
    residuals: tuple[float, ...]
    effective_negatives: float
    regime: Regime
    change: Estimate | None
    pool_change: Estimate


@dataclass(frozen=True)
class _Parts:
    """What differences between temperatures are made of: H and the risk over the pool of each query, and means without each tile."""

    values: np.ndarray
    risks: np.ndarray
    left_out: np.ndarray


def temperature_sweep(
    queries: Float[np.ndarray, "B D"],
    positives: Float[np.ndarray, "B D"],
    pool: Float[np.ndarray, "M D"],
    *,
    temperature: float,
    others: Sequence[float],
    masked: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[AtTemperature]:
    """Go through temperatures with the same vectors.

    H at each temperature is the cross-entropy of a softmax search at that temperature, so that the temperature with the least H is
    the one at which these vectors tell their positives best; a risk with k negatives alone would prefer other ones.

    Args:
        queries: (B, D) such that the product with a candidate is the similarity.
        positives: (B, D) likewise.
        pool: (M, D) likewise, in a random order.
        temperature: that of the training, > 0.
        others: further ones, > 0.
        masked: as in `negative_sums`.

    Returns:
        One for each temperature, ascending.

    Raises:
        InputError: a temperature that is not finite and above 0; as `negative_sums`.

    Example:
        >>> found = temperature_sweep(np.eye(2), np.eye(2), -np.ones((64, 2)), temperature=1.0, others=[0.5])
        >>> [(each.temperature, round(each.cross_entropy.value, 6)) for each in found]
        [(0.5, -4.0), (1.0, -2.0)]
    """
    taus = sorted({float(temperature), *map(float, others)})
    for tau in taus:
        check_temperature(tau)
    similarity = np.einsum("ij,ij->i", queries, positives, dtype=np.float64)
    found: list[tuple[AtTemperature, _Parts]] = []
    for tau in taus:
        positive = similarity / tau
        sums = negative_sums(np.asarray(queries / tau), pool, masked=masked)
        found.append(_at(tau, positive, sums))
    base = next(each for each in found if each[0].temperature == float(temperature))
    return [_changed(each, base) for each in found]


def _at(tau: float, positive: np.ndarray, sums: NegativeSums) -> tuple[AtTemperature, _Parts]:
    regime = regime_of(positive, sums)
    limit = limit_of(positive, sums, regime)
    # 1 - p_+ = S / (S + e^{s_+}), S the sum over the pool.
    residuals = expit(np.log(sums.total) + sums.shift - positive)
    at = AtTemperature(
        temperature=tau,
        risk=pool_risk(positive, sums),
        cross_entropy=None if limit is None else limit[0],
        beyond=0.0 if limit is None else limit[1],
        residuals=tuple(float(value) for value in np.quantile(residuals, RESIDUAL_QUANTILES)),
        effective_negatives=float(np.median(sums.total**2 / sums.squares)),
        regime=regime,
        change=None,
        pool_change=Estimate(0.0, 0.0),
    )
    risks = np.logaddexp(-np.log(sums.size), sums.log_mean - positive)
    return at, _Parts(jackknife_log_means(sums) - positive, risks, leave_out_means(positive, sums))


def _changed(each: tuple[AtTemperature, _Parts], base: tuple[AtTemperature, _Parts]) -> AtTemperature:
    at, parts = each
    risks = parts.risks - base[1].risks
    at = replace(at, pool_change=Estimate(float(risks.mean()), _error(risks)))
    if at.cross_entropy is None or base[0].cross_entropy is None:
        return at
    values = parts.values - base[1].values
    tiles = parts.left_out - base[1].left_out
    pool = (tiles.size - 1) / tiles.size * ((tiles - tiles.mean()) ** 2).sum()
    return replace(at, change=Estimate(float(values.mean()), float(np.hypot(_error(values), np.sqrt(pool)))))


def _error(values: np.ndarray) -> float:
    """Standard error of a mean over queries; NaN of one."""
    return float(np.sqrt(values.var(ddof=1) / values.size)) if values.size > 1 else float("nan")
