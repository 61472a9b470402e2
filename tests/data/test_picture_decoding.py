import io
import logging
import pickle
import re
import struct
import sys
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from picture_material import (
    all_cases,
    blend,
    bomb_gif,
    chunk,
    colors,
    encode,
    exif,
    good_cases,
    picture,
    png,
    refused_cases,
    smooth,
    tiff,
    write_malformed,
)
from PIL import GifImagePlugin, Image, ImageFile, PngImagePlugin

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.picture_decoding import MAX_PIXELS, PictureError, decode_picture
from normwise.data.picture_formats import foreign_kind, picture_format, png_lacks_pixels
from normwise.data.picture_guard import known_settings

BACKGROUND = (3, 77, 200)
GOOD, REFUSED = good_cases(BACKGROUND), refused_cases()


def decode(data, **settings):
    return np.asarray(decode_picture(data, name="a.png", **settings))


def test_there_are_many_odd_files():
    assert len(REFUSED) >= 60
    assert len(all_cases()) >= 100


@pytest.mark.parametrize("name", GOOD)
def test_odd_pictures_come_out_as_a_slow_loop_says(name):
    case = GOOD[name]
    image = decode_picture(case.data, name=name, background=BACKGROUND)
    assert (image.mode, image.info, type(image)) == ("RGB", {}, Image.Image)
    found = np.asarray(image).astype(int)
    assert found.shape == case.pixels.shape
    assert np.abs(found - case.pixels).max() <= case.within


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_files_are_refused_with_the_reason_and_the_way_out(name):
    with pytest.raises(PictureError, match=REFUSED[name].refused) as caught:
        decode_picture(REFUSED[name].data, name=name)
    error = caught.value
    assert str(error) == f"picture {name} {error.problem}: {error.way_out}"
    assert error.way_out
    assert error.__cause__ is None
    assert len(str(error)) < 300


def test_the_refused_are_written_as_files(tmp_path):
    expected = write_malformed(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(expected) == set(REFUSED)
    for name, message in expected.items():
        with pytest.raises(PictureError, match=message):
            decode((tmp_path / name).read_bytes())


def test_nothing_is_printed_or_logged(capfd, caplog):
    with caplog.at_level(logging.WARNING):
        for name, case in all_cases().items():
            if case.refused:
                with pytest.raises(PictureError, match=name):
                    decode_picture(case.data, name=name)
            else:
                decode_picture(case.data, name=name)
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("PIL").handlers)


def test_a_key_of_16_bits_is_cut_as_its_pixels_are():
    row = struct.pack(">6H", 0x0AF1, 0x14F2, 0x1EF3, 0xF1F1, 0xF2F2, 0xF3F3)
    keyed = png(2, 1, depth=16, color=2, rows=[row], before=[chunk(b"tRNS", row[:6])])
    assert decode(keyed).tolist() == [[[255, 255, 255], [0xF1, 0xF2, 0xF3]]]


def test_every_prefix_of_a_picture_is_refused():
    for kind in ("PNG", "BMP", "TIFF", "GIF", "WEBP"):
        data = encode(picture().quantize(8) if kind == "GIF" else picture(), kind)
        decode(data)
        for length in range(len(data)):
            with pytest.raises(PictureError, match=r"is (?:cut off|empty|damaged)|begins as|is text|no picture|declares"):
                decode(data[:length])


def test_a_jpeg_cut_anywhere_is_refused_though_its_thumbnail_is_whole():
    block = Image.Exif()
    thumbnail = encode(picture(smooth()), "JPEG")
    block[0x010E] = "x"
    data = encode(picture(smooth(size=(96, 80))), "JPEG", exif=block.tobytes() + thumbnail)
    decode(data)
    for length in (*range(len(data) - 40, len(data)), *range(0, len(data) - 40, 37)):
        with pytest.raises(PictureError, match=r"is (?:cut off|empty|damaged)|begins as|no picture"):
            decode(data[:length])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "JPEG", "AVIF"])
def test_orientations_against_where_each_pixel_goes(kind, orientation):
    settings = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}, "AVIF": {"quality": 100, "subsampling": "4:4:4"}}
    stored = smooth()
    height, width = stored.shape[:2]
    found = decode(encode(picture(stored), kind, exif=exif(orientation), **settings.get(kind, {}))).astype(int)
    swapped = orientation >= 5
    assert found.shape == ((width, height, 3) if swapped else (height, width, 3))
    # EXIF 2.3: where row 0 and column 0 of the stored picture are on the upright one.
    place = {
        1: lambda y, x: (y, x),
        2: lambda y, x: (y, width - 1 - x),
        3: lambda y, x: (height - 1 - y, width - 1 - x),
        4: lambda y, x: (height - 1 - y, x),
        5: lambda y, x: (x, y),
        6: lambda y, x: (x, height - 1 - y),
        7: lambda y, x: (width - 1 - x, height - 1 - y),
        8: lambda y, x: (width - 1 - x, y),
    }[orientation]
    within = 8 if kind in ("JPEG", "AVIF") else 0
    for y in range(height):
        for x in range(width):
            assert np.abs(found[place(y, x)] - stored[y, x].astype(int)).max() <= within


