"""Batches of pictures come in order, ready, and only a little ahead."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from normwise.core.config import ModelConfig
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture
from normwise.models import picture_batches as module
from normwise.models.inputs import group_contents, model_input, ready
from normwise.models.loading import load_base
from normwise.models.picture_batches import picture_batches
from normwise.models.skipping import Skipped


@pytest.fixture(scope="module")
def dual():
    return load_base(ModelConfig(layers=1, max_tokens=16, vision={"dimensions": 24, "image_size": 32}))


def pictures(count: int, *, bad: tuple[int, ...] = ()) -> list[Picture]:
    made = [Picture.of_image(Image.new("RGB", (40 + row, 30), (row, 255 - row, 7 * row % 256)), name=f"row {row}") for row in range(count)]
    return [Picture.of_bytes(b"none", name=f"bad {row}") if row in bad else each for row, each in enumerate(made)]


@pytest.mark.parametrize(("count", "size"), [(1, 4), (4, 4), (9, 4), (5, 1), (7, 100)])
def test_batches_are_those_of_one_thread(dual, count, size):
    [group] = group_contents(dual, pictures(count))
    made = list(picture_batches(dual, group, batch_size=size))
    assert np.concatenate([rows for rows, _ in made]).tolist() == list(range(count))
    assert [len(rows) for rows, _ in made] == [min(size, count - start) for start in range(0, count, size)]
    for rows, features in made:
        alone = ready(dual, [model_input(dual, group.inputs[row]) for row in rows], prompt=None)
        np.testing.assert_array_equal(features["pixel_values"], alone["pixel_values"])


def test_the_first_bad_picture_stops_or_every_one_is_left_out(dual):
    [group] = group_contents(dual, pictures(9, bad=(2, 4, 5, 6, 7)))
    with pytest.raises(PictureError, match=r"picture bad 2 \(rows\[12\]\) "):
        list(picture_batches(dual, group, batch_size=4, what="rows", first=10))
    skipped = Skipped("rows")
    made = list(picture_batches(dual, group, batch_size=4, skipped=skipped, what="rows", first=10))
    assert [rows.tolist() for rows, _ in made] == [[0, 1, 3], [8]]
    assert sorted(skipped.problems) == [12, 14, 15, 16, 17]


class AtOnce(ThreadPoolExecutor):
    """Does what it is given before it returns: what was asked for is what was done."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("resizes", [True, False])
def test_no_more_than_the_next_batches_are_decoded(dual, resizes, monkeypatch):
    opened: list[str] = []
    plain = module._open

    def counted(content, resized):
        opened.append(content.name)
        return plain(content, resized)

    monkeypatch.setattr(module, "_open", counted)
    monkeypatch.setattr(module, "ThreadPoolExecutor", AtOnce)
    if not resizes:
        monkeypatch.setattr(module, "resizer", lambda st: None)
    [group] = group_contents(dual, pictures(20))
    batches = picture_batches(dual, group, batch_size=2)
    next(batches)
    batches.close()
    assert len(opened) == 2 * (3 if resizes else 2)


def test_a_failure_that_is_not_a_pictures_comes_out(dual, monkeypatch):
    def broken(content, resized):
        raise MemoryError("no room")

    monkeypatch.setattr(module, "_open", broken)
    [group] = group_contents(dual, pictures(9))
    with pytest.raises(MemoryError, match="no room"):
        list(picture_batches(dual, group, batch_size=2, skipped=Skipped("rows")))
