"""Makefile, versions and the collection of benchmarks."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_exact_sorted_and_complete():
    pins = pinned()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", pin) for pin in pins)
    assert pins == sorted(pins, key=str.lower)
    names = {normal(pin.split("==")[0]) for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(need for name in ("train", "index", "report", "demo", "dev") for need in extras[name])]
    missing = {normal(re.split(r"[\[<>=]", need)[0]) for need in wanted} - names - {"normwise"}
    assert missing == set()


@pytest.mark.parametrize("pin", ["torch==2.13.0", "transformers==5.23.0", "sentence-transformers==6.0.1"])
def test_the_versions_that_belong_together(pin):
    assert pin in pinned()
    assert any(line.startswith("peft==0.21.") for line in pinned())


@pytest.fixture
def project(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def make(folder, *arguments):
    return subprocess.run(["make", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)


@needs_make
@pytest.mark.slow
def test_a_ready_environment_costs_nothing(project):
    (project / ".venv/.installed").write_text(f"{project}\n", encoding="utf-8")
    done = make(project, "-n", "test")
    assert done.returncode == 0, done.stderr
    assert "pytest" in done.stdout
    assert "pip" not in done.stdout


@needs_make
@pytest.mark.slow
@pytest.mark.parametrize("stamp", [None, "/another/folder\n"])
def test_a_half_made_or_moved_environment_is_built_anew(project, stamp):
    if stamp:
        (project / ".venv/.installed").write_text(stamp, encoding="utf-8")
    done = make(project, "-n", "test")
    assert "rm -rf .venv" in done.stdout
    assert 'if [ -n "rebuild" ]' in done.stdout


@needs_make
@pytest.mark.slow
def test_newer_constraints_update_in_place(project):
    stamp = project / ".venv/.installed"
    stamp.write_text(f"{project}\n", encoding="utf-8")
    future = stamp.stat().st_mtime + 10
    os.utime(project / "constraints.txt", (future, future))
    done = make(project, "test", "TEST_ARGS=-x")
    assert "Updating .venv: pyproject.toml or constraints.txt is newer." in done.stdout
    assert stamp.read_text(encoding="utf-8") == f"{project}\n"


@needs_make
@pytest.mark.slow
def test_a_wrong_python_is_refused_with_the_next_step(project):
    done = make(project, "test", "PYTHON=/bin/false")
    assert done.returncode != 0
    assert "normwise needs Python 3.11, 3.12 or 3.13, and /bin/false is not one." in done.stderr
    assert "make test PYTHON=/path/to/python3" in done.stderr


@pytest.fixture
def collector():
    spec = importlib.util.spec_from_file_location("benchmarks_run", ROOT / "benchmarks/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_benchmarks_are_found_without_running_them(collector, tmp_path):
    (tmp_path / "one.py").write_text("def main():\n    raise SystemExit('must not run')\n", encoding="utf-8")
    (tmp_path / "helper.py").write_text("def other():\n    pass\n", encoding="utf-8")
    (tmp_path / "study.py").write_text("def main():\n    pass\n", encoding="utf-8")
    assert [path.stem for path in collector.benchmarks(tmp_path)] == ["one"]
    assert "imports" in {path.stem for path in collector.benchmarks()}


def test_results_become_a_table(collector, tmp_path):
    many = {
        "machine": "m",
        "claims": [{"claim": "a|b", "median": 1.0, "min": 0.9, "max": 1.1, "rounds": 5, "bound": 0.5, "holds": False, "unit": "x"}],
    }
    flat = {"machine": "m", "claim": "c", "ratio_median": 1.0, "ratio_min": 0.9, "ratio_max": 1.1, "seconds_ours": [1, 2], "bound": 1.05}
    for name, found in (("one", many), ("two", flat)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")
    text = collector.table(tmp_path)
    assert "| one | a\\|b | 1x (0.9 to 1.1) | 5 | 0.5x | **no** |  |" in text
    assert "| two | c | 1x (0.9 to 1.1) | 2 | 1.05x | yes |  |" in text
    assert "- one, two: m" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{collector.BEGIN}\nold\n{collector.END}\nafter\n", encoding="utf-8")
    for _ in range(2):
        collector.write_page(page, text)
    assert page.read_text(encoding="utf-8") == f"before\n{collector.BEGIN}\n\n{text}\n\n{collector.END}\nafter\n"
