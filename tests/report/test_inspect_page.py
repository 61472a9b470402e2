from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import pytest
import typer
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from inspect_material import (
    REPORTS,
    barely_useful,
    between,
    distribution,
    factor,
    geometry,
    norm_report,
    pictures,
    prior_reranking,
    usefulness_report,
    verdict,
)
from scipy.stats import rankdata
from test_page import HOSTILE, MISSING, Reader

from normwise.cli import app
from normwise.core.errors import MissingExtraError
from normwise.core.inspect_records import InspectReport, NormPictures
from normwise.core.usefulness_records import UsefulnessReport
from normwise.report import inspect_words, norm_plots, power_plot
from normwise.report.page import render_inspection
from normwise.report.svg import Scale

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "norms.md"


@pytest.mark.parametrize("name", REPORTS)
def test_page_is_whole_and_loads_and_runs_nothing(name):
    page = render_inspection(REPORTS[name])
    read = Reader(page)
    assert page.startswith("<!doctype html>")
    assert not {"script", "iframe", "object", "embed", "img", "base", "form"} & set(read.tags)
    ids = {value for _, attribute, value in read.attributes if attribute == "id"}
    for tag, attribute, value in read.attributes:
        assert not attribute.startswith("on")
        if attribute in ("src", "href", "action", "srcset", "data", "poster", "xlink:href"):
            assert value == "data:," or (value or "")[1:] in ids, (tag, attribute, value)
    assert not re.search(r"https?:|@import|url\(|expression\(|//[a-z]", page)
    labels = [value for tag, attribute, value in read.attributes if tag == "svg" and attribute == "aria-label"]
    assert len(labels) == read.tags.count("svg")
    assert all(labels)
    assert read.tags.count("h1") == 1


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_missing_is_said_in_words_and_never_as_none_or_nan(name):
    page = render_inspection(REPORTS[name])
    # Each text on its own: joined, a cell's "None" would hide in the word of the next cell.
    for said in Reader(page).text:
        # The table that counts rows with NaN names them.
        plain = re.sub(r"Rows with NaN or infinity|\d+ with NaN", "", said)
        assert not MISSING.search(plain), said
    for value in re.findall(r'(?:aria-label|d|x|y|cx|x1|x2)="([^"]*)"', page):
        assert not MISSING.search(value), value


@pytest.mark.parametrize("name", REPORTS)
def test_every_table_scrolls_in_a_box_of_its_own(name):
    page = render_inspection(REPORTS[name])
    assert page.count("<table") == len(re.findall(r'<div class="scroll[^>]*tabindex="0"[^>]*>\s*<table', page))


def said_on(page: str, value: float) -> bool:
    """Whether a number stands there as a whole, in one of the ways in which the page writes numbers."""
    if isinstance(value, int):
        ways = {f"{value:,}"}
    elif value.is_integer() and value >= 100:
        ways = {f"{value:,.0f}"}
    else:
        ways = {f"{value:.3f}", f"{value:+.3f}", f"{value:.4g}", f"± {value:.2g}", f"{100 * value:.1f}%", f"strength {value:.2f}"}
    return any(re.search(rf"(?<![\d.,−+]){re.escape(way.replace('-', '−'))}(?![\d.,]*\d)", page) for way in ways)


