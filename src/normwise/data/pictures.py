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

    Two pictures are equal when their bytes and backgrounds are: a copy under another name is the same picture. A background
    that is not stated is left to the model: what it was trained with, else white.

    Args:
        digest: SHA-256 of the encoded bytes, in hex.
        background: red, green and blue 0..255, shown where the picture is transparent; None is not stated.
        path: the file; None where `data` holds the bytes.
        data: the encoded bytes; None where they stand in the file.
        name: what it is called: the file or the row it came from.
        where: file, row and column that named it, for messages; empty where it came from no file of rows.

    Example:
        >>> picture = Picture.of_bytes(b"not yet decoded", name="row 3")
        >>> picture == Picture.of_bytes(b"not yet decoded", name="row 9"), picture.name
        (True, 'row 3')
    """

    digest: str
    background: Color | None = None
    path: str | None = field(default=None, compare=False, repr=False)
    data: bytes | None = field(default=None, compare=False, repr=False)
    name: str = field(default="", compare=False)
    where: str = field(default="", compare=False, repr=False)

    @classmethod
    def of_file(cls, path: Path | str, *, name: str | None = None, background: Color | None = None, where: str = "") -> Picture:
        """A picture that stays in its file; the file is read once, for its digest, and not decoded.

        Raises:
            InputError: the file is not there or not to be read; PictureError: it is empty.
        """
        data = _bytes_of(Path(path), name or str(path))
        return cls(hashlib.sha256(data).hexdigest(), background, path=str(path), name=name or str(path), where=where)

    @classmethod
    def of_bytes(cls, data: bytes, *, name: str, background: Color | None = None, where: str = "") -> Picture:
        """A picture whose encoded bytes are at hand.

        Raises:
            PictureError: there are none.
        """
        if not data:
            raise PictureError(name, "is empty (0 bytes)", "leave it out, or give the whole file")
        return cls(hashlib.sha256(data).hexdigest(), background, data=bytes(data), name=name, where=where)

    @classmethod
    def of_image(cls, image: Any, *, name: str, background: Color | None = None) -> Picture:
        """A picture that PIL has open; it is kept as a PNG of what a model sees: upright, RGB, transparent where it may be.

        Raises:
            PictureError: it cannot be read, or has several frames.
        """
        buffer = io.BytesIO()
        # Packed little: it is read again soon.
        show_image(image, name=name, background=None).save(buffer, format="PNG", compress_level=1)
        return cls.of_bytes(buffer.getvalue(), name=name, background=background)

    @property
    def shown_on(self) -> Color:
        """The color that shows where it is transparent: the stated one, else white."""
        return WHITE if self.background is None else self.background

    @property
    def told(self) -> str:
        """What messages call it: its name, and the row that named it.

        Example:
            >>> Picture.of_bytes(b"...", name="cat.png", where="pairs.jsonl, row 3").told
            'cat.png (pairs.jsonl, row 3)'
        """
        return f"{self.name} ({self.where})" if self.where and self.where not in self.name else self.name

    def encoded(self) -> bytes:
        """The encoded bytes.

        Raises:
            InputError: the file is gone; WorkError: the file holds another picture by now.
        """
        if self.data is not None:
            return self.data
        data = _bytes_of(Path(self.path or ""), self.told)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise WorkError(f"picture {self.told}: the file was changed while it was in use: restore it, or start again")
        return data

    def open(self, *, max_pixels: int = MAX_PIXELS) -> Image:
        """Decode it as `decode_picture` does: upright, RGB, 8 bits.

        Raises:
            PictureError: it cannot be shown to a model, and why.
        """
        return decode_picture(self.encoded(), name=self.told, background=self.shown_on, max_pixels=max_pixels)


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
