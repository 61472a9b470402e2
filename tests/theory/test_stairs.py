"""Stairs from series: onsets by a slow loop, what is none, and the order of climbing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.stairs import Stair, StairRule, climbs_in_order, find_stair, task_onset

RULE = StairRule(0.5, stays=2)


def _stair(values, *, rule=RULE, null=0.0, order=0):
    values = np.array(values, dtype=np.float64)
    return find_stair(10 * np.arange(values.size), values, np.full(values.size, null), order=order, rule=rule)


@given(st.lists(st.sampled_from([0.0, 0.3, 0.6, 0.9, np.nan]), min_size=1, max_size=14), st.integers(1, 4))
def test_onset_peak_and_end_by_a_slow_loop(values, stays):
    found = _stair(values, rule=StairRule(0.5, stays=stays))

    def first(start, good):
        for t in range(start, len(values) - stays + 1):
            if all(good(values[t + i]) for i in range(stays)):
                return t
        return None

    onset = first(0, lambda value: value > 0.5)
    assert found.found == (onset is not None)
    assert found.onset == (None if onset is None else 10 * onset)
    if onset is None:
        assert (found.decay, found.end, found.before) == (None, None, None)
        assert found.note.startswith("no stair")
        return
    later = [(-value, t) for t, value in enumerate(values) if t >= onset and value == value]
    peak = min(later)[1]
    assert (found.peak, found.peak_step) == (values[peak], 10 * peak)
    last = [value for value in values if value == value][-1]
    assert found.decay == pytest.approx(values[peak] - last)
    end = first(peak, lambda value: not value > 0.5)
    assert found.end == (None if end is None else 10 * end)
    assert found.before == (10 * (onset - 1) if onset else None)


def test_a_stair_is_measured_above_its_null():
    found = _stair([0.6, 0.75, 0.95, 0.9, 0.6, 0.6], null=0.2)
    assert found == Stair(0, 10, 0, 20, found.peak, found.decay, 40, "")
    assert (found.peak, found.decay) == pytest.approx((0.75, 0.35))
    assert not _stair([0.6, 0.65, 0.69, 0.69], null=0.2).found


def test_a_spike_before_the_rise_is_not_its_peak_and_a_dip_after_it_not_its_end():
    found = _stair([0.9, 0.0, 0.6, 0.7, 0.3, 0.6, 0.2, 0.1])
    assert (found.onset, found.peak_step, found.peak, found.end) == (20, 30, 0.7, 60)


def test_one_checkpoint_above_is_no_stair_and_neither_is_a_rise_that_the_series_ends_in():
    for values in ([0.0, 0.9, 0.0, 0.9], [0.0, 0.0, 0.9]):
        found = _stair(values)
        assert not found.found
        assert (found.peak, found.peak_step) == (0.9, 10 * values.index(0.9))
        assert found.note.endswith("but never at 2 in a row")


def test_a_rise_that_was_not_seen_says_so():
    found = _stair([0.8, 0.9, 0.9])
    assert (found.onset, found.before) == (0, None)
    assert "from the first checkpoint on" in found.note


def test_undefined_figures_are_no_stair():
    found = _stair([np.nan, np.nan])
    assert not found.found
    assert found.peak_step is None
    assert np.isnan(found.peak)
    assert found.note == "no stair: the figure is undefined at every checkpoint"


def test_steps_may_be_uneven():
    steps, values = np.array([1, 2, 5, 100, 1000]), np.array([0.0, 0.0, 0.7, 0.8, 0.1])
    found = find_stair(steps, values, np.zeros(5), order=1, rule=RULE)
    assert (found.order, found.onset, found.before, found.peak_step) == (1, 5, 2, 100)


def test_the_onset_of_the_task():
    steps, accuracy = np.arange(5) * 20, np.array([0.1, 0.6, 0.2, 0.7, 0.9])
    assert task_onset(steps, accuracy, threshold=0.5) == 20
    assert task_onset(steps, accuracy, threshold=0.5, stays=2) == 60
    assert task_onset(steps, accuracy, threshold=0.95) is None


def test_climbing_in_order():
    never, at = (_stair(values, rule=StairRule(0.5, 1)) for values in ([0.0, 0.0, 0.0], [0.0, 0.9, 0.0]))
    late = _stair([0.0, 0.0, 0.9], rule=StairRule(0.5, 1))
    assert climbs_in_order(at, late, 20)
    assert climbs_in_order(at, late, None)
    assert not climbs_in_order(at, late, 10)
    assert not climbs_in_order(at, at, 20)
    assert not climbs_in_order(never, late, 20)
    assert not climbs_in_order(at, never, None)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="threshold is 0 and stays 3; expected 0 < threshold < 1"):
        StairRule(0.0)
    with pytest.raises(InputError, match=r"threshold is 0.5 and stays 0; .* at least 1 checkpoint"):
        StairRule(0.5, stays=0)
    with pytest.raises(InputError, match="steps is empty"):
        _stair([])
    with pytest.raises(InputError, match=r"null has shape \(2,\) and steps \(3,\); expected one figure per checkpoint"):
        find_stair(np.arange(3), np.zeros(3), np.zeros(2), order=0, rule=RULE)
    with pytest.raises(InputError, match=r"steps: 4 is followed by 4 at checkpoint 2 \(from 0\); expected rising steps"):
        task_onset(np.array([0, 4, 4]), np.zeros(3), threshold=0.5)
