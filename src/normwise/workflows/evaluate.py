"""Measure retrieval under every similarity: exact search, intervals, geometry, and which similarity to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.config import DataConfig
from normwise.core.errors import InputError, MissingExtraError, near_names
from normwise.core.files import write_text
from normwise.core.records import Decision, Evaluation
from normwise.core.similarity import Similarity, parse_similarity
from normwise.data.load import load_data, load_to_judge
from normwise.data.opening import Kind, check_new_place, kind_of, reading
from normwise.data.sets import Judged, RetrievalData
from normwise.data.settings import data_settings, is_training_config
from normwise.data.splits import cut
from normwise.data.texts import printable
from normwise.data.vectors import load_row_judgements, load_vectors
from normwise.theory.bootstrap import clusters_by_target
from normwise.theory.decision import METRIC, decide
from normwise.workflows.ranked import PerQuery, Ranked, Relevance, geometry_figures, rank, rank_judged, record, task_tables, vector_notes

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

_SPLITS = ("dev", "test")
_DOCTYPE_WITHIN = 256
_WHOLE = (
    "every row is a test query; a model trained on these rows knows the answers: judge that one with the split test, which "
    "is what training holds out"
)


def evaluate(
    model: str | Path | Encoder,
    data: str | Path | RetrievalData | Judged,
    *,
    split: str | None = None,
    similarity: str = "all",
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = False,
    report: Path | None = None,
) -> Evaluation:
    """Measure an encoder on judged queries by exact search under the four similarities.

    Where the data have a dev split, the similarity is decided there, so that the figures of test stay untouched by it;
    else it is decided on the reported queries, and the reason says so.

    Args:
        model: a folder, a hub id or an open encoder.
        data: a built-in set, a path, a hub id, loaded data, one set of judged queries, or a training config, whose data are taken.
        split: "dev" or "test": which judged queries to report on. None is test, and every row of a bare file of pairs; of such
            a file, "dev" and "test" are the tenths that training holds out of it with the same seed.
        similarity: "all", or the one to report.
        limit_queries: at most so many queries, drawn by `seed`.
        limit_candidates: at most so many candidates; those that are relevant to a kept query always stay.
        seed: of cuts, splits, samples and the bootstrap.
        batch_size: texts per forward pass.
        progress: show bars; None shows them on a terminal only.
        report: where to write the HTML page, which must not exist yet; None writes nothing.

    Returns:
        Metrics with 95% cluster bootstrap intervals, geometry figures (None where undefined), notes and the decision.
        Queries without a relevant candidate are searched but have no metric; the notes count them.

    Raises:
        InputError: an unknown name, an empty split, or bad content; MissingExtraError: `report` without its packages.

    Example:
        `evaluate("runs/demo/model", "python-docs").similarities["dot"]["ndcg@10"].mean`
    """
    names = _asked(similarity)
    check_report(report)
    loaded = _load(data, split=split, limit_queries=limit_queries, limit_candidates=limit_candidates, seed=seed)
    split = split or "test"
    judged = _split(loaded, split)
    encoder = _open(model)
    candidates = encoder.encode_candidates(judged.corpus.contents, batch_size=batch_size, progress=progress)
    queries = encoder.encode_queries(judged.queries, batch_size=batch_size, progress=progress)
    with _naming(f"vectors of {encoder.name}"):
        ranked = rank_judged(queries, candidates, judged)
    run = Path(encoder.name).name or encoder.name
    if split == "test" and loaded.dev is not None and len(names) > 1 and loaded.dev.usable:
        dev = loaded.dev
        if dev.corpus is not judged.corpus and dev.corpus != judged.corpus:
            candidates_of_dev = encoder.encode_candidates(dev.corpus.contents, batch_size=batch_size, progress=progress)
        else:
            candidates_of_dev = candidates
        vectors = encoder.encode_queries(dev.queries, batch_size=batch_size, progress=progress)
        decision = _decide(rank_judged(vectors, candidates_of_dev, dev).metrics, dev.clusters, run=run, split="dev", seed=seed)
    else:
        decision = _decide_here(ranked, judged.clusters, names, run=run, split=split, seed=seed)
    evaluation = record(ranked, names, judged.clusters, geometry=geometry_figures(queries, candidates, ranked, seed=seed), seed=seed)
    evaluation = evaluation.model_copy(
        update={
            "model": printable(encoder.name),
            "data": loaded.name,
            "split": split,
            "notes": (*loaded.notes, *evaluation.notes, *vector_notes(ranked, evaluation, ids=judged.corpus.ids)),
            "decision": decision,
            "by_task": task_tables(ranked.metrics, judged, seed=seed),
        }
    )
    return _reported(evaluation, report)


def evaluate_vectors(
    queries: str | Path | np.ndarray,
    candidates: str | Path | np.ndarray,
    *,
    relevance: Relevance | None = None,
    qrels: str | Path | None = None,
    clusters: np.ndarray | None = None,
    similarity: str = "all",
    seed: int = 0,
    name: str = "bare vectors",
    report: Path | None = None,
) -> Evaluation:
    """Measure bare vectors by exact search under the four similarities, without a model.

    Args:
        queries: (B, D) vectors or a `.npy` file of them, which is memory-mapped.
        candidates: (N, D) vectors or a `.npy` file of them.
        relevance: for each query, candidate row -> gain; without it and `qrels`, row i answers query i.
        qrels: in place of `relevance`, a tab-separated file of query row, candidate row, gain.
        clusters: (B,) whole numbers; None joins queries that share a relevant candidate.
        similarity: "all", or the one to report.
        seed: of samples and the bootstrap.
        name: what the result calls the model.
        report: where to write the HTML page, which must not exist yet; None writes nothing.

    Returns:
        As `evaluate`, with split "given"; the decision is made on the same queries, and its reason says so.

    Raises:
        InputError: a file or array that is not such vectors, shapes or judgements that do not fit.

    Example:
        >>> found = evaluate_vectors(np.eye(4), np.diag([1.0, 2.0, 3.0, 9.0]))
        >>> found.similarities["cosine"]["p@1"].mean
        1.0
    """
    names = _asked(similarity)
    check_report(report)
    asked, known = _open_vectors(queries, "queries"), _open_vectors(candidates, "candidates")
    named = f"queries: {_name(queries)}, candidates: {_name(candidates)}"
    if asked.shape[1] != known.shape[1]:
        raise InputError(
            f"queries have {asked.shape[1]} dimensions, candidates {known.shape[1]}: both must come from one encoder ({named})"
        )
    if relevance is not None and qrels is not None:
        raise InputError("judgements came twice, as relevance and as qrels: give one")
    if qrels is not None:
        relevance = load_row_judgements(qrels, queries=asked.shape[0], candidates=known.shape[0])
    with _naming(named):
        judged = _judgements(relevance, queries=asked.shape[0], candidates=known.shape[0])
    groups = clusters_by_target(judged) if clusters is None else np.asarray(clusters)
    if groups.shape != (asked.shape[0],) or groups.dtype.kind not in "iu":
        raise InputError(
            f"clusters are {groups.dtype} of shape {groups.shape}; expected one whole number for each of {asked.shape[0]} queries"
        )
    with _naming(named):
        ranked = rank(asked, known, judged)
    evaluation = record(ranked, names, groups, geometry=geometry_figures(asked, known, ranked, seed=seed), seed=seed)
    evaluation = evaluation.model_copy(
        update={
            "model": name,
            "data": printable(f"{_name(queries)} x {_name(candidates)}"),
            "notes": (*evaluation.notes, *vector_notes(ranked, evaluation, ids=None)),
            "decision": _decide_here(ranked, groups, names, run=name, split="given", seed=seed),
        }
    )
    return _reported(evaluation, report)


def _decide(metrics: PerQuery, clusters: np.ndarray, *, run: str, split: str, seed: int) -> Decision:
    return decide({(run, ranking): table[METRIC][None] for ranking, table in metrics.items()}, clusters, split=split, seed=seed)[0]


def _decide_here(ranked: Ranked, clusters: np.ndarray, names: Sequence[Similarity], *, run: str, split: str, seed: int) -> Decision:
    if len(names) == 1:
        return Decision(
            similarity=names[0].value, run=run, split=split, reason=f"only {names[0].value} was asked for: nothing was compared"
        )
    decision = _decide(ranked.metrics, clusters, run=run, split=split, seed=seed)
    if split == "dev":
        return decision
    caution = "decided on the queries reported here, for want of a dev split: a choice should be made on other queries than its figures"
    return decision.model_copy(update={"reason": f"{decision.reason} ({caution})"})


def _asked(similarity: str) -> list[Similarity]:
    return list(Similarity) if similarity == "all" else [parse_similarity(similarity)]


def _load(
    data: str | Path | RetrievalData | Judged, *, split: str | None, limit_queries: int | None, limit_candidates: int | None, seed: int
) -> RetrievalData:
    if split is not None and split not in _SPLITS:
        raise InputError(f"split {split!r} is unknown: {near_names(split, _SPLITS)}")
    if isinstance(data, str | Path):
        config = data_settings(data, source="evaluate", limit_queries=limit_queries, limit_candidates=limit_candidates)
        if split is not None:
            return load_data(config, seed=seed)
        loaded, whole = load_to_judge(config, seed=seed, as_trained=is_training_config(data))
        return replace(loaded, notes=(*loaded.notes, _WHOLE)) if whole else loaded
    if isinstance(data, Judged):
        empty = RetrievalData(name="judged queries", kind="judged", train=None, dev=None, test=None, skewed=False)
        data = replace(empty, dev=data) if split == "dev" else replace(empty, test=data)
    settings = {"name": data.name, "limit_queries": limit_queries, "limit_candidates": limit_candidates}
    return cut(data, DataConfig.read(settings, source="evaluate"), seed=seed)


def _split(data: RetrievalData, split: str) -> Judged:
    judged = data.dev if split == "dev" else data.test
    if judged is None or not len(judged):
        raise InputError(f"{data.name} has no {split} queries{_where(judged)}: name another split, or give judged queries")
    if not judged.usable:
        came = f"{data.name}: none of {len(judged):,} {split} queries has a relevant candidate{_where(judged)}"
        raise InputError(f"{came}, so no metric is defined: check the judgements, or name another split")
    return judged


def _where(judged: Judged | None) -> str:
    return "" if judged is None or judged.file is None else f" ({judged.file})"


def _open(model: str | Path | Encoder) -> Encoder:
    if not isinstance(model, str | Path):
        return model
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
    from normwise.models.encoder import Encoder

    return Encoder.load(model)


def _open_vectors(vectors: str | Path | np.ndarray, name: str) -> np.ndarray:
    if isinstance(vectors, str | Path):
        return load_vectors(vectors)
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f" or 0 in vectors.shape:
        came = f"{vectors.dtype} of shape {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise InputError(f"{name} are {came}; expected a path or a float array of rows of vectors, at least one")
    return vectors


def _judgements(relevance: Relevance | None, *, queries: int, candidates: int) -> Relevance:
    if relevance is None:
        if queries > candidates:
            raise InputError(f"{queries} queries, {candidates} candidates: row i cannot answer query i; give qrels")
        return [{row: 1.0} for row in range(queries)]
    if len(relevance) != queries:
        raise InputError(f"relevance judges {len(relevance)} queries; expected {queries}, one entry per query vector")
    for query, judged in enumerate(relevance):
        outside = [row for row in judged if not 0 <= row < candidates]
        if outside:
            raise InputError(f"relevance: query {query} names candidate row {outside[0]}; expected 0 to {candidates - 1}")
    return relevance


@contextmanager
def _naming(named: str) -> Iterator[None]:
    """Say in a refusal of arrays where they came from."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error} ({named})") from None


