"""From the bytes of a picture to what a model sees: upright, RGB, 8 bits a channel, on a stated background."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.picture_colors import Color, NoRangeError, as_rgb
from normwise.data.picture_formats import foreign_kind, missing_end, picture_format, png_lacks_pixels
from normwise.data.picture_guard import known_settings

if TYPE_CHECKING:
    from PIL.Image import Image

WHITE: Color = (255, 255, 255)
MAX_PIXELS = 50_000_000

_AGAIN = "copy or download it again"
_MEND = "open it in an editor and save it again, or leave it out"
_SCALE = "scale it to 8 or 16 bits first: nothing in it says which value is white"
_ORIENTATION = 0x0112
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262
# Pages of a TIFF file beyond these are not counted.
_MANY = 100
_CUT = re.compile(r"truncat|not enough|unexpected end|eof|end of (?:data|file)|incomplete|\(-?\d+ bytes|buffer is not large", re.IGNORECASE)
# Pillow's words for what an upright picture is made from: the stored one, turned or mirrored (EXIF 2.3, tag 0x0112).
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


class PictureError(InputError):
    """A picture that cannot be shown to a model: which one, why, and the way out."""

    def __init__(self, name: str, problem: str, way_out: str) -> None:
        super().__init__(f"picture {name} {problem}: {way_out}")
        self.name, self.problem, self.way_out = name, problem, way_out

    def __reduce__(self) -> tuple[type[PictureError], tuple[str, str, str]]:
        return type(self), (self.name, self.problem, self.way_out)


def decode_picture(data: bytes, *, name: str, background: Color = WHITE, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode one picture, always at its full size.

    PNG, JPEG, WebP, GIF, BMP, TIFF, PPM and AVIF are read, by what the bytes are and not by the name. The picture is
    turned upright as its EXIF orientation says (a broken EXIF block counts as none). A pixel c with opacity a (0..255)
    on background b becomes the integer nearest to (a c + (255 - a) b) / 255. Grey of 16 bits is divided by 257 and
    rounded; integers of 32 bits are read as 16 bits where all fit. Of color with 16 bits a channel the high bytes are
    kept. CMYK is read in Adobe's way (inks inverted) and converted without a profile: (1 - ink)(1 - black). Embedded
    color profiles are ignored, as by the pipelines that vision models were trained with. Of JPEG files that hold several
    pictures (MPO) the first is read.

    Damaged pixels show where the format says so: by checksum in PNG, by stated lengths elsewhere. JPEG has neither
    inside its pixels, so a flipped bit there may pass as another picture; nor does a GIF tell whether its rows end early.

    Args:
        data: the encoded bytes.
        name: what messages call it.
        background: red, green and blue 0..255, shown where the picture is transparent.
        max_pixels: width x height up to which a picture is decoded; the size is read from the header, before any pixel.

    Returns:
        An RGB picture without metadata.

    Raises:
        PictureError: it is empty, cut off, damaged, too large, animated, of another format, or has no range of values.
        InputError: a background or limit that is none.
        MissingExtraError: Pillow is not installed.

    Example:
        >>> decode_picture(b"GIF89a", name="cat.gif")
        Traceback (most recent call last):
        ...
        normwise.data.picture_decoding.PictureError: picture cat.gif is cut off after 6 bytes: copy or download it again
    """
    _check_settings(background, max_pixels)
    images = _pillow()
    if not data:
        raise PictureError(name, "is empty (0 bytes)", "leave it out, or give the whole file")
    kind = picture_format(data)
    if kind is None or len(data) < 8:
        raise PictureError(name, *foreign_kind(data))
    try:
        with known_settings(max_pixels), images.open(io.BytesIO(data), formats=(kind,)) as opened:
            _check_header(opened, name, max_pixels)
            cut = missing_end(kind, data, opened)
            if cut is not None:
                raise PictureError(name, f"is cut off or damaged ({cut})", _AGAIN)
            return _decoded(opened, kind, data, background)
    except PictureError:
        raise
    except images.DecompressionBombError:
        raise PictureError(name, f"declares more than {max_pixels:,} pixels", _smaller(max_pixels)) from None
    except NoRangeError as error:
        raise PictureError(name, str(error), _SCALE) from None
    except Exception as error:  # readers of files raise whatever they stumble over
        raise PictureError(name, *_failure(error, kind, data)) from None


def show_image(image: Any, *, name: str, background: Color | None = WHITE, max_pixels: int = MAX_PIXELS) -> Image:
    """Do for a picture that Pillow has open what `decode_picture` does for bytes; the given one is left as it is.

    Args:
        image: a `PIL.Image.Image`, its pixels read or not.
        name: what messages call it.
        background: red, green and blue 0..255, shown where it is transparent; None leaves that open.
        max_pixels: width x height up to which its pixels are read.

    Returns:
        An upright RGB picture without metadata; RGBA where it may be transparent and no background is given.

    Raises:
        PictureError: as in `decode_picture`; one of several frames is taken with `image.copy()`.
        InputError: a background or limit that is none.
    """
    _check_settings(background, max_pixels)
    kind = image.format or "open picture"
    try:
        with known_settings(max_pixels):
            _check_header(image, name, max_pixels)
            image.load()
            return _upright(as_rgb(image, background=background, depth=0), _orientation(image))
    except PictureError:
        raise
    except NoRangeError as error:
        raise PictureError(name, str(error), _SCALE) from None
    except Exception as error:  # readers of files raise whatever they stumble over
        raise PictureError(name, *_failure(error, kind, b"")) from None


