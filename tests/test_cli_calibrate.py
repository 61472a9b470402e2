"""`normwise calibrate` on the command line: exit codes, one JSON value on stdout, notes on stderr, one screen for people."""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from normwise import cli
from normwise.core.calibration_records import (
    CalibrationReport,
    CalibratorRow,
    NormGain,
    QueryCounts,
    SignalRow,
    ThresholdRecord,
    VerdictRecord,
)
from normwise.core.index_config import IndexConfig
from normwise.core.records import Interval
from normwise.index.build import build_index
from normwise.theory.calibration import Calibration

sys.path.insert(0, str(Path(__file__).parent / "workflows"))
from calibrate_folders import vector_world, write_beir


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, ["calibrate", *(str(argument) for argument in arguments)])
    assert not isinstance(result.exception, Exception), result.exception
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return vector_world(tmp_path_factory.mktemp("cli") / "toy", queries=240, no_answer=40)


def of(folder, *more):
    return "--vectors", folder / "Q.npy", folder / "D.npy", "--data", folder, "--similarity", "cosine", *more


def test_json_is_one_value_on_stdout_and_notes_are_on_stderr(folder, tmp_path):
    out = tmp_path / "calibration.json"
    result = invoke(*of(folder, "--precision", 0.8, "--json", "--out", out, "--seed", 3))
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["calibration"] == str(out)
    assert value["threshold"]["precision_target"] == 0.8
    assert out.is_file()
    assert "note: queries of test were split in halves by cluster (seed 3)" in result.stderr
    assert "note: lengths are words" in result.stderr


def test_people_see_verdict_threshold_norms_bake_off_and_signals_in_this_order(folder):
    result = invoke(*of(folder, "--precision", 0.8, "--temperature", 0.05))
    assert result.exit_code == 0
    parts = [
        "Q.npy x D.npy on toy: usable",
        "Answer when the probability",
        "threshold: probability",
        "what the norm added:",
        "bake-off",
        "softmax",
        "signals alone",
        "│ margin",
    ]
    places = [result.stdout.index(part) for part in parts]
    assert places == sorted(places)
    assert "note:" not in result.stdout
    assert len(result.stdout.splitlines()) < 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "calibrate needs --data with judged queries"),
        (["--data", "toy"], "calibrate needs --model, or --vectors"),
        (["--data", "toy", "--model", "m", "--similarity", "dot"], "--similarity belongs to --vectors: a model brings its own"),
        (["--data", "toy", "--vectors", "q.npy", "d.npy"], "--vectors needs --similarity"),
        (
            ["--data", "toy", "--vectors", "q.npy", "d.npy", "--similarity", "dot", "--model", "m", "--index", "i"],
            "--vectors calibrates bare vectors: leave --model out",
        ),
        (["--data", "toy", "--model", "m", "--overwrite"], "--overwrite replaces an earlier page at --report"),
        (["--data", "toy", "--model", "m", "--no-save", "--out", "x.json"], "--out names a file to write and --no-save writes none"),
        (["--data", "toy", "--model", "m", "--precision", "1"], "precision is 1.0; expected a share above 0, at most 0.999999"),
        (["--data", "toy", "--model", "m", "--temperature", "-1"], "temperature is -1.0; expected a finite number above 0"),
        (
            ["--data", "toy", "--model", "m", "--signals", "scores"],
            "'scores' is neither auto nor one of the signals: did you mean score",
        ),
        (["--data", "toy", "--model", "m", "--index", "i", "--limit-candidates", "5"], "limit_candidates cuts a corpus"),
        (["--data", "no/such/folder", "--vectors", "q.npy", "d.npy", "--similarity", "dot"], "does not exist"),
    ],
)
def test_usage_that_contradicts_itself_is_exit_code_2(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_help_has_an_example():
    result = invoke("--help")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.replace("│", " ").split())
    assert "Example: normwise calibrate" in shown
    assert "Of an index: normwise calibrate" in shown
    for default in ("0.95", "0.9", "auto", "all of 1,000 or fewer, else 100", "exact search", "beside a model folder, else in --index"):
        assert f"[default: {default}]" in shown.replace("(", "").replace(")", "")


needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="needs the extra index")


def command(text):
    """The command that a message says to type, by its words."""
    words = shlex.split(text[text.rindex("normwise calibrate ") :])
    assert words[0] == "normwise"
    return words[1:]


