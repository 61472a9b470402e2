"""What is wrong with a calibration file, by the key as it stands there and in this package's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from normwise.core.problem_words import words_of


def refusal_words(problem: Any, read: Any) -> str:
    """Return the key that was refused, and what was expected there.

    Args:
        problem: one of pydantic's `ValidationError.errors()`.
        read: the whole file, as JSON was read.

    Example:
        >>> problem = {"type": "missing", "loc": ("calibrator", "softmax", "temperature"), "msg": "Field required"}
        >>> refusal_words(problem, {"calibrator": {"kind": "softmax"}})
        'calibrator.temperature: expected a value, and the key is missing'
    """
    key = _key(problem["loc"], read)
    return f"{key}: {_expected(problem)}" if key else _expected(problem)


def _key(parts: Sequence[int | str], read: Any) -> str:
    """The library names the kind of a calibrator among its keys; the file does not."""
    named = []
    for part in parts:
        if isinstance(read, dict):
            if part not in read and read.get("kind") == part:
                continue
            read = read.get(part)
        else:
            read = read[part] if isinstance(read, list) and isinstance(part, int) and part < len(read) else None
        named.append(str(part))
    return ".".join(named)


def _expected(problem: Any) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "missing":
            return "expected a value, and the key is missing"
        case "extra_forbidden":
            return "expected no such key"
        case "union_tag_invalid":
            return f"expected a kind, one of {context['expected_tags']}, and it is {context['tag']!r}"
        case "union_tag_not_found":
            return "expected a table with a kind"
        case "string_pattern_mismatch":
            return "expected a date, such as 2026-01-31"
        case "json_invalid":
            return f"expected JSON of whole characters, and {context['error']}"
        case "too_long":
            return f"expected at most {context['max_length']} items"
    return words_of(problem)
