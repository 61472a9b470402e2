"""The page of MMEB's protocol: every figure of the record, of one model or of two, and nothing that breaks it."""

from __future__ import annotations

import json
import re

import pytest
from report_material import interval
from test_page import HOSTILE, MISSING, Reader

from normwise.core.mmeb_records import MmebBoth, MmebComparison, MmebDifference, MmebEvaluation, MmebMean, MmebTask
from normwise.core.records import Interval, NearestHits, NearHit, NearHits
from normwise.report.page import render_mmeb

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
NONE = Interval(mean=None, ci_low=None, ci_high=None)


def difference(mean=0.0713, verdict="better", level=0.9917):
    return MmebDifference(difference=interval(mean), level=level, verdict=verdict)


def task(name, meta="vqa", *, start=0.4123, in_domain=True, **changes):
    return MmebTask(
        **{
            "name": name, "meta": meta, "in_domain": in_domain, "queries": 1_731, "candidates": 912, "chance": 0.0137,
            "p_at_1": {"cosine": interval(start), "dot": interval(start + 0.0713)}, "mrr": {"cosine": 0.5519, "dot": 0.5873},
            "dot_minus_cosine": difference(), "fingerprint": "f", "first": {"cosine": (1.0,), "dot": (1.0,)}, "clusters": (0, 1, 1),
            "notes": ("3 query vectors are zero",), **changes,
        }
    )  # fmt: skip


def evaluation(**changes):
    tasks = (task("OK-VQA"), task("GQA", start=0.3011, in_domain=False), task("mine", "retrieval", in_domain=None))
    tables = {"cosine": interval(0.3752), "dot": interval(0.4465)}
    means = {
        "vqa": MmebMean(tasks=("OK-VQA", "GQA"), p_at_1=tables, dot_minus_cosine=difference(-0.0219, "worse")),
        "overall": MmebMean(
            tasks=("OK-VQA", "GQA", "mine"), p_at_1=tables, dot_minus_cosine=difference(0.0017, "undecided at this size", 0.95)
        ),
    }
    return MmebEvaluation(**{"model": "runs/pace", "data": "MMEB-eval", "tasks": tasks, "means": means, "notes": ("a note",), **changes})


def both(**changes):
    return MmebBoth(
        **{
            "base": interval(0.2931),
            "trained": interval(0.4117),
            "meta": "vqa",
            "queries": 431,
            "candidates": 77,
            "chance": 0.0271,
            **changes,
        }
    )


def comparison(**changes):
    return MmebComparison(
        **{
            "base": "zero-shot", "trained": "runs/pace", "base_ranking": "cosine", "trained_ranking": "dot",
            "overall": difference(level=0.95),
            "means": {"vqa": difference(-0.0411, "worse")}, "tasks": {"OK-VQA": difference(0.1186), "GQA": difference(-0.0419, "worse")},
            "words": "runs/pace (dot) against zero-shot (cosine): better", "data": "MMEB-eval", "notes": ("a note",),
            "p_at_1": {"OK-VQA": both(), "GQA": both(base=interval(0.5519))},
            "mean_p_at_1": {"vqa": both(meta="", tasks=2), "overall": both(meta="", tasks=2, queries=862)}, **changes,
        }
    )  # fmt: skip


def nearest(words="[shop/red.png]"):
    hits = tuple(
        NearHit(id="c", words=words, picture=picture, score=0.5, probability=None, abstain=False, right=right)
        for picture, right in ((PNG, False), (None, True))
    )
    asked = NearHits(query=words, picture=PNG, answerable=True, hits=hits, first_right=2, task="OK-VQA")
    return NearestHits(ranking="dot", seed=4, queries=5_193, depth=912, shown=(asked,), left_out=1)


