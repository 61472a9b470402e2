"""Pairs, judgements and corpora: the frozen values that every other part of the data room passes around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from normwise.core.errors import InputError
from normwise.data.clusters import renumber
from normwise.data.contents import Content, modality_of, texts_only
from normwise.data.own_pictures import OwnPictures, own_rows


@dataclass(frozen=True)
class Origin:
    """Where rows came from, so that a refusal can name file and row.

    Args:
        file: the file as the user named it.
        rows: one number per row, (n,): the 1-based line at which the row starts in jsonl, csv and tsv files (header
            lines count), the 1-based row in parquet files and `datasets` folders.
    """

    file: str
    rows: np.ndarray

    def at(self, row: int) -> str:
        """Name one row.

        Example:
            >>> Origin("pairs.csv", np.array([2, 3])).at(1)
            'pairs.csv, row 3'
        """
        return f"{self.file}, row {int(self.rows[row])}"


@dataclass(frozen=True)
class Corpus:
    """Candidates: distinct ids and their contents, in a fixed order; a candidate's row is its place in that order.

    A content is a text, a picture, or both (`normwise.data.contents`). `pools` says for sets that mix tasks which rows are
    searched for the queries of each; without it all are.

    Raises:
        InputError: lengths differ, or an id is repeated.

    Example:
        >>> len(Corpus(ids=("a", "b"), contents=("x", "y")))
        2
    """

    ids: tuple[str, ...]
    contents: tuple[Content, ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _same_length("Corpus", ids=self.ids, contents=self.contents)
        if len(set(self.ids)) != len(self.ids):
            seen: set[str] = set()
            repeated = next(name for name in self.ids if name in seen or seen.add(name))
            raise InputError(f"Corpus: id {repeated!r} stands for two candidates: give every candidate its own id")
        _origin_fits("Corpus", self.origin, len(self.ids))
        for rows in self.pools.values():
            _rows_inside("Corpus", "pools", np.asarray(rows, dtype=np.int64), len(self.ids))

    @property
    def texts(self) -> tuple[str, ...]:
        """The contents, for work that reads texts only.

        Raises:
            InputError: there are pictures among them.
        """
        return texts_only(self.contents, what="candidates")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class TrainingPairs:
    """Queries, each with one positive and any number of explicit negatives.

    Args:
        queries: n contents.
        positives: rows into `corpus`, (n,), int64.
        negatives: rows into `corpus`, ragged, one tuple per query (empty where there are none).
        corpus: the candidates.
        clusters: (n,), int64; queries of one cluster share a target or a source file.
        origin: where the rows came from, where known.
        tasks: n names, where a set mixes tasks; empty for a set of one.

    Raises:
        InputError: lengths differ or a row lies outside the corpus.
    """

    queries: tuple[Content, ...]
    positives: np.ndarray
    negatives: tuple[tuple[int, ...], ...]
    corpus: Corpus
    clusters: np.ndarray
    origin: Origin | None = field(default=None, repr=False)
    tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = "TrainingPairs"
        _same_length(name, queries=self.queries, positives=self.positives, negatives=self.negatives, clusters=self.clusters)
        _integers(name, positives=self.positives, clusters=self.clusters)
        _rows_inside(name, "positives", self.positives, len(self.corpus))
        flat = np.fromiter((row for rows in self.negatives for row in rows), dtype=np.int64)
        _rows_inside(name, "negatives", flat, len(self.corpus))
        _origin_fits(name, self.origin, len(self.queries))
        _tasks_fit(name, self.tasks, len(self.queries))

    def __len__(self) -> int:
        return len(self.queries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrainingPairs):
            return NotImplemented
        same = (self.queries, self.negatives, self.corpus, self.tasks) == (other.queries, other.negatives, other.corpus, other.tasks)
        return same and np.array_equal(self.positives, other.positives) and np.array_equal(self.clusters, other.clusters)

    @property
    def query_texts(self) -> tuple[str, ...]:
        """The queries, for work that reads texts only; see `Corpus.texts`."""
        return texts_only(self.queries, what="queries")

    @property
    def modalities(self) -> frozenset[str]:
        """Of "text" and "image", what queries and candidates are made of."""
        kinds = {modality_of(content) for content in (*self.queries, *self.corpus.contents)}
        return frozenset(part for kind in kinds for part in kind.split("+"))

    def popularity(self) -> np.ndarray:
        """How often each candidate is a positive, (N,), int64: the counts behind log g.

        Example:
            >>> corpus = Corpus(("a", "b", "c"), ("x", "y", "z"))
            >>> TrainingPairs(("q", "r"), np.array([1, 1]), ((), ()), corpus, np.array([0, 0])).popularity().tolist()
            [0, 2, 0]
        """
        return np.bincount(self.positives, minlength=len(self.corpus)).astype(np.int64)

    def subset(self, rows: np.ndarray) -> TrainingPairs:
        """The pairs at `rows`, in that order, over the same corpus; clusters are numbered anew."""
        origin = None if self.origin is None else Origin(self.origin.file, self.origin.rows[rows])
        return TrainingPairs(
            queries=tuple(self.queries[row] for row in rows),
            positives=self.positives[rows],
            negatives=tuple(self.negatives[row] for row in rows),
            corpus=self.corpus,
            clusters=renumber(self.clusters[rows]),
            origin=origin,
            tasks=tuple(self.tasks[row] for row in rows) if self.tasks else (),
        )


@dataclass(frozen=True, eq=False)
class Judged:
    """Queries with graded relevance, to choose or report on.

    Args:
        query_ids: n distinct ids.
        queries: n contents.
        relevance: one dict per query: row into `corpus` -> grade > 0. An empty dict is a `no_answer` query.
        corpus: the candidates that are searched.
        clusters: (n,), int64; the unit of the bootstrap.
        origin: where the rows came from, where known.
        file: where the judgements stand, where known.
        tasks: n names, where a set mixes tasks; empty for a set of one.
        own_pictures: whether a candidate that is a query's own picture is ranked for that query; see `not_ranked`.

    Raises:
        InputError: lengths differ, an id is repeated, a row lies outside the corpus, a grade is not above 0.
    """

    query_ids: tuple[str, ...]
    queries: tuple[Content, ...]
    relevance: tuple[dict[int, float], ...]
    corpus: Corpus
    clusters: np.ndarray
    origin: Origin | None = field(default=None, repr=False)
    file: str | None = field(default=None, repr=False)
    tasks: tuple[str, ...] = ()
    own_pictures: OwnPictures = "exclude"

    def __post_init__(self) -> None:
        name = "Judged"
        _same_length(name, query_ids=self.query_ids, queries=self.queries, relevance=self.relevance, clusters=self.clusters)
        if len(set(self.query_ids)) != len(self.query_ids):
            raise InputError("Judged: a query id is repeated: give every query its own id")
        _integers(name, clusters=self.clusters)
        flat = np.fromiter((row for grades in self.relevance for row in grades), dtype=np.int64)
        _rows_inside(name, "relevance", flat, len(self.corpus))
        if any(not grade > 0 for grades in self.relevance for grade in grades.values()):
            raise InputError("Judged: a relevance grade is not above 0: leave candidates that are not relevant out of the dict")
        _origin_fits(name, self.origin, len(self.queries))
        _tasks_fit(name, self.tasks, len(self.queries))

    def __len__(self) -> int:
        return len(self.queries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Judged):
            return NotImplemented
        mine = (self.query_ids, self.queries, self.relevance, self.corpus, self.tasks)
        same = mine == (other.query_ids, other.queries, other.relevance, other.corpus, other.tasks)
        return same and np.array_equal(self.clusters, other.clusters)

    @property
    def query_texts(self) -> tuple[str, ...]:
        """The queries, for work that reads texts only; see `Corpus.texts`."""
        return texts_only(self.queries, what="queries")

    def searches(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """(task, rows of its queries, rows of the candidates that are searched for them), one entry for a set of one task.

        Example:
            >>> corpus = Corpus(("a", "b"), ("x", "y"))
            >>> Judged(("q",), ("?",), ({0: 1.0},), corpus, np.array([0])).searches()
            [('', array([0]), array([0, 1]))]
        """
        everything = np.arange(len(self.corpus))
        if not self.tasks:
            return [("", np.arange(len(self)), everything)]
        names = np.asarray(self.tasks)
        pools = {task: self.corpus.pools.get(task) for task in sorted(set(self.tasks))}
        return [
            (task, np.flatnonzero(names == task), everything if rows is None else np.asarray(rows, dtype=np.int64))
            for task, rows in pools.items()
        ]

    def not_ranked(self) -> list[tuple[int, ...]]:
        """For each query the candidates that are not ranked for it: its own pictures, unless they are to be kept (`own_rows`)."""
        return [()] * len(self) if self.own_pictures == "keep" else own_rows(self.queries, self.corpus.contents, self.relevance)

    @property
    def no_answer(self) -> int:
        """How many queries have no relevant candidate."""
        return sum(not grades for grades in self.relevance)

    @property
    def usable(self) -> bool:
        """Whether any query has a relevant candidate; without one no metric is defined."""
        return any(self.relevance)

    def subset(self, rows: np.ndarray) -> Judged:
        """The queries at `rows`, in that order, over the same corpus; clusters are numbered anew."""
        origin = None if self.origin is None else Origin(self.origin.file, self.origin.rows[rows])
        return Judged(
            query_ids=tuple(self.query_ids[row] for row in rows),
            queries=tuple(self.queries[row] for row in rows),
            relevance=tuple(self.relevance[row] for row in rows),
            corpus=self.corpus,
            clusters=renumber(self.clusters[rows]),
            origin=origin,
            file=self.file,
            tasks=tuple(self.tasks[row] for row in rows) if self.tasks else (),
            own_pictures=self.own_pictures,
        )


@dataclass(frozen=True)
class RetrievalData:
    """A named set: pairs to train on, judged queries to choose (dev) and report (test) on.

    `kind` says what is retrieved by what; `skewed` whether positives repeat in training (see `is_skewed`); `notes` are
    the sentences that belong beside every result on this set; `dropped` counts rows left out on request, by reason.
    """

    name: str
    kind: str
    train: TrainingPairs | None
    dev: Judged | None
    test: Judged | None
    skewed: bool
    notes: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


SKEW_SHARE = 0.1


def repeated_share(positives: np.ndarray) -> float:
    """Share of rows whose positive has been seen before: 1 - distinct / n, in [0, 1).

    Example:
        >>> repeated_share(np.array([5, 5, 5, 7]))
        0.5
    """
    return 1.0 - len(np.unique(positives)) / len(positives) if len(positives) else 0.0


def is_skewed(positives: np.ndarray) -> bool:
    """Whether more than a tenth of the rows repeat a positive, so that a batch would often hold false negatives.

    Example:
        >>> is_skewed(np.arange(100)), is_skewed(np.zeros(100, dtype=int))
        (False, True)
    """
    return repeated_share(positives) > SKEW_SHARE


def _same_length(name: str, **columns: tuple | np.ndarray) -> None:
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{column} {length}" for column, length in lengths.items())
        raise InputError(f"{name}: columns must have one length, got {came}")


def _integers(name: str, **columns: np.ndarray) -> None:
    for column, values in columns.items():
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind != "i":
            raise InputError(f"{name}: {column} must be a one-dimensional array of signed integers, got {values!r:.60}")


def _rows_inside(name: str, column: str, rows: np.ndarray, size: int) -> None:
    if len(rows) and (rows.min() < 0 or rows.max() >= size):
        raise InputError(f"{name}: {column} must be rows 0..{size - 1} of the corpus, got {int(rows.min())}..{int(rows.max())}")


def _origin_fits(name: str, origin: Origin | None, size: int) -> None:
    if origin is not None and len(origin.rows) != size:
        raise InputError(f"{name}: origin has {len(origin.rows)} rows for {size}")


def _tasks_fit(name: str, tasks: tuple[str, ...], size: int) -> None:
    if tasks and len(tasks) != size:
        raise InputError(f"{name}: {len(tasks)} tasks for {size} queries: give one name for each, or none")
