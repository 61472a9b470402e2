"""Claim: a table of 5,000 items runs 2,000 steps at width 64 in under a minute on two cores, every item at every step.

The floor, in turn with it: one draw of the random numbers that any simulation of it needs, a Gaussian of width 64 for each
visit. The Zipf case is the same table with visit rates 1/rank: what rows that wait cost.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np

from normwise.core.files import write_json
from normwise.workflows.simulate import SimulationConfig, simulate_norms

BASE = {"items": 5000, "steps": 2000, "width": 64, "weight_decay": 0.02}
CASES = {
    "sgd, every item at every step": {},
    "adamw, every item at every step": {"optimizer": "adamw", "learning_rate": 0.01},
    "adamw, zipf visits": {"optimizer": "adamw", "learning_rate": 0.01, "zipf": 1.0},
}


def timed(work) -> tuple[float, float]:
    """Seconds on the wall, and of the processor: on a busy machine the second is what one core of its own would take."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - busy


def floor(items: int, steps: int, width: int) -> None:
    random = np.random.Generator(np.random.SFC64(0))
    block = np.empty((items, width))
    for _ in range(steps):
        random.standard_normal(out=block)


def claim(words: str, values: list[float], *, unit: str, bound: float | None = None, note: str = "") -> dict[str, object]:
    median = statistics.median(values)
    holds = None if bound is None else median < bound
    figures = {"median": median, "min": min(values), "max": max(values), "unit": unit, "rounds": len(values)}
    return {"claim": words, **figures, "bound": bound, "holds": holds, "note": note}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=BASE["items"])
    parser.add_argument("--steps", type=int, default=BASE["steps"])
    options = parser.parse_args()
    base = BASE | {"items": options.items, "steps": options.steps}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in (*CASES, "floor")}
    for _ in range(options.rounds):
        times["floor"].append(timed(lambda: floor(options.items, options.steps, 64)))
        for name, more in CASES.items():
            times[name].append(timed(lambda more=more: simulate_norms(SimulationConfig.read(base | more))))
    least = statistics.median(wall for wall, _ in times["floor"])
    size = f"{options.items} items x {options.steps} steps x 64"
    claims = []
    for name in CASES:
        busy = statistics.median(cpu for _, cpu in times[name])
        note = f"one thread, float64, {busy:.1f} s of the processor; the floor takes {least:.1f} s"
        claims.append(claim(f"{size}, {name}", [wall for wall, _ in times[name]], unit=" s", bound=60.0, note=note))
    pairs = zip(times["sgd, every item at every step"], times["floor"], strict=True)
    claims.append(claim(f"{size}, sgd / its floor (processor time)", [ours / peer for (_, ours), (_, peer) in pairs], unit="x"))
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"
    )
    write_json(Path(__file__).parent / "results" / "simulate.json", {"machine": machine, "claims": claims})
    for found in claims:
        print(found)


if __name__ == "__main__":
    main()
