from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_material import figures, train_result

from normwise.core.records import Interval, ReportFigures, RunResult, StageResult
from normwise.report import plots
from normwise.report.forest import ForestRow, forest, interval_words
from normwise.report.svg import Scale, clean, nice_ticks, series_class, tick_labels

finite_floats = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


def a_stage(name: str, steps: list[float], values: list[float | None], *, length: int) -> StageResult:
    rows = tuple({"step": s, "loss": v} for s, v in zip(steps, values, strict=True))
    return StageResult(name=name, similarity="dot", trainable="full", steps=length, temperature=1.0, seconds=1.0, curve=rows)


def a_run(*stages: StageResult, name: str = "run") -> RunResult:
    return RunResult(name=name, similarity="dot", metrics={}, dev={}, seeds=(0,), stages=stages)


def numbers(svg: str, css: str, attribute: str) -> list[float]:
    return [float(re.sub("%", "", m)) for m in re.findall(rf'class="{css}[^"]*"[^>]*? {attribute}="([^"]+)"', svg)]


def test_a_later_stage_goes_on_where_the_one_before_ended():
    run = a_run(a_stage("one", [1, 10], [3.0, 2.0], length=10), a_stage("two", [1, 5], [2.0, 1.0], length=5))
    (line,) = plots.traces([run], "loss")
    assert line.segments == (((1, 3.0), (10, 2.0)), ((11, 2.0), (15, 1.0)))


def test_steps_that_were_logged_in_one_count_are_not_shifted_again():
    run = a_run(a_stage("one", [1, 10], [3.0, 2.0], length=10), a_stage("two", [11, 15], [2.0, 1.0], length=5))
    (line,) = plots.traces([run], "loss")
    assert line.segments[1] == ((11, 2.0), (15, 1.0))


def test_a_repeated_stage_is_another_seed_and_another_line():
    stage = a_stage("one", [1, 10], [3.0, 2.0], length=10)
    lines = plots.traces([a_run(stage, stage)], "loss")
    assert [line.number for line in lines] == [1, 1]
    assert lines[0].segments == lines[1].segments


def test_one_name_is_one_number():
    stage = a_stage("one", [1, 10], [3.0, 2.0], length=10)
    lines = plots.traces(
        [a_run(stage, name="a"), a_run(stage, name="b"), a_run(stage, name="a").model_copy(update={"similarity": "cosine"})], "loss"
    )
    assert [line.number for line in lines] == [1, 2, 1]


def test_values_that_are_missing_or_not_finite_are_left_out():
    run = a_run(a_stage("one", [1, 2, 3, 4], [1.0, None, math.nan, 2.0], length=4))
    (line,) = plots.traces([run], "loss")
    assert line.segments == (((1, 1.0), (4, 2.0)),)
    assert plots.curve_keys([a_run(a_stage("one", [1], [None], length=1))]) == ()


@given(st.integers(1, 3000), st.integers(0, 2**32 - 1))
def test_thinning_keeps_ends_extremes_and_order(length, seed):
    values = np.random.default_rng(seed).normal(size=length).tolist()
    points = list(enumerate(values))
    kept = plots.thin_curve(points)
    assert len(kept) <= plots.MAX_CURVE
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert min(v for _, v in kept) == min(values)
    assert max(v for _, v in kept) == max(values)
    assert kept == sorted(kept)


def test_wide_positive_values_get_a_log_axis():
    label = plots.curve_figure([a_run(a_stage("one", [1, 2], [1.0, 1000.0], length=2))], "loss", title="Loss")
    assert "(log scale)" in label
    assert "(log scale)" not in plots.curve_figure([a_run(a_stage("one", [1, 2], [0.0, 1000.0], length=2))], "loss", title="Loss")


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [-3.0, -3.0], [1e-12, 2e-12], [1e30, 2e30], [-1.0, 1.0]])
def test_any_range_of_values_can_be_drawn(values):
    run = a_run(a_stage("one", list(range(1, len(values) + 1)), values, length=len(values)))
    svg = plots.curve_figure([run], "loss", title="Loss")
    ElementTree.fromstring(svg)
    assert "nan" not in svg
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", svg):
        assert 0 <= float(x) <= 360
        assert 0 <= float(y) <= 224


def test_end_labels_are_apart_and_inside():
    runs = [a_run(a_stage("one", [1, 10], [3.0, 2.0], length=10), name=f"run {i}") for i in range(9)]
    svg = plots.curve_figure(runs, "loss", title="Loss")
    at = sorted(numbers(svg, "end", "y"))
    assert len(at) == 9
    assert min(b - a for a, b in zip(at, at[1:], strict=False)) >= 10.9
    assert 0 < at[0]
    assert at[-1] < 224


def test_the_seventh_run_differs_from_the_first():
    assert series_class(7) != series_class(1)
    assert len({series_class(i) for i in range(1, 13)}) == 12


@given(st.lists(finite_floats, min_size=1, max_size=300))
def test_histogram_shares_add_up_to_the_whole_sample(values):
    svg = plots.histogram({"a": values}, x_label="norm")
    ElementTree.fromstring(svg)
    low, high = min(values), max(values)
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-30):
        assert sum(plots._shares(values, low, high)) == pytest.approx(100.0)


def test_histogram_counts_as_a_slow_loop_does():
    values = [0.0, 0.1, 0.5, 0.99, 1.0]
    width = 1.0 / 32
    expected = [100 * sum(i * width <= v < (i + 1) * width or (i == 31 and v == 1.0) for v in values) / 5 for i in range(32)]
    assert plots._shares(values, 0.0, 1.0) == expected


