"""Calibrate a retriever: which confidence to trust, from which probability to answer, and what its norms add."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from normwise.core.calibration_records import CalibrationReport
from normwise.core.errors import InputError, near_names
from normwise.core.similarity import parse_similarity
from normwise.data.opening import user_path
from normwise.data.sets import Judged, RetrievalData
from normwise.report.hits_view import DirectionsReport
from normwise.theory.calibration_command import ADDRESS
from normwise.theory.signals import SIGNALS, check_temperature
from normwise.workflows.calibrate_data import Asked, load_asked
from normwise.workflows.calibrate_files import Place, choose_place
from normwise.workflows.calibrate_finish import Output, finish
from normwise.workflows.calibrate_fit import Goal
from normwise.workflows.calibrate_index import ask_index, ask_index_vectors
from normwise.workflows.calibrate_material import (
    AskHow,
    ask_model,
    ask_vectors,
    known_temperature,
    open_encoder,
)
from normwise.workflows.evaluate import check_report

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder


def calibrate(
    model: str | Path | Encoder,
    data: str | Path | RetrievalData | Judged,
    *,
    precision: float = 0.95,
    confidence: float = 0.9,
    temperature: float | None = None,
    depth: int | None = None,
    signals: str | Sequence[str] = "auto",
    unanswerable: float | None = None,
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    index: str | Path | None = None,
    url: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = False,
    out: str | Path | None = None,
    save: bool = True,
    report: Path | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> CalibrationReport | DirectionsReport:
    """Fit a probability that a first hit is right, find the threshold that a precision needs, and say what norms add.

    Dev queries fit and test queries test where both have enough right and wrong first hits, else the queries are split in
    halves by cluster. Training pairs are never among them. Every figure and the threshold come from queries that fitted nothing.

    Scores of a text with pictures and of a picture with texts are two scales (the gap between modalities), so that each
    direction, modality of query -> modality of hit, gets a calibration of its own; and each task, where the set names tasks.

    Args:
        model: a folder, a hub id or an open encoder; it brings its similarity.
        data: judged queries as `evaluate` takes them; queries without a relevant candidate take part, as unanswerable.
        precision: what the threshold is to guarantee, 0..1.
        confidence: how certain the guarantee is to be, above 0.5, at most 0.9999.
        temperature: tau of the training loss, > 0, for a model whose contract does not say it.
        depth: hits per query that a confidence may read; None takes all of up to 1,000 candidates, else 100.
        signals: "auto" runs the bake-off; names of signals make a logistic on exactly these.
        unanswerable: share of the queries whose relevant candidates are hidden from them, to stand for unanswerable ones.
        limit_queries: at most so many queries of each split, drawn by `seed`.
        limit_candidates: at most so many candidates; those that are relevant to a kept query always stay.
        index: folder of an index of the model's vectors: calibrate on what it returns in place of exact search.
        url: address of the server of that index, where it has a password. It is written nowhere.
        seed: of every draw.
        batch_size: texts per forward pass.
        progress: show bars; None shows them on a terminal only.
        out: file for the calibration; None writes `calibration.json` into a model folder of the user's, else into `index`.
        save: False writes no calibration anywhere.
        report: where to write the HTML page; None writes none.
        overwrite: replace an earlier page at `report`.
        trust_remote_code: run Python code that comes with the model, if it needs any. Read that code first.

    Returns:
        The report; of a set with one direction that is not text -> text a `DirectionReport`, of a set with several directions
        or tasks a `DirectionsReport`. Its texts and pictures are those of a few examples; `calibration` names the file that
        was written.

    Raises:
        InputError: bad data, too few right or wrong first hits, a query in dev and in test, or a setting out of its range.

    Example:
        `calibrate("runs/demo/model", "python-docs", unanswerable=0.3).threshold`
    """
    goal = Goal(precision, confidence, checked_signals(signals), seed)
    if temperature is not None:
        check_temperature(temperature)
    named = str(model) if isinstance(model, str | Path) else None
    check_report(report, overwrite=overwrite)
    place = _place(named, out=out, save=save, report=report, index=index)
    typed = _typed(temperature, depth, signals, unanswerable, limit_queries, seed)
    if url is not None:
        typed["--url"] = ADDRESS
    if trust_remote_code:
        typed["--trust-remote-code"] = ""
    output = Output(place, report, typed, time.monotonic())
    _check_index(index, url, limit_candidates)
    asked = load_asked(data, unanswerable=unanswerable, limit_queries=limit_queries, limit_candidates=limit_candidates, seed=seed)
    encoder, notes = open_encoder(model, trust_remote_code=trust_remote_code)
    how = AskHow(known_temperature(encoder, temperature), depth, seed, batch_size, progress)
    asked = replace(asked, notes=(*notes, *asked.notes, *_cut_notes(asked, limit_candidates)))
    names = named or encoder.name, str(data) if isinstance(data, str | Path) else asked.name
    if index is None:
        return finish(ask_model(encoder, asked, how), asked, goal, output, names)
    from normwise.index.opening import open_index

    # Open to the end, since the examples of the report have their texts from it.
    with closing(open_index(index, url=url)) as opened:
        return finish(ask_index(encoder, opened, asked, how), asked, goal, output, names)


def calibrate_vectors(
    queries: str | Path,
    candidates: str | Path,
    data: str | Path,
    *,
    similarity: str,
    temperature: float | None = None,
    precision: float = 0.95,
    confidence: float = 0.9,
    depth: int | None = None,
    signals: str | Sequence[str] = "auto",
    unanswerable: float | None = None,
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    index: str | Path | None = None,
    url: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    save: bool = True,
    report: Path | None = None,
    overwrite: bool = False,
) -> CalibrationReport | DirectionsReport:
    """Calibrate bare vectors, without a model.

    Args:
        queries: a `.npy` file of raw vectors, one row for each line of queries.jsonl, in its order.
        candidates: likewise for corpus.jsonl.
        data: the BEIR folder that holds both.
        similarity: one of the four names.
        temperature: tau of the training loss, > 0; None leaves the softmax at that temperature out.
        precision: as in `calibrate`, as is all that follows.
        confidence: see `precision`.
        depth: see `precision`.
        signals: see `precision`.
        unanswerable: see `precision`.
        limit_queries: see `precision`.
        limit_candidates: see `precision`.
        index: folder of an index of the same candidate vectors and ids, built without a model; else see `precision`.
        url: see `precision`.
        seed: see `precision`.
        out: file for the calibration; None writes `calibration.json` into `index`, or none.
        save: see `precision`.
        report: see `precision`.
        overwrite: see `precision`.

    Returns:
        As `calibrate`. Lengths are words between blanks and only controls, since a search over bare vectors has no texts.

    Raises:
        InputError: as `calibrate`; row counts that are not those of the files, and vectors that are not finite.

    Example:
        `calibrate_vectors("q.npy", "d.npy", "my-beir-folder", similarity="cosine", out="calibration.json").verdict.text`
    """
    goal = Goal(precision, confidence, checked_signals(signals), seed)
    if temperature is not None:
        check_temperature(temperature)
    parsed = parse_similarity(similarity)
    check_report(report, overwrite=overwrite)
    typed = _typed(temperature, depth, signals, unanswerable, limit_queries, seed)
    if url is not None:
        typed["--url"] = ADDRESS
    output = Output(_place(None, out=out, save=save, report=report, index=index), report, typed, time.monotonic())
    _check_index(index, url, limit_candidates)
    asked = load_asked(data, unanswerable=unanswerable, limit_queries=limit_queries, limit_candidates=limit_candidates, seed=seed)
    asked = replace(asked, notes=(*asked.notes, *_cut_notes(asked, limit_candidates)))
    how = AskHow(temperature, depth, seed)
    # As they are found from any folder: the command that fits it again may be typed in another.
    *files, folder = (str(user_path(path, what="a path").resolve()) for path in (queries, candidates, data))
    names = shlex.join(files), folder
    if index is None:
        return finish(ask_vectors((queries, candidates), asked, data, parsed, how), asked, goal, output, names)
    from normwise.index.opening import open_index

    with closing(open_index(index, url=url)) as opened:
        return finish(ask_index_vectors((queries, candidates), opened, asked, data, parsed, how), asked, goal, output, names)


def checked_signals(names: str | Sequence[str]) -> str | tuple[str, ...]:
    """Read which signals a confidence is to use: "auto", or names separated by commas.

    Raises:
        InputError: a name is unknown.

    Example:
        >>> checked_signals("score, margin")
        ('score', 'margin')
    """
    if names == "auto":
        return "auto"
    listed = tuple(name.strip() for name in (names.split(",") if isinstance(names, str) else names))
    if not all(listed):
        raise InputError(f"signals are {names!r}, and one name is empty: expected auto, or names with one comma between two of them")
    for name in listed:
        if name not in SIGNALS:
            raise InputError(f"signal {name!r} is neither auto nor one of the signals: {near_names(name, SIGNALS)}")
    return listed


def _place(model: str | None, *, out: str | Path | None, save: bool, report: Path | None, index: str | Path | None = None) -> Place:
    place = choose_place(model, out=out, save=save, index=index)
    if report is not None and place.file is not None and Path(report).resolve() == place.file.resolve():
        raise InputError(f"{report} is to hold the calibration and the page: give --out and --report different names")
    return place


def _typed(
    temperature: float | None,
    depth: int | None,
    signals: str | Sequence[str],
    unanswerable: float | None,
    limit_queries: int | None,
    seed: int,
) -> dict[str, str]:
    """The options that differ from their defaults, so that a refusal elsewhere can say what to type."""
    given = {
        "--temperature": temperature,
        "--depth": depth,
        "--signals": None if signals == "auto" else signals if isinstance(signals, str) else ",".join(signals),
        "--unanswerable": unanswerable,
        "--limit-queries": limit_queries,
        "--seed": seed or None,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _check_index(index: str | Path | None, url: str | None, limit_candidates: int | None) -> None:
    if url is not None and index is None:
        raise InputError("url is the address of an index's server: name its folder with index, or leave url out")
    if index is not None and limit_candidates is not None:
        raise InputError("limit_candidates cuts a corpus, and an index holds what it holds: leave one of them out")


def _cut_notes(asked: Asked, limit: int | None) -> list[str]:
    if limit is None or len(asked.judged.corpus) < limit:
        return []
    count = len(asked.judged.corpus)
    return [f"the corpus was cut to {count:,} candidates (limit_candidates), and the calibration holds for these, not for the whole of it"]
