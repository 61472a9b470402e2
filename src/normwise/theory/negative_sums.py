"""Sums of e^score over a pool of negatives, in one pass over tiles: what risks at every k, spreads and jackknives are made of."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.in_threads import allowed_threads
from normwise.theory.negative_tiles import Tiles

# With fewer queries for each, a thread costs more than it gains.
_LEAST_QUERIES = 64


@dataclass(frozen=True)
class NegativeSums:
    """What one pass over a pool of M negatives leaves of B queries; sums are of e^(s - shift).

    A query's negatives are M less its masked pairs; rows of the pool that it masks change places with the last that it does not.

    Args:
        shift: (B,) what was taken off the scores.
        tiles: (B, T) log sums over each tile of the pool; -inf where a query has none of it.
        total: (B,) sum over all negatives.
        squares: (B,) of e^(2 (s - shift)) over all of them.
        counts: (B, T) negatives in each tile.
        beyond: (B,) sum over negatives of log(1 - w) + w + w^2/2, w = e^s / sum, over those with a w above .01.
        sets: k -> (B, S) log means of e^(s - shift) over each of S disjoint sets of k negatives, for k = 1, 2, 4, ... and for the
            fewest negatives that any query has, then one set; NaN where a query has no k negatives left.
    """

    shift: np.ndarray
    tiles: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    counts: np.ndarray
    beyond: np.ndarray
    sets: Mapping[int, np.ndarray]

    @property
    def pool(self) -> int:
        """The fewest negatives that any query has."""
        return max(self.sets)

    @cached_property
    def size(self) -> Float[np.ndarray, " B"]:
        """(B,) negatives of each query."""
        return self.counts.sum(axis=1).astype(np.float64)

    @property
    def log_mean(self) -> Float[np.ndarray, " B"]:
        """(B,) log of the mean of e^s over all negatives."""
        return np.log(self.total / self.size) + self.shift

    @property
    def cv2(self) -> Float[np.ndarray, " B"]:
        """(B,) squared coefficient of variation of e^s over the pool, >= 0; the pool is taken as the population."""
        return np.maximum(0.0, self.squares / self.total * (self.size / self.total) - 1.0)

    @property
    def left_out(self) -> Float[np.ndarray, " B"]:
        """(B,) mean over negatives j of log(1 - w_j): by how much the log sum falls when one of them is left out."""
        return (self.beyond - 1.0 - self.squares / self.total**2 / 2.0) / self.size

    @cached_property
    def without_tile(self) -> Float[np.ndarray, "B T"]:
        """(B, T) log of the mean of e^(s - shift) over the pool without each tile; all of it where nothing is left.

        The last tile may be smaller than the others, which hardly matters beside 32 of them or more.
        """
        left = self.size[:, None] - self.counts
        highest = self.tiles.max(axis=1, keepdims=True)
        terms = np.exp(self.tiles - highest)
        total = terms.sum(axis=1, keepdims=True)
        rest = highest + np.log(np.maximum(total - terms, 0.5 * total))
        # Beside a tile that holds more than half, the others are summed: the difference would be rounding.
        rows, tiles = np.nonzero(terms > 0.5 * total)
        others = self.tiles[rows]
        others[np.arange(rows.size), tiles] = -np.inf
        rest[rows, tiles] = np.logaddexp.reduce(others, axis=1)
        rest = np.where(left > 0, rest, highest + np.log(total))
        return rest - np.log(np.where(left > 0, left, self.size[:, None]))


def negative_sums(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "M _"],
    *,
    masked: tuple[np.ndarray, np.ndarray] | None = None,
) -> NegativeSums:
    """Go once over a pool of negatives, in tiles, and keep sums alone.

    How: the shift is one more column of the product, so that a score costs its product, one e^ and two sums. The first tile sets
    it; a tile in which a square leaves float32 raises it and is done again, and what was summed before is scaled. Sums of which
    float32 has lost terms are done again in the log domain.

    Args:
        queries: (B, D) scaled so that the product with a candidate is the score, similarity / temperature.
        candidates: (M, D) the pool in a random order; may be a memory map.
        masked: rows of queries and of candidates, (P,) each, of pairs that are no negatives.

    Returns:
        The sums, in float64 of terms in float32.

    Raises:
        InputError: widths differ, no candidate, a query without a negative, or a score that is not finite; the message names the
            query.

    Example:
        >>> found = negative_sums(np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        >>> np.exp(found.log_mean).round(4).tolist(), round((2 * np.e + 1) / 3, 4)
        ([2.1455, 2.1455], 2.1455)
    """
    if queries.ndim != 2 or candidates.ndim != 2 or queries.shape[1] != candidates.shape[1] or not candidates.shape[0]:
        raise InputError(f"queries have shape {queries.shape}, candidates {candidates.shape}; expected rows of one width, and a candidate")
    threads = max(1, min(allowed_threads(), len(queries) // _LEAST_QUERIES))
    work = Tiles(queries, candidates, masked, threads=threads)
    threads = min(threads, len(work.blocks))
    # Every thread goes through all tiles with blocks of its own: none waits for another.
    shares = [range(len(work.blocks))[first::threads] for first in range(threads)]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(max_workers=threads) as pool:
        list(pool.map(work.go, shares))
    tiles, sets, counts = work.logs()
    return NegativeSums(
        shift=work.shift, tiles=tiles, total=work.total, squares=work.squares, counts=counts, beyond=work.beyond(), sets=sets
    )
