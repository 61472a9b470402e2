"""What one exact search says about vectors: metrics with intervals, geometry, and the notes that belong beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import METRICS, Evaluation, MetricTable
from normwise.core.similarity import Similarity
from normwise.data.sets import Judged
from normwise.theory.bootstrap import cluster_mean_interval
from normwise.theory.directions import row_chunks
from normwise.theory.geometry import embedding_geometry, hub_share
from normwise.theory.popularity import one_query_per_candidate_weights
from normwise.theory.radial import deciding_test
from normwise.theory.ranking import CUTOFF, metrics_per_query
from normwise.theory.search import exact_top_k

Relevance = Sequence[Mapping[int, float]]
PerQuery = dict[str, dict[str, np.ndarray]]

_BOUND = 0.01
_UNIT = 1e-5
_HUB = 0.1
_HUB_QUERIES = 20


@dataclass(frozen=True)
class Ranked:
    """What one search found: metrics per ranking and query, the first places, and how many vectors have no direction."""

    metrics: PerQuery
    first_places: dict[str, np.ndarray]
    relevance: Relevance
    candidates: int
    zero_queries: int
    zero_candidates: int


def rank(queries: np.ndarray, candidates: np.ndarray, relevance: Relevance, *, not_ranked: Sequence[Sequence[int]] | None = None) -> Ranked:
    """Search once under both rankings and judge every query.

    Args:
        queries: (B, D) raw vectors.
        candidates: (N, D) raw vectors.
        relevance: for each query, candidate row -> gain.
        not_ranked: for each query, rows without gain that count as no candidates of it; None is none of any.
    """
    depth = max(map(len, not_ranked or ()), default=0)
    top = exact_top_k(queries, candidates, k=CUTOFF + depth)
    places = {name: found.indices if not depth else last(found.indices, not_ranked or ())[:, :CUTOFF] for name, found in top.items()}
    return Ranked(
        metrics={name: metrics_per_query(rows, relevance, candidates=candidates.shape[0]) for name, rows in places.items()},
        first_places={name: rows[:, 0] for name, rows in places.items()},
        relevance=relevance,
        candidates=candidates.shape[0],
        zero_queries=_count_zero(queries),
        zero_candidates=_count_zero(candidates),
    )


def last(indices: np.ndarray, rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Put some candidates behind all others of their query, the order kept otherwise.

    Behind the others a row without gain changes no metric: so it is as if it had never been ranked.

    Args:
        indices: (B, K) candidate rows, best first.
        rows: for each of B queries, those to put last.

    Example:
        >>> last(np.array([[4, 7, 1], [7, 4, 1]]), [(4,), ()]).tolist()
        [[7, 1, 4], [7, 4, 1]]
    """
    moved = np.zeros(indices.shape, dtype=bool)
    for query, mine in enumerate(rows):
        if mine:
            moved[query] = np.isin(indices[query], mine)
    return np.take_along_axis(indices, np.argsort(moved, axis=1, kind="stable"), axis=1)


def rank_judged(queries: np.ndarray, candidates: np.ndarray, judged: Judged) -> Ranked:
    """`rank`, task by task: queries of a set that mixes tasks search the candidates of their task only.

    A query's own picture is no candidate of it, unless the set says that it is (`Judged.not_ranked`).

    Args:
        queries: (B, D) raw vectors of the queries.
        candidates: (N, D) raw vectors of the whole corpus.
        judged: whose vectors they are.
    """
    searches, left_out = judged.searches(), judged.not_ranked()
    if len(searches) == 1 and len(searches[0][2]) == len(candidates):
        return rank(queries, candidates, judged.relevance, not_ranked=left_out)
    metrics: PerQuery = {}
    first = {name: np.zeros(len(queries), dtype=np.int64) for name in ("cosine", "dot")}
    for _, asked, pool in searches:
        place = {int(row): new for new, row in enumerate(pool)}
        relevance = [{place[row]: gain for row, gain in judged.relevance[query].items() if row in place} for query in asked]
        out = [[place[row] for row in left_out[query] if row in place] for query in asked]
        found = rank(queries[asked], candidates[pool], relevance, not_ranked=out)
        for name, table in found.metrics.items():
            first[name][asked] = pool[found.first_places[name]]
            for metric, values in table.items():
                metrics.setdefault(name, {}).setdefault(metric, np.full(len(queries), np.nan))[asked] = values
    return Ranked(metrics, first, judged.relevance, candidates.shape[0], _count_zero(queries), _count_zero(candidates))


def task_tables(metrics: PerQuery, judged: Judged, *, seed: int) -> dict[str, dict[str, MetricTable]]:
    """Task -> ranking -> metric -> mean with a 95% cluster bootstrap interval; empty for a set of one task."""
    if not judged.tasks:
        return {}
    return {
        task: {
            ranking: {metric: cluster_mean_interval(table[metric][asked], judged.clusters[asked], seed=seed) for metric in METRICS}
            for ranking, table in metrics.items()
        }
        for task, asked, _ in judged.searches()
        if any(judged.relevance[query] for query in asked)
    }


