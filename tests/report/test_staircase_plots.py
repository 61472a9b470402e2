"""The staircase plot: axes, lines that end where values do, marks where they belong, panels on one axis."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staircase_material import demo_report, stair, track_report

from normwise.core.staircase_records import PredictedStair, SeriesIntegrity
from normwise.report.staircase_axis import drawable, less_null, runs, spaced_by_log, step_axis
from normwise.report.staircase_plots import series_style, staircase_figure

LEFT, RIGHT = 46.0, 340.0


def paths(svg, tone, *, title):
    """The points of every line of a series."""
    found = re.findall(rf'<path class="line {tone}"[^>]*? d="M([^"]*)"><title>{title}</title>', svg)
    return [[tuple(map(float, spot.split())) for spot in path.split("L")] for path in found]


def dots(svg, tone):
    return [tuple(map(float, found)) for found in re.findall(rf'<circle class="mean {tone}" cx="([\d.]+)" cy="([\d.]+)"', svg)]


def onsets(svg, tone):
    found = re.findall(rf'<path class="mean {tone} onset" d="M([\d.]+) ([\d.]+)L', svg)
    return [(float(x), float(y) + 5.0) for x, y in found]


def peaks(svg, tone):
    return [tuple(map(float, found)) for found in re.findall(rf'<circle class="switch {tone}" cx="([\d.]+)" cy="([\d.]+)"', svg)]


def plain(**changes):
    """No bands, bars or prediction, so that only lines are drawn."""
    values = {"spread": {}, "stairs": (), "stairs_by_seed": (), "predicted": PredictedStair(exists=False, reason="")}
    return demo_report(**{**values, **changes})


@pytest.mark.parametrize(
    ("steps", "log"),
    [
        (range(0, 610, 10), False),
        ([0, 1, 2, 4, 8, 16, 512], True),
        ([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, *range(1000, 144_000, 1000)], True),
        ([*range(0, 300, 10), 600], False),
        ([0, 1, *range(100, 10_100, 100)], False),
        ([0, 10, 20], False),
        ([0, 10, 20, 30], False),
        ([10, 20, 30], False),
        ([500, 501], False),
        ([0, 1, 1000], True),
        ([-4, 1, 2, 4, 8], False),
        ([7], False),
        ([0, 5], False),
    ],
)
def test_a_log_axis_is_taken_where_it_draws_close_checkpoints_apart(steps, log):
    assert spaced_by_log(list(steps)) is log


@given(st.integers(1, 60), st.integers(1, 1000), st.booleans())
def test_evenly_spaced_steps_have_a_linear_axis(count, apart, zero):
    assert not spaced_by_log([apart * i for i in range(0 if zero else 1, count + 1)])


@given(st.integers(1, 30), st.sampled_from([2, 3, 10]), st.booleans())
def test_steps_that_double_have_a_log_axis(count, factor, zero):
    assert spaced_by_log([0] * zero + [factor**i for i in range(count)]) or count < 3


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30, unique=True))
def test_positions_rise_with_steps_within_the_axis(steps):
    steps = sorted(steps)
    axis = step_axis(steps, start=LEFT, end=RIGHT)
    places = [axis(step) for step in steps]
    assert all(before < after for before, after in zip(places, places[1:], strict=False))
    assert LEFT - 1e-9 <= places[0] <= places[-1] <= RIGHT + 1e-9
    assert all(LEFT - 1e-9 <= x <= RIGHT + 1e-9 for x, _ in axis.ticks())


def test_step_0_stands_left_of_the_logarithm_and_doublings_are_evenly_spaced():
    axis = step_axis([0, 1, 2, 4, 8], start=LEFT, end=RIGHT)
    places = [axis(step) for step in (0, 1, 2, 4, 8)]
    assert places[0] == LEFT
    gaps = [after - before for before, after in zip(places[1:], places[2:], strict=False)]
    assert gaps == pytest.approx([gaps[0]] * 3)
    assert places[1] > LEFT + 10
    assert axis.ticks()[0] == (LEFT, "0")
    assert axis(0.5) == pytest.approx((places[0] + places[1]) / 2)


def test_ticks_are_whole_steps():
    assert [words for _, words in step_axis([0, 1, 2], start=LEFT, end=RIGHT).ticks()] == ["0", "1", "2"]
    assert [words for _, words in step_axis([5], start=LEFT, end=RIGHT).ticks()] == ["5"]


def test_a_line_goes_through_its_values_less_the_null():
    report = plain(
        alignment={"0": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)},
        null={"0": (0.1, 0.1, 0.1, 0.1, 0.1, 0.1)},
        loss=(None,) * 6,
        accuracy=(None,) * 6,
    )
    (line,) = paths(staircase_figure(report), "s1", title="order 0")
    assert [x for x, _ in line] == pytest.approx([LEFT + i * (RIGHT - LEFT) / 5 for i in range(6)], abs=0.06)
    falls = [before[1] - after[1] for before, after in zip(line, line[1:], strict=False)]
    assert falls == pytest.approx([falls[0]] * 5, abs=0.11)
    assert falls[0] > 10
    # The dashed line of 0 is where the figure equals its null.
    zero = float(re.findall(r'<path class="zero" d="M46.0 ([\d.]+)H', staircase_figure(report))[0])
    assert zero == pytest.approx(line[0][1], abs=0.06)


@pytest.mark.parametrize("where", ["alignment", "null"])
def test_a_missing_value_is_a_gap_and_a_lone_value_a_dot(where):
    full = {"alignment": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "null": (0.0,) * 6}
    cut = {**full, where: tuple(None if i in (2, 4) else value for i, value in enumerate(full[where]))}
    svg = staircase_figure(plain(alignment={"0": cut["alignment"]}, null={"0": cut["null"]}))
    (piece,) = paths(svg, "s1", title="order 0")
    assert [x for x, _ in piece] == pytest.approx([LEFT, LEFT + (RIGHT - LEFT) / 5], abs=0.06)
    assert [x for x, _ in dots(svg, "s1")] == pytest.approx([LEFT + i * (RIGHT - LEFT) / 5 for i in (0, 1, 3, 5)], abs=0.06)


@given(st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=1, max_size=20))
def test_pieces_hold_every_value_once_and_no_neighbors_of_a_missing_one(values):
    steps = list(range(len(values)))
    pieces = runs(steps, values)
    assert [spot for piece in pieces for spot in piece] == [(s, d) for s, d in zip(steps, drawable(values), strict=True) if d is not None]
    assert all(after[0] - before[0] == 1 for piece in pieces for before, after in zip(piece, piece[1:], strict=False))


def test_no_line_is_drawn_across_missing_checkpoints():
    gap = SeriesIntegrity(gaps=((20, 30),))
    svg = staircase_figure(plain(integrity=gap))
    assert [len(piece) for piece in paths(svg, "s1", title="order 0")] == [3, 3]
    assert [len(piece) for piece in paths(svg, "ink", title="loss")] == [3, 3]
    assert len(paths(staircase_figure(plain()), "s1", title="order 0")) == 1


def test_gaps_and_jumps_are_spans_over_all_panels():
    svg = staircase_figure(track_report())
    axis = step_axis(track_report().steps, start=LEFT, end=RIGHT)
    lowest = max(float(y) for y in re.findall(r'<path class="axis" d="M46.0 ([\d.]+)H', svg))
    for kind, before, after in (("gap", 8, 16), ("jump", 32, 64)):
        found = re.findall(rf'<path class="mean ink {kind}" opacity=".08" d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)', svg)
        assert len(found) == 1
        left, top, right, floor = map(float, found[0])
        assert (left, right) == pytest.approx((axis(before), axis(after)), abs=0.06)
        assert floor == pytest.approx(lowest)
        assert top < 40
        assert f">{kind}</text>" in svg
    assert "ink gap" not in staircase_figure(demo_report())


def test_onsets_and_peaks_lie_on_their_lines():
    svg = staircase_figure(demo_report())
    for tone, title, onset, peak in (("s1", "order 0", 1, 2), ("s2", "order 1", 2, 4)):
        (line,) = paths(svg, tone, title=title)
        assert onsets(svg, tone) == [pytest.approx(line[onset], abs=0.11)]
        assert peaks(svg, tone) == [pytest.approx(line[peak], abs=0.11)]
    assert ">0 ▲ 10</text>" in svg
    assert ">1 ▲ 20</text>" in svg


def test_an_order_without_a_stair_has_no_marks():
    svg = staircase_figure(demo_report(stairs=(stair(0, onset=None, earliest=None, latest=None),), stairs_by_seed=()))
    assert not onsets(svg, "s1")
    assert not peaks(svg, "s1")
    assert "upright" not in svg
    assert 'class="bar' not in svg


def test_an_onset_whose_value_is_missing_has_a_line_but_no_mark():
    svg = staircase_figure(plain(alignment={"0": (0.1, None, 0.9, 0.8, 0.7, 0.6)}, null={"0": (0.0,) * 6}, stairs=(stair(0),)))
    assert not onsets(svg, "s1")
    assert svg.count("upright") == 1


def test_an_onset_goes_through_all_panels_at_its_step():
    svg = staircase_figure(demo_report())
    ((x, floor),) = re.findall(r'<path class="line s1 upright"[^>]* d="M([\d.]+) [\d.]+V([\d.]+)"', svg)
    assert float(x) == pytest.approx(LEFT + (RIGHT - LEFT) / 5, abs=0.06)
    assert float(floor) == max(float(y) for y in re.findall(r'<path class="axis" d="M46.0 ([\d.]+)H', svg))


def test_bars_reach_from_the_first_seed_to_the_last():
    svg = staircase_figure(demo_report())
    step = (RIGHT - LEFT) / 50
    found = re.findall(r'<path class="bar (\w+)" d="M([\d.]+) [\d.]+H([\d.]+)"', svg)
    wanted = [("s1", 10, 20), ("s2", 20, 30), ("ink", 40, 40)]
    assert [tone for tone, _, _ in found] == [tone for tone, _, _ in wanted]
    for (_, left, right), (_, low, high) in zip(found, wanted, strict=True):
        assert (float(left), float(right)) == pytest.approx((LEFT + step * low, LEFT + step * high), abs=0.2)


def test_the_prediction_is_a_bracket_where_the_axis_holds_it():
    svg = staircase_figure(demo_report())
    ((left, right),) = re.findall(r'<path class="line ink" d="M([\d.]+) [\d.]+v-4H([\d.]+)v4"', svg)
    step = (RIGHT - LEFT) / 50
    assert (float(left), float(right)) == pytest.approx((LEFT + step * 12.3, LEFT + step * 24.6), abs=0.06)
    late = PredictedStair(exists=True, reason="", steps=900.0, steps_at_slope_1=450.0)
    assert "predicted" not in staircase_figure(demo_report(predicted=late))


def test_a_band_is_the_spread_over_seeds_around_the_mean():
    svg = staircase_figure(demo_report(spread={"alignment_0": (0.1,) * 6}))
    ((points),) = re.findall(r'<path class="mean s1" opacity=".16" d="M([^"]*)Z"', svg)
    spots = [tuple(map(float, spot.split())) for spot in points.split("L")]
    (line,) = paths(svg, "s1", title="order 0")
    per_unit = (line[0][1] - line[2][1]) / 0.8
    assert len(spots) == 12
    for (x, y), (_, low), (_, high) in zip(line, spots[:6], reversed(spots[6:]), strict=True):
        assert (low - y, y - high) == pytest.approx((0.1 * per_unit,) * 2, abs=0.11), x


def test_a_band_of_a_training_is_chance_around_0():
    report = track_report(alignment={"0": (0.5,) * 9}, null={"0": (0.0,) * 9}, integrity=SeriesIntegrity(), stairs=())
    svg = staircase_figure(report)
    ((points),) = re.findall(r'<path class="mean s1" opacity=".16" d="M([^"]*)Z"', svg)
    heights = {float(spot.split()[1]) for spot in points.split("L")}
    zero = float(re.findall(r'<path class="zero" d="M46.0 ([\d.]+)H', svg)[0])
    (line,) = paths(svg, "s1", title="order 0")
    per_unit = (zero - line[0][1]) / 0.5
    assert sorted(at - zero for at in heights) == pytest.approx([-0.06 * per_unit, 0.06 * per_unit], abs=0.11)


def test_panels_stand_below_each_other_on_one_axis_and_what_is_unknown_is_left_out():
    svg = staircase_figure(demo_report())
    names = re.findall(r">(alignment less null|loss|accuracy)</text>", svg)
    assert names == ["alignment less null", "loss", "accuracy"]
    lines = [paths(svg, tone, title=name)[0] for tone, name in (("s1", "order 0"), ("ink", "loss"), ("ink", "accuracy"))]
    assert len({tuple(x for x, _ in line) for line in lines}) == 1
    assert max(y for _, y in lines[0]) < min(y for _, y in lines[1]) < max(y for _, y in lines[1]) < min(y for _, y in lines[2])
    assert ">accuracy</text>" not in staircase_figure(track_report())
    none = (None,) * 6
    assert re.findall(r">(alignment less null|loss|accuracy)</text>", staircase_figure(plain(alignment={}, loss=none))) == ["accuracy"]
    assert staircase_figure(plain(alignment={}, loss=none, accuracy=none)) == ""


def test_lines_are_told_apart_without_color():
    assert len({series_style(number) for number in range(36)}) == 36
    assert len({series_style(number)[1] for number in range(6)}) == 6
    svg = staircase_figure(demo_report())
    assert ">0</text>" in svg
    assert 'class="end s2" x="345.0"' in svg


def test_an_order_looks_the_same_whichever_others_there_are():
    alone = plain(alignment={"1": (0.0, 0.1, 0.6, 0.7, 0.75, 0.7)}, null={"1": (0.0,) * 6})
    assert paths(staircase_figure(alone), "s2", title="order 1")
    assert not paths(staircase_figure(alone), "s1", title="order 0")


def test_lengths_that_differ_are_cut_to_the_shortest():
    assert less_null([1.0, 2.0, 3.0], [0.5]) == [0.5]
    assert staircase_figure(plain(alignment={"0": (0.1, 0.2)}, null={"0": (0.0,)}, loss=(1.0,)))
