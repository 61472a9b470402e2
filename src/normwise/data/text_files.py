"""A file of texts: one per line, or a column of a jsonl, csv, tsv or parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.lines import read_json_lines, read_lines, read_table
from normwise.data.opening import reading, user_path
from normwise.data.parquet_columns import open_pyarrow
from normwise.data.texts import text_problem

_SHOWN = 5
_TEXT = "text"
# The name of the column (None without one), and (line, value) of each row; no line in a binary file.
_Column = tuple[str | None, Iterator[tuple[int | None, Any]]]


def row_place(row: int, line: int | None) -> str:
    """Say where a row stands, by the one rule for vectors, their texts and their factors.

    A row is the number of its vector, from 0 as in numpy, whatever stands above it in a file; a text file's row has its
    line too, counted from 1 as editors do.

    Example:
        >>> row_place(0, 2), row_place(7, None)
        ('line 2 (row 0, from 0)', 'row 7 (from 0)')
    """
    return f"row {row} (from 0)" if line is None else f"line {line} (row {row}, from 0)"


def read_texts(path: str | Path, *, column: str | None = None) -> list[str]:
    """Read texts in the order of the file; none may be empty, since each belongs to a vector.

    Args:
        path: a .jsonl, .csv, .tsv (`.gz` allowed) or .parquet file of named columns, or any other file with one text per
            line, where blank lines at the end are left out.
        column: which column; None takes `text`, or the only one there is.

    Returns:
        The texts, at least one.

    Raises:
        InputError: unreadable, no such column, an empty or broken text, or no texts; the message names file, row, line
            and column (see `row_place`).

    Example:
        >>> read_texts("gone.txt")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.txt does not exist: check the path
    """
    path = user_path(path, what="texts")
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    readers = {".jsonl": _json_cells, ".parquet": _parquet_cells}
    if suffix in (".csv", ".tsv"):
        name, cells = _table_cells(path, column, delimiter="," if suffix == ".csv" else "\t")
    elif suffix in readers:
        name, cells = readers[suffix](path, column)
    elif column is not None:
        raise InputError(f"column {column!r} is of a jsonl, csv, tsv or parquet file, and {path} is read line by line: leave it out")
    elif suffix == ".json":
        raise InputError(f'{path}: expected JSON lines, one object such as {{"text": "..."}} per line, in a file named .jsonl; write it so')
    else:
        name, cells = None, _lines(path)
    texts: list[str] = []
    for line, cell in cells:
        problem = text_problem(cell)
        if problem is not None:
            where = f"{path}, {row_place(len(texts), line)}" + (f", column {name}" if name else "")
            asked = "" if column is not None or name in (None, _TEXT) else f" ({name!r} is its only column: is it the texts?)"
            raise InputError(f"{where}: {problem}; expected a text in every row: repair or drop that row{asked}")
        texts.append(cell)
    if not texts:
        raise InputError(f"{path} holds no texts: expected one per line, or a column of them")
    return texts


def _pick(path: Path, names: list[str], column: str | None) -> str:
    if column is not None:
        if column not in names:
            raise InputError(f"{path} has no column {column!r}; it has {', '.join(names)}")
        return column
    if _TEXT in names:
        return _TEXT
    if len(names) == 1:
        return names[0]
    raise InputError(f"{path}: which column holds the texts? it has {', '.join(names[:_SHOWN])}: name one as text column")


def _lines(path: Path) -> Iterator[tuple[int | None, Any]]:
    """Lines, without blank ones that nothing follows; the first of others is given, for the reader to refuse."""
    blank: tuple[int, str] | None = None
    for number, line in read_lines(path):
        cell = line.rstrip("\r\n")
        if not cell.strip():
            blank = blank or (number, cell)
            continue
        if blank is not None:
            yield blank
        yield number, cell


def _json_cells(path: Path, column: str | None) -> _Column:
    records = read_json_lines(path)
    first = next(records, None)
    if first is None:
        return column, iter(())
    name = _pick(path, list(first[1]), column)

    def cells() -> Iterator[tuple[int | None, Any]]:
        for row, (line, record) in enumerate(chain([first], records)):
            if name not in record:
                raise InputError(f"{path}, {row_place(row, line)}: no {name!r} there; it has {', '.join(record)}")
            yield line, record[name]

    return name, cells()


def _table_cells(path: Path, column: str | None, *, delimiter: str) -> _Column:
    records = read_table(path, delimiter=delimiter)
    first = next(records, None)
    if first is None:
        return column, iter(())
    names = [cell.strip() for cell in first[1]]
    name = _pick(path, names, column)

    def cells() -> Iterator[tuple[int | None, Any]]:
        for row, (line, record) in enumerate(records):
            if len(record) != len(names):
                where = f"{path}, {row_place(row, line)}"
                raise InputError(f"{where}: {len(record)} cells for {len(names)} columns: quote cells that hold a delimiter")
            yield line, record[names.index(name)]

    return name, cells()


def _parquet_cells(path: Path, column: str | None) -> _Column:
    pa, pq = open_pyarrow()
    errors = (pa.ArrowException, OSError)
    with reading(path):
        try:
            file = pq.ParquetFile(path)
        except errors as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None
    name = _pick(path, file.schema_arrow.names, column)

    def cells() -> Iterator[tuple[int | None, Any]]:
        try:
            for batch in file.iter_batches(columns=[name]):
                yield from ((None, value) for value in batch.column(0).to_pylist())
        except errors as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None

    return name, cells()
