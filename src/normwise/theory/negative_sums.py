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

# Tiles hold a power of two of negatives, so that sets of 1, 2, 4, ... are parts of them; a jackknife leaves out one of many tiles.
_LEAST_TILES, _MOST_TILE = 32, 1024
# A block of queries and a tile make terms that stay in the cache of a processor.
_BLOCK_QUERIES = 1024
# So many negatives tell how much to take off the scores, near enough.
_FIRST = 64
# With fewer queries for each, a thread costs more than it gains.
_LEAST_QUERIES = 64
# A risk is a mean over at least so many disjoint sets of k negatives, where the pool has them: more of them would move a mean over
# many queries by less than its error.
MOST_SETS = 64
# Of a negative with a smaller share w of the sum, log(1 - w) is -w - w^2/2 to w^3/3.
_SMALL = 1e-2
# What is left of a sum beside one term of it is known to no better than this.
_LEAST_REST = 1e-7


@dataclass(frozen=True)
class NegativeSums:
    """What one pass over a pool of M negatives leaves of B queries; sums are of e^(s - shift).

    Args:
        shift: (B,) what was taken off the scores.
        sums: (B, T) over each tile of the pool.
        squares: (B,) of e^(2 (s - shift)) over all of it.
        counts: (B, T) negatives in each tile; masked pairs are none.
        beyond: (B,) sum over negatives of log(1 - w) + w + w^2/2, w = e^s / sum, over those with a w above .01.
        sets: k -> (B, S) means of e^(s - shift) over each of S disjoint sets of k negatives, for k = 1, 2, 4, ..., and over the whole
            pool, k then being the fewest negatives that any query has; NaN where a set holds masked pairs only.
    """

    shift: np.ndarray
    sums: np.ndarray
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

    @cached_property
    def total(self) -> Float[np.ndarray, " B"]:
        """(B,) sum over all negatives."""
        return self.sums.sum(axis=1)

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


