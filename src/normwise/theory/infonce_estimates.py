"""From sums over a pool of negatives to estimates: the risk at every k, its limit, what a larger k buys, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.in_threads import in_threads
from normwise.theory.negative_sums import NegativeSums

# Disjoint sets of negatives whose spread tells what the draw of the pool does to a mean; with fewer, leaving out parts of the whole does.
_ENOUGH_SETS = 16
_LEAST_QUERIES = 1_000
# What sums of terms in float32 leave of a jackknife, in nats: it multiplies differences of logarithms by the size of the pool.
_ROUNDING = 4e-6


@dataclass(frozen=True)
class Estimate:
    """A mean over queries, in nats, and its standard error; NaN where there are too few of them to tell."""

    value: float
    error: float

    def interval(self, *, z: float = 1.959963984540054, beyond: float = 0.0) -> tuple[float, float]:
        """The value less and plus z standard errors and what else it may be off by."""
        return self.value - z * self.error - beyond, self.value + z * self.error + beyond


@dataclass(frozen=True)
class RiskCurve:
    """Risks at each number of negatives k, in nats, all less log k, so that they compare.

    `risk` is that of InfoNCE and `decoupled` that of DCL, (K,) each, with standard errors. `step` (K - 1,) is by how much the InfoNCE
    risk changes from each k to the next, and `step_error` its standard error, of the same queries and negatives.
    """

    k: Int[np.ndarray, " K"]
    risk: Float[np.ndarray, " K"]
    risk_error: Float[np.ndarray, " K"]
    decoupled: Float[np.ndarray, " K"]
    decoupled_error: Float[np.ndarray, " K"]
    step: Float[np.ndarray, " _"]
    step_error: Float[np.ndarray, " _"]


def risk_curve(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> RiskCurve:
    """Estimate the InfoNCE and the DCL risk at k = 1, 2, 4, ... and at the size of the pool.

    Equation: R_k = E log(1/k + (1/k) sum_j e^{s_j - s_+}); the DCL risk lacks the first 1/k. A query's risk is the mean over disjoint
    sets of k negatives. Errors are those of two draws: Var over queries / B, plus what the pool, which all queries share, does:
    Var over sets / S where there are 16 or more, else the jackknife over tiles of the pool, times the share of the pool in use.

    Args:
        positive: (B,) scores of the positives.
        sums: of the same queries.

    Returns:
        The curve. A query with fewer than k negatives is left out at that k; the last is the fewest that any has.

    Raises:
        InputError: shapes differ.

    Reference: Whiteley (2026), section 2, for the risks; the error of a shared pool is ours.

    Example:
        >>> from normwise.theory.negative_sums import negative_sums
        >>> sums = negative_sums(np.zeros((3, 2)), np.ones((4, 2)))
        >>> curve = risk_curve(np.zeros(3), sums)
        >>> curve.k.tolist(), curve.risk.round(3).tolist()
        ([1, 2, 4], [0.693, 0.405, 0.223])
    """
    _check(positive, sums)
    pool = _PoolError(positive, sums)
    ks = sorted(sums.sets)
    found = in_threads(lambda k: _at(positive, sums, k), ks, size=positive.size, least=_LEAST_QUERIES)
    rows = [
        [
            float(np.nanmean(each.risks)),
            pool.error(each.risks, each.risk_sets, k * each.risk_sets.size / sums.pool, pool.risk),
            float(np.nanmean(each.gaps)),
            pool.error(each.gaps, each.gap_sets, k * each.gap_sets.size / sums.pool, pool.decoupled),
        ]
        for k, each in zip(ks, found, strict=True)
    ]
    steps = [_change(sums, pool, (ks[at], found[at]), (ks[at + 1], found[at + 1])) for at in range(len(ks) - 1)]
    step, step_error = np.array([[each.value, each.error] for each in steps]).reshape(-1, 2).T
    risk, risk_error, decoupled, decoupled_error = np.array(rows).T
    return RiskCurve(np.array(ks, dtype=np.int64), risk, risk_error, decoupled, decoupled_error, step, step_error)


def pool_risk(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> Estimate:
    """Estimate the InfoNCE risk with the whole pool as negatives: the last of `risk_curve`, without the others."""
    _check(positive, sums)
    pool, there = _PoolError(positive, sums), _at(positive, sums, sums.pool)
    return Estimate(float(np.nanmean(there.risks)), pool.error(there.risks, there.risk_sets, 1.0, pool.risk))


def risk_change(positive: Float[np.ndarray, " B"], sums: NegativeSums, k: int, after: int) -> Estimate:
    """Estimate by how much the InfoNCE risk changes from k negatives to `after`, both of `sums.sets`, of the same queries.

    Where sets of the one are parts of those of the other, the error is that of paired differences; else the pool's part of it is that
    of the larger k alone, which is too much, since the two share their negatives.

    Example:
        >>> from normwise.theory.negative_sums import negative_sums
        >>> round(risk_change(np.zeros(3), negative_sums(np.zeros((3, 2)), np.ones((4, 2))), 1, 4).value, 3)
        -0.47
    """
    _check(positive, sums)
    both = ((each, _at(positive, sums, each)) for each in (k, after))
    return _change(sums, _PoolError(positive, sums), *both)


def jackknife_cross_entropy(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> Estimate:
    """Estimate H, the risk as k goes to infinity, with the leading 1/k taken off by leaving out one negative at a time.

    Equation: H = mean_i [M log mu_i - (M - 1) mean_j log mu_i^(-j) - s_i+], mu_i the mean of e^s over the M negatives of query i and
    mu_i^(-j) that without the j-th.

    Args:
        positive: (B,) scores of the positives.
        sums: of the same queries.

    Returns:
        The estimate with the error of both draws, queries and pool. With one negative it is the DCL risk.

    Reference: Quenouille (1956) for the jackknife; its use here and the error of the shared pool are ours.

    Example:
        >>> from normwise.theory.negative_sums import negative_sums
        >>> jackknife_cross_entropy(np.zeros(3), negative_sums(np.zeros((3, 2)), np.ones((4, 2)))).value
        0.0
    """
    _check(positive, sums)
    values = jackknife_log_means(sums) - positive
    pool = _PoolError(positive, sums).decoupled
    return Estimate(float(values.mean()), float(np.sqrt(_query_variance(values) + pool + _ROUNDING**2)))


def jackknife_log_means(sums: NegativeSums) -> Float[np.ndarray, " B"]:
    """Return (B,) log E e^s of each query over the law of the negatives, with the bias of order 1/M taken off.

    Equation: M log mu - (M - 1) mean_j log mu^(-j) = log mu - (M - 1) (log(M / (M - 1)) + mean_j log(1 - w_j)), w_j = e^{s_j} / sum e^s.
    """
    size = sums.size
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = (size - 1.0) * (-np.log1p(-1.0 / size) + sums.left_out)
    return sums.log_mean - np.where(size > 1.0, fall, 0.0)


def leave_out_means(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> Float[np.ndarray, " T"]:
    """Return (T,) DCL risks of the pool without each of its tiles; what several temperatures share of the draw cancels in differences."""
    _check(positive, sums)
    return _left_out_gaps(positive, sums).mean(axis=0)


def delta_cross_entropy(positive: Float[np.ndarray, " B"], sums: NegativeSums) -> float:
    """Estimate H as the DCL risk of the whole pool plus its leading gap, mean cv2 / (2M)."""
    _check(positive, sums)
    return float((sums.log_mean - positive + sums.cv2 / (2.0 * sums.size)).mean())


def search_risk(positive: Float[np.ndarray, " B"], sums: NegativeSums, candidates: int) -> Estimate:
    """Estimate the InfoNCE risk at any k, such as the number of candidates of a deployed search.

    Equation: mean_i log(1/k + mu_i e^{-s_i+}) - mean cv2 / (2k), mu_i from the jackknife: exact in the positive's own term, of leading
    order in the rest.

    Args:
        positive: (B,) scores of the positives.
        sums: of the same queries.
        candidates: k >= 1; far above cv2, or the leading order is not enough (`regime_of`).

    Raises:
        InputError: k below 1.
    """
    _check(positive, sums)
    if candidates < 1:
        raise InputError(f"candidates is {candidates}; expected at least 1")
    values = np.logaddexp(-np.log(candidates), jackknife_log_means(sums) - positive) - sums.cv2 / (2.0 * candidates)
    pool = _PoolError(positive, sums).risk
    return Estimate(float(values.mean()), float(np.sqrt(_query_variance(values) + pool)))


class _PoolError:
    """What the draw of the pool does to mean risks: the variance of a mean over disjoint parts of it, or of leaving one tile out."""

    def __init__(self, positive: np.ndarray, sums: NegativeSums) -> None:
        gaps = _left_out_gaps(positive, sums)
        risks = np.logaddexp(-np.log(sums.size)[:, None], gaps)
        self.decoupled, self.risk = _jackknife_variance(gaps.mean(axis=0)), _jackknife_variance(risks.mean(axis=0))

    def error(self, queries: np.ndarray, sets: np.ndarray, share: float, whole: float) -> float:
        """Standard error of a mean from (B,) means of queries and (S,) of disjoint sets that make up a share of the pool."""
        spread = float(np.nanvar(sets, ddof=1)) / sets.size if sets.size >= _ENOUGH_SETS else whole / share
        return float(np.sqrt(_query_variance(queries) + spread))


@dataclass(frozen=True)
class _At:
    """Risks and gaps at one k: means (B,) over sets of each query, and (S,) over queries of each set."""

    risks: np.ndarray
    risk_sets: np.ndarray
    gaps: np.ndarray
    gap_sets: np.ndarray


def _at(positive: np.ndarray, sums: NegativeSums, k: int) -> _At:
    gaps, risks = _gaps_and_risks(positive, sums, k)
    return _At(_mean(risks, axis=1), _mean(risks, axis=0), _mean(gaps, axis=1), _mean(gaps, axis=0))


def _change(sums: NegativeSums, pool: _PoolError, first: tuple[int, _At], second: tuple[int, _At]) -> Estimate:
    (k, before), (after, then) = first, second
    change = then.risks - before.risks
    ratio = after // k
    common = min(then.risk_sets.size, before.risk_sets.size // ratio)
    if after % k == 0 and common >= _ENOUGH_SETS:
        parts = before.risk_sets[: common * ratio].reshape(common, ratio).mean(axis=1)
        variance = float(np.nanvar(then.risk_sets[:common] - parts, ddof=1)) / common
    else:
        variance = pool.risk / (after * then.risk_sets.size / sums.pool)
    return Estimate(float(np.nanmean(change)), float(np.sqrt(_query_variance(change) + variance)))


def _gaps_and_risks(positive: np.ndarray, sums: NegativeSums, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, S) log m, m the mean of e^{s_j - s_+} over a set of k, and log(1/k + m)."""
    gaps = sums.sets[k] + (sums.shift - positive)[:, None]
    # Beyond that 1/k is nothing beside m; np.logaddexp would take several times as long.
    most = np.minimum(gaps, 600.0)
    # In place: fresh memory costs as much as the arithmetic.
    risks = np.exp(most)
    risks += 1.0 / k
    np.log(risks, out=risks)
    risks += np.subtract(gaps, most, out=most)
    return gaps, risks


def _mean(values: np.ndarray, *, axis: int) -> np.ndarray:
    """Means over what is there; NaN where nothing is."""
    means = values.mean(axis=axis)
    if not np.isnan(means).any():
        return means
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(there, values, 0.0).sum(axis=axis) / there.sum(axis=axis)


def _query_variance(values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(values.var(ddof=1)) / values.size if values.size > 1 else float("nan")


def _left_out_gaps(positive: np.ndarray, sums: NegativeSums) -> np.ndarray:
    """(B, T) log of the mean of e^{s_j - s_+} over the pool without each tile; all of it where nothing is left."""
    return sums.without_tile + (sums.shift - positive)[:, None]


def _jackknife_variance(means: np.ndarray) -> float:
    """Of a mean, from (T,) means each without one of T tiles."""
    if means.size < 2:
        return float("nan")
    return float((means.size - 1) / means.size * ((means - means.mean()) ** 2).sum())


def _check(positive: np.ndarray, sums: NegativeSums) -> None:
    if positive.shape != sums.shift.shape:
        raise InputError(f"positive has shape {positive.shape}, and the sums are of {sums.shift.size} queries: expected one score for each")
