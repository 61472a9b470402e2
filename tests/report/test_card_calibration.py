"""The calibration section of a model card: in its place, replaced alone, and nothing of a text takes effect in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.calibration_records import (
    CalibrationReport,
    CalibratorRow,
    Fingerprint,
    NormGain,
    QueryCounts,
    ThresholdRecord,
    VerdictRecord,
)
from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.report.card_calibration import BEGIN, END, calibration_section, with_calibration


def row(name, **more):
    figures = {"ece": 0.041, "brier": 0.1, "nll": None, "auroc": 0.83, "aurc": 0.2, "e_aurc": 0.05, "nauc": 0.5} | more
    return CalibratorRow(name=name, **figures, intervals={"auroc": Interval(mean=0.83, ci_low=0.8, ci_high=0.86)})


def report(**more):
    known = {
        "queries": QueryCounts(fit=500, test=1234, unanswerable=7),
        "signals": (),
        "calibrators": (row("temperature"), row("logistic_norm"), row("norm_prior")),
        "chosen": "logistic_norm",
        "norm_gain": NormGain(metric="e_aurc", delta=0.1, ci_low=0.0, ci_high=0.2, words="the norm helped"),
        "threshold": ThresholdRecord(
            precision_target=0.95, confidence=0.9, probability=0.812345, coverage=0.25, answered=308, precision=0.97, precision_low=0.95
        ),
        "verdict": VerdictRecord(label="usable", text="Answer when sure."),
        "data": "my | data",
        "similarity": "dot",
        "fingerprint": Fingerprint(model="m", similarity="dot", search="faiss-hnsw", candidates=9000, depth=100),
    }
    return CalibrationReport(**(known | more))


def test_it_says_verdict_threshold_validity_and_norms():
    section = calibration_section(report())
    assert section.startswith(BEGIN)
    assert section.endswith(END)
    for words in (
        "**Usable.** Answer when sure.",
        "500 queries fit, 1,234 others test; 7 of all have no answer",
        "probability of 0.8123 on: precision at least 0.95 with confidence 0.9; 25.0% of the test queries",
        "scores by `dot`, `faiss-hnsw` search of 9,000 candidates",
        "What norms add: the norm helped",
        "my \\| data",
        "| **Logistic + norms** (chosen) | 0.041 [no interval] |",
        "0.830 [0.800, 0.860]",
        "not measured",
    ):
        assert words in section
    assert "Norm as a prior" not in section


def test_no_threshold_is_said_as_such():
    verdict = VerdictRecord(label="no-usable-threshold", text="It tells nothing.")
    section = calibration_section(report(threshold=None, verdict=verdict))
    assert "**No usable threshold.** It tells nothing." in section
    assert "at no probability does the test guarantee" in section


def test_free_text_neither_ends_the_section_nor_marks_up():
    section = calibration_section(
        report(data=f"x {END}\n# owned <b>", norm_gain=NormGain(metric="e_aurc", delta=None, ci_low=None, ci_high=None, words=BEGIN))
    )
    assert section.count(BEGIN) == section.count(END) == 1
    assert "\n# owned" not in section
    assert "<b>" not in section


@pytest.mark.parametrize(
    ("card", "before", "after"),
    [
        ("# demo\n\ntext\n\n## Limits\n\n- one\n", "# demo\n\ntext\n\n", "\n\n## Limits\n\n- one\n"),
        ("# demo", "# demo\n\n", "\n"),
        ("", "", "\n"),
    ],
)
def test_a_first_section_stands_before_the_limits_or_at_the_end(card, before, after):
    section = calibration_section(report())
    assert with_calibration(card, section) == before + section + after


@given(st.text(alphabet="ab#\n |", max_size=60), st.text(alphabet="ab#\n |", max_size=60))
def test_the_rest_of_a_card_stays_to_the_letter(head, tail):
    old, new = f"{BEGIN} old {END}", f"{BEGIN} new {END}"
    once = with_calibration(head + old + tail, new)
    assert once == head + new + tail
    assert with_calibration(once, new) == once


@pytest.mark.parametrize("card", [BEGIN, END, f"{END} {BEGIN}", f"{BEGIN} {END} {BEGIN} {END}"])
def test_half_a_section_is_refused(card):
    with pytest.raises(InputError, match=r"expected one of each, in this order: delete those that are left"):
        with_calibration(card, f"{BEGIN} {END}")
