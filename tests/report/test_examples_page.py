"""Thumbnails on the pages of training and inspection: escaped, clipped, described, counted, and absent where there are none."""

from __future__ import annotations

import json
import re

import pytest
from calibration_material import full_report
from inspect_material import norm_report
from modality_material import both
from report_material import train_result
from test_hits_view import report as calibrated
from test_page import HOSTILE, MISSING, Reader

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import NormExample, NormExamples
from normwise.core.records import NearestHits, NearHit, NearHits, TrainResult
from normwise.report.hits_view import DirectionsReport
from normwise.report.page import render_calibration, render_inspection, render_page
from normwise.report.thumbnails import Thumbnail, inlined_words, thumbnail_view

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
RIGHT_TO_LEFT = "a" + chr(0x202E) + "b" + chr(0x2067)


def hit(words="[cat.png]", **values):
    known = {"id": "c1", "words": words, "picture": PNG, "score": -0.21, "probability": None, "abstain": False, "right": False}
    return NearHit(**known | values)


def trained(words="[cat.png]", *, left_out=0, **first):
    shown = (
        NearHits(query=words, picture=PNG, answerable=True, hits=(hit(words), hit(right=True, **first)), first_right=2, task=words),
        NearHits(query="q2", answerable=True, hits=(hit(),)),
        NearHits(query="q3", answerable=False, hits=(hit(),)),
        NearHits(query="q4", answerable=True, hits=(hit(right=True),), first_right=1),
    )
    found = NearestHits(ranking="dot", seed=7, queries=812, depth=1_000, shown=shown, left_out=left_out)
    return train_result().model_copy(update={"nearest": found})


def example(words="[cat.png]", norm=2.5, **values):
    return NormExample(**{"norm": norm, "words": words, "picture": PNG, "beside": "a cat"} | values)


def inspected(words="[cat.png]", **values):
    kept = NormExamples(lowest=(example(words, 1.25, **values), example()), middle=(example(),), highest=(example(norm=9.75),), left_out=3)
    report = both()
    parts = tuple(part.model_copy(update={"examples": kept}) for part in report.parts)
    return report.model_copy(update={"parts": parts})


def pictures(page):
    found = {}
    for tag, attribute, value in Reader(page).attributes:
        if tag == "img":
            found.setdefault(attribute, []).append(value)
    return found


def test_a_training_page_shows_drawn_queries_with_their_hits():
    page = render_page(trained())
    said = Reader(page).words
    for part in (
        "4 of 812 test queries, drawn by seed 7 and not by what they found",
        "The score is the dot product.",
        "The first right hit comes at place 2",
        "No right hit among the first 1,000",
        "Nothing to find; nothing in the corpus answers it",
        "The first hit is right",
        "task [cat.png]",
        "score −0.210; wrong",
        "score −0.210; ✓ right",
        "normwise calibrate measures it, and shows both",
        "6 pictures stand in this page itself, 0.3 kB in all.",
    ):
        assert part in said, part
    assert "; probability" not in said
    assert "not trusted" not in said
    assert len(pictures(page)["src"]) == 6
    assert all(not MISSING.search(text) for text in Reader(page).text)


def test_probability_and_abstention_are_shown_where_a_calibration_said_them():
    said = Reader(render_page(trained(probability=0.25, abstain=True))).words
    assert "probability 0.250, not trusted; score" in said
    assert "normwise calibrate measures" not in said


def test_pages_without_pictures_have_no_such_section():
    for page in (render_page(train_result()), render_inspection(both()), render_inspection(norm_report())):
        read = Reader(page)
        assert "img" not in read.tags
        assert not {"nearest", "examples"} & {value for _, attribute, value in read.attributes if attribute == "id"}


def test_a_norm_page_shows_the_ends_of_each_modality():
    page = render_inspection(inspected())
    said = Reader(page).words
    assert "Short and long" in said
    for part in ("norm 1.25", "norm 9.75", "judged to belong to it: a cat", "Lowest normshortest first"):
        assert part in said, part
    count = len(pictures(page)["src"])
    assert count == 4 * len(both().parts)
    assert f"{count} pictures stand in this page itself" in said
    assert f"{3 * len(both().parts)} pictures are told by name only" in said


def test_one_kind_of_pictures_has_its_examples_too():
    kept = NormExamples(lowest=(example(),), middle=(example(),), highest=(example(beside=""),))
    report = norm_report().model_copy(update={"modality": "pictures", "examples": kept})
    said = Reader(render_inspection(report)).words
    assert said.count("judged to belong to it") == 2
    assert "3 pictures stand" in said


@pytest.mark.parametrize(
    "render", [lambda words: render_page(trained(words)), lambda words: render_inspection(inspected(words, beside=words))]
)
@pytest.mark.parametrize("words", [HOSTILE, RIGHT_TO_LEFT, "x" * 5_000, "\x00\ud800", "", " \n "])
def test_words_are_escaped_clipped_and_turn_nothing(render, words):
    page = render(words)
    read = Reader(page)
    assert "script" not in read.tags
    assert not any(mark in page for mark in ("\u202e", "\u2067", "\x00", "x" * 500))
    found = pictures(page)
    assert len(found["alt"]) == len(found["src"])
    assert all(alt and alt.strip() and len(alt) <= 120 for alt in found["alt"])
    assert set(found) == {"src", "alt"}
    page.encode("utf-8")
    assert not re.search(r"https?:|url\(", page)


@pytest.mark.parametrize("source", ["https://example.org/x.png", "javascript:alert(1)", "data:image/svg+xml;base64,AAAA", "x" * 9_000])
def test_only_small_inlined_pictures_are_drawn(source):
    assert "img" not in Reader(render_inspection(both().model_copy(update={"examples": NormExamples(
        lowest=(example(picture=source, beside_picture=source),), middle=(), highest=()
    )}))).tags  # fmt: skip
    page = render_page(trained(picture=source))
    assert len(pictures(page)["src"]) == 5
    assert source not in page


def test_records_from_before_still_load():
    old = json.loads(train_result().to_json())
    assert old.pop("nearest") is None
    assert TrainResult.from_json(json.dumps(old)) == train_result()
    report = json.loads(both().to_json())
    for part in (report, *report["parts"]):
        assert part.pop("examples") is None
    assert InspectReport.from_json(json.dumps(report)) == both()
    near = json.loads(hit().to_json())
    asked = {"query": "q", "picture": None, "answerable": True, "hits": [near]}
    assert NearHits.from_json(json.dumps(asked)).first_right is None
    for record in (trained(), inspected()):
        assert type(record).from_json(record.to_json()) == record


def test_pictures_and_their_bytes_are_counted_wherever_they_stand():
    shown = thumbnail_view(PNG, words="")
    assert shown == Thumbnail(PNG, "picture")
    assert (
        inlined_words([{"a": [shown, None]}, (shown,), "text"])
        == f"2 pictures stand in this page itself, {2 * len(PNG) / 1000:.1f} kB in all."
    )
    assert inlined_words([]) == ""
    assert inlined_words([], left_out=1) == "1 picture is told by name only: there was no room, or it cannot be opened."


def test_a_page_of_calibration_counts_the_pictures_of_all_its_directions():
    parts = {name: calibrated(direction=name) for name in ("text -> image", "image -> text")}
    whole = DirectionsReport(model="m", data="d", directions=parts)
    assert "10 pictures stand in this page itself, 0.5 kB in all." in Reader(render_calibration(whole)).words
    assert "5 pictures stand in this page itself, 0.2 kB in all." in Reader(render_calibration(calibrated())).words
    assert "in this page itself" not in render_calibration(full_report())
