"""Claims: `import normwise` takes under 0.1 s and `normwise --help` under 0.5 s, the interpreter's own start included.

The peers, in turn with them: a bare interpreter, which is the floor, and `import numpy`.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from normwise.core.files import write_json

ROUNDS = 15
CASES = {
    "bare": ["-c", "pass"],
    "import normwise": ["-c", "import normwise"],
    "import numpy": ["-c", "import numpy"],
    "normwise --help": ["-m", "normwise", "--help"],
}


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def claim(words: str, values: list[float], *, unit: str, bound: float | None = None, note: str = "") -> dict[str, object]:
    median = statistics.median(values)
    holds = None if bound is None else median < bound
    figures = {"median": median, "min": min(values), "max": max(values), "unit": unit, "rounds": len(values)}
    return {"claim": words, **figures, "bound": bound, "holds": holds, "note": note}


def main() -> None:
    for arguments in CASES.values():
        seconds(arguments)
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, arguments in CASES.items():
            times[name].append(seconds(arguments))
    bare = statistics.median(times["bare"])
    note = f"wall time of the whole process; a bare interpreter takes {bare:.3f} s of it"

    def ratio(name: str, peer: str) -> list[float]:
        return [ours / theirs for ours, theirs in zip(times[name], times[peer], strict=True)]

    claims = [
        claim("import normwise", times["import normwise"], unit=" s", bound=0.1, note=note),
        claim("normwise --help", times["normwise --help"], unit=" s", bound=0.5, note=note),
        claim("import normwise / bare interpreter", ratio("import normwise", "bare"), unit="x"),
        claim("import normwise / import numpy", ratio("import normwise", "import numpy"), unit="x"),
    ]
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    write_json(Path(__file__).parent / "results" / "imports.json", {"machine": machine, "claims": claims})
    for found in claims:
        print(found)


if __name__ == "__main__":
    main()
