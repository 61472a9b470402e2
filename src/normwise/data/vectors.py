"""Bare vectors in `.npy` files, and judgements of them by row number."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError

import numpy as np

from normwise.core.errors import InputError
from normwise.data.lines import read_tsv

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
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}: expected a .npy file written by numpy.save")
    try:
        # A broken header reaches Python's own tokenizer, hence TokenError.
        vectors = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError, EOFError, SyntaxError, TokenError) as error:
        reason = "it holds Python objects" if "object" in str(error).lower() else str(error).splitlines()[0] if str(error) else "unreadable"
        raise InputError(f"{path} is not a .npy file of numbers: {reason}; write it with numpy.save(path, vectors)") from None
    if vectors.ndim != 2:
        raise InputError(f"{path} has shape {vectors.shape}; expected two dimensions: rows of vectors")
    if vectors.dtype.kind != "f" or vectors.dtype.itemsize > 8:
        raise InputError(f"{path} holds {vectors.dtype}; expected float16, float32 or float64 (quantized vectors: convert them first)")
    if 0 in vectors.shape:
        raise InputError(f"{path} has shape {vectors.shape}; expected at least one row and one column")
    _refuse_non_finite(vectors, path)
    return vectors


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
    path = Path(path)
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
        gain = _gain(cells[2], where=where)
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


def _gain(cell: str, *, where: str) -> float:
    if not _is_number(cell) or not 0.0 <= float(cell) < float("inf"):
        raise InputError(f"{where}: gain is {cell!r:.40}; expected a finite number >= 0")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