RGB = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))


@given(RGB)
def test_lossless_formats_give_back_the_pixels(pixels):
    for kind, settings in (("PNG", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {}), ("WEBP", {"lossless": True})):
        assert np.array_equal(decode(encode(picture(pixels), kind, **settings)), pixels)


@given(RGB, st.tuples(*[st.integers(0, 255)] * 3), st.data())
def test_transparent_pixels_are_blended_as_defined(pixels, background, data):
    alpha = data.draw(arrays.arrays(np.uint8, pixels.shape[:2]))
    found = decode(encode(Image.fromarray(np.dstack([pixels, alpha])), "PNG"), background=background)
    assert np.array_equal(found, blend(pixels, alpha, background))


def test_every_opacity_on_every_background_is_rounded_to_the_nearest():
    alpha = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 256, axis=1)
    level = np.repeat(np.arange(256, dtype=np.uint8)[None, :], 256, axis=0)
    data = encode(Image.fromarray(np.dstack([level, level, level, alpha])), "PNG")
    for ground in (0, 1, 127, 254, 255):
        exact = (alpha.astype(float) * level + (255.0 - alpha) * ground) / 255
        assert np.array_equal(decode(data, background=(ground, ground, ground))[:, :, 1], np.rint(exact).astype(np.uint8))


def test_all_grey_levels_of_16_bits_are_scaled_and_rounded():
    values = np.arange(65_536, dtype=np.uint16).reshape(256, 256)
    wanted = np.array([round(v / 257) for v in range(65_536)], dtype=np.uint8).reshape(256, 256)
    for data in (encode(Image.fromarray(values), "PNG"), encode(Image.fromarray(values), "TIFF")):
        assert np.array_equal(decode(data)[:, :, 0], wanted)
    twelve = tiff(2, 1, bytes((0xFF, 0xF8, 0x00)), bits=12)
    assert decode(twelve)[0, :, 0].tolist() == [255, round(255 * 2048 / 4095)]


def test_an_interlaced_picture_is_read_and_lacks_nothing():
    # Adam7 of 3 x 1: pass 1 holds column 0, pass 4 column 2, pass 6 column 1.
    data = bytearray(png(3, 1, depth=8, color=0, rows=[b"\x0a", b"\x1e", b"\x14"]))
    data[28] = 1
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    assert decode(bytes(data))[0, :, 0].tolist() == [10, 20, 30]
    short = bytearray(png(3, 1, depth=8, color=0, rows=[b"\x0a", b"\x1e"]))
    short[28:33] = data[28:33]
    with pytest.raises(PictureError, match="its pixels end before its last row"):
        decode(bytes(short))


@pytest.mark.parametrize(("color", "depth"), [(0, 1), (0, 8), (2, 8), (3, 4), (4, 8), (6, 16)])
def test_black_pictures_lack_no_rows(color, depth):
    width = -(-7 * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color] // 8)
    palette = [chunk(b"PLTE", bytes(48))] if color == 3 else []
    whole = png(7, 5, depth=depth, color=color, rows=[bytes(width)] * 5, before=palette)
    assert not png_lacks_pixels(whole)
    decode(whole)
    with pytest.raises(PictureError, match="is cut off"):
        decode(png(7, 5, depth=depth, color=color, rows=[bytes(width)] * 4, before=palette))


def test_the_limit_holds_to_the_pixel_and_before_any_pixel_is_read(monkeypatch):
    data = encode(Image.new("RGB", (20, 10)), "PNG")
    assert decode(data, max_pixels=200).shape == (10, 20, 3)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
    with pytest.raises(
        PictureError, match=r"declares 20 x 10 = 200 pixels, more than 199: make it smaller \(normwise reads up to 199 pixels\)"
    ):
        decode(data, max_pixels=199)
    with pytest.raises(PictureError, match="declares more than 50,000,000 pixels"):
        decode(bomb_gif())


def test_what_was_set_for_the_process_neither_helps_nor_harms(monkeypatch):
    cut = encode(picture(), "PPM")[:-30]  # states no lengths: only the decoder can tell
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3)
    monkeypatch.setattr(GifImagePlugin, "LOADING_STRATEGY", GifImagePlugin.LoadingStrategy.RGB_ALWAYS)
    before = list(warnings.filters)
    with pytest.raises(PictureError, match="is cut off"):
        decode(cut)
    for name, case in GOOD.items():
        assert np.abs(decode(case.data, background=BACKGROUND).astype(int) - case.pixels).max() <= case.within, name
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    assert Image.MAX_IMAGE_PIXELS == 3
    assert GifImagePlugin.LOADING_STRATEGY == GifImagePlugin.LoadingStrategy.RGB_ALWAYS
    assert list(warnings.filters) == before


