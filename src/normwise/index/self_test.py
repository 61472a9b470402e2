"""Measuring an index against exact search before anyone uses it, and raising its effort until it is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.index_records import RecallRow
from normwise.core.similarity import Similarity
from normwise.index.contents import Contents
from normwise.index.questions import check_queries
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.search import exact_top_k

_MOST_QUERIES = 400
_NOISE = 0.5
_UNIT_ROUNDOFF = 2.0**-24
Search = Callable[[np.ndarray, int], Sequence[Sequence[str | None]] | np.ndarray]


@dataclass(frozen=True)
class SelfTest:
    """The exact answers to a sample of queries.

    Args:
        queries: (B, D) raw queries.
        source: "queries" where they are real ones, "candidates" where they were made from the corpus.
        similarity: by which candidates are ranked.
        k: how many hits count, at most the number of candidates.
        floor: (B,) float32, the exact k-th best key of each query; key = hat q . c, or hat q . hat c.
        contents: the corpus.
    """

    queries: np.ndarray
    source: str
    similarity: Similarity
    k: int
    floor: np.ndarray
    contents: Contents

    def __len__(self) -> int:
        return self.queries.shape[0]

    def recall(self, rows: np.ndarray) -> float:
        """Return recall@k of found rows of the corpus.

        Equation: mean over queries of (number of distinct found rows whose key >= exact k-th best key - e) / k. A candidate tied
        with the k-th best counts, whichever of the tied ones it is; e = (D + 16) 2^-24 ||c|| (1 in place of ||c|| where the
        similarity divides by it) is what float32 search cannot tell apart.

        Args:
            rows: (B, K) int64 rows of the corpus, the best first; -1 where nothing was found; only the first k are read.
        """
        found = np.asarray(rows, dtype=np.int64)[:, : self.k]
        ordered = np.sort(found, axis=1)
        # A row found twice is one hit: the later copies count as nothing.
        repeats = np.zeros(ordered.shape, dtype=bool)
        repeats[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
        hits = (ordered >= 0) & ~repeats
        keys = exact_keys(self.queries, self.contents.vectors, ordered, similarity=self.similarity)
        rounding = (self.contents.dimensions + 16) * _UNIT_ROUNDOFF
        slack = rounding if self.similarity.normalizes_candidate else rounding * self.contents.norms[np.maximum(ordered, 0)]
        hits &= keys + slack >= self.floor[:, None]
        return float(np.mean(hits.sum(axis=1) / self.k))

    def recall_of_ids(self, ids: Sequence[Sequence[str | None]] | np.ndarray) -> float:
        """Return recall@k of found ids, None where nothing was found; an unknown id is no hit."""
        row_of = {name: row for row, name in enumerate(self.contents.ids)}
        rows = np.full((len(ids), self.k), -1, dtype=np.int64)
        for query, names in enumerate(ids):
            for place, name in enumerate(list(names)[: self.k]):
                rows[query, place] = -1 if name is None else row_of.get(name, -1)
        return self.recall(rows)

    def row(self, search: Search, *, graph: str, effort: dict[str, int]) -> RecallRow:
        """Run `search(queries, k) -> ids` (an array of rows works too) and return recall and time as one row."""
        started = time.perf_counter()
        found = search(self.queries, self.k)
        spent = time.perf_counter() - started
        whole = isinstance(found, np.ndarray) and found.dtype.kind == "i"
        recall = self.recall(np.asarray(found)) if whole else self.recall_of_ids(found)
        return RecallRow(graph=graph, effort=effort, recall=recall, milliseconds_per_query=1000.0 * spent / len(self))


def make_self_test(contents: Contents, queries: np.ndarray | None, *, similarity: Similarity, k: int, seed: int) -> SelfTest:
    """Draw at most 400 queries and answer them exactly.

    Args:
        contents: the corpus.
        queries: (B, D) real queries; None to make some: candidates with noise of half their length in random directions.
        similarity: by which candidates are ranked.
        k: how many hits count.
        seed: of the draw and of the noise.

    Raises:
        InputError: the queries do not fit the corpus, or there is none.

    Example:
        >>> from normwise.index.contents import check_contents
        >>> corpus = check_contents(["a", "b"], np.eye(2, dtype=np.float32))
        >>> test = make_self_test(corpus, None, similarity=Similarity.DOT, k=10, seed=0)
        >>> test.source, test.k, test.recall(np.array([[0, 1], [0, 0]]))
        ('candidates', 2, 0.75)
    """
    rng = np.random.default_rng(seed)
    source = "candidates" if queries is None else "queries"
    if queries is None:
        queries = _noisy(contents, rng)
    check_queries(queries, dimensions=contents.dimensions)
    if queries.shape[0] == 0:
        raise InputError("queries are none at all: give at least one, or leave them out")
    if queries.shape[0] > _MOST_QUERIES:
        queries = queries[np.sort(rng.choice(queries.shape[0], _MOST_QUERIES, replace=False))]
    queries = np.ascontiguousarray(queries)
    k = min(k, len(contents))
    ranking = similarity.ranking.value
    best = exact_top_k(queries, contents.vectors, k=k, rankings=[ranking])[ranking]
    keys = exact_keys(queries, contents.vectors, best.indices, similarity=similarity)
    return SelfTest(queries, source, similarity, k, keys.min(axis=1), contents)


def exact_keys(queries: np.ndarray, candidates: np.ndarray, rows: np.ndarray, *, similarity: Similarity) -> np.ndarray:
    """Return the keys hat q . c (over ||c|| where the similarity divides by it) of chosen pairs.

    Args:
        queries: (B, D) raw.
        candidates: (N, D) raw.
        rows: (B, K) rows of `candidates`; negative ones give -inf.
        similarity: which key.

    Returns:
        (B, K) float32, computed in float64 and rounded once.
    """
    directions = normalize(queries.astype(np.float64))
    keys = np.full(rows.shape, -np.inf, dtype=np.float32)
    for query, chosen in enumerate(rows):
        vectors = candidates[np.maximum(chosen, 0)]
        values = vectors.astype(np.float64) @ directions[query]
        if similarity.normalizes_candidate:
            lengths = exact_norms(vectors, name="candidates")
            values = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0.0)
        keys[query] = np.where(chosen >= 0, values, -np.inf)
    return keys


def raise_effort(measure: Callable[[int], RecallRow], ladder: Sequence[int], *, target: float) -> tuple[RecallRow, ...]:
    """Measure along a ladder of rising efforts until one reaches the target; all measurements, in order.

    The last row reaches the target, or none does.

    Example:
        >>> rows = raise_effort(lambda effort: RecallRow(graph="g", recall=min(1.0, effort / 40)), [16, 32, 64, 128], target=0.95)
        >>> [row.recall for row in rows]
        [0.4, 0.8, 1.0]
    """
    rows: list[RecallRow] = []
    for effort in ladder:
        rows.append(measure(effort))
        if rows[-1].recall >= target:
            break
    return tuple(rows)


def doubling(start: int, most: int) -> list[int]:
    """Efforts from `start` on, each twice the last, the end `most` included.

    Example:
        >>> doubling(16, 100), doubling(4, 3)
        ([16, 32, 64, 100], [3])
    """
    ladder = [min(start, most)]
    while ladder[-1] < most:
        ladder.append(min(2 * ladder[-1], most))
    return ladder


def _noisy(contents: Contents, rng: np.random.Generator) -> np.ndarray:
    count = min(_MOST_QUERIES, len(contents))
    rows = np.sort(rng.choice(len(contents), count, replace=False))
    noise = rng.normal(size=(count, contents.dimensions)) / np.sqrt(contents.dimensions)
    return contents.vectors[rows].astype(np.float64) + _NOISE * contents.norms[rows, None] * noise
