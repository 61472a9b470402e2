"""The running best candidates of every query during an exact search, with rounding errors accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float, Int

GROUP = 8
_UNIT_ROUNDOFF = 2.0**-24
_BLOCK_VALUES = 1 << 20
_GATHER_VALUES = 1 << 16


@dataclass(frozen=True)
class Vectors:
    """Both sides of a search with their float64 norms and what the float32 matrix product reads."""

    queries: np.ndarray
    candidates: np.ndarray
    query_norms: np.ndarray
    candidate_norms: np.ndarray
    query_directions: np.ndarray
    inverse_norms: np.ndarray


@dataclass(frozen=True)
class Tile:
    """Scores (N, B) of consecutive candidates from row `first` on; maxima are kept per `GROUP` rows and for the rest."""

    scores: np.ndarray
    first: int

    def reduce(self, values: Float[np.ndarray, "N B"], out: Float[np.ndarray, "G B"]) -> None:
        """Write the maxima of the groups of `values`, the last of which may be short."""
        whole = values.shape[0] // GROUP
        np.max(values[: whole * GROUP].reshape(whole, GROUP, values.shape[1]), axis=1, out=out[:whole])
        if whole * GROUP < values.shape[0]:
            np.max(values[whole * GROUP :], axis=0, out=out[whole])

    def hit_groups(
        self, maxima: Float[np.ndarray, "G B"], threshold: Float[np.ndarray, " B"]
    ) -> Iterator[tuple[np.ndarray, np.ndarray, int, int]]:
        """Yield (group, query) pairs whose maximum passes, with the row where groups start and their size."""
        group, query = np.divmod(np.flatnonzero(maxima > threshold), maxima.shape[1])
        whole, rest = divmod(self.scores.shape[0], GROUP)
        inner = group < whole
        if inner.any():
            yield group[inner], query[inner], 0, GROUP
        if not inner.all():
            yield np.zeros(np.count_nonzero(~inner), dtype=np.int64), query[~inner], whole * GROUP, rest


class Pool:
    """Candidates that may still be among the k best of their query under one ranking.

    `values` are float32 products whose distance from the exact key is at most `error` = (D + 16) 2^-24 times the
    candidate's norm (1 under cosine): D roundings of the sum, and room for those of the inputs, of the inverse norm and
    of the key itself. `floor` is a value that the exact k-th key is known to reach; what cannot reach it is dropped.
    """

    def __init__(self, vectors: Vectors, *, k: int, cosine: bool) -> None:
        count, width = vectors.queries.shape
        self.vectors, self.k, self.cosine = vectors, k, cosine
        self.capacity = min(3 * k + 64, vectors.candidates.shape[0])
        self.relative_error = (width + 16) * _UNIT_ROUNDOFF
        self.values = np.empty((count, self.capacity), dtype=np.float32)
        self.rows = np.empty((count, self.capacity), dtype=np.int64)
        self.count = np.zeros(count, dtype=np.int64)
        self.floor = np.full(count, -np.inf)
        # A zero query ties with everything: its answer is the first k rows, which `finish` fills in.
        self.floor[vectors.query_norms == 0.0] = np.inf

    def error(self, rows: Int[np.ndarray, " ..."]) -> Float[np.ndarray, " ..."]:
        """Return the largest distance between a float32 product and the exact key, per candidate row."""
        if self.cosine:
            return np.full(rows.shape, self.relative_error)
        return self.relative_error * self.vectors.candidate_norms[rows]

    def seed(self, queries: slice, tile: Tile, maxima: Float[np.ndarray, "G B"]) -> None:
        """Set the first floors from the first tile, which holds at least k rows.

        The k-th largest maximum is a floor too, since k groups hold k different rows, and it is near the k-th largest
        value where groups are many.
        """
        values = maxima
        if maxima.shape[0] < 2 * self.k:
            rows = slice(tile.first, tile.first + tile.scores.shape[0])
            values = tile.scores * self.vectors.inverse_norms[rows, None] if self.cosine else tile.scores
        place = values.shape[0] - self.k
        kth = np.partition(values.T, place, axis=1)[:, place]
        self.floor[queries] = np.maximum(self.floor[queries], kth - self.tile_error(tile))

    def tile_error(self, tile: Tile) -> float:
        """Return the largest `error` among the rows of a tile."""
        return float(self.error(np.arange(tile.first, tile.first + tile.scores.shape[0])).max())

    def add(self, queries: slice, tile: Tile, maxima: Float[np.ndarray, "G B"]) -> None:
        """Take in one tile of scores for a block of queries; `maxima` are those of its groups of rows."""
        # One step further down, so that the float32 threshold never lies above the float64 one.
        threshold = np.nextafter((self.floor[queries] - self.tile_error(tile)).astype(np.float32), np.float32(-np.inf))
        width = tile.scores.shape[1]
        for group, query, start, size in tile.hit_groups(maxima, threshold):
            first_rows = start + group * size
            values = np.take(tile.scores.reshape(-1), (first_rows * width + query)[:, None] + np.arange(size) * width, mode="clip")
            if self.cosine:
                values *= np.take(self.vectors.inverse_norms, (tile.first + first_rows)[:, None] + np.arange(size), mode="clip")
            hits = np.flatnonzero(values > threshold[query, None])
            pair, column = np.divmod(hits, size)
            # Sixteen bits sort by radix; `hit_groups` goes by rows, appending by queries.
            order = np.argsort(query[pair].astype(np.uint16) if width <= 1 << 16 else query[pair], kind="stable")
            pair = pair[order]
            rows = tile.first + first_rows[pair] + column[order]
            self._append(queries, query[pair], rows, values.reshape(-1)[hits[order]])

    def finish(self, queries: slice) -> tuple[Float[np.ndarray, "B K"], Int[np.ndarray, "B K"]]:
        """Return exact scores and rows of the k best, ties to the lower row, for a range of queries."""
        count = queries.stop - queries.start
        scores, indices = np.zeros((count, self.k)), np.tile(np.arange(self.k, dtype=np.int64), (count, 1))
        step = max(1, _BLOCK_VALUES // self.capacity)
        for start in range(queries.start, queries.stop, step):
            owners = np.arange(start, min(start + step, queries.stop))
            owners = owners[self.vectors.query_norms[owners] > 0.0]
            if not owners.size:
                continue
            self._compress(owners[self.count[owners] > self.k])
            keys, rows = self._padded_keys(owners)
            order = np.lexsort((rows, -keys), axis=-1)[:, : self.k]
            best = np.take_along_axis(keys, order, axis=1)
            scores[owners - queries.start] = best if self.cosine else best * self.vectors.query_norms[owners, None]
            indices[owners - queries.start] = np.take_along_axis(rows, order, axis=1)
        return scores, indices

    def _append(self, queries: slice, owners: Int[np.ndarray, " M"], rows: Int[np.ndarray, " M"], values: Float[np.ndarray, " M"]) -> None:
        """Append hits, sorted by their owner's place within `queries`, making room first where a query's list is full."""
        counts = np.bincount(owners, minlength=queries.stop - queries.start)
        starts = np.cumsum(counts) - counts
        offsets = np.arange(owners.size) - starts[owners]
        full = np.flatnonzero(self.count[queries] + counts > self.capacity)
        if full.size:
            self._compress(queries.start + full)
            full = full[self.count[queries.start + full] + counts[full] > self.capacity]
            for owner in full:
                self._absorb(int(queries.start + owner), rows[starts[owner] : starts[owner] + counts[owner]])
            counts[full] = 0
            kept = counts[owners] > 0
            owners, rows, values, offsets = owners[kept], rows[kept], values[kept], offsets[kept]
        places = (queries.start + owners) * self.capacity + self.count[queries][owners] + offsets
        self.values.reshape(-1)[places] = values
        self.rows.reshape(-1)[places] = rows
        self.count[queries] += counts

    def _compress(self, owners: Int[np.ndarray, " M"]) -> None:
        """Raise the floors of some queries to what their lists prove, and drop what can no longer win."""
        step = max(1, _BLOCK_VALUES // self.capacity)
        for start in range(0, owners.size, step):
            self._compress_block(owners[start : start + step])

    def _compress_block(self, owners: Int[np.ndarray, " M"]) -> None:
        filled = np.arange(self.capacity) < self.count[owners, None]
        values, rows = np.where(filled, self.values[owners], -np.inf), np.where(filled, self.rows[owners], 0)
        error = self.error(rows)
        kth = np.partition(values - error, self.capacity - self.k, axis=1)[:, self.capacity - self.k]
        self.floor[owners] = np.maximum(self.floor[owners], kth)
        kept = filled & (values + error >= self.floor[owners, None])
        local, column = np.nonzero(kept)
        counts = kept.sum(axis=1)
        positions = np.arange(local.size) - np.repeat(np.cumsum(counts) - counts, counts)
        self.values[owners[local], positions] = values[local, column]
        self.rows[owners[local], positions] = rows[local, column]
        self.count[owners] = counts

    def _absorb(self, owner: int, rows: Int[np.ndarray, " M"]) -> None:
        """Settle by exact keys a query with more near-ties than its list holds; later rows lose ties, so k suffice."""
        rows = np.concatenate([self.rows[owner, : self.count[owner]], rows])
        keys = self._keys(np.full(rows.shape, owner), rows)
        order = np.lexsort((rows, -keys))[: self.k]
        self.rows[owner, : order.size], self.values[owner, : order.size] = rows[order], keys[order]
        self.count[owner] = order.size
        last = rows[order[-1:]]
        self.floor[owner] = max(self.floor[owner], float(keys[order[-1]] - self.error(last)[0]))

    def _padded_keys(self, owners: Int[np.ndarray, " M"]) -> tuple[np.ndarray, np.ndarray]:
        counts = self.count[owners]
        filled = np.arange(counts.max()) < counts[:, None]
        local, column = np.nonzero(filled)
        keys = np.full(filled.shape, -np.inf)
        rows = np.full(filled.shape, self.vectors.candidates.shape[0], dtype=np.int64)
        rows[local, column] = self.rows[owners[local], column]
        keys[local, column] = self._keys(owners[local], rows[local, column])
        return keys, rows

    def _keys(self, queries: Int[np.ndarray, " M"], rows: Int[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """Return exact keys: float64 arithmetic in an order that depends on the width only, rounded to float32."""
        data = self.vectors
        keys = np.empty(rows.shape)
        width = data.candidates.shape[1]
        step = max(1, min(rows.size, _GATHER_VALUES // width))
        # Taken once: fresh memory for every part costs more than the products.
        candidates, asked = np.empty((step, width), data.candidates.dtype), np.empty((step, width), data.queries.dtype)
        products = np.empty((step, width))
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            size = rows[part].size
            np.take(data.candidates, rows[part], axis=0, out=candidates[:size], mode="clip")
            np.take(data.queries, queries[part], axis=0, out=asked[:size], mode="clip")
            np.multiply(candidates[:size], asked[:size], out=products[:size], dtype=np.float64)
            keys[part] = np.add.reduce(products[:size], axis=1) / data.query_norms[queries[part]]
        if self.cosine:
            lengths = data.candidate_norms[rows]
            np.divide(keys, lengths, out=keys, where=lengths > 0.0)
        return keys.astype(np.float32).astype(np.float64)