def _name(vectors: str | Path | np.ndarray) -> str:
    return Path(vectors).name if isinstance(vectors, str | Path) else "array"


def check_report(report: Path | None, *, overwrite: bool | None = None) -> None:
    """Refuse before the work what would fail after it.

    Args:
        report: where the page is to be written.
        overwrite: whether an earlier page there may be replaced, nothing else ever is; None where the caller has no such choice.

    Raises:
        InputError: the place is taken or cannot be made; MissingExtraError: the page needs packages.
    """
    if report is None:
        return
    kind = kind_of(Path(report))
    if kind is not None and not overwrite:
        way = "choose another name for the report" if overwrite is None else "pass --overwrite to replace it, or choose another name"
        raise InputError(f"{report} exists already: {way}")
    if kind is not None and not _is_page(Path(report), kind):
        raise InputError(f"{report} is no page, and nothing else is replaced: choose another name for the report")
    check_new_place(Path(report))
    if find_spec("jinja2") is None:
        raise MissingExtraError("jinja2", extra="report")


def _is_page(path: Path, kind: Kind) -> bool:
    if kind != "file":
        return False
    with reading(path), path.open("rb") as file:
        return file.read(_DOCTYPE_WITHIN).lstrip().lower().startswith(b"<!doctype html")


def _reported(evaluation: Evaluation, report: Path | None) -> Evaluation:
    if report is not None:
        from normwise.report.page import render_evaluation

        write_text(Path(report), render_evaluation(evaluation))
    return evaluation
