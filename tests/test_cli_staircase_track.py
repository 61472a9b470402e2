"""`normwise staircase track` and `predict` on the command line: exit codes, JSON on stdout, refusals with the way out."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from normwise import cli

sys.path.insert(0, str(Path(__file__).parent / "workflows"))
from stair_series import VOCABULARY, bigram_chain, ids_of, save_series, tables_of

STEPS = tuple(range(0, 200, 20))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    ids = ids_of(bigram_chain())
    np.save(folder / "ids.npy", ids)
    save_series(folder / "run", STEPS, tables_of(ids, STEPS)[0])
    return folder


def track(world, *arguments):
    given = ["staircase", "track", "--checkpoints", str(world / "run"), "--corpus", str(world / "ids.npy"), "--workers", "1", *arguments]
    result = CliRunner().invoke(cli.app, given)
    assert not isinstance(result.exception, Exception), result.exception
    return result


def test_json_has_the_keys_and_stdout_nothing_else(world):
    result = track(world, "--window", "4", "--json")
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert set(value) >= {"steps", "loss", "accuracy", "alignment", "null", "stairs", "stairs_by_seed", "integrity", "verdict"}
    assert value["steps"] == list(STEPS)
    assert set(value["alignment"]) == set(value["null"]) == {"0", "1"}
    assert set(value["stairs"][0]) >= {"order", "onset", "peak_step", "peak"}
    assert "10 checkpoints, steps 0 to 180" in result.stderr


def test_the_screen_begins_with_the_verdict(world, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = track(world, "--orders", "0,1,2", "--window", "4")
    assert result.exit_code == 0
    assert result.stdout.split(":")[0] in ("no-decay", "late-peak", "early-peak")
    for words in ("alignment of cosines", "order 2", "what each adds", "length and frequency", "growth rate"):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--orders", "0;1"], "--orders has '0;1'; expected whole numbers with commas between them"),
        (["--orders", ","], "orders are none"),
        (["--orders", "3"], "orders are 3; expected one or more of 0, 1 and 2"),
        (["--leave-out", "7"], "step 7 is to be left out"),
        (["--leave-out", "x"], "--leave-out has 'x'"),
        (["--engine", "spark"], "--engine is 'spark'; expected local or ray"),
        (["--documents", "pages"], "--documents is 'pages'; expected lines or paragraphs"),
        (["--overwrite"], "--overwrite replaces an earlier page at --report"),
        (["--resume"], "name one (--progress)"),
        (["--table", "wte"], "has no tensor 'wte'"),
        (["--tokens", "1000"], "tokens is 1,000, and 40 of 40 stand in the corpus"),
        (["--words", "Monday"], "words names 'Monday', and the tokens have no names: give their tokenizer"),
    ],
)
def test_bad_usage_is_exit_code_2(world, arguments, message):
    result = track(world, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_copies_are_exit_code_2_with_their_names(world, tmp_path):
    shutil.copytree(world / "run", tmp_path / "run")
    shutil.copy(tmp_path / "run" / "checkpoint-180" / "model.safetensors", tmp_path / "run" / "checkpoint-60" / "model.safetensors")
    shutil.copy(world / "ids.npy", tmp_path / "ids.npy")
    result = track(tmp_path)
    assert result.exit_code == 2
    assert "60 (checkpoint-60), 180 (checkpoint-180)" in result.stderr
    assert "--leave-out 60" in result.stderr
    assert track(tmp_path, "--leave-out", "60").exit_code == 0


def test_a_forecast(world):
    given = ["staircase", "predict", "--corpus", str(world / "ids.npy"), "--vocabulary", str(VOCABULARY), "--workers", "1"]
    result = CliRunner().invoke(cli.app, [*given, "--json", "--learning-rate", "4"])
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["predicted"]["exists"]
    assert value["steps"][0] < value["steps"][1]
    shown = CliRunner().invoke(cli.app, given)
    assert shown.stdout.startswith("sigma_1 = ")
    assert CliRunner().invoke(cli.app, [*given, "--init-scale", "2"]).exit_code == 2
