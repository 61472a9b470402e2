"""Cutting sets: dev and test split off by whole clusters, and the `limit_*` settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.beir import cut_corpus
from normwise.data.clusters import components
from normwise.data.contents import Content, pictures_of, sameness
from normwise.data.own_pictures import KEPT, LEFT_OUT, own_rows
from normwise.data.sets import Judged, RetrievalData, TrainingPairs

HELD_OUT_SHARE = 0.1
# A positive that this many rows of its task have, on average, is the name of a class: held-out pictures of known classes are the
# question, and not classes that training never saw.
CLASS_ROWS = 20


def hold_out(labels: np.ndarray, *, parts: int, seed: int) -> np.ndarray | None:
    """Send whole clusters to `parts` held-out sets of about a tenth of the rows each; the rest stays.

    Clusters are taken in an order drawn from the seed; one that would take more than twice the share stays in training.

    Args:
        labels: (n,) cluster numbers 0, 1, ...
        parts: how many held-out sets, 1 or 2.
        seed: of the draw.

    Returns:
        (n,) int64: -1 for training, 0..parts-1 for the held-out sets; None when the clusters are too few or too large
        for every set to get a row and training to keep two.

    Example:
        >>> sorted(hold_out(np.arange(10), parts=2, seed=0).tolist())
        [-1, -1, -1, -1, -1, -1, -1, -1, 0, 1]
    """
    sizes = np.bincount(labels)
    wanted = max(1, round(HELD_OUT_SHARE * len(labels)))
    target = np.full(len(sizes), -1, dtype=np.int64)
    taken = [0] * parts
    for cluster in np.random.default_rng([seed, 1]).permutation(len(sizes)):
        part = next((part for part in range(parts) if taken[part] < wanted), None)
        if part is None:
            break
        if taken[part] + sizes[cluster] <= max(2 * wanted, 1):
            target[cluster] = part
            taken[part] += int(sizes[cluster])
    chosen = target[labels]
    return chosen if min(taken) > 0 and np.count_nonzero(chosen < 0) >= 2 else None


@dataclass(frozen=True)
class RowKeys:
    """What one pair may share with others.

    Args:
        query: key of the query.
        positive: key of the positive; None for one that held-out rows may share with training.
        source: what the pair was taken from; empty where that is unknown.
        asked: keys of the pictures of the query.
        answered: keys of the pictures of the positive.
    """

    query: Hashable
    positive: Hashable | None
    source: Hashable = ""
    asked: tuple[Hashable, ...] = ()
    answered: tuple[Hashable, ...] = ()


def hold_out_rows(rows: Sequence[RowKeys], *, parts: int, seed: int, where: str) -> tuple[np.ndarray, str]:
    """Split pairs by clusters of shared query, positive, source and pictures: no picture is asked about here and an answer there.

    Where one such cluster is too large, positives may be on both sides; where pictures join almost all rows still, only those
    of queries are kept apart.

    Args:
        rows: n pairs.
        parts: how many held-out sets.
        seed: of the draw.
        where: the file, for the message.

    Returns:
        As `hold_out`, and a note that says how it was split.

    Raises:
        InputError: the rows cannot be split in any of these ways.
    """
    pictures = any(row.asked or row.answered for row in rows)
    shares = f"(seed {seed}; a tenth of the pairs for each held-out split)"
    known = "held-out positives may be known from training"
    ways = [(True, True, f"split by clusters of shared query, positive{', picture' if pictures else ''} or source")]
    joined = "since shared positives join almost all rows"
    ways.append((False, True, f"split by query{', picture' if pictures else ''} and source only, {joined}: {known}"))
    if pictures:
        ways.append((False, False, f"split by query, its pictures and source only, since shared pictures join almost all rows: {known}"))
    for by_positive, both_sides, words in ways:
        labels = components([_shared(row, by_positive=by_positive, both_sides=both_sides) for row in rows])
        if (chosen := hold_out(labels, parts=parts, seed=seed)) is not None:
            return chosen, f"{words} {shares}"
    raise InputError(
        f"{where}: {len(rows)} rows cannot be split into training and {parts} held-out set(s) without sharing a query, its picture or a "
        "source: give data.dev and data.test files of their own, or more rows"
    )


def _shared(row: RowKeys, *, by_positive: bool, both_sides: bool) -> list[Hashable]:
    keys: list[Hashable] = [("query", row.query), *(("picture", picture) for picture in row.asked)]
    if row.source:
        keys.append(("source", row.source))
    if by_positive and row.positive is not None:
        keys.append(("positive", row.positive))
    if both_sides:
        keys += [("picture", picture) for picture in row.answered]
    return keys


def cut(data: RetrievalData, config: DataConfig, *, seed: int) -> RetrievalData:
    """Apply `limit_train`, `limit_queries` and `limit_candidates`, drawn from the seed.

    Kept rows stay in their order. Dev and test search one common pool when they did before: every relevant candidate
    of a kept query, filled up at random to `limit_candidates`. The training corpus stays whole.
    """
    rng = np.random.default_rng([seed, 2])
    train = data.train
    if train is not None and config.limit_train is not None and len(train) > config.limit_train:
        train = train.subset(np.sort(rng.choice(len(train), config.limit_train, replace=False)))
    judged: dict[str, Judged | None] = {"dev": data.dev, "test": data.test}
    if config.limit_queries is not None:
        for split, part in judged.items():
            if part is not None and len(part) > config.limit_queries:
                judged[split] = part.subset(np.sort(rng.choice(len(part), config.limit_queries, replace=False)))
    notes = list(data.notes)
    if config.limit_candidates is not None:
        judged, note = _cut_pools(judged, config.limit_candidates, rng)
        notes += [note] if note else []
    notes += [note for note in _own_picture_notes(judged) if note not in notes]
    return RetrievalData(
        name=data.name, kind=data.kind, train=train, dev=judged["dev"], test=judged["test"],
        skewed=data.skewed, notes=tuple(notes), dropped=data.dropped,
    )  # fmt: skip


def _own_picture_notes(judged: Mapping[str, Judged | None]) -> list[str]:
    """What becomes of queries' own pictures, where any is a candidate."""
    parts = [part for part in judged.values() if part is not None]
    met = [part for part in parts if any(own_rows(part.queries, part.corpus.contents, part.relevance))]
    return sorted({KEPT if part.own_pictures == "keep" else LEFT_OUT for part in met})


