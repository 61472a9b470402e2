"""MMEB's protocol: every query ranks its own candidates, P@1 by task, means over tasks."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.mmeb_records import OVERALL, MmebDifference, MmebEvaluation, MmebMean, MmebTask
from normwise.core.records import Interval
from normwise.core.similarity import Similarity
from normwise.data.clusters import components
from normwise.data.contents import Content, content_digest
from normwise.data.mmeb import CandidateTask, read_mmeb_eval
from normwise.data.mmeb_layout import PUBLISHED, subset_kind
from normwise.data.mmeb_rows import BadRows
from normwise.data.opening import user_path
from normwise.data.texts import printable
from normwise.theory.candidate_ranking import RANKINGS, Places, answer_places, chance_rate, task_mean_draws
from normwise.workflows.evaluate import check_report
from normwise.workflows.mmeb_compare import reported
from normwise.workflows.mmeb_hits import Ordered, drawn_by_task, order_candidates, shown_hits
from normwise.workflows.mmeb_means import groups_of, interval_of, judge, samples_for

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder


class ContentEncoder(Protocol):
    """What the evaluation needs of a model: raw float32 vectors (n, D) of texts, pictures and both, mixed in one list."""

    name: str

    def encode_queries(self, contents: Sequence[Content], /, *, batch_size: int, progress: bool | None) -> np.ndarray:
        """Vectors of queries."""
        ...

    def encode_candidates(self, contents: Sequence[Content], /, *, batch_size: int, progress: bool | None) -> np.ndarray:
        """Vectors of candidates."""
        ...


def evaluate_mmeb(
    model: str | Path | Encoder | ContentEncoder,
    data: str | Path | Sequence[CandidateTask],
    *,
    image_root: str | Path | None = None,
    subsets: Sequence[str] | None = None,
    limit_queries: int | None = None,
    on_bad_rows: BadRows = "refuse",
    check_pictures: bool = True,
    batch_size: int = 64,
    seed: int = 0,
    progress: bool | None = False,
    report: Path | None = None,
) -> MmebEvaluation:
    """Measure a model in MMEB's protocol: P@1 of each query inside its own candidate set, by cosine and by dot product.

    Every distinct content of a task is encoded once as a query and once as a candidate. Ties share the first place, as if
    their order were drawn. Intervals resample clusters of queries that share a picture, over all tasks at once; tasks are
    taken as given, so a mean over tasks speaks of these tasks.

    Args:
        model: a folder, a hub id or an open encoder. The baseline without training is the same call on the untrained model.
        data: a folder in MMEB's evaluation layout, or tasks that were read from one.
        image_root: what paths of pictures begin at, as in `read_mmeb_eval`.
        subsets: names of tasks; None takes all.
        limit_queries: at most so many queries of each task, drawn by `seed`; their candidate sets stay whole.
        on_bad_rows: "refuse" or "drop", as in `read_mmeb_eval`.
        check_pictures: as in `read_mmeb_eval`.
        batch_size: contents per forward pass.
        seed: of the drawn queries and the bootstrap.
        progress: show bars; None shows them on a terminal only.
        report: where to write the HTML page, which must not exist yet; None writes nothing.

    Returns:
        Figures with 95% intervals; differences dot - cosine by task and by mean are corrected for their number (Holm).

    Raises:
        InputError: a file, name or vector that cannot be used; MissingExtraError: a model is to be opened without its packages.

    Example:
        `evaluate_mmeb("runs/pace/model", "MMEB-eval", subsets=["OK-VQA"]).means["overall"].p_at_1["dot"]`
    """
    if limit_queries is not None and limit_queries < 1:
        raise InputError(f"limit_queries is {limit_queries}; expected at least 1, or None for all queries")
    check_report(report)
    tasks, name = _tasks(data, image_root=image_root, subsets=subsets, on_bad_rows=on_bad_rows, check_pictures=check_pictures)
    if limit_queries is not None:
        tasks = [_limited(task, limit_queries, seed=seed) for task in tasks]
    encoder = _open(model)
    drawn = drawn_by_task(tasks, seed=seed)
    measured = [_measure(encoder, task, rows, batch_size=batch_size, progress=progress) for task, rows in zip(tasks, drawn, strict=True)]
    clusters = _clusters(tasks)
    values = [np.stack([one.places[ranking].precision_at_1() for ranking in RANKINGS]) for one in measured]
    draws = task_mean_draws(values, clusters, seed=seed, samples=samples_for(len(tasks)))
    cosine, dot = draws
    means = np.array([value.mean(axis=1) for value in values]).T
    differences = judge({task.name: (row,) for row, task in enumerate(tasks)}, means[1] - means[0], dot - cosine)
    groups = groups_of([(task.name, task.meta, task.in_domain) for task in tasks])
    found = MmebEvaluation(
        model=printable(encoder.name),
        data=name,
        tasks=tuple(
            _task_record(task, one, [interval_of((row,), *pair) for pair in zip(means, draws, strict=True)], differences[task.name], mine)
            for row, (task, one, mine) in enumerate(zip(tasks, measured, clusters, strict=True))
        ),
        means=_mean_records(tasks, groups, means, draws),
        notes=_notes(tasks, clusters, limit_queries=limit_queries),
        own_ranking=_own_ranking(encoder),
        nearest=shown_hits(tasks, [one.drawn for one in measured], ranking=RANKINGS[int(means[1].mean() > means[0].mean())], seed=seed),
    )
    return reported(found, report)


def _own_ranking(encoder: Any) -> Any:
    similarity = getattr(encoder, "similarity", None)
    return similarity.ranking.value if isinstance(similarity, Similarity) else None


@dataclass(frozen=True)
class _Measured:
    places: Mapping[str, Places]
    notes: tuple[str, ...]
    drawn: Sequence[Ordered]


def _tasks(
    data: str | Path | Sequence[CandidateTask], *, image_root: str | Path | None, subsets: Sequence[str] | None, **reading: Any
) -> tuple[list[CandidateTask], str]:
    if isinstance(data, str | Path):
        folder = user_path(data, what="data")
        root = None if image_root is None else user_path(image_root, what="image_root")
        return list(read_mmeb_eval(folder, image_root=root, subsets=subsets, **reading)), printable(folder.resolve().name)
    if image_root is not None:
        raise InputError("image_root belongs to a folder: tasks that were read have their pictures")
    known = {task.name: task for task in data}
    missing = [name for name in subsets or () if name not in known]
    if missing or not known or len(known) != len(data):
        asked = f"; {missing[0]!r} was asked for" if missing else ""
        raise InputError(f"expected tasks of distinct names, got {', '.join(task.name for task in data) or 'none'}{asked}")
    return list(data) if subsets is None else [known[name] for name in dict.fromkeys(subsets)], "given tasks"


def _limited(task: CandidateTask, limit: int, *, seed: int) -> CandidateTask:
    if len(task) <= limit:
        return task
    # By name, so that the queries of a task do not hang on which other tasks are asked for.
    random = np.random.default_rng([seed, zlib.crc32(task.name.encode())])
    return task.subset(np.sort(random.permutation(len(task))[:limit]))


def _open(model: str | Path | Encoder | ContentEncoder) -> Encoder | ContentEncoder:
    if not isinstance(model, str | Path):
        return model
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
    from normwise.models.encoder import Encoder

    return Encoder.load(model)


def _measure(
    encoder: Encoder | ContentEncoder, task: CandidateTask, drawn: np.ndarray, *, batch_size: int, progress: bool | None
) -> _Measured:
    distinct = {content: row for row, content in enumerate(dict.fromkeys(task.queries))}
    queries = encoder.encode_queries(list(distinct), batch_size=batch_size, progress=progress)
    candidates = encoder.encode_candidates(list(task.corpus.contents), batch_size=batch_size, progress=progress)
    _check_vectors(queries, len(distinct), f"{task.name}: encode_queries of {encoder.name}")
    _check_vectors(candidates, len(task.corpus), f"{task.name}: encode_candidates of {encoder.name}")
    asked = queries[[distinct[content] for content in task.queries]]
    try:
        places = answer_places(asked, candidates, task.candidates, np.asarray(task.answers, dtype=np.int64))
    except InputError as error:
        raise InputError(f"{task.name}, vectors of {encoder.name}: {error}") from None
    zero = [(int((~vectors.any(axis=1)).sum()), what) for vectors, what in ((asked, "query"), (candidates, "candidate"))]
    notes = tuple(f"{count:,} {what} vectors are zero: they score 0 with everything" for count, what in zero if count)
    return _Measured(places, notes, order_candidates(asked, candidates, task, drawn))


def _check_vectors(vectors: np.ndarray, count: int, what: str) -> None:
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.shape[0] != count or vectors.dtype.kind != "f":
        came = f"{vectors.dtype} of shape {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise InputError(f"{what} gave {came}; expected a float array of {count} rows")


def _clusters(tasks: Sequence[CandidateTask]) -> list[np.ndarray]:
    """Clusters of queries that share a picture, numbered across tasks."""
    labels = components([keys for task in tasks for keys in task.picture_keys()])
    return np.split(labels, np.cumsum([len(task) for task in tasks])[:-1])


def _task_record(
    task: CandidateTask, measured: _Measured, intervals: Sequence[Interval], difference: MmebDifference, clusters: np.ndarray
) -> MmebTask:
    return MmebTask(
        name=task.name,
        meta=task.meta,
        in_domain=task.in_domain,
        queries=len(task),
        candidates=len(task.corpus),
        chance=chance_rate(task.candidates),
        p_at_1=dict(zip(RANKINGS, intervals, strict=True)),
        mrr={ranking: float(places.reciprocal_rank().mean()) for ranking, places in measured.places.items()},
        dot_minus_cosine=difference,
        fingerprint=_fingerprint(task),
        first={ranking: tuple(places.precision_at_1().tolist()) for ranking, places in measured.places.items()},
        clusters=tuple(clusters.tolist()),
        notes=(*task.notes, *measured.notes),
    )


def _mean_records(
    tasks: Sequence[CandidateTask], groups: Mapping[str, tuple[int, ...]], means: np.ndarray, draws: np.ndarray
) -> dict[str, MmebMean]:
    cosine, dot = draws
    apart = {name: rows for name, rows in groups.items() if name != OVERALL}
    differences = judge(apart, means[1] - means[0], dot - cosine) | judge({OVERALL: groups[OVERALL]}, means[1] - means[0], dot - cosine)
    return {
        name: MmebMean(
            tasks=tuple(tasks[row].name for row in rows),
            p_at_1={ranking: interval_of(rows, means[place], draws[place]) for place, ranking in enumerate(RANKINGS)},
            dot_minus_cosine=differences[name],
        )
        for name, rows in groups.items()
    }


def _fingerprint(task: CandidateTask) -> str:
    """A hash of the queries, their sets and their answers, whatever the numbers of the candidates."""
    known = [content_digest(content) for content in task.corpus.contents]
    sets: dict[tuple[int, ...], bytes] = {}
    digest = hashlib.sha256(task.name.encode())
    for query, members, answer in zip(task.queries, task.candidates, task.answers, strict=True):
        if members not in sets:
            sets[members] = hashlib.sha256(b"".join(sorted(known[row] for row in members))).digest()
        digest.update(content_digest(query) + known[answer] + sets[members])
    return digest.hexdigest()


def _notes(tasks: Sequence[CandidateTask], clusters: Sequence[np.ndarray], *, limit_queries: int | None) -> tuple[str, ...]:
    notes = []
    foreign = [task.name for task in tasks if subset_kind(task.name)[1] is None]
    if foreign:
        notes.append(f"not subsets of the benchmark, so neither in-domain nor out-of-domain: {', '.join(foreign)}")
    covered = len(tasks) - len(foreign)
    if covered < len(PUBLISHED):
        notes.append(f"{covered} of the benchmark's {len(PUBLISHED)} tasks: the means are not comparable with published ones")
    if limit_queries is not None:
        notes.append(f"at most {limit_queries:,} queries of each task, drawn by seed")
    alone = [task.name for task, mine in zip(tasks, clusters, strict=True) if np.unique(mine).size < 2]
    if alone:
        notes.append(f"all queries share pictures, so there is no interval for {', '.join(alone)}, nor for a mean that holds it")
    return tuple(notes)
