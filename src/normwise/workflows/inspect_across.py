"""What two modalities look like beside each other: gap, ellipsoids, conformity, signs, and whose norms a score follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import AcrossModalities, Agreement, ConformityReport, SignComparison
from normwise.core.norm_records import FactorAssociation
from normwise.core.records import GateReport, Interval
from normwise.report.words import counted
from normwise.theory.bootstrap import excludes_zero
from normwise.theory.conformity import conformity_report
from normwise.theory.double_ellipsoid import double_ellipsoid
from normwise.theory.modality_gap import TwoModalities, modality_gap
from normwise.theory.norm_share import norm_share
from normwise.workflows.inspect_report import Related

LEAST, MOST = 30, 4_000
_QUERIES, _PAIRS = 1_000, 5_000


@dataclass(frozen=True)
class Side:
    """One modality: its name, what was found of its vectors, the unit of each row, and what its encoder says of its norms."""

    name: str
    related: Related
    clusters: np.ndarray
    report: InspectReport
    freedom: GateReport | None = None


def across_modalities(first: Side, second: Side, *, pairs: np.ndarray | None, seed: int) -> AcrossModalities:
    """Measure what lies between two modalities of one model.

    At most 4,000 rows of each are taken; rows without a direction or that are not finite are left out. Units that both share are
    relabeled and resampled together, unless there are fewer than 30 of either: then each row stands for itself, and a note says so.

    Args:
        first: one modality.
        second: the other, of the same width.
        pairs: (P, 2) rows of the first and of the second that belong together, None where that is not known.
        seed: of samples, relabelings, folds and the bootstrap.

    Raises:
        InputError: the widths differ.
    """
    base = AcrossModalities(first=first.name, second=second.name, freedom_first=first.freedom, freedom_second=second.freedom)
    widths = [side.related.material.vectors.rows.shape[1] for side in (first, second)]
    if widths[0] != widths[1]:
        raise InputError(f"{first.name} have {widths[0]} dimensions and {second.name} {widths[1]}: expected vectors of one model")
    notes: list[str] = []
    rows = [_rows(side, seed, notes) for side in (first, second)]
    for side, kept in zip((first, second), rows, strict=True):
        if kept.size < LEAST:
            notes.append(f"{counted(kept.size, 'usable row')} of {side.name}: nothing is compared below {LEAST}")
            return base.model_copy(update={"notes": tuple(notes)})
    units = _units(first, second, rows, notes)
    x, y = (_vectors(side, kept) for side, kept in zip((first, second), rows, strict=True))
    given = TwoModalities(x, y, units, _kept_pairs(pairs, rows, seed))
    gap = modality_gap(given, seed=seed)
    names = (first.name, second.name)
    split = len(x)
    independent = [_one_of_each(units[:split], seed), _one_of_each(units[split:], seed)]
    signs = _signs(first.report, second.report)
    return base.model_copy(
        update={
            "gap": gap,
            "ellipsoids": double_ellipsoid(x[independent[0]], y[independent[1]], gap.direction_auc, names=names, seed=seed),
            "conformity_first": _conformity(first, seed),
            "conformity_second": _conformity(second, seed),
            "shares": (
                norm_share(*_some(x, units[:split], y, seed), names=names, seed=seed),
                norm_share(*_some(y, units[split:], x, seed), names=(names[1], names[0]), seed=seed),
            ),
            "signs": signs,
            "sign_words": _sign_words(signs, first, second),
            "clusters": int(np.unique(units).size),
            "notes": tuple(notes),
        }
    )


def _rows(side: Side, seed: int, notes: list[str]) -> np.ndarray:
    usable = np.flatnonzero(side.related.found.scan.usable)
    left = side.related.found.scan.norms.size - usable.size
    if left:
        notes.append(f"{counted(left, 'row')} of {side.name} without a usable norm left out")
    if usable.size <= MOST:
        return usable
    notes.append(f"{MOST:,} of {usable.size:,} {side.name} compared, drawn by seed {seed}")
    return np.sort(np.random.default_rng(seed).choice(usable, MOST, replace=False))


def _units(first: Side, second: Side, rows: list[np.ndarray], notes: list[str]) -> np.ndarray:
    units = [side.clusters[kept] for side, kept in zip((first, second), rows, strict=True)]
    fewest = min(np.unique(each).size for each in units)
    if fewest >= LEAST:
        return np.concatenate(units)
    notes.append(
        f"there are {fewest} units (concepts, say) only: intervals and relabelings take each row by itself, and speak of these units alone"
    )
    return np.arange(sum(each.size for each in units))  # fmt: skip


def _vectors(side: Side, rows: np.ndarray) -> np.ndarray:
    return np.asarray(side.related.material.vectors.rows[rows], dtype=np.float32)


def _kept_pairs(pairs: np.ndarray | None, rows: list[np.ndarray], seed: int) -> np.ndarray | None:
    """Pairs whose rows were both taken, by their new places."""
    if pairs is None or not len(pairs):
        return None
    places = [np.searchsorted(kept, column) for kept, column in zip(rows, pairs.T, strict=True)]
    there = [kept[np.minimum(place, kept.size - 1)] == column for kept, place, column in zip(rows, places, pairs.T, strict=True)]
    found = np.stack(places, axis=1)[there[0] & there[1]]
    if len(found) > _PAIRS:
        found = found[np.sort(np.random.default_rng(seed).choice(len(found), _PAIRS, replace=False))]
    return found if len(found) else None


def _one_of_each(units: np.ndarray, seed: int) -> np.ndarray:
    """A row of each unit, drawn at random: rows of one unit are no further evidence of a cloud's shape."""
    order = np.random.default_rng(seed).permutation(units.size)
    return np.sort(order[np.unique(units[order], return_index=True)[1]])


