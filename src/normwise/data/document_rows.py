"""Rows of named columns as candidates or queries of a search: which columns a file has, and the content of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.beir_contents import IMAGE, row_content
from normwise.data.contents import Content
from normwise.data.lines import read_json_lines, read_table
from normwise.data.opening import reading, user_path
from normwise.data.parquet_columns import open_pyarrow
from normwise.data.picture_columns import PictureSource, is_picture_column
from normwise.data.text_files import read_texts

ID = "_id"
_POSITIVES = frozenset({"positive", "positive_image"})
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BESIDE = PictureSource()
_INSIDE = "put the picture into the folder of the file"


def is_pairs(names: list[str]) -> bool:
    """Whether columns are those of pairs.

    Example:
        >>> is_pairs(["query", "positive_image"]), is_pairs(["text", "image"])
        (True, False)
    """
    return not _POSITIVES.isdisjoint(names)


def column_names(path: Path) -> list[str]:
    """The names of the columns of a file of named columns; none of other files.

    Rows of a jsonl need not be alike, so all of them are looked at, but for a corpus or pairs that say so in the first row.
    """
    if _suffix(path) != ".jsonl":
        return _header(path)
    first = [name for _, record in islice(read_json_lines(path), 1) for name in record]
    return first if ID in first or is_pairs(first) else _names_of_all(path)


def named_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row of a file of named columns, with where it stands: `line 3`, or `row 3` of a parquet file.

    Raises:
        InputError: the file cannot be read, or a row has too many cells or too few.
    """
    suffix = _suffix(path)
    if suffix == ".jsonl":
        yield from ((f"line {line}", record) for line, record in read_json_lines(path))
    elif suffix == ".parquet":
        yield from _parquet_rows(path)
    else:
        rows = read_table(path, delimiter=_DELIMITERS[suffix])
        names = [cell.strip() for cell in next(rows)[1]]
        for line, cells in rows:
            if len(cells) != len(names):
                raise InputError(f"{path}, line {line}: {len(cells)} cells for {len(names)} columns: quote cells that hold a delimiter")
            yield f"line {line}", dict(zip(names, cells, strict=True))


def checked_content(record: Mapping[str, Any], *, path: Path, place: str, source: PictureSource, advice: str = _INSIDE) -> Content:
    """The content of one row; see `row_content`.

    Raises:
        InputError: it cannot be used; the message names file, row and column.
    """
    where = f"{path}, {place}"
    content, bad = row_content(record, where=where, name=f"{path.name}, {place}", home=path.parent, source=source, advice=advice)
    if bad is not None:
        raise InputError(f"{where}, column {bad[0]}: {bad[1]}{'' if bad[0] == IMAGE else '; repair or drop that row'}")
    return content


def read_queries(path: str | Path, *, pictures: PictureSource = _BESIDE) -> list[Content]:
    """Read queries: as `read_texts`, and with a column `image` pictures beside or in place of the texts.

    Args:
        path: the file.
        pictures: where pictures stand, by default in the folder of the file.

    Raises:
        InputError: as `read_texts`; a picture that cannot be used; pictures in columns of another name.

    Example:
        >>> read_queries("gone.txt")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.txt does not exist: check the path
    """
    file = user_path(path, what="texts")
    names = _names_of_all(file) if _suffix(file) == ".jsonl" else _header(file)
    if IMAGE in names:
        return [checked_content(record, path=file, place=place, source=pictures) for place, record in named_rows(file)]
    refuse_picture_columns(file, names)
    return list(read_texts(file))


def refuse_picture_columns(path: Path, names: list[str]) -> None:
    """Refuse pictures in columns of pairs where rows are no pairs: they would be left out, or their paths taken for texts.

    Raises:
        InputError: names the column.
    """
    found = next(filter(is_picture_column, names), None)
    if found is not None:
        raise InputError(f"{path}: {found} is a column of pairs, and these rows are read as texts and pictures: name it {IMAGE}")


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _names_of_all(path: Path) -> list[str]:
    return list(dict.fromkeys(name for _, record in read_json_lines(path) for name in record))


def _header(path: Path) -> list[str]:
    suffix = _suffix(path)
    if suffix == ".parquet":
        return list(_parquet(path).schema_arrow.names)
    if suffix in _DELIMITERS:
        return [cell.strip() for _, cells in islice(read_table(path, delimiter=_DELIMITERS[suffix]), 1) for cell in cells]
    return []


def _parquet(path: Path) -> Any:
    pa, pq = open_pyarrow()
    with reading(path):
        try:
            return pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    pa, _ = open_pyarrow()
    number = 0
    try:
        for batch in _parquet(path).iter_batches():
            for record in batch.to_pylist():
                number += 1
                yield f"row {number}", record
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(f"{path}, after row {number}: not a readable parquet file: {error}") from None