PAGES = {
    "evaluation": evaluation(),
    "comparison": comparison(),
    "nothing": evaluation(tasks=(), means={}, notes=()),
    "no interval": evaluation(tasks=(task("OK-VQA", dot_minus_cosine=MmebDifference(
        difference=Interval(mean=0.5, ci_low=None, ci_high=None), level=0.95, verdict="undecided at this size"
    )), task("GQA", p_at_1={"cosine": NONE, "dot": NONE}, dot_minus_cosine=MmebDifference(
        difference=NONE, level=0.95, verdict="undecided at this size"
    ), clusters=()))),
    "from before": comparison(data="", p_at_1={}, mean_p_at_1={}, notes=()),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_whole_and_loads_nothing(name):
    page = render_mmeb(PAGES[name])
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    assert not re.search(r"https?:|@import|url\(", page)
    assert all(not MISSING.search(text) for text in read.text)
    assert read.tags.count("h1") == 1
    ids = [value for _, attribute, value in read.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, attribute, value in read.attributes if attribute == "href" and value.startswith("#")} <= set(ids)
    assert page.count("<table") == len(re.findall(r'<div class="scroll[^>]*tabindex="0"[^>]*>\s*<table', page))
    if name in ("nothing", "no interval", "from before"):
        assert "not measured" in read.words


def numbers(record):
    """Every interval's three figures, three decimals each, and the counts."""
    found = []
    stack = [record.model_dump(exclude={"first", "clusters", "notes", "fingerprint"})]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if set(value) == {"mean", "ci_low", "ci_high"}:
                found += [f"{abs(each):.3f}" for each in value.values()]
            else:
                found += [f"{value[key]:,}" for key in ("queries", "candidates") if key in value]
                found += [f"{value['chance']:.3f}"] if "chance" in value else []
                stack += [each for key, each in value.items() if key not in ("first", "clusters")]
        elif isinstance(value, list | tuple):
            stack += value
    return found


@pytest.mark.parametrize("name", ["evaluation", "comparison"])
def test_every_figure_of_the_record_is_on_the_page(name):
    said = Reader(render_mmeb(PAGES[name])).words
    wanted = numbers(PAGES[name])
    assert len(wanted) > 25
    assert [value for value in wanted if value not in said] == []


def test_an_evaluation_says_its_tasks_means_and_notes():
    said = " ".join(" ".join(Reader(render_mmeb(evaluation()).replace("<wbr>", "")).text).split())
    for part in (
        "Mean P@1 0.375 by cosine and 0.447 by dot product, over 3 tasks.",
        "Dot product against cosine, over all tasks: undecided at this size, +0.002",
        "5,193 queries in all",
        "OK-VQA vqa, in-domain",
        "GQA vqa, out-of-domain",
        "mine retrieval",
        "vqa 2 tasks 3,462 1,824 0.014",
        "99.17% interval",
        "OK-VQA: 3 query vectors are zero",
        "a note",
        "0.552",
        "0.587",
    ):
        assert part in said, part
    # Two clusters of three queries.
    assert re.search(r"OK-VQA 0\.552 0\.587 2 ", said)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("better", "“runs/pace” is better than “zero-shot” over these 2 tasks."),
        ("worse", "“runs/pace” is worse than “zero-shot” over these 2 tasks."),
        ("undecided at this size", "Whether “runs/pace” is better than “zero-shot” is undecided over these 2 tasks."),
    ],
)
def test_a_comparison_says_its_verdict(verdict, words):
    page = render_mmeb(comparison(overall=difference(verdict=verdict), means={}, tasks={"OK-VQA": difference(verdict=verdict)}))
    said = Reader(page).words
    assert words.replace("2 tasks", "1 task") in said
    tone = {"better": "passed", "worse": "failed"}.get(verdict, "undecided")
    assert re.findall(r'class="(\w+) outcome-word">([^<]*)<', page) == [(tone, verdict)] * 2
    assert "Base (cosine)" in said
    assert "Trained (dot)" in said
    same = comparison(base="m", trained="m", overall=difference(verdict=verdict))
    assert "the other model" in Reader(render_mmeb(same)).words


@pytest.mark.parametrize(
    ("record", "whose"), [(evaluation(nearest=nearest()), "by the model"), (comparison(nearest=nearest()), "by the trained model")]
)
def test_some_queries_stand_with_the_best_of_their_own_candidates(record, whose):
    read = Reader(render_mmeb(record).replace("<wbr>", ""))
    for part in (
        "1 of 5,193 queries, drawn by seed 4 and not by what they found",
        f"its nearest hits {whose} among its own candidates. The score is the dot product.",
        "The first right hit comes at place 2; task OK-VQA",
        "score 0.500; ✓ right",
        "2 pictures stand in this page itself, 0.1 kB in all. 1 picture is told by name only",
    ):
        assert part in read.words, part
    # There is no calibration of a benchmark's candidate sets to point to.
    assert "normwise calibrate" not in read.words
    assert [value for tag, attribute, value in read.attributes if tag == "img" and attribute == "src"] == [PNG] * 2
    hostile = render_mmeb(record.model_copy(update={"nearest": nearest(HOSTILE)}))
    assert "<script" not in hostile
    assert type(record).from_json(record.to_json()) == record


def test_hostile_names_stay_text():
    turned = HOSTILE + chr(0x202E)
    for record in (
        evaluation(model=turned, data=turned, tasks=(task(turned, meta=turned, notes=(turned,)),), notes=(turned,)),
        comparison(
            base=turned, trained=turned, data=turned, words=turned, tasks={turned: difference()}, p_at_1={turned: both(meta=turned)},
            notes=(turned,), base_ranking=turned, trained_ranking=turned,
        ),
    ):  # fmt: skip
        page = render_mmeb(record)
        assert "<script" not in page
        assert "\u202e" not in page
        assert HOSTILE in Reader(page).words


def test_records_from_before_still_load():
    old = json.loads(comparison().to_json())
    for name in ("data", "p_at_1", "mean_p_at_1", "notes", "nearest"):
        old.pop(name)
    assert MmebComparison.from_json(json.dumps(old)) == PAGES["from before"]
    lines = PAGES["from before"].lines()
    assert lines[0] == "runs/pace (dot) against zero-shot (cosine): better"
    assert "0.113 [" not in lines[2]
    assert MmebComparison.from_json(comparison().to_json()) == comparison()
    assert MmebEvaluation.from_json(evaluation().to_json()) == evaluation()
