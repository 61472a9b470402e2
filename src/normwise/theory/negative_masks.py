"""Pairs that are no negatives: what each query has left of a pool, brought to the front of it."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int

# Rows gathered at once for their scores.
_CHUNK = 1 << 14


class Masks:
    """Gives each query a pool without gaps: of M rows, its m masked ones change places with the last of the others.

    The negatives of a query then are at places 0 to M - m - 1, and any k places in a row of them are k negatives. Where the pool is in
    a random order, so are they: which rows change places is told by the masks alone.

    Args:
        queries: B, of them.
        pool: M, rows of the pool.
        masked: rows of queries and of the pool, (P,) each, of pairs that are no negatives; None masks none.
        tile: rows of the pool that are asked for at once.

    Raises:
        InputError: a query without a negative.
    """

    def __init__(self, queries: int, pool: int, masked: tuple[np.ndarray, np.ndarray] | None, tile: int) -> None:
        self.any, self._tile = masked is not None and masked[0].size > 0, tile
        self.size = np.full(queries, pool, dtype=np.int64)
        if masked is None or not self.any:
            return
        pairs = np.unique(masked[0].astype(np.int64) * pool + masked[1])
        rows, places = np.divmod(pairs, pool)
        many = np.bincount(rows, minlength=queries)
        self.size -= many
        empty = np.flatnonzero(self.size == 0)
        if empty.size:
            raise InputError(f"query {empty[0]} has no negative: every candidate of the pool is its own positive; give a larger pool")
        # The last m places of each query with m masked ones, in order.
        first = np.concatenate([[0], np.cumsum(many)[:-1]])
        last = self.size[rows] + np.arange(rows.size) - first[rows]
        # As many masked places lie before them as there are negatives among them.
        before = places < self.size[rows]
        taken = ~np.isin(rows * pool + last, pairs, assume_unique=True)
        self._gone = _ByTile(rows, last, tile)
        self._moved = _ByTile(rows[before], places[before], tile, last[taken])

    def find_scores(self, queries: Float[np.ndarray, "B D"], candidates: Float[np.ndarray, "M D"]) -> None:
        """Find the scores that change places; a query's shift is not taken off."""
        if not self.any:
            return
        rows, places = self._moved.rows, self._moved.values
        self._scores = np.empty(rows.size, dtype=np.float32)
        for low in range(0, rows.size, _CHUNK):
            here = slice(low, low + _CHUNK)
            self._scores[here] = np.einsum("ij,ij->i", queries[rows[here]], candidates[places[here]].astype(np.float32))

    def put(self, terms: Float[np.ndarray, "b t"], block: slice, number: int, off: Float[np.ndarray, " b"]) -> None:
        """Put into the scores of a block of queries with a tile what changed places, with `off` taken off, and -inf where nothing is."""
        if not self.any:
            return
        here = self._gone.within(block, number)
        low, width = number * self._tile, terms.shape[1]
        rows, places = self._gone.rows[here] - block.start, self._gone.places[here] - low
        inside = places < width
        terms[rows[inside], places[inside]] = -np.inf
        here = self._moved.within(block, number)
        rows, places = self._moved.rows[here] - block.start, self._moved.places[here] - low
        inside = places < width
        terms[rows[inside], places[inside]] = (self._scores[here] - off[rows])[inside]

    def counts(self, tiles: int) -> Int[np.ndarray, "T B"]:
        """Negatives of each query in each tile."""
        return np.clip(self.size[None, :] - self._tile * np.arange(tiles)[:, None], 0, self._tile)


class _ByTile:
    """Pairs in the order in which tiles, and blocks of queries in them, come."""

    def __init__(self, rows: np.ndarray, places: np.ndarray, tile: int, values: np.ndarray | None = None) -> None:
        numbers = places // tile
        order = np.lexsort((rows, numbers))
        self.rows, self.places, self._numbers = rows[order], places[order], numbers[order]
        self.values = np.empty(0, dtype=np.int64) if values is None else values[order]

    def within(self, block: slice, number: int) -> slice:
        low, high = np.searchsorted(self._numbers, (number, number + 1))
        first, last = np.searchsorted(self.rows[low:high], (block.start, block.stop))
        return slice(int(low + first), int(low + last))
