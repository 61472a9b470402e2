"""Factors that a person gives: a csv or tsv file of named columns, one row per vector, nothing missing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.lines import read_table
from normwise.data.opening import user_path

_RULE = "a first line of names, then one row per vector, in the order of the vectors"


def read_factors(path: str | Path, *, rows: int) -> dict[str, np.ndarray]:
    """Read factors by name.

    A column whose cells are all numbers is numeric; one without any number is categorical. A mixture is refused, since
    it could be either.

    Args:
        path: a .csv or .tsv file (`.gz` allowed).
        rows: how many vectors there are, N.

    Returns:
        name -> (N,) float64, or (N,) str for a categorical one.

    Raises:
        InputError: blank or repeated names, another number of rows, an empty cell, NaN or infinity, or a mixture; the
            message names file, row (the line; the header is line 1) and column.

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
    places: list[int] = []
    for number, row in read_table(path, delimiter="," if suffix == ".csv" else "\t"):
        if not header:
            header = _names(path, row)
            cells = [[] for _ in header]
            continue
        if len(row) != len(header):
            raise InputError(f"{path}, row {number}: {len(row)} cells for {len(header)} columns: quote cells that hold a delimiter")
        places.append(number)
        for column, cell in zip(cells, row, strict=True):
            column.append(cell.strip())
    if not header:
        raise InputError(f"{path} is empty: expected {_RULE}")
    if len(places) != rows:
        raise InputError(f"{path} has {len(places):,} rows of factors for {rows:,} vectors: expected {_RULE}")
    return {name: _column(path, name, column, places) for name, column in zip(header, cells, strict=True)}


def _names(path: Path, row: list[str]) -> list[str]:
    names = [cell.strip() for cell in row]
    if any(not name for name in names):
        raise InputError(f"{path}: a column has a blank name (the index of a pandas table? save with index=False): expected {_RULE}")
    if len(set(names)) != len(names):
        raise InputError(f"{path}: column {next(name for name in names if names.count(name) > 1)!r} stands twice: keep one")
    return names


def _column(path: Path, name: str, cells: list[str], places: list[int]) -> np.ndarray:
    numbers: list[float | None] = []
    for place, cell in zip(places, cells, strict=True):
        where = f"{path}, row {place}, column {name}"
        if not cell:
            raise InputError(f"{where} is empty: a factor is needed for every vector; leave the column out, or inspect the other rows only")
        number = _number(cell)
        if number is not None and not math.isfinite(number):
            raise InputError(f"{where} is {cell}: expected a finite number; leave the column out, or inspect the other rows only")
        numbers.append(number)
    known = [number for number in numbers if number is not None]
    if not known:
        return np.array(cells, dtype=np.str_)
    if len(known) < len(numbers):
        odd = numbers.index(None) if len(known) * 2 >= len(numbers) else next(i for i, n in enumerate(numbers) if n is not None)
        kind, other = ("no number", "numbers") if numbers[odd] is None else ("a number", "names")
        raise InputError(
            f"{path}, row {places[odd]}, column {name}: {cells[odd]!r:.40} is {kind}, and other rows hold {other}: make all numbers, "
            "or put a letter before each to make all names"
        )
    return np.array(known, dtype=np.float64)


def _number(cell: str) -> float | None:
    try:
        # Python reads "1_000" as a number; a table's author may not mean one.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
