"""The one place where users' paths and JSON are taken in: what the system or a decoder raises becomes an InputError."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from normwise.core.errors import InputError

Kind = Literal["file", "folder", "other"]


def user_path(name: str | Path, *, what: str) -> Path:
    """Read a path as a person wrote it, `~` expanded.

    Args:
        name: the path.
        what: what it names, for the message.

    Raises:
        InputError: it is blank, or names the home of an unknown user.

    Example:
        >>> user_path(" ", what="data")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: data ' ' is blank: give a name or a path ('.' is the current folder)
    """
    if not str(name).strip():
        raise InputError(f"{what} {str(name)!r} is blank: give a name or a path ('.' is the current folder)")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InputError(f"{what} {str(name)!r}: {error}; write the path out") from None


def kind_of(path: Path) -> Kind | None:
    """What stands at a path, links followed; None when nothing does.

    Raises:
        InputError: it cannot be told, as below a folder without permission.

    Example:
        >>> kind_of(Path("/dev/null")), kind_of(Path("/no/such/place"))
        ('other', None)
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null character in the name
        raise InputError(f"{str(path)!r} is no path: {error}") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def check_new_place(path: Path) -> None:
    """Refuse, before the work, a place for results below something that is no folder.

    Raises:
        InputError: names what stands in the way.

    Example:
        >>> check_new_place(Path("/dev/null/page.html"))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: /dev/null/page.html cannot be made: /dev/null is no folder; choose another place
    """
    above = next((parent for parent in path.parents if kind_of(parent) is not None), Path(path.anchor))
    if kind_of(above) != "folder":
        raise InputError(f"{path} cannot be made: {above} is no folder; choose another place")


def folder_names(folder: Path) -> list[str]:
    """The names of what stands in a folder, sorted, without hidden ones; `.` is the current folder.

    Raises:
        InputError: it is no folder, or cannot be read.
    """
    with reading(folder):
        return sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system raises while a file or folder is read into an InputError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the path") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


class _RepeatedKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return value


# One for all lines: making one takes as long as reading a line.
_DECODER = json.JSONDecoder(object_pairs_hook=_distinct)


def parse_json(text: str, *, where: str, wanted: str, line: int | None = None) -> Any:
    """Parse JSON that a person gave.

    Args:
        text: the JSON.
        where: file and row, for the message.
        wanted: what was expected, for the message.
        line: its number, where it is one of many: its words are made only for a message.

    Raises:
        InputError: not JSON, nested too deep, a number with too many digits, or a key that stands twice in one object.

    Example:
        >>> parse_json('{"a": 1, "a": 2}', where="x.jsonl, line 1", wanted="write one object per line")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: x.jsonl, line 1: key 'a' stands twice: keep one
    """
    try:
        return _DECODER.decode(text)
    except _RepeatedKeyError as error:
        problem = f"key {error.key!r} stands twice: keep one"
    except RecursionError:
        problem = f"not JSON that can be read: it is nested too deep; {wanted}"
    except ValueError as error:  # broken JSON, and numbers longer than Python reads
        problem = f"not JSON: {str(error).partition(';')[0]}; {wanted}"
    raise InputError(f"{where}{'' if line is None else f', line {line}'}: {problem}")


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a UTF-8 file that holds one JSON object.

    Raises:
        InputError: missing, unreadable or something else; the message names the file.
    """
    try:
        with reading(path):
            text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 (byte 0x{error.object[error.start]:02x}): save the file as UTF-8") from None
    value = parse_json(text, where=str(path), wanted="expected one JSON object")
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected one JSON object, got {type(value).__name__}")
    return value
