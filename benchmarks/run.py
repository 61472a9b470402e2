"""Runs every benchmark in a fresh process and puts their figures into docs/benchmarks.md.

A benchmark is a script in this folder with a function `main`, which writes benchmarks/results/<its name>.json:

    {"machine": "2 cores, Linux, Python 3.11.7, torch 2.13.0",
     "claims": [{"claim": "in words", "median": 1.02, "min": 0.99, "max": 1.05, "unit": "x", "rounds": 5,
                 "bound": 1.05, "holds": true, "note": "the floor, in words"}]}

Usage: run.py [NAME ...] [--list] [--table]; without names, all of them; --table only rewrites the table.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
# Long, with pages of their own: `make study` and the commands that they name themselves.
PROFILES = (
    "study",
    "norm_study",
    "packaged_models",
    "concepts",
    "calibration_study",
    "negatives_study",
    "staircase_study",
    "pictures_study",
)
BEGIN, END = "<!-- results: written by benchmarks/run.py -->", "<!-- end of results -->"


def benchmarks(folder: Path = HERE) -> list[Path]:
    """The scripts that define main, read without running them; this one is not among them."""

    def defines_main(path: Path) -> bool:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)

    skipped = {Path(__file__).stem, *PROFILES}
    return [path for path in sorted(folder.glob("*.py")) if path.stem not in skipped and defines_main(path)]


def claims_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The claims of a result file; one with a single claim may stand flat, as claim, ratio_median, ratio_min, ratio_max."""
    if "claims" in found:
        return found["claims"]
    figures = {name: found[f"ratio_{name}"] for name in ("median", "min", "max")}
    bound = found.get("bound")
    rounds = found.get("rounds") or len(found.get("seconds_ours", ()))
    holds = None if bound is None else figures["median"] <= bound
    return [
        {"claim": found["claim"], "unit": "x", "rounds": rounds, "bound": bound, "holds": holds, "note": found.get("note", ""), **figures}
    ]


def table(results: Path) -> str:
    """All claims of all result files as one Markdown table, and the machines they were measured on."""
    lines = ["| benchmark | claim | median (min to max) | rounds | bound | holds | note |", "|---|---|---|---|---|---|---|"]
    machines: dict[str, list[str]] = {}
    for path in sorted(results.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        machines.setdefault(found["machine"], []).append(path.stem)
        for claim in claims_of(found):
            unit = claim.get("unit", "")
            figures = f"{claim['median']:.3g}{unit} ({claim['min']:.3g} to {claim['max']:.3g})"
            bound = "" if claim.get("bound") is None else f"{claim['bound']:.3g}{unit}"
            holds = {True: "yes", False: "**no**", None: ""}[claim.get("holds")]
            cells = [path.stem, claim["claim"], figures, str(claim["rounds"]), bound, holds, claim.get("note", "")]
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    if len(lines) == 2:
        return ""
    where = [f"- {', '.join(names)}: {machine}" for machine, names in machines.items()]
    return "\n".join([*lines, "", "Measured on:", "", *where])


def write_page(page: Path, text: str) -> None:
    """Replace what stands between the two marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    body = f"\n{text}\n" if text else "\n"
    page.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}" if text else f"{before}{BEGIN}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str]) -> int:
    known = {path.stem: path for path in benchmarks()}
    names = [argument for argument in arguments if not argument.startswith("--")]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    if "--list" in arguments:
        print("\n".join(known))
        return 0
    failed = []
    for name in [] if "--table" in arguments else names or list(known):
        print(f"{name} ...", flush=True)
        started = time.monotonic()
        if subprocess.run([sys.executable, str(known[name])], check=False).returncode:
            failed.append(name)
        print(f"{name}: {'FAILED' if name in failed else 'done'} after {time.monotonic() - started:.0f} s", flush=True)
    write_page(PAGE, table(RESULTS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
