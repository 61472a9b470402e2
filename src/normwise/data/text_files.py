"""A file of texts: one per line, or a column of a jsonl, csv, tsv or parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.lines import read_json_lines, read_lines, read_table
from normwise.data.opening import reading, user_path
from normwise.data.texts import text_problem

_SHOWN = 5


def read_texts(path: str | Path, *, column: str | None = None) -> list[str]:
    """Read texts in the order of the file; none may be empty, since each belongs to a vector.

    Args:
        path: a .jsonl, .csv, .tsv (`.gz` allowed) or .parquet file of named columns, or any other file with one text per
            line.
        column: which column; None takes `text`, or the only one there is.

    Returns:
        The texts, at least one.

    Raises:
        InputError: unreadable, no such column, an empty or broken text, or no texts; the message names file, row, column.

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
        cells = _table_cells(path, column, delimiter="," if suffix == ".csv" else "\t")
    elif suffix in readers:
        cells = readers[suffix](path, column)
    elif column is not None:
        raise InputError(f"column {column!r} is of a jsonl, csv, tsv or parquet file, and {path} is read line by line: leave it out")
    else:
        cells = ((number, line.rstrip("\r\n")) for number, line in read_lines(path))
    texts: list[str] = []
    for number, cell in cells:
        problem = text_problem(cell)
        if problem is not None:
            where = f", column {column}" if column else ""
            raise InputError(f"{path}, row {number}{where}: {problem}; expected a text in every row: repair or drop that row")
        texts.append(cell)
    if not texts:
        raise InputError(f"{path} holds no texts: expected one per line, or a column of them")
    return texts


def _pick(path: Path, names: list[str], column: str | None) -> str:
    if column is not None:
        if column not in names:
            raise InputError(f"{path} has no column {column!r}; it has {', '.join(names)}")
        return column
    if "text" in names:
        return "text"
    if len(names) == 1:
        return names[0]
    raise InputError(f"{path}: which column holds the texts? it has {', '.join(names[:_SHOWN])}: name one as text column")


def _json_cells(path: Path, column: str | None) -> Iterator[tuple[int, Any]]:
    for number, record in read_json_lines(path):
        column = _pick(path, list(record), column) if column is None else column
        if column not in record:
            raise InputError(f"{path}, row {number}: no {column!r} there; it has {', '.join(record)}")
        yield number, record[column]


def _table_cells(path: Path, column: str | None, *, delimiter: str) -> Iterator[tuple[int, Any]]:
    place, width = -1, 0
    for number, cells in read_table(path, delimiter=delimiter):
        if place < 0:
            names = [cell.strip() for cell in cells]
            place, width = names.index(_pick(path, names, column)), len(names)
            continue
        if len(cells) != width:
            raise InputError(f"{path}, row {number}: {len(cells)} cells for {width} columns: quote cells that hold a delimiter")
        yield number, cells[place]


def _parquet_cells(path: Path, column: str | None) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", extra="train") from None
    with reading(path):
        try:
            file = pq.ParquetFile(path)
            chosen = _pick(path, file.schema_arrow.names, column)
            number = 0
            for batch in file.iter_batches(columns=[chosen]):
                for value in batch.column(0).to_pylist():
                    number += 1
                    yield number, value
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None