def test_every_number_of_the_record_is_on_the_page():
    report = norm_report(norm_after_normalize=distribution(2.217))
    said = " ".join(Reader(render_inspection(report)).text)
    numbers: list[float] = [report.n, report.d, report.sample_rows or 0, report.seed, report.factor_rows, report.verdict.effect or 0.0]
    numbers += [value for value in (report.skew_log, report.tail_low, report.tail_high, report.radial_freedom) if value]
    for norm in (report.norm, distribution(2.217)):
        numbers += [
            *norm.quantiles.values(),
            norm.mean or 0.0,
            norm.cv or 0.0,
            norm.std or 0.0,
            norm.std_log or 0.0,
            norm.tail_ratio or 0.0,
        ]
    numbers += [report.norm.zero, report.norm.nonfinite, report.norm.duplicates or 0, report.nan_rows, report.infinite_rows]
    numbers += [value for key, value in geometry().items() if value is not None]
    for one in report.factors:
        values = one.model_dump(exclude={"name", "kind", "categorical", "controls", "collinear_with", "note", "rows"})
        numbers += [value for value in values.values() if isinstance(value, float)]
        for interval in (one.shared, one.exponent):
            numbers += [] if interval is None else [interval.mean or 0.0, interval.ci_low or 0.0, interval.ci_high or 0.0]
    assert len(numbers) > 90
    missing = [value for value in numbers if not said_on(said, value)]
    assert missing == []
    for text in (
        "a note on tokens",
        "repeats it",
        "a note of the report",
        "first evidence",
        "second evidence",
        "The verdict in full.",
        "float32",
        "12 s",
        "2.4.1",
        "normwise inspect data/vectors.npy --factors factors.csv --seed 7",
    ):
        assert text in said


def test_a_full_report_has_all_its_figures_and_names():
    page = render_inspection(norm_report(raw_norms=("from its model: do this",), source="vectors.npy"))
    figures = re.findall(r'<svg class="plot"[^>]*aria-label="([^"]*)"', page)
    starts = ("Histogram of 240 norms", "Partial Spearman", "Correlation ratio", *["Norm, on a log axis, against"] * 2, "Norms by source")
    expected = (*starts, "Norm, on a log axis, against copy", "Scatter of 240 directions")
    assert [bool(label.startswith(start)) for label, start in zip(figures, expected, strict=True)] == [True] * 8
    nodes = [node.strip() for node in Reader(page).text]
    for text in (
        "vectors.npy", "Verdict", "Usable for", "Regime", "Mean norm", "shortest", "median", "99.9%", "longest", "240", "0.753",
        "e3_affine",
        "from its model", "do this", "Only judgements say whether longer vectors belong higher.",
        "Skewness of how often a vector is among the 10 nearest of the others. High: a few are near everything.",
    ):  # fmt: skip
        assert text in nodes, text
    assert "The same 240 rows in every figure" in Reader(page).words
    for key in ("mean_cosine", "effective_rank", "hubness", "norm_hubs_dot", "hub_share_cosine"):
        assert f"<code>{key}</code>" in page.replace("<wbr>", "")


def test_the_verdict_comes_first_and_sections_keep_their_order():
    said = Reader(render_inspection(norm_report())).words
    start = 0
    for part in (
        "The norm follows “frequency”.",
        "The verdict in full.",
        "neither ranking nor confidence",
        "Next: Measure it on judged queries.",
        "normwise evaluate --vectors queries.npy data/vectors.npy --qrels qrels.tsv --similarity all",
        "Why the regime is “undetermined”",
        "first evidence",
        "Distribution of the norms",
        "What the norm goes with",
        "Radial freedom",
        "Geometry",
        "Notes",
        "Settings",
        "The exact command",
    ):
        start = said.index(part, start)


def test_factors_show_raw_partial_interval_p_controls_and_note():
    page = render_inspection(norm_report())
    table = page[page.index('aria-label="Factors"') :]
    rows = [Reader(row).words for row in re.findall(r"<tr.*?</tr>", table[: table.index("</table>")], flags=re.S)][1:]
    assert len(rows) == 4
    assert re.fullmatch(
        r"frequency ?followed ?\+0.337 ?\+0.410 ?\+0.340 to \+0.470 ?0.013 ?\+0.246 ?\+0.201 to \+0.289 ?tokens, source", rows[0]
    )
    assert "counts as length" in rows[1]
    assert "−0.233" in rows[1]
    assert rows[1].endswith("a note on tokens")
    assert "categories: ratios, without a sign" in rows[2]
    assert "+" not in rows[2]
    assert "as a group: +0.377 [+0.311, +0.439]" in rows[3]
    assert "followed" not in rows[2]


