"""The first look at vectors: one pass over all rows, the distribution of their norms, a sample, and the points of the page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.inspect_records import NormPictures
from normwise.core.norm_records import NormDistribution
from normwise.data.norm_inputs import refuse_extreme_norms
from normwise.report.words import counted
from normwise.theory.norm_geometry import SEARCH_ROWS
from normwise.theory.norm_summary import NormFigures, RowScan, is_normalized, norm_figures, rounding_spread, scan_rows
from normwise.theory.plane import norm_percentiles, principal_plane
from normwise.workflows.inspect_factors import FactorTable
from normwise.workflows.inspect_source import Material

_SCATTER, _PLANE = 2_000, 1_000
_SAMPLE_VALUES = 1 << 26


@dataclass(frozen=True)
class Scanned:
    """One pass over the vectors: what it found, the distribution of usable norms, and whether they say anything."""

    scan: RowScan
    figures: NormFigures | None
    normalized: bool
    vary: bool


def scan_material(material: Material) -> Scanned:
    """One pass over all rows."""
    vectors = material.vectors
    scan = scan_rows(vectors.rows)
    refuse_extreme_norms(scan.norms, name=vectors.name)
    norms = scan.norms[scan.usable]
    figures = norm_figures(norms) if norms.size else None
    normalized = is_normalized(norms)
    spread = rounding_spread(vectors.epsilon, vectors.rows.shape[1])
    return Scanned(scan, figures, normalized, figures is not None and not normalized and bool(figures.std_log > spread))


def distribution(scan: RowScan, figures: NormFigures | None) -> NormDistribution:
    """The distribution of a scan as a record; figures are None where no row has a usable norm."""
    bad = scan.nan + scan.infinite
    if figures is None:
        return NormDistribution(mean=None, cv=None, zero=scan.zero, nonfinite=bad, duplicates=scan.duplicates, usable=0)
    return NormDistribution(
        mean=figures.mean,
        cv=figures.cv,
        quantiles=figures.quantiles,
        std=figures.cv * figures.mean,
        std_log=figures.std_log,
        minimum=figures.quantiles["0"],
        maximum=figures.quantiles["1"],
        tail_ratio=figures.quantiles["0.99"] / figures.quantiles["0.01"],
        zero=scan.zero,
        nonfinite=bad,
        duplicates=scan.duplicates,
        usable=figures.count,
    )


def distribution_of(norms: np.ndarray) -> NormDistribution:
    """The distribution of norms that stand alone, without the vectors they are of."""
    positive = norms[norms > 0.0]
    scan = RowScan(norms, infinite=0, nan=0, zero=int((norms == 0.0).sum()), repeated=np.zeros(norms.size, dtype=bool))
    return distribution(scan, norm_figures(positive) if positive.size else None).model_copy(update={"duplicates": None})


def sample_rows(material: Material, usable: np.ndarray, *, seed: int) -> np.ndarray:
    """Usable rows in random order, as many as the searches take or memory allows."""
    rows = material.vectors.rows
    known = np.flatnonzero(usable)
    size = min(known.size, SEARCH_ROWS, max(_SCATTER, _SAMPLE_VALUES // rows.shape[1]))
    chosen = np.random.default_rng(seed).choice(known, size=size, replace=False)
    order = np.argsort(chosen)
    drawn = np.empty((size, rows.shape[1]), dtype=rows.dtype)
    drawn[order] = rows[chosen[order]]
    return drawn


def pictures(found: Scanned, rows: FactorTable, sample: np.ndarray, *, seed: int) -> NormPictures:
    """The points that the page draws."""
    if found.figures is None:
        return NormPictures()
    histogram = found.figures.histogram
    count = rows.rows.size
    picked = np.sort(np.random.default_rng(seed).choice(count, size=min(count, _SCATTER), replace=False))
    drawn = sample[:_PLANE]
    plane = principal_plane(drawn) if len(drawn) > 1 and drawn.shape[1] > 1 else np.empty((0, 2))
    return NormPictures(
        histogram_edges=histogram.edges,
        histogram_counts=histogram.counts,
        below=histogram.below,
        above=histogram.above,
        scatter_norms=tuple(found.scan.norms[rows.rows[picked]].tolist()) if rows.values else (),
        scatter_factors={name: tuple(values[picked].tolist()) for name, values in rows.values.items()},
        plane=tuple((float(x), float(y)) for x, y in plane),
        plane_percentiles=tuple(norm_percentiles(drawn).tolist()) if len(plane) else (),
    )


def scan_notes(material: Material, found: Scanned) -> list[str]:
    """What was left out of the figures, and why."""
    scan, notes = found.scan, []
    # NaN and infinity are counted apart, but only their rows together are known.
    broken, zero = np.flatnonzero(np.isnan(scan.norms)), np.flatnonzero(scan.norms == 0.0)
    if scan.infinite:
        overflow = ": float16 overflows at 65,504, store them in float32" if material.vectors.stored == "float16" else ""
        notes.append(f"{counted(scan.infinite, 'row')} with infinite values left out{_first(broken)}{overflow}")
    if scan.nan:
        notes.append(f"{counted(scan.nan, 'row')} with NaN left out{'' if scan.infinite else _first(broken)}: repair what made them")
    if scan.zero:
        notes.append(f"{counted(scan.zero, 'zero vector')} left out{_first(zero)}: they have no direction")
    if scan.duplicates:
        copies = f"{counted(scan.duplicates, 'row')} bit-equal to an earlier one{_first(np.flatnonzero(scan.repeated))}"
        notes.append(f"{copies}: counted in the distribution, and nowhere else")
    if found.normalized:
        notes.append("these vectors were normalized: their raw norms are gone from this file's lengths, and raw_norms says how to get them")
    return notes


def _first(rows: np.ndarray) -> str:
    return f" (the first is row {rows[0]})" if rows.size else ""
