"""The page of a staircase: what it says, that it says all, and that no text or number of a report breaks it."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staircase_material import bare_demo, bare_track, demo_report, ring, stair, track_report
from test_page import HOSTILE, MISSING, Reader

from normwise.core.staircase_records import (
    OrderGain,
    PredictedStair,
    SeedStairsRecord,
    SeriesIntegrity,
    StaircaseReport,
    StaircaseVerdict,
    StairRecord,
    TokenNeighbors,
    TrackReport,
)
from normwise.report.page import render_staircase
from normwise.report.staircase_facts import integrity_words, stair_words, verdict_words
from normwise.report.token_words import token_words

SCRIPT = "<script>alert(1)</script>"
BROKEN = re.compile(r"(?<![a-z])(nan|inf|infinity)(?![a-z])", re.IGNORECASE)


def texts(page):
    """The text of a page, its elements kept apart, without figures."""
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>|<svg.*?</svg>|<wbr>", "", page, flags=re.DOTALL)).split())


@pytest.mark.parametrize("make", [demo_report, track_report, bare_demo, bare_track])
def test_page_loads_nothing_runs_nothing_and_closes_what_it_opens(make):
    page = render_staircase(make())
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    assert not re.search(r"https?:|@import|url\(|expression\(|//[a-z]", page)
    ids = [value for _, attribute, value in read.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    assert {(value or "")[1:] for _, attribute, value in read.attributes if attribute == "href" and (value or "").startswith("#")} <= set(
        ids
    )
    assert not MISSING.search(texts(page))
    assert read.tags.count("h1") == 1
    assert all(value for tag, attribute, value in read.attributes if tag == "svg" and attribute == "aria-label")


@pytest.mark.parametrize(("make", "kind"), [(demo_report, StaircaseReport), (track_report, TrackReport)])
def test_the_page_of_a_report_is_that_of_its_trip_through_json(make, kind):
    report = make()
    assert render_staircase(kind.from_json(report.to_json())) == render_staircase(report)


@pytest.mark.parametrize("make", [demo_report, track_report])
def test_every_text_is_escaped(make):
    page = render_staircase(make(HOSTILE, maps=(ring(3, names=(HOSTILE, "b", "c")),)))
    read = Reader(page)
    assert "script" not in read.tags
    assert SCRIPT not in page
    # Title, kicker twice, verdict, notes, reason of the prediction, settings, a note of a stair; tokens are cut short.
    assert read.words.count(SCRIPT) >= 8
    assert not re.findall(r"\b49\b", read.words)
    names = [value for _, name, value in read.attributes if name.startswith("on") or name == "srcdoc"]
    assert names == []


def test_keys_that_are_no_numbers_are_escaped_in_the_plot_too():
    odd = '"><script>alert(1)</script>'
    page = render_staircase(demo_report(alignment={odd: (0.1,) * 6}, null={odd: (0.0,) * 6}, stairs=()))
    assert "script" not in Reader(page).tags
    assert "order &quot;&gt;&lt;script" in page


@pytest.mark.parametrize("make", [demo_report, track_report])
def test_texts_that_turn_the_direction_of_what_follows_are_settled(make):
    turning = "a" + chr(0x202E) + "b"
    assert chr(0x202E) not in render_staircase(make(turning, maps=(ring(3, names=(turning,) * 3),)))


@given(st.text(max_size=60))
def test_any_text_has_a_page(text):
    read = Reader(render_staircase(track_report(text)))
    assert read.tags.count("h1") == 1
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", read.words)


@pytest.mark.parametrize("token", ["", " ", "<b>", "\"'", "\x00\x1b", "مرحبا بالعالم", "x" * 10_000, "\ud800", "\u0301", "漢字", "\n"])
def test_odd_tokens_are_shown_wherever_tokens_are(token):
    def made(word):
        return render_staircase(demo_report(word, maps=(ring(20, names=(word, *"abcdefghijklmnopqrs")),)))

    read = Reader(made(token))
    if token:  # notes that are empty have no column
        assert shape(read) == shape(Reader(made("a")))
    assert read.words.count(" ".join(token_words(token).split())) >= 3
    assert len(made(token)) < 300_000


def shape(read):
    """The elements of a page but those that a text decides by being there or fitting somewhere."""
    return [tag for tag in read.tags if tag not in ("wbr", "text", "span", "p")]


def test_token_words_tell_tokens_apart_that_look_alike():
    alike = ["", " ", "  ", "\t", "\n", "\u200b", "\u00a0", "a", " a", "a ", "a\u200b", "\u0301", "\x00"]
    assert len({token_words(token) for token in alike}) == len(alike)
    assert token_words("a b") == "a b"
    assert token_words("") == "(empty)"
    assert token_words("\u0301") == "◌\u0301"  # which would else sit on the letter before it
    assert len(token_words("x" * 99)) == 24
    assert len(token_words("\x00" * 99)) == 24


def broken(values):
    return tuple((math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324)[i % 6] for i in range(len(values)))


@pytest.mark.parametrize("make", [demo_report, track_report])
def test_numbers_that_are_none_do_not_reach_the_page(make):
    full = make()
    changes: dict[str, Any] = {name: broken(getattr(full, name)) for name in ("loss", "accuracy")}
    for name in ("alignment", "null", "spread"):
        changes[name] = {key: broken(values) for key, values in getattr(full, name).items()}
    changes["stairs"] = (stair(0, peak=math.nan, decay=math.inf),)
    changes["maps"] = (ring(3).model_copy(update={"points": ((math.nan, 0.0), (math.inf, 1e308), (0.0, 0.0)), "shares": (math.nan, 0.0)}),)
    changes["predicted"] = PredictedStair(exists=True, reason="", growth_rate=math.nan, steps=math.inf, steps_at_slope_1=math.nan)
    changes["thresholds"] = full.thresholds.model_copy(update={"rise": math.nan})
    changes["seconds"] = math.nan
    page = render_staircase(make(**changes))
    assert not BROKEN.search(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))
    assert not MISSING.search(texts(page))


@pytest.mark.parametrize("make", [demo_report, track_report])
def test_a_report_of_two_checkpoints_and_one_order_has_a_page(make):
    full = make()
    short = {name: getattr(full, name)[:2] for name in ("steps", "loss", "accuracy")}
    short |= {name: {"0": (0.1, 0.2)} for name in ("alignment", "null", "spread")}
    page = render_staircase(make(**short, stairs=(stair(0, onset=None),), integrity=SeriesIntegrity()))
    assert re.search(r'<path class="line s1" d="M[\d.]+ [\d.]+L[\d.]+ [\d.]+">', page)
    assert "2 checkpoints" in texts(page)


@pytest.mark.parametrize("make", [demo_report, track_report])
def test_series_of_nothing_say_so(make):
    full = make()
    none = (None,) * len(full.steps)
    changes = {name: dict.fromkeys(getattr(full, name), none) for name in ("alignment", "null", "spread")}
    page = render_staircase(make(loss=none, accuracy=none, **changes))
    assert "Alignment, loss and accuracy: not measured." in texts(page)
    assert ("All figures of the plot" in texts(page)) == (make is track_report)  # which has ranks and lengths


def test_forty_orders_have_a_line_and_a_row_each():
    keys = [str(k) for k in range(40)]
    values = {key: tuple(0.01 * int(key) + 0.001 * i for i in range(6)) for key in keys}
    report = demo_report(
        alignment=values, null={key: (0.0,) * 6 for key in keys}, stairs=tuple(stair(k) for k in range(40)), spread={}, stairs_by_seed=()
    )
    page = render_staircase(report)
    assert len(re.findall(r'<path class="line s\d"[^>]*><title>order \d+</title>', page)) == 40
    words = texts(page)
    assert all(f"order {key} rises at step 10" in words for key in keys)
    assert "32 more orders are not listed." in words


def test_many_seeds_are_folded_and_none_is_lost():
    rows = tuple(SeedStairsRecord(seed=1000 + s, order_0=10, order_1=None, task=None, in_order=False) for s in range(25))
    page = render_staircase(demo_report(stairs_by_seed=rows))
    assert "<summary>25 seeds</summary>" in page
    assert all(f">{1000 + s}</th>" in page for s in range(25))
    assert "seeds</summary>" not in render_staircase(demo_report())


def test_two_hundred_tokens_have_a_point_each():
    page = render_staircase(demo_report(maps=(ring(200),)))
    assert page.count('<circle class="mean s1" cx=') >= 200
    named = re.search(r"200 tokens, (\d+) with their names", texts(page))
    assert named
    assert 10 < int(named[1]) < 200
    assert "20 tokens, each with its name." in texts(render_staircase(demo_report()))


def test_the_figures_of_the_report_are_on_the_page():
    words = texts(render_staircase(demo_report()))
    for row in ("0 10 0.800 step 20 0.300 3 of 3 10 to 20", "1 20 0.750 step 40 0.050 3 of 3 20 to 30 addition", "8 10 30 40 yes"):
        assert row in words
    assert "20 1 0.753 +0.045 −0.020 +0.065" in words
    assert "addition 0.231 0.887 0.125 0.156" in words
    assert "Grown by step 12 to 25" in words
    assert "Growth rate σ₁ 0.0433" in words
    assert "Found 10 the onset of order 0" in words
    assert "128^(−2 · 0.8)" in words
    assert "a rise is more than 0.5 above the null at 2 checkpoints in a row; the task is learned at an accuracy of 0.95" in words
    assert "a verdict needs 80% of the seeds" in words
    assert "6 checkpoints, steps 0 to 50: no copies, no gap, no jump." in words
    assert "10 3.000 0.100 0.700 0.100 0.100 0.000" in words
    assert "Made in 43 s." in words


def test_what_a_training_tells_is_on_its_page():
    words = texts(render_staircase(track_report()))
    assert "128 1 0.432 +0.123 −0.004 +0.127" in words
    assert "128 2 undefined undefined undefined undefined" in words
    assert "+0.457 at step 1, −0.577 at step 128." in words
    inner = texts(render_staircase(track_report(norm_frequency=(0.3, -0.8, 0.5, *[0.2] * 6))))
    assert "+0.200 at step 128, strongest with −0.800 at step 1." in inner
    assert "more than 0.1 above the null, and more than 3 standard deviations of the null, at 3 checkpoints in a row" in words
    assert "lower by 0.07 or more" in words
    assert "1 copy (equal byte by byte: 1 and 2), 1 gap (checkpoints are missing between 8 and 16), 1 jump" in words
    assert words.count("1 copy (") == 2  # beside the plot, too, since a copy spoils it
    assert "256 random probes" in words
    assert "10,000,000 tokens vocabulary of 50,304" in words
    assert "Not told by the training: accuracy." in words
    assert "Each seed" not in words
    assert "by ranks" in words
    assert "all of the document" in texts(render_staircase(bare_track()))


def test_neighbors_in_both_lists_are_marked_and_counted():
    row = TokenNeighbors(token=" Monday", by_signature=(" Tuesday", " night"), by_embedding=(" Friday", " Tuesday"))
    page = render_staircase(demo_report(neighbors=(row,)))
    assert "␣Monday ✓ ␣Tuesday ␣night ␣Friday ✓ ␣Tuesday 1 of 2" in texts(page)
    assert page.count("border-style:dashed") == 2


def test_what_is_missing_is_said_to_be():
    words = texts(render_staircase(bare_demo()))
    for said in ("No verdict.", "Alignment, loss and accuracy: not measured.", "Stairs: not measured.", "Maps of tokens: not made."):
        assert said in words
    assert "What higher orders add: not measured." in words
    assert "nothing to add to" in texts(render_staircase(bare_demo(rule="one minus mse")))


def test_the_verdict_is_cut_where_its_first_clause_ends():
    text = "No task: it is so. More: -> 5 R^2."
    assert verdict_words(text) == ("No task.", "It is so. More: → 5 R².")
    assert verdict_words("It is so. More: yes.") == ("It is so.", "More: yes.")
    page = render_staircase(demo_report(verdict=StaircaseVerdict(label="x", text=text)))
    assert "<h1>No task.</h1>" in page


def test_stairs_in_words():
    assert stair_words(stair()) == "rises at step 10, highest at step 20 with 0.800 above its null, 0.300 lower at the end"
    assert stair_words(stair(decay=0.0)).endswith("and stays")
    assert stair_words(stair(onset=None, decay=None)) == "does not rise, at most 0.800 above its null"
    assert stair_words(None) == "no stair was asked for"


def test_integrity_in_words_names_at_most_ten_of_a_kind():
    many = demo_report(integrity=SeriesIntegrity(duplicates=tuple((k, k + 1) for k in range(12))))
    assert "12 copies (equal byte by byte: 0 and 1, " in integrity_words(many)
    assert integrity_words(many).endswith("9 and 10, and 2 more), no gap, no jump.")


def test_what_the_plot_does_not_hold_is_not_explained():
    full = texts(render_staircase(demo_report()))
    bare = texts(render_staircase(bare_demo(steps=(0, 1), alignment={"0": (0.1, 0.2)}, null={"0": (0.0, 0.0)})))
    for words in ("marks where an order rises", "Thick bars", "one standard deviation over seeds", "The bracket is"):
        assert words in full
        assert words not in bare
    later = PredictedStair(exists=True, reason="", steps=900.0, steps_at_slope_1=450.0)
    assert "grown by step 450, which is not in the plot" in texts(render_staircase(demo_report(predicted=later)))


def test_a_long_series_is_listed_in_part_with_both_ends():
    count = 500
    series = tuple(i / count for i in range(count))
    report = demo_report(
        steps=tuple(range(count)), loss=series, accuracy=series, alignment={"0": series}, null={"0": (0.0,) * count}, spread={}, stairs=()
    )
    page = render_staircase(report)
    words = texts(page)
    assert "60 of 500 checkpoints" in words
    assert all(f">{at}</th>" in page for at in (0, 499))


def test_the_legend_of_many_orders_is_folded_and_no_seeds_are_no_facts():
    keys = [str(k) for k in range(9)]
    page = render_staircase(demo_report(alignment=dict.fromkeys(keys, (0.1,) * 6), null=dict.fromkeys(keys, (0.0,) * 6)))
    assert "<summary>Orders from 8 on</summary>" in page
    assert "Orders from" not in render_staircase(demo_report())
    assert "Task learned 40 3 of 3 seeds" in texts(page)
    assert "Task learned" not in texts(render_staircase(demo_report(stairs_by_seed=())))


def test_text_has_no_task_to_learn_and_frequency_is_no_order():
    settings = demo_report().thresholds.model_copy(update={"learned": None})
    words = texts(render_staircase(demo_report(thresholds=settings)))
    assert "ask learned" not in words
    assert "the task" not in words
    assert "2 checkpoints in a row; a verdict needs 80% of the seeds" in words
    assert "8 10 30 yes" in words
    gain = OrderGain(step=128, order=-1, r2=0.1, gain=0.1, null=0.0)
    assert "128 frequency 0.100 +0.100" in texts(render_staircase(track_report(gains=(gain,))))


def test_a_rise_that_was_not_seen_is_not_called_one() -> None:
    note = "the figure is above the threshold from the first checkpoint on: the rise itself was not seen"
    seen = StairRecord(order=0, onset=20, peak_step=40, peak=0.5, decay=0.0, seeds=1, earliest=20, latest=20)
    unseen = seen.model_copy(update={"note": note})
    assert stair_words(seen).startswith("rises at step 20, highest at step 40")
    assert stair_words(unseen).startswith("is above its null from the first checkpoint on, highest at step 40")