def test_categories_have_a_forest_of_their_own_since_ratios_have_no_sign():
    page = render_inspection(norm_report())
    (spearman,) = re.findall(r'aria-label="(Partial Spearman\.[^"]*)"', page)
    (ratios,) = re.findall(r'aria-label="(Correlation ratio[^"]*)"', page)
    assert "source" not in spearman
    assert "copy: +0.377" in spearman
    assert "source: 0.312" in ratios


@pytest.mark.parametrize("regime", ["undetermined", "noise", "signal", "adam"])
def test_no_sign_without_a_regime_is_left_without_a_warning(regime):
    said = Reader(render_inspection(norm_report(regime=regime))).words
    assert ("a sign below belongs to these vectors" in said) is (regime == "undetermined")
    assert inspect_words.REGIMES[regime] in said


def test_radial_freedom_names_and_explains_the_test_that_decided():
    page = render_inspection(norm_report())
    (row,) = re.findall(r'<tr class="chosen"><th scope="row">Nearest.*?</tr>', page, flags=re.S)
    assert "decided" in row
    assert "0.247" in row
    assert "The direction leaves 75.3% of the norm’s variance open. The test that decided it: nearest directions." in Reader(page).words
    bound = Reader(render_inspection(REPORTS["one direction"])).words
    assert "not the same as uninformative" in bound
    assert "The last norm layer of the checkpoint says so: plane-bound." in bound
    none = norm_report(radial_freedom=1.0, geometry={**geometry(), "e3_knn": -0.2})
    assert "any better than its mean does" in Reader(render_inspection(none)).words
    assert "decided</span>" not in render_inspection(none)


def test_norms_behind_a_normalize_module_are_named():
    said = Reader(render_inspection(norm_report(norm_after_normalize=distribution(2.217)))).words
    assert "After the model’s Normalize module they are all 2.835." in said
    assert said.count("After Normalize") == 2
    assert "After Normalize" not in Reader(render_inspection(norm_report())).words


def test_norms_that_do_not_vary_have_no_figure_that_would_show_rounding():
    page = render_inspection(REPORTS["came normalized"])
    said = Reader(page).words
    assert "colored by the percentile" not in said
    assert "Norm against each factor" not in said
    assert "The norms do not vary, so nothing can go with them." in said
    assert "normwise inspect X --recover-norms M --out n.npy" in said
    equal = pictures().model_copy(update={"histogram_edges": (0.999999, 1.0, 1.000001), "histogram_counts": (119, 119)})
    assert (
        "Histogram of the norms: there is nothing to draw."
        in Reader(render_inspection(norm_report(figures=equal, verdict=verdict("degenerate")))).words
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": verdict("direction")}, "The norm is a function of the direction."),
        ({"verdict": verdict("direction", follows=("tokens",))}, "The norm is a function of the direction, and follows “tokens”."),
        ({"verdict": verdict("mixed", follows=("a", "b", "c", "d", "e"))}, "The norm follows several things: “a”, “b”, “c” and 2 more."),
        ({"verdict": verdict("length", follows=("tokens", "frequency"))}, "The norm follows length: “tokens”."),
        (
            {"verdict": verdict("length", follows=("tokens",), effect=0.31, strength="medium")},
            "The norm follows length: “tokens”, a medium effect.",
        ),
        ({"verdict": verdict("year", follows=("year",), effect=0.2, strength="weak")}, "The norm follows “year”, a weak effect."),
        ({"verdict": verdict("uninformative")}, "The norm follows none of the given factors."),
        ({"verdict": verdict("undetermined")}, "What the norm follows cannot be told from these data."),
        ({"verdict": verdict("undetermined"), "factors": ()}, "No factor was given: what the norm follows is open."),
        ({"verdict": verdict("degenerate")}, "All norms are equal: there is nothing to read."),
        ({"verdict": verdict("degenerate"), "normalized_input": True}, "These vectors were normalized: their norms are gone."),
        ({"verdict": verdict("degenerate"), "n": 8}, "None of 8 vectors has a usable norm."),
        ({"verdict": verdict("degenerate"), "n": 9}, "There is one norm only: nothing to compare it with."),
    ],
)
def test_headline_says_the_verdict_in_one_sentence(changes, expected):
    assert inspect_words.headline(norm_report(**changes)) == expected


