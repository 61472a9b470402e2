from __future__ import annotations

import itertools
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_page import HOSTILE, MISSING, Reader

from normwise.core.negatives_records import (
    BoundsRecord,
    CrossEntropy,
    FalseNegativeRecord,
    FitRecord,
    NegativesReport,
    PoolRecord,
    RegimeRecord,
    RiskStep,
    Span,
    Spread,
    TemperatureRow,
)
from normwise.report.negatives_facts import bounds_lead, nats, share
from normwise.report.negatives_plots import curve_figure, fit_points, sweep_figure
from normwise.report.negatives_view import advice_words
from normwise.report.page import render_negatives
from normwise.report.words import duration, number

ADVICE = (
    "Going from 8 to 32 negatives changes the risk by -0.1286 ± 0.0010 nats of the -0.176 that all further ones would: more negatives "
    "still change what is learned; temperature 0.2 -> 0.1 lowers the cross-entropy of a search by 0.5 nats (0.4 to 0.6)."
)
NOTHING = (None, None)


def full_report(text="vectors", **changes):
    """A report that lacks nothing, no two of whose numbers are the same."""
    # None that comes out short, which the page may hold for another reason.
    spread = (round(0.1237 + 0.0137 * step, 4) for step in itertools.count())
    numbers = (value for value in spread if len(number(value)) > 4)

    def one():
        return next(numbers)

    def pair():
        return (-one(), one())

    def row(tau):
        parts = {"risk": -one(), "risk_ci": pair(), "cross_entropy": -one(), "cross_entropy_ci": pair(), "change": one()}
        left = tuple(round(0.01 * one(), 6) for _ in range(3))
        return TemperatureRow(
            temperature=tau, **parts, change_ci=pair(), recall_at_1=0.87654, residuals=left, effective_negatives=one(), loss_floor=-one()
        )

    ks = (1, 2, 4, 8, 16, 32, 61)
    low, high = pair()
    steps = []
    for k, after in itertools.pairwise(ks):
        first, last = pair()
        steps.append(RiskStep(k=k, to=after, change=-one(), ci_low=first, ci_high=last))
    values = {
        "advice": ADVICE,
        "k": ks,
        "risk": tuple(-one() for _ in ks),
        "risk_ci": tuple(pair() for _ in ks),
        "decoupled": tuple(-one() for _ in ks),
        "decoupled_ci": tuple(pair() for _ in ks),
        "steps": tuple(steps),
        "cross_entropy": CrossEntropy(estimate=-one(), ci_low=low, ci_high=high, method="jackknife"),
        "cv2": Spread(median=one(), p90=one(), mean=one()),
        "regime": RegimeRecord(positive_weight=3.21, decoupled_start=2.35, start=7.23, reached=True, extrapolates=True, constant=-one()),
        "fit": FitRecord(limit=-one(), constant=-one(), points=5),
        "effective_negatives": tuple(one() for _ in ks),
        "bounds": BoundsRecord(
            k=61,
            largest_score=5.4321,
            low=-one(),
            high=0.7654,
            published=3032.1234,
            uniform=0.7654,
            scores=10.8642,
            instance=0.0123,
            vacuous=False,
        ),
        "temperatures": (row(0.1), row(0.2), row(0.4)),
        "false_negatives": FalseNegativeRecord(at_most=0.00123, ci_high=0.00234, above_own=0.00345, expected_at_k=0.0456),
        "pool": PoolRecord(kind="pool", size=62, masked=33, collision=0.0567, shift=0.0678),
        "at": 8,
        "loss_floor": -one(),
        "candidates": 123_456,
        "search": Span(estimate=-one(), ci_low=-one(), ci_high=one()),
        "similarity": "cosine",
        "temperature": 0.2,
        "queries": 301,
        "sweep_queries": 201,
        "sweep_pool": 52,
        "sweep_k": 47,
        "source": text,
        "notes": (text,),
        "seconds": 43.0,
    }
    return NegativesReport(**{**values, **changes})


