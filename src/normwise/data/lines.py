"""Opening users' files: text lines with their numbers, JSON lines, delimited tables; every problem names file and line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from normwise.core.errors import InputError
from normwise.data.opening import parse_json, reading

_BOM = b"\xef\xbb\xbf"
_GAIN_NAMES = frozenset({"score", "relevance", "rel", "label", "grade", "gain", "judgment", "judgement"})


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text with its line ending) of a UTF-8 file, `.gz` included; a BOM is left out.

    Raises:
        InputError: the file is missing, unreadable, broken, or not UTF-8 (the message names the line).
    """
    number = 0
    with reading(path):
        try:
            with _open(path) as file:
                for number, raw in enumerate(file, start=1):
                    yield number, (raw.removeprefix(_BOM) if number == 1 else raw).decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{error.object[error.start]:02x}"
            raise InputError(f"{path}, line {number}: not UTF-8 ({byte}): save the file as UTF-8") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a whole gzip file: {error}") from None


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a file with one JSON object per line; blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object; as `read_lines`.
    """
    name = str(path)
    for number, line in read_lines(path):
        if not line.strip():
            continue
        value = parse_json(line, where=name, line=number, wanted="write one object per line")
        if not isinstance(value, dict):
            raise InputError(f"{path}, line {number}: expected one JSON object per line, got {type(value).__name__}")
        yield number, value


def read_table(path: Path, *, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line at which the record starts, cells) of a delimited file; quoted cells may hold line breaks.

    Raises:
        InputError: quotes do not match; as `read_lines`.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    start = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {start}: {error}; check the quotes of this record") from None
        if cells:
            yield start, cells
        start = reader.line_num + 1


def read_tsv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of a tab-separated file without quoting, as qrels are; blank lines are skipped."""
    for number, line in read_lines(path):
        if line.strip():
            yield number, line.rstrip("\r\n").split("\t")


def is_gain_header(cells: Sequence[str]) -> bool:
    """Whether a line of judgements names its columns: the last cell is a usual name of the gain, never a broken number.

    Example:
        >>> is_gain_header(["query-id", "corpus-id", "score"]), is_gain_header(["q1", "d1", "bad"])
        (True, False)
    """
    return cells[-1].strip().casefold() in _GAIN_NAMES


def read_gain(cell: str, *, where: str) -> float:
    """Read the gain of a judgement: a finite number >= 0, where 0 says "not relevant".

    Args:
        cell: as it stands in the file.
        where: file, row and column, for the message.

    Raises:
        InputError: it is no such number, or so small that a float64 would make it 0.

    Example:
        >>> read_gain("2.5", where="q.tsv, line 1, column gain")
        2.5
    """
    try:
        gain = float(cell)
    except ValueError:
        gain = math.nan
    if not 0.0 <= gain < math.inf:
        raise InputError(f"{where}: expected a finite number >= 0 (0: not relevant), got {cell!r:.60}")
    if gain == 0.0 and any(digit in "123456789" for digit in cell.lower().partition("e")[0]):
        raise InputError(f"{where}: {cell!r:.60} is too small for a float64, which would make it 0: rescale the gains")
    return gain


def json_line(value: dict[str, Any]) -> str:
    """Write one object as a JSON line."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def tsv_text(rows: Iterator[tuple[Any, ...]]) -> str:
    """Write rows as tab-separated lines."""
    text = io.StringIO()
    for row in rows:
        text.write("\t".join(str(cell) for cell in row) + "\n")
    return text.getvalue()
