"""From the pixels of a file to red, green and blue of 8 bits: scaled, not cut, and with nothing transparent left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Color = tuple[int, int, int]
_TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")
_SIXTEEN = 65_535


class NoRangeError(ValueError):
    """Pixels of which nothing says what is black and what is white."""


def as_rgb(image: Image, *, background: Color | None, depth: int, white_is_zero: bool = False) -> Image:
    """Convert a decoded picture to RGB, 8 bits, on a background.

    A pixel c with opacity a (0..255) on background b becomes the integer nearest to (a c + (255 - a) b) / 255, in each
    channel. Grey v of d bits, d > 8, becomes the integer nearest to 255 v / (2^d - 1).

    Args:
        image: as Pillow decoded it.
        background: red, green and blue 0..255; None leaves what is transparent so.
        depth: bits of one channel in the file; 0 when it is not told.
        white_is_zero: the file counts grey from white, which Pillow turns round up to 8 bits only.

    Returns:
        An RGB picture of the same size, without a background RGBA where any pixel may be transparent; `image` itself where
        it is one already.

    Raises:
        NoRangeError: float pixels, or integers that do not fit 16 bits.
    """
    if image.mode == "F":
        raise NoRangeError("holds floating-point values")
    if image.mode == "I" or image.mode.startswith("I;"):
        return _deep_grey(image, background=background, depth=depth, white_is_zero=white_is_zero)
    if image.mode in _TRANSPARENT or "transparency" in image.info or _palette_is_transparent(image):
        clear = _with_alpha(image, depth)
        return clear if background is None else _on_background(clear, background)
    return image if image.mode == "RGB" else image.convert("RGB")


def _palette_is_transparent(image: Image) -> bool:
    return image.mode == "P" and image.palette is not None and image.palette.mode.endswith("A")


def _with_alpha(image: Image, depth: int) -> Image:
    if image.mode == "RGBA":
        return image
    key: Any = image.info.get("transparency")
    if image.mode == "L" and 0 < depth < 8:  # the file states the key in its own levels
        image.info["transparency"] = key * 255 // ((1 << depth) - 1)
    elif image.mode == "RGB" and depth == 16:  # the pixels were cut to their high bytes, so the key is too
        image.info["transparency"] = tuple(level >> 8 for level in key)
    return (image.convert("LA") if image.mode == "La" else image).convert("RGBA")


def _on_background(image: Image, background: Color) -> Image:
    from PIL import Image as images

    canvas = images.new("RGB", image.size, background)
    canvas.paste(image, mask=image)
    return canvas


def _deep_grey(image: Image, *, background: Color | None, depth: int, white_is_zero: bool) -> Image:
    from PIL import Image as images

    values = np.asarray(image)
    if image.mode == "I":
        low, high = int(values.min()), int(values.max())
        if low < 0 or high > _SIXTEEN:
            raise NoRangeError(f"holds integers from {low:,} to {high:,}")
    top = (1 << depth) - 1 if 8 < depth < 16 else _SIXTEEN
    counted = np.minimum(values, top).astype(np.int64)
    # The top is odd, so nothing is ever half way between two levels.
    grey = (((top - counted if white_is_zero else counted) * 255 + top // 2) // top).astype(np.uint8)
    shown = images.fromarray(grey).convert("RGB")
    key = image.info.get("transparency")
    if not isinstance(key, int):
        return shown
    shown.putalpha(images.fromarray(np.where(values == key, np.uint8(0), np.uint8(255))))
    return shown if background is None else _on_background(shown, background)
