"""Contents by their norm: the ends and the middle, what belongs to each, one budget for all."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tiny_picture_families import DUAL, save_picture_family

from normwise.core.inspect_records import InspectReport
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged
from normwise.data.thumbnails import ThumbnailBudget
from normwise.models.encoder import Encoder
from normwise.workflows.inspect import inspect
from normwise.workflows.inspect_examples import COUNT, belongings, norm_bands, norm_examples
from normwise.workflows.inspect_modalities import _examples


def striped(number):
    y, x = np.mgrid[0:24, 0:24]
    planes = np.stack([(x * number) % 251, (y * (number + 3)) % 241, np.full_like(x, 6 * number % 256)], axis=-1)
    return Picture.of_image(Image.fromarray(planes.astype(np.uint8)), name=f"{number}.png")


def captioned(concepts=40):
    """Captions ask for pictures; the last picture is asked for by nobody."""
    corpus = Corpus(tuple(f"c{row}" for row in range(concepts)), tuple(map(striped, range(concepts))))
    names = tuple(f"shade number {row}" for row in range(concepts - 1))
    ids = tuple(f"q{row}" for row in range(concepts - 1))
    return Judged(ids, names, tuple({row: 1.0} for row in range(concepts - 1)), corpus, np.arange(concepts - 1))


@given(st.lists(st.floats(0.1, 9.0), max_size=30), st.integers(1, 6))
def test_the_bands_are_the_ends_and_the_middle_and_share_no_row(norms, count):
    low, middle, high = norm_bands(np.array(norms), count=count)
    size = min(count, len(norms) // 3)
    assert [len(low), len(middle), len(high)] == [size] * 3
    assert len({*low.tolist(), *middle.tolist(), *high.tolist()}) == 3 * size
    known = sorted(norms)
    assert [norms[row] for row in low] == known[:size]
    assert [norms[row] for row in high] == known[::-1][:size]
    if size:
        below = [value for value in known if value < norms[middle[0]]]
        above = [value for value in known if value > norms[middle[-1]]]
        assert abs(known.index(norms[middle[0]]) + size / 2 - len(norms) / 2) <= 1 + known.count(norms[middle[0]])
        assert len(below) >= size or norms[middle[0]] == known[size - 1]
        assert len(above) >= size or norms[middle[-1]] == known[-size]


def test_equal_norms_keep_the_order_of_the_rows():
    low, middle, high = norm_bands(np.ones(9), count=2)
    assert (low.tolist(), middle.tolist(), high.tolist()) == ([0, 1], [3, 4], [8, 7])


def test_what_was_judged_to_belong_stands_beside():
    corpus = Corpus(("a", "b", "c"), ("one", "two", "three"))
    asked = Judged(("q", "r", "s"), ("?", "!", "."), ({1: 1.0, 0: 2.0, 2: 2.0}, {1: 1.0}, {}), corpus, np.arange(3))
    assert belongings(asked) == {0: "?", 1: "?", 2: "?", 3: "one", 4: "two"}


def test_pictures_stand_with_captions_and_captions_with_pictures():
    shown, names = [striped(row) for row in range(6)], [f"name {row}" for row in range(6)]
    norms = np.array([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    budget = ThumbnailBudget()
    pictures = norm_examples(shown, norms, beside=[*names[:5], None], budget=budget)
    assert [[one.words for one in band] for band in (pictures.lowest, pictures.middle, pictures.highest)] == [
        ["[1.png]", "[2.png]"],
        ["[0.png]", "[5.png]"],
        ["[3.png]", "[4.png]"],
    ]
    assert [one.norm for one in pictures.lowest] == [1.0, 2.0]
    assert [one.beside for one in pictures.middle] == ["name 0", ""]
    assert all(one.picture and one.beside_picture is None for one in (*pictures.lowest, *pictures.middle, *pictures.highest))
    texts = norm_examples(names, norms, beside=shown, budget=budget)
    assert all(one.picture is None and one.beside_picture for one in texts.lowest)
    assert [one.beside for one in texts.highest] == ["[3.png]", "[4.png]"]
    # A picture beside a picture is told by its name only: the first has the room.
    assert norm_examples(shown, norms, beside=shown, budget=ThumbnailBudget()).lowest[0].beside_picture is None


def test_one_budget_holds_for_all_and_what_had_no_room_is_counted():
    shown, norms = [striped(row) for row in range(12)], np.arange(1.0, 13.0)
    budget = ThumbnailBudget(pictures=14)
    first = norm_examples(shown, norms, beside=[None] * 12, budget=budget)
    second = norm_examples(["x"] * 12, norms, beside=shown, budget=budget)
    assert (first.left_out, second.left_out) == (0, 10)
    budget = ThumbnailBudget(pictures=10)
    assert [norm_examples(shown, norms, beside=[None] * 12, budget=budget).left_out for _ in range(2)] == [2, 12]
    assert sum(one.beside_picture is not None for band in (second.lowest, second.middle, second.highest) for one in band) == 2


def test_too_few_contents_have_no_ends():
    assert norm_examples(["a", "b"], np.array([1.0, 2.0]), beside=[None, None], budget=ThumbnailBudget()) is None
    assert norm_examples([], np.array([]), beside=[], budget=ThumbnailBudget()) is None


def test_equal_norms_have_no_ends_and_what_has_no_norm_is_left_out():
    names = tuple(f"name {row}" for row in range(8))
    found = SimpleNamespace(contents=names)
    norms = np.array([np.nan, 3.0, 1.0, 2.0, 0.0])
    scan = SimpleNamespace(usable=np.array([False, True, True, True, False]), norms=norms)
    rows = np.array([7, 6, 5, 4, 3])
    related = SimpleNamespace(found=SimpleNamespace(vary=True, scan=scan))
    kept = _examples(found, related, rows, {5: "beside"}, ThumbnailBudget())
    told = [[(one.words, one.norm, one.beside) for one in band] for band in (kept.lowest, kept.middle, kept.highest)]
    assert told == [[("name 5", 1.0, "beside")], [("name 4", 2.0, "")], [("name 6", 3.0, "")]]
    related.found.vary = False
    assert _examples(found, related, rows, {}, ThumbnailBudget()) is None


@pytest.mark.slow
def test_a_set_with_pictures_has_examples_of_each_modality_and_a_page_shows_them(tmp_path):
    folder = save_picture_family(DUAL, tmp_path)
    judged = captioned()
    report = inspect(folder, data=judged, report=tmp_path / "page.html")
    encoder = Encoder.load(folder)
    norms = np.linalg.norm(encoder.encode_candidates(judged.corpus.contents), axis=1)
    order = np.argsort(norms)
    texts, pictures = report.parts
    assert report.examples is None
    assert [one.words for one in pictures.examples.lowest] == [f"[{row}.png]" for row in order[:COUNT]]
    assert [one.words for one in pictures.examples.highest] == [f"[{row}.png]" for row in order[::-1][:COUNT]]
    assert pictures.examples.lowest[0].norm == pytest.approx(float(norms.min()), rel=1e-5)
    for band in (pictures.examples.lowest, pictures.examples.middle, pictures.examples.highest):
        for one in band:
            row = int(one.words[1:].split(".")[0])
            assert one.beside == ("" if row == 39 else f"shade number {row}")
    for one in texts.examples.middle:
        assert one.beside == f"[{one.words.removeprefix('shade number ')}.png]"
        assert one.beside_picture is not None
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 24
    assert 'id="examples"' in page
    assert InspectReport.from_json(report.to_json()) == report


@pytest.mark.slow
def test_a_set_of_pictures_alone_has_them_in_the_report_itself(tmp_path):
    corpus = Corpus(tuple(f"c{row}" for row in range(32)), tuple(map(striped, range(32))))
    asked = tuple(striped(100 + row) for row in range(8))
    judged = Judged(tuple(f"q{row}" for row in range(8)), asked, tuple({row: 1.0} for row in range(8)), corpus, np.arange(8))
    report = inspect(save_picture_family(DUAL, tmp_path), data=judged)
    assert report.parts == ()
    assert len(report.examples.lowest) == COUNT
