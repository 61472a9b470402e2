"""From one pass over a pool of negatives to the parts of a report: bounds, steps, limits and what cannot be told."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from normwise.core.negatives_records import BoundsRecord, CrossEntropy, FitRecord, PoolRecord, RiskStep, Span, TemperatureRow
from normwise.core.similarity import Similarity
from normwise.theory.effective_negatives import effective_curve
from normwise.theory.false_negatives import FalseNegatives, score_shift
from normwise.theory.infonce_bounds import gap_bounds, weighted_spread
from normwise.theory.infonce_estimates import Estimate, RiskCurve, risk_curve, search_risk
from normwise.theory.infonce_loss import epoch_collision_share, loss_floor
from normwise.theory.infonce_regime import Regime, fit_curve, limit_of, regime_of
from normwise.theory.infonce_temperatures import AtTemperature
from normwise.theory.negative_sums import NegativeSums, negative_sums
from normwise.theory.negatives_advice import change_interval, limit_advice
from normwise.workflows.negatives_material import Prepared

_SHIFTED = 0.1


@dataclass(frozen=True)
class Read:
    """What one pass over the pool says at the temperature that was given."""

    positive: np.ndarray
    sums: NegativeSums
    curve: RiskCurve
    regime: Regime
    limit: tuple[Estimate, float] | None


def read_pool(material: Prepared) -> Read:
    """Go once over the pool, and take from it the curve, the regime and the limit."""
    positive = material.own_similarity / material.temperature
    sums = negative_sums(material.queries / np.float32(material.temperature), material.pool, masked=material.pairs)
    regime = regime_of(positive, sums)
    return Read(positive, sums, risk_curve(positive, sums), regime, limit_of(positive, sums, regime))


def effective_negatives(material: Prepared, read: Read, *, seed: int) -> tuple[float, ...]:
    """At each k of the curve, how many of a set of k count, in the middle of queries."""
    scaled = material.queries / np.float32(material.temperature)
    return tuple(effective_curve(scaled, material.pool, read.curve.k.tolist(), masked=material.pairs, seed=seed).tolist())


def temperature_row(each: AtTemperature, own: AtTemperature, lesser: Prepared, wrong: FalseNegatives) -> TemperatureRow:
    """One temperature of the sweep, against the one that was given."""
    return TemperatureRow(
        temperature=each.temperature,
        risk=each.risk.value,
        risk_ci=span(each.risk),
        cross_entropy=None if each.cross_entropy is None else each.cross_entropy.value,
        cross_entropy_ci=(None, None) if each.cross_entropy is None else span(each.cross_entropy, beyond=each.beyond),
        change=None if each.change is None else each.change.value,
        change_ci=ends(change_interval(each, own)),
        recall_at_1=wrong.hit_rate,
        residuals=each.residuals,
        effective_negatives=each.effective_negatives,
        loss_floor=floor_of(lesser.similarity, each.regime.pool, each.temperature, in_batch=lesser.in_batch),
    )


def bounds_record(material: Prepared, read: Read) -> BoundsRecord:
    """Bounds at the largest k of the curve."""
    k = int(read.curve.k[-1])
    c = material.largest / material.temperature
    least = np.full(len(read.positive), -c)
    # What these negatives spread is an estimate, so that the bound from it is no proof.
    spread = weighted_spread(read.sums.log_mean, read.sums.cv2, least)
    bounds, instance = gap_bounds(k, c), gap_bounds(k, c, weighted_spread=spread).instance
    return BoundsRecord(
        k=k,
        largest_score=c,
        low=bounds.low,
        high=bounds.high,
        published=known(bounds.published),
        uniform=known(bounds.uniform),
        scores=bounds.scores,
        instance=None if instance is None else known(instance),
        vacuous=bounds.high > bounds.scores / 2.0,
    )


def pool_record(material: Prepared, at: int, notes: list[str], *, seed: int) -> PoolRecord:
    """What the negatives are; a law of scores unlike that in a batch becomes a note."""
    _, counts = np.unique(material.positive_keys, return_counts=True)
    shift = (
        None
        if material.in_batch or len(material.queries) < 2
        else score_shift(material.queries, material.positives, material.pool, seed=seed)
    )
    if shift is not None and shift > _SHIFTED:
        notes.append(
            f"scores with the pool differ from those with positives of other queries (Kolmogorov-Smirnov distance {shift:.2f}): training "
            "on in-batch negatives sees other negatives than this pool; leave --pool out to see what it sees"
        )
    return PoolRecord(
        kind="positives of other queries" if material.in_batch else "pool",
        size=len(material.pool),
        masked=len(material.masked.rows),
        collision=epoch_collision_share(counts, at),
        shift=shift,
    )


def search_span(read: Read, candidates: int, notes: list[str]) -> Span:
    """R_M: on the curve where M lies on it, else from the limit, where that can be told."""
    ks = read.curve.k.tolist()
    if candidates in ks:
        at = ks.index(candidates)
        low, high = span(Estimate(float(read.curve.risk[at]), float(read.curve.risk_error[at])))
        return Span(estimate=float(read.curve.risk[at]), ci_low=low, ci_high=high)
    if candidates < ks[-1] and (read.limit is None or candidates < read.regime.decoupled_start):
        notes.append(
            f"the risk over {candidates:,} candidates lies between those of the curve beside it; it is no power of two and not far above "
            "the spread of the scores, so it is read off the curve in 1/k"
        )
        inverse = 1.0 / read.curve.k[::-1].astype(np.float64)
        value, error = (float(np.interp(1.0 / candidates, inverse, each[::-1])) for each in (read.curve.risk, read.curve.risk_error))
        low, high = span(Estimate(value, error))
        return Span(estimate=value, ci_low=low, ci_high=high)
    if read.limit is None:
        notes.append(f"{limit_advice(read.regime)}, nor a risk over {candidates:,} candidates")
        return Span(estimate=None, ci_low=None, ci_high=None)
    found = search_risk(read.positive, read.sums, candidates)
    low, high = span(found, beyond=read.limit[1])
    return Span(estimate=found.value, ci_low=low, ci_high=high)


def step_records(curve: RiskCurve) -> tuple[RiskStep, ...]:
    """What each k of the curve changes against the one before."""
    rows = []
    for k, after, change, error in zip(curve.k[:-1].tolist(), curve.k[1:].tolist(), curve.step, curve.step_error, strict=True):
        low, high = span(Estimate(float(change), float(error)))
        rows.append(RiskStep(k=k, to=after, change=known(float(change)), ci_low=low, ci_high=high))
    return tuple(rows)


def cross_entropy_record(limit: tuple[Estimate, float] | None) -> CrossEntropy:
    """The limit, or that it cannot be told."""
    if limit is None:
        return CrossEntropy(estimate=None, ci_low=None, ci_high=None, method="none")
    low, high = span(limit[0], beyond=limit[1])
    return CrossEntropy(estimate=limit[0].value, ci_low=low, ci_high=high, method="jackknife")


def fit_record(read: Read) -> FitRecord:
    """The 1/k that was fitted."""
    found = fit_curve(read.curve, read.regime.start)
    return FitRecord(limit=known(found.limit), constant=known(found.constant), points=found.points)


def floor_of(similarity: Similarity, k: int, tau: float, *, in_batch: bool) -> float | None:
    """Only a cosine is bounded whatever the vectors."""
    return loss_floor(k, tau, in_batch=in_batch) if similarity is Similarity.COSINE else None


def spans(values: np.ndarray, errors: np.ndarray) -> tuple[tuple[float | None, float | None], ...]:
    """Their 95% intervals."""
    return tuple(span(Estimate(float(value), float(error))) for value, error in zip(values, errors, strict=True))


def span(estimate: Estimate, *, beyond: float = 0.0) -> tuple[float | None, float | None]:
    """A 95% interval; None where an end is not finite."""
    return ends(estimate.interval(beyond=beyond))


def ends(interval: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """Those of an interval; None where one is not finite, or nothing is known."""
    return (None, None) if interval is None else (known(interval[0]), known(interval[1]))


def known(value: float) -> float | None:
    """The value; None where it is not finite."""
    return value if math.isfinite(value) else None
