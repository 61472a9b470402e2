"""Pairs by NAMED columns, from jsonl, csv, tsv and parquet files and from `datasets` objects; order means nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.data.contents import Content, content_problem, iter_pictures, pictures_of
from normwise.data.lines import read_json_lines, read_table
from normwise.data.opening import parse_json, reading
from normwise.data.parquet_columns import open_pyarrow
from normwise.data.picture_check import check_pictures
from normwise.data.picture_columns import PICTURE_LIST, PictureSource, compose_row, has_pictures, is_picture_column
from normwise.data.texts import text_problem

RULE = (
    "columns go by name, in any order: query or anchor (one of them), positive, and optionally negative, "
    "negative_1..negative_n, negatives (a list), source (what the row was taken from), task; a picture stands beside or in "
    "place of a text in query_image, positive_image, negative_image, negative_1_image.. or negative_images (a list)"
)
SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
_FIXED = frozenset({"query", "anchor", "positive", "negative", "negatives", "source", "task"})
_NAMES = ("source", "task")
_NUMBERED = re.compile(r"negative_([1-9][0-9]*)")
_SHOWN = 5
_BESIDE = PictureSource()
_DROP = 'repair these rows, or set data.on_bad_rows = "drop" to leave them out'


class BadRowsError(InputError):
    """Rows that cannot be used: the first are named, the rest counted, and the way out is one that the asker has.

    A run file may say that bad rows are dropped, which is the way out that readers name; a command without that setting
    catches this and raises what `advising` returns.
    """

    def __init__(self, where: str, problems: Sequence[str], *, way_out: str = _DROP) -> None:
        super().__init__(f"{where}: {_refusal(problems, way_out=way_out)}")
        self.where, self.problems = where, tuple(problems)

    def advising(self, way_out: str) -> BadRowsError:
        """The same rows with another way out.

        Example:
            >>> print(BadRowsError("pairs.csv", ["row 2, column query: is None"]).advising("repair them"))
            pairs.csv: row 2, column query: is None; repair them
        """
        return BadRowsError(self.where, self.problems, way_out=way_out)


@dataclass(frozen=True)
class PairRows:
    """Rows of named columns, checked: every value is a usable text or picture, or both.

    `rows` are the numbers of `Origin`; `sources` and `tasks` are empty when there is no such column; `dropped` counts rows
    left out.
    """

    file: str
    rows: np.ndarray
    queries: tuple[Content, ...]
    positives: tuple[Content, ...]
    negatives: tuple[tuple[Content, ...], ...]
    sources: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


def is_pair_file(path: Path) -> bool:
    """Whether the name ends like a file that `read_pair_file` reads (`.gz` allowed on text formats)."""
    return _suffix(path) in SUFFIXES


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_pair_file(path: Path, *, on_bad_rows: Literal["refuse", "drop"], pictures: PictureSource = _BESIDE) -> PairRows:
    """Read a file of named columns.

    Args:
        path: a jsonl, csv, tsv (optionally .gz) or parquet file. Row numbers in messages are the 1-based line at which
            the row starts for text formats (the header is line 1 of a csv or tsv), the 1-based row for parquet.
        on_bad_rows: "refuse" raises at the first file that holds a row with an unusable text or picture and lists such
            rows; "drop" leaves them out and counts them by reason.
        pictures: where pictures that rows name stand, by default beside the file.

    Returns:
        The rows.

    Raises:
        InputError: unreadable file, unknown, missing or ambiguous columns, bad rows (a BadRowsError), no rows.
    """
    suffix = _suffix(path)
    if suffix == ".jsonl":
        records: Iterator[tuple[int, dict[str, Any]]] = _checked_json(path)
    elif suffix in (".csv", ".tsv"):
        records = _table_records(path, delimiter="," if suffix == ".csv" else "\t")
    elif suffix == ".parquet":
        records = _parquet_records(path)
    else:
        raise InputError(f"{path}: expected a file ending in {', '.join(SUFFIXES)} (.gz allowed on text), got {path.name!r}")
    return collect_rows(str(path), records, on_bad_rows=on_bad_rows, home=path.parent, pictures=pictures)


def dataset_rows(
    name: str,
    dataset: Iterable[Mapping[str, Any]],
    names: Sequence[str],
    *,
    on_bad_rows: Literal["refuse", "drop"],
    home: Path | None = None,
    pictures: PictureSource = _BESIDE,
) -> PairRows:
    """Read the rows of a `datasets.Dataset`; row numbers are 1-based, and `home` is the folder that it was saved to, if any.

    Raises:
        InputError: as `read_pair_file`.
    """
    check_columns(name, names)
    return collect_rows(name, _dataset_records(name, dataset), on_bad_rows=on_bad_rows, home=home, pictures=pictures)


def _dataset_records(name: str, dataset: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        for number, row in enumerate(dataset, start=1):
            yield number, dict(row)
    except (ValueError, OverflowError, OSError) as error:  # a broken Arrow file, or text that is not UTF-8
        raise InputError(f"{name}, row {number + 1}: cannot be read: {error}") from None


def check_columns(where: str, names: Iterable[Any]) -> None:
    """Refuse columns that are unknown, missing, repeated or ambiguous; the message lists what was found.

    Raises:
        InputError: see `RULE`.

    Example:
        >>> check_columns("pairs.csv", ["positive", "anchor"])
        >>> check_columns("pairs.csv", ["query", "anchor", "positive"])
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: pairs.csv: query and anchor mean the same: keep one; found columns query, anchor, positive
    """
    names = [str(name) for name in names]
    found = f"found columns {', '.join(name if name.strip() else repr(name) for name in names) or '(none)'}"
    known = set(names)
    if len(known) != len(names):
        raise InputError(f"{where}: a column name is repeated; {found}")
    if {"query", "anchor"} <= known:
        raise InputError(f"{where}: query and anchor mean the same: keep one; {found}")
    queries, anchors = known & {"query", "query_image"}, known & {"anchor", "anchor_image"}
    if not queries and not anchors:
        raise InputError(f"{where}: column query (or anchor) is missing; {found}; {RULE}")
    if queries and anchors:
        raise InputError(f"{where}: query and anchor mean the same: keep one name, for text and picture; {found}")
    if not known & {"positive", "positive_image"}:
        raise InputError(f"{where}: column positive is missing; {found}; {RULE}")
    unknown = [name for name in names if name not in _FIXED and not _NUMBERED.fullmatch(name) and not is_picture_column(name)]
    if any(not name.strip() or name.startswith("__index_level_") for name in unknown):
        raise InputError(f"{where}: a column is the index of a pandas table, or has a blank name: save with index=False; {found}; {RULE}")
    if unknown:
        raise InputError(f"{where}: unknown column {', '.join(unknown)}; {found}; {RULE}")


def _checked_json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    accepted: set[tuple[str, ...]] = set()
    for number, record in read_json_lines(path):
        names = tuple(record)
        if names not in accepted:
            check_columns(f"{path}, row {number}", names)
            accepted.add(names)
        yield number, record


def _table_records(path: Path, *, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    header: list[str] | None = None
    for number, cells in read_table(path, delimiter=delimiter):
        if header is None:
            header = [cell.strip() for cell in cells]
            check_columns(str(path), header)
            continue
        if len(cells) != len(header):
            raise InputError(f"{path}, row {number}: {len(cells)} cells for {len(header)} columns: quote cells that hold a delimiter")
        record: dict[str, Any] = dict(zip(header, cells, strict=True))
        for name in ("negatives", PICTURE_LIST):
            if name in record:
                record[name] = _list_cell(path, number, name, record[name])
        yield number, record
    if header is None:
        raise InputError(f"{path} is empty: expected a first line of column names; {RULE}")


def _list_cell(path: Path, number: int, name: str, cell: str) -> Any:
    if not cell.strip():
        return []
    wanted = f'expected a JSON list such as ["a", "b"], got {cell!r:.60}'
    return parse_json(cell, where=f"{path}, row {number}, column {name}", wanted=wanted)


def _parquet_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    pa, pq = open_pyarrow()
    with reading(path), path.open("rb") as opened:
        try:
            file = pq.ParquetFile(opened)
            check_columns(str(path), file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches():
                for record in _batch_rows(batch, first=number + 1, where=str(path)):
                    number += 1
                    yield number, record
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None


def _batch_rows(batch: Any, *, first: int, where: str) -> list[dict[str, Any]]:
    """Rows of an Arrow batch as Python values; text that is not UTF-8 and dates beyond Python's are named by row and column."""
    try:
        return batch.to_pylist()
    except (ValueError, OverflowError) as error:
        for row in range(batch.num_rows):
            for name in batch.schema.names:
                try:
                    batch.column(name)[row].as_py()
                except (ValueError, OverflowError):
                    raise InputError(f"{where}, row {first + row}, column {name}: cannot be read: {error}") from None
        raise


