"""Filters as a person types them: KEY=VALUE read into `where`, and a refusal told in the words that were typed."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence

from normwise.core.errors import InputError

Value = str | int | float | bool
_KINDS = {"str": "texts", "int": "whole numbers", "float": "numbers", "bool": "true or false"}
_READS = {str: "a text", int: "a whole number", float: "a decimal number", bool: "true or false"}
# What `check_where` of the index says of a value of another type.
_ANOTHER_TYPE = re.compile(r"where: (?P<key>.*) is .*, an? \w+; that key holds (?P<kind>str|int|float|bool) values", re.DOTALL)


def read_filters(entries: Sequence[str] | None) -> dict[str, Value] | None:
    """Read KEY=VALUE entries; a value is a number or true/false where it reads as one, else a text, in double quotes always.

    Raises:
        InputError: no KEY=VALUE, or a key that comes twice.

    Example:
        >>> read_filters(["lang=de", "year=2020", 'code="7"'])
        {'lang': 'de', 'year': 2020, 'code': '7'}
    """
    filters: dict[str, Value] = {}
    for entry in entries or ():
        key, _, value = _parts(entry)
        if key in filters:
            raise InputError(f"--where names {key!r} twice: a hit has one value of it, so ask for one at a time")
        filters[key] = _read(value)
    return filters or None


def told_as_typed(refusal: str, entries: Sequence[str] | None) -> str:
    r"""Return the refusal of a filter's type in the words of the entry at fault, with what to type; other refusals as they are.

    Example:
        >>> told_as_typed("where: year is '2020', a str; that key holds int values", ['year="2020"'])
        '--where \'year="2020"\' is a text; year holds whole numbers: write --where year=2020'
    """
    found = _ANOTHER_TYPE.fullmatch(refusal)
    if found is None:
        return refusal
    for entry in entries or ():
        key, _, value = _parts(entry)
        if key == found["key"]:
            read = _read(value)
            ways = " or ".join(f"--where {shlex.quote(f'{key}={way}')}" for way in _ways(found["kind"], read, typed=value))
            return f"--where {shlex.quote(entry)} is {_READS[type(read)]}; {key} holds {_KINDS[found['kind']]}: write {ways}"
    return refusal


def _parts(entry: str) -> tuple[str, str, str]:
    key, sign, value = entry.partition("=")
    if not sign or not key.strip():
        raise InputError(f"--where is {entry!r}; expected KEY=VALUE, as in --where lang=de")
    return key, sign, value


def _read(value: str) -> Value:
    """The value as JSON where it is a finite JSON number, truth value or text, else as it stands."""
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(read, float) and not math.isfinite(read):
        return value
    return read if isinstance(read, str | int | float) else value


def _ways(kind: str, read: Value, *, typed: str) -> tuple[str, ...]:
    """What to type after KEY= for a value of that kind: the one that was meant where that can be told, else what goes there."""
    if kind == "str":
        return (json.dumps(typed, ensure_ascii=False),)
    if kind == "bool":
        meant = str(read).strip().lower()
        return (meant,) if meant in ("true", "false") else ("true", "false")
    meant = _read(read.strip()) if isinstance(read, str) else read
    if isinstance(meant, bool | str) or (kind == "int" and meant != int(meant)):
        return ("NUMBER",)
    return (str(int(meant) if kind == "int" else meant),)