def _some(queries: np.ndarray, units: np.ndarray, candidates: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(queries) <= _QUERIES:
        return queries, candidates, units
    rows = np.sort(np.random.default_rng(seed).choice(len(queries), _QUERIES, replace=False))
    return queries[rows], candidates, units[rows]


def _conformity(side: Side, seed: int) -> ConformityReport | None:
    """On the rows behind the factors, where there are any; else on all usable rows, at most 4,000."""
    table, norms = side.related.rows, side.related.found.scan.norms
    rows, factors = table.rows, table.values
    if table.wide is not None:
        rows, factors = table.wide.rows, table.wide.values
    if rows.size > MOST:
        picked = np.sort(np.random.default_rng(seed).choice(rows.size, MOST, replace=False))
        rows, factors = rows[picked], {name: values[picked] for name, values in factors.items()}
    if rows.size < LEAST:
        return None
    return conformity_report(_vectors(side, rows), np.log(norms[rows]), factors, seed=seed)


def _signs(first: InspectReport, second: InspectReport) -> tuple[SignComparison, ...]:
    """Every factor with a sign that both modalities have, in the order of the first."""
    others = {factor.name: factor for factor in second.factors}
    pairs = [(factor, others[factor.name]) for factor in first.factors if factor.name in others]
    return tuple(
        SignComparison(factor=one.name, first=_partial(one), second=_partial(two), agreement=agreement(_partial(one), _partial(two)))
        for one, two in pairs
        if not one.categorical and not two.categorical
    )


def _partial(factor: FactorAssociation) -> Interval:
    return Interval(mean=factor.partial_spearman, ci_low=factor.ci_low, ci_high=factor.ci_high)


def agreement(first: Interval, second: Interval) -> Agreement:
    """Compare two signs: each counts where its interval leaves 0 out.

    Example:
        >>> up, none = Interval(mean=0.4, ci_low=0.3, ci_high=0.5), Interval(mean=0.0, ci_low=-0.1, ci_high=0.1)
        >>> agreement(up, up), agreement(up, none), agreement(none, none)
        ('same sign', 'in one only', 'in neither')
    """
    told = [interval for interval in (first, second) if excludes_zero(interval)]
    if len(told) < 2:
        return "in one only" if told else "in neither"
    return "same sign" if ((first.mean or 0.0) > 0.0) == ((second.mean or 0.0) > 0.0) else "opposite signs"


def _sign_words(signs: tuple[SignComparison, ...], first: Side, second: Side) -> str:
    """What the signs say together; never what they mean, where a regime is not determined."""
    if not signs:
        return ""
    parts = []
    for kind in ("same sign", "opposite signs"):
        names = [sign.factor for sign in signs if sign.agreement == kind]
        parts += [f"{kind} in both for {', '.join(names)}"] if names else []
    said = "; ".join(parts) or "no factor has a sign in both"
    open_ones = [side.name for side in (first, second) if side.report.regime == "undetermined"]
    if open_ones:
        whose = " and of the ".join(open_ones)
        return f"{said}. The regime of the {whose} is undetermined: signs belong to these vectors and say nothing of how they came about"
    bound = " and ".join(f"{side.report.regime} for the {side.name}" for side in (first, second))
    return f"{said}. Regimes: {bound}"


def side_of(name: str, related: Related, report: InspectReport, clusters: np.ndarray | None, freedom: GateReport | None = None) -> Side:
    """A modality of vectors that are at hand; without clusters each row is a unit."""
    rows = related.material.vectors.rows.shape[0]
    return Side(name, related, np.arange(rows) if clusters is None else clusters, report, freedom)


def named_apart(first: str, second: str) -> tuple[str, str]:
    """Two names, told apart where they are one.

    Example:
        >>> named_apart("a.npy", "b.npy"), named_apart("array", "array")
        (('a.npy', 'b.npy'), ('array (first)', 'array (second)'))
    """
    return (first, second) if first != second else (f"{first} (first)", f"{second} (second)")
