"""What makes a text usable, and when two texts count as the same."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
# Blanks, controls, format characters, marks without a letter; and letters and symbols that Unicode leaves blank.
_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf", "Mn", "Me"})
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def text_problem(value: Any) -> str | None:
    """Say why a value cannot be used as a text, or None when it can.

    Args:
        value: anything that came out of a file.

    Returns:
        A short phrase such as "is None", or None for a usable text.

    Example:
        >>> text_problem("bank"), text_problem("  "), text_problem(float("nan")), text_problem(3)
        (None, 'is empty or whitespace', 'is NaN', 'is int, not text')
    """
    if isinstance(value, str):
        if not value or value.isspace():
            return "is empty or whitespace"
        if lone_surrogate(value):
            return "holds a lone surrogate (half of a broken character)"
        return None if has_visible(value) else "has no visible character"
    if value is None:
        return "is None"
    if isinstance(value, float) and math.isnan(value):
        return "is NaN"
    return f"is {type(value).__name__}, not text"


def has_visible(text: str) -> bool:
    r"""Whether a reader sees anything: a zero-width space or a null character is no text.

    Example:
        >>> has_visible("\u200b\x00 "), has_visible("\u200bbank")
        (False, True)
    """
    return any(unicodedata.category(character) not in _INVISIBLE and character not in _BLANK for character in text)


def printable(text: str) -> str:
    r"""The text with U+FFFD for lone surrogates, as names of files that are not UTF-8 hold them.

    Example:
        >>> printable("bad\udcff") == "bad\ufffd"
        True
    """
    return _SURROGATE.sub("\ufffd", text)


def lone_surrogate(text: str) -> bool:
    r"""Whether the text holds a code point of U+D800..U+DFFF, which no tokenizer and no UTF-8 file accepts.

    Example:
        >>> lone_surrogate("\ud800"), lone_surrogate("\U0001f600")
        (True, False)
    """
    return not text.isascii() and _SURROGATE.search(text) is not None


def normalize_text(text: str) -> str:
    r"""The form under which two texts are near-duplicates: case folded, every run of whitespace one space.

    Example:
        >>> normalize_text("  Return the\n MEAN ")
        'return the mean'
    """
    return " ".join(text.casefold().split())
