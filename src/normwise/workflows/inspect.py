"""Inspect the norms of a model's vectors, of bare vectors or of an embedding table: what they follow, and what they are good for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.files import write_text
from normwise.core.inspect_records import InspectReport, RecoveryResult
from normwise.core.norm_records import TrainingEvidence
from normwise.data.norm_inputs import open_vectors
from normwise.data.opening import check_new_place, kind_of, user_path
from normwise.data.sets import Judged, RetrievalData
from normwise.data.texts import printable
from normwise.data.vectors import write_array
from normwise.workflows.evaluate import check_report
from normwise.workflows.inspect_modalities import Against, has_pictures, inspect_against, inspect_set
from normwise.workflows.inspect_report import Judging, raw_norm_recipes, relate_norms, report_of
from normwise.workflows.inspect_scan import distribution_of
from normwise.workflows.inspect_source import LIMIT, Reading, is_model, open_model, open_source
from normwise.workflows.inspect_usefulness import LoadedSet, encode_set, load_judged, usefulness_of_set

__all__ = ["inspect", "raw_norm_recipes", "recover"]

Data = str | Path | RetrievalData | Judged


def inspect(
    source: str | Path | np.ndarray,
    *,
    texts: str | Path | Sequence[str] | None = None,
    factors: str | Path | Mapping[str, np.ndarray] | None = None,
    column: str | None = None,
    table: str | None = None,
    text_column: str | None = None,
    training: TrainingEvidence | None = None,
    data: Data | None = None,
    against: str | Path | np.ndarray | None = None,
    against_factors: str | Path | Mapping[str, np.ndarray] | None = None,
    paired: bool = False,
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

    Where `data` has pictures, its own contents are inspected: all of them, then texts and pictures apart (`parts`), and what lies between
    them (`across`: modality gap, ellipsoids, conformity, signs, whose norms a score follows). `against` gives the same for vectors.

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
            Of a set with pictures, `factors` have a row for each of its candidates, before any limit; emoji sets bring their own.
        against: vectors of another modality of the same model, as `source`.
        against_factors: of the rows of `against`, as `factors`.
        paired: row i of both belongs together (a picture and its caption).
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
    judging = Judging(training, language, seed, command)
    if against is not None:
        _refuse_beside_against(source, data, how)
        other = Against(against, against_factors, paired=paired)
        result = inspect_against(open_source(source, texts, how), factors, other, judging)
    else:
        _refuse_without_against(against_factors, paired=paired)
        loaded = _loaded(source, data, limit_queries, limit_candidates, how)
        if loaded is not None and has_pictures(loaded.data):
            _refuse_texts(texts, loaded)
            result = inspect_set(open_model(str(source), how), loaded, factors, how, judging)
        else:
            material = open_source(source, texts, how)
            related = relate_norms(material, factors, judging)
            measured = None
            if loaded is not None and material.encoder is not None:
                measured = usefulness_of_set(encode_set(material.encoder, loaded, batch_size=batch_size, progress=progress), seed=seed)
            result = report_of(related, judging, usefulness=measured)
    result = result.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    if report is not None:
        from normwise.report.page import render_inspection

        write_text(Path(report), render_inspection(result))
    return result


def _loaded(
    source: str | Path | np.ndarray, data: Data | None, limit_queries: int | None, limit_candidates: int | None, how: Reading
) -> LoadedSet | None:
    """Judged data, read before the model: what cannot be read shows at once."""
    if data is None:
        return None
    if not is_model(source, table=how.table):
        raise InputError("data asks what the norms of a model are good for, and the source is no model: give a model, or leave data out")
    return load_judged(data, limit_queries=limit_queries, limit_candidates=limit_candidates, seed=how.seed)


def _refuse_texts(texts: object, loaded: LoadedSet) -> None:
    if texts is not None:
        raise InputError(f"texts: {loaded.data.name} has pictures, and its own contents are inspected: leave texts out")


def _refuse_beside_against(source: str | Path | np.ndarray, data: object, how: Reading) -> None:
    if data is not None:
        raise InputError("against compares two sets of vectors, and data asks a model: give one of them")
    if is_model(source, table=how.table):
        raise InputError("against compares two files of vectors, and the source is a model: give --data with a set that has pictures")


def _refuse_without_against(against_factors: object, *, paired: bool) -> None:
    name = "against_factors" if against_factors is not None else "paired" if paired else ""
    if name:
        raise InputError(f"{name} says something of the vectors at against, and none were given: give them, or leave {name} out")


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
