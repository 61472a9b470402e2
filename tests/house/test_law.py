"""The law of imports, seen to hold and seen to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check_law():
    """A process of its own: the linter switches off every logger that there is."""

    def run(config):
        code = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(config_filename=sys.argv[1], no_cache=True))"
        done = subprocess.run([sys.executable, "-c", code, str(config)], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

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
