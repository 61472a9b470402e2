"""Pictures on a page: small ones that stand in the result itself, checked again before they are drawn, and counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from normwise.report.svg import clean, shorten
from normwise.report.words import counted

_LONGEST_ALT = 120
_MOST = 8_000
_URI = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+={0,2}\Z")


@final
@dataclass(frozen=True)
class Thumbnail:
    """A small picture for a template: its data URI, and in words what it shows, for those who do not see it."""

    source: str
    words: str


def thumbnail_view(uri: str | None, *, words: str) -> Thumbnail | None:
    """A thumbnail for a template; None where there is none, or what stands there is no small picture.

    A saved result is a file like any other: an address of elsewhere, or a script, never becomes part of a page.

    Args:
        uri: of the result.
        words: what it shows; a picture of which nothing is known is called one.

    Example:
        >>> thumbnail_view("https://example.org/x.png", words="x") is None
        True
        >>> thumbnail_view("data:image/png;base64,AAAA", words="[cat.png]")
        Thumbnail(source='data:image/png;base64,AAAA', words='[cat.png]')
    """
    if uri is None or len(uri) > _MOST or _URI.match(uri) is None:
        return None
    return Thumbnail(source=uri, words=shorten(clean(" ".join(words.split())), limit=_LONGEST_ALT) or "picture")


def inlined_words(view: object, *, left_out: int = 0) -> str:
    """How many thumbnails stand in a page and how many bytes they take, in a sentence; empty where there are none and none is missing.

    Args:
        view: what the page shows, dicts and lists, with thumbnails anywhere in them.
        left_out: pictures that have no thumbnail.

    Example:
        >>> inlined_words({"rows": [[Thumbnail("data:image/png;base64," + "A" * 1978, "x")], None]})
        '1 picture stands in this page itself, 2.0 kB in all.'
        >>> inlined_words({}, left_out=2)
        '2 pictures are told by name only: there was no room, or they cannot be opened.'
    """
    shown = [len(each.source) for each in _thumbnails(view)]
    parts = []
    if shown:
        stand = "stands" if len(shown) == 1 else "stand"
        parts.append(f"{counted(len(shown), 'picture')} {stand} in this page itself, {sum(shown) / 1000:,.1f} kB in all.")
    if left_out:
        told = "1 picture is" if left_out == 1 else f"{left_out:,} pictures are"
        parts.append(f"{told} told by name only: there was no room, or {'it' if left_out == 1 else 'they'} cannot be opened.")
    return " ".join(parts)


def _thumbnails(view: object) -> Iterator[Thumbnail]:
    if isinstance(view, Thumbnail):
        yield view
    elif isinstance(view, dict):
        for value in view.values():
            yield from _thumbnails(value)
    elif isinstance(view, list | tuple):
        for value in view:
            yield from _thumbnails(value)