def test_scatter_shows_at_most_its_limit_and_bins_by_percentile():
    svg = plots.direction_scatter(figures(4000))
    assert svg.count("h0") == plots.MAX_POINTS
    four = ReportFigures(directions=((0, 0), (1, 0), (0, 1), (1, 1)), direction_norm_percentiles=(0.0, 0.4, 0.6, 1.0))
    assert [m for m in re.findall(r"dots (q\d)", plots.direction_scatter(four))] == ["q0", "q2", "q3", "q5"]


def test_percentiles_may_be_given_in_percent():
    four = ReportFigures(directions=((0, 0), (1, 0), (0, 1), (1, 1)), direction_norm_percentiles=(0.0, 40.0, 60.0, 100.0))
    assert re.findall(r"dots (q\d)", plots.direction_scatter(four)) == ["q0", "q2", "q3", "q5"]


def test_without_percentiles_no_color_is_invented():
    svg = plots.direction_scatter(ReportFigures(directions=((0, 0), (1, 1))))
    assert "dots plain" in svg
    assert "norm percentiles not recorded" in svg
    assert "dots q" not in svg


def test_nothing_to_draw_is_an_empty_string():
    nothing = ReportFigures()
    assert plots.norm_histogram(nothing) == plots.pair_histogram(nothing) == plots.direction_scatter(nothing) == ""
    assert plots.curve_figure([], "loss", title="Loss") == ""
    assert forest([], title="x") == ""
    assert forest([ForestRow(name="a", interval=Interval(mean=None, ci_low=None, ci_high=None))], title="x") == ""


def test_forest_places_means_and_intervals_in_order():
    rows = [
        ForestRow(name="a", interval=Interval(mean=-0.1, ci_low=-0.2, ci_high=0.0), number=1),
        ForestRow(name="b", interval=Interval(mean=0.3, ci_low=0.1, ci_high=0.5), number=2),
    ]
    svg = forest(rows, title="difference", zero=True)
    first, second = numbers(svg, "mean", "cx")
    (low_a, low_b), (high_a, high_b) = numbers(svg, "bar", "x1"), numbers(svg, "bar", "x2")
    assert low_a < first < high_a <= low_b < second < high_b
    (zero,) = numbers(svg, "zero", "x1")
    assert high_a == pytest.approx(zero, abs=0.02)
    assert "+0.300 [+0.100, +0.500]" in svg


def test_forest_keeps_zero_in_sight():
    svg = forest([ForestRow(name="a", interval=Interval(mean=0.3, ci_low=0.2, ci_high=0.4))], title="difference", zero=True)
    (zero,) = numbers(svg, "zero", "x1")
    assert 0 <= zero < numbers(svg, "bar", "x1")[0]


def test_intervals_in_words():
    assert interval_words(Interval(mean=0.5, ci_low=None, ci_high=None)) == "0.500 [no interval]"
    assert interval_words(Interval(mean=math.nan, ci_low=0.0, ci_high=1.0)) == "not measured"


def test_names_in_figures_are_escaped():
    hostile = "<b a='\"'>&" + chr(0xDC00)
    svg = plots.curve_figure([a_run(a_stage("one", [1, 2], [1.0, 2.0], length=2), name=hostile)], "loss", title=hostile)
    svg += forest([ForestRow(name=hostile, interval=Interval(mean=1, ci_low=0, ci_high=2))], title=hostile)
    assert "<b" not in svg
    ElementTree.fromstring(f"<g>{svg}</g>")
    svg.encode("utf-8")


def test_a_figure_of_its_own_is_xml_and_the_same_each_time():
    result = train_result()
    drawn = plots.curve_figure(result.runs, "loss", title="Loss")
    assert drawn == plots.curve_figure(train_result().runs, "loss", title="Loss")
    for svg in (
        drawn,
        plots.norm_histogram(result.figures),
        forest([ForestRow(name="a", interval=Interval(mean=1, ci_low=0, ci_high=2))], title="t"),
    ):
        root = ElementTree.fromstring(plots.standalone(svg, width=600))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "%" not in root.attrib.get("width", "")
        assert "prefers-color-scheme:dark" in "".join(root.itertext())


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_inside_and_are_evenly_spaced(low, span):
    high = low + span
    ticks = nice_ticks(low, high)
    assert all(low - 1e-6 * span <= t <= high + 1e-6 * span for t in ticks)
    assert len(ticks) <= 7
    if len(ticks) > 2:
        steps = np.diff(ticks)
        assert np.allclose(steps, steps[0], rtol=1e-3)
    assert len(tick_labels(ticks)) == len(ticks)


@given(st.lists(st.sampled_from([0.1, 0.25, 1.0, 20.0, 1e7]), min_size=2, max_size=6, unique=True))
def test_tick_labels_tell_ticks_apart(values):
    ordered = sorted(values)
    assert len(set(tick_labels(ordered))) == len(ordered)


def test_scales_map_ends_to_ends():
    linear = Scale(low=1.0, high=3.0, start=10.0, end=30.0)
    assert (linear(1.0), linear(2.0), linear(3.0)) == (10.0, 20.0, 30.0)
    log = Scale(low=1.0, high=100.0, start=0.0, end=1.0, log=True)
    assert (log(1.0), log(10.0), log(100.0)) == (0.0, 0.5, 1.0)
    assert log.ticks() == [1.0, 10.0, 100.0]
    assert Scale(low=2.0, high=2.0, start=0.0, end=1.0)(2.0) == 0.5


@given(st.text())
def test_clean_text_can_always_be_written(text):
    assert clean(text).encode("utf-8").decode("utf-8") == clean(text)
