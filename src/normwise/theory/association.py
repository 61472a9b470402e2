"""What does the norm go with? Rank correlations with each factor, raw and with the other factors held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from normwise.core.errors import InputError, near_names
from normwise.core.norm_records import FactorAssociation
from normwise.core.shapes import Float
from normwise.theory.factor_effect import Factor, Norms, Partial, own_share, partial_figures, raw_figures, with_intervals
from normwise.theory.factor_reading import checked_values, factor_columns, kind_of, untestable
from normwise.theory.partial_rank import holm_adjusted
from normwise.theory.rank_design import centered_midranks, control_columns

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
        constant factor, levels too small, a factor that repeats others (`collinear_with`; `shared` is then the group's
        partial on the rest).

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
    norms = Norms(rank=centered_midranks(log_norms[picked]), log=log_norms[picked].astype(np.float64))
    usable, refused = {}, {}
    for name, value in values.items():
        columns = factor_columns(name, value[picked])
        if columns is None:
            refused[name] = _skipped(name, kind[name], value, picked.size, untestable(value[picked]))
        else:
            usable[name] = Factor(name=name, kind=kind[name], values=value[picked], columns=columns)
    work = {name: _associate(name, usable, norms, controls=controls) for name in usable}
    found = with_intervals(work, seed=seed, resamples=resamples) | refused
    return corrected([found[name] for name in values])


def _associate(
    name: str, usable: Mapping[str, Factor], norms: Norms, *, controls: Sequence[str]
) -> tuple[FactorAssociation, Partial | None]:
    factor = usable[name]
    others = [other for other in usable.values() if other.name != name and (other.kind != factor.kind or other.name in controls)]
    rows = norms.rank.size
    raw, alone = raw_figures(factor, norms)
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
    own = own_share(factor.columns, design)
    base = base.model_copy(update={"own_share": own})
    if own >= LEAST_OWN_SHARE:
        partial = partial_figures(factor, norms, design)
        note = "" if partial else "the other factors explain the norm's ranks completely, so nothing is left to go with this one"
        return base.model_copy(update={"note": note}), partial
    twins = [other for other in others if own_share(factor.columns, control_columns([other.columns])) < LEAST_OWN_SHARE] or others
    rest = [other for other in others if other not in twins]
    repeats = tuple(twin.name for twin in twins)
    note = f"a function of {', '.join(repeats)} in these rows: its own part cannot be told from theirs, so no partial figure is given"
    shared = partial_figures(factor, norms, control_columns([other.columns for other in rest]) if rest else None)
    return base.model_copy(update={"collinear_with": repeats, "note": note}), shared


def corrected(found: Sequence[FactorAssociation]) -> tuple[FactorAssociation, ...]:
    """Return the records with p-values after Holm's correction over all of them; the tests of shape are a family of their own.

    Example:
        >>> tests = [FactorAssociation(name=name, kind=name, rows=99, p_value=0.03) for name in "ab"]
        >>> [record.p_adjusted for record in corrected(tests)]
        [0.06, 0.06]
    """
    result = list(found)
    for source, target in (("p_value", "p_adjusted"), ("curve_p", "curve_p_adjusted")):
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
