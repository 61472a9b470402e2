"""The command that a refusal prints is one that a shell and `normwise calibrate` read back as it was meant."""

import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from normwise import cli
from normwise.theory.calibration_command import ADDRESS, calibrate_command, model_source, vectors_source


def parsed(command):
    """What `normwise calibrate` understands, by the names of its options."""
    words = shlex.split(command)
    assert words[:2] == ["normwise", "calibrate"]
    calibrate = get_command(cli.app).commands["calibrate"]
    return calibrate.make_context("calibrate", words[2:], resilient_parsing=False).params


@pytest.mark.parametrize("flag", [{"--trust-remote-code": ""}, {}])
def test_options_are_read_back_with_and_without_a_value(flag):
    options = {"--temperature": "0.05", **flag, "--signals": "score,log query norm"}
    found = parsed(calibrate_command(model_source("my model"), data="a set", precision=0.8, options=options))
    assert (found["model"], found["data"], found["precision"], found["confidence"]) == ("my model", "a set", 0.8, 0.9)
    assert (found["temperature"], found["signals"]) == (0.05, "score,log query norm")
    assert found["trust_remote_code"] == bool(flag)


def test_files_with_blanks_are_two_files():
    files = shlex.join(("/a b/it's Q.npy", "/a b/D.npy"))
    found = parsed(calibrate_command(vectors_source(files, "dot"), data="/a b", index="an index/"))
    assert [str(path) for path in found["vectors"]] == ["/a b/it's Q.npy", "/a b/D.npy"]
    assert (found["similarity"], str(found["out"]), found["index"]) == ("dot", "an index/calibration.json", Path("an index/"))


@pytest.mark.parametrize("files", ["", "vectors", "one.npy", "an 'open quote", "a b c"])
def test_what_does_not_name_two_files_stands_there_in_capitals(files):
    command = calibrate_command(vectors_source(files, "cosine"))
    assert command == "normwise calibrate --vectors QUERIES.npy CORPUS.npy --similarity cosine --data DATA"


def test_the_address_of_a_server_belongs_to_an_index_that_is_searched():
    options = {"--url": ADDRESS}
    assert parsed(calibrate_command(model_source("m"), data="set", index="idx", options=options))["url"] == ADDRESS
    assert "--url" not in calibrate_command(model_source("m"), data="set", options=options)
    assert parsed(calibrate_command(vectors_source("q.npy d.npy", "dot"), data="set", index="idx", options=options))["url"] == ADDRESS
