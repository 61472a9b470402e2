"""Pictures on a page: small ones that stand in the result itself, checked again before they are drawn."""

from __future__ import annotations

import re
from typing import Any

from normwise.report.svg import clean, shorten

_LONGEST_ALT = 120
_MOST = 8_000
_URI = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+={0,2}\Z")


def thumbnail_view(uri: str | None, *, words: str) -> dict[str, Any] | None:
    """A thumbnail for a template; None where there is none, or what stands there is no small picture.

    A saved result is a file like any other: an address of elsewhere, or a script, never becomes part of a page.

    Args:
        uri: of the result.
        words: what it shows, for those who do not see it.

    Example:
        >>> thumbnail_view("https://example.org/x.png", words="x") is None
        True
        >>> thumbnail_view("data:image/png;base64,AAAA", words="[cat.png]")
        {'source': 'data:image/png;base64,AAAA', 'words': '[cat.png]'}
    """
    if uri is None or len(uri) > _MOST or _URI.match(uri) is None:
        return None
    return {"source": uri, "words": shorten(clean(words), limit=_LONGEST_ALT)}
