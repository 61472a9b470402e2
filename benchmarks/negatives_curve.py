"""The curve of InfoNCE risks over every number of negatives: what it costs beside the score matrix product, and in memory.

The curve (risks at k = 1, 2, 4, ..., the jackknife of the limit, the spread of e^s) over a pool is to take at most 1.3x the time of the
product of queries and pool alone, below 1 GiB in all. The naive way keeps the whole matrix.

Run: python benchmarks/negatives_curve.py [--queries 10000] [--pool 100000] [--width 384] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from normwise.theory.in_threads import allowed_threads
from normwise.theory.infonce_estimates import jackknife_cross_entropy, risk_curve
from normwise.theory.negative_sums import negative_sums

RESULT = Path(__file__).parent / "results" / "negatives_curve.json"
BOUND, MOST_GIB, TAU, TILE = 1.3, 1.0, 0.05, 4096


def unit(random: np.random.Generator, rows: int, width: int) -> np.ndarray:
    """Directions around a common one, as those of encoders are."""
    vectors = random.standard_normal((rows, width), dtype=np.float32)
    vectors[:, 0] += 3.0
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def product(queries: np.ndarray, pool: np.ndarray) -> None:
    """The score matrix alone, tile after tile into the same memory."""
    out = np.empty((len(queries), TILE), dtype=np.float32)
    for low in range(0, len(pool), TILE):
        part = pool[low : low + TILE]
        np.matmul(queries, part.T, out=out[:, : len(part)])


def curve(queries: np.ndarray, pool: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """Ours: the risk of the whole pool and the limit."""
    sums = negative_sums(queries, pool)
    return float(risk_curve(positive, sums).risk[-1]), jackknife_cross_entropy(positive, sums).value


def naive(queries: np.ndarray, pool: np.ndarray, positive: np.ndarray) -> float:
    """The whole matrix, once, for the risk of the whole pool alone."""
    scores = queries @ pool.T
    highest = scores.max(axis=1)
    logs = np.log(np.exp(scores - highest[:, None]).mean(axis=1)) + highest
    return float(np.logaddexp(-np.log(len(pool)), logs - positive).mean())


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_gib(arguments: list[str]) -> float:
    """Peak memory of a fresh process that does our part alone."""
    found = subprocess.run([sys.executable, __file__, *arguments, "--alone"], check=True, capture_output=True, text=True)
    return float(found.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--pool", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="only our part, once; prints its peak memory in GiB")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    queries, pool = unit(random, options.queries, options.width) / np.float32(TAU), unit(random, options.pool, options.width)
    positive = np.full(options.queries, 0.6 / TAU)
    if options.alone:
        curve(queries, pool, positive)
        # Of this process alone: what getrusage says includes the parent that it was forked from.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        print(int(status.split("VmHWM:")[1].split()[0]) / 2**20)
        return
    ours, base, whole = [], [], []
    for _ in range(options.rounds):
        base.append(seconds(lambda: product(queries, pool)))
        ours.append(seconds(lambda: curve(queries, pool, positive)))
        whole.append(seconds(lambda: naive(queries, pool, positive)))
    ratios = [mine / theirs for mine, theirs in zip(ours, base, strict=True)]
    against = [mine / theirs for mine, theirs in zip(ours, whole, strict=True)]
    peak = peak_gib([f"--{name}={getattr(options, name)}" for name in ("queries", "pool", "width")])
    size = f"{options.queries:,} queries x {options.pool:,} negatives x {options.width}"
    shared = {"unit": "x", "rounds": options.rounds}
    result = {
        "machine": f"{allowed_threads()} cores, {platform.system()}, Python {platform.python_version()}, numpy {np.__version__}",
        "claims": [
            {
                "claim": f"the whole curve of risks, {size}, against the score product alone",
                **{"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
                **shared,
                "bound": BOUND,
                "holds": statistics.median(ratios) <= BOUND,
                "note": f"{statistics.median(ours):.2f} s against {statistics.median(base):.2f} s",
            },
            {
                "claim": "the same against the naive full matrix, which gives one k",
                **{"median": statistics.median(against), "min": min(against), "max": max(against)},
                **shared,
                "bound": None,
                "holds": None,
                "note": f"{statistics.median(whole):.2f} s and {2 * 4 * options.queries * options.pool / 2**30:.1f} GiB",
            },
            {
                "claim": "its peak memory, the vectors and the interpreter included",
                **dict.fromkeys(("median", "min", "max"), peak),
                "unit": "GiB",
                "rounds": 1,
                "bound": MOST_GIB,
                "holds": peak <= MOST_GIB,
                "note": "",
            },
        ],
    }
    print(json.dumps(result, indent=2))
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
