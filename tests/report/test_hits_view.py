"""Pictures on the page of a calibration: only small inlined ones, every word escaped, abstention said."""

import re

import pytest
from calibration_material import example, full_report
from test_page import HOSTILE, Reader

from normwise.core.calibration_records import CalibrationFigures, CalibrationReport
from normwise.report.hits_view import DirectionReport, DirectionsReport, ExamplePictures, NearHit, NearHits, ShownPictures
from normwise.report.page import render_calibration
from normwise.report.thumbnails import thumbnail_view

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="


def hit(words="[cat.png]", **values):
    return NearHit(
        **{"id": "c1", "words": words, "picture": PNG, "score": 0.21, "probability": 0.93, "abstain": False, "right": True} | values
    )


def report(words="[cat.png]", *, direction="text -> image", pictures=(PNG, PNG), **first):
    figures = CalibrationFigures(confident_errors=(example(words), example("second")), good_abstentions=(example("third"),))
    known = {name: getattr(full_report(words), name) for name in CalibrationReport.model_fields} | {"figures": figures}
    near = NearHits(query=words, picture=pictures[0], answerable=True, hits=(hit(words, **first), hit(probability=None, abstain=True)))
    shown = ShownPictures(errors=(ExamplePictures(query=pictures[0], hit=pictures[1]),), nearest=(near,))
    return DirectionReport(**known, direction=direction, shown=shown)


def images(page):
    read = Reader(page)
    return [value for tag, attribute, value in read.attributes if tag == "img" and attribute == "src"]


def test_queries_and_hits_are_pictures_with_probability():
    page = render_calibration(report())
    assert images(page) == [PNG] * 5
    words = Reader(page).words
    for part in (
        "text -> image",
        "Nearest hits",
        "Answer",
        "probability 0.930",
        "probability –, not trusted",
        "score 0.210",
        "second",
        "third",
    ):
        assert part in words


def test_abstention_is_said():
    words = Reader(render_calibration(report(abstain=True, probability=0.2))).words
    assert re.search(r"“I don’t know”\s*, probability 0\.200", words)
    assert not re.search(r"Answer\s*, probability", words)
    assert re.search(r"Answer\s*, probability 0\.930", Reader(render_calibration(report())).words)


@pytest.mark.parametrize(
    "source",
    [
        "https://example.org/x.png",
        "javascript:alert(1)",
        "data:text/html;base64,AAAA",
        "data:image/svg+xml;base64,AAAA",
        'data:image/png;base64,AAAA" onerror="x',
        "data:image/png;base64,AAAA\n",
        "data:image/png;base64," + "A" * 9_000,
        "",
    ],
)
def test_nothing_but_a_small_inlined_picture_is_drawn(source):
    assert thumbnail_view(source, words="x") is None
    page = render_calibration(report(pictures=(source, source), picture=source))
    assert images(page) == [PNG]
    assert "onerror" not in page


def test_words_of_pictures_are_escaped_in_text_and_in_alt():
    read = Reader(render_calibration(report(HOSTILE)))
    assert "script" not in read.tags
    alts = [value for tag, attribute, value in read.attributes if tag == "img" and attribute == "alt"]
    assert any("<script>" in alt for alt in alts)
    assert all(len(alt) <= 120 for alt in alts)
    assert not {attribute for tag, attribute, _ in read.attributes if tag == "img"} - {"src", "alt", "style"}


def test_several_directions_stand_on_one_page_each_by_itself():
    parts = {name: report(direction=name) for name in ("text -> image", "image -> text")}
    whole = DirectionsReport(model="m", data="d", directions=parts, refused={"image -> image": "too few <b>queries</b>"}, notes=("apart",))
    page = render_calibration(whole)
    read = Reader(page)
    assert "2 directions, each judged by itself: 2 have a usable threshold." in read.words
    assert "No calibration: too few <b>queries</b>" in read.words
    ids = [value for _, attribute, value in read.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, attribute, value in read.attributes if attribute == "href" and value.startswith("#")} <= set(ids)
    assert DirectionsReport.from_json(whole.to_json()) == whole
    assert not re.search(r"https?:|url\(", page)


def test_a_report_without_pictures_has_no_such_section():
    assert "Nearest hits" not in render_calibration(full_report())
