from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_material import MARK, bare_result, evaluation, interval, train_result

from normwise.core.errors import MissingExtraError
from normwise.core.records import Decision, Evaluation, GateReport, Interval, ReportFigures, RunResult, StageResult, TrainResult
from normwise.report.page import render_evaluation, render_page

VOID = {"meta", "link", "wbr", "br", "input"}
MISSING = re.compile(r"(?<![\w.])(nan|NaN|inf|−inf|None)(?![\w.])")
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }} ünï 漢字"


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def pages() -> dict[str, str]:
    return {"train": render_page(train_result()), "bare": render_page(bare_result()), "evaluation": render_evaluation(evaluation())}


@pytest.mark.parametrize("name", ["train", "bare", "evaluation"])
def test_page_loads_and_runs_nothing(name):
    page = pages()[name]
    read = Reader(page)
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    for tag, attribute, value in read.attributes:
        assert not attribute.startswith("on")
        if attribute in ("src", "href", "action", "srcset", "data", "poster", "xlink:href"):
            assert value is not None
            assert value.startswith("#") or value == "data:,", (tag, attribute, value)
    assert not re.search(r"https?:|@import|url\(|expression\(|//[a-z]", page)


@pytest.mark.parametrize("name", ["train", "bare", "evaluation"])
def test_links_lead_to_sections_and_labels_are_there(name):
    read = Reader(pages()[name])
    ids = {value for _, attribute, value in read.attributes if attribute == "id"}
    for _, attribute, value in read.attributes:
        if attribute == "href" and value and value.startswith("#"):
            assert value[1:] in ids
    figures = [value for tag, attribute, value in read.attributes if tag == "svg" and attribute == "aria-label"]
    assert len(figures) == read.tags.count("svg")
    assert all(figures)
    assert read.tags.count("h1") == 1


def hostile_result(word: str) -> TrainResult:
    """Every free text of a result is `word`."""
    gate = GateReport(name=word, passed=False, words=word, figures={word: 1.0})
    rows = tuple({"step": float(i), word + "x": 1.0 / i} for i in range(1, 5))
    stage = StageResult(
        name=word, similarity=word, trainable=word, steps=4, temperature=1.0, seconds=1.0, curve=rows, gates=(gate,), notes=(word,)
    )
    run = RunResult(
        name=word,
        similarity=word,
        metrics={"ndcg@10": interval(0.4)},
        dev={"ndcg@10": interval(0.4)},
        seeds=(0,),
        stages=(stage,),
        geometry={word: 0.5},
    )
    return TrainResult(
        runs=(run,), decision=Decision(run=word, similarity=word, reason=word, split=word), claims={word: "reproduced"}, data=word,
        data_notes=(word,), hygiene={word: word, "list": [word]}, settings={word: word}, command=word, versions={word: word}, model=word,
        report=word, seconds=1.0,
    )  # fmt: skip


def shape(result: TrainResult) -> list[str]:
    return [tag for tag in Reader(render_page(result)).tags if tag != "wbr"]


@settings(max_examples=15)
@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda t: t.strip()))
@example(HOSTILE)
@example("</style></title></svg>-->")
@example("\x00\x0b\ufffe")
@example("{% raw %}{# #}")
def test_no_text_changes_the_structure_of_the_page(word):
    # The similarity "dot" and the key "e1" would add explanations; letters alone never match a known name here.
    if re.match(r"(?i)[ea]\d|radial|hub|iso|eff|uni|ali|norm|query_n|cand|.*(merge|angular|logit|freedom|seen|leak)", word):
        return
    assert shape(hostile_result(word)) == shape(hostile_result("zzz"))


def test_hostile_text_is_shown_as_text():
    page = render_page(hostile_result(HOSTILE))
    assert "<script" not in page
    assert "{{ 7*7 }}" in Reader(page).words
    assert HOSTILE in Reader(page).words
    assert 'class="notes"' in page
    evaluated = evaluation().model_copy(update={"model": HOSTILE, "notes": (HOSTILE,), "data": HOSTILE})
    assert "<script" not in render_evaluation(evaluated)
    assert HOSTILE in Reader(render_evaluation(evaluated)).words


def test_lone_surrogates_never_reach_the_file():
    broken = "a" + chr(0xD83D) + "b"
    result = train_result().model_copy(update={"settings": {"model": broken}, "command": broken, "data": broken})
    written = render_page(result).encode("utf-8")
    assert "a\ufffdb".encode() in written


def without(**changes: object) -> TrainResult:
    return train_result().model_copy(update=changes)


def one_run(**changes: object) -> tuple[RunResult, ...]:
    return (train_result().runs[0].model_copy(update=changes),)


NOTHING = Interval(mean=None, ci_low=None, ci_high=None)
SUBSETS = {
    "one run": without(runs=one_run()),
    "no run": without(runs=()),
    "no curves": without(runs=one_run(stages=())),
    "a run that is not there": without(decision=Decision(run="gone", similarity="dot", reason="")),
    "no run named": without(decision=Decision(similarity="cosine", reason="r")),
    "intervals undefined": without(runs=one_run(metrics={"ndcg@10": NOTHING}, dev={"ndcg@10": NOTHING})),
    "a mean without an interval": without(runs=one_run(metrics={"p@1": Interval(mean=0.5, ci_low=None, ci_high=None)})),
    "figures not finite": without(runs=one_run(metrics={"p@1": Interval(mean=float("nan"), ci_low=float("nan"), ci_high=float("inf"))})),
    "no figures": without(figures=ReportFigures()),
    "figures of one point": without(figures=ReportFigures(norms_queries=(1.0,), directions=((0.0, 0.0),), random_pair_similarities=(0.5,))),
    "no comparison, no claim": without(comparisons=(), claims={}),
    "nothing around": without(hygiene={}, settings={}, versions={}, command="", data_notes=()),
    "an unknown similarity": without(decision=Decision(run="cosine_full", similarity="euclid", reason="r")),
}