def typed(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@needs_faiss
def test_what_a_search_without_a_fitting_calibration_says_to_type_calibrates_it(folder, tmp_path):
    """Of bare vectors: fitted by cosine, found in an index that scores by dot."""
    index = tmp_path / "my index"
    typed("index", "build", "--vectors", folder / "D.npy", "--data", folder, "--similarity", "dot", "--out", index)
    asked = ("search", index, "--vectors", folder / "Q.npy", "--k", 1, "--json")
    nothing = typed(*asked)
    assert command(nothing.stderr) == [
        *("calibrate", "--vectors", "QUERIES.npy", "CORPUS.npy", "--similarity", "dot", "--data", "DATA"),
        *("--index", str(index), "--out", str(index / "calibration.json")),
    ]
    typed("calibrate", *of(folder, "--precision", 0.8, "--seed", 3, "--out", index / "calibration.json"))
    refused = typed(*asked)
    assert "this calibration does not hold here: the similarity is dot, fitted on cosine" in refused.stderr
    words = command(refused.stderr)
    assert words[-4:] == ["--precision", "0.8", "--seed", "3"]
    typed(*words)
    assert "no probabilities" not in typed(*asked).stderr


@needs_faiss
def test_an_approximate_index_of_bare_vectors_is_calibrated_as_it_answers(folder, tmp_path):
    index = tmp_path / "index"
    typed("index", "build", "--vectors", folder / "D.npy", "--data", folder, "--similarity", "cosine", "--method", "hnsw", "--out", index)
    asked = ("search", index, "--vectors", folder / "Q.npy", "--k", 1, "--json")
    typed("calibrate", *of(folder, "--precision", 0.8, "--out", index / "calibration.json"))
    words = command(typed(*asked).stderr)
    assert words[words.index("--vectors") + 1 :][:2] == [str(folder / "Q.npy"), str(folder / "D.npy")]
    typed(*words)
    assert "no probabilities" not in typed(*asked).stderr
    found = json.loads(typed(*asked).stdout)
    assert all(0.0 <= hit["probability"] <= 1.0 for hit in found)
    assert Calibration.from_json((index / "calibration.json").read_text()).fingerprint.search != "exact"


@needs_faiss
def test_an_index_of_other_vectors_or_of_a_model_is_not_calibrated_with_these(folder, tmp_path):
    built = ("index", "build", "--data", folder, "--similarity", "cosine")
    typed(*built, "--vectors", folder / "D.npy", "--out", tmp_path / "right")
    np.save(tmp_path / "other.npy", np.load(folder / "D.npy")[::-1])
    what = {"ids": [f"d{row}" for row in range(150)], "vectors": np.load(folder / "D.npy")}
    build_index(IndexConfig(similarity="cosine"), tmp_path / "of a model", **what, model="0" * 64, model_name="some model").close()
    result = invoke(*of(folder, "--index", tmp_path / "of a model"))
    assert (result.exit_code, "the index was built with a model: some model; name it" in result.stderr) == (2, True), result.stderr
    for name, message in (
        (["--vectors", folder / "Q.npy", tmp_path / "other.npy", "--similarity", "cosine"], "the index holds other vectors, or other ids"),
        (["--vectors", folder / "Q.npy", folder / "D.npy", "--similarity", "dot"], "the index scores by cosine, and dot came"),
    ):
        result = invoke("--data", folder, "--index", tmp_path / "right", *name)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "right" / "calibration.json").exists()


@needs_faiss
def test_an_index_that_has_changed_since_is_told_to_bring_the_files_up_to_date(folder, tmp_path):
    index = tmp_path / "index"
    typed("index", "build", "--vectors", folder / "D.npy", "--data", folder, "--similarity", "cosine", "--out", index)
    typed("index", "delete", index, "d1", "d2")
    result = invoke(*of(folder, "--index", index))
    assert result.exit_code == 2
    assert "the index holds 148 candidates, and" in result.stderr
    assert "up to date with the index" in result.stderr


@needs_faiss
def test_the_command_that_builds_an_index_of_these_vectors_can_be_typed(folder, tmp_path, monkeypatch):
    other = tmp_path / "my D.npy"
    np.save(other, 1.5 * np.load(folder / "D.npy"))
    typed("index", "build", "--vectors", folder / "D.npy", "--data", folder, "--similarity", "cosine", "--out", tmp_path / "index")
    result = invoke("--vectors", folder / "Q.npy", other, "--data", folder, "--similarity", "cosine", "--index", tmp_path / "index")
    words = shlex.split(result.stderr[result.stderr.rindex("normwise index build") :])
    monkeypatch.chdir(tmp_path)
    typed(*words[1:])
    assert (tmp_path / "NEW-INDEX" / "index.json").is_file()


@needs_faiss
def test_another_codec_of_the_same_vectors_is_another_search(folder, tmp_path):
    half = np.load(folder / "D.npy")[::2]
    np.save(tmp_path / "half.npy", half)
    rest = np.load(folder / "D.npy")[1::2]
    np.save(tmp_path / "rest.npy", rest)
    for name, start in (("half", 0), ("rest", 1)):
        (tmp_path / f"{name}.txt").write_text("".join(f"d{row}\n" for row in range(start, 150, 2)))
    built = ("--similarity", "cosine", "--storage", "pq")
    typed("index", "build", "--vectors", folder / "D.npy", "--data", folder, *built, "--out", tmp_path / "one")
    typed("index", "build", "--vectors", tmp_path / "half.npy", "--ids", tmp_path / "half.txt", *built, "--out", tmp_path / "other")
    typed("index", "add", tmp_path / "other", "--vectors", tmp_path / "rest.npy", "--ids", tmp_path / "rest.txt")
    typed("calibrate", *of(folder, "--precision", 0.8, "--index", tmp_path / "one"))
    asked = ("--vectors", folder / "Q.npy", "--calibration", tmp_path / "one" / "calibration.json", "--json")
    typed("search", tmp_path / "one", *asked)
    result = CliRunner().invoke(cli.app, [str(each) for each in ("search", tmp_path / "other", *asked)])
    assert result.exit_code == 2
    assert "the kind of search is exact+pq " in result.stderr


