"""A token as a reader can see it: white space, control characters and long strings are shown, not performed."""

from __future__ import annotations

import unicodedata

from normwise.report.svg import shorten

_SHOWN = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
_LONGEST = 24


def token_words(token: str, *, limit: int = _LONGEST) -> str:
    """A token's string with all that would not be seen in it spelled out, cut to `limit` characters.

    Spaces within words stay; those at the ends become ␣, other white space and all that has no shape of its own its code.

    Example:
        >>> token_words(" the"), token_words(""), token_words("a" + chr(0x202E)), token_words("New York")
        ('␣the', '(empty)', 'a⟨202E⟩', 'New York')
    """
    if not token:
        return "(empty)"
    # No letter takes more than one character less: what lies far beyond the limit need not be looked at.
    head = token[: limit + 1]
    inner = head.strip(" ")
    start = len(head) - len(head.lstrip(" "))
    words = "".join(_letter(sign, kept=start <= at < start + len(inner)) for at, sign in enumerate(head))
    if unicodedata.category(words[0]).startswith("M"):
        words = "◌" + words  # a mark alone would sit on what stands before it
    return shorten(words, limit=limit)


def letters_wide(words: str) -> float:
    """About how many letters wide a text is: those of East Asia are two.

    Example:
        >>> letters_wide("abc"), letters_wide("漢字")
        (3.0, 4.0)
    """
    return float(sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in words))


def _letter(sign: str, *, kept: bool) -> str:
    if sign == " " and kept:
        return sign
    if sign in _SHOWN:
        return _SHOWN[sign]
    return f"⟨{ord(sign):04X}⟩" if unicodedata.category(sign) in _UNSEEN else sign
