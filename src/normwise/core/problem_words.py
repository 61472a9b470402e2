"""What a value that pydantic refused should have been, in this package's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WORDS: Mapping[str, str] = {
    "greater_than": "expected above {gt:g}",
    "greater_than_equal": "expected {ge:g} or above",
    "less_than": "expected below {lt:g}",
    "less_than_equal": "expected {le:g} or below",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing", "int_parsing_size"), "expected a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    "finite_number": "expected a finite number",
    "string_type": "expected text",
    "dict_type": "expected a table",
    "tuple_type": "expected a list",
    "too_short": "expected at least {min_length} item",
    "enum": "expected {expected}",
    "literal_error": "expected {expected}",
}


def words_of(problem: Any) -> str:
    """Return what was expected in place of a refused value.

    Args:
        problem: one of pydantic's `ValidationError.errors()`.

    Returns:
        A clause; the message of a check of our own as it is.

    Example:
        >>> words_of({"type": "greater_than_equal", "msg": "Input should be greater than or equal to 4", "ctx": {"ge": 4}})
        'expected 4 or above'
    """
    words, context = _WORDS.get(problem["type"]), problem.get("ctx", {})
    if words is not None:
        return words.format(**context) + ("s" if context.get("min_length", 1) > 1 else "")
    return problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")


def causes_of(problems: Sequence[Any]) -> list[Any]:
    """Return the problems without those that only follow: a list whose items were refused is then also called too short.

    Example:
        >>> [problem["loc"] for problem in causes_of([{"loc": ("kappa", 0)}, {"loc": ("kappa",)}, {"loc": ("items",)}])]
        [('kappa', 0), ('items',)]
    """
    places = [problem["loc"] for problem in problems]

    def follows(place: tuple[Any, ...]) -> bool:
        return any(place and len(other) > len(place) and other[: len(place)] == place for other in places)

    return [problem for problem in problems if not follows(problem["loc"])]