@pytest.mark.parametrize(
    ("step", "changes", "expected"),
    [
        ("recover", {}, "normwise inspect data/vectors.npy --recover-norms MODEL --out norms.npy"),
        (
            "recover",
            {"source": "v.parquet", "part": "a b", "command": "normwise inspect 'x y/v.parquet' --column 'a b'"},
            "normwise inspect 'x y/v.parquet' --recover-norms MODEL --column 'a b' --out norms.npy",
        ),
        (
            "evaluate",
            {"source": "org/m", "command": "normwise inspect org/m"},
            "normwise evaluate --model org/m --data DATA --similarity all",
        ),
        ("evaluate", {"source": "m.safetensors: w", "part": "w", "command": "normwise inspect m.safetensors"}, ""),
        ("more data", {"factors": ()}, "normwise inspect data/vectors.npy --factors factors.csv"),
        ("more data", {}, ""),
        ("more data", {"factors": (), "n": 8, "verdict": verdict("degenerate", next_step="more data")}, ""),
        ("cosine", {}, ""),
        ("recover", {"command": ""}, ""),
        ("recover", {"command": "normwise inspect 'unclosed"}, ""),
    ],
)
def test_next_command_is_exact_or_not_there(step, changes, expected):
    report = norm_report(**{"verdict": verdict("frequency", next_step=step), **changes})
    command = inspect_words.next_command(report)
    assert command == expected
    assert render_inspection(report).count('<pre class="copy"') == bool(expected) + bool(report.command)
    if command:
        parse(command)


def commands() -> dict[tuple[str, ...], typer.core.TyperCommand]:
    found = typer.main.get_command(app).commands
    inner = {("simulate", name): command for name, command in found["simulate"].commands.items()}
    return {(name,): command for name, command in found.items()} | inner


def parse(line: str) -> None:
    """Read a command line as the program would, without running it."""
    name, *words = shlex.split(line, comments=True)
    assert name == "normwise"
    known = commands()
    path = next(tuple(words[:length]) for length in (2, 1) if tuple(words[:length]) in known)
    known[path].make_context(" ".join(path), words[len(path) :])


def test_the_guide_shows_only_commands_that_exist():
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert len(lines) >= 10
    assert {("simulate", "norms"), ("simulate", "concepts")} <= set(commands())
    for line in lines:
        parse(line)
    with pytest.raises(Exception, match="No such option"):
        parse("normwise inspect vectors.npy --no-such-option")


def test_the_guide_names_only_keys_that_a_report_has():
    text = GUIDE.read_text(encoding="utf-8")
    table = text[text.index("## JSON") :]
    keys = re.findall(r"^\| `([^`]+)` \|", table, flags=re.M)
    assert len(keys) >= 12
    known = set(InspectReport.model_fields)
    assert {key.split(".")[0].removesuffix("[]") for key in keys} <= known


def section(report: InspectReport) -> str:
    page = render_inspection(report)
    start = page.index('<section id="usefulness">')
    end = "</section>"
    return page[start : page.index(end, start) + len(end)]


@pytest.mark.parametrize("name", [name for name, report in REPORTS.items() if report.usefulness is None])
def test_a_report_without_judged_queries_has_no_section_and_no_link_to_one(name):
    page = render_inspection(REPORTS[name])
    assert 'id="usefulness"' not in page
    assert "Judged queries" not in Reader(page).words
    assert "judged queries" not in Reader(page).words.replace("Measure it on judged queries", "")