def bare_report(**changes):
    """A report that lacks all it may lack."""
    row = TemperatureRow(
        temperature=0.02,
        risk=-1.0,
        risk_ci=NOTHING,
        cross_entropy=None,
        cross_entropy_ci=NOTHING,
        change=None,
        change_ci=NOTHING,
        recall_at_1=1.0,
        residuals=(0.1, 0.2, 0.3),
        effective_negatives=1.5,
        loss_floor=None,
    )
    values = {
        "advice": "What more than 1 negatives do cannot be told from a pool of 1: give a larger one.",
        "k": (1,),
        "risk": (0.5,),
        "risk_ci": (NOTHING,),
        "decoupled": (-0.5,),
        "decoupled_ci": (NOTHING,),
        "steps": (),
        "cross_entropy": CrossEntropy(estimate=None, ci_low=None, ci_high=None, method="none"),
        "regime": RegimeRecord(
            positive_weight=math.inf, decoupled_start=1e3, start=math.inf, reached=False, extrapolates=False, constant=-math.inf
        ),
        "fit": FitRecord(limit=None, constant=None, points=0),
        "effective_negatives": (0.5,),
        "bounds": BoundsRecord(
            k=1, largest_score=500.0, low=-1000.0, high=1000.0, published=None, uniform=None, scores=1000.0, instance=None, vacuous=True
        ),
        "temperatures": (row,),
        "false_negatives": FalseNegativeRecord(at_most=None, ci_high=None, above_own=0.0, expected_at_k=None),
        "pool": PoolRecord(kind="positives of other queries", size=2, masked=0, collision=None, shift=None),
        "at": 1,
        "loss_floor": None,
        "candidates": 77,
        "search": Span(estimate=None, ci_low=None, ci_high=None),
        "similarity": "dot",
        "temperature": 0.02,
        "queries": 2,
        "sweep_queries": 2,
        "sweep_pool": 2,
        "sweep_k": 2,
        "source": "",
        "notes": (),
    }
    return full_report(**{**values, **changes})


def texts(page):
    """The text of a page, its elements kept apart."""
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>|<svg.*?</svg>|<wbr>", "", page, flags=re.DOTALL)).split())


def once(pattern, text):
    """The first match, which must be there."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found


def numbers_of(value):
    """Every number of plain data but booleans."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers_of(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("make", [full_report, bare_report])
def test_page_loads_nothing_runs_nothing_and_closes_what_it_opens(make):
    page = render_negatives(make())
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    assert not re.search(r"https?:|@import|url\(|expression\(|//[a-z]", page)
    ids = {value for _, attribute, value in read.attributes if attribute == "id"}
    assert {(value or "")[1:] for _, attribute, value in read.attributes if attribute == "href" and (value or "").startswith("#")} <= ids
    assert not MISSING.search(texts(page))
    assert read.tags.count("svg") == 2
    assert read.tags.count("h1") == 1


def test_every_number_of_the_report_is_on_the_page():
    report = full_report()
    words = texts(render_negatives(report))
    own = report.temperatures[1]
    left_out = {own.change, *own.change_ci}  # a temperature against itself
    asked = set(numbers_of(report.model_dump(exclude={"seconds"}))) - left_out
    assert len(asked) > 120
    for value in asked:
        forms = {nats(value), nats(value, signed=True), number(value), share(value), f"{value:,}"}
        assert any(re.search(rf"(?<![\d.,]){re.escape(form)}(?![\d.])", words) for form in forms), value
    assert duration(report.seconds) in words


def test_every_text_is_escaped():
    hostile = full_report(HOSTILE, similarity=HOSTILE, advice=HOSTILE, pool=full_report().pool.model_copy(update={"kind": HOSTILE}))
    read = Reader(render_negatives(hostile))
    assert "script" not in read.tags
    # Title, source, similarity, headline, pool twice, note.
    assert read.words.count("<script>alert(1)</script>") == 7
    assert "49" not in re.findall(r"\b49\b", read.words)


def test_texts_that_turn_the_direction_of_what_follows_are_settled():
    turning = "a" + chr(0x202E) + "b"
    assert chr(0x202E) not in render_negatives(full_report(turning, advice=turning, similarity=turning))


def test_the_first_clause_is_the_headline_and_the_rest_stands_below():
    page = render_negatives(full_report())
    assert "<h1>Going from 8 to 32 negatives: more negatives still change what is learned.</h1>" in page
    why = once(r'<p class="why">(.*?)</p>', page)[1]
    assert why.startswith("It changes the risk by −0.1286 ± 0.0010 nats of the −0.176 that all further ones would. Temperature 0.2 → 0.1")


