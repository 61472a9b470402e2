"""Pictures as values: known by their bytes, opened only when a model is about to see them."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from normwise.core.errors import WorkError
from normwise.data.opening import kind_of, reading
from normwise.data.picture_decoding import MAX_PIXELS, WHITE, Color, PictureError, decode_picture, show_image

if TYPE_CHECKING:
    from PIL.Image import Image


@final
@dataclass(frozen=True)
class Picture:
    """One encoded picture (PNG, JPEG, ...): a file, or the bytes of one.

    Two pictures are equal when their bytes and backgrounds are: a copy under another name is the same picture.

    Args:
        digest: SHA-256 of the encoded bytes, in hex.
        background: red, green and blue 0..255, shown where the picture is transparent.
        path: the file; None where `data` holds the bytes.
        data: the encoded bytes; None where they stand in the file.
        name: what messages call it: the file or the row it came from.

    Example:
        >>> picture = Picture.of_bytes(b"not yet decoded", name="row 3")
        >>> picture == Picture.of_bytes(b"not yet decoded", name="row 9"), picture.name
        (True, 'row 3')
    """

    digest: str
    background: Color = WHITE
    path: str | None = field(default=None, compare=False, repr=False)
    data: bytes | None = field(default=None, compare=False, repr=False)
    name: str = field(default="", compare=False)

    @classmethod
    def of_file(cls, path: Path | str, *, name: str | None = None, background: Color = WHITE) -> Picture:
        """A picture that stays in its file; the file is read once, for its digest, and not decoded.

        Raises:
            InputError: the file is not there or not to be read; PictureError: it is empty.
        """
        data = _bytes_of(Path(path), name or str(path))
        return cls(hashlib.sha256(data).hexdigest(), background, path=str(path), name=name or str(path))

    @classmethod
    def of_bytes(cls, data: bytes, *, name: str, background: Color = WHITE) -> Picture:
        """A picture whose encoded bytes are at hand.

        Raises:
            PictureError: there are none.
        """
        if not data:
            raise PictureError(name, "is empty (0 bytes)", "leave it out, or give the whole file")
        return cls(hashlib.sha256(data).hexdigest(), background, data=bytes(data), name=name)

    @classmethod
    def of_image(cls, image: Any, *, name: str, background: Color = WHITE) -> Picture:
        """A picture that PIL has open; it is kept as a PNG of what a model sees: upright, RGB, on the background.

        Raises:
            PictureError: it cannot be read, or has several frames.
        """
        buffer = io.BytesIO()
        # Packed little: it is read again soon.
        show_image(image, name=name, background=background).save(buffer, format="PNG", compress_level=1)
        return cls.of_bytes(buffer.getvalue(), name=name, background=background)

    def encoded(self) -> bytes:
        """The encoded bytes.

        Raises:
            InputError: the file is gone; WorkError: the file holds another picture by now.
        """
        if self.data is not None:
            return self.data
        data = _bytes_of(Path(self.path or ""), self.name)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise WorkError(f"picture {self.name}: the file was changed while it was in use: restore it, or start again")
        return data

    def open(self, *, max_pixels: int = MAX_PIXELS) -> Image:
        """Decode it as `decode_picture` does: upright, RGB, 8 bits.

        Raises:
            PictureError: it cannot be shown to a model, and why.
        """
        return decode_picture(self.encoded(), name=self.name, background=self.background, max_pixels=max_pixels)


def _bytes_of(path: Path, name: str) -> bytes:
    kind = kind_of(path)
    if kind in ("folder", "other"):
        # A pipe would be waited for without end.
        raise PictureError(name, f"is a {'folder' if kind == 'folder' else 'device, a pipe or a socket'}", "give a file")
    with reading(path):
        data = path.read_bytes()
    if not data:
        raise PictureError(name, "is empty (0 bytes)", "leave it out, or give the whole file")
    return data