def collect_rows(
    file: str,
    records: Iterable[tuple[int, dict[str, Any]]],
    *,
    on_bad_rows: Literal["refuse", "drop"],
    home: Path | None = None,
    pictures: PictureSource = _BESIDE,
) -> PairRows:
    """Check every value of every row; refuse or drop rows with an unusable one.

    Args:
        file: what messages call the source of the rows.
        records: (number, column -> value) of each row.
        on_bad_rows: as in `read_pair_file`.
        home: the folder that names of pictures are taken from where `pictures` gives none.
        pictures: where pictures stand, and whether each is decoded once.

    Raises:
        InputError: no rows at all.
        BadRowsError: bad rows, and `on_bad_rows` is "refuse": up to five are named by row and column.
    """
    kept: list[tuple[int, dict[str, Any]]] = []
    problems: list[tuple[int, str, str]] = []
    for number, record in records:
        row, bad = record, None
        if has_pictures(record):
            row, bad = compose_row(record, where=f"{file}, row {number}", home=home, source=pictures)
        bad = bad or row_problem(row)
        if bad is None:
            kept.append((number, row))
        else:
            problems.append((number, *bad))
    if pictures.check:
        kept, undecodable = _decodable(kept)
        problems = sorted([*problems, *undecodable])
    if problems and on_bad_rows == "refuse":
        raise BadRowsError(file, [f"row {number}, column {column}: {problem}" for number, column, problem in problems])
    dropped = Counter(_reason(column, problem) for _, column, problem in problems)
    if not kept:
        why = f"no usable rows: {sum(dropped.values())} dropped" if dropped else "it holds no rows"
        raise InputError(f"{file}: {why}; expected at least 2; {RULE}")
    sources = tuple(row.get("source") or "" for _, row in kept)
    tasks = tuple(row.get("task") or "" for _, row in kept)
    return PairRows(
        file=file,
        rows=np.asarray([number for number, _ in kept], dtype=np.int64),
        queries=tuple(row["query"] if "query" in row else row["anchor"] for _, row in kept),
        positives=tuple(row["positive"] for _, row in kept),
        negatives=tuple(_negatives_of(row) for _, row in kept),
        sources=sources if any(sources) else (),
        tasks=tasks if any(tasks) else (),
        dropped=dict(dropped),
    )


