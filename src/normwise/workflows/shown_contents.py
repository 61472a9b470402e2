"""Contents as a page tells them: in words of bounded length."""

from __future__ import annotations

from normwise.data.contents import Content, content_words

_LONGEST = 400


def shown_words(content: Content) -> str:
    """A content in at most 400 characters: texts as they are, pictures by their names; what is left out is marked.

    Example:
        >>> shown_words("a bank"), len(shown_words("x" * 1_000))
        ('a bank', 400)
    """
    words = content_words(content)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
