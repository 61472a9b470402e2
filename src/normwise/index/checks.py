"""The checks of one argument each: what every vector, id, text, count and metadata value must be, whichever way it comes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from normwise.core.errors import InputError

Value = str | int | float | bool
_KINDS: tuple[type, ...] = (str, int, float, bool)
# As exact search takes them: within, no product of a direction and a vector overflows float32.
_SMALLEST_NORM, _LARGEST_NORM = 1e-32, 1e36
_LONGEST_ID = 1000


def check_matrix(x: np.ndarray, *, name: str, width: int | None) -> np.ndarray:
    """Rows of vectors (n, D) in floating point, of the index's width where it is known."""
    if not isinstance(x, np.ndarray):
        raise InputError(f"{name} are a {type(x).__name__}; expected a numpy array (rows, dimensions)")
    if isinstance(x, np.ma.MaskedArray):
        raise InputError(f"{name} are a masked array, and an index knows no holes: give plain ones, as by .filled() or with rows dropped")
    if x.ndim != 2:
        raise InputError(f"{name} have shape {x.shape}; expected two dimensions: rows of vectors")
    if x.dtype.kind != "f" or x.dtype.itemsize > 8:
        raise InputError(f"{name} hold {x.dtype}; expected float16, float32 or float64")
    if width is not None and x.shape[1] != width:
        raise InputError(f"{name} have {x.shape[1]} dimensions, and the index has {width}: all must come from one encoder")
    return x


def check_range(norms: np.ndarray, *, name: str) -> None:
    """Norms of 0 or 1e-32..1e36."""
    bad = np.flatnonzero((norms > _LARGEST_NORM) | ((norms < _SMALLEST_NORM) & (norms > 0.0)))
    if bad.size:
        raise InputError(
            f"{name}: row {bad[0]} has norm {norms[bad[0]]:.3g}; expected 0 or {_SMALLEST_NORM}..{_LARGEST_NORM}: rescale the vectors"
        )


def check_length(values: Sequence, count: int, *, name: str) -> Sequence:
    """A sequence with one value for each vector."""
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise InputError(f"{name} are a {type(values).__name__}; expected a sequence, one for each vector")
    if len(values) != count:
        raise InputError(f"{name} are {len(values)}, and the vectors {count}: expected one for each vector")
    return values


def check_strings(values: Sequence[str], count: int, *, name: str) -> Sequence[str]:
    """Strings that every server and file can hold, one for each vector."""
    for row, value in enumerate(check_length(values, count, name=name)):
        if not isinstance(value, str):
            raise InputError(f"{name}: row {row} is {value!r:.80}, a {type(value).__name__}; expected a string")
        check_letters(value, where=f"{name}: row {row}")
    return values


def check_letters(value: str, *, where: str) -> None:
    """No NUL and no half of a character."""
    if "\0" in value:
        raise InputError(f"{where} holds a NUL character, which no server stores: take it out")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where} holds half a character, which no UTF-8 file can hold: write it again") from None


def check_ids(ids: Sequence[str], count: int | None) -> tuple[str, ...]:
    """Distinct names of 1 to 1,000 characters."""
    if isinstance(ids, str) or not hasattr(ids, "__len__"):
        raise InputError(f"ids are a {type(ids).__name__}; expected a sequence of strings")
    names = tuple(check_strings(ids, len(ids) if count is None else count, name="ids"))
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name or len(name) > _LONGEST_ID:
            came = "is empty" if not name else f"has {len(name):,} characters"
            raise InputError(f"ids: row {row} {came}; expected 1 to {_LONGEST_ID:,} characters")
        if rows.setdefault(name, row) != row:
            raise InputError(f"ids: row {row} is {name!r:.80}, as row {rows[name]}: every candidate needs an id of its own")
    return names


def check_lengths(lengths: np.ndarray, count: int) -> np.ndarray:
    """(n,) token counts, finite and >= 0, as float64."""
    values = np.asarray(lengths)
    if values.dtype.kind not in "iuf" or values.shape != (count,):
        raise InputError(f"lengths have shape {values.shape} and type {values.dtype}; expected one token count for each of {count} vectors")
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0.0))
    if bad.size:
        raise InputError(f"lengths: row {bad[0]} is {values[bad[0]]}; expected a finite number >= 0")
    return values


def check_metadata(rows: Sequence[Mapping[str, Value]], kinds: dict[str, type]) -> dict[str, type]:
    """Flat tables in which a key has one type; `kinds`, those that are known before, with the new ones."""
    first: dict[str, int] = {}
    for row, table in enumerate(rows):
        if not isinstance(table, Mapping):
            raise InputError(f"metadata: row {row} is a {type(table).__name__}; expected a flat table of keys and values")
        for key, value in table.items():
            where = f"metadata: row {row}, key {key!r:.80}"
            if not isinstance(key, str) or not key:
                raise InputError(f"{where}; expected a name of at least one character")
            check_letters(key, where=f"{where},")
            check_value(value, where=where)
            kind = kinds.setdefault(key, type(value))
            if type(value) is not kind:
                seen = f"row {first[key]} has" if key in first else "the index has"
                raise InputError(f"{where} is {value!r:.80}, a {type(value).__name__}, and {seen} {kind.__name__}: one type for each key")
            first.setdefault(key, row)
    return kinds


def check_value(value: Value, *, where: str) -> None:
    """A string, truth value, finite number or whole number of 64 bits."""
    if type(value) not in _KINDS:
        raise InputError(f"{where} is a {type(value).__name__}; expected str, int, float or bool")
    if isinstance(value, str):
        check_letters(value, where=where)
    elif isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"{where} is {value}; expected a finite number")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{where} is a whole number beyond 64 bits: write it as a string")
