"""`normwise staircase` on the command line: exit codes, one JSON value on stdout, notes on stderr, the verdict first for people."""

import json

import pytest
from typer.testing import CliRunner

from normwise import cli

SHORT = ("--modulus", "15", "--seeds", "2", "--steps", "20")


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, ["staircase", "demo", *arguments])
    assert not isinstance(result.exception, Exception), result.exception
    return result


def test_json_is_one_value_on_stdout_and_notes_are_on_stderr():
    result = invoke(*SHORT, "--vocabulary", "15", "--json")
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["verdict"]["label"] == "no-zeroth-stair"
    assert set(value["stairs_by_seed"][0]) >= {"seed", "order_0", "order_1", "task"}
    assert set(value["stairs"][0]) >= {"order", "onset", "peak_step", "peak"}
    assert set(value["integrity"]) == {"duplicates", "gaps", "jumps"}
    assert len(value["steps"]) == len(value["loss"]) == len(value["alignment"]["1"]) == len(value["null"]["0"]) == 21
    assert "note: 2 seeds: seeds differ" in result.stderr


def test_the_screen_begins_with_the_verdict(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = invoke(*SHORT, "--task", "add")
    assert result.exit_code == 0
    assert result.stdout.startswith("not-learned: The task is not learned within 20 steps")
    for words in (
        "order 1 less null",
        "onset of the mean",
        "what order 1 adds to order 0",
        "predicted before training: a stair of order 0",
    ):
        assert words in result.stdout


def test_parity_shows_anchors_and_noise(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = invoke("--task", "parity", "--seeds", "2", "--steps", "10")
    assert result.exit_code == 0
    assert "anchors: attention" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "words"], "task is 'words'; expected mod, add, parity, text"),
        (["--vocabulary", "3"], "vocabulary is 3; expected at least 20"),
        (["--gamma", "nan"], "gamma is nan"),
        (["--seeds", "x"], "Invalid value for '--seeds'"),
        (["--task", "parity", "--modulus", "20"], "leave modulus out"),
    ],
)
def test_bad_usage_is_exit_code_2(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