def test_no_clause_is_cut_within_brackets_and_nothing_is_lost():
    text = "A is so; half leave less than 3.5e-05 (1 - p among 9; a tenth more): too easy; it needs k >> 8e+03."
    assert advice_words(text) == ("A is so.", "Half leave less than 3.5e−05 (1 − p among 9; a tenth more): too easy. It needs k ≫ 8e+03.")
    beyond = "Beyond the pool, extrapolated: going from 100 to 400 negatives changes the risk by -0.0002 ± 0.0001 nats: not worth it."
    assert advice_words(beyond) == (
        "Beyond the pool, extrapolated: going from 100 to 400 negatives: not worth it.",
        "It changes the risk by −0.0002 ± 0.0001 nats.",
    )


@given(st.text())
@settings(max_examples=40, deadline=None)
def test_any_advice_has_a_page(text):
    assert Reader(render_negatives(bare_report(advice=text, source=text, notes=(text,)))).tags.count("h1") == 1


def test_what_cannot_be_told_says_so_and_draws_no_limit():
    page = render_negatives(bare_report())
    words = texts(page)
    assert "Limit H, k → ∞ cannot be told 1/k has not begun within this pool" in words
    assert "Risk of a search cannot be told of a search over 77 candidates" in words
    assert "1/k leads from about k = beyond what a float holds on, beyond this pool, so no line is fitted." in words
    assert "The limit cannot be told from this pool: no band is drawn." in words
    assert "Leading constant −∞" in words
    assert "Shift none no other pool" in words
    assert "Loss floor, k = 1 none only a cosine is bounded" in words
    assert "0.5000 no interval" in words
    assert "Loss floor less log k" not in words
    assert 's3"' not in "".join(re.findall(r"<svg.*?</svg>", page))


def test_rows_asked_about_are_marked_and_a_k_beside_the_curve_is_said():
    words = texts(render_negatives(full_report()))
    assert "8 asked about" in words
    assert "0.2 yours 5" in words
    assert "is none of the curve’s" not in words
    off = texts(render_negatives(full_report(at=1000)))
    assert "The k asked about, 1,000, is none of the curve’s." in off
    assert "asked about −" not in off


def test_recall_is_said_once():
    assert texts(render_negatives(full_report())).count("87.7%") == 1


def test_conventions_are_said():
    words = texts(render_negatives(full_report()))
    assert "Every risk is the InfoNCE loss less log k, in nats" in words
    assert "cover two draws: that of the queries, and that of the pool, which all queries share" in words
    assert "Nor is a limit H below 0 odd" in words
    assert "201 of 301 queries, with 52 of the 62 in the pool as negatives" in words


def test_bounds_say_what_they_are_worth():
    known = full_report().bounds
    assert (
        bounds_lead(known)
        == "Not vacuous: the upper bound is 7.05% of the range of the scores. It holds for any vectors whose scores are no larger."
    )
    assert bounds_lead(bare_report().bounds).startswith("Vacuous here")
    page = render_negatives(full_report())
    assert page.count('<span class="tag">least</span>') == 1
    assert re.search(r"For any vectors</th><td>0\.7654<span class=\"tag\">least", page)
    unwritten = texts(render_negatives(full_report(bounds=known.model_copy(update={"published": None}))))
    assert "As published too large to write" in unwritten


def test_vacuous_bounds_and_a_fit_of_nothing_take_no_rows():
    words = texts(render_negatives(bare_report()))
    assert "leave H − risk anything from −1,000.0000 to 1,000.0000" in words
    assert not [name for name in ("As published", "Range of the scores", "Fitted limit", "Fitted constant") if name in words]
    known = texts(render_negatives(full_report()))
    assert "As published" in known
    assert "Fitted limit" in known


def test_a_last_step_that_is_no_doubling_says_where_it_goes():
    words = texts(render_negatives(full_report()))
    assert "; to 61 " in words
    assert "; to 32 " not in words


def test_a_limit_within_a_pool_that_infonce_itself_does_not_reach_says_where_it_comes_from():
    regime = full_report().regime.model_copy(update={"start": 1e6, "decoupled_start": 43.0, "reached": False})
    words = texts(render_negatives(full_report(regime=regime)))
    assert (
        "from about k = 1,000,000 on, beyond this pool, so no line is fitted. The limit comes from DCL, whose 1/k starts sooner: at 43."
        in words
    )
    assert "comes from DCL" not in texts(render_negatives(full_report()))


