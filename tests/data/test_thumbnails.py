"""Thumbnails: small, bounded, the same bytes each time, and a page that has room for so many."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from normwise.data.contents import Interleaved
from normwise.data.pictures import Picture
from normwise.data.thumbnails import MOST_BYTES, ThumbnailBudget, thumbnail


def picture(pixels, *, name="x.png", kind="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind)
    return Picture.of_bytes(buffer.getvalue(), name=name)


def noise(width, height, *, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


@settings(max_examples=25, deadline=None)
@given(width=st.integers(1, 400), height=st.integers(1, 400), seed=st.integers(0, 5))
def test_every_picture_fits_even_noise(width, height, seed):
    shown = picture(noise(width, height, seed=seed))
    uri = thumbnail(shown)
    assert uri is not None
    assert len(uri) <= MOST_BYTES
    assert max(opened(uri).size) <= 96
    assert thumbnail(shown) == uri


@pytest.mark.parametrize("most", [700, 1_500, 3_000, 6_000])
def test_what_does_not_fit_loses_quality_first_and_pixels_then(most):
    shown = picture(noise(96, 96))
    uri = thumbnail(shown, most_bytes=most)
    assert len(uri) <= most
    assert (max(opened(uri).size) < 96) == (most < 3_000)
    better = thumbnail(shown, most_bytes=10**6)
    assert len(better) > len(uri)
    assert thumbnail(shown, most_bytes=100) is None


def test_a_small_picture_keeps_its_size_and_a_large_one_its_shape():
    assert opened(thumbnail(picture(noise(9, 5)))).size == (9, 5)
    flat = np.full((100, 400, 3), 200, dtype=np.uint8)
    assert opened(thumbnail(picture(flat))).size == (96, 24)


def test_flat_drawings_stay_exact_and_photographs_become_jpeg():
    flat = np.zeros((96, 96, 3), dtype=np.uint8)
    flat[20:60, 30:70] = (250, 10, 10)
    uri = thumbnail(picture(flat))
    assert uri.startswith("data:image/png;base64,")
    np.testing.assert_array_equal(np.asarray(opened(uri).convert("RGB")), flat)
    x, y = np.meshgrid(np.linspace(0, 255, 96), np.linspace(0, 255, 96))
    smooth = np.stack([x, y, 255 - x / 2 - y / 2], axis=2) + np.random.default_rng(0).normal(0, 4, (96, 96, 3))
    photo = np.clip(smooth, 0, 255).astype(np.uint8)
    uri = thumbnail(picture(photo))
    assert uri.startswith("data:image/jpeg;base64,")
    assert np.abs(np.asarray(opened(uri)).astype(float) - photo).mean() < 12


def test_a_picture_that_is_gone_or_broken_has_none(tmp_path):
    path = tmp_path / "gone.png"
    Image.fromarray(noise(4, 4)).save(path)
    shown = Picture.of_file(path)
    path.unlink()
    assert thumbnail(shown) is None
    assert thumbnail(Picture.of_bytes(b"no picture", name="x")) is None


@pytest.mark.parametrize(("pictures", "characters", "expected"), [(2, 10**6, 2), (40, 0, 0), (5, 10**6, 4)])
def test_a_page_has_room_for_so_many_and_then_for_names(pictures, characters, expected):
    budget = ThumbnailBudget(pictures=pictures, characters=characters)
    shown = [budget.show(picture(noise(8, 8, seed=seed))) for seed in range(4)]
    assert [each is not None for each in shown] == [True] * expected + [False] * (4 - expected)
    assert budget.left_out == 4 - expected
    assert sum(len(each) for each in shown if each) <= characters


def test_of_text_and_picture_the_picture_is_shown_and_of_a_text_nothing():
    shown = picture(noise(6, 6))
    budget = ThumbnailBudget()
    assert budget.show(Interleaved(("like", shown))) == thumbnail(shown)
    assert (budget.show("a text"), budget.show(None), budget.left_out, budget.pictures) == (None, None, 0, 39)
