"""Small copies of pictures that stand inside a page: bounded in size, the same bytes each time."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from normwise.core.errors import NormwiseError
from normwise.data.contents import Content, pictures_of
from normwise.data.pictures import Picture

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE = 96
MOST_BYTES = 6_000
_QUALITIES = (80, 60, 40, 20)
_SMALLEST = 8


def thumbnail(picture: Picture, *, longest: int = LONGEST_SIDE, most_bytes: int = MOST_BYTES) -> str | None:
    """Make a small copy of a picture, as a data URI.

    Args:
        picture: shown as a model sees it: upright, on its background.
        longest: pixels of the longer side at most; a smaller picture stays as it is.
        most_bytes: characters of the URI at most. The shorter of PNG and a good JPEG is taken, else JPEG with less
            quality, and then with fewer pixels, until it fits.

    Returns:
        `data:image/png;base64,...` or `data:image/jpeg;base64,...`; None where the picture cannot be opened (any more), or
        nothing of it fits.

    Example:
        >>> thumbnail(Picture.of_bytes(b"no picture", name="x")) is None
        True
    """
    try:
        image = picture.open()
    except NormwiseError:
        return None
    side = longest
    while side >= min(_SMALLEST, longest):
        small = image.copy()
        small.thumbnail((side, side))
        fitting = next((uri for uri in _forms(small) if len(uri) <= most_bytes), None)
        if fitting is not None:
            return fitting
        side //= 2
    return None


def _forms(image: Image) -> Iterator[str]:
    """The picture as PNG and as a good JPEG, the shorter one first, and then as JPEGs of less and less quality."""
    best, *lesser = _QUALITIES
    yield from sorted((_uri(image, "PNG", optimize=True), _uri(image, "JPEG", quality=best, optimize=True)), key=len)
    for quality in lesser:
        yield _uri(image, "JPEG", quality=quality, optimize=True)


def _uri(image: Image, kind: str, **settings: int) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **settings)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


@final
@dataclass
class ThumbnailBudget:
    """Thumbnails for one page, until so many pictures or bytes are spent; from then on there are names only.

    Args:
        pictures: how many may still be shown.
        characters: how many characters of data URIs may still be shown.

    Example:
        >>> ThumbnailBudget(pictures=0).show("a text") is None
        True
    """

    pictures: int = 40
    characters: int = 300_000
    left_out: int = field(default=0, init=False)

    def show(self, content: Content | None) -> str | None:
        """A thumbnail of the first picture of a content; None where it has none, cannot be opened, or nothing is left."""
        if content is None or not (found := pictures_of(content)):
            return None
        if self.pictures < 1:
            self.left_out += 1
            return None
        uri = thumbnail(found[0])
        if uri is None or len(uri) > self.characters:
            self.left_out += 1
            return None
        self.pictures -= 1
        self.characters -= len(uri)
        return uri
