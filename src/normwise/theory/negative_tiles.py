"""The pass over a pool of negatives in tiles, from which sums over sets of them come."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.negative_logs import log_sums_of, pairwise_log_sums
from normwise.theory.negative_masks import Masks

# Tiles hold a power of two of negatives, so that sets of 1, 2, 4, ... are parts of them; a jackknife leaves out one of many tiles.
_LEAST_TILES, _MOST_TILE = 32, 1024
# A block of queries and a tile make terms that stay near a processor, in products large enough to be fast.
_BLOCK_QUERIES = 1024
# So many negatives tell how much to take off the scores, near enough.
_FIRST = 64
# A risk is a mean over at most so many disjoint sets of k negatives: more of them would move a mean over many queries by less than its
# error.
MOST_SETS = 64
# Of a negative with a smaller share w of the sum, log(1 - w) is -w - w^2/2 to w^3/3.
_SMALL = 1e-2
# What is left of a sum beside one term of it is known to no better than this.
_LEAST_REST = 1e-7
# A smaller sum of float32 is done again in the log domain: terms of it may have been lost.
_LEAST_SUM = 1e-30


class Tiles:
    """The sums so far of all queries; a block of queries is worked on by one thread.

    Small arrays are touched as seldom as can be: beside a product of 1,024 x 1,024 their cost is not small.
    """

    def __init__(
        self,
        queries: Float[np.ndarray, "B D"],
        candidates: Float[np.ndarray, "M D"],
        masked: tuple[np.ndarray, np.ndarray] | None,
        *,
        threads: int,
    ) -> None:
        count, self.candidates, self.pool = len(queries), candidates, len(candidates)
        self.tile = min(_MOST_TILE, 1 << max(0, (self.pool // _LEAST_TILES).bit_length() - 1))
        # As many blocks for every thread, and as large.
        many = max(1, -(-count // _BLOCK_QUERIES))
        edges = np.linspace(0, count, min(count, -(-many // threads) * threads) + 1).astype(int).tolist()
        self.blocks = [slice(low, high) for low, high in zip(edges[:-1], edges[1:], strict=True)]
        self.masks = Masks(count, self.pool, masked, self.tile)
        self.masks.find_scores(queries, candidates)
        # The last column is what is taken off every score.
        self.queries = np.concatenate([queries, np.zeros((count, 1))], axis=1).astype(np.float32)
        self.sums = np.zeros((-(-self.pool // self.tile), count))
        self.total, self.squares = np.zeros(count), np.zeros(count)
        self.least = int(self.masks.size.min())
        # Over the negatives of the tile that holds the last of the fewest that any query has, up to it.
        self.rest = np.zeros(count)
        powers = [1 << power for power in range(self.tile.bit_length() - 1)]
        self.parts = {k: np.zeros((count, min(MOST_SETS, self.pool // k)), np.float32) for k in powers}
        self.large: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in self.blocks]

    def go(self, share: range) -> None:
        """Take in all tiles for some blocks of queries."""
        part = np.ones((self.tile, self.candidates.shape[1] + 1), dtype=np.float32)
        most = max(self.blocks[which].stop - self.blocks[which].start for which in share)
        room, ones = np.empty(most * self.tile, dtype=np.float32), np.ones(self.tile, dtype=np.float32)
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
                    if which in waiting:
                        self._settle(block, number, part[: min(count, _FIRST)])
                    squares = self._add(block, number, part[:count], terms, ones)
                if squares is None:
                    self._settle(block, number, part[:count])
                    squares = self._add(block, number, part[:count], terms, ones)
                if which in waiting and self.total[block].all():
                    waiting.discard(which)
                if squares is not None:
                    self._keep_large(which, terms, squares)

    def _add(self, block: slice, number: int, part: np.ndarray, terms: np.ndarray, ones: np.ndarray) -> np.ndarray | None:
        """Take in one tile for one block of queries, unless a term of it is too large.

        Leaves e^(s - shift) in `terms`, and returns the sums of their squares.
        """
        np.matmul(self.queries[block], part.T, out=terms)
        self.masks.put(terms, block, number, -self.queries[block, -1])
        np.exp(terms, out=terms)
        squares = np.vecdot(terms, terms)
        if not squares.max() < np.inf:
            return None
        sums = self._fill(block, number * self.tile, terms, ones)
        if sums is None:
            sums = terms @ ones[: terms.shape[1]]
        if number == self.least // self.tile:
            self.rest[block] = terms[:, : self.least % self.tile].sum(axis=1)
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
                found = found[:, : found.shape[1] - 1 : 2] + found[:, 1::2]
            room[:] = found[:, : room.shape[1]]
        return None if found is None or width < self.tile else found.sum(axis=1)

    def _settle(self, block: slice, number: int, part: np.ndarray) -> None:
        """Take that much off the scores of a block that no term of a tile, or of the first of it, is above 1.

        It is done where queries are new, or a term is far above.
        """
        terms = self.queries[block] @ part.T
        self.masks.put(terms, block, number, -self.queries[block, -1])
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
        self.rest[rows] *= scale
        self.squares[rows] *= scale**2
        for sums in self.parts.values():
            sums[rows] = sums[rows] * scale[:, None]

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

    @property
    def shift(self) -> Float[np.ndarray, " B"]:
        """What was taken off the scores."""
        return -self.queries[:, -1].astype(np.float64)

    def beyond(self) -> Float[np.ndarray, " B"]:
        """Sum over negatives of log(1 - w) + w + w^2/2, w their share of the sum, over those with a large one."""
        shift = self.shift
        found = np.zeros(len(shift))
        for block, kept in zip(self.blocks, self.large, strict=True):
            if kept:
                rows, scores = (np.concatenate(part) for part in zip(*kept, strict=True))
                rows = rows + block.start
                share = np.exp(scores - shift[rows]) / self.total[rows]
                rows, share = rows[share >= _SMALL], np.minimum(share[share >= _SMALL], 1.0 - _LEAST_REST)
                np.add.at(found, rows, np.log1p(-share) + share + share**2 / 2.0)
        return found

    def logs(self) -> tuple[Float[np.ndarray, "B T"], dict[int, np.ndarray], Int[np.ndarray, "B T"]]:
        """Log sums over tiles, log means over sets of k, and the negatives in each tile.

        Sets are there for k = 1, 2, 4, ... below the fewest negatives of a query, and for these; NaN where a query has no k left.
        """
        counts = self.masks.counts(len(self.sums)).T
        first = self.sums[: self.least // self.tile].sum(axis=0) + self.rest
        sums = {k: sums for k, sums in self.parts.items() if k < self.least}
        with np.errstate(divide="ignore"):
            tiles, whole = np.log(self.sums.T), np.log(first)
            sets = {k: np.log(sums, dtype=np.float64) for k, sums in sums.items()}
        self._mend(tiles, whole, sets, first)
        k, row = self.tile, tiles
        while k < self.least and row.shape[1]:
            sets[k] = row[:, : min(MOST_SETS, self.pool // k)].copy()
            row, k = pairwise_log_sums(row), 2 * k
        for k, found in sets.items():
            found -= np.log(k)
            if self.masks.any:
                found[np.arange(found.shape[1])[None, :] >= (self.masks.size // k)[:, None]] = np.nan
        return tiles, sets | {self.least: (whole - np.log(self.least))[:, None]}, counts

    def _mend(self, tiles: np.ndarray, whole: np.ndarray, sets: dict[int, np.ndarray], first: np.ndarray) -> None:
        """Do again, in the log domain, what float32 has lost; in place."""
        least, width = np.log(_LEAST_SUM), len(self.sums) * self.tile
        upto = np.zeros(len(whole), dtype=np.int64)
        for k, logs in sets.items():
            there = np.arange(logs.shape[1])[None, :] < (self.masks.size // k)[:, None]
            upto[((logs < least) & there).any(axis=1)] = min(-(-k * logs.shape[1] // self.tile) * self.tile, width)
        there = np.arange(len(self.sums))[None, :] * self.tile < self.masks.size[:, None]
        upto[((tiles < least) & there).any(axis=1) | (first < _LEAST_SUM)] = width
        rows = np.flatnonzero(upto)
        if not rows.size:
            return

        def take(queries: np.ndarray, k: int, logs: np.ndarray) -> None:
            if k in sets:
                made = min(logs.shape[1], sets[k].shape[1])
                sets[k][queries, :made] = logs[:, :made]
            if k == self.tile:
                tiles[queries, : logs.shape[1]] = logs
            if k == 1 and logs.shape[1] == width:
                whole[queries] = np.logaddexp.reduce(logs[:, : self.least], axis=1)

        log_sums_of(rows, upto[rows], self._scores, take)

    def _scores(self, rows: np.ndarray, upto: int) -> np.ndarray:
        """The first negatives of some queries, with the shift taken off; -inf beyond the last."""
        found = np.full((rows.size, upto), -np.inf)
        part = np.ones((self.tile, self.candidates.shape[1] + 1), dtype=np.float32)
        for low in range(0, min(upto, self.pool), self.tile):
            count = min(self.tile, self.pool - low)
            part[:count, :-1] = self.candidates[low : low + count]
            terms = self.queries[rows] @ part[:count].T
            for at, row in enumerate(rows.tolist() if self.masks.any else []):
                self.masks.put(terms[at : at + 1], slice(row, row + 1), low // self.tile, -self.queries[row : row + 1, -1])
            found[:, low : low + count] = terms
        return found