def _reason(column: str, problem: str) -> str:
    """Why a row was dropped, the same for all files of a column: names of pictures stand in the refusal."""
    of_picture = is_picture_column(column) or problem.startswith("picture ")
    return f"{column} has a picture that cannot be used" if of_picture else f"{column} {problem}"


def _decodable(kept: list[tuple[int, dict[str, Any]]]) -> tuple[list[tuple[int, dict[str, Any]]], list[tuple[int, str, str]]]:
    """Decode every picture once; the rows whose pictures are good, and (row, column, problem) of the others."""
    distinct = list(iter_pictures(tuple(content for _, row in kept for _, content in _contents(row))))
    if not distinct:
        return kept, []
    bad = {distinct[found.index]: f"picture {found.name} {found.problem} ({found.way_out})" for found in check_pictures(distinct)}
    if not bad:
        return kept, []
    good: list[tuple[int, dict[str, Any]]] = []
    problems: list[tuple[int, str, str]] = []
    for number, row in kept:
        found = next(((column, bad[shown]) for column, content in _contents(row) for shown in pictures_of(content) if shown in bad), None)
        if found is None:
            good.append((number, row))
        else:
            column, problem = found
            problems.append((number, _beside(column), problem))
    return good, problems


def _beside(column: str) -> str:
    """The column of the pictures that stand beside the texts of a column."""
    return column.replace("negatives", PICTURE_LIST) if column.startswith("negatives") else f"{column}_image"


def _contents(row: Mapping[str, Any]) -> Iterator[tuple[str, Content]]:
    for column, value in row.items():
        if column == "negatives":
            yield from ((f"negatives[{place}]", content) for place, content in enumerate(value))
        elif column not in _NAMES:
            yield column, value


def _refusal(problems: Sequence[str], *, way_out: str = _DROP) -> str:
    """Join the first problems, count the rest and say what can be done."""
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return f"{'; '.join(problems[:_SHOWN])}{more}; {way_out}"


def row_problem(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first (column, problem) of a row, or None when every value is usable and the positive is none of the negatives.

    Example:
        >>> row_problem({"query": "a", "positive": "b", "negatives": ["c", None]})
        ('negatives[1]', 'is None')
    """
    for column, value in record.items():
        if column == "negatives":
            if (bad := _list_problem(value)) is not None:
                return bad
        elif column in _NAMES and value in (None, ""):
            continue
        elif (problem := content_problem(value)) is not None:
            return column, problem
    return ("positive", "is also a negative") if record.get("positive") in _negatives_of(record) else None


def _list_problem(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, list | tuple):
        return "negatives", f"expected a list of texts, but it {text_problem(value) or 'is one text'}"
    for place, item in enumerate(value):
        if (problem := content_problem(item)) is not None:
            return f"negatives[{place}]", problem
    return None


def _negatives_of(record: Mapping[str, Any]) -> tuple[Content, ...]:
    numbered = sorted((int(match[1]), record[name]) for name in record if (match := _NUMBERED.fullmatch(name)))
    first = (record["negative"],) if "negative" in record else ()
    return (*first, *(text for _, text in numbered), *record.get("negatives", ()))
