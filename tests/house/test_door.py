"""The door is light, and what it promises is there."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import normwise

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "numpy", "pydantic", "scipy", "sklearn", "transformers", "sentence_transformers", "typer", "rich"}
WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Absent())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "loaded"), [("import normwise", set()), ("import normwise; normwise.StageConfig", {"pydantic"})])
def test_importing_loads_nothing_heavy(code, loaded):
    script = f"import sys; {code}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == loaded


@pytest.mark.slow
def test_theory_and_core_work_without_torch():
    rooms = ("theory", "core")
    modules = [f"normwise.{room}.{path.stem}" for room in rooms for path in sorted((ROOT / "src/normwise" / room).glob("[a-z]*.py"))]
    script = "\n".join([WITHOUT_TORCH, *(f"import {module}" for module in modules), "print('all')"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "all\n", done.stderr


def test_the_door_is_small_and_every_name_opens():
    assert set(normwise.__all__) == set(normwise._DOOR)
    assert len(normwise.__all__) <= 24
    assert set(normwise.__all__) <= set(dir(normwise))
    for name in normwise.__all__:
        assert getattr(normwise, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'normwise' has no attribute 'Encodr'"):
        normwise.Encodr  # noqa: B018 - reading it is the test


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == normwise.__version__
