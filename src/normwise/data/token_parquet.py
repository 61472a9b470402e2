"""Token ids in a list column of a parquet file: each row is a document."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.data.parquet_columns import choose_lists, open_pyarrow
from normwise.data.token_shards import refuse_changed, refuse_ids, whole_documents
from normwise.theory.stream_counts import CountPlan, StreamPart


@dataclass(frozen=True)
class ParquetShard:
    """One row group; it is read in batches of whole rows, so that memory grows with a batch or the longest row.

    Args:
        path: the file.
        size: its bytes.
        column: the list column.
        group: the row group.
        first_row: rows before it in the file.
        batch_rows: rows that are read at once.
        vocabulary: V.
        end: an id that ends documents inside rows too; None where only rows do.
    """

    path: Path
    size: int
    column: str
    group: int
    first_row: int
    batch_rows: int
    vocabulary: int
    end: int | None

    def parts(self, plan: CountPlan) -> Iterator[StreamPart]:
        """A part for each batch; see `TokenShard`."""
        pa, pq = open_pyarrow()
        refuse_changed(self.path, self.size)
        row = self.first_row
        with reading(self.path):
            try:
                # Without a buffer a whole row group would be read at once.
                file = pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False)
                for batch in file.iter_batches(batch_size=self.batch_rows, row_groups=[self.group], columns=[self.column]):
                    yield from whole_documents(*self._documents(batch.column(0), row), plan, self.end)
                    row += batch.num_rows
            except pa.ArrowException as error:
                raise InputError(f"{self.path}, row {row}: cannot be read: {error}") from None

    def _documents(self, lists: Any, first: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all rows, and the length of each."""
        where = f"{self.path}, row {{}} (from 0), column {self.column}"
        if lists.null_count:
            row = first + int(np.argmin(lists.is_valid().to_numpy(zero_copy_only=False)))
            raise InputError(f"{where.format(row)}: no list there; expected token ids in every row: drop that row")
        if hasattr(lists, "value_lengths"):
            lengths = np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
        else:
            lengths = np.full(len(lists), lists.type.list_size)
        bounds = np.cumsum(lengths)

        def words(place: int) -> str:
            row = int(np.searchsorted(bounds, place, side="right"))
            return f"{where.format(first + row)}, place {place - int(bounds[row] - lengths[row])}"

        values = lists.flatten()
        if values.null_count:
            place = int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False)))
            raise InputError(f"{words(place)}: an id is missing; expected one there: drop or repair that row")
        ids = values.to_numpy(zero_copy_only=False)
        refuse_ids(ids, self.vocabulary, words)
        return ids, lengths


def open_parquet(path: Path, *, column: str | None, shard_tokens: int, vocabulary: int, end: int | None) -> list[ParquetShard]:
    """Open a parquet file without reading its rows.

    Args:
        path: the file.
        column: the list column; None takes the only one of integers.
        shard_tokens: tokens that are read at once, about.
        vocabulary: V.
        end: an id that ends documents inside rows too.

    Returns:
        A shard for each row group that holds a row.

    Raises:
        InputError: no parquet file, no such column or several (they are listed), or no rows.
    """
    pa, pq = open_pyarrow()
    with reading(path):
        size = os.stat(path).st_size
        try:
            file = pq.ParquetFile(path)
        except pa.ArrowException as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None
    name = choose_lists(
        path, file.schema_arrow, column, holds=pa.types.is_integer, what="ids", lists_of="integers", detail="integer token ids"
    )
    leaf = next(place for place in range(len(file.schema.names)) if file.schema.column(place).path.startswith(f"{name}."))
    shards, row = [], 0
    for group in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(group)
        if found.num_rows:
            each = max(1, found.column(leaf).num_values // found.num_rows)
            shards.append(ParquetShard(path, size, name, group, row, max(1, shard_tokens // each), vocabulary, end))
        row += found.num_rows
    if not shards:
        raise InputError(f"{path} has no rows; expected at least one list of token ids")
    return shards
