"""Words for what the alignment of one training did."""

from __future__ import annotations

import numpy as np
import pytest

from normwise.core.staircase_records import OrderGain
from normwise.theory.stairs import Stair
from normwise.training.stair_track_verdict import THRESHOLDS, label_of, order_words, stream_stair, track_verdict

STEPS = np.arange(0, 1000, 100)


def stair_of(values: list[float], *, spread: float = 0.01, order: int = 0) -> tuple[Stair, np.ndarray]:
    alignment = np.array(values)
    steps = STEPS[: alignment.size]
    return stream_stair(steps, alignment, np.zeros(alignment.size), np.full(alignment.size, spread), order=order), alignment


def label(values: list[float], *, spread: float = 0.01) -> str:
    stair, above = stair_of(values, spread=spread)
    known = above[~np.isnan(above)]
    return label_of(stair, last_step=int(STEPS[len(values) - 1]), last=float(known[-1]) if known.size else float("nan"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.05, 0.09, 0.08, 0.09, 0.05, 0.0, 0.0, 0.0, 0.0], "no-stair"),
        ([0.0, 0.3, 0.5, 0.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3], "early-peak"),
        ([0.0, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.5, 0.45, 0.4], "late-peak"),
        ([0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.41, 0.42, 0.43, 0.44], "no-decay"),
        ([0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.41, 0.44, 0.43, 0.40], "no-decay"),
        ([0.0, 0.3, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.05, 0.05], "faded"),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "risen-before"),
        ([0.5, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2], "risen-before"),
        # One checkpoint alone is no rise, however high.
        ([0.0, 0.9, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0], "no-stair"),
        ([float("nan")] * 10, "no-stair"),
    ],
)
def test_labels(values: list[float], expected: str) -> None:
    assert label(values) == expected


def test_a_figure_within_three_standard_deviations_of_its_null_is_no_rise() -> None:
    values = [0.0, 0.2, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]
    assert label(values, spread=0.06) != "no-stair"
    stair, _ = stair_of(values, spread=0.09)
    assert stair.onset is None
    assert stair.note == "no stair: the figure is 0.25 above its null, within 3 of the null's standard deviations"
    assert stair.peak == pytest.approx(0.25)


def test_decay_is_from_the_peak_to_the_last_figure_also_where_that_is_in_the_null() -> None:
    stair, _ = stair_of([0.0, 0.3, 0.5, 0.4, 0.02])
    assert stair.decay == pytest.approx(0.48)
    stair, _ = stair_of([0.0, 0.3, 0.5, 0.4, float("nan")])
    assert stair.decay == pytest.approx(0.1)


def test_the_threshold_of_a_peaks_step_is_a_quarter() -> None:
    values = [0.0, 0.2, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]
    assert label(values) == "early-peak"
    assert label([0.0, 0.2, 0.25, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2]) == "late-peak"


def test_every_order_has_its_sentence_and_the_last_gains_are_told() -> None:
    found = [stair_of([0.0, 0.3, 0.5, 0.4, 0.3]), stair_of([0.0, 0.01, 0.02, 0.0, 0.0], order=1)]
    gains = [
        OrderGain(step=100, order=0, r2=0.9, gain=0.9, null=0.0),
        OrderGain(step=400, order=-1, r2=0.1, gain=0.1, null=-0.01),
        OrderGain(step=400, order=0, r2=0.4, gain=0.3, null=-0.02),
        OrderGain(step=400, order=1, r2=0.41, gain=0.01, null=0.0),
    ]
    verdict = track_verdict([each[0] for each in found], {0: found[0][1], 1: found[1][1]}, steps=STEPS[:5], gains=gains)
    assert verdict.label == "late-peak"
    assert "Order 0 rises at step 100, peaks at step 200 at 0.500, and is 0.300 above its null at the last step." in verdict.text
    assert "Order 1 shows no stair" in verdict.text
    assert "Beyond how often tokens occur the orders explain at most 0.900 of R^2, above the null." in verdict.text
    assert "At step 400" in verdict.text
    assert "frequency alone explains 0.100 of R^2 (null -0.010), order 0 adds 0.300" in verdict.text
    assert verdict.text.endswith("it stands on order 0.")
    none = track_verdict([found[1][0]], {1: found[1][1]}, steps=STEPS[:5], gains=[gains[3]])
    assert none.label == "no-stair"
    assert none.text.endswith("no order adds 0.1, which would make it a stair of its own.")


def test_words_of_a_series_that_does_not_fall() -> None:
    stair, above = stair_of([0.0, 0.2, 0.3, 0.4, 0.5])
    assert order_words(stair, above).endswith("its highest 0.500 at step 400: no decay so far.")
    assert THRESHOLDS.falls == 0.05
