"""Inspect the norms of a model's vectors, of bare vectors or of an embedding table: what they follow, and what they are good for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.files import write_text
from normwise.core.inspect_records import InspectReport, RecoveryResult
from normwise.core.norm_records import RadialEvidence, TrainingEvidence
from normwise.data.norm_inputs import open_vectors
from normwise.data.opening import check_new_place, kind_of, user_path
from normwise.data.sets import Judged, RetrievalData
from normwise.data.texts import printable
from normwise.data.vectors import write_array
from normwise.report.recipes import SERVERS
from normwise.theory.norm_geometry import sampled_geometry
from normwise.theory.norm_verdict import judge
from normwise.theory.radial import TESTS, deciding_test
from normwise.theory.regime_evidence import CLOSED_FORM_FREEDOM
from normwise.workflows.evaluate import check_report
from normwise.workflows.inspect_factors import gather_factors
from normwise.workflows.inspect_relations import relate
from normwise.workflows.inspect_scan import distribution, distribution_of, pictures, sample_rows, scan_material, scan_notes
from normwise.workflows.inspect_source import LIMIT, Material, Reading, open_source
from normwise.workflows.inspect_usefulness import measure_usefulness

_PACKAGES = ("normwise", "numpy", "scipy", "scikit-learn")
_SERVERS_NAMED = ("text-embeddings-inference", "vLLM", "Ollama")


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
    overwrite: bool = False,
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
        overwrite: replace an earlier page at `report`.

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
    check_report(report, overwrite=overwrite)
    how = Reading(column, table, text_column, limit, batch_size, progress, seed, trust_remote_code)
    material = open_source(source, texts, how)
    found = scan_material(material)
    usable = found.scan.distinct
    sample = sample_rows(material, usable, seed=seed)
    geometry = sampled_geometry(sample, seed=seed, norms_vary=found.vary)
    rows = gather_factors(material, factors, usable, language=language, seed=seed)
    with _naming_factors(factors):
        related = relate(found.scan.norms, rows, vary=found.vary, seed=seed)
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
    regime, verdict = judge(
        related.factors, judged, normalized_input=found.normalized, radial=radial, training=training, usefulness=summary
    )
    figures = found.figures
    result = InspectReport(
        source=printable(material.vectors.name),
        n=material.vectors.rows.shape[0],
        d=material.vectors.rows.shape[1],
        norm=norm,
        normalized_input=found.normalized,
        norm_after_normalize=None if material.after is None else distribution_of(material.after),
        radial_freedom=radial.freedom,
        radial=radial,
        factors=related.factors,
        regime=regime.regime,
        evidence=regime.evidence,
        verdict=verdict,
        geometry={name: None if np.isnan(value) else value for name, value in geometry.items()},
        sample_rows=sample.shape[0],
        seed=seed,
        notes=(*material.notes, *rows.notes, *related.notes, *scan_notes(material, found)),
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
        factor_rows=related.rows,
        raw_norms=raw_norm_recipes(material.vectors.name) if found.normalized else (),
        figures=pictures(found, rows, sample, seed=seed),
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
    st = load_plain(str(model), trust_remote_code=trust_remote_code).model
    found = recover_norms(vectors.rows, st, epsilon=vectors.epsilon, model=printable(str(model)))
    write_array(target, found.norms.astype(np.float32))
    norms = distribution_of(found.norms)
    carried = vectors.stored if found.precision == vectors.stored else f"{vectors.stored} (carrying {found.precision})"
    text = (
        f"{found.norms.size:,} norms recovered from {carried} unit vectors, mean {norms.mean:.4g}, cv {norms.cv:.3g}; rounding can have "
        f"changed none by more than {_rounded_up(found.bound)} of its size, and the model's own arithmetic leaves {found.model_error:.1g}"
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


@contextmanager
def _naming_factors(factors: str | Path | Mapping[str, np.ndarray] | None) -> Iterator[None]:
    """Say in a refusal of factors which file they came from."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{factors}: {error}" if isinstance(factors, str | Path) else str(error)) from None


def _radial(geometry: Mapping[str, float], material: Material) -> RadialEvidence:
    """The closed form of the checkpoint first: a sample of few rows may not show what it says exactly."""
    freedom, exact = geometry["radial_freedom"], material.closed_freedom
    if exact is not None and not freedom < CLOSED_FORM_FREEDOM:
        return RadialEvidence(freedom=exact, test=material.closed_form, closed_form=material.closed_form)
    return RadialEvidence(
        freedom=None if np.isnan(freedom) else freedom,
        test=deciding_test(geometry),
        closed_form=material.closed_form,
        upper_bound=not np.isnan(freedom) and any(np.isnan(geometry[name]) for name in TESTS[:2]),
    )


def _rounded_up(value: float) -> str:
    """Two digits, never below the value: a bound must not be understated.

    Example:
        >>> _rounded_up(2.41e-7), _rounded_up(0.0)
        ('2.5e-07', '0')
    """
    if value <= 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.2g}"
