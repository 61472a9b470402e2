"""The guide of calibration and the page name every signal and every calibrator that a calibration can print, and no others."""

import re
from pathlib import Path
from typing import get_args

import pytest

from normwise.report import calibration_words
from normwise.theory.calibrators import AnyCalibrator
from normwise.theory.signals import SIGNALS

GUIDE = Path(__file__).parents[2] / "docs/guide/calibration.md"
CALIBRATORS = {kind for family in get_args(get_args(AnyCalibrator)[0]) for kind in get_args(family.model_fields["kind"].annotation)}


def rows(heading):
    """The first cells of the table below a heading, and what stands beside them."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", section[1], re.MULTILINE))


@pytest.mark.parametrize(("heading", "names"), [("Signals", set(SIGNALS)), ("Calibrators", CALIBRATORS)])
def test_the_guide_explains_each_name_once_and_no_other(heading, names):
    assert set(rows(heading)) == names


def test_the_guide_says_of_each_control_that_it_is_one():
    said = rows("Signals")
    assert {name for name, words in said.items() if "*control*" in words} == {"query frequency", "hit frequency", "local scaling"}
    assert {name for name, words in said.items() if words.endswith("a control")} == {"query length", "hit length"}
    barred = {name for name, words in rows("Calibrators").items() if re.search(r"\| no, (a control|the null)", words)}
    assert barred == {name for name in CALIBRATORS if re.match("(length|frequency|permuted_norm)_(reranking|prior)", name)}


def test_the_page_has_words_for_every_calibrator():
    assert set(calibration_words.CALIBRATORS) == CALIBRATORS