def test_every_number_of_judged_queries_is_in_their_section():
    report = usefulness_report()
    said = " ".join(Reader(section(norm_report(usefulness=report))).text)
    ranking, trust = report.reranking, report.confidence
    intervals = [
        ranking.cosine,
        ranking.dot_minus_cosine,
        *ranking.norm_minus.values(),
        *trust.gains.values(),
        *trust.gains_beyond.values(),
    ]
    intervals += [each for prior in ranking.priors.values() for each in (prior.reported, prior.difference)]
    rows = [row for prior in ranking.priors.values() for row in prior.table]
    intervals += [row.difference for row in rows]
    numbers = [value for each in intervals for value in (each.mean, each.ci_low, each.ci_high)]
    numbers += [value for row in rows for value in (row.chosen_on, row.reported)]
    numbers += [value for model in trust.models.values() for value in (model.nll, model.aurc, model.e_aurc, model.auroc)]
    numbers += list(trust.coefficients.values())
    assert len(numbers) > 150

    def there(*ways: str) -> bool:
        return any(re.search(rf"(?<![\d.,−+]){re.escape(way.replace('-', '−'))}(?![\d.,]*\d)", said) for way in ways)

    assert [value for value in numbers if not there(f"{value:.4f}", f"{value:+.4f}")] == []
    betas = [row.beta for row in rows if row.beta]
    assert [beta for beta in betas if not there(f"{beta:+.3g}")] == []
    assert [prior.spread for prior in ranking.priors.values() if not there(f"{prior.spread:.3g}")] == []
    for text in (
        "397 queries", "231 clusters", "1,523 candidates", "97.5%", "394 queries", "229 clusters", "251", "9.6%", "a-model on a-set",
        "the words of ranking", "the words of confidence", "a note of the queries", "feature of held and norms", "on dev queries",
    ):  # fmt: skip
        assert text in said, text


@pytest.mark.parametrize("first", ["reproduced", "not reproduced", "undecided at this size"])
def test_outcomes_stand_as_the_record_says_each_beside_its_claim(first):
    outcomes = ["reproduced", "not reproduced", "undecided at this size"]
    turn = outcomes.index(first)
    ranks, size, trust = outcomes[turn:] + outcomes[:turn]
    full = usefulness_report()
    parts = {
        "reranking": full.reranking.model_copy(update={"outcome": ranks, "claimed_size": size}),
        "confidence": full.confidence.model_copy(update={"outcome": trust}),
    }
    found = re.findall(
        r'<span class="outcome (\w+)">(.*?)</span><span>(.*?)</span>', section(norm_report(usefulness=full.model_copy(update=parts)))
    )
    assert [(tone, outcome) for tone, outcome, _ in found] == [(outcome.split()[0], outcome) for outcome in (ranks, size, trust)]
    for words, (_, _, claim) in zip(
        ("more than a power of the length", "at least 9.6% of cosine’s nDCG@10", "top hits"), found, strict=True
    ):
        assert words in claim
    assert found[2][2].endswith("beyond score, margin, tokens of the query and tokens of the top hit.")


def test_each_prior_has_its_exponent_and_each_control_its_difference_to_the_norm():
    table = section(norm_report(usefulness=usefulness_report()))
    table = table[table.index('aria-label="Re-ranking by each prior"') :]
    rows = [Reader(row).words for row in re.findall(r"<tr.*?</tr>", table[: table.index("</table>")], flags=re.S)][1:]
    assert len(rows) == 5
    norm, length, _, permuted, popularity = rows
    assert "−2.1, +0.419 (2×)" in norm
    # The norm has no difference to itself: its row ends with the one to cosine.
    assert norm.endswith("−0.0347 to +0.0217")
    assert re.search(r"\+0\.0089 ?−0\.0232 to \+0\.0332$", length)
    assert "dealt at random: the null" in permuted
    assert "the same for all candidates: ranks as cosine does" in popularity
    assert popularity.count("not measured") == 3
    full = usefulness_report()
    more = full.reranking.model_copy(update={"norm_minus": {**full.reranking.norm_minus, "age": between(0.0777)}})
    assert "+0.0777" in section(norm_report(usefulness=full.model_copy(update={"reranking": more})))


def test_controls_that_were_not_given_are_named_as_not_measured():
    said = Reader(section(norm_report(usefulness=barely_useful()))).words
    assert "length no counts were given" in said.replace("lengthno", "length no")
    assert "popularity no counts were given" in said.replace("popularityno", "popularity no")
    assert "Gains in confidence: not measured." in said
    assert "too few answers." in said
    assert "by cross-validation over clusters" in said
    assert "<svg" not in section(norm_report(usefulness=barely_useful()))


