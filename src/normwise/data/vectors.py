"""Bare vectors in `.npy` files, and judgements of them by row number."""

from __future__ import annotations

import io
import math
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import write_bytes
from normwise.data.lines import read_gain, read_tsv
from normwise.data.opening import kind_of, reading, user_path

_CHUNK_VALUES = 1 << 22
_HEADER = ("query", "candidate", "gain")


def load_vectors(path: str | Path) -> np.ndarray:
    """Open a `.npy` file of vectors as a read-only memory map and check it.

    Args:
        path: a file that `numpy.save` wrote: (N, D), float16, float32 or float64, N and D at least 1.

    Returns:
        (N, D) memory map; nothing is copied.

    Raises:
        InputError: no such file, not a `.npy` file, another shape or type, or a value that is NaN or infinite; the
            message names file, row and column.

    Example:
        >>> load_vectors("vectors.csv")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: vectors.csv does not exist: expected a .npy file written by numpy.save
    """
    path = user_path(path, what="vectors")
    kind = kind_of(path)
    if kind != "file":
        came = {"folder": "is a folder", "other": "is a device or a pipe", None: "does not exist"}[kind]
        raise InputError(f"{path} {came}: expected a .npy file written by numpy.save")
    with reading(path), path.open("rb") as file:
        shape, in_columns, dtype = npy_header(file, path)
        offset = file.tell()
    if len(shape) != 2:
        raise InputError(f"{path} has shape {shape}; expected two dimensions: rows of vectors")
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{path} holds {dtype}; expected float16, float32 or float64 (quantized vectors: convert them first)")
    if min(shape) < 1:
        raise InputError(f"{path} has shape {shape}; expected at least one row and one column")
    refuse_other_size(path, offset + math.prod(shape) * dtype.itemsize, shape=shape, dtype=dtype)
    with reading(path):
        vectors = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if in_columns else "C")
    _refuse_non_finite(vectors, path)
    return vectors


def write_array(path: Path, values: np.ndarray) -> None:
    """Write one array as `.npy`, atomically."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def npy_header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns are contiguous, and type; the file is left at its first value."""
    try:
        version = np.lib.format.read_magic(file)
        # Version 3 exists for records with fields whose names are not Latin-1.
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, in_columns, dtype = read(file)
    except (ValueError, EOFError, SyntaxError, TokenError, RecursionError, MemoryError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else "unreadable"
        raise InputError(f"{path} is not a .npy file of numbers: {reason}; write it with numpy.save(path, vectors)") from None
    if dtype.hasobject:
        raise InputError(f"{path} is not a .npy file of numbers: it holds Python objects; write it with numpy.save(path, vectors)")
    return shape, in_columns, dtype


def refuse_other_size(path: Path, wanted: int, *, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse a file that is cut short or goes on behind its array."""
    found = path.stat().st_size
    if found != wanted:
        what = "is cut short" if found < wanted else "goes on behind its array"
        raise InputError(
            f"{path} {what}: {shape} of {dtype} make {wanted:,} bytes, and it has {found:,}; copy it again, or write it with numpy.save"
        )


def load_row_judgements(path: str | Path, *, queries: int, candidates: int) -> tuple[dict[int, float], ...]:
    """Read judgements of bare vectors: tab-separated query row, candidate row, gain, all counted from 0.

    Args:
        path: the file; a first line of names (as in BEIR's qrels) is skipped.
        queries: number of query vectors B.
        candidates: number of candidate vectors N.

    Returns:
        For each query a dict candidate row -> gain > 0; gains of 0 say "not relevant" and are left out.

    Raises:
        InputError: a line that does not read so, a row out of range, a negative gain, a pair judged twice, or no
            relevant pair at all; the message names file, line and column.

    Example:
        >>> load_row_judgements("gone.tsv", queries=1, candidates=1)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.tsv does not exist: check the path
    """
    path = user_path(path, what="qrels")
    judged: list[dict[int, float]] = [{} for _ in range(queries)]
    seen: set[tuple[int, int]] = set()
    for place, (number, cells) in enumerate(read_tsv(path)):
        where = f"{path}, line {number}"
        if len(cells) != len(_HEADER):
            raise InputError(f"{where}: {len(cells)} tab-separated columns; expected query row, candidate row, gain")
        if place == 0 and not any(_is_number(cell) for cell in cells):
            continue
        query = _row(cells[0], queries, where=where, column=_HEADER[0])
        candidate = _row(cells[1], candidates, where=where, column=_HEADER[1])
        gain = read_gain(cells[2], where=f"{where}, column {_HEADER[2]}")
        if (query, candidate) in seen:
            raise InputError(f"{where}: query {query} and candidate {candidate} are judged a second time: keep one line")
        seen.add((query, candidate))
        if gain > 0.0:
            judged[query][candidate] = gain
    if not any(judged):
        raise InputError(f"{path} holds no relevant pair: expected lines of query row, candidate row, gain > 0")
    return tuple(judged)


def _refuse_non_finite(vectors: np.ndarray, path: Path) -> None:
    step = max(1, _CHUNK_VALUES // vectors.shape[1])
    for start in range(0, vectors.shape[0], step):
        bad = np.argwhere(~np.isfinite(vectors[start : start + step]))
        if bad.size:
            row, column = start + int(bad[0, 0]), int(bad[0, 1])
            raise InputError(
                f"{path}, row {row}, column {column}: {float(vectors[row, column])}; expected finite values: drop or repair that row"
            )


def _row(cell: str, count: int, *, where: str, column: str) -> int:
    try:
        row = int(cell)
    except ValueError:
        raise InputError(f"{where}: {column} is {cell!r:.40}; expected a row number from 0") from None
    if not 0 <= row < count:
        raise InputError(f"{where}: {column} is {row}; expected a row from 0 to {count - 1}")
    return row


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