@pytest.mark.parametrize("verb", ["calibrate", "evaluate"])
@pytest.mark.parametrize(
    "words",
    [
        ["--vectors", "q.npy"],
        ["--vectors", "q.npy", "--similarity", "dot"],
        ["--vectors=q.npy", "--similarity", "dot"],
        ["--vectors", "q.npy", "d.npy", "--vectors", "q.npy", "--similarity", "dot"],
        ["--vectors", "q.npy", "-h"],
    ],
)
def test_one_file_of_vectors_is_told_that_two_are_needed(verb, words):
    result = CliRunner().invoke(cli.app, [verb, *words])
    assert result.exit_code == 2
    assert "expected two files after it, QUERIES.npy CANDIDATES.npy" in " ".join(result.output.replace("│", " ").split())


def test_an_undefined_figure_and_an_inert_threshold_are_said(capsys):
    row = CalibratorRow(name="softmax", ece=0.1, brier=0.2, nll=None, auroc=None, aurc=0.1, e_aurc=0.05, nauc=None, eligible=False)
    span = {"auroc": Interval(mean=0.7, ci_low=0.6, ci_high=0.8)}
    report = CalibrationReport(
        queries=QueryCounts(fit=1, test=2, unanswerable=0),
        signals=(SignalRow(name="score", auroc=None, ci_low=None, ci_high=None),),
        calibrators=(row, row.model_copy(update={"name": "temperature", "auroc": 0.7, "intervals": span})),
        chosen="temperature",
        norm_gain=NormGain(metric="e_aurc", delta=None, ci_low=None, ci_high=None, words="cannot be told"),
        threshold=ThresholdRecord(
            precision_target=0.5,
            confidence=0.9,
            probability=0.1,
            coverage=1.0,
            answered=2,
            precision=1.0,
            precision_low=0.6,
            inert="rejects nothing",
        ),
        verdict=VerdictRecord(label="usable", text="All may be answered."),
        model="[m]",
        data="d",
    )
    cli.cli_calibrate.show_calibration(report)
    shown = capsys.readouterr().out
    assert "inert: it rejects nothing" in shown
    assert "0.700 [0.600, 0.800]" in shown
    assert "undefined" in shown
    assert "[m] on d: usable" in shown


@pytest.mark.slow
@needs_faiss
@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs the extra train")
def test_after_an_index_has_grown_the_printed_command_calibrates_it_again(tmp_path):
    from normwise.models.encoder import Encoder
    from search_material import WORDS, save_encoder

    model, data, index = tmp_path / "a model", tmp_path / "set", tmp_path / "index"
    Encoder(Encoder.load(save_encoder(tmp_path / "dot")).model, similarity="cosine", name="tiny").save(model)
    random = np.random.default_rng(0)
    texts = sorted({" ".join(random.choice(WORDS, size=5, replace=False)) for _ in range(200)})
    asked = [" ".join(random.permutation([*text.split(), *random.choice(WORDS, size=row % 3)])) for row, text in enumerate(texts)]
    write_beir(
        data,
        corpus=[(f"d{row}", text) for row, text in enumerate(texts)],
        queries=[(f"q{row}", text) for row, text in enumerate(asked)],
        qrels={"test": [(f"q{row}", f"d{row}", 1) for row in range(len(texts))]},
    )
    typed("index", "build", "--model", model, "--data", data, "--out", index)
    search = ("search", index, "red cat", "--json")
    nothing = typed(*search).stderr
    words = [str(data) if word == "DATA" else word for word in command(nothing)]
    typed(*words, "--unanswerable", 0.3, "--precision", 0.6)
    assert (index / "calibration.json").is_file()
    assert not (model / "calibration.json").exists()
    assert "no probabilities" not in typed(*search).stderr
    (tmp_path / "more.jsonl").write_text(json.dumps({"_id": "new", "text": "tree"}) + "\n")
    typed("index", "add", index, "--data", tmp_path / "more.jsonl")
    grown = typed(*search).stderr
    assert "the corpus has" in grown
    words = command(grown)
    assert words[-4:] == ["--precision", "0.6", "--unanswerable", "0.3"]
    typed(*words)
    assert "no probabilities" not in typed(*search).stderr
