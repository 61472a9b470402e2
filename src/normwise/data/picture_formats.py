"""What kind of file the bytes of a picture are, by how they begin, and whether they are all there, by how they end."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

# The raster formats that are read. Everything else is refused: formats of several sizes (ICO, ICNS), of layers (PSD), of
# drawing commands (SVG, EPS, WMF, PDF), and what few readers agree on.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
READ = f"{', '.join(FORMATS[:-1])} and {FORMATS[-1]} are read"

_STARTS = {"PNG": (b"\x89PNG\r\n\x1a\n",), "JPEG": (b"\xff\xd8\xff",), "GIF": (b"GIF87a", b"GIF89a")}
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
# Where the seven passes of an interlaced PNG begin (column, row) and how far their pixels are apart.
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE = 1 << 18
_SAVE = f"save it as PNG or JPEG ({READ})"
_RASTERIZE = "draw it as PNG in the size you need first: vector pictures have no pixels"
_FRAME = "take one frame out of it first, and give that"

# What begins so, its name, and the way out.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (rb"%PDF-", "a PDF document", "draw the page as PNG in the size you need first"),
    (rb"%!PS|\xc5\xd0\xd3\xc6", "an EPS or PostScript drawing", _RASTERIZE),
    (rb"\xd7\xcd\xc6\x9a|\x01\0\0\0.{36} EMF", "a WMF or EMF drawing", _RASTERIZE),
    (rb"8BPS", "a Photoshop file", _SAVE),
    (rb"\0\0[\x01\x02]\0[^\0]", "an icon or cursor, which holds several sizes", _SAVE),
    (rb"icns", "an icon, which holds several sizes", _SAVE),
    (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "a JPEG 2000 picture", _SAVE),
    (rb"\xff\x0a|\0\0\0\x0cJXL ", "a JPEG XL picture", _SAVE),
    (rb"....ftyp(?:hei|hev|mif1|msf1)", "a HEIC picture", _SAVE),
    (rb"....ftyp|....moov|\x1aE\xdf\xa3|RIFF....AVI |\0\0\x01[\xb3\xba]|FLV\x01|OggS|0&\xb2u", "a video or sound file", _FRAME),
    (rb"ID3|RIFF....WAVE|fLaC", "a sound file", "leave it out"),
    (rb"PK\x03\x04|\x1f\x8b|Rar!|7z\xbc\xaf|BZh|\xfd7zXZ|\(\xb5/\xfd", "a packed archive", "unpack it first"),
    (rb"version https://git-lfs", "a Git LFS pointer, not the picture itself", "fetch the files with: git lfs pull"),
)
_FOREIGN_PATTERNS = tuple((re.compile(pattern, re.DOTALL), what, way_out) for pattern, what, way_out in _FOREIGN)


def picture_format(data: bytes) -> str | None:
    """The format that the bytes begin like, one of `FORMATS`; None when they begin like none of them.

    Example:
        >>> picture_format(b"GIF89a..."), picture_format(b"%PDF-1.7")
        ('GIF', None)
    """
    for name, starts in _STARTS.items():
        if data.startswith(starts):
            return name
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith(_TIFF):
        return "TIFF"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    if re.match(rb"P[1-6f][\s#]", data):
        return "PPM"
    if data[4:8] == b"ftyp" and re.search(rb"avi[fs]", data[8 : max(16, min(64, int.from_bytes(data[:4], "big")))]):
        return "AVIF"
    return None


def foreign_kind(data: bytes) -> tuple[str, str]:
    """What bytes that are no picture of `FORMATS` are, as a clause, and the way out.

    Example:
        >>> foreign_kind(b"%PDF-1.7")[0]
        'is a PDF document'
    """
    for pattern, what, way_out in _FOREIGN_PATTERNS:
        if pattern.match(data):
            return f"is {what}", way_out
    starts = [*(start for starts in _STARTS.values() for start in starts), *_TIFF]
    if len(data) < 16 and (any(start.startswith(data) for start in starts) or data[:4] == b"RIFF"):
        return f"is cut off after {len(data)} bytes", "copy or download it again"
    head = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if b"<svg" in head:
        return "is an SVG drawing", _RASTERIZE
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "is an HTML page, as servers send in place of a missing picture", "download the picture again"
    text = _as_text(data[:256])
    if text is not None:
        return f"is text ({text[:40]!r})", "name the file that holds the picture, or leave the row out"
    return f"is no picture that is known (it begins {data[:4].hex(' ')})", _SAVE


def missing_end(kind: str, data: bytes, opened: Any) -> str | None:
    """Say what is missing at the end of a picture, or None when it is whole; what follows a whole picture is not looked at.

    Decoders stop at the last pixel, and some make up what is not there: this reads the lengths that the file itself
    states. For PNG the checksums of the pixels are compared too.

    Args:
        kind: one of `FORMATS`.
        data: the whole file.
        opened: the picture as Pillow opened it, pixels not yet decoded.
    """
    check = _ENDS.get(kind)
    return None if check is None else check(data, opened)


def png_lacks_pixels(data: bytes) -> bool:
    """Whether the packed pixels of a whole PNG end before the last row: Pillow leaves what is missing black.

    Args:
        data: the whole file.
    """
    wanted, unpacked, place = _png_pixel_bytes(data), zlib.decompressobj(), 8
    while place + 12 <= len(data) and wanted > 0 and not unpacked.eof:
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        packed = data[place + 8 : end - 4] if data[place + 4 : place + 8] == b"IDAT" else b""
        while packed and wanted > 0 and not unpacked.eof:
            wanted -= len(unpacked.decompress(packed, _PIECE))
            packed = unpacked.unconsumed_tail
        place = end
    return wanted > 0


def _png_pixel_bytes(data: bytes) -> int:
    """Bytes of the unpacked rows that the header announces, the filter byte of each row counted (PNG 1.2, 2.3 and 8.2)."""
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    bits = data[24] * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[data[25]]
    parts = _ADAM7 if data[28] else ((0, 0, 1, 1),)
    total = 0
    for left, top, step, fall in parts:
        columns, rows = -(-(width - left) // step), -(-(height - top) // fall)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def _as_text(data: bytes) -> str | None:
    for encoding in ("utf-16",) if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8",):
        for cut in range(4):  # the last character may be cut
            try:
                text = data[: len(data) - cut].decode(encoding)
            except UnicodeDecodeError:
                continue
            return text if all(letter.isprintable() or letter.isspace() for letter in text) else None
    return None


def _png_end(data: bytes, opened: Any) -> str | None:
    place, view = 8, memoryview(data)
    while place + 12 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        if end > len(data):
            break
        kind = data[place + 4 : place + 8]
        if kind == b"IDAT" and zlib.crc32(view[place + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return "the checksum of its pixels is wrong"
        if kind == b"IEND":
            return None
        place = end
    return "its last chunk is missing"


def _jpeg_end(data: bytes, opened: Any) -> str | None:
    # Pillow stands right behind the header of the pixels; a thumbnail before it has an end mark of its own.
    start = opened.fp.tell() if opened.format == "JPEG" else 0
    return None if data.rfind(b"\xff\xd9", start) >= 0 else "its end mark is missing"


def _gif_end(data: bytes, opened: Any) -> str | None:
    place = 13 + _gif_colors(data, 10)
    while place < len(data):
        kind = data[place]
        if kind == 0x3B:
            return None
        if kind == 0x2C:
            place = _gif_blocks(data, place + 11 + _gif_colors(data, place + 9))
        elif kind == 0x21:
            place = _gif_blocks(data, place + 2)
        else:
            place += 1
    return "its end mark is missing"


def _gif_colors(data: bytes, place: int) -> int:
    """Bytes of the color table that a flag announces."""
    flags = data[place] if place < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 128 else 0


def _gif_blocks(data: bytes, place: int) -> int:
    """The place behind a row of blocks, each of which begins with its length."""
    while place < len(data) and data[place]:
        place += 1 + data[place]
    return place + 1


def _webp_end(data: bytes, opened: Any) -> str | None:
    wanted = 8 + int.from_bytes(data[4:8], "little")
    return None if len(data) >= wanted else f"{wanted - len(data):,} of {wanted:,} bytes are missing"


def _bmp_end(data: bytes, opened: Any) -> str | None:
    codec, box, offset, settings = opened.tile[0]
    if codec != "raw":
        return None
    wanted = offset + settings[1] * box[3]
    return None if len(data) >= wanted else f"{wanted - len(data):,} of {wanted:,} bytes are missing"


def _tiff_end(data: bytes, opened: Any) -> str | None:
    for offsets, counts in ((273, 279), (324, 325)):
        starts, lengths = _numbers(opened.tag_v2.get(offsets)), _numbers(opened.tag_v2.get(counts))
        for start, length in zip(starts, lengths, strict=False):
            if start + length > len(data):
                return f"{start + length - len(data):,} bytes of its pixels are missing"
    return None


def _numbers(value: Any) -> Sequence[int]:
    found = value if isinstance(value, tuple) else (value,)
    return [number for number in found if isinstance(number, int)]


def _avif_end(data: bytes, opened: Any) -> str | None:
    place = 0
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if size == 1:
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        if size == 0:
            return None
        if size < 8:
            break
        place += size
    return None if place <= len(data) else f"{place - len(data):,} bytes are missing"


_ENDS: dict[str, Callable[[bytes, Any], str | None]] = {
    "PNG": _png_end,
    "JPEG": _jpeg_end,
    "GIF": _gif_end,
    "WEBP": _webp_end,
    "BMP": _bmp_end,
    "TIFF": _tiff_end,
    "AVIF": _avif_end,
}
