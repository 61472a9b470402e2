"""What does the norm go with? Rank correlations with each factor, raw and with the other factors held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normwise.core.errors import InputError, near_names
from normwise.core.norm_records import FactorAssociation
from normwise.core.records import Interval
from normwise.core.shapes import Float
from normwise.theory.factor_reading import checked_values, factor_columns, is_logarithm, kind_of
from normwise.theory.partial_rank import (
    Residuals,
    block_test,
    correlation_influence,
    correlation_ratio,
    correlation_test,
    fisher_interval,
    holm_adjusted,
    resampled_deviations,
    residuals,
    slope_influence,
)
from normwise.theory.rank_design import FactorColumns, centered_midranks, control_columns

# Below 30 rows an interval of a rank correlation is wider than +-.35, and a spline of the controls leaves nothing to test.
LEAST_ROWS = 30
# A seeded sample of this many rows has a standard error of .01: far below the smallest effect that is named (.1).
SAMPLE_ROWS = 10_000
# Below this share of its own rank variance a factor is taken to repeat the others: what is left is then of the size of
# the error that splines make, so its partial correlation would be that error's.
LEAST_OWN_SHARE = 0.02
# Norms that agree to this relative size are equal: float32 vectors of any width keep their length to about 1e-6.
EQUAL_WITHIN = 1e-6
RESAMPLES = 1000
# Ranks of the norm that controls explain up to this share are explained up to rounding.
_NOTHING_LEFT = 1e-6


@dataclass(frozen=True)
class _Factor:
    """A factor on the sampled rows: its columns, and its log where every value is positive."""

    name: str
    kind: str
    values: np.ndarray
    columns: FactorColumns

    @property
    def log(self) -> np.ndarray | None:
        numeric = self.columns.score is not None and not is_logarithm(self.name)
        return np.log(self.values) if numeric and self.values.min() > 0 else None


@dataclass(frozen=True)
class _Norms:
    """The norms on the sampled rows: their centered mid-ranks and their logs."""

    rank: np.ndarray
    log: np.ndarray


@dataclass(frozen=True)
class _Partial:
    """What is left of a factor and the norm, before intervals: figure (correlation, or ratio of a category) and its influences."""

    figure: float
    p_value: float
    ratio: Interval
    p_ratio: float
    influences: np.ndarray
    log_spread: float
    slope: float | None = None


def associations(
    log_norms: Float[np.ndarray, " N"],
    factors: Mapping[str, np.ndarray],
    *,
    seed: int,
    kinds: Mapping[str, str] | None = None,
    controls: Sequence[str] = (),
    resamples: int = RESAMPLES,
) -> tuple[FactorAssociation, ...]:
    """Return how the norm goes with each factor, raw and partial on the others, with intervals and corrected p-values.

    Equations: u = centered mid-ranks of log r, v of the factor, X the splines of the ranks of its controls with their
    pairwise products, M = I - H the residual maker of [1, X]:

        spearman          corr(u, v)
        partial_spearman  corr(M u, M v): both sides, so that it is 0 on average when the norm, given the controls, does not
                          depend on the factor, whatever curves tie both to the controls. Without controls it is `spearman`
        exponent          slope of M log r on M log x (theory: 0.25 on visits under SGD, 0.5 under lazy Adam); None where x
                          is not positive or is a logarithm already by its name (see `is_logarithm`)

    Why ranks and splines on both sides: when both norm and factor are curves of the length, taking out straight lines leaves
    two bends that correlate with each other; a rank straightens neither exactly. One wrong side does no harm as long as the
    other is right, since the rest of a right side is uncorrelated with every function of the controls.

    **The others** of a factor are those of another kind: token count and character count measure one thing and do not
    control each other, since each would take away what both show. Unknown names are kinds of their own.

    Args:
        log_norms: (N,) natural log of the raw norms, finite.
        factors: name -> (N,) numbers or texts (categories: correlation ratios, which have no sign).
        seed: of the sample (10,000 rows where there are more) and of the bootstrap.
        kinds: name -> kind, for names that `kind_of` does not know.
        controls: names that control every other factor, whatever its kind.
        resamples: of the bootstrap, at least 100.

    Returns:
        One record per factor, in the order given. Figures are None and `note` says why: fewer than 30 rows, equal norms, a
        constant factor, a factor that repeats others (`collinear_with`; `shared` is then the group's partial on the rest).

    Raises:
        InputError: a shape, a NaN, a missing value or an unknown name, with its row.

    Reference: our derivation; see `partial_rank` for the test, the intervals and their sources.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> visits = np.exp(rng.normal(size=500))
        >>> found = associations(0.25 * np.log(visits) + 0.1 * rng.normal(size=500), {"visits": visits}, seed=0)[0]
        >>> found.kind, round(found.spearman, 1), round(found.partial_spearman, 1), round(found.exponent.mean, 2)
        ('frequency', 0.9, 0.9, 0.25)
    """
    _check(log_norms, factors, kinds=kinds, controls=controls, resamples=resamples)
    rows = log_norms.shape[0]
    values = {name: checked_values(name, np.asarray(value), rows) for name, value in factors.items()}
    kind = {name: (kinds or {}).get(name) or kind_of(name) for name in values}
    refusal = _refusal(log_norms)
    if refusal:
        return tuple(_skipped(name, kind[name], value, rows, refusal) for name, value in values.items())
    picked = _sample(rows, seed)
    norms = _Norms(rank=centered_midranks(log_norms[picked]), log=log_norms[picked].astype(np.float64))
    usable = {}
    for name, value in values.items():
        columns = factor_columns(name, value[picked])
        if columns is not None:
            usable[name] = _Factor(name=name, kind=kind[name], values=value[picked], columns=columns)
    work = {name: _associate(name, usable, norms, controls=controls) for name in usable}
    found = _with_intervals(work, seed=seed, resamples=resamples)
    constant = "constant: a factor that does not vary cannot go with anything"
    every = [found.get(name) or _skipped(name, kind[name], value, picked.size, constant) for name, value in values.items()]
    return _corrected(every)


def _associate(
    name: str, usable: Mapping[str, _Factor], norms: _Norms, *, controls: Sequence[str]
) -> tuple[FactorAssociation, _Partial | None]:
    factor = usable[name]
    others = [other for other in usable.values() if other.name != name and (other.kind != factor.kind or other.name in controls)]
    rows = norms.rank.size
    raw, alone = _raw(factor, norms)
    base = FactorAssociation(
        name=name,
        kind=factor.kind,
        categorical=factor.columns.score is None,
        rows=rows,
        controls=tuple(other.name for other in others),
        spearman=raw,
        alone=alone,
    )
    design = control_columns([other.columns for other in others]) if others else None
    if design is not None and rows - 1 - design.shape[1] < LEAST_ROWS // 2:
        note = f"{rows} rows are too few to hold {len(others)} other factors ({design.shape[1]} columns): give more rows or fewer factors"
        return base.model_copy(update={"note": note}), None
    own = _own_share(factor.columns, design)
    base = base.model_copy(update={"own_share": own})
    if own >= LEAST_OWN_SHARE:
        partial = _partial(factor, norms, design)
        note = "" if partial else "the other factors explain the norm's ranks completely, so nothing is left to go with this one"
        return base.model_copy(update={"note": note}), partial
    twins = [other for other in others if _own_share(factor.columns, control_columns([other.columns])) < LEAST_OWN_SHARE] or others
    rest = [other for other in others if other not in twins]
    repeats = tuple(twin.name for twin in twins)
    note = f"a function of {', '.join(repeats)} in these rows: its own part cannot be told from theirs, so no partial figure is given"
    shared = _partial(factor, norms, control_columns([other.columns for other in rest]) if rest else None)
    return base.model_copy(update={"collinear_with": repeats, "note": note}), shared


def _partial(factor: _Factor, norms: _Norms, design: np.ndarray | None) -> _Partial | None:
    """The partial figures of one factor, or None where the controls leave nothing of the norm's ranks."""
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
        return _Partial(figure=figure, p_value=p_ratio, ratio=ratio, p_ratio=p_ratio, influences=nothing, log_spread=spread)
    factor_left = left.values[:, 2]
    rho, p_value = correlation_test(factor_left, rank, left)
    influences = [correlation_influence(factor_left, rank, score, norms.rank, left.leverage)]
    slope = None
    if log is not None:
        slope, of_slope = slope_influence(left.values[:, 3], log_norm, left.leverage)
        influences.append(of_slope)
    return _Partial(
        figure=rho, p_value=p_value, ratio=ratio, p_ratio=p_ratio, influences=np.stack(influences), log_spread=spread, slope=slope
    )


def _with_intervals(
    work: Mapping[str, tuple[FactorAssociation, _Partial | None]], *, seed: int, resamples: int
) -> dict[str, FactorAssociation]:
    """The records with their intervals; all figures move together in the same resamples."""
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


def _figures(record: FactorAssociation, partial: _Partial, moved: np.ndarray) -> dict[str, Any]:
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
        fields |= {"curve": partial.ratio.mean, "curve_p_adjusted": partial.p_ratio}
    if partial.slope is not None:
        fields["exponent"] = _slope_interval(partial.slope, moved[:, 1])
    return fields


def _slope_interval(slope: float, deviations: np.ndarray) -> Interval:
    low, high = slope + np.quantile(deviations, [0.025, 0.975])
    return Interval(mean=slope, ci_low=float(low), ci_high=float(high))


def _raw(factor: _Factor, norms: _Norms) -> tuple[float, float]:
    """Spearman with nothing held (a correlation ratio for categories), and the share of variance that any curve explains."""
    left = residuals(np.column_stack([norms.rank, factor.columns.shape]), None)
    ratio = float(correlation_ratio(left.values[:, 0], left.values[:, 1:], left.freedom).mean or 0.0)
    if factor.columns.score is None:
        return ratio, ratio**2
    u, v = norms.rank, factor.columns.score
    return float(u @ v / np.sqrt((u @ u) * (v @ v))), ratio**2


def _own_share(columns: FactorColumns, design: np.ndarray | None) -> float:
    """The share of a factor's variance that the controls leave, of its rank or of its indicators together."""
    own = columns.control if columns.score is None else columns.score[:, None]
    left: Residuals = residuals(own, design)
    return float(np.sum(left.values**2) / np.sum((own - own.mean(axis=0)) ** 2))


def _corrected(found: Sequence[FactorAssociation]) -> tuple[FactorAssociation, ...]:
    """Holm's correction over the factors; the tests of shape are a family of their own."""
    result = list(found)
    for source, target in (("p_value", "p_adjusted"), ("curve_p_adjusted", "curve_p_adjusted")):
        tested = [index for index, record in enumerate(result) if getattr(record, source) is not None]
        adjusted = holm_adjusted([getattr(result[index], source) for index in tested])
        for index, p_value in zip(tested, adjusted, strict=True):
            result[index] = result[index].model_copy(update={target: p_value})
    return tuple(result)


def _sample(rows: int, seed: int) -> np.ndarray:
    if rows <= SAMPLE_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, size=SAMPLE_ROWS, replace=False))


