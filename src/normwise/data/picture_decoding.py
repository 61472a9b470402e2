"""From the bytes of a picture to what a model sees: upright, RGB, 8 bits a channel, on a stated background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normwise.core.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Color = tuple[int, int, int]
WHITE: Color = (255, 255, 255)
MAX_PIXELS = 50_000_000


class PictureError(InputError):
    """A picture that cannot be shown to a model: which one, why, and the way out."""

    def __init__(self, name: str, problem: str, way_out: str) -> None:
        super().__init__(f"picture {name} {problem}: {way_out}")
        self.name, self.problem, self.way_out = name, problem, way_out


def decode_picture(data: bytes, *, name: str, background: Color = WHITE, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode one picture.

    Args:
        data: the encoded bytes.
        name: what messages call it.
        background: shown where the picture is transparent.
        max_pixels: width x height up to which a picture is decoded.

    Returns:
        An RGB picture.

    Raises:
        PictureError: it cannot be decoded.
    """
    raise NotImplementedError
