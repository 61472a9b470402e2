"""A column of vectors in a parquet file, read in batches: nothing but one batch is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.data.parquet_columns import choose_lists, open_pyarrow

_BATCH = 8_192


@final
class ParquetRows:
    """A list column as (N, D) rows; slices in ascending order are read in one pass, chosen rows in another.

    Args:
        path: the file.
        column: the list column; None takes the only one whose lists hold floats.

    Raises:
        InputError: no parquet file, no such column or several (they are listed), missing or ragged rows.
    """

    def __init__(self, path: Path, *, column: str | None = None) -> None:
        pa, pq = open_pyarrow()
        self.path, self._errors = path, (pa.ArrowException, OSError)
        with reading(path):
            try:
                # Without a buffer a whole row group would be read at once, and some files are one.
                self._file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
            except pa.ArrowException as error:
                raise InputError(f"{path} is not a readable parquet file: {error}") from None
        self.column = choose_lists(
            path,
            self._file.schema_arrow,
            column,
            holds=pa.types.is_floating,
            what="vectors",
            lists_of="floats",
            detail="floats of 16, 32 or 64 bits",
        )
        value = self._file.schema_arrow.field(self.column).type.value_type
        self._type = np.dtype(value.to_pandas_dtype())
        groups = [self._file.metadata.row_group(place).num_rows for place in range(self._file.metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
        self._width = 0
        self._stream: Iterator[tuple[int, np.ndarray]] = iter(())
        self._next, self._left = -1, np.empty((0, 0), dtype=self._type)
        if self._starts[-1] < 1:
            raise InputError(f"{path} has no rows; expected at least one vector")
        self._width = next(self._batches(0))[1].shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return int(self._starts[-1]), self._width

    @property
    def dtype(self) -> np.dtype:
        """The type of what comes out."""
        return self._type

    @property
    def epsilon(self) -> float:
        """From 1 to the next number of the stored type."""
        return float(np.finfo(self._type).eps)

    def __getitem__(self, key: Any, /) -> np.ndarray:
        """Rows of a slice, or those an array of row numbers names, in its order."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.shape[0])
            return self._range(start, max(start, stop))
        rows = np.asarray(key, dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        found = np.empty((rows.size, self.shape[1]), dtype=self._type)
        wanted, done = rows[order], 0
        while done < rows.size:
            group = int(np.searchsorted(self._starts, wanted[done], side="right")) - 1
            for first, block in self._batches(group, only=True):
                last = int(np.searchsorted(wanted, first + len(block), side="left"))
                found[order[done:last]] = block[wanted[done:last] - first]
                done = last
        return found

    def _range(self, start: int, stop: int) -> np.ndarray:
        if start != self._next:
            group = int(np.searchsorted(self._starts, start, side="right")) - 1
            self._stream, self._left = self._batches(group), np.empty((0, self.shape[1]), dtype=self._type)
            skip = start - int(self._starts[group])
        else:
            skip = 0
        parts, have = [self._left[skip:]], max(0, len(self._left) - skip)
        skip = max(0, skip - len(self._left))
        while have < stop - start:
            block = next(self._stream)[1]
            kept = block[skip:]
            skip = max(0, skip - len(block))
            parts.append(kept)
            have += len(kept)
        whole = np.concatenate(parts)
        self._next, self._left = stop, whole[stop - start :]
        return whole[: stop - start]

    def _batches(self, group: int, *, only: bool = False) -> Iterator[tuple[int, np.ndarray]]:
        """(First row, vectors) of the batches from a row group on, or of that group alone."""
        first = int(self._starts[group])
        groups = [group] if only else list(range(group, len(self._starts) - 1))
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH, row_groups=groups, columns=[self.column]):
                if batch.num_rows:
                    yield first, self._vectors(batch.column(0), first)
                first += batch.num_rows
        except self._errors as error:
            raise InputError(f"{self.path}, row {first}: cannot be read: {error}") from None

    def _vectors(self, lists: Any, first: int) -> np.ndarray:
        where = f"{self.path}, row {{}}, column {self.column}"
        if lists.null_count:
            row = int(np.argmin(lists.is_valid().to_numpy(zero_copy_only=False)))
            raise InputError(f"{where.format(first + row)}: no vector there; expected one in every row: drop or repair that row")
        if hasattr(lists, "value_lengths"):
            lengths = np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False))
        else:
            lengths = np.full(len(lists), lists.type.list_size)
        width = self._width or int(lengths[0])
        if width < 1:
            raise InputError(f"{where.format(first)}: an empty list; expected a vector of at least one number")
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise InputError(
                f"{where.format(first + row)}: {int(lengths[row])} numbers; expected {width}, as in the first row: drop or repair it"
            )
        values = lists.flatten()
        if values.null_count:
            row = int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False))) // width
            raise InputError(f"{where.format(first + row)}: a number is missing; expected {width} of them: drop or repair that row")
        return values.to_numpy(zero_copy_only=False).reshape(-1, width)
