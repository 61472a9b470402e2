"""Inert thresholds are named with figures that hold, and numbers that differ look different."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.threshold_words import apart, inert, is_inert

finite = st.floats(-1e3, 1e3, allow_nan=False)


def test_a_constant_that_hides_nothing_is_named():
    scores = np.linspace(0.71, 0.99, 500)
    assert is_inert(0.7, scores) == "0.7 rejects nothing: all 500 first hits score 0.71 or more"
    assert is_inert(0.71, scores) == "0.71 rejects nothing: all 500 first hits score 0.71 or more"
    assert is_inert(0.72, scores) is None


def test_a_constant_that_hides_everything_is_named_also_for_scores_of_400_and_below_0():
    assert is_inert(400.5, np.array([380.0, 400.0]), what="queries") == "400.5 rejects everything: all 2 queries score 400 or less"
    assert is_inert(0.0, np.array([-0.2, -0.1])) == "0 rejects everything: all 2 first hits score -0.1 or less"


@given(finite, st.lists(finite, min_size=1, max_size=8))
def test_inert_is_all_or_none(threshold, values):
    answered = sum(value >= threshold for value in values)
    expected = {len(values): "rejects nothing", 0: "rejects everything"}.get(answered)
    assert inert(threshold, np.array(values)) == expected
    assert (is_inert(threshold, np.array(values)) is None) == (expected is None)


@given(finite, finite)
def test_different_numbers_look_different(value, other):
    words = apart(value, other)
    assert (words[0] == words[1]) == (value == other)


@pytest.mark.parametrize(
    ("threshold", "values", "words"),
    [(0.5, [], "no query"), (np.nan, [0.5], "threshold is nan"), (0.5, [0.1, np.inf], "query 1 is inf")],
)
def test_no_word_on_what_is_not_finite(threshold, values, words):
    with pytest.raises(InputError, match=words):
        is_inert(threshold, np.array(values))