def test_settings_of_several_threads_do_not_meet():
    before, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    small, large = encode(Image.new("1", (30, 30)), "TIFF"), encode(Image.new("1", (300, 300)), "TIFF")
    gate = threading.Barrier(4)

    def work(turn):
        gate.wait()
        for _ in range(20):
            if turn % 2:
                assert decode(large, max_pixels=90_000).shape == (300, 300, 3)
            else:
                assert decode(small, max_pixels=900).shape == (30, 30, 3)
                with pytest.raises(PictureError, match="more than 900"):
                    decode(large, max_pixels=900)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert before == Image.MAX_IMAGE_PIXELS
    assert list(warnings.filters) == filters


def test_the_guard_leaves_what_others_filter_alone():
    with known_settings(10), warnings.catch_warnings():
        with known_settings(20):
            assert Image.MAX_IMAGE_PIXELS == 20
        assert Image.MAX_IMAGE_PIXELS == 10
        with pytest.warns(UserWarning, match="not of Pillow"):
            warnings.warn("not of Pillow", stacklevel=1)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RecursionError("deep"), OverflowError("big"), KeyError("tag"), ZeroDivisionError(), AssertionError(), EOFError()],
)
def test_whatever_a_reader_raises_becomes_one_error(monkeypatch, error):
    def fail(self):
        raise error

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", fail, raising=False)
    with pytest.raises(PictureError, match="does not fit into memory|is damaged|is cut off"):
        decode(encode(picture(), "PNG"))


def test_an_interrupt_is_not_a_broken_picture(monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", stop, raising=False)
    with pytest.raises(KeyboardInterrupt):
        decode(encode(picture(), "PNG"))


MUTABLE = {
    "PNG": encode(picture(smooth()), "PNG", exif=exif(6)),
    "JPEG": encode(picture(smooth()), "JPEG", exif=exif(6)),
    "GIF": encode(picture(smooth()).quantize(16), "GIF"),
    "WEBP": encode(picture(smooth()), "WEBP", exif=exif(6)),
    "TIFF": encode(picture(smooth()), "TIFF", exif=exif(6)),
    "TIFF, packed": encode(picture(smooth()), "TIFF", compression="tiff_lzw"),
    "BMP": encode(picture(smooth()), "BMP"),
    "AVIF": encode(picture(smooth()), "AVIF"),
}


@pytest.mark.parametrize("kind", MUTABLE)
@given(data=st.data())
def test_any_mutation_is_a_picture_or_one_error(kind, data):
    mutated = bytearray(MUTABLE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(mutated)) | st.integers(0, min(80, len(mutated))))
        way = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
        if way == "flip" and place < len(mutated):
            mutated[place] = data.draw(st.integers(0, 255))
        elif way == "cut":
            del mutated[place:]
        elif way == "insert":
            mutated[place:place] = data.draw(st.binary(min_size=1, max_size=12))
        else:
            del mutated[place : place + data.draw(st.integers(1, 12))]
    try:
        image = decode_picture(bytes(mutated), name="mutated", max_pixels=10_000)
    except PictureError:
        return
    assert image.mode == "RGB"
    assert 0 < image.width * image.height <= 10_000


@given(st.binary(max_size=200))
def test_any_bytes_are_told(data):
    with pytest.raises(PictureError, match="^picture a.png "):
        decode(data if picture_format(data) is None else b"\0" + data)


def test_the_same_result_as_the_library_on_plain_pictures():
    for kind in ("JPEG", "WEBP", "AVIF"):
        data = encode(picture(smooth()), kind)
        assert np.array_equal(decode(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_several_pictures_in_one_jpeg_show_the_first():
    data = encode(picture(smooth()), "MPO", save_all=True, append_images=[picture(255 - smooth())], quality=100, subsampling=0)
    assert np.abs(decode(data).astype(int) - smooth()).max() <= 4


def test_rgb_of_jpeg_is_not_copied(monkeypatch):
    data = encode(picture(smooth()), "JPEG")
    for name in ("copy", "convert", "crop", "transpose"):
        monkeypatch.setattr(Image.Image, name, lambda *_, **__: pytest.fail("the pixels were copied"))
    assert decode_picture(data, name="a.jpg").size == (32, 24)


@pytest.mark.parametrize("background", [(0, 0), (0, 0, 256), (0, 0, -1), (0.5, 0, 0), "red"])
def test_a_background_is_three_levels(background):
    with pytest.raises(InputError, match=r"background must be red, green and blue 0\.\.255, got"):
        decode(encode(picture(), "PNG"), background=background)
    with pytest.raises(InputError, match="max_pixels must be 1 or more, got 0"):
        decode(encode(picture(), "PNG"), max_pixels=0)


def test_without_pillow_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=re.escape('pip install "normwise[train]"')):
        decode_picture(b"x", name="a.png")


def test_errors_travel_between_processes():
    error = PictureError("a.png", "is empty", "leave it out")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.name, again.problem, again.way_out) == (str(error), "a.png", "is empty", "leave it out")


def test_kinds_are_told_by_content():
    assert picture_format(b"BMW is a car, and no picture") is None
    assert foreign_kind(b"BMW is a car, and no picture")[0].startswith("is text")
    assert picture_format(encode(picture(), "AVIF")) == "AVIF"
    assert MAX_PIXELS == 50_000_000
    assert colors().shape == (5, 7, 3)
