"""Factors that a person gives: a csv or tsv file of named columns, one row per vector, nothing missing.

Rows are counted as vectors are, from 0, in every message about vectors, their factors and their texts; where a text file
has the row, its line is told too, counted from 1 as editors do.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.lines import read_table
from normwise.data.opening import user_path
from normwise.data.text_files import row_place

_SHOWN_NAMES = 4
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
# Writings of numbers that a csv file does not have, the first that fits, and what to do about them.
_WRITINGS = (
    (
        re.compile(r"[+-]?(0,\d*|\d+,\d{0,2}|\d+,\d{4,}|\d{4,},\d+)(e[+-]?\d+)?", re.IGNORECASE),
        "looks like a number with a decimal comma: write a point",
    ),
    (re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"), "looks like a number with commas between thousands: write it without them"),
    (re.compile(r"=.+"), "looks like a formula: save its value"),
    (re.compile(r"[+-]?[\d.]+\s*%"), "looks like a percentage: write the bare number"),
)
# How tables write that a value is missing.
_MISSING = frozenset({"na", "n/a", "#n/a", "#na", "nan", "<na>", "null", "none", "nil", "missing", "unknown", "-", "--", "?", "."})
_MEND = "missing values are not allowed: fill them, drop the rows from vectors and factors alike, or leave the column out"
_RULE = "a first line of names, then one row per vector, in the order of the vectors"


def read_factors(path: str | Path, *, rows: int) -> dict[str, np.ndarray]:
    """Read factors by name.

    A column whose cells are all numbers is numeric; one without any number is categorical. A mixture is refused, since
    it could be either, and so is a first line of numbers only, which would be a row that is taken for names.

    Args:
        path: a .csv or .tsv file (`.gz` allowed).
        rows: how many vectors there are, N.

    Returns:
        name -> (N,) float64, or (N,) str for a categorical one.

    Raises:
        InputError: blank or repeated names, names that all are numbers, another number of rows, another separator, an empty
            cell or another missing value, NaN or infinity, a number in another writing (decimal comma, thousands, formula), or
            a mixture; the message names file, row, line and column (see `row_place`).

    Example:
        >>> read_factors("gone.csv", rows=3)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.csv does not exist: check the path
    """
    path = user_path(path, what="factors")
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix not in (".csv", ".tsv"):
        raise InputError(f"{path}: expected a .csv or .tsv file of factors: {_RULE}")
    header: list[str] = []
    cells: list[list[str]] = []
    lines: list[int] = []
    delimiter = "," if suffix == ".csv" else "\t"
    for number, row in read_table(path, delimiter=delimiter):
        if not header:
            header = _names(path, row)
            cells = [[] for _ in header]
            continue
        if not lines:
            _refuse_separator(path, header, row, delimiter)
        if len(row) != len(header):
            raise InputError(
                f"{path}, {row_place(len(lines), number)}: {len(row)} cells for {len(header)} columns: quote cells that hold a delimiter"
            )
        lines.append(number)
        for column, cell in zip(cells, row, strict=True):
            column.append(cell.strip())
    if not header:
        raise InputError(f"{path} is empty: expected {_RULE}")
    if len(lines) != rows:
        raise InputError(f"{path} has {len(lines):,} rows of factors for {rows:,} vectors: expected {_RULE}")
    return {name: _column(path, name, column, lines) for name, column in zip(header, cells, strict=True)}


def _names(path: Path, row: list[str]) -> list[str]:
    names = [cell.strip() for cell in row]
    if any(not name for name in names):
        raise InputError(f"{path}: a column has a blank name (the index of a pandas table? save with index=False): expected {_RULE}")
    if all(_number(name) is not None for name in names):
        shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
        raise InputError(f"{path}: all names of columns are numbers ({shown:.60}): is the first line a header? expected {_RULE}")
    if len(set(names)) != len(names):
        raise InputError(f"{path}: column {next(name for name in names if names.count(name) > 1)!r} stands twice: keep one")
    return names


def _refuse_separator(path: Path, header: list[str], row: list[str], delimiter: str) -> None:
    """Refuse a table whose one name and first row are both cut by another separator."""
    if len(header) > 1:
        return
    line = delimiter.join(row)
    for mark, name in _SEPARATORS.items():
        if mark != delimiter and mark in header[0] and mark in line:
            wanted = _SEPARATORS[delimiter]
            more = " (and points in numbers)" if delimiter == "," else ""
            other = ", or name the file .tsv" if mark == "\t" else ", or name the file .csv" if mark == "," else ""
            raise InputError(
                f"{path}: its one column would be named {header[0]!r:.60}, so its cells look separated by {name}: separate them by "
                f"{wanted}{more}{other}"
            )


def _column(path: Path, name: str, cells: list[str], lines: list[int]) -> np.ndarray:
    numbers: list[float | None] = []
    for row, (line, cell) in enumerate(zip(lines, cells, strict=True)):
        where = f"{path}, {row_place(row, line)}, column {name}"
        if not cell:
            raise InputError(f"{where} is empty: {_MEND}")
        number = _number(cell)
        if number is not None and not math.isfinite(number):
            what = f"expected a finite number; {_MEND}" if math.isnan(number) else "expected a finite number, or leave the column out"
            raise InputError(f"{where} is {cell}: {what}")
        numbers.append(number)
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return np.array(known, dtype=np.float64)
    _refuse_writing(path, name, cells, lines)
    if not known:
        return np.array(cells, dtype=np.str_)
    missing = [row for row, number in enumerate(numbers) if number is None and cells[row].lower() in _MISSING]
    if missing and len(missing) + len(known) == len(numbers):
        row = missing[0]
        others = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
        raise InputError(
            f"{path}, {row_place(row, lines[row])}, column {name} is {cells[row]!r}{others}, and other rows hold numbers: {_MEND}"
        )
    odd = numbers.index(None) if len(known) * 2 >= len(numbers) else next(i for i, n in enumerate(numbers) if n is not None)
    kind, other, mend = (
        ("no number", "numbers", f"write a number there; where none is known, {_MEND}")
        if numbers[odd] is None
        else ("a number", "names", "make all numbers, or put a letter before each to make all names")
    )
    raise InputError(
        f"{path}, {row_place(odd, lines[odd])}, column {name}: {cells[odd]!r:.40} is {kind}, and other rows hold {other}: {mend}"
    )


def _refuse_writing(path: Path, name: str, cells: list[str], lines: list[int]) -> None:
    """Refuse a column most of whose cells are numbers, some of them in another writing."""
    for pattern, advice in _WRITINGS:
        odd = [row for row, cell in enumerate(cells) if pattern.fullmatch(cell)]
        if odd and sum(_number(cell) is not None for cell in cells) + len(odd) > len(cells) / 2:
            row = odd[0]
            raise InputError(f"{path}, {row_place(row, lines[row])}, column {name}: {cells[row]!r:.40} {advice}")


def _number(cell: str) -> float | None:
    try:
        # Python reads "1_000" as a number; a table's author may not mean one.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
