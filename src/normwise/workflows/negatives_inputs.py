"""What people give to `normwise negatives`: arguments of the right type and range, vectors that can be read and cast."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.vectors import load_vectors
from normwise.theory.directions import exact_norms, normalize, row_chunks

# Beyond it a float64 no longer tells a number from the next.
MOST_COUNT = 1 << 53
LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-6, 1e6
MOST_SCORE = 1e5
MOST_PRODUCT = 1e30
_LONG = 10**40
_UNIT = 1e-3
_SCALE = "(a scale of 20 is 1 / 0.05)"


@dataclass(frozen=True)
class Limits:
    """At most so many queries and negatives, drawn by `seed`."""

    queries: int
    pool: int
    seed: int


@dataclass(frozen=True)
class Words:
    """What messages and reports call vectors.

    Args:
        source: all of them.
        queries: those of queries.
        positives: likewise.
        pool: likewise.
        asked: where the similarity comes from.
        row: what a row of the queries is called.
    """

    source: str
    queries: str = "queries"
    positives: str = "positives"
    pool: str = "pool"
    asked: str = "as asked"
    row: Callable[[int], str] | None = None

    def of_row(self, row: int) -> str:
        """What a query is called."""
        return f"{self.queries}, row {row}" if self.row is None else self.row(row)


def checked_count(name: str, value: Any, *, least: int = 1, most: int | None = MOST_COUNT) -> int:
    """A whole number within its range.

    Example:
        >>> checked_count("k", 1.5)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: k is 1.5; expected a whole number of 1 or above
    """
    if not _is_of(value, Integral):
        raise InputError(f"{name} is {_shown(value)}; expected a whole number of {least} or above")
    if value < least:
        raise InputError(f"{name} is {_shown(value)}; expected {least} or above")
    if most is not None and value > most:
        raise InputError(f"{name} is {_shown(value)}; expected {most:,} at most (2^53)")
    return int(value)


def checked_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {_shown(value)}; expected True or False")
    return bool(value)


def checked_place(name: str, value: Any) -> str | Path | None:
    """A path or a name, or nothing."""
    if value is not None and not isinstance(value, str | Path):
        raise InputError(f"{name} is {_shown(value)}; expected a path, as text or pathlib.Path")
    return value


def checked_temperature(value: Any, *, name: str = "temperature") -> float:
    """A temperature within the range that float32 has scores for."""
    if value is None:
        raise InputError(f"{name} is missing: give that of the training loss, such as 0.05 {_SCALE}")
    if not _is_of(value, Real):
        raise InputError(f"{name} is {_shown(value)}; expected a number, such as 0.05 {_SCALE}")
    if not LEAST_TEMPERATURE <= value <= MOST_TEMPERATURE:
        wanted = f"a finite number above 0, from {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, such as 0.05 {_SCALE}"
        raise InputError(f"{name} is {_shown(value)}; expected {wanted}")
    return float(value)


def checked_temperatures(value: Any) -> tuple[float, ...] | None:
    """Those of the sweep; None leaves the choice open."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = list(value)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InputError(f"temperatures is {_shown(value)}; expected a list of numbers, such as [0.02, 0.05, 0.1]")
    return tuple(checked_temperature(each, name=f"temperatures[{at}]") for at, each in enumerate(value))


def named(given: str | Path | np.ndarray | None, name: str) -> str:
    """What messages call vectors: their file, else their argument."""
    return str(given) if isinstance(given, str | Path) else name


def opened(given: Any, argument: str) -> np.ndarray:
    """Vectors of a file or of an array, checked for shape, type and values."""
    if isinstance(given, str | Path):
        return load_vectors(given)
    if type(given) not in (np.ndarray, np.memmap):
        more = ": fill what is masked first" if isinstance(given, np.ma.MaskedArray) else f": pass np.asarray({argument}, dtype=np.float32)"
        way = ": decode the path" if isinstance(given, bytes) else more
        raise InputError(f"{argument} is of type {type(given).__name__}; expected a numpy array of rows of floats, or a .npy file{way}")
    if given.ndim != 2 or not given.size or given.dtype.kind != "f" or given.dtype.itemsize > 8:
        raise InputError(
            f"{argument} have shape {given.shape} of {given.dtype}; expected rows of float vectors, at least one, as float16, 32 or 64"
        )
    exact_norms(given, name=argument)
    return given