def _count_zero(vectors: np.ndarray) -> int:
    return sum(int(np.count_nonzero(~vectors[rows].any(axis=1))) for rows in row_chunks(*vectors.shape))


def record(
    ranked: Ranked, names: Sequence[Similarity], clusters: np.ndarray, *, geometry: Mapping[str, float | None], seed: int
) -> Evaluation:
    """Return a record without names: tables of the asked similarities, counts, geometry and the note of undefined queries."""
    answered = np.array([any(gain > 0 for gain in judged.values()) for judged in ranked.relevance], dtype=bool)
    if not answered.any():
        raise InputError("no query has a relevant candidate, so no metric is defined: check the judgements")
    notes = []
    if not answered.all():
        notes.append(
            f"{np.count_nonzero(~answered)} of {answered.size} queries have no relevant candidate and are left out of every metric"
        )
    tables: dict[str, MetricTable] = {
        ranking: {metric: cluster_mean_interval(metrics[metric], clusters, seed=seed) for metric in METRICS}
        for ranking, metrics in ranked.metrics.items()
    }
    weights = one_query_per_candidate_weights(ranked.relevance)
    by_candidate: dict[str, MetricTable] = {
        ranking: {metric: cluster_mean_interval(metrics[metric], clusters, seed=seed, weights=weights) for metric in METRICS}
        for ranking, metrics in (ranked.metrics.items() if weights is not None else ())
    }
    return Evaluation(
        model="",
        data="",
        split="given",
        queries=answered.size,
        candidates=ranked.candidates,
        clusters=np.unique(clusters[answered]).size,
        similarities={name.value: tables[name.ranking.value] for name in names},
        one_query_per_candidate={name.value: by_candidate[name.ranking.value] for name in names} if by_candidate else {},
        geometry=geometry,
        notes=tuple(notes),
    )


def geometry_figures(queries: np.ndarray, candidates: np.ndarray, ranked: Ranked, *, seed: int) -> dict[str, float | None]:
    """Return the geometry of vectors with one best-judged positive per query; None where a figure is undefined."""
    best = {query: max(judged, key=lambda row: (judged[row], -row)) for query, judged in enumerate(ranked.relevance) if judged}
    positives = np.asarray(candidates[list(best.values())])
    figures = embedding_geometry(np.asarray(queries[list(best)]), positives, candidates, seed=seed)
    # The search saw every query and candidate, so its first places replace those within the samples.
    figures |= {f"hub_share_{name}": hub_share(rows) for name, rows in ranked.first_places.items()}
    return {key: None if np.isnan(value) else value for key, value in figures.items()}


def vector_notes(ranked: Ranked, evaluation: Evaluation, *, ids: Sequence[str] | None) -> list[str]:
    """Return what a reader of the figures must know: zero vectors, a norm bound to the direction, weak tests, hubs."""
    figures, notes = evaluation.geometry, _zero_notes(ranked)
    spreads = [figures.get(f"norm_cv_{side}") for side in ("queries", "candidates")]
    if all(spread is not None and spread < _UNIT for spread in spreads):
        notes.append(
            "all norms are equal: these vectors were normalized (or carry none), so dot and cosine rank alike; compare raw vectors"
        )
    freedom, test = figures.get("radial_freedom"), deciding_test(figures)
    if freedom is not None and freedom < _BOUND:
        notes.append(
            f"the norm is a function of the direction here ({test} predicts it with held-out R2 {figures[str(test)]:.3f}): "
            "no radius is free, whatever the training"
        )
    elif freedom is not None and figures.get("e3_affine") is None:
        notes.append("too few candidates for the closed-form tests (5 per dimension): radial_freedom is an upper bound")
    for ranking, rows in ranked.first_places.items():
        share = figures.get(f"hub_share_{ranking}")
        if share is not None and share > _HUB and rows.size >= _HUB_QUERIES and _is_hub(ranked, rows):
            hub = int(np.argmax(np.bincount(rows)))
            called = f"row {hub}" if ids is None else repr(ids[hub])
            notes.append(f"one candidate, {called}, takes {share:.0%} of all first places under {ranking}: a hub")
    return notes


def _zero_notes(ranked: Ranked) -> list[str]:
    notes = []
    if ranked.zero_queries:
        count = f"{ranked.zero_queries:,} of {len(ranked.relevance):,} query vectors are zero"
        notes.append(f"{count}: every candidate scores 0 for them, so they find the first rows, whatever those hold")
    if ranked.zero_candidates:
        count = f"{ranked.zero_candidates:,} of {ranked.candidates:,} candidate vectors are zero"
        notes.append(f"{count}: they score 0 for every query, and among themselves stand in the order of the rows")
    return notes


def _is_hub(ranked: Ranked, rows: np.ndarray) -> bool:
    """Whether the most frequent first place answers less than half of the queries that it wins."""
    hub = int(np.argmax(np.bincount(rows)))
    won = np.flatnonzero(rows == hub).tolist()
    return sum(ranked.relevance[query].get(hub, 0.0) > 0 for query in won) < len(won) / 2
