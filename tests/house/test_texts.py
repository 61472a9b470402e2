"""What the texts promise is there: commands, links, settings, data sets."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from normwise.cli import app
from normwise.core import config
from normwise.core.config import PaceConfig

ROOT = Path(__file__).parents[2]
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
GUIDE = ROOT / "docs/guide/training.md"


def read(path):
    return path.read_text(encoding="utf-8")


def blocks(language):
    return [(path.name, block) for path in TEXTS for block in re.findall(rf"```{language}\n(.*?)```", read(path), re.DOTALL)]


def command_lines():
    lines = [line.split("  #")[0].strip() for _, block in blocks("sh") for line in block.splitlines()]
    inline = [found for path in TEXTS for found in re.findall(r"`((?:make|normwise) [a-z][^`]*)`", read(path))]
    return sorted({line for line in lines + inline if line})


def test_there_are_commands_to_check():
    assert {"make demo", "make test"} <= set(command_lines())
    assert sum(line.startswith("normwise ") for line in command_lines()) >= 8


@pytest.mark.parametrize("line", [line for line in command_lines() if line.startswith("make ")])
def test_make_targets_exist(line):
    targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE))
    words = shlex.split(line)[1:]
    assert {word for word in words if "=" not in word} <= targets
    variables = set(re.findall(r"^([A-Z_]+) \?=", read(ROOT / "Makefile"), re.MULTILINE)) | {"PYTHON"}
    assert {word.split("=")[0] for word in words if "=" in word} <= variables


@pytest.mark.parametrize("line", [line for line in command_lines() if re.match(r"normwise \w", line)])
def test_command_lines_parse(line):
    command, words = get_command(app), shlex.split(line)[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_local_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", read(path)):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path}: {target}"


@pytest.mark.parametrize(("name", "block"), [pair for pair in blocks("toml")])
def test_configs_in_the_texts_are_valid(name, block):
    PaceConfig.read(tomllib.loads(block), source=name)


def test_every_setting_is_in_the_guide_and_every_row_is_a_setting():
    classes = [getattr(config, name) for name in ("PaceConfig", "DataConfig", "ModelConfig", "StageConfig", "ClaimConfig")]
    inner = [getattr(config, name) for name in ("LoraConfig", "FocalConfig", "NegativesConfig", "TemperatureConfig", "RadialHeadConfig")]
    reference = read(GUIDE).split("## Reference")[1]
    rows = {key for line in reference.splitlines() if line.startswith("| `") for key in re.findall(r"`(\w+)`", line.split("|")[1])}
    fields = {name for model in classes for name in model.model_fields}
    assert rows == fields
    for model in inner:
        for name in model.model_fields:
            assert re.search(rf"\b{name}\b", reference), f"{model.__name__}.{name}"


def test_defaults_in_the_guide_are_those_of_the_code():
    stage = config.StageConfig.read({"name": "a", "temperature": 1})
    checked = 0
    for line in read(GUIDE).split("### `[[arms.NAME]]`")[1].split("###")[0].splitlines():
        cells = line.split("|")
        if not line.startswith("| `"):
            continue
        names, defaults = re.findall(r"`(\w+)`", cells[1]), re.findall(r"`([^`]+)`", cells[3])
        for name, default in zip(names, defaults, strict=False):
            value = getattr(stage, name)
            value = getattr(value, "source", value)
            said = getattr(value, "value", value)
            assert str(said).lower() == default or float(said) == float(default), name
            checked += 1
    assert checked >= 14


def test_the_built_in_sets_in_the_guide_are_those_of_the_code():
    from normwise.data.builtin import list_sets

    section = read(ROOT / "docs/guide/data.md").split("## Built-in sets")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    assert rows == {row["name"] for row in list_sets()}