def _check_settings(background: Color | None, max_pixels: int) -> None:
    if background is not None and (len(background) != 3 or not all(isinstance(level, int) and 0 <= level <= 255 for level in background)):
        raise InputError(f"background must be red, green and blue 0..255, got {background!r}")
    if max_pixels < 1:
        raise InputError(f"max_pixels must be 1 or more, got {max_pixels}")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("pillow", extra="train") from None
    return Image


def _smaller(max_pixels: int) -> str:
    return f"make it smaller (normwise reads up to {max_pixels:,} pixels)"


def _check_header(opened: Any, name: str, max_pixels: int) -> None:
    width, height = opened.size
    if width * height > max_pixels:
        problem = f"declares {width:,} x {height:,} = {width * height:,} pixels, more than {max_pixels:,}"
        raise PictureError(name, problem, _smaller(max_pixels))
    frames = _frames(opened)
    if frames > 1:
        told = f"{_MANY} or more" if opened.format == "TIFF" and frames >= _MANY else str(frames)
        raise PictureError(name, f"is animated or has pages ({told} frames)", "take one frame out of it first, and give that")


def _frames(opened: Any) -> int:
    if opened.format == "MPO" or not getattr(opened, "is_animated", False):
        return 1
    if opened.format != "TIFF":
        return opened.n_frames
    frames = 1
    try:
        while frames < _MANY:
            opened.seek(frames)
            frames += 1
    except EOFError:
        opened.seek(0)
    return frames


def _decoded(opened: Any, kind: str, data: bytes, background: Color) -> Image:
    extent = getattr(opened, "dispose_extent", None) if kind == "GIF" else None
    white_is_zero = kind == "TIFF" and opened.tag_v2.get(_PHOTOMETRIC) == 0
    depth = _depth(opened, kind, data)
    opened.load()
    if kind == "PNG" and _may_lack_rows(opened) and png_lacks_pixels(data):
        raise EOFError("its pixels end before its last row")
    orientation = _orientation(opened)
    shown = as_rgb(opened, background=background, depth=depth, white_is_zero=white_is_zero)
    if extent is not None and "transparency" not in opened.info:
        shown = _only_within(shown, extent, background)
    return _upright(shown, orientation)


def _upright(shown: Image, orientation: int) -> Image:
    if orientation in _TURNS:
        shown = shown.transpose(_pillow().Transpose[_TURNS[orientation]])
    # A plain picture around the same pixels: what the file said beside them (EXIF above all) must not be applied again.
    plain = shown._new(shown.im)
    plain.info = {}
    return plain


def _may_lack_rows(opened: Any) -> bool:
    """Whether rows of a PNG may be missing: the last one is black, or rows did not come in order."""
    width, height = opened.size
    return "interlace" in opened.info or not any(opened.crop((0, height - 1, width, height)).tobytes())


def _depth(opened: Any, kind: str, data: bytes) -> int:
    """Bits of a channel, where Pillow does not scale by them itself; 0 elsewhere."""
    if kind == "PNG":
        return data[24]
    if kind == "TIFF":
        bits = opened.tag_v2.get(_BITS_PER_SAMPLE)
        return bits[0] if isinstance(bits, tuple) and bits and isinstance(bits[0], int) else 0
    return 0


def _orientation(opened: Any) -> int:
    try:
        value = opened.getexif().get(_ORIENTATION, 1)
    except Exception:  # a broken EXIF block does not make a broken picture
        return 1
    return value if isinstance(value, int) else 1


def _only_within(shown: Image, extent: tuple[int, int, int, int], background: Color) -> Image:
    """What the first frame of a GIF does not cover is transparent, where Pillow shows the first color of the palette."""
    if tuple(extent) == (0, 0, *shown.size):
        return shown
    canvas = _pillow().new("RGB", shown.size, background)
    canvas.paste(shown.crop(extent), extent[:2])
    return canvas


def _failure(error: Exception, kind: str, data: bytes) -> tuple[str, str]:
    """The problem and the way out for what was raised while a picture was read."""
    reason = " ".join(str(error).split())[:120]
    if isinstance(error, MemoryError):
        return "does not fit into memory", "make it smaller, or lower max_pixels"
    if "too large for" in reason or "Too much memory" in reason:
        return f"holds a text or profile that unpacks to more than is safe ({kind})", "save it again without metadata"
    if _no_area(kind, data):
        return "declares a width or height of 0", _MEND
    if isinstance(error, _pillow().UnidentifiedImageError):
        return f"begins as {kind}, but its header is damaged or of a kind that is not read", _MEND
    if isinstance(error, EOFError) or _CUT.search(reason):
        return f"is cut off ({kind}: {reason or 'end of data'})", _AGAIN
    return f"is damaged ({kind}: {reason or type(error).__name__})", _MEND


def _no_area(kind: str, data: bytes) -> bool:
    """Whether the header states a width or height of 0; Pillow then says only that it does not know the file."""
    if kind == "PNG":
        return data[16:20] == bytes(4) or data[20:24] == bytes(4)
    if kind == "GIF":
        return data[6:8] == bytes(2) or data[8:10] == bytes(2)
    if kind == "BMP":
        return data[18:22] == bytes(4) or data[22:26] == bytes(4)
    if kind == "JPEG":
        found = re.search(rb"\xff[\xc0-\xc2]\0\x11\x08(....)", data, re.DOTALL)
        return found is not None and (found[1][:2] == bytes(2) or found[1][2:] == bytes(2))
    return kind == "PPM" and re.match(rb"P\d\s+(?:0+\s|\d+\s+0+\s)", data) is not None
