"""Searching a Qdrant collection: batches in one request, exact answers settled down to ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from normwise.core.index_records import Method
from normwise.index.served import SPARE, Hit, rounding, settled_keys

_TOGETHER = 64
_FIELDS = ["id", "position", "norm", "length"]


@dataclass(frozen=True)
class Asked:
    """What a search asks of a collection.

    Args:
        collection: its name.
        candidates: how many it holds.
        k: how many hits, at most `candidates`.
        method: exact or hnsw.
        largest_key: the largest inner product that a unit vector can have with a stored one.
        effort: hnsw_ef.
        must: the filter.
    """

    collection: str
    candidates: int
    k: int
    method: Method
    largest_key: float
    effort: int = 0
    must: Sequence[models.FieldCondition] = field(default=())


def search_collection(client: QdrantClient, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    """Return the k best candidates of each query, best first, equal keys in the order of adding.

    An exact search computes keys in float64 and rounds them to float32; the graph's hits have the server's keys. Where the
    graph finds fewer than k, exact search answers that query.

    Args:
        client: the engine.
        asked: what is searched for.
        directions: (B, D) float64 directions of queries; zero vectors tie with everything, and every key is 0.
    """
    results: list[list[Hit]] = []
    if asked.k == 0:
        return [[] for _ in directions]
    for start in range(0, directions.shape[0], _TOGETHER):
        some = directions[start : start + _TOGETHER]
        hits = _exact(client, asked, some) if asked.method == "exact" else _graph(client, asked, some)
        results += hits
    return results


def _graph(client: QdrantClient, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    found = _ask(client, asked, directions, limit=asked.k, exact=False)
    results = [sorted((_hit(point, point.score) for point in points), key=lambda hit: (-hit.key, hit.position)) for points in found]
    left = [row for row, hits in enumerate(results) if len(hits) < asked.k or not directions[row].any()]
    for row, hits in zip(left, _exact(client, asked, directions[left]) if left else (), strict=True):
        results[row] = hits
    return results


def _exact(client: QdrantClient, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    """Score what the engine's float32 search found again, and what may tie with its end or beat it."""
    limit = min(asked.k + SPARE, asked.candidates)
    error = rounding(directions.shape[1]) * asked.largest_key
    results = []
    for direction, points in zip(directions, _ask(client, asked, directions, limit=limit, exact=True), strict=True):
        hits = _settled(points, direction)
        if asked.k < len(hits) and len(points) == limit < asked.candidates and hits[asked.k - 1].key <= points[-1].score + error:
            bound = hits[asked.k - 1].key - error
            near = _ask(client, asked, direction[None], limit=asked.candidates, exact=True, bound=bound)
            hits = _settled(near[0], direction)
        results.append(hits[: asked.k])
    return results


def _ask(
    client: QdrantClient, asked: Asked, directions: np.ndarray, *, limit: int, exact: bool, bound: float | None = None
) -> list[list[Any]]:
    parameters = models.SearchParams(exact=True) if exact else models.SearchParams(hnsw_ef=max(asked.effort, asked.k))
    requests = [
        models.QueryRequest(
            query=row.tolist(),
            filter=models.Filter(must=list(asked.must)) if asked.must else None,
            params=parameters,
            limit=limit,
            score_threshold=bound,
            with_payload=_FIELDS,
            with_vector=exact,
        )
        for row in directions.astype(np.float32)
    ]
    return [response.points for response in client.query_batch_points(asked.collection, requests=requests)]


def _settled(points: Sequence[Any], direction: np.ndarray) -> list[Hit]:
    if not points:
        return []
    vectors = np.array([point.vector for point in points], dtype=np.float32)
    keys, order = settled_keys(vectors, direction, [point.payload["position"] for point in points])
    return [_hit(points[place], float(keys[place])) for place in order]


def _hit(point: Any, key: float) -> Hit:
    payload = point.payload
    # Adding 0 turns -0 into 0.
    return Hit(payload["id"], key + 0.0, payload["norm"], payload.get("length"), payload["position"])
