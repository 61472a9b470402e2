"""Ranking metrics of each query from ranked candidate rows and graded judgements."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import METRICS
from normwise.core.shapes import Float, Int

CUTOFF = 100
_TEN = 10


def metrics_per_query(
    indices: Int[np.ndarray, "B K"], relevance: Sequence[Mapping[int, float]], *, candidates: int | None = None
) -> dict[str, Float[np.ndarray, " B"]]:
    """Return every metric of `core.records.METRICS` for every query.

    Equations, with g(d) the gain of candidate d (0 where it is not judged), d_1, d_2, ... the ranking, relevant: g > 0,
    and R the number of relevant candidates of the query:

        p@1       = [g(d_1) > 0]
        mrr@10    = 1 / rank of the first relevant candidate among the first 10, else 0
        ndcg@10   = sum_{i <= 10} g(d_i) / log2(i + 1), over the same sum for the best possible order (linear gains)
        recall@K  = relevant candidates among the first K / R

    Gains of any size are exact: each query's are divided by its largest, which its ndcg does not see.

    recall@K divides by R also where R > K, so it cannot reach 1 there. Ties are no business of this function: `indices`
    is taken in its order, and `exact_top_k` puts equal scores in ascending row order. A query without a relevant
    candidate has no defined metric: NaN, to be left out of means and counted.

    Args:
        indices: (B, K) distinct candidate rows, best first.
        relevance: for each query, candidate row -> gain; gains <= 0 count as not relevant.
        candidates: N, how many candidates were ranked; if given, K must reach min(100, N), the deepest cut-off.

    Returns:
        For each metric (B,) float64 values in 0..1, or NaN.

    Raises:
        InputError: the lengths differ, a gain is not finite, a row is negative or repeated, or K is too small.

    Reference: linear gains and recall over R as in trec_eval.

    Example:
        >>> values = metrics_per_query(np.array([[4, 7, 1]]), [{7: 1.0, 9: 1.0}])
        >>> {name: round(float(v[0]), 3) for name, v in values.items()}
        {'p@1': 0.0, 'mrr@10': 0.5, 'ndcg@10': 0.387, 'recall@1': 0.0, 'recall@10': 0.5, 'recall@100': 0.5}
    """
    _check(indices, relevance, candidates=candidates)
    gains = _ranked_gains(indices, relevance)
    relevant = gains > 0.0
    total = np.array([sum(1 for gain in judged.values() if gain > 0.0) for judged in relevance], dtype=np.float64)
    largest = np.array([max(judged.values(), default=0.0) for judged in relevance], dtype=np.float64)
    ideal = np.array([_ideal(judged) for judged in relevance], dtype=np.float64)
    total[total == 0.0] = np.nan
    ideal[ideal == 0.0] = np.nan
    depth = min(_TEN, indices.shape[1])
    first = np.where(relevant[:, :depth].any(axis=1), relevant[:, :depth].argmax(axis=1) + 1.0, np.inf)
    undefined = np.where(np.isnan(total), np.nan, 0.0)
    values = {
        "p@1": relevant[:, 0] + undefined,
        "mrr@10": 1.0 / first + undefined,
        "ndcg@10": (gains[:, :depth] / np.where(largest > 0.0, largest, 1.0)[:, None] * _discounts(depth)).sum(axis=1) / ideal,
    }
    for cutoff in (1, _TEN, CUTOFF):
        values[f"recall@{cutoff}"] = relevant[:, :cutoff].sum(axis=1) / total
    return {name: values[name] for name in METRICS}


def _ranked_gains(indices: np.ndarray, relevance: Sequence[Mapping[int, float]]) -> np.ndarray:
    gains = np.zeros(indices.shape)
    pairs = [(query, row, gain) for query, judged in enumerate(relevance) for row, gain in judged.items() if gain > 0.0]
    if not pairs:
        return gains
    owners, rows = (np.array(column, dtype=np.int64) for column in list(zip(*pairs, strict=True))[:2])
    values = np.array([gain for _, _, gain in pairs])
    width = max(int(indices.max()), int(rows.max())) + 1
    keys = owners * width + rows
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    wanted = np.arange(indices.shape[0])[:, None] * width + indices
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[place] == wanted, values[place], 0.0)


def _ideal(judged: Mapping[int, float]) -> float:
    best = sorted((gain for gain in judged.values() if gain > 0.0), reverse=True)[:_TEN]
    return float(np.dot(np.array(best) / best[0], _discounts(len(best)))) if best else 0.0


def _discounts(depth: int) -> np.ndarray:
    return 1.0 / np.log2(np.arange(depth) + 2.0)


def _check(indices: np.ndarray, relevance: Sequence[Mapping[int, float]], *, candidates: int | None) -> None:
    if indices.shape[0] != len(relevance):
        raise InputError(f"indices rank {indices.shape[0]} queries, relevance judges {len(relevance)}: expected one entry per query")
    if indices.shape[1] == 0:
        raise InputError("indices have no column: expected at least one ranked candidate per query")
    if candidates is not None and indices.shape[1] < min(CUTOFF, candidates):
        needed = min(CUTOFF, candidates)
        raise InputError(
            f"indices hold {indices.shape[1]} of {candidates} candidates; recall@{CUTOFF} needs {needed}: search with a larger k"
        )
    if indices.size and indices.min() < 0:
        raise InputError(f"indices hold the row {indices.min()}; expected rows >= 0")
    ordered = np.sort(indices, axis=1)
    repeated = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if repeated.size:
        query, column = repeated[0]
        raise InputError(f"indices: query {query} ranks row {ordered[query, column]} twice; expected distinct rows")
    for query, judged in enumerate(relevance):
        for row, gain in judged.items():
            # A comparison, since whole numbers may lie beyond float64.
            if not abs(gain) <= sys.float_info.max or row < 0:
                raise InputError(f"relevance: query {query} gives row {row} the gain {gain}; expected a row >= 0 and a finite gain")