def negative_sums(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "M _"],
    *,
    masked: tuple[np.ndarray, np.ndarray] | None = None,
) -> NegativeSums:
    """Go once over a pool of negatives, in tiles, and keep sums alone.

    How: the shift is one more column of the product, so that a score costs its product, one e^ and two sums. The first tile sets
    it; a tile in which a square leaves float32 raises it and is done again, and what was summed before is scaled.

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
    work = _Work(queries, candidates, masked, threads)
    # Every thread goes through all tiles with blocks of its own: none waits for another.
    shares = [range(len(work.blocks))[first::threads] for first in range(threads)]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(max_workers=threads) as pool:
        list(pool.map(work.go, shares))
    return work.result()


class _Work:
    """The sums so far of all queries; a block of queries is worked on by one thread.

    Small arrays are touched as seldom as can be: beside a product of 512 x 512 their cost is no longer small.
    """

    def __init__(self, queries: np.ndarray, candidates: np.ndarray, masked: tuple[np.ndarray, np.ndarray] | None, threads: int) -> None:
        count, self.candidates, self.pool = len(queries), candidates, len(candidates)
        self.tile = min(_MOST_TILE, 1 << max(0, (self.pool // _LEAST_TILES).bit_length() - 1))
        # As many for every thread, and as large.
        many = max(1, -(-count // _BLOCK_QUERIES))
        many = min(count, -(-many // threads) * threads)
        edges = np.linspace(0, count, many + 1).astype(int).tolist()
        self.blocks = [slice(low, high) for low, high in zip(edges[:-1], edges[1:], strict=True)]
        # The last column is what is taken off every score.
        self.queries = np.concatenate([queries, np.zeros((count, 1))], axis=1).astype(np.float32)
        self.sums = np.zeros((-(-self.pool // self.tile), count))
        self.total, self.squares = np.zeros(count), np.zeros(count)
        self.parts = {k: np.zeros((count, min(MOST_SETS, self.pool // k)), np.float32) for k in _powers(self.tile)}
        self.large: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in self.blocks]
        none = np.empty(0, dtype=np.int64)
        self.rows, self.places = (none, none) if masked is None else masked
        order = np.lexsort((self.rows, self.places // self.tile))
        self.rows, self.places = self.rows[order], self.places[order]
        self.starts = np.searchsorted(self.places // self.tile, np.arange(len(self.sums) + 1))

    def go(self, share: range) -> None:
        """Take in all tiles for some blocks of queries."""
        part = np.ones((self.tile, self.candidates.shape[1] + 1), dtype=np.float32)
        room, ones = np.empty(_BLOCK_QUERIES * self.tile, dtype=np.float32), np.ones(self.tile, dtype=np.float32)
        waiting = set(share)
        for number, low in enumerate(range(0, self.pool, self.tile)):
            count = min(self.tile, self.pool - low)
            part[:count, :-1] = self.candidates[low : low + count]
            for which in share:
                block = self.blocks[which]
                # The same memory for all: fresh memory costs a fault for each of its pages.
                terms = room[: (block.stop - block.start) * count].reshape(-1, count)
                # A term too large for float32 is met by taking more off.
                with np.errstate(over="ignore"):
                    squares = None if which in waiting else self._add(block, number, part[:count], terms, ones)
                if squares is None:
                    self._settle(block, number, part[: min(count, _FIRST) if which in waiting else count])
                    squares = self._add(block, number, part[:count], terms, ones)
                    if self.total[block].all():
                        waiting.discard(which)
                if squares is not None:
                    self._keep_large(which, terms, squares)

    def _add(self, block: slice, number: int, part: np.ndarray, terms: np.ndarray, ones: np.ndarray) -> np.ndarray | None:
        """Take in one tile for one block of queries, unless a term of it is too large.

        Leaves e^(s - shift) in `terms`, and returns the sums of their squares.
        """
        np.matmul(self.queries[block], part.T, out=terms)
        if self.starts[number] < self.starts[number + 1]:
            terms[self._gone(block, number)] = -np.inf
        np.exp(terms, out=terms)
        squares = np.vecdot(terms, terms)
        if not squares.max() < np.inf:
            return None
        sums = self._fill(block, number * self.tile, terms, ones)
        if sums is None:
            sums = terms @ ones[: terms.shape[1]]
        self.sums[number, block] = sums
        self.total[block] += sums
        self.squares[block] += squares
        return squares

    def _fill(self, block: slice, before: int, terms: np.ndarray, ones: np.ndarray) -> np.ndarray | None:
        """Keep sums over sets of k = 1, 2, 4, ... within a tile, where sets of that size are still to be filled; from them, over it all."""
        found, width = None, terms.shape[1]
        for k, sets in self.parts.items():
            room = sets[block, before // k : (before + width) // k]
            if not room.shape[1]:
                continue
            if found is None:
                found = (terms[:, : width // k * k].reshape(-1, k) @ ones[:k]).reshape(len(terms), -1) if k > 1 else terms
            else:
                found = _pairs(found)
            room[:] = found[:, : room.shape[1]]
        return None if found is None or width < self.tile else found.sum(axis=1)

    def _settle(self, block: slice, number: int, part: np.ndarray) -> None:
        """Take that much off the scores of a block that no term of a tile, or of the first of it, is above 1.

        It is done where queries are new, or a term is far above.
        """
        terms = self.queries[block] @ part.T
        rows, places = self._gone(block, number)
        terms[rows[places < len(part)], places[places < len(part)]] = -np.inf
        highest = terms.max(axis=1)
        bad = np.flatnonzero(np.isnan(highest) | (highest == np.inf))
        if bad.size:
            raise InputError(f"scores of query {block.start + bad[0]} are not all finite: check the vectors, and the temperature")
        here = np.flatnonzero(np.isfinite(highest) & ((highest > 0.0) | (self.total[block] == 0.0)))
        rows = block.start + here
        before = -self.queries[rows, -1]
        after = before + highest[here]
        self.queries[rows, -1] = -after
        # Where something was summed before, the shift is raised.
        old = self.total[rows] > 0.0
        rows, scale = rows[old], np.exp(before[old].astype(np.float64) - after[old])
        if not rows.size:
            return
        self.sums[:, rows] *= scale
        self.total[rows] *= scale
        self.squares[rows] *= scale**2
        for sums in self.parts.values():
            sums[rows] = sums[rows] * scale[:, None].astype(np.float32)

    def _gone(self, block: slice, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where a tile holds pairs that are no negatives."""
        here = slice(self.starts[number], self.starts[number + 1])
        first, last = np.searchsorted(self.rows[here], (block.start, block.stop))
        return self.rows[here][first:last] - block.start, self.places[here][first:last] - number * self.tile

    def _keep_large(self, which: int, terms: np.ndarray, squares: np.ndarray) -> None:
        """Keep the scores of negatives that hold a large share of the sum so far: none that does of the whole is missed."""
        block = self.blocks[which]
        # A little less, since the sum and its terms are rounded.
        bar = 0.99 * _SMALL * self.total[block]
        some = np.flatnonzero((squares >= bar * bar) & (bar > 0.0))
        if some.size:
            some = some[terms.max(axis=1)[some] >= bar[some]]
        if some.size:
            found, places = np.nonzero(terms[some] >= bar[some, None].astype(np.float32))
            rows = some[found]
            self.large[which].append((rows, np.log(terms[rows, places].astype(np.float64)) - self.queries[block.start + rows, -1]))

    def result(self) -> NegativeSums:
        """What is left once all tiles are in."""
        counts = np.zeros(self.sums.shape, dtype=np.int64)
        counts += np.minimum(self.tile, self.pool - self.tile * np.arange(len(counts)))[:, None]
        np.subtract.at(counts, (self.places // self.tile, self.rows), 1)
        empty = np.flatnonzero(counts.sum(axis=0) == 0)
        if empty.size:
            raise InputError(f"query {empty[0]} has no negative: every candidate of the pool is its own positive; give a larger pool")
        shift = -self.queries[:, -1].astype(np.float64)
        beyond = np.zeros(len(shift))
        for block, kept in zip(self.blocks, self.large, strict=True):
            if kept:
                rows, scores = (np.concatenate(part) for part in zip(*kept, strict=True))
                rows = rows + block.start
                share = np.exp(scores - shift[rows]) / self.total[rows]
                rows, share = rows[share >= _SMALL], np.minimum(share[share >= _SMALL], 1.0 - _LEAST_REST)
                np.add.at(beyond, rows, np.log1p(-share) + share + share**2 / 2.0)
        return NegativeSums(
            shift=shift,
            sums=self.sums.T,
            squares=self.squares,
            counts=counts.T,
            beyond=beyond,
            sets=self._sets(int(counts.sum(axis=0).min())),
        )

    def _sets(self, least: int) -> dict[int, np.ndarray]:
        found = {k: self._mean(k, sums) for k, sums in self.parts.items()}
        k, sums = self.tile, self.sums.T[:, : self.pool // self.tile]
        while k < self.pool and sums.shape[1]:
            found[k] = self._mean(k, sums[:, :MOST_SETS])
            sums, k = _pairs(sums), 2 * k
        # In place of sets as large as what masks leave of the pool.
        return {k: sets for k, sets in found.items() if k < least} | {least: self._mean(self.pool, self.total[:, None])}

    def _mean(self, k: int, sums: np.ndarray) -> np.ndarray:
        """Means over sets of k, whose masked pairs are none of them."""
        sets = self.places // k
        inside = sets < sums.shape[1]
        if not inside.any():
            return sums / sums.dtype.type(k)
        counts = np.full(sums.shape, float(k))
        np.subtract.at(counts, (self.rows[inside], sets[inside]), 1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums / counts


def _pairs(sums: np.ndarray) -> np.ndarray:
    """Of neighboring columns, two and two; a last one alone is left out."""
    return sums[:, : sums.shape[1] - 1 : 2] + sums[:, 1::2]


def _powers(tile: int) -> list[int]:
    """1, 2, 4, ... below a tile."""
    return [1 << power for power in range(tile.bit_length() - 1)]
