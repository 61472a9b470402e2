"""The law of imports, seen to hold and seen to fail."""

import os
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check_law(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def run(config):
        code = cli.lint_imports(config_filename=str(config), no_cache=True)
        return code, capsys.readouterr().out

    return run


def test_every_room_imports_only_rooms_above_it(check_law):
    code, words = check_law(ROOT / "pyproject.toml")
    assert code == 0, words


def test_the_law_can_be_broken(check_law, tmp_path):
    upside_down = tmp_path / "law.toml"
    upside_down.write_text(
        "[tool.importlinter]\nroot_package = 'normwise'\n[[tool.importlinter.contracts]]\nname = 'upside down'\ntype = 'layers'\n"
        "layers = ['normwise.core', 'normwise.cli']\n",
        encoding="utf-8",
    )
    code, words = check_law(upside_down)
    assert code == 1
    assert "normwise.cli is not allowed to import" in words or "BROKEN" in words


def test_the_rooms_in_the_texts_are_the_rooms_in_the_tree():
    rooms = {entry.name for entry in os.scandir(ROOT / "src/normwise") if entry.is_dir() and entry.name != "__pycache__"}
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for room in rooms:
        assert f"| `{room}` |" in architecture
        assert f'"normwise.{room}",' in contracts
