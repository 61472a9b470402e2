"""Odd and malformed picture files, made here: name -> bytes and what must come of them."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

SIZE = (7, 5)  # width, height


@dataclass(frozen=True)
class Case:
    """`pixels` (H, W, 3) and `within` levels of it where it is good; else `refused`, a pattern of the message."""

    data: bytes
    pixels: np.ndarray | None = None
    within: int = 0
    refused: str = ""


def colors(*, seed=0, size=SIZE):
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def smooth(*, size=(32, 24)):
    """Colors that JPEG keeps within a few levels."""
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    return np.stack([x, y, 255 - x / 2 - y / 2], axis=2).round().astype(np.uint8)


def encode(image, kind, **settings):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image.save(buffer, format=kind, **settings)
    return buffer.getvalue()


def picture(pixels=None):
    return Image.fromarray(colors() if pixels is None else pixels)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, *, depth, color, rows, before=(), after=()):
    """A PNG by hand: `rows` is the raw bytes of each row."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(before) + pixels + b"".join(after) + chunk(b"IEND", b"")


def tiff(width, height, pixels, *, bits, photometric=1, samples=1, sample_format=1, extra=()):
    """A little-endian TIFF by hand, of one uncompressed strip."""
    entries = [
        *((256, 4, width), (257, 4, height), (258, 3, bits), (259, 3, 1), (262, 3, photometric), (273, 4, 8), (277, 3, samples)),
        *((278, 4, height), (279, 4, len(pixels)), (339, 3, sample_format), *extra),
    ]
    body = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in sorted(entries))
    return b"II*\0" + struct.pack("<I", 8 + len(pixels)) + pixels + struct.pack("<H", len(entries)) + body + bytes(4)


def blend(pixels, alpha, background):
    """The definition, pixel by pixel, in whole numbers: the nearest to (a c + (255 - a) b) / 255."""
    out = np.zeros((*alpha.shape, 3), dtype=np.uint8)
    for y in range(alpha.shape[0]):
        for x in range(alpha.shape[1]):
            a = int(alpha[y, x])
            for k in range(3):
                exact = a * int(pixels[y, x, k]) + (255 - a) * background[k]
                out[y, x, k] = min(range(256), key=lambda level: abs(255 * level - exact))
    return out


def grey(values):
    return np.repeat(np.asarray(values, dtype=np.uint8)[:, :, None], 3, axis=2)


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


def bomb_gif(width=60_000, height=60_000):
    frame = b"\x21\xf9\x04\x08\0\0\0\0" + b"," + struct.pack("<HHHH", 0, 0, width, height) + b"\0\x02\x02\x44\x01\0;"
    return b"GIF89a" + struct.pack("<HH", 1, 1) + b"\x80\0\0" + bytes(6) + frame


