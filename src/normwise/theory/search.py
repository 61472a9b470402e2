"""Exact nearest neighbors by cosine and by dot product, streamed over tiles of candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.in_threads import allowed_threads
from normwise.theory.pool import GROUP, Pool, Tile, Vectors

_TILE_ROWS = 2048
_FIRST_TILES = 8
_BLOCK_VALUES = 1 << 21
_STRIP_ROWS = 16 * GROUP
_SMALLEST_NORM, _LARGEST_NORM = 1e-32, 1e36
RANKINGS = ("cosine", "dot")


@dataclass(frozen=True)
class TopK:
    """The K best candidates of every query: `scores` descend, equal scores by ascending row in `indices`."""

    scores: np.ndarray
    indices: np.ndarray


def exact_top_k(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "N _"],
    *,
    k: int,
    rankings: Sequence[str] = RANKINGS,
    tile_rows: int = _TILE_ROWS,
) -> dict[str, TopK]:
    """Return the exact top k of each query under one or both rankings, in one pass over the candidates.

    Equation: `dot` ranks by hat q . c (a query's own norm never changes its order), `cosine` by hat q . hat c. A key is
    computed in float64 and rounded to float32; keys that are then equal are tied, and **a tie goes to the lower row**.
    The result depends on the vectors only: not on tiles, threads or the position of a duplicate.

    How: a float32 matrix product per tile serves both rankings. A candidate is dropped only if its product lies below
    the running k-th best by more than the worst rounding error of that product, (D + 16) 2^-24 ||c||; what is left is
    scored again in float64. Memory is that of the result plus some tiles; the candidates are never copied. Where more
    candidates than a tile holds lie within rounding of the k-th place (a collapsed encoder), it is correct but slow.

    Args:
        queries: (B, D) float16, float32 or float64; B may be 0.
        candidates: (N, D), the same types; may be a memory map. Integers are refused by `load_vectors` upstream.
        k: how many to return, >= 1; more than N gives N.
        rankings: some of "cosine" and "dot".
        tile_rows: candidates per matrix product; it changes speed, never the result.

    Returns:
        For each ranking a `TopK` of (B, min(k, N)): `indices` int64 rows of `candidates`; `scores` float64 with float32
        precision: the cosine, or q . c (as ||q|| times the key, so it does not overflow). A zero vector scores 0.

    Raises:
        InputError: a width, k or ranking is wrong, a value is NaN or infinite, or a norm leaves 1e-32..1e36.

    Example:
        >>> q, c = np.array([[1.0, 0.0]]), np.array([[0.9, 0.1], [3.0, 3.0], [0.9, 0.1]])
        >>> {name: top.indices.tolist() for name, top in exact_top_k(q, c, k=2).items()}
        {'cosine': [[0, 2]], 'dot': [[1, 0]]}
    """
    _check_call(queries, candidates, k=k, rankings=rankings, tile_rows=tile_rows)
    vectors = _prepare(queries, candidates)
    k = min(k, candidates.shape[0])
    pools = {name: Pool(vectors, k=k, cosine=name == "cosine") for name in rankings}
    threads = max(1, min(allowed_threads(), math.ceil(queries.shape[0] / 64)))
    ranges = [slice(int(s[0]), int(s[-1]) + 1) for s in np.array_split(np.arange(queries.shape[0]), threads) if s.size]
    with _one_blas_thread_each(threads), ThreadPoolExecutor(max_workers=threads) as executor:
        workers = [_Worker(vectors, pools, rows) for rows in ranges]
        for start, tile in _tiles(candidates, tile_rows, k=k):
            list(executor.map(lambda worker, start=start, tile=tile: worker.add(start, tile), workers))
        results = list(executor.map(lambda worker: worker.finish(), workers))
    return {name: _join([result[name] for result in results], k=k) for name in rankings}


class _Worker:
    """One thread's share of the queries, with scratch for one block of scores."""

    def __init__(self, vectors: Vectors, pools: dict[str, Pool], rows: slice) -> None:
        self.vectors, self.pools, self.rows = vectors, pools, rows
        self.scratch: dict[str, np.ndarray] = {}

    def add(self, first: int, candidates: np.ndarray) -> None:
        """Score one tile of candidates against this worker's queries and offer it to the pools."""
        count = candidates.shape[0]
        block = max(1, _BLOCK_VALUES // count)
        for start in range(self.rows.start, self.rows.stop, block):
            queries = slice(start, min(start + block, self.rows.stop))
            width = queries.stop - queries.start
            scores = self._array("scores", count, width)
            np.matmul(candidates, self.vectors.query_directions[queries].T, out=scores)
            tile, maxima = Tile(scores, first), self._array("maxima", math.ceil(count / GROUP), width)
            for pool in self.pools.values():
                if pool.cosine:
                    self._reduce_scaled(tile, maxima)
                else:
                    tile.reduce(scores, maxima)
                if first == 0:
                    pool.seed(queries, tile, maxima)
                pool.add(queries, tile, maxima)

    def _array(self, name: str, rows: int, width: int) -> np.ndarray:
        """Return scratch of a shape; the memory is kept from tile to tile."""
        if name not in self.scratch or self.scratch[name].size < rows * width:
            self.scratch[name] = np.empty(rows * width, dtype=np.float32)
        return self.scratch[name][: rows * width].reshape(rows, width)

    def _reduce_scaled(self, tile: Tile, maxima: np.ndarray) -> None:
        """Write the maxima of scores times inverse norms, strip by strip so that the scaled copy stays in cache."""
        count, width = tile.scores.shape
        for start in range(0, count, _STRIP_ROWS):
            rows = slice(start, min(start + _STRIP_ROWS, count))
            strip = self._array("strip", rows.stop - start, width)
            np.multiply(tile.scores[rows], self.vectors.inverse_norms[tile.first :][rows, None], out=strip)
            tile.reduce(strip, maxima[start // GROUP :])

    def finish(self) -> dict[str, TopK]:
        """Return the settled answers of this worker's queries."""
        return {name: TopK(*pool.finish(self.rows)) for name, pool in self.pools.items()}


def _tiles(candidates: np.ndarray, tile_rows: int, *, k: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield float32 tiles; the first is larger, so that floors are high before most candidates are looked at."""
    start, size = 0, max(_FIRST_TILES * tile_rows, k)
    while start < candidates.shape[0]:
        yield start, np.ascontiguousarray(candidates[start : start + size], dtype=np.float32)
        start, size = start + size, tile_rows


def _prepare(queries: np.ndarray, candidates: np.ndarray) -> Vectors:
    query_norms = exact_norms(queries, name="queries")
    candidate_norms = exact_norms(candidates, name="candidates")
    for name, lengths in (("queries", query_norms), ("candidates", candidate_norms)):
        bad = np.flatnonzero((lengths > _LARGEST_NORM) | ((lengths < _SMALLEST_NORM) & (lengths > 0.0)))
        if bad.size:
            raise InputError(
                f"{name}: row {bad[0]} has norm {lengths[bad[0]]:.3g}; expected 0 or {_SMALLEST_NORM}..{_LARGEST_NORM}: rescale the vectors"
            )
    inverse = np.divide(1.0, candidate_norms, out=np.zeros_like(candidate_norms), where=candidate_norms > 0.0)
    return Vectors(
        queries=queries,
        candidates=candidates,
        query_norms=query_norms,
        candidate_norms=candidate_norms,
        query_directions=normalize(queries).astype(np.float32, copy=False),
        inverse_norms=inverse.astype(np.float32),
    )


def _join(parts: list[TopK], *, k: int) -> TopK:
    if not parts:
        return TopK(scores=np.empty((0, k)), indices=np.empty((0, k), dtype=np.int64))
    return TopK(scores=np.concatenate([p.scores for p in parts]), indices=np.concatenate([p.indices for p in parts]))


@contextmanager
def _one_blas_thread_each(threads: int) -> Iterator[None]:
    """Let our threads replace those of the matrix library, so that the passes over a tile run in parallel too."""
    with threadpool_limits(1, user_api="blas") if threads > 1 else nullcontext():
        yield


def _check_call(queries: np.ndarray, candidates: np.ndarray, *, k: int, rankings: Sequence[str], tile_rows: int) -> None:
    if queries.shape[1] != candidates.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions, candidates {candidates.shape[1]}: both must come from one encoder")
    if candidates.shape[0] == 0 or candidates.shape[1] == 0:
        raise InputError(f"candidates have shape {candidates.shape}: expected at least one row and one column")
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1")
    if tile_rows < 1:
        raise InputError(f"tile_rows is {tile_rows}; expected at least 1")
    unknown = [name for name in rankings if name not in RANKINGS]
    if unknown or not rankings:
        raise InputError(f"rankings are {list(rankings)}; expected some of {list(RANKINGS)} (the other similarities rank as one of them)")