def _cut_pools(judged: dict[str, Judged | None], limit: int, rng: np.random.Generator) -> tuple[dict[str, Judged | None], str | None]:
    dev, test = judged["dev"], judged["test"]
    if dev is not None and test is not None and dev.corpus is test.corpus:
        groups = [["dev", "test"]]
    else:
        groups = [[split] for split, part in judged.items() if part is not None]
    note = None
    result = dict(judged)
    for group in groups:
        parts = {split: part for split in group if (part := judged[split]) is not None}
        corpus = next(iter(parts.values())).corpus
        if len(corpus) <= limit:
            continue
        relevant = np.unique(np.fromiter((row for part in parts.values() for grades in part.relevance for row in grades), dtype=np.int64))
        others = np.setdiff1d(np.arange(len(corpus)), relevant, assume_unique=True)
        room = max(0, limit - len(relevant))
        pool = np.sort(np.concatenate([relevant, rng.choice(others, room, replace=False)]))
        if len(pool) > limit:
            note = f"{len(pool)} candidates, above limit_candidates = {limit}: all are relevant to a kept query (lower limit_queries)"
        smaller = cut_corpus(corpus, pool)
        moved = {int(old): new for new, old in enumerate(pool)}
        for split, part in parts.items():
            relevance = tuple({moved[row]: grade for row, grade in grades.items()} for grades in part.relevance)
            result[split] = replace(part, corpus=smaller, relevance=relevance)
    return result, note