def good_cases(background=(255, 255, 255)):
    """Odd files that are good."""
    rgb, alpha = colors(), colors(seed=1)[:, :, 0]
    rgba = Image.fromarray(np.dstack([rgb, alpha]))
    deep = np.random.default_rng(2).integers(0, 65_536, SIZE[::-1], dtype=np.uint16)
    deep[0, :4] = (0, 65_535, 128, 129)
    nearest = grey([[round(int(v) / 257) for v in row] for row in deep])
    palette = Image.fromarray(rgb[:, :, 0] % 8).convert("P")
    palette.putpalette([(17 * k) % 256 for k in range(24)])
    table = np.array([(17 * k) % 256 for k in range(24)], dtype=np.uint8).reshape(8, 3)[rgb[:, :, 0] % 8]
    opacity = bytes((0, 255, 100, 7, 255, 254, 1, 200))
    shown = np.frombuffer(opacity, dtype=np.uint8)[rgb[:, :, 0] % 8]
    flat = np.full((16, 16, 3), (200, 40, 90), dtype=np.uint8)
    ink = Image.new("CMYK", (16, 16), (10, 200, 60, 30))
    inked = np.full((16, 16, 3), [round((255 - c) * (255 - 30) / 255) for c in (10, 200, 60)], dtype=np.uint8)
    ycck = bytearray(encode(Image.new("CMYK", (16, 16), (128, 128, 128, 55)), "JPEG", quality=100))
    mark = ycck.index(b"Adobe")
    ycck[mark + 11] = 2  # the same stored values, now to be read as YCCK: luma 127, no chroma, black 200 (all inverted)
    one_bit = rgb[:, :, 0] > 127
    is_key = (rgb == rgb[2, 3]).all(axis=2, keepdims=True)
    levels = rgb[:, :, 0] % 4
    packed = [
        bytes(sum(int(levels[y, x]) << (6 - 2 * (x % 4)) for x in range(start, min(7, start + 4))) for start in (0, 4)) for y in range(5)
    ]
    white = np.array(background, dtype=np.uint8)
    small = Image.new("P", (4, 3), 1)
    small.putpalette([200, 0, 0, 0, 0, 200])
    within = bytearray(encode(small, "GIF"))
    within[6:10] = struct.pack("<HH", *SIZE)
    covered = np.tile(white, (5, 7, 1))
    covered[:3, :4] = (0, 0, 200)
    lab = Image.frombytes("LAB", (4, 4), bytes((255, 0, 0)) * 16)
    key_deep = np.where((deep == deep[3, 3])[:, :, None], white, nearest)
    wide = [b"".join(struct.pack(">3H", *(int(v) * 257 for v in pixel)) for pixel in row) for row in rgb]
    upright = {kind: encode(picture(smooth()), kind, exif=exif(6), **settings) for kind, settings in _LOSSLESS.items()}
    turned = np.rot90(smooth(), k=-1)
    return {
        "plain.png": Case(encode(picture(), "PNG"), rgb),
        "plain.bmp": Case(encode(picture(), "BMP"), rgb),
        "plain.ppm": Case(encode(picture(), "PPM"), rgb),
        "plain.tiff": Case(encode(picture(), "TIFF"), rgb),
        "deflate.tiff": Case(encode(picture(), "TIFF", compression="tiff_adobe_deflate"), rgb),
        "lossless.webp": Case(encode(picture(), "WEBP", lossless=True), rgb),
        "lossy.webp": Case(encode(picture(smooth()), "WEBP", quality=100), smooth(), 12),
        "plain.jpg": Case(encode(picture(smooth()), "JPEG", quality=100, subsampling=0), smooth(), 4),
        "progressive.jpg": Case(encode(picture(smooth()), "JPEG", quality=100, subsampling=0, progressive=True), smooth(), 4),
        "plain.avif": Case(encode(picture(smooth()), "AVIF", quality=100, subsampling="4:4:4"), smooth(), 6),
        "alpha.png": Case(encode(rgba, "PNG"), blend(rgb, alpha, background)),
        "alpha.webp": Case(encode(rgba, "WEBP", lossless=True, exact=True), blend(rgb, alpha, background)),
        "alpha.tiff": Case(encode(rgba, "TIFF"), blend(rgb, alpha, background)),
        "grey-alpha.png": Case(
            encode(Image.fromarray(np.dstack([rgb[:, :, 0], alpha])), "PNG"), blend(grey(rgb[:, :, 0]), alpha, background)
        ),
        "palette.png": Case(encode(palette, "PNG"), table),
        "palette.gif": Case(encode(palette, "GIF"), table),
        "palette.bmp": Case(encode(palette, "BMP"), table),
        "palette-opacities.png": Case(encode(palette, "PNG", transparency=opacity), blend(table, shown, background)),
        "palette-key.png": Case(encode(palette, "PNG", transparency=3), np.where((rgb[:, :, :1] % 8) == 3, white, table)),
        "palette-key.gif": Case(encode(palette, "GIF", transparency=3), np.where((rgb[:, :, :1] % 8) == 3, white, table)),
        "color-key.png": Case(encode(picture(), "PNG", transparency=tuple(int(v) for v in rgb[2, 3])), np.where(is_key, white, rgb)),
        "grey-key.png": Case(
            encode(picture(rgb[:, :, 0]), "PNG", transparency=int(rgb[1, 1, 0])),
            np.where(rgb[:, :, :1] == rgb[1, 1, 0], white, grey(rgb[:, :, 0])),
        ),
        "two-bit-key.png": Case(
            png(7, 5, depth=2, color=0, rows=packed, before=[chunk(b"tRNS", b"\0\x02")]),
            np.where(levels[:, :, None] == 2, white, grey(levels * 85)),
        ),
        "deep-key.png": Case(
            png(
                7,
                5,
                depth=16,
                color=0,
                rows=[row.astype(">u2").tobytes() for row in deep],
                before=[chunk(b"tRNS", struct.pack(">H", deep[3, 3]))],
            ),
            key_deep,
        ),
        "deep.png": Case(png(7, 5, depth=16, color=0, rows=[row.astype(">u2").tobytes() for row in deep]), nearest),
        "deep.tiff": Case(encode(Image.fromarray(deep), "TIFF"), nearest),
        "deep-inverted.tiff": Case(
            tiff(7, 5, deep.tobytes(), bits=16, photometric=0), grey([[round((65_535 - int(v)) / 257) for v in row] for row in deep])
        ),
        "deep-32-bit.tiff": Case(encode(Image.fromarray(deep.astype(np.int32)), "TIFF"), nearest),
        "deep.pgm": Case(encode(Image.fromarray(deep), "PPM"), nearest),
        "deep-color.png": Case(png(7, 5, depth=16, color=2, rows=wide), rgb),
        "deep-color-key.png": Case(
            png(7, 5, depth=16, color=2, rows=wide, before=[chunk(b"tRNS", struct.pack(">3H", *(int(v) * 257 for v in rgb[2, 3])))]),
            np.where(is_key, white, rgb),
        ),
        "one-bit.png": Case(encode(Image.fromarray(one_bit), "PNG"), grey(one_bit * 255)),
        "one-bit-white-first.tiff": Case(encode(Image.fromarray(one_bit), "TIFF"), grey(one_bit * 255)),
        "grey.jpg": Case(encode(picture(smooth()[:, :, 0]), "JPEG", quality=100), grey(smooth()[:, :, 0]), 2),
        "cmyk.jpg": Case(encode(ink, "JPEG", quality=100), inked, 2),
        "cmyk.tiff": Case(encode(ink, "TIFF"), inked, 1),
        "ycck.jpg": Case(bytes(ycck), np.full((16, 16, 3), round(127 * 200 / 255), dtype=np.uint8), 3),
        "ycbcr.tiff": Case(encode(picture(flat).convert("YCbCr"), "TIFF"), flat, 2),
        "lab-white.tiff": Case(encode(lab, "TIFF"), np.full((4, 4, 3), 255, dtype=np.uint8), 2),
        "small-frame.gif": Case(bytes(within), covered),
        "comment-and-tail.png": Case(encode(picture(), "PNG") + b"a tail that nobody reads", rgb),
        "tail.jpg": Case(encode(picture(smooth()), "JPEG", quality=100, subsampling=0) + bytes(99), smooth(), 4),
        "broken-exif.jpg": Case(
            encode(picture(smooth()), "JPEG", quality=100, subsampling=0, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12\0\x03"),
            smooth(),
            4,
        ),
        "text-as-exif.png": Case(encode(picture(), "PNG", exif=b"no EXIF at all"), rgb),
        "text-as-exif.webp": Case(encode(picture(), "WEBP", lossless=True, exif=b"no EXIF at all"), rgb),
        "exif-99.png": Case(encode(picture(), "PNG", exif=exif(99)), rgb),
        "one-page-animated.png": Case(encode(picture(), "PNG", save_all=True), rgb),
        **{f"turned.{kind.lower()}": Case(data, turned, 12 if kind in ("JPEG", "AVIF") else 0) for kind, data in upright.items()},
    }


_LOSSLESS = {
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "JPEG": {"quality": 100, "subsampling": 0},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
}


def refused_cases():
    """Files that are refused, each for its own reason."""
    rgb = picture()
    whole = {
        **{kind: encode(rgb, kind) for kind in ("PNG", "BMP", "PPM", "TIFF")},
        "JPEG": encode(picture(smooth(size=(96, 80))), "JPEG"),
        "GIF": encode(rgb.quantize(8), "GIF"),
        "WEBP": encode(rgb, "WEBP"),
        "AVIF": encode(rgb, "AVIF"),
    }
    frames = [picture(colors(seed=seed)) for seed in range(3)]
    huge = png(60_000, 60_000, depth=8, color=2, rows=[b"\0\0\0"])
    wrong = bytearray(whole["PNG"])
    wrong[wrong.index(b"IDAT") + 10] ^= 255
    header = bytearray(whole["PNG"])
    header[18] ^= 1
    jpeg_zero = bytearray(whole["JPEG"])
    place = jpeg_zero.index(b"\xff\xc0")
    jpeg_zero[place + 5 : place + 7] = bytes(2)
    bmp_zero = bytearray(whole["BMP"])
    bmp_zero[22:26] = bytes(4)
    bmp_huge = bytearray(whole["BMP"])
    bmp_huge[18:26] = struct.pack("<ii", 60_000, 60_000)
    webp_huge = b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\xff\xff" * 2 + bytes(46)
    long_text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2_000_000)))
    rows = [bytes(21)] * 5
    return {
        "empty.png": Case(b"", refused=r"is empty \(0 bytes\): leave it out"),
        "one-byte.png": Case(b"\x89", refused="is cut off after 1 bytes"),
        "start-only.jpg": Case(b"\xff\xd8", refused="is cut off after 2 bytes"),
        "signature-only.png": Case(b"\x89PNG\r\n\x1a\n", refused="begins as PNG|is cut off"),
        "text.png": Case(b"a cat on a mat", refused=r"is text \('a cat on a mat'\): name the file"),
        "utf-16.png": Case("eine Katze".encode("utf-16"), refused="is text"),
        "page.jpg": Case(b"<!DOCTYPE html><html>404", refused="is an HTML page.*download the picture again"),
        "drawing.svg": Case(b"<?xml version='1.0'?><svg xmlns='x'/>", refused="is an SVG drawing: draw it as PNG"),
        "document.pdf": Case(b"%PDF-1.7\n...", refused="is a PDF document: draw the page"),
        "drawing.eps": Case(b"%!PS-Adobe-3.0 EPSF-3.0\n", refused="is an EPS or PostScript drawing"),
        "layers.psd": Case(b"8BPS\0\x01" + bytes(40), refused="is a Photoshop file: save it as PNG"),
        "sizes.ico": Case(encode(rgb, "ICO"), refused="is an icon or cursor, which holds several sizes"),
        "phone.heic": Case(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(20), refused="is a HEIC picture"),
        "wavelets.jp2": Case(encode(rgb, "JPEG2000"), refused="is a JPEG 2000 picture"),
        "film.mp4": Case(b"\0\0\0\x18ftypisom\0\0\x02\0isomiso2" + bytes(20), refused="is a video or sound file: take one frame"),
        "packed.png": Case(b"PK\x03\x04" + bytes(30), refused="is a packed archive: unpack it"),
        "pointer.png": Case(b"version https://git-lfs/spec/v1\noid sha256:0\n", refused="is a Git LFS pointer.*git lfs pull"),
        "noise.png": Case(bytes(range(128, 228)), refused=r"is no picture that is known \(it begins 80 81 82 83\)"),
        **{f"byte-short.{kind.lower()}": Case(data[:-1], refused="is cut off|is damaged") for kind, data in whole.items()},
        **{f"half.{kind.lower()}": Case(data[: len(data) // 2], refused="is cut off|is damaged|begins as") for kind, data in whole.items()},
        "pixels-cut.jpg": Case(whole["JPEG"][:-200], refused="is cut off"),
        "pixels-short.png": Case(png(7, 5, depth=8, color=2, rows=rows[:3]), refused="is cut off"),
        "wrong-checksum.png": Case(bytes(wrong), refused=r"is cut off or damaged \(the checksum of its pixels is wrong\)"),
        "wrong-header.png": Case(bytes(header), refused="begins as PNG, but its header is damaged"),
        "bomb.png": Case(
            huge, refused=r"declares 60,000 x 60,000 = 3,600,000,000 pixels|declares more than 50,000,000 pixels: make it smaller"
        ),
        "bomb.gif": Case(bomb_gif(), refused="declares more than 50,000,000 pixels|declares 60,000 x 60,000"),
        "bomb.bmp": Case(bytes(bmp_huge), refused="declares"),
        "bomb.webp": Case(webp_huge, refused="declares"),
        "bomb.ppm": Case(b"P6 60000 60000 255\n", refused="declares"),
        "bomb.tiff": Case(tiff(60_000, 60_000, bytes(12), bits=8), refused="declares"),
        "over-the-limit.png": Case(
            encode(Image.new("1", (10_000, 5_001)), "PNG"), refused="declares 10,000 x 5,001 = 50,010,000 pixels, more than 50,000,000"
        ),
        "text-bomb.png": Case(png(7, 5, depth=8, color=2, rows=rows, before=[long_text]), refused="unpacks to more than is safe"),
        "late-text-bomb.png": Case(png(7, 5, depth=8, color=2, rows=rows, after=[long_text]), refused="unpacks to more than is safe"),
        "animated.gif": Case(
            encode(frames[0], "GIF", save_all=True, append_images=frames[1:]),
            refused=r"is animated or has pages \(3 frames\): take one frame",
        ),
        "animated.png": Case(encode(frames[0], "PNG", save_all=True, append_images=frames[1:]), refused=r"\(3 frames\)"),
        "animated.webp": Case(encode(frames[0], "WEBP", save_all=True, append_images=frames[1:]), refused=r"\(3 frames\)"),
        "animated.avif": Case(encode(frames[0], "AVIF", save_all=True, append_images=frames[1:]), refused=r"\(3 frames\)"),
        "pages.tiff": Case(encode(frames[0], "TIFF", save_all=True, append_images=frames[1:]), refused=r"\(3 frames\)"),
        "many-pages.tiff": Case(
            encode(Image.new("1", (1, 1)), "TIFF", save_all=True, append_images=[Image.new("1", (1, 1))] * 150),
            refused=r"\(100 or more frames\)",
        ),
        "no-width.png": Case(png(0, 5, depth=8, color=2, rows=[b""] * 5), refused="declares a width or height of 0"),
        "no-height.jpg": Case(bytes(jpeg_zero), refused="declares a width or height of 0"),
        "no-height.bmp": Case(bytes(bmp_zero), refused="declares a width or height of 0"),
        "no-width.gif": Case(b"GIF89a\0\0\0\0\0\0\0,\0\0\0\0\0\0\0\0\0\x02\0;", refused="declares a width or height of 0"),
        "no-width.ppm": Case(b"P6 0 5 255\n", refused="declares a width or height of 0"),
        "float.tiff": Case(encode(Image.new("F", SIZE, 0.5), "TIFF"), refused="holds floating-point values: scale it to 8 or 16 bits"),
        "float.pfm": Case(encode(Image.new("F", SIZE, 0.5), "PPM"), refused="holds floating-point values"),
        "beyond-16-bits.tiff": Case(encode(Image.new("I", SIZE, 65_536), "TIFF"), refused="holds integers from 65,536 to 65,536: scale it"),
        "negative.tiff": Case(encode(Image.new("I", SIZE, -1), "TIFF"), refused="holds integers from -1 to -1"),
        "no-frame.gif": Case(b"GIF89a\x05\0\x05\0\0\0\0;", refused="begins as GIF|is cut off"),
        "bad-palette.png": Case(
            png(7, 5, depth=8, color=3, rows=[bytes(7)] * 5, before=[chunk(b"PLTE", bytes(6)), chunk(b"tRNS", bytes(300))]),
            refused="is damaged",
        ),
    }


def all_cases():
    return {**good_cases(), **refused_cases()}


def write_malformed(folder):
    """Write every refused case as a file and say what is where: name -> pattern of the message."""
    cases = refused_cases()
    for name, case in cases.items():
        (folder / name).write_bytes(case.data)
    return {name: case.refused for name, case in cases.items()}