def test_the_curve_of_each_prior_runs_through_its_figures_on_one_axis():
    report = usefulness_report()
    drawn = re.findall(r"<figure>.*?</figure>", section(norm_report(usefulness=report)), flags=re.S)
    assert [re.findall("<b>(.*?).</b>", one) for one in drawn] == [[name] for name in report.reranking.priors]
    bounds = power_plot.power_range(list(report.reranking.priors.values()), 0.5314)
    assert bounds is not None
    prior = report.reranking.priors["norm"]
    svg = power_plot.power_figure(prior, cosine=0.5314, metric="nDCG@10", bounds=bounds)
    (path,) = re.findall(r'class="line s1 strong" d="M([^"]*)"', svg)
    spots = [tuple(map(float, spot.split())) for spot in path.split("L")]
    across = [x for x, _ in spots]
    # Signed square roots: .1 lies at sqrt(.2) of the way from the middle to the end, on both sides alike.
    assert (across[3] - across[2]) / (across[4] - across[2]) == pytest.approx(0.2**0.5, abs=2e-3)
    assert across[2] - across[1] == pytest.approx(across[3] - across[2], abs=0.11)
    ups = [row.reported for row in prior.table]
    scale = (spots[2][1] - spots[0][1]) / (ups[2] - ups[0])
    assert [y for _, y in spots] == pytest.approx([spots[0][1] + scale * (up - ups[0]) for up in ups], abs=0.11)
    assert scale < 0
    assert svg.count("<circle") == 2
    assert "s2 dash" in svg
    alike = prior.model_copy(update={"table": tuple(row.model_copy(update={"chosen_on": row.reported}) for row in prior.table)})
    assert "s2 dash" not in power_plot.power_figure(alike, cosine=0.5, metric="m", bounds=bounds)
    single = prior.model_copy(update={"table": prior.table[:1]})
    assert power_plot.power_figure(single, cosine=0.5, metric="m", bounds=bounds) == ""


def hostile_report(word: str) -> InspectReport:
    """Every free text of a report is `word`."""
    names = (word, word + "2", word + "3")
    own = (factor(names[0], note=word, controls=names[1:]), factor(names[1], note=word), factor(names[2], 0.3, categorical=True, note=word))
    numbers = tuple(float(i) for i in range(1, 41))
    drawn = pictures(40).model_copy(update={"scatter_factors": {names[0]: numbers, names[1]: numbers, names[2]: (word, word + "b") * 20}})
    return norm_report(
        source=word, factors=own, evidence=(word,), notes=(word, word), versions={word: word}, command=word, stored=word, part=word,
        raw_norms=(f"{word}: {word}",), geometry={f"zz{word}": 0.5}, figures=drawn,
        verdict=verdict(word, text=word, next_step="cosine", follows=(names[0],)), usefulness=hostile_usefulness(word),
    )  # fmt: skip


def hostile_usefulness(word: str) -> UsefulnessReport:
    full = usefulness_report(model=word, data=word, split=word, notes=(word,))
    prior, model = prior_reranking(word, 0.3), full.confidence.models["plain"].model_copy(update={"features": (word,)})
    ranking = {"metric": word, "chosen_on": word, "words": word, "priors": {word: prior}, "norm_minus": {word: between(0.1)}}
    trust = {"controls": (word,), "models": {word: model}, "coefficients": {word: 0.5}, "words": word}
    parts = {"reranking": full.reranking.model_copy(update=ranking), "confidence": full.confidence.model_copy(update=trust)}
    return full.model_copy(update=parts)


def shape(report: InspectReport) -> list[str]:
    return [tag for tag in Reader(render_inspection(report)).tags if tag != "wbr"]


@settings(max_examples=12)
@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda t: t.strip()))
@example(HOSTILE)
@example("</style></title></svg>-->")
@example("\x00\x0b\ufffe")
@example("{% raw %}{# #}")
@example("\u202e\u2067abc עברית")
def test_no_text_changes_the_structure_of_the_page(word):
    # These names mean something of their own: they would change what the page says, not how it is escaped.
    assume(not word.endswith("_error") and word not in ("degenerate", "direction", "mixed", "uninformative", "undetermined"))
    assert shape(hostile_report(word)) == shape(hostile_report("zzz"))


