"""The sections on modalities: every figure is there, what is missing is said, and nothing of it stands on other pages."""

from __future__ import annotations

import re

import pytest
from inspect_material import norm_report
from modality_material import NAMES, REPORTS, across, both, gap
from test_inspect_page import said_on
from test_page import HOSTILE, MISSING, Reader

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import SignComparison
from normwise.core.records import Interval
from normwise.report.modality_words import gap_words, modality_lines, norm_words
from normwise.report.page import render_inspection

# Counts that stand with the vectors, and figures behind those that are shown.
NOT_SHOWN = {"norm", "factors", "first_rows", "second_rows", "relabelings", "candidate_rows", "std", "mean_length"}
NOT_SHOWN |= {"log_norm_first", "log_norm_second"}


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Reader(page).text))


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_is_whole_and_says_what_is_missing(name):
    page = render_inspection(REPORTS[name])
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    for said in read.text:
        assert not MISSING.search(re.sub(r"Rows with NaN or infinity|\d+ with NaN", "", said)), said
    assert page.count("<table") == len(re.findall(r'<div class="scroll[^>]*tabindex="0"[^>]*>\s*<table', page))
    ids = [value for _, attribute, value in read.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    assert {"modalities", "across"} <= set(ids)
    assert re.search(r'href="#across"', page)
    assert InspectReport.from_json(REPORTS["full"].to_json()) == REPORTS["full"]


def test_every_figure_of_the_comparison_is_on_the_page():
    said = text_of(render_inspection(both()))
    found = across()
    numbers: list[float] = []
    for record in (found.gap, *found.shares, found.conformity_first, found.conformity_second):
        dumped = record.model_dump(exclude=NOT_SHOWN)
        for value in dumped.values():
            if isinstance(value, dict):
                numbers += list(value.values())
            elif isinstance(value, int | float):
                numbers.append(value)
    for each in (found.ellipsoids.first, found.ellipsoids.second):
        numbers += [each.gaussian_shell, each.shell_ratio]
        for one in (each.shell, each.offset, each.tilt):
            numbers += [*one.figure.model_dump().values(), *([] if one.p_value is None else [one.p_value])]
    assert len(numbers) > 50
    assert [value for value in numbers if not said_on(said, value)] == []
    for text in (
        "opposite signs",
        "by the norm",
        "by the direction",
        "a note on the comparison",
        "a note on pictures",
        "free: no closed form",
    ):
        assert text in said
    assert "draw 417 units whole" in said


def test_a_report_of_one_kind_has_no_such_section():
    page = render_inspection(norm_report())
    assert 'id="modalities"' not in page
    assert "#across" not in page
    assert modality_lines(norm_report()) == []


def test_a_hostile_name_stays_text():
    near = Interval(mean=0.1, ci_low=0.0, ci_high=0.2)
    sign = SignComparison(factor=HOSTILE, first=near, second=near, agreement="in neither")
    hostile = both(across=across(first=HOSTILE, notes=(HOSTILE,), signs=(sign,)))
    page = render_inspection(hostile)
    assert "<script" not in page
    assert not {"script", "img", "iframe"} & set(Reader(page).tags)


def test_the_lines_say_a_gap_only_where_there_is_one():
    assert "texts and pictures lie apart: 0.7317" in gap_words(gap(), NAMES)
    assert "cannot be told from one cloud" in gap_words(gap(p_value=0.2), NAMES)
    assert norm_words(gap(), NAMES).startswith("pictures are longer")
    open_ended = Interval(mean=-0.01, ci_low=-0.05, ci_high=0.03)
    assert norm_words(gap(log_norm_difference=open_ended), NAMES).startswith("neither is certainly longer")
    lines = modality_lines(both())
    assert [line.split(":")[0] for line in lines] == [
        "texts",
        "pictures",
        "across modalities, gap",
        "across modalities, norms",
        "across modalities, double ellipsoid",
        "across modalities, conformity of texts",
        "across modalities, conformity of pictures",
        "across modalities, dot product texts → pictures",
        "across modalities, dot product pictures → texts",
        "across modalities, signs",
        "across modalities, norm freedom of texts",
        "across modalities, norm freedom of pictures",
        "across modalities, note",
    ]
