"""Opening users' files: text lines with their numbers, JSON lines, delimited tables; every problem names file and line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from normwise.core.errors import InputError

_BOM = b"\xef\xbb\xbf"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text with its line ending) of a UTF-8 file, `.gz` included; a BOM is left out.

    Raises:
        InputError: the file is missing, unreadable, broken, or not UTF-8 (the message names the line).
    """
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                if number == 1 and raw.startswith(_BOM):
                    raw = raw[len(_BOM) :]
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    byte = raw[error.start]
                    raise InputError(f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x}): save the file as UTF-8") from None
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a file with one JSON object per line; blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object; as `read_lines`.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON: {error}; write one object per line") from None
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


def json_line(value: dict[str, Any]) -> str:
    """Write one object as a JSON line."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def tsv_text(rows: Iterator[tuple[Any, ...]]) -> str:
    """Write rows as tab-separated lines."""
    text = io.StringIO()
    for row in rows:
        text.write("\t".join(str(cell) for cell in row) + "\n")
    return text.getvalue()
