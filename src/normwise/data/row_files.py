"""Rows of numbers in a file, read in blocks: the file is neither held nor mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading

_BFLOAT16 = "bfloat16"
_BLOCK_VALUES = 1 << 22


@final
class FileRows:
    """A (N, D) array in a file; a slice or an array of row numbers gives those rows.

    Why no memory map: pages that were touched count as memory of the process, and to take some thousand rows from all over
    a large file the system may map half a megabyte around each. bfloat16, which numpy lacks, comes out as float32: its
    bits are the upper half of a float32's, so that nothing is rounded.

    Args:
        path: the file.
        offset: of the first value, in bytes.
        shape: (N, D).
        stored: numpy's name of the type, such as "<f4", or "bfloat16".
        in_columns: whether columns are contiguous; chosen rows then cost a pass over the file.

    Raises:
        InputError: the file cannot be read, or ends early.
    """

    def __init__(self, path: Path, *, offset: int, shape: tuple[int, int], stored: str, in_columns: bool = False) -> None:
        self.path, self.stored, self._offset, self._shape, self._in_columns = path, stored, offset, shape, in_columns
        self._kind = np.dtype("<u2") if stored == _BFLOAT16 else np.dtype(stored)
        with reading(path):
            self._file = path.open("rb", buffering=0)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """The type of what comes out."""
        return np.dtype(np.float32) if self.stored == _BFLOAT16 else self._kind.newbyteorder("=")

    @property
    def epsilon(self) -> float:
        """From 1 to the next number of the stored type."""
        return 2.0**-7 if self.stored == _BFLOAT16 else float(np.finfo(self.dtype).eps)

    def __getitem__(self, key: Any, /) -> np.ndarray:
        """Rows as a C-ordered array in native byte order."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(self._shape[0])
            return self._decoded(self._range(start, max(start, stop)))
        rows = np.asarray(key, dtype=np.int64)
        return self._decoded(self._picked_in_columns(rows) if self._in_columns else self._picked(rows))

    def close(self) -> None:
        """Close the file; no row can be read afterwards."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _range(self, start: int, stop: int) -> np.ndarray:
        count, width = stop - start, self._shape[1]
        if not self._in_columns:
            found = np.empty((count, width), dtype=self._kind)
            self._read(found, start * width)
            return found
        columns = np.empty((width, count), dtype=self._kind)
        for column in range(width):
            self._read(columns[column], column * self._shape[0] + start)
        return np.ascontiguousarray(columns.T)

    def _picked(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty((rows.size, self._shape[1]), dtype=self._kind)
        for place in np.argsort(rows, kind="stable"):
            self._read(found[place], int(rows[place]) * self._shape[1])
        return found

    def _picked_in_columns(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty((rows.size, self._shape[1]), dtype=self._kind)
        for start, stop in self._blocks():
            mine = np.flatnonzero((rows >= start) & (rows < stop))
            if mine.size:
                found[mine] = self._range(start, stop)[rows[mine] - start]
        return found

    def _blocks(self) -> Iterator[tuple[int, int]]:
        step = max(1, _BLOCK_VALUES // self._shape[1])
        for start in range(0, self._shape[0], step):
            yield start, min(start + step, self._shape[0])

    def _read(self, target: np.ndarray, first: int) -> None:
        """Fill a contiguous array with the values from the first-th on."""
        left = target.data.cast("B") if target.size else memoryview(b"")
        with reading(self.path):
            self._file.seek(self._offset + first * self._kind.itemsize)
            while left:
                # One call gives at most about 2 GB.
                got = self._file.readinto(left)
                if not got:
                    raise InputError(f"{self.path} ends early: it changed while it was read; copy it again")
                left = left[got:]

    def _decoded(self, found: np.ndarray) -> np.ndarray:
        if self.stored == _BFLOAT16:
            return (found.astype(np.uint32) << 16).view(np.float32)
        return found.astype(self.dtype, copy=False)