def scale_notes(temperature: float, largest: float) -> list[str]:
    """Say that a temperature looks like a scale, where similarities are cosines and it leaves them less than one nat either way.

    Args:
        temperature: tau.
        largest: no similarity is larger.
    """
    if temperature <= 1.0 or largest > 1.0 + _UNIT:
        return []
    return [
        f"temperature {temperature:g} leaves cosines scores of {1.0 / temperature:.3g} at most, and looks like a scale: was "
        f"1 / {temperature:g} = {1.0 / temperature:.4g} meant?"
    ]


def same_vectors(first: str | Path | np.ndarray, second: str | Path | np.ndarray | None) -> bool:
    """Whether two arguments are one file or one array."""
    if isinstance(first, str | Path) and isinstance(second, str | Path):
        return os.path.samefile(first, second)
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.shape == second.shape and first.__array_interface__["data"] == second.__array_interface__["data"]
    return False


def taken(
    vectors: np.ndarray, rows: np.ndarray, *, name: str, normalized: bool, called: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as float32, as they are or their directions, and their lengths in float64.

    A file is read once from front to back, whatever the order of the rows. Directions are taken before the cast, so that no scale of
    the vectors matters to them. Messages call the rows as `called` does, where it is given.

    Raises:
        InputError: a row of zeros, which has no direction; a row that float32 does not hold.
    """
    called = rows if called is None else called
    order = np.argsort(rows, kind="stable")
    found, lengths = np.empty((len(rows), vectors.shape[1]), dtype=np.float32), np.empty(len(rows))
    wide = vectors.dtype.itemsize > found.dtype.itemsize
    for chunk in row_chunks(len(rows), vectors.shape[1]):
        here = order[chunk]
        block = vectors[rows[here]].astype(np.float64)
        lengths[here] = exact_norms(block, name=name)
        if normalized:
            _refuse(lengths[here] == 0.0, called[here], name, "is all zeros, which has no direction: leave that row out, or score by dot")
            block = normalize(block)
        elif wide:
            _refuse_unfit(block, called[here], name)
        found[here] = block
    return found, lengths


def refuse_far(scores: np.ndarray, name: Callable[[int], str]) -> None:
    """Refuse scores of positives of which float32 no longer holds a hundredth of a nat."""
    far = int(np.argmax(np.abs(scores)))
    if abs(scores[far]) > MOST_SCORE:
        raise InputError(
            f"{name(far)}: the score of its positive (similarity / temperature) is {scores[far]:.4g}; expected {MOST_SCORE:g} at most, "
            "since beyond it float32 does not hold a hundredth of a nat: raise the temperature, scale the vectors down, or score by cosine"
        )


def refuse_unheld(largest: float, own: float, *, least: float) -> None:
    """Refuse vectors whose scores at the least temperature of a sweep float32 does not hold.

    Args:
        largest: no similarity is larger.
        own: the largest of a query with its positive.
        least: of all temperatures.
    """
    if own > MOST_SCORE * least:
        raise InputError(
            f"temperatures: at {least:g} the score of a positive is {own / least:.4g}; expected {MOST_SCORE:g} at most, since beyond it "
            "float32 does not hold a hundredth of a nat: leave that temperature out"
        )
    if largest > MOST_PRODUCT * least:
        raise InputError(
            f"vectors of these lengths have scores up to {largest / least:.4g} at temperature {least:g}; expected {MOST_PRODUCT:g} at "
            "most, which float32 holds: scale the vectors down, or score by cosine"
        )


def _refuse_unfit(block: np.ndarray, rows: np.ndarray, name: str) -> None:
    """Refuse rows that leave the range of float32 at either end."""
    limits, largest = np.finfo(np.float32), np.abs(block).max(axis=1)
    way = "changes no ranking and no cosine"
    _refuse(largest > limits.max, rows, name, f"holds a value beyond float32: multiply all vectors by one small number, which {way}")
    lost = (largest > 0.0) & (largest < limits.tiny)
    _refuse(lost, rows, name, f"holds nothing that float32 can tell from 0: multiply all vectors by one large number, which {way}")


def _refuse(bad: np.ndarray, rows: np.ndarray, name: str, what: str) -> None:
    if bad.any():
        raise InputError(f"{name}: row {int(rows[int(np.argmax(bad))])} {what}")


def _is_of(value: Any, kind: type) -> bool:
    """Whether a value is a number of a kind; True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def _shown(value: Any) -> str:
    """A value with its type where it is no number, as far as it has room."""
    if _is_of(value, Integral):
        return str(value) if abs(value) < _LONG else "a number of more than 40 digits"
    return repr(float(value)) if isinstance(value, float) else f"{value!r:.60} ({type(value).__name__})"