def test_a_bound_of_nothing_is_no_certainty():
    none = FalseNegativeRecord(at_most=0.0, ci_high=0.0, above_own=0.0, expected_at_k=0.0)
    words = texts(render_negatives(full_report(false_negatives=none)))
    assert "≤ 0% none was seen that scores as the best tenth of the positives do" in words
    assert "interval up to" not in words
    assert "≤ 0.123% 95% interval up to 0.234%" in texts(render_negatives(full_report()))


def test_the_page_of_a_report_is_that_of_its_trip_through_json():
    report = full_report()
    assert render_negatives(NegativesReport.from_json(report.to_json())) == render_negatives(report)


def drawn(svg, kind):
    return [tuple(map(float, found)) for found in re.findall(rf'<circle class="mean {kind}" cx="([\d.]+)" cy="([\d.]+)"', svg)]


def simple_report(**changes):
    """Risks that fall by one at each k, and their limit."""
    ks, risk = (1, 10, 100, 1000), (3.0, 2.0, 1.0, 0.0)
    values = {
        "k": ks,
        "risk": risk,
        "risk_ci": tuple((value - 0.25, value + 0.25) for value in risk),
        "decoupled": tuple(-value for value in risk),
        "decoupled_ci": (NOTHING,) * 4,
        "search": None,
        "candidates": None,
        "fit": FitRecord(limit=None, constant=None, points=0),
        "cross_entropy": CrossEntropy(estimate=-1.0, ci_low=-1.5, ci_high=-0.5, method="jackknife"),
        "regime": full_report().regime.model_copy(update={"start": 10.0}),
    }
    return full_report(**{**values, **changes})


def test_risks_lie_on_a_straight_line_where_each_decade_takes_one_off():
    spots = drawn(curve_figure(simple_report()), "s1")
    assert len(spots) == 4
    across, down = ([b[axis] - a[axis] for a, b in itertools.pairwise(spots)] for axis in (0, 1))
    assert across == pytest.approx([across[0]] * 3, abs=0.11)
    assert down == pytest.approx([down[0]] * 3, abs=0.11)
    assert across[0] > 60
    assert down[0] > 15


def test_intervals_limit_and_start_lie_where_they_should():
    svg = curve_figure(simple_report())
    spots = drawn(svg, "s1")
    nat = spots[1][1] - spots[0][1]
    bars = [tuple(map(float, found)) for found in re.findall(r'<path class="line s1" opacity=".45" d="M[\d.]+ ([\d.]+)V([\d.]+)"', svg)]
    assert [low - high for low, high in bars] == pytest.approx([nat / 2] * 4, abs=0.11)
    band = once(r'<path class="mean s3" opacity=".2" d="M[\d.]+ ([\d.]+)H[\d.]+V([\d.]+)H', svg)
    assert float(band[1]) - float(band[2]) == pytest.approx(nat, abs=0.11)
    assert float(once(r'<path class="line s3" d="M[\d.]+ ([\d.]+)H', svg)[1]) == pytest.approx(spots[3][1] + nat, abs=0.11)
    assert float(once(r'<path class="zero" d="M([\d.]+) ', svg)[1]) == spots[1][0]
    assert "1/k from 10<" in svg
    assert "3.000 at 1, 0.000 at 1,000; limit -1.000" in svg


@pytest.mark.parametrize("start", [0.2, 1e4, math.inf])
def test_a_start_beyond_the_curve_is_not_marked(start):
    report = simple_report(regime=full_report().regime.model_copy(update={"start": start}))
    assert 'class="zero"' not in curve_figure(report)
    words = texts(render_negatives(report))
    assert ("From the first k on" in words) == (start < 1)
    assert "upright line, k" not in words


def test_the_fitted_line_is_the_fit_from_where_it_starts():
    report = simple_report(fit=FitRecord(limit=-1.0, constant=-20.0, points=3))
    points = fit_points(report, top=4000.0)
    assert points[0] == pytest.approx((10.0, 1.0))
    assert points[-1] == pytest.approx((4000.0, -0.995))
    assert 'class="line s4 dash"' in curve_figure(report)
    assert "the dashed line is what was fitted there" in texts(render_negatives(report))
    assert 'class="line s4 dash"' not in curve_figure(simple_report())
    assert "too few k lie there to fit a line" in texts(render_negatives(simple_report()))


