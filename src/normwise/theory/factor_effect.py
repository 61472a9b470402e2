"""One factor's part in the norm: raw and partial figures, and the intervals that all factors share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from normwise.core.norm_records import FactorAssociation
from normwise.core.records import Interval
from normwise.theory.correlation_ratio import block_test, correlation_ratio
from normwise.theory.factor_reading import is_logarithm
from normwise.theory.partial_rank import (
    Residuals,
    correlation_influence,
    correlation_test,
    fisher_interval,
    resampled_deviations,
    residuals,
    slope_influence,
)
from normwise.theory.rank_design import FactorColumns

# Ranks of the norm that controls explain up to this share are explained up to rounding.
_NOTHING_LEFT = 1e-6


@dataclass(frozen=True)
class Factor:
    """A factor on the sampled rows: its columns, and its log where every value is positive."""

    name: str
    kind: str
    values: np.ndarray
    columns: FactorColumns

    @property
    def log(self) -> np.ndarray | None:
        """Its log, of which the norm may be a power; None where it is none."""
        numeric = self.columns.score is not None and not is_logarithm(self.name)
        return np.log(self.values) if numeric and self.values.min() > 0 else None


@dataclass(frozen=True)
class Norms:
    """The norms on the sampled rows: their centered mid-ranks and their logs."""

    rank: np.ndarray
    log: np.ndarray


@dataclass(frozen=True)
class Partial:
    """What is left of a factor and the norm, before intervals: figure (correlation, or ratio of a category) and its influences."""

    figure: float
    p_value: float
    ratio: Interval
    p_ratio: float
    influences: np.ndarray
    log_spread: float
    slope: float | None = None


def raw_figures(factor: Factor, norms: Norms) -> tuple[float, float]:
    """Return Spearman with nothing held (a correlation ratio for categories), and the share of variance that any curve explains."""
    left = residuals(np.column_stack([norms.rank, factor.columns.shape]), None)
    ratio = float(correlation_ratio(left.values[:, 0], left.values[:, 1:], left.freedom).mean or 0.0)
    if factor.columns.score is None:
        return ratio, ratio**2
    u, v = norms.rank, factor.columns.score
    return float(u @ v / np.sqrt((u @ u) * (v @ v))), ratio**2


def own_share(columns: FactorColumns, design: np.ndarray | None) -> float:
    """Return the share of a factor's variance that the controls leave, of its rank or of its indicators together."""
    own = columns.control if columns.score is None else columns.score[:, None]
    left: Residuals = residuals(own, design)
    return float(np.sum(left.values**2) / np.sum((own - own.mean(axis=0)) ** 2))


def partial_figures(factor: Factor, norms: Norms, design: np.ndarray | None) -> Partial | None:
    """Return the partial figures of one factor, or None where the controls leave nothing of the norm's ranks."""
    score, log = factor.columns.score, factor.log
    columns = [norms.rank, norms.log, *(side for side in (score, log) if side is not None)]
    left = residuals(np.column_stack([*columns, factor.columns.shape]), design)
    rank, log_norm, block = left.values[:, 0], left.values[:, 1], left.values[:, len(columns) :]
    if float(rank @ rank) < _NOTHING_LEFT * float(norms.rank @ norms.rank):
        return None
    ratio, p_ratio = correlation_ratio(rank, block, left.freedom), block_test(rank, block, left)
    spread = float(np.sqrt(log_norm @ log_norm / max(left.freedom, 1)))
    if score is None:
        nothing = np.empty((0, rank.size))
        figure = float(ratio.mean or 0.0)
        return Partial(figure=figure, p_value=p_ratio, ratio=ratio, p_ratio=p_ratio, influences=nothing, log_spread=spread)
    factor_left = left.values[:, 2]
    rho, p_value = correlation_test(factor_left, rank, left)
    influences = [correlation_influence(factor_left, rank, score, norms.rank, left.leverage)]
    slope = None
    if log is not None:
        slope, of_slope = slope_influence(left.values[:, 3], log_norm, left.leverage)
        influences.append(of_slope)
    return Partial(
        figure=rho, p_value=p_value, ratio=ratio, p_ratio=p_ratio, influences=np.stack(influences), log_spread=spread, slope=slope
    )


def with_intervals(
    work: Mapping[str, tuple[FactorAssociation, Partial | None]], *, seed: int, resamples: int
) -> dict[str, FactorAssociation]:
    """Return the records with their intervals; all figures move together in the same resamples."""
    partials = [partial for _, partial in work.values() if partial is not None]
    moved = np.empty((resamples, 0))
    if any(partial.influences.size for partial in partials):
        moved = resampled_deviations(np.concatenate([partial.influences for partial in partials]), seed=seed, resamples=resamples)
    found, start = {}, 0
    for name, (record, partial) in work.items():
        if partial is None:
            found[name] = record
            continue
        stop = start + partial.influences.shape[0]
        found[name] = record.model_copy(update=_figures(record, partial, moved[:, start:stop]))
        start = stop
    return found


def _figures(record: FactorAssociation, partial: Partial, moved: np.ndarray) -> dict[str, Any]:
    interval = partial.ratio if record.categorical else fisher_interval(partial.figure, moved[:, 0])
    if record.collinear_with:
        return {"shared": interval, "log_spread": partial.log_spread}
    fields: dict[str, Any] = {
        "partial_spearman": partial.figure,
        "ci_low": interval.ci_low,
        "ci_high": interval.ci_high,
        "p_value": partial.p_value,
        "log_spread": partial.log_spread,
    }
    if not record.categorical:
        fields |= {"curve": partial.ratio.mean, "curve_p": partial.p_ratio}
    if partial.slope is not None:
        fields["exponent"] = _slope_interval(partial.slope, moved[:, 1])
    return fields


def _slope_interval(slope: float, deviations: np.ndarray) -> Interval:
    low, high = slope + np.quantile(deviations, [0.025, 0.975])
    return Interval(mean=slope, ci_low=float(low), ci_high=float(high))
