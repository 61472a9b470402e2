"""What may be asked of a calibration: refused before any work, in words, and kept as plain numbers; and what is said of the choice."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.workflows import calibrate_fit
from normwise.workflows.calibrate_fit import Goal


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"precision": "0.8"}, "precision is '0.8'; expected a number, such as 0.95"),
        ({"precision": None}, "precision is None; expected a number"),
        ({"precision": True}, "precision is True; expected a number"),
        ({"precision": 1.0}, r"precision is 1\.0; expected a share above 0, at most 0.999999"),
        ({"precision": math.nan}, "precision is nan; expected a share"),
        ({"confidence": "0.9"}, "confidence is '0.9'; expected a number, such as 0.9"),
        ({"confidence": 0.5}, r"confidence is 0\.5; expected more than 0\.5"),
        ({"confidence": 1}, r"confidence is 1\.0; expected .* less than 1"),
        ({"confidence": 0.9999999999999999}, r"confidence is 0\.9999999999999999; expected at most 0\.9999: a smaller chance of error"),
        ({"confidence": math.nan}, "confidence is nan; expected more than"),
        ({"seed": -1}, "seed is -1; expected a whole number, 0 or above"),
        ({"seed": 1.5}, r"seed is 1\.5; expected a whole number"),
        ({"seed": "3"}, "seed is '3'; expected a whole number"),
        ({"seed": False}, "seed is False; expected a whole number"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_words(asked, words):
    with pytest.raises(InputError, match=words):
        Goal(**asked)


def test_numbers_of_other_libraries_become_plain_ones():
    goal = Goal(precision=np.float32(0.75), confidence=np.float64(0.9999), seed=np.int64(3))
    assert (goal.precision, goal.confidence, goal.seed) == (0.75, 0.9999, 3)
    assert type(goal.precision) is type(goal.confidence) is float


def test_those_left_out_for_one_reason_share_it():
    left_out = {"a": "no norms", "b": "too few", "c": "no norms"}
    notes = calibrate_fit._choice_notes(SimpleNamespace(words="x: the best", left_out=left_out))
    assert notes == ["the bake-off chose x: the best", "left out of the bake-off: a, c (no norms); b (too few)"]
    assert calibrate_fit._choice_notes(SimpleNamespace(words="x", left_out={})) == ["the bake-off chose x"]