def test_hostile_text_is_shown_as_text():
    page = render_inspection(hostile_report(HOSTILE))
    assert "<script" not in page
    assert Reader(page).words.count(HOSTILE) > 8
    assert "<b>x" not in render_inspection(hostile_report("</script><b>x</b>"))


def test_no_name_turns_the_words_after_it_and_no_lone_surrogate_reaches_the_file():
    page = render_inspection(hostile_report("a\u202eb"))
    for part in re.findall(r'<p class="why">.*?</p>|<h1>.*?</h1>|<li>.*?</li>', page, flags=re.S):
        assert "\u202e" not in part
    assert "a\ufffdb" in page
    broken = norm_report(command="a" + chr(0xD83D) + "b", source="a" + chr(0xD83D) + "b")
    assert "a\ufffdb".encode() in render_inspection(broken).encode("utf-8")


@pytest.mark.parametrize("name", [name for name in REPORTS if not name.endswith("not finite") and name != "judged, nothing measured"])
def test_a_saved_report_draws_the_same_page(name):
    report = REPORTS[name]
    assert render_inspection(InspectReport.from_json(report.to_json())) == render_inspection(report)


def test_a_missing_extra_names_its_command(monkeypatch):
    monkeypatch.setattr("normwise.report.page.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "normwise\[report\]"'):
        render_inspection(norm_report())


points = st.lists(st.tuples(st.integers(-6, 6).map(float), st.floats(0.1, 9.0)).map(tuple), min_size=1, max_size=150)


@given(points)
def test_binned_medians_lie_on_the_points_and_part_no_ties(pairs):
    line = norm_plots.binned_medians(pairs)
    assert len(line) <= 12
    assert [x for x, _ in line] == sorted({x for x, _ in line})
    for x, y in line:
        assert min(p for p, _ in pairs) <= x <= max(p for p, _ in pairs)
        assert min(r for _, r in pairs) <= y <= max(r for _, r in pairs)
    if len(pairs) >= 5 and len({x for x, _ in pairs}) == 1:
        assert len(line) == 1


def test_medians_of_few_distinct_values_are_those_of_each():
    pairs = [(float(i % 3), float(i)) for i in range(60)]
    assert norm_plots.binned_medians(pairs) == [(0.0, 28.5), (1.0, 29.5), (2.0, 30.5)]


@given(st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=40))
def test_percentiles_are_mid_ranks(values):
    assert norm_plots.percentiles(values) == pytest.approx(100 * (rankdata(values) - 0.5) / len(values))


@given(st.lists(st.integers(0, 50), min_size=3, max_size=60).filter(any), st.floats(1.01, 1e4), st.booleans())
def test_areas_of_the_histogram_are_shares(counts, ratio, log):
    edges = [1.0 + (ratio - 1.0) * i / len(counts) for i in range(len(counts) + 1)]
    kept, heights = norm_plots.bars(edges, counts, total=sum(counts), log=log)
    place = math.log if log else float
    widths = [place(b) - place(a) for a, b in zip(kept, kept[1:], strict=False)]
    assert (kept[0], kept[-1]) == (edges[0], edges[-1])
    assert all(width > 0 for width in widths)
    even = (place(edges[-1]) - place(edges[0])) / min(len(counts), max(10, round(math.sqrt(sum(counts)))))
    assert sum(h * w for h, w in zip(heights, widths, strict=True)) == pytest.approx(100.0 * even)
    # No bar is so narrow that it says more than the number of norms allows.
    assert min(widths[:-1], default=even) >= even * 0.999


def test_the_axis_of_norms_is_log_where_they_span_a_factor_of_eight():
    narrow = pictures()
    wide = narrow.model_copy(update={"histogram_edges": tuple(0.1 * 1.1**i for i in range(61))})
    assert "norm (log scale)" in norm_plots.norm_histogram(wide, {"0.5": 1.0})
    assert "log scale" not in norm_plots.norm_histogram(narrow, {"0.5": 1.5})


