"""Inspect the norms of a model's vectors, of bare vectors or of an embedding table: what they follow, and what they are good for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.files import write_text
from normwise.core.inspect_records import InspectReport, NormPictures, RecoveryResult
from normwise.core.norm_records import NormDistribution, RadialEvidence, TrainingEvidence
from normwise.data.norm_inputs import open_vectors
from normwise.data.opening import check_new_place, kind_of, user_path
from normwise.data.sets import Judged, RetrievalData
from normwise.data.texts import printable
from normwise.data.vectors import write_array
from normwise.report.recipes import SERVERS
from normwise.theory.association import associations
from normwise.theory.norm_geometry import SEARCH_ROWS, sampled_geometry
from normwise.theory.norm_summary import NormFigures, RowScan, is_normalized, norm_figures, rounding_spread, scan_rows
from normwise.theory.norm_verdict import judge
from normwise.theory.plane import norm_percentiles, principal_plane
from normwise.theory.radial import TESTS, deciding_test
from normwise.workflows.evaluate import check_report
from normwise.workflows.inspect_factors import FactorTable, gather_factors
from normwise.workflows.inspect_source import LIMIT, Material, Reading, open_source
from normwise.workflows.inspect_usefulness import measure_usefulness

_SCATTER, _PLANE = 2_000, 1_000
_SAMPLE_VALUES = 1 << 26
_PACKAGES = ("normwise", "numpy", "scipy", "scikit-learn")
_SERVERS_NAMED = ("text-embeddings-inference", "vLLM", "Ollama")


@dataclass(frozen=True)
class _Scanned:
    """One pass over the vectors: what it found, the distribution of usable norms, and whether they say anything."""

    scan: RowScan
    figures: NormFigures | None
    normalized: bool
    vary: bool


def inspect(
    source: str | Path | np.ndarray,
    *,
    texts: str | Path | Sequence[str] | None = None,
    factors: str | Path | Mapping[str, np.ndarray] | None = None,
    column: str | None = None,
    table: str | None = None,
    text_column: str | None = None,
    training: TrainingEvidence | None = None,
    data: str | Path | RetrievalData | Judged | None = None,
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    language: str = "en",
    limit: int = LIMIT,
    batch_size: int = 64,
    progress: bool | None = False,
    seed: int = 0,
    trust_remote_code: bool = False,
    command: str = "",
    report: Path | None = None,
) -> InspectReport:
    """Report on the norms of vectors: their distribution, what they follow, which regime explains them, and a verdict.

    A model is read before any `Normalize` module at its end. Files larger than memory are read in blocks; distribution,
    zeros and duplicates are exact, while figures that need pairs of rows rest on a seeded sample, with errors.

    Args:
        source: a model (folder or hub id), a .npy or .parquet file of vectors, a checkpoint's embedding table
            (.safetensors, or a folder or id with `table`), or an array (N, D) of float16, float32 or float64.
        texts: one per vector, or what the model is to encode: a list, or a file with one per line or a column of them.
            None gives a model a built-in list of English words.
        factors: a .csv or .tsv file of named columns with one row per vector, or arrays by name: numbers or categories.
        column: of a parquet file of vectors.
        table: of a checkpoint: the tensor's name, or "auto" for the obvious one.
        text_column: of a file of texts.
        training: how the vectors were trained, as far as it is known: without it signal, noise and adam are never said.
        data: judged queries as `evaluate` takes them, to measure with a model whether its norms help to rank or to trust a hit.
        limit_queries: at most so many queries of each split of `data`.
        limit_candidates: at most so many candidates of `data`; those that are relevant to a kept query always stay.
        language: of wordfreq's list.
        limit: at most so many texts are encoded.
        batch_size: texts per forward pass.
        progress: show a bar; None shows it on a terminal only.
        seed: of every sample and of the bootstrap.
        trust_remote_code: run Python code that comes with the model, if it needs any. Read that code first.
        command: what was typed, for the record.
        report: where to write the HTML page, which must not exist yet; None writes nothing.

    Returns:
        The report. With fewer than 30 vectors, equal norms or vectors that came normalized it says so, and correlates nothing.

    Raises:
        InputError: something that cannot be read or does not fit; the message names file, row and column.
        MissingExtraError: a model, or a parquet file, without its packages.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> report = inspect(rng.normal(size=(200, 8)), factors={"year": rng.normal(size=200)})
        >>> report.n, report.normalized_input, report.regime
        (200, False, 'undetermined')
    """
    started = time.monotonic()
    check_report(report)
    how = Reading(column, table, text_column, limit, batch_size, progress, seed, trust_remote_code)
    material = open_source(source, texts, how)
    found = _scan(material)
    usable = found.scan.distinct
    sample = _sample(material, usable, seed=seed)
    geometry = sampled_geometry(sample, seed=seed, norms_vary=found.vary)
    rows = gather_factors(material, factors, usable, language=language, seed=seed)
    logs = np.log(found.scan.norms[rows.rows])
    # Equal norms differ by rounding, which is nothing to correlate.
    related = associations(logs if found.vary else np.zeros_like(logs), rows.values, seed=seed)
    radial = _radial(geometry, material)
    norm = distribution(found.scan, found.figures)
    judged = norm if found.vary else norm.model_copy(update={"cv": 0.0 if norm.cv is not None else None})
    measured = None
    if data is not None:
        if material.encoder is None:
            raise InputError(
                "data asks what the norms of a model are good for, and the source is no model: give a model, or leave data out"
            )
        limits = {"limit_queries": limit_queries, "limit_candidates": limit_candidates}
        measured = measure_usefulness(material.encoder, data, **limits, seed=seed, batch_size=batch_size, progress=progress)
    summary = None if measured is None else measured.summary
    regime, verdict = judge(related, judged, normalized_input=found.normalized, radial=radial, training=training, usefulness=summary)
    figures = found.figures
    result = InspectReport(
        source=printable(material.vectors.name),
        n=material.vectors.rows.shape[0],
        d=material.vectors.rows.shape[1],
        norm=norm,
        normalized_input=found.normalized,
        norm_after_normalize=None if material.after is None else _distribution_of(material.after),
        radial_freedom=radial.freedom,
        radial=radial,
        factors=related,
        regime=regime.regime,
        evidence=regime.evidence,
        verdict=verdict,
        geometry={name: None if np.isnan(value) else value for name, value in geometry.items()},
        sample_rows=sample.shape[0],
        seed=seed,
        notes=(*material.notes, *rows.notes, *_notes(material, found)),
        versions={name: version(name) for name in _PACKAGES},
        command=command,
        seconds=round(time.monotonic() - started, 3),
        stored=material.vectors.stored,
        part=material.vectors.part,
        skew_log=None if figures is None or np.isnan(figures.skew_log) else figures.skew_log,
        tail_low=None if figures is None else figures.tail_low,
        tail_high=None if figures is None else figures.tail_high,
        nan_rows=found.scan.nan,
        infinite_rows=found.scan.infinite,
        factor_rows=rows.rows.size,
        raw_norms=raw_norm_recipes(material.vectors.name) if found.normalized else (),
        figures=_pictures(found, rows, sample, seed=seed),
        usefulness=measured,
    )
    if report is not None:
        from normwise.report.page import render_inspection

        write_text(Path(report), render_inspection(result))
    return result


def recover(
    source: str | Path,
    model: str | Path,
    out: str | Path,
    *,
    column: str | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> RecoveryResult:
    """Give the raw norms back from vectors that were stored normalized, where the model's ending allows it.

    Args:
        source: a .npy or .parquet file of unit vectors of this model.
        model: the folder or hub id of the model that made them.
        out: the .npy file of norms to write, (N,) float32.
        column: of a parquet file.
        overwrite: replace `out`.
        trust_remote_code: as in `inspect`.

    Returns:
        What was written, with the largest error that rounding can have caused.

    Raises:
        InputError: `out` exists or is no .npy file, the vectors are not normalized or not of this model, the model's norm
            is free, or too little precision is left; see `recover_norms`.
        WorkError: the disk refused.
    """
    target = user_path(out, what="out")
    if target.suffix != ".npy":
        raise InputError(f"out is {target}: norms are written as a .npy file; give a name that ends in .npy")
    if kind_of(target) is not None and not overwrite:
        raise InputError(f"{target} exists already: pass --overwrite to replace it, or choose another name")
    check_new_place(target)
    vectors = open_vectors(source, column=column)
    try:
        from normwise.models.loading import load_plain
        from normwise.models.recovery import recover_norms
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sentence-transformers", extra="train") from None
    found = recover_norms(vectors.rows, load_plain(str(model), trust_remote_code=trust_remote_code).model, epsilon=vectors.epsilon)
    write_array(target, found.norms.astype(np.float32))
    norms = _distribution_of(found.norms)
    text = (
        f"{found.norms.size:,} norms recovered from {vectors.stored} unit vectors, mean {norms.mean:.4g}, cv {norms.cv:.3g}; rounding can "
        f"have changed none by more than {found.bound:.1g} of its size, and the model's own arithmetic leaves {found.model_error:.1g}"
    )
    return RecoveryResult(
        source=printable(vectors.name),
        model=str(model),
        out=printable(str(target)),
        n=vectors.rows.shape[0],
        d=vectors.rows.shape[1],
        stored=vectors.stored,
        bound=found.bound,
        bound_median=found.bound_median,
        model_error=found.model_error,
        norm=norms,
        text=text,
    )


def raw_norm_recipes(name: str) -> tuple[str, ...]:
    """How to get raw norms where vectors came normalized, one way per line, with the exact call.

    Example:
        >>> raw_norm_recipes("unit.npy")[0]
        'from the vectors themselves, where the model allows it: normwise inspect unit.npy --recover-norms MODEL --out norms.npy'
    """
    kept = {server.name: server.keep for server in SERVERS}
    return (
        f"from the vectors themselves, where the model allows it: normwise inspect {name} --recover-norms MODEL --out norms.npy",
        "normwise: normwise.Encoder.load(MODEL).encode_candidates(texts)",
        "sentence-transformers: model = SentenceTransformer(MODEL); del model[-1] where its last module is Normalize "
        "(normalize_embeddings=False does not switch that module off); model.encode(texts)",
        *(f"{server}: {kept[server]}" for server in _SERVERS_NAMED),
        "OpenAI's own API and servers that only speak it: there is no switch, /v1/embeddings returns unit vectors; "
        "norms need the model itself, or another endpoint of the server",
    )


def distribution(scan: RowScan, figures: NormFigures | None) -> NormDistribution:
    """The distribution of a scan as a record; figures are None where no row has a usable norm."""
    bad = scan.nan + scan.infinite
    if figures is None:
        return NormDistribution(mean=None, cv=None, zero=scan.zero, nonfinite=bad, duplicates=scan.duplicates)
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
    )


def _distribution_of(norms: np.ndarray) -> NormDistribution:
    positive = norms[norms > 0.0]
    scan = RowScan(norms, infinite=0, nan=0, zero=int((norms == 0.0).sum()), repeated=np.zeros(norms.size, dtype=bool))
    return distribution(scan, norm_figures(positive) if positive.size else None).model_copy(update={"duplicates": None})


def _scan(material: Material) -> _Scanned:
    vectors = material.vectors
    scan = scan_rows(vectors.rows)
    norms = scan.norms[scan.usable]
    figures = norm_figures(norms) if norms.size else None
    normalized = is_normalized(norms)
    spread = rounding_spread(vectors.epsilon, vectors.rows.shape[1])
    return _Scanned(scan, figures, normalized, figures is not None and not normalized and bool(figures.std_log > spread))


def _sample(material: Material, usable: np.ndarray, *, seed: int) -> np.ndarray:
    """Usable rows in random order, as many as the searches take or memory allows."""
    rows = material.vectors.rows
    known = np.flatnonzero(usable)
    size = min(known.size, SEARCH_ROWS, max(_SCATTER, _SAMPLE_VALUES // rows.shape[1]))
    chosen = np.random.default_rng(seed).choice(known, size=size, replace=False)
    order = np.argsort(chosen)
    drawn = np.empty((size, rows.shape[1]), dtype=rows.dtype)
    drawn[order] = rows[chosen[order]]
    return drawn


def _radial(geometry: Mapping[str, float], material: Material) -> RadialEvidence:
    freedom = geometry["radial_freedom"]
    return RadialEvidence(
        freedom=None if np.isnan(freedom) else freedom,
        test=deciding_test(geometry),
        closed_form=material.closed_form,
        upper_bound=not np.isnan(freedom) and any(np.isnan(geometry[name]) for name in TESTS[:2]),
    )


def _pictures(found: _Scanned, rows: FactorTable, sample: np.ndarray, *, seed: int) -> NormPictures:
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


def _notes(material: Material, found: _Scanned) -> list[str]:
    scan, notes = found.scan, []
    if scan.infinite:
        overflow = ": float16 overflows at 65,504, store them in float32" if material.vectors.stored == "float16" else ""
        notes.append(f"{scan.infinite:,} rows hold infinite values and were left out{overflow}")
    if scan.nan:
        notes.append(f"{scan.nan:,} rows hold NaN and were left out: repair what made them")
    if scan.zero:
        notes.append(f"{scan.zero:,} rows are zero vectors and were left out: they have no direction")
    if scan.duplicates:
        notes.append(f"{scan.duplicates:,} rows repeat an earlier one bit by bit: they count in the distribution, and nowhere else")
    if found.normalized:
        notes.append("these vectors were normalized: their raw norms are gone from this file's lengths, and raw_norms says how to get them")
    return notes
