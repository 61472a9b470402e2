"""Norms and directions of arrays of vectors: the one place where arrays are normalized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float

_CHUNK_VALUES = 1 << 16


def norms(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
    """Return the Euclidean length of every row, computed in float64.

    Equation: r_i = sqrt(sum_d x_id^2). Rows that are bit-identical get bit-identical norms, wherever they stand.

    Args:
        x: (N, D) vectors; float16, float32 or float64; may be a memory map (it is read in chunks).

    Returns:
        (N,) norms >= 0 in the dtype of `x` (float32 for float16, whose range a norm can leave). A zero vector has
        norm 0.

    Raises:
        InputError: a value is NaN or infinite; the message names its row.

    Example:
        >>> norms(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 3e200]])).tolist()
        [5.0, 0.0, 3e+200]
    """
    return exact_norms(x, name="x").astype(_result_dtype(x))


def normalize(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Return the direction of every row; the direction of a zero vector is the zero vector.

    Equation: hat x_i = x_i / ||x_i||, and 0 where ||x_i|| = 0. No epsilon is added: 1e-30 and 1e30 come out exact.

    Args:
        x: (N, D) vectors; float16, float32 or float64.

    Returns:
        (N, D) directions in the dtype of `x` (float32 for float16); never NaN.

    Raises:
        InputError: a value is NaN or infinite; the message names its row.

    Example:
        >>> normalize(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = exact_norms(x, name="x")
    result = np.empty(x.shape, dtype=_result_dtype(x))
    for rows in row_chunks(*x.shape):
        block = x[rows].astype(np.float64)
        # Two divisions in place of one: the scaled vector keeps subnormal rows exact where 1 / norm would overflow.
        scale = _power_of_two_scale(block)
        np.divide(block, scale[:, None], out=block)
        length = np.divide(lengths[rows], scale)
        np.divide(block, np.where(length == 0.0, 1.0, length)[:, None], out=block)
        result[rows] = block
    return result


def exact_norms(x: Float[np.ndarray, "N D"], *, name: str) -> Float[np.ndarray, " N"]:
    """Return float64 norms of every row and refuse NaN and infinite values in the same pass.

    Args:
        x: (N, D) vectors; may be a memory map.
        name: what the array is called in the message.

    Returns:
        (N,) float64 norms >= 0.

    Raises:
        InputError: a value is NaN or infinite; the message names array, row and column.

    Example:
        >>> exact_norms(np.array([[1.0, np.nan]]), name="queries")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: queries: row 0, column 1 is nan; expected finite values: drop or repair that row
    """
    result = np.empty(x.shape[0], dtype=np.float64)
    for rows in row_chunks(*x.shape):
        block = x[rows].astype(np.float64)
        scale = _power_of_two_scale(block) if x.dtype == np.float64 else None
        if scale is not None:
            np.divide(block, scale[:, None], out=block)
        np.multiply(block, block, out=block)
        # A reduction over a contiguous last axis depends on that row's values only, never on its position.
        np.sqrt(np.add.reduce(block, axis=1), out=result[rows])
        if scale is not None:
            result[rows] *= scale
        if not np.isfinite(result[rows]).all():
            _refuse_non_finite(x[rows], first_row=rows.start, name=name)
    return result


def row_chunks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that hold about 65,000 values each, few enough to stay in cache.

    Example:
        >>> [(s.start, s.stop) for s in row_chunks(5, 1 << 15)]
        [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, _CHUNK_VALUES // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _power_of_two_scale(block: np.ndarray) -> np.ndarray:
    """Return per row a power of two near its largest value (1 for zero or non-finite rows), so that squares stay in range."""
    largest = np.abs(block).max(axis=1, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0.0)
    _, exponent = np.frexp(np.where(usable, largest, 0.5))
    # 2^1023 is the largest power of two of float64, 2^-1022 its smallest normal one.
    return np.ldexp(1.0, np.clip(exponent, -1022, 1023))


def _refuse_non_finite(block: np.ndarray, *, first_row: int, name: str) -> None:
    bad = np.argwhere(~np.isfinite(block))
    if bad.size:
        row, column = (int(i) for i in bad[0])
        value = float(block[row, column])
        raise InputError(f"{name}: row {first_row + row}, column {column} is {value}; expected finite values: drop or repair that row")
    raise InputError(f"{name}: a row from {first_row} on has a norm beyond float64; rescale the vectors")


def _result_dtype(x: np.ndarray) -> np.dtype:
    return np.dtype(np.float32) if x.dtype == np.float16 else np.dtype(x.dtype.type)
