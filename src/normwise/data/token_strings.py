"""The strings of an embedding table's rows, from the tokenizer that stands beside it, and which of them are words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.lines import read_lines
from normwise.data.opening import kind_of, read_json_object

NO_TOKENIZER = (
    "no tokenizer stands beside the table, so its rows have no strings; the order of their numbers is NOT a frequency, and none is "
    "read into it: give a factors file, or put tokenizer.json beside it"
)
# Word starts are marked in three ways: a mark before the word, a mark behind it, or a mark before what is none.
_BEFORE = ("\u0120", "\u2581")
_BEHIND = "</w>"
_INNER = "##"


def token_strings(folder: Path, *, rows: int) -> tuple[tuple[str | None, ...] | None, str]:
    """Read the string of each row's token from tokenizer.json or vocab.txt.

    Args:
        folder: where to look.
        rows: of the table.

    Returns:
        (strings, None for rows without one; or None without a tokenizer that fits), and a note that says which.

    Raises:
        InputError: the file is broken.
    """
    places = (folder / "tokenizer.json", folder / "vocab.txt")
    found = next((path for path in places if kind_of(path) == "file"), None)
    if found is None:
        return None, NO_TOKENIZER
    numbers = _vocabulary(read_json_object(found), found) if found.suffix == ".json" else _lines(found)
    if not numbers:
        return None, NO_TOKENIZER
    if max(numbers.values()) >= rows:
        return None, f"{found.name} has {max(numbers.values()) + 1:,} tokens and the table {rows:,} rows: it is not this table's tokenizer"
    strings: list[str | None] = [None] * rows
    for string, number in numbers.items():
        if number >= 0:
            strings[number] = string
    return tuple(strings), f"token strings from {found.name}"


def token_words(strings: Sequence[str | None]) -> list[str | None]:
    r"""Return the lower-case word that each token is, or None for parts of words, marks and special tokens.

    Example:
        >>> token_words(["[CLS]", "cat", "##ing", "!", None])
        [None, 'cat', None, None, None]
        >>> token_words(["\u0120cat", "s", "\u0120Dog"])
        ['cat', None, None]
    """
    known = [string for string in strings if string]
    before = next((mark for mark in _BEFORE if sum(string.startswith(mark) for string in known) * 10 > len(known)), None)
    behind = before is None and sum(string.endswith(_BEHIND) for string in known) * 10 > len(known)
    return [_word(string, before=before, behind=behind) for string in strings]


def _word(string: str | None, *, before: str | None, behind: bool) -> str | None:
    if not string or string.startswith(_INNER):
        return None
    if before is not None:
        if not string.startswith(before):
            return None
        string = string.removeprefix(before)
    elif behind:
        if not string.endswith(_BEHIND):
            return None
        string = string.removesuffix(_BEHIND)
    # A capitalized twin of a word would count its frequency twice.
    return string if string.isalpha() and string == string.lower() else None


def _vocabulary(value: Mapping[str, Any], path: Path) -> dict[str, int]:
    model = value.get("model")
    entries = model.get("vocab") if isinstance(model, dict) else None
    added = value.get("added_tokens") or []
    try:
        if isinstance(entries, dict):
            numbers = {str(string): int(number) for string, number in entries.items()}
        elif isinstance(entries, list):
            numbers = {str(entry[0]): number for number, entry in enumerate(entries)}
        else:
            return {}
        numbers |= {str(entry["content"]): int(entry["id"]) for entry in added}
    except (TypeError, ValueError, KeyError, IndexError):
        raise InputError(f"{path}: its vocabulary is not that of a tokenizer: copy the whole folder again") from None
    return numbers


def _lines(path: Path) -> dict[str, int]:
    return {line.rstrip("\r\n"): number - 1 for number, line in read_lines(path)}