def _refusal(log_norms: np.ndarray) -> str:
    if log_norms.shape[0] < LEAST_ROWS:
        return f"{log_norms.shape[0]} rows: no correlation is given below {LEAST_ROWS}, its interval would say nothing; give more vectors"
    if float(log_norms.max() - log_norms.min()) <= EQUAL_WITHIN:
        return "all norms are equal up to rounding, so nothing can go with them"
    return ""


def _skipped(name: str, kind: str, values: np.ndarray, rows: int, note: str) -> FactorAssociation:
    return FactorAssociation(name=name, kind=kind, categorical=values.dtype.kind != "f", rows=rows, note=note)


def _check(
    log_norms: np.ndarray, factors: Mapping[str, np.ndarray], *, kinds: Mapping[str, str] | None, controls: Sequence[str], resamples: int
) -> None:
    if log_norms.ndim != 1:
        raise InputError(f"log_norms have shape {log_norms.shape}; expected one log norm per vector")
    bad = np.flatnonzero(~np.isfinite(log_norms))
    if bad.size:
        raise InputError(
            f"log_norms: row {bad[0]} is {log_norms[bad[0]]}; expected finite values: leave zero and non-finite vectors out first"
        )
    for what, names in (("kinds", kinds or {}), ("controls", controls)):
        unknown = next((name for name in names if name not in factors), None)
        if unknown is not None:
            raise InputError(f"{what} names '{unknown}', which is no factor; {near_names(unknown, factors)}")
    if resamples < 100:
        raise InputError(f"resamples is {resamples}; expected at least 100, so that both tails of an interval hold some")