def test_quantiles_are_marked_and_their_names_never_overlap():
    norms = pictures()
    low, high = norms.histogram_edges[0], norms.histogram_edges[-1]
    close = {level: low + (high - low) * (0.5 + 0.01 * i) for i, level in enumerate(("0.01", "0.25", "0.5", "0.75", "0.99"))}
    svg = norm_plots.norm_histogram(norms, close, after=(low + high) / 2)
    assert svg.count('class="median a"') == 5
    assert svg.count('text-anchor="middle">median<') == 1
    assert len(re.findall(r'y="9.0" text-anchor="middle"', svg)) < 5
    assert "after Normalize" in svg
    apart = {level: low + (high - low) * (0.1 + 0.2 * i) for i, level in enumerate(("0.01", "0.25", "0.5", "0.75", "0.99"))}
    assert len(re.findall(r'y="9.0" text-anchor="middle"', norm_plots.norm_histogram(norms, apart))) == 5


def test_factor_figures_take_the_axis_that_fits():
    norms = [1.0 + i / 100 for i in range(100)]
    linear = norm_plots.factor_figure(norms, [float(i) for i in range(100)], name="a")
    log = norm_plots.factor_figure(norms, [10.0 ** (i / 25) for i in range(100)], name="a")
    rank = norm_plots.factor_figure(norms, [*[float(i) for i in range(99)], 1e7], name="a")
    assert "a (log scale)" in log
    assert "a (percentile)" in rank
    assert "(percentile)" not in linear
    assert all("medians" in svg for svg in (linear, log, rank))
    assert "Median norm 1.04 in the lowest bin, 1.945 in the highest." in linear


def test_figures_say_nothing_that_the_table_refuses():
    norms = [1.0 + i / 100 for i in range(29)]
    assert "medians" not in norm_plots.factor_figure(norms, [float(i) for i in range(29)], name="a")
    assert norm_plots.factor_figure(norms, [1.0] * 29, name="a") == ""
    assert norm_plots.factor_figure(norms, [1.0], name="a") == ""
    assert norm_plots.factor_figure([], [], name="a") == ""
    assert norm_plots.norm_histogram(NormPictures(), {}) == ""


def test_rare_categories_share_a_row():
    values = [chr(97 + i % 12) if i < 24 else "often" for i in range(90)]
    svg = norm_plots.factor_figure([1.0 + i / 50 for i in range(90)], values, name="kind")
    assert "often (66)" in svg
    assert "6 other categories (12)" in svg
    assert svg.count("<title>median</title>") == 8


@given(st.floats(1e-3, 1e3), st.floats(1.05, 1e5))
def test_a_log_axis_has_ticks_inside_it(low, ratio):
    scale = Scale(low=low, high=low * ratio, start=0.0, end=100.0, log=True)
    ticks = scale.ticks(count=5)
    assert len(ticks) >= 2
    assert ticks == sorted(set(ticks))
    assert all(-1e-6 <= scale(tick) <= 100.0 + 1e-6 for tick in ticks)


def test_short_log_axes_have_round_ticks():
    assert Scale(low=0.4, high=6.0, start=0, end=1, log=True).ticks() == [0.5, 1.0, 2.0, 5.0]
    assert Scale(low=5.1, high=6.3, start=0, end=1, log=True).ticks(count=4) == [5.5, 6.0]


def test_a_factor_that_was_named_by_a_curve_shows_it_beside_its_correlation():
    factors = norm_report().factors
    bent = factors[0].model_copy(update={"curve": 0.8217, "partial_spearman": -0.156, "ci_low": -0.19, "ci_high": -0.12, "rows": 180000})
    page = render_inspection(norm_report(factors=(bent, *factors[1:])))
    assert page.count("not monotone: correlation ratio 0.822") == 1
    assert "to 180,000 rows" in page
    assert "not monotone: correlation ratio" not in render_inspection(norm_report())
