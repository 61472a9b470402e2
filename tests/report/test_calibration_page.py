from __future__ import annotations

import re

import pytest
from calibration_material import bare_report, example, full_report, row
from test_page import HOSTILE, MISSING, Reader

from normwise.core.calibration_records import CalibrationFigures, CalibrationReport, ReliabilityBin, SignalRow, VerdictRecord
from normwise.core.records import Interval
from normwise.report.calibration_plots import reliability_figure, risk_figure
from normwise.report.page import render_calibration


@pytest.mark.parametrize("make", [full_report, bare_report])
def test_page_loads_nothing_runs_nothing_and_closes_what_it_opens(make):
    page = render_calibration(make())
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    assert not re.search(r"https?:|@import|url\(|expression\(|//[a-z]", page)
    ids = {value for _, attribute, value in read.attributes if attribute == "id"}
    assert {value[1:] for _, attribute, value in read.attributes if attribute == "href" and value.startswith("#")} <= ids
    assert not MISSING.search(read.words)


def test_every_text_of_the_data_is_escaped():
    read = Reader(render_calibration(full_report(HOSTILE)))
    assert "script" not in read.tags
    assert read.words.count("<script>alert(1)</script>") >= 8
    assert "49" not in re.findall(r"\b49\b", read.words)


def test_texts_that_turn_the_direction_of_what_follows_are_settled():
    assert chr(0x202E) not in render_calibration(full_report("a" + chr(0x202E) + "b"))


def test_long_texts_are_cut():
    words = Reader(render_calibration(full_report("x" * 5000))).words
    cut = CalibrationFigures(confident_errors=(example("y" * 5000),))
    page = Reader(render_calibration(full_report().model_copy(update={"figures": cut}))).words
    assert "x" * 401 in words  # names and notes stay whole
    assert "y" * 401 not in page
    assert "y" * 399 + "…" in page


def test_a_usable_threshold_is_the_headline_with_its_figures():
    words = Reader(render_calibration(full_report())).words
    assert "Answer from a probability of 0.620 on; below it, say “I don’t know”." in words
    for part in ("≥ 95%", "seen 97.6% of 205 answers, lower bound 95.1%", "41%", "500", "600 others to fit", "110 of all have no answer"):
        assert part in words


def test_no_usable_threshold_is_a_headline_too_and_says_why():
    words = Reader(render_calibration(bare_report())).words
    assert "No usable threshold exists on these data." in words
    assert "The AUROC is .51 [.46, .56]: its interval touches .5." in words
    assert "Coverage" not in words


def test_the_table_marks_the_chosen_one_and_tells_why_another_is_out():
    report = full_report().model_copy(
        update={"calibrators": (row("logistic"), row("norm_reranking", words="ranks no better than length does"))}
    )
    words = Reader(render_calibration(report)).words
    assert "Logisticchosenscore, margin, and entropy" in words
    assert "ranks no better than length does" in words


def test_signals_are_judged_by_their_intervals():
    words = Reader(render_calibration(full_report())).words
    assert "0.7100.660 to 0.750tells" in words
    assert "0.4400.400 to 0.480the wrong way round" in words
    assert "0.5100.460 to 0.560tells nothing" in words


def test_gains_keep_their_sign_and_missing_ones_say_so():
    words = Reader(render_calibration(full_report())).words
    assert "E-AURC+0.0040−0.0010 to +0.0090" in words
    assert "NLLnot measured" in words


def test_the_page_of_a_report_is_that_of_its_trip_through_json():
    report = full_report()
    assert render_calibration(CalibrationReport.from_json(report.to_json())) == render_calibration(report)


