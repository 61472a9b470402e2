"""Exact nearest neighbors under many priors on candidates at once: cosine times a weight of the candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.pool import GROUP, Pool, Tile, Vectors

_TILE_ROWS = 2048
_BLOCK_VALUES = 1 << 20
# A scoring keeps a float64 and a float32 number per candidate, so that this many of them take 400 MB.
_HELD_VALUES = 1 << 25
# e^60 times the smallest float32 roundoff still leaves room in float32; no sensible prior is that steep.
_WIDEST = 60.0


def weighted_top_k(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "N _"],
    log_weights: Float[np.ndarray, "F _"],
    scorings: Sequence[tuple[int, float]],
    *,
    k: int,
    tile_rows: int = _TILE_ROWS,
) -> Int[np.ndarray, "M B K"]:
    """Return the exact top k of each query under many weighted cosines, from one pass over the candidates.

    Equation: key_m(q, d) = cos(q, d) * w_fd^beta for the m-th scoring (f, beta), with log w_f a row of `log_weights`. A key is
    computed in float64 and rounded to float32 (each scoring scaled so that its largest weight is 1, which changes no order); a
    tie goes to the lower row. With beta = 0 the answer is that of `exact_top_k` under cosine, and with w = ||d|| and beta = 1
    that under dot, up to such ties. A cosine below 0 sinks further under a weight above 1: that is what the equation says.

    How: tiles of candidates meet all queries in one float32 matrix product, which serves all scorings; each keeps its own
    pool of candidates that may still win (see `Pool`), so memory is that of the pools and of M weights per candidate. More than
    2^25 such weights are split over several passes.

    Args:
        queries: (B, D) float16, float32 or float64.
        candidates: (N, D), the same types; may be a memory map.
        log_weights: (F, N) finite logs of the weights of F priors; that of a zero vector is never used.
        scorings: M pairs of a row of `log_weights` and an exponent.
        k: how many to return, >= 1; more than N gives N.
        tile_rows: candidates per matrix product; it changes speed, never the result.

    Returns:
        (M, B, min(k, N)) rows of `candidates`, best first.

    Raises:
        InputError: shapes do not fit, a scoring names no row, a weight is not finite, or one scoring's weights span more than
            e^60.

    Reference: the score cos(q, d) * ||d||^beta is what the norm's use in retrieval was shown with; other priors are its controls.

    Example:
        >>> q, c = np.array([[1.0, 0.2]]), np.array([[1.0, 0.0], [3.0, 3.0], [1.0, 0.4]])
        >>> weighted_top_k(q, c, np.log(np.linalg.norm(c, axis=1))[None], [(0, 0.0), (0, 1.0), (0, -9.0)], k=3).tolist()
        [[[2, 0, 1]], [[1, 2, 0]], [[0, 2, 1]]]
    """
    _check(queries, candidates, log_weights, scorings, k=k, tile_rows=tile_rows)
    count = candidates.shape[0]
    k = min(k, count)
    lengths, query_lengths = exact_norms(candidates, name="candidates"), exact_norms(queries, name="queries")
    directions = normalize(queries).astype(np.float32, copy=False)
    result = np.empty((len(scorings), queries.shape[0], k), dtype=np.int64)
    step = max(1, _HELD_VALUES // count)
    for start in range(0, len(scorings), step):
        part = scorings[start : start + step]
        pools = [
            Pool(_weighted(queries, candidates, query_lengths, lengths, directions, log_weights[row] * beta), k=k, cosine=True)
            for row, beta in part
        ]
        _fill(pools, directions, candidates, tile_rows=max(tile_rows, k))
        for place, pool in enumerate(pools):
            result[start + place] = pool.finish(slice(0, queries.shape[0]))[1]
    return result


def _weighted(
    queries: np.ndarray, candidates: np.ndarray, query_lengths: np.ndarray, lengths: np.ndarray, directions: np.ndarray, logs: np.ndarray
) -> Vectors:
    """Vectors whose "cosine" is the weighted one: a length divided by the weight scales the cosine by it.

    Weights are at most 1, so the error bound of an unweighted cosine holds for the weighted one.
    """
    nonzero = lengths > 0.0
    # A zero vector scores 0 whatever its weight.
    top = logs[nonzero].max() if nonzero.any() else 0.0
    effective = np.where(nonzero, lengths * np.exp(np.where(nonzero, top - logs, 0.0)), 0.0)
    inverse = np.divide(1.0, effective, out=np.zeros_like(effective), where=nonzero)
    return Vectors(
        queries=queries,
        candidates=candidates,
        query_norms=query_lengths,
        candidate_norms=effective,
        query_directions=directions,
        inverse_norms=inverse.astype(np.float32),
    )


def _fill(pools: Sequence[Pool], directions: np.ndarray, candidates: np.ndarray, *, tile_rows: int) -> None:
    """Offer every tile of candidates to every pool; the first tile holds at least k rows."""
    count = directions.shape[0]
    for first in range(0, candidates.shape[0], tile_rows):
        rows = np.ascontiguousarray(candidates[first : first + tile_rows], dtype=np.float32)
        block = max(1, _BLOCK_VALUES // rows.shape[0])
        for start in range(0, count, block):
            queries = slice(start, min(start + block, count))
            tile = Tile(rows @ directions[queries].T, first)
            maxima = np.empty((math.ceil(rows.shape[0] / GROUP), queries.stop - queries.start), dtype=np.float32)
            scaled = np.empty_like(tile.scores)
            for pool in pools:
                np.multiply(tile.scores, pool.vectors.inverse_norms[first : first + rows.shape[0], None], out=scaled)
                tile.reduce(scaled, maxima)
                if first == 0:
                    pool.seed(queries, tile, maxima)
                pool.add(queries, tile, maxima)


def _check(
    queries: np.ndarray,
    candidates: np.ndarray,
    log_weights: np.ndarray,
    scorings: Sequence[tuple[int, float]],
    *,
    k: int,
    tile_rows: int,
) -> None:
    if queries.shape[1] != candidates.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions, candidates {candidates.shape[1]}: both must come from one encoder")
    if 0 in candidates.shape:
        raise InputError(f"candidates have shape {candidates.shape}: expected at least one row and one column")
    if log_weights.shape[1] != candidates.shape[0]:
        raise InputError(f"log_weights have {log_weights.shape[1]} columns for {candidates.shape[0]} candidates; expected one each")
    if k < 1 or tile_rows < 1:
        raise InputError(f"k is {k} and tile_rows {tile_rows}; expected at least 1 of both")
    if not np.isfinite(log_weights).all():
        row, column = np.argwhere(~np.isfinite(log_weights))[0]
        raise InputError(f"log_weights: prior {row} is {log_weights[row, column]} for candidate {column}; expected a finite log")
    for row, beta in scorings:
        if not 0 <= row < log_weights.shape[0]:
            raise InputError(f"scorings name prior {row}; expected 0 to {log_weights.shape[0] - 1}")
        if not math.isfinite(beta) or abs(beta) * float(np.ptp(log_weights[row])) > _WIDEST:
            raise InputError(f"beta = {beta} makes the weights of prior {row} span more than e^{_WIDEST:g}: take a smaller exponent")
