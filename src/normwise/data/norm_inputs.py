"""Vectors to be inspected, from any file that holds them: opened, never read whole, never unpickled."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, reading, user_path
from normwise.data.parquet_vectors import ParquetRows
from normwise.data.row_files import FileRows
from normwise.data.safetensors_tables import is_checkpoint, open_table
from normwise.data.token_strings import token_strings
from normwise.data.vectors import npy_header, refuse_other_size
from normwise.theory.norm_summary import Rows

_SAVE = "write it with numpy.save(path, vectors)"
_FORMATS = "a .npy file, a .parquet file with a column of vectors, or a .safetensors checkpoint"
# Beyond these, inner products of two rows in float32 overflow or vanish.
SMALLEST_NORM, LARGEST_NORM = 1e-30, 1e35
VECTOR_SUFFIXES = (".npy", ".parquet", ".safetensors", ".safetensors.index.json")


@dataclass(frozen=True)
class VectorInput:
    """Vectors that stand ready: their rows, what to call them, and how exactly they are stored.

    `epsilon` is the distance from 1 to the next number of the stored type, `stored` its name. `part` names the column or
    tensor that was taken. `tokens` are the strings of an embedding table's rows (None for rows without one), when a
    tokenizer stands beside it.
    """

    rows: Rows
    name: str
    stored: str
    epsilon: float
    part: str | None = None
    tokens: tuple[str | None, ...] | None = None
    notes: tuple[str, ...] = ()


def open_vectors(path: str | Path, *, column: str | None = None, table: str | None = None) -> VectorInput:
    """Open a file of vectors, or the embedding table of a checkpoint.

    Args:
        path: a .npy file of (N, D) float16, float32 or float64; a .parquet file; a .safetensors file, the index of its
            shards, or a folder of them. What it is is read off its first bytes, not off its name.
        column: of a parquet file: the list column; None takes the only one.
        table: of a checkpoint: the tensor; None takes the obvious one.

    Returns:
        The vectors. Values that are not finite are kept: whoever reads decides.

    Raises:
        InputError: missing, another shape or type, Python objects or a pickle (never opened), or an argument that does
            not apply to such a file.

    Example:
        >>> open_vectors("gone.npy")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.npy does not exist: expected a .npy file, a .parquet file with a column of vectors, or a .safetensors checkpoint
    """  # noqa: E501 - the message is one line
    path = user_path(path, what="vectors")
    kind = kind_of(path)
    if kind not in ("file", "folder"):
        came = {"other": "is a device or a pipe", None: "does not exist"}[kind]
        raise InputError(f"{path} {came}: expected {_FORMATS}")
    if kind == "folder" or is_checkpoint(path):
        _refuse_argument("column", column, path, "a parquet file")
        return _open_checkpoint(path, table=table)
    refuse_table(table, path)
    with reading(path), path.open("rb") as file:
        magic = file.read(8)
    if magic[:4] == b"PAR1":
        rows = ParquetRows(path, column=column)
        return VectorInput(rows, path.name, str(rows.dtype), rows.epsilon, part=rows.column)
    _refuse_argument("column", column, path, "a parquet file")
    if magic[:6] != b"\x93NUMPY":
        raise InputError(f"{path} {_what_it_is(magic)}; expected {_FORMATS}")
    rows = _open_npy(path)
    return VectorInput(rows, path.name, str(rows.dtype), rows.epsilon)


def array_input(vectors: np.ndarray, *, name: str = "array") -> VectorInput:
    """Take an array of vectors as it is; a whole, read-only memory map is read through its file, in blocks.

    Args:
        vectors: (N, D) float16, float32 or float64, N and D at least 1; a masked array without a masked value.
        name: what to call it.

    Raises:
        InputError: another shape or type, or a masked value.

    Example:
        >>> array_input(np.ones(3))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: array has shape (3,); expected two dimensions: rows of vectors. Make it two: .reshape(-1, D) of vectors of D dimensions one after the other, or .reshape(1, -1) of one vector
    """  # noqa: E501 - the message is one line
    _check_shape(name, vectors.shape, vectors.dtype)
    if isinstance(vectors, np.ma.MaskedArray):
        vectors = _unmasked(vectors, name)
    rows = _behind_map(vectors) if isinstance(vectors, np.memmap) else None
    return VectorInput(vectors if rows is None else rows, name, str(vectors.dtype), float(np.finfo(vectors.dtype).eps))


def refuse_extreme_norms(norms: np.ndarray, *, name: str) -> None:
    """Refuse vectors so long or so short that inner products of two would overflow or vanish.

    Args:
        norms: (N,) >= 0, NaN where a row is not finite; zero is allowed.
        name: of the file or array.

    Raises:
        InputError: a norm above 1e35, or a positive one below 1e-30; the message names its row.

    Example:
        >>> refuse_extreme_norms(np.array([1.0, 1e300]), name="x.npy")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: x.npy, row 1 has norm 1e+300; expected 0, or 1e-30 to 1e+35: divide all vectors by one number, which changes no figure but the scale
    """  # noqa: E501 - the message is one line
    bad = np.flatnonzero((norms > LARGEST_NORM) | ((norms > 0.0) & (norms < SMALLEST_NORM)))
    if bad.size:
        raise InputError(
            f"{name}, row {bad[0]} has norm {norms[bad[0]]:.3g}; expected 0, or {SMALLEST_NORM:g} to {LARGEST_NORM:g}: divide all vectors "
            "by one number, which changes no figure but the scale"
        )


def _unmasked(vectors: np.ma.MaskedArray, name: str) -> np.ndarray:
    masked = np.ma.getmaskarray(vectors).any(axis=1)
    if masked.any():
        raise InputError(
            f"{name} is masked: row {int(np.argmax(masked))}, the first of {int(masked.sum()):,} such rows, has masked values; expected a "
            "number everywhere: leave those rows out (numpy.ma.compress_rows)"
        )
    return vectors.data


def _behind_map(vectors: np.memmap) -> FileRows | None:
    """The file of a memory map, whose touched pages would count as memory; None for a part of one, whose place is not told."""
    whole = isinstance(vectors.base, mmap.mmap) and vectors.mode == "r" and vectors.filename is not None
    if not whole or not (vectors.flags.c_contiguous or vectors.flags.f_contiguous):
        return None
    shape = (vectors.shape[0], vectors.shape[1])
    in_columns = not vectors.flags.c_contiguous
    return FileRows(Path(str(vectors.filename)), offset=vectors.offset, shape=shape, stored=vectors.dtype.str, in_columns=in_columns)


def _open_npy(path: Path) -> FileRows:
    with reading(path), path.open("rb") as file:
        shape, in_columns, dtype = npy_header(file, path)
        offset = file.tell()
    _check_shape(str(path), shape, dtype, opened=f"numpy.load({str(path)!r})")
    refuse_other_size(path, offset + math.prod(shape) * dtype.itemsize, shape=shape, dtype=dtype)
    return FileRows(path, offset=offset, shape=(shape[0], shape[1]), stored=dtype.str, in_columns=in_columns)


def _check_shape(name: str, shape: tuple[int, ...], dtype: np.dtype, *, opened: str = "") -> None:
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, which are never opened; {_SAVE} from a float array")
    if len(shape) != 2:
        one = f"{opened}.reshape(1, -1) of one vector"
        flat = f". Make it two: {opened}.reshape(-1, D) of vectors of D dimensions one after the other, or {one}"
        raise InputError(f"{name} has shape {shape}; expected two dimensions: rows of vectors{flat if len(shape) == 1 else ''}")
    if dtype.kind in "iu":
        raise InputError(
            f"{name} holds {dtype}; expected float16, float32 or float64: vectors quantized to whole numbers have lost their norms, "
            "which cannot be recovered; encode again in floats"
        )
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{name} holds {dtype}; expected float16, float32 or float64")
    if min(shape) < 1:
        raise InputError(f"{name} has shape {shape}; expected at least one row and one column")


def _open_checkpoint(path: Path, *, table: str | None) -> VectorInput:
    rows, name = open_table(path, name=table)
    strings, note = token_strings(path if path.is_dir() else path.parent, rows=rows.shape[0])
    stored = {"<f8": "float64", "<f4": "float32", "<f2": "float16"}.get(rows.stored, rows.stored)
    return VectorInput(rows, f"{path.name}: {name}", stored, rows.epsilon, part=name, tokens=strings, notes=(note,))


def _refuse_argument(argument: str, value: str | None, path: Path, belongs: str) -> None:
    if value is not None:
        raise InputError(f"{argument} = {value!r} is of {belongs}, and {path} is none: leave it out")


def refuse_table(table: str | None, path: Path) -> None:
    """Refuse the name of a tensor, "auto" too, for a path that is neither a checkpoint nor a folder."""
    if kind_of(path) != "folder" and not is_checkpoint(path):
        _refuse_argument("table", table, path, "a checkpoint")


def _what_it_is(magic: bytes) -> str:
    if magic[:2] == b"PK":
        return f"is a zip archive (.npz, or torch.save's), which is not opened: {_SAVE}, or save a checkpoint as safetensors"
    if magic[:1] == b"\x80":
        return f"looks like a pickle, which is never opened, since it could run code: {_SAVE}"
    if not magic:
        return "is empty"
    return "is no file of vectors (bare numbers without a header do not tell their shape: write numpy.lib.format.open_memmap)"
