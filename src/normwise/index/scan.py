"""Exact top k over vectors that are read tile by tile, and the order of what a faster search found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from normwise.core.errors import MissingExtraError

_UNIT_ROUNDOFF = 2.0**-24
_TILE_VALUES = 1 << 22
_GATHER_VALUES = 1 << 20
_TOGETHER = 64
# Fetched beyond the k-th place, so that what ties with it, or nearly, is seen.
SPARE = 4


class Source(Protocol):
    """N virtual float32 vectors (N, D) whose inner product with a query's direction is the key that ranks them."""

    def __len__(self) -> int: ...

    @property
    def largest(self) -> float:
        """At least the norm of every one of them."""
        ...

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, D) float32 vectors by row number."""
        ...


def load_faiss() -> Any:
    """Import faiss.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("faiss", extra="index") from None
    return faiss


def top_of(source: Source, directions: np.ndarray, *, k: int, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best rows of every query by exhaustive search, exact down to ties.

    Args:
        source: N vectors.
        directions: (B, D) float64 unit vectors; zero ones tie with everything.
        k: at most the number of rows.
        rows: ascending rows that may be found; None for all.

    Returns:
        (B, k) int64 rows and (B, k) float64 keys of float32 precision; equal keys in ascending order of rows.
    """
    faiss = load_faiss()
    count = len(source) if rows is None else rows.size
    width = min(k + SPARE, count)
    best = np.full((directions.shape[0], width), -np.inf, dtype=np.float32)
    found = np.zeros((directions.shape[0], width), dtype=np.int64)
    narrow = directions.astype(np.float32)
    for part, tile in _tiles(source, directions.shape[1], rows):
        values, places = faiss.knn(narrow, tile, min(width, tile.shape[0]), metric=faiss.METRIC_INNER_PRODUCT)
        values = np.concatenate([best, values], axis=1)
        names = np.concatenate([found, part[places]], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, :width]
        best, found = np.take_along_axis(values, order, axis=1), np.take_along_axis(names, order, axis=1)
    return settle(source, directions, k=k, found=found, reach=best[:, -1:], rows=rows)


def settle(
    source: Source,
    directions: np.ndarray,
    *,
    k: int,
    found: np.ndarray,
    reach: np.ndarray,
    rows: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn what a float32 search found into the exact answer.

    Each found row is scored again in float64. Where what was not found could still tie with the k-th place, or beat it, once
    rounding is taken off, the query is answered by a second pass that keeps every row near its k-th key.

    Args:
        source: N vectors.
        directions: (B, D) float64 unit or zero vectors.
        k: how many to return.
        found: (B, M) rows, M >= k, and M > k unless there are no more rows.
        reach: (B, 1) float32 product that no other row exceeded.
        rows: ascending rows that may be found; None for all.

    Returns:
        As `top_of`.
    """
    names, keys = ranked(source, directions, found)
    names, keys = names[:, :k], keys[:, :k]
    if found.shape[1] >= (len(source) if rows is None else rows.size):
        return names, keys
    error = (directions.shape[1] + 16) * _UNIT_ROUNDOFF
    open_queries = np.flatnonzero(keys[:, -1] <= reach[:, 0] + error * source.largest)
    nothing = ~directions[open_queries].any(axis=1)
    first = np.arange(k) if rows is None else rows[:k]
    names[open_queries[nothing]], keys[open_queries[nothing]] = first, 0.0
    open_queries = open_queries[~nothing]
    for start in range(0, open_queries.size, _TOGETHER):
        block = open_queries[start : start + _TOGETHER]
        for query, near in zip(block, _near(source, directions[block], keys[block, -1], error=error, rows=rows), strict=True):
            all_names, all_keys = ranked(source, directions[query : query + 1], near[None])
            names[query], keys[query] = all_names[0, :k], all_keys[0, :k]
    return names, keys


def ranked(source: Source, directions: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score found rows in float64, round to float32, and sort: best first, ties by ascending row.

    Args:
        source: N vectors.
        directions: (B, D) float64.
        found: (B, M) rows; -1 where nothing was found.

    Returns:
        (B, M) rows and float64 keys; nothing (-1, -inf) comes last.
    """
    keys = np.empty(found.shape, dtype=np.float64)
    step = max(1, _GATHER_VALUES // max(1, found.shape[1] * directions.shape[1]))
    for start in range(0, found.shape[0], step):
        block = slice(start, start + step)
        keys[block] = _keys(source, directions[block], found[block])
    keys[found < 0] = -np.inf
    order = np.lexsort((found, -keys), axis=1)
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(keys, order, axis=1)


def _keys(source: Source, directions: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Keys of (B, M) pairs, the pairs of one query in slices, so that one query with very many stays small."""
    keys = np.empty(found.shape, dtype=np.float32)
    step = max(1, _GATHER_VALUES // max(1, found.shape[0] * directions.shape[1]))
    for start in range(0, found.shape[1], step):
        part = np.maximum(found[:, start : start + step], 0)
        vectors = source.take(part.ravel()).reshape(*part.shape, -1)
        # A reduction over a contiguous last axis depends on that row's values only: copies get equal keys.
        keys[:, start : start + step] = np.add.reduce(vectors * directions[:, None, :], axis=2)
    return keys


def _near(source: Source, directions: np.ndarray, floors: np.ndarray, *, error: float, rows: np.ndarray | None) -> list[np.ndarray]:
    """For each query the rows whose key may reach its floor, rounding allowed for row by row."""
    near: list[list[np.ndarray]] = [[] for _ in floors]
    narrow = np.ascontiguousarray(directions.T, dtype=np.float32)
    for part, tile in _tiles(source, directions.shape[1], rows):
        slack = error * np.sqrt(np.einsum("nd,nd->n", tile, tile, dtype=np.float64))
        place, query = np.nonzero(tile @ narrow + slack[:, None] >= floors)
        for number in np.unique(query):
            near[number].append(part[place[query == number]])
    return [np.concatenate(parts) for parts in near]


def _tiles(source: Source, width: int, rows: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    count = len(source) if rows is None else rows.size
    step = max(1, _TILE_VALUES // width)
    for start in range(0, count, step):
        stop = min(start + step, count)
        part = np.arange(start, stop) if rows is None else rows[start:stop]
        yield part, np.ascontiguousarray(source.take(slice(start, stop) if rows is None else part))