@pytest.mark.parametrize("name", SUBSETS)
def test_any_subset_of_the_data_makes_a_whole_page(name):
    page = render_page(SUBSETS[name])
    assert page.startswith("<!doctype html>")
    # Each text on its own: joined, a cell's "None" would hide in the word of the next cell.
    for said in Reader(page).text:
        assert not MISSING.search(said), said


def test_what_is_missing_is_called_not_measured_and_nothing_is_drawn():
    page = render_page(bare_result())
    said = Reader(page).words
    assert "<svg" not in page
    for what in (
        "Paired comparisons",
        "Training curves",
        "Norms, directions, random pairs",
        "Geometry of the embeddings",
        "Hygiene of the data",
    ):
        assert f"{what}: not measured." in said
    assert "Settings: not recorded." in said
    figures = [number for number in re.findall(r"\d+\.\d+", said) if number != "1.0"]
    assert figures == []  # the one second that the record holds is the only number with decimals


def test_verdict_comes_first_and_sections_keep_their_order():
    said = Reader(render_page(train_result())).words
    expected = [
        "Use “cosine_full” and rank by cosine.",
        "which includes 0.",
        "Of 3 claims, 1 reproduced, 1 not reproduced, 1 undecided at this size.",
        "0.402 to 0.434",
        "Paired comparisons",
        "Training loss.",
        "Norms and directions",
        "Random pairs.",
        "Pearson correlation of log(query norm × positive norm)",
        "LoRA merge verified",
        "possibly seen in pre-training",
        "212 of 8,000 texts",
        "Every setting, as JSON",
        "normwise train --config run.toml",
        "2.13.0",
    ]
    found = [said.find(part, 0) for part in expected]
    assert -1 not in found
    start = 0
    for part in expected:
        start = said.index(part, start)
    assert MARK in said


def test_chosen_and_highest_are_said_in_words():
    page = render_page(train_result())
    rows = re.findall(r"<tr class=\"chosen\">.*?</tr>", page, flags=re.S)
    assert len(rows) == 1
    assert "chosen" in Reader(rows[0]).words
    assert "2 cosine_full" in Reader(rows[0]).words
    assert "ranked by cosine" in Reader(rows[0]).words
    assert Reader(rows[0]).words.count("highest") == 7
    assert page.count('class="best"') == 7


def test_an_arm_under_two_rankings_has_one_number_one_curve_and_one_geometry():
    page = render_page(train_result())
    said = Reader(page).words
    assert "5 runs" in said
    assert "each ranked by cosine and by dot; 5 seeds" in said
    loss = re.search(r'aria-label="Training loss[^"]*"', page)
    assert loss is not None
    assert loss.group().count("cosine_full:") == 1
    geometry = page[page.index('id="geometry"') :]
    header = geometry[geometry.index("<thead>") : geometry.index("</thead>")]
    assert header.count("<th ") == 7  # the key, five arms, the explanation


def test_a_decision_by_another_name_of_the_same_ranking_marks_its_row():
    page = render_page(without(decision=Decision(run="dot_full", similarity="query_normalized", reason="r")))
    (row,) = re.findall(r"<tr class=\"chosen\">.*?</tr>", page, flags=re.S)
    assert "ranked by dot" in Reader(row).words


def test_differences_of_other_figures_stay_out_of_the_axis_of_metrics():
    page = render_page(train_result())
    (plot,) = re.findall(r'aria-label="Paired differences on test[^"]*"', page)
    assert "0.510" not in plot
    assert "+0.510" in Reader(page).words


def test_a_shared_first_stage_lists_its_gates_once():
    said = Reader(render_page(train_result())).words
    assert said.count("Probe vectors before and after the merge") == 1
    assert "one: pace_without_focal, pace_with_focal" in said


def test_the_encoder_without_a_free_norm_is_a_finding_and_not_a_failure():
    page = render_page(train_result())
    assert "Can the norm move?" in page
    assert "– no" in page
    assert "✕ not passed" not in page


def test_length_advice_follows_the_similarity():
    for similarity, advice in (("dot", "do not normalize"), ("query_normalized", "do not normalize"), ("cosine", "may be normalized")):
        page = render_page(without(decision=Decision(run="dot_full", similarity=similarity, reason="r")))
        assert advice in Reader(page).words
    one_sided = Reader(render_page(without(decision=Decision(run="dot_full", similarity="query_normalized", reason="r")))).words
    assert "plain sentence-transformers has no such name and scores with dot" in one_sided


def test_a_saved_result_draws_the_same_page():
    result = train_result()
    assert render_page(TrainResult.from_json(result.to_json())) == render_page(result)
    assert render_evaluation(Evaluation.from_json(evaluation().to_json())) == render_evaluation(evaluation())


def test_evaluation_without_a_decision_decides_nothing():
    said = Reader(
        render_evaluation(evaluation().model_copy(update={"decision": None, "geometry": {}, "similarities": {}, "notes": ()}))
    ).words
    assert "Measured, nothing decided." in said
    assert "Similarities: not measured." in said
    assert "chosen" not in said


def test_a_missing_extra_names_its_command(monkeypatch):
    monkeypatch.setattr("normwise.report.page.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "normwise\[report\]"'):
        render_page(bare_result())