def carve(
    train: TrainingPairs, *, missing: Sequence[str], seed: int, where: str, sources: Sequence[str] | None
) -> tuple[TrainingPairs, dict[str, Judged], str]:
    """Split the named held-out sets off training pairs over one corpus; pairs with one query become one judged query.

    Args:
        train: all pairs.
        missing: names of the held-out sets.
        seed: of the draw.
        where: the file or folder, for the message.
        sources: what each pair was taken from (empty when unknown); None takes clusters that came with the data.

    Returns:
        What stays for training, the judged sets by name, and a note.

    Raises:
        InputError: see `hold_out_rows`.
    """
    classes, words = _classes(train)
    if sources is None:
        sources = [str(cluster) for cluster in train.clusters] if _clusters_came_along(train) else []
    rows = [
        RowKeys(
            query=sameness(query),
            positive=None if positive in classes else sameness(train.corpus.contents[positive]),
            source=sources[row] if sources else "",
            asked=tuple(picture.digest for picture in pictures_of(query)),
            answered=tuple(picture.digest for picture in pictures_of(train.corpus.contents[positive])),
        )
        for row, (query, positive) in enumerate(zip(train.queries, train.positives.tolist(), strict=True))
    ]
    chosen, note = hold_out_rows(rows, parts=len(missing), seed=seed, where=where)
    drawn = replace(train, clusters=_without_classes(train, classes, sources)) if classes else train
    parts = {split: judge_pairs(drawn.subset(np.flatnonzero(chosen == part)), prefix=split) for part, split in enumerate(missing)}
    return train.subset(np.flatnonzero(chosen < 0)), parts, f"{' and '.join(missing)} {note}{words}"


def _classes(train: TrainingPairs) -> tuple[frozenset[int], str]:
    """The candidates that are names of classes, and words about their tasks for the note.

    A task's positives are classes when they are texts and `CLASS_ROWS` distinct queries have each of them on average.
    """
    queries: dict[str, set[Content]] = {}
    positives: dict[str, set[int]] = {}
    for row, (query, positive) in enumerate(zip(train.queries, train.positives.tolist(), strict=True)):
        task = train.tasks[row] if train.tasks else ""
        queries.setdefault(task, set()).add(query)
        positives.setdefault(task, set()).add(positive)
    found = [
        task
        for task, mine in positives.items()
        if len(queries[task]) >= CLASS_ROWS * len(mine) and all(isinstance(train.corpus.contents[row], str) for row in mine)
    ]
    if not found:
        return frozenset(), ""
    of = f" of {', '.join(found)}" if train.tasks else ""
    known = frozenset[int]().union(*(positives[task] for task in found))
    return known, f"; the {len(known)} positives{of} are names of classes, which training and held-out rows share"


def _without_classes(train: TrainingPairs, classes: frozenset[int], sources: Sequence[str]) -> np.ndarray:
    """Clusters by shared query, source and positive, but for classes: pictures of one class are draws of their own."""
    return components(
        [
            [
                ("query", query),
                *([("source", sources[row])] if sources and sources[row] else []),
                *(("picture", picture.digest) for picture in pictures_of(query)),
                *([] if positive in classes else [("target", positive)]),
            ]
            for row, (query, positive) in enumerate(zip(train.queries, train.positives.tolist(), strict=True))
        ]
    )


def _clusters_came_along(train: TrainingPairs) -> bool:
    targets = components([[("query", query), ("target", int(row))] for query, row in zip(train.queries, train.positives, strict=True)])
    return not np.array_equal(targets, train.clusters)


def judge_pairs(pairs: TrainingPairs, *, prefix: str) -> Judged:
    """Turn pairs into judged queries: one per distinct query (of a task), grade 1 for each of its positives.

    Example:
        >>> from normwise.data.sets import Corpus
        >>> corpus = Corpus(("a", "b"), ("x", "y"))
        >>> pairs = TrainingPairs(("q", "q"), np.array([0, 1]), ((), ()), corpus, np.array([0, 0]))
        >>> judge_pairs(pairs, prefix="dev").relevance
        ({0: 1.0, 1: 1.0},)
    """
    first: dict[tuple[Content, str], int] = {}
    relevance: list[dict[int, float]] = []
    rows: list[int] = []
    for row, (query, positive) in enumerate(zip(pairs.queries, pairs.positives, strict=True)):
        place = first.setdefault((query, pairs.tasks[row] if pairs.tasks else ""), len(rows))
        if place == len(rows):
            rows.append(row)
            relevance.append({})
        relevance[place][int(positive)] = 1.0
    kept = pairs.subset(np.asarray(rows, dtype=np.int64))
    return Judged(
        query_ids=tuple(f"{prefix}-{number}" for number in range(len(rows))),
        queries=kept.queries,
        relevance=tuple(relevance),
        corpus=pairs.corpus,
        clusters=kept.clusters,
        origin=kept.origin,
        file=None if kept.origin is None else kept.origin.file,
        tasks=kept.tasks,
    )