def test_the_search_is_a_spot_on_an_axis_that_reaches_it():
    svg = curve_figure(simple_report(candidates=10**6, search=Span(estimate=-1.0, ci_low=None, ci_high=None)))
    ((x, _),) = drawn(svg, "s5")
    assert drawn(svg, "s1")[-1][0] < x < 340.0
    assert ">1,000</text>" in svg
    assert ">1e0</text>" not in svg
    assert drawn(curve_figure(simple_report(candidates=10**6, search=Span(estimate=None, ci_low=None, ci_high=None))), "s5") == []


def sweep_rows(*pairs):
    base = full_report().temperatures[0]
    return tuple(
        base.model_copy(update={"temperature": tau, "risk": risk, "cross_entropy": limit, "risk_ci": NOTHING, "cross_entropy_ci": NOTHING})
        for tau, risk, limit in pairs
    )


def test_a_sweep_draws_limits_where_they_are_known_and_marks_the_own_temperature():
    rows = sweep_rows((0.1, -3.0, None), (0.2, -2.0, -2.5), (0.4, -1.0, -1.0))
    svg = sweep_figure(full_report(temperatures=rows))
    risk, limit = drawn(svg, "s1"), drawn(svg, "s3")
    assert [x for x, _ in limit] == [x for x, _ in risk[1:]]
    assert risk[1][0] - risk[0][0] == pytest.approx(risk[2][0] - risk[1][0], abs=0.11)
    assert limit[1] == risk[2]
    assert limit[0][1] - risk[1][1] == pytest.approx((risk[0][1] - risk[1][1]) / 2, abs=0.11)
    assert float(once(r'<path class="zero" d="M([\d.]+) ', svg)[1]) == risk[1][0]
    assert "yours: 0.2<" in svg


def test_numbers_of_lines_that_start_together_can_both_be_read():
    svg = sweep_figure(full_report(temperatures=sweep_rows((0.1, -3.0, -3.01), (0.2, -1.0, -1.0))))
    heights = [float(y) for y in re.findall(r'<text class="end s\d" x="[\d.]+" y="([\d.]+)"', svg)]
    assert heights[1] - heights[0] == pytest.approx(11.0)


@pytest.mark.parametrize("own", [0.1, 0.11, 0.4])
def test_words_of_the_mark_stay_in_the_frame_and_clear_of_the_axis_name(own):
    svg = sweep_figure(full_report(temperature=own, temperatures=sweep_rows((0.1, -3.0, None), (own, -2.0, None), (0.4, -1.0, None))))
    x, y, anchor = once(r'<text class="name" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">yours', svg).groups()
    name_x, name_y = once(r'<text class="name" x="([\d.]+)" y="([\d.]+)" text-anchor="start">nats', svg).groups()
    width = 5.8 * len(f"yours: {own:g}")
    left = float(x) - (width if anchor == "end" else 0.0)
    assert left + width <= 340.0
    assert left >= float(name_x) + 4 * 5.8 or float(y) - float(name_y) >= 11.0


def test_nothing_is_drawn_of_nothing_and_no_coordinate_is_missing():
    empty = full_report(k=(), risk=(), risk_ci=(), decoupled=(), decoupled_ci=(), steps=(), effective_negatives=(), temperatures=())
    assert (curve_figure(empty), sweep_figure(empty)) == ("", "")
    assert "Risk by temperature: not measured" in texts(render_negatives(empty))
    for report in (
        full_report(),
        bare_report(),
        full_report(risk=(math.nan,) * 7),
        bare_report(temperatures=sweep_rows((0.02, math.inf, None))),
    ):
        for svg in (curve_figure(report), sweep_figure(report)):
            assert not re.search(r"nan|inf", re.sub(r'aria-label="[^"]*"|<title>.*?</title>', "", svg))
            assert not MISSING.search(svg)


def test_a_pool_of_one_has_whole_numbers_at_its_axis():
    svg = curve_figure(bare_report())
    assert drawn(svg, "s1")
    assert re.findall(r'text-anchor="middle">([^<]*)<', svg) == ["1", "2"]


def test_what_hardly_differs_looks_level_and_has_ticks_that_differ():
    svg = sweep_figure(full_report(temperatures=sweep_rows((0.1, -3.9, None), (0.2, -3.9, None), (0.4, -3.9 + 1e-7, None))))
    assert len({y for _, y in drawn(svg, "s1")}) == 1
    ticks = re.findall(r'text-anchor="end">(−[^<]*)<', svg)
    assert len(ticks) == len(set(ticks)) > 2
