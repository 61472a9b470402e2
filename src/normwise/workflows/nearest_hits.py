"""Some test queries of a set with pictures, with what a model finds for them: what a page shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normwise.core.records import NearestHits, NearHit, NearHits
from normwise.data.contents import Content, modality_of
from normwise.data.sets import Judged
from normwise.data.thumbnails import ThumbnailBudget
from normwise.theory.search import exact_top_k
from normwise.workflows.shown_contents import shown_words

QUERIES, HITS = 6, 3
DEPTH = 1_000
Hit = tuple[str, Content, float, bool]


def nearest_hits(
    queries: np.ndarray, candidates: np.ndarray, judged: Judged, *, ranking: str, seed: int, depth: int = DEPTH
) -> NearestHits | None:
    """Draw some queries by seed, whatever they find, and keep the best hits of each with thumbnails.

    As in evaluation, queries of a set that mixes tasks search the candidates of their task, and a query's own picture is no hit of it,
    unless the set says so.

    Args:
        queries: (B, D) raw vectors, in the order of `judged`.
        candidates: (N, D) raw vectors, in the order of its corpus.
        judged: queries and candidates.
        ranking: "cosine" or "dot".
        seed: of the draw.
        depth: how many hits are looked through for the first right one.

    Returns:
        At most 6 queries with 3 hits each; None for a set of texts alone.
    """
    if all(modality_of(content) == "text" for content in (*judged.queries, *judged.corpus.contents)):
        return None
    drawn = drawn_rows(len(judged), seed=seed)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    left_out = judged.not_ranked()
    more = max(len(left_out[row]) for row in drawn)
    for _, asked, pool in judged.searches():
        mine = np.intersect1d(asked, drawn)
        if mine.size:
            top = exact_top_k(queries[mine], candidates[pool], k=depth + more, rankings=(ranking,))[ranking]
            for at, row in enumerate(mine.tolist()):
                rows = pool[top.indices[at]]
                kept = ~np.isin(rows, left_out[row])
                found[row] = rows[kept][:depth], top.scores[at][kept][:depth]
    budget = ThumbnailBudget()
    shown = tuple(_near(judged, row, *found[row], budget) for row in drawn.tolist())
    return NearestHits(ranking=ranking, seed=seed, queries=len(judged), depth=depth, shown=shown, left_out=budget.left_out)


def drawn_rows(count: int, *, seed: int) -> np.ndarray:
    """Which of so many queries a page shows: at most 6 rows, ascending, whatever they find.

    Example:
        >>> drawn_rows(3, seed=0).tolist()
        [0, 1, 2]
    """
    return np.sort(np.random.default_rng([seed, 11]).permutation(count)[:QUERIES])


def near_hits(
    query: Content, found: Sequence[Hit], *, answerable: bool, first_right: int | None, task: str, budget: ThumbnailBudget
) -> NearHits:
    """A query with its hits as a page shows them, as far as thumbnails go.

    Args:
        query: what was asked.
        found: the best hits, best first: id, content, score, and whether it is right.
        answerable: whether anything that was searched is right.
        first_right: place of the first right hit, from 1; None where it is not known.
        task: of the query, where there are several.
        budget: thumbnails that the page still has room for.
    """
    asked = budget.show(query)
    return NearHits(
        query=shown_words(query),
        picture=asked,
        answerable=answerable,
        hits=tuple(
            NearHit(
                id=shown_words(name),
                words=shown_words(content),
                picture=budget.show(content),
                score=score,
                probability=None,
                abstain=False,
                right=right,
            )
            for name, content, score, right in found
        ),
        first_right=first_right,
        task=task,
    )


def _near(judged: Judged, query: int, rows: np.ndarray, scores: np.ndarray, budget: ThumbnailBudget) -> NearHits:
    relevant, corpus = judged.relevance[query], judged.corpus
    best = zip(rows[:HITS].tolist(), scores[:HITS].tolist(), strict=True)
    return near_hits(
        judged.queries[query],
        [(corpus.ids[row], corpus.contents[row], score, row in relevant) for row, score in best],
        answerable=bool(relevant),
        first_right=next((place for place, row in enumerate(rows.tolist(), start=1) if row in relevant), None),
        task=judged.tasks[query] if judged.tasks else "",
        budget=budget,
    )