def test_reliability_spots_lie_where_they_should_and_grow_with_their_bin():
    def one(probability, right, queries):
        return ReliabilityBin(low=0, high=1, queries=queries, probability=probability, right=right, ci_low=0.1, ci_high=0.9)

    svg = reliability_figure([one(0.0, 0.0, 100), one(1.0, 1.0, 25), one(0.5, 0.5, 0)])
    spots = [tuple(map(float, found)) for found in re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', svg)]
    assert spots == [(46.0, 190.0, 7.0), (340.0, 12.0, 3.5)]
    assert reliability_figure([one(0.5, 0.5, 0)]) == ""


def test_risk_lines_are_numbered_in_order_and_nothing_is_drawn_of_nothing():
    coverage = (0.25, 0.5, 1.0)
    svg = risk_figure(coverage, {"chosen": (0.0, 0.1, 0.2), "score": (0.1, 0.1, 0.2)}, chosen_at=0.5)
    assert [m for m in re.findall(r'text-anchor="middle">(\d)</text>', svg)] == ["1", "2"]
    assert '<path class="zero"' in svg
    assert "chosen: 0.100 at half of the queries, 0.200 at all" in svg
    assert risk_figure((), {}) == ""
    assert risk_figure((1.0,), {"chosen": (0.2,)}) == ""
    assert "nan" not in risk_figure(coverage, {"chosen": (float("nan"), 0.1, 0.2)})


def told(**changes):
    return Reader(render_calibration(full_report().model_copy(update=changes))).words


def test_without_a_threshold_the_page_tells_the_two_reasons_apart():
    none = {"threshold": None, "precision_target": 0.8}
    text = "No usable threshold for a precision of 0.8 exists on these data: no threshold shows a precision of 0.8."
    tells = told(**none, verdict=VerdictRecord(label="no-usable-threshold", text=text))
    assert "No usable threshold for a precision of 80% on these data. No threshold shows a precision of 0.8." in tells
    assert "The probability tells right first hits from wrong ones, but at no coverage" in tells
    assert "Nothing here" not in tells
    chance = {"auroc": Interval(mean=0.52, ci_low=0.48, ci_high=0.56)}
    text = "No usable threshold exists on these data: the probability does not tell right hits from wrong ones."
    words = told(
        **none,
        calibrators=(row("logistic", auroc=0.52, intervals=chance),),
        verdict=VerdictRecord(label="no-usable-threshold", text=text),
    )
    assert "No usable threshold exists on these data. The probability does not tell" in words
    assert "Nothing here is known to tell right first hits from wrong ones." in words
    assert "precision of 80%" not in words


def test_headline_and_first_sentence_do_not_say_the_same():
    text = "Answer when the probability is 0.62 or more: precision is then at least 0.95 with 90% confidence."
    words = told(verdict=VerdictRecord(label="usable", text=text))
    assert "say “I don’t know”. Precision is then at least 0.95 with 90% confidence." in words
    assert "Answer when" not in words


def test_what_may_not_be_chosen_is_folded_away_and_the_chosen_one_never_is():
    rows = (row("logistic", eligible=False), row("softmax"), row("length_prior", eligible=False))
    page = render_calibration(full_report().model_copy(update={"calibrators": rows}))
    open_part, _, folded = page.partition("Controls and calibrators that may not be chosen</summary>")
    folded = folded.partition("</details>")[0]
    assert "Length as a prior" in folded
    assert "Length as a prior" not in open_part
    assert "Logistic<span" in open_part
    assert "Logistic<span" not in folded
    assert "may not be chosen</summary>" not in render_calibration(full_report().model_copy(update={"calibrators": rows[:2]}))


def test_figures_and_sentences_are_written_for_readers():
    gain = full_report().norm_gain.model_copy(update={"words": "the norm helped: it lowers E-AURC"})
    words = told(norm_gain=gain)
    assert "The norm helped: it lowers E-AURC" in words
    assert "E-AURC, shuffled norms (the check)" in words
    assert "FigureFalls by, with the norms" in words
    assert "score under dota query0.440" in words  # not "(dot)" once more
    assert "score of the first hit (cosine)" in words
    assert "The chosen calibrator" in words
    assert "the simplest within one standard error of the best; also the best" in words
    better = (row("logistic"), row("softmax", cv_nll=0.2))
    assert "also the best" not in told(calibrators=better)


def test_long_names_break_between_their_words():
    row_of = SignalRow(name="score under candidate_normalized", auroc=0.6, ci_low=0.55, ci_high=0.65, similarity="candidate_normalized")
    page = render_calibration(full_report().model_copy(update={"similarity": "candidate_normalized", "signals": (row_of,)}))
    assert "<dd>candidate_<wbr>normalized<small>" in page
    assert "score under candidate_<wbr>normalized" in page


def test_the_order_of_examples_is_said():
    words = told()
    assert "the highest first" in words
    assert "the lowest probability first" in words
