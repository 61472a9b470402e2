"""One fresh process of the inspection benchmark: it builds a case, works on it, and prints one JSON line."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SAMPLE = 20_000
_BLOCK = 50_000


def fill(out: np.ndarray) -> None:
    """Random directions off the center with log-normal norms, in pieces so that the making has no large peak."""
    rng = np.random.default_rng(0)
    for start in range(0, len(out), _BLOCK):
        part = rng.standard_normal((min(_BLOCK, len(out) - start), out.shape[1]), dtype=np.float32) + np.float32(0.2)
        out[start : start + len(part)] = part * rng.lognormal(0.0, 0.1, size=(len(part), 1)).astype(np.float32)


def make_factors(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "tokens": rng.integers(3, 200, size=rows).astype(np.float64),
        "frequency": rng.lognormal(size=rows),
        "depth": rng.normal(size=rows),
    }


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pairs(rows: int, width: int, *, rounds: int) -> dict:
    """A B A B ...: ours, and norms with one product of a sample."""
    from normwise.workflows.inspect import inspect

    x, factors = np.empty((rows, width), dtype=np.float32), make_factors(rows)
    fill(x)
    chosen = np.sort(np.random.default_rng(2).choice(rows, size=min(rows, SAMPLE), replace=False))

    def peer() -> None:
        np.linalg.norm(x, axis=1)
        some = x[chosen]
        some @ some.T

    inspect(x[:5_000], factors={name: value[:5_000] for name, value in factors.items()})
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        seconds["ours"].append(timed(lambda: inspect(x, factors=factors)))
        seconds["peer"].append(timed(peer))
    # The searches: 2,000 rows against 20,000, and 2,000 against themselves.
    flops = 2.0 * width * (2_000.0 * len(chosen) + 2_000.0**2)
    return {"seconds": seconds, "flops": flops, **machine(x[:2_000])}


def machine(left: np.ndarray) -> dict:
    """The rates under the floor: a large matrix product and a large copy, the best of five."""
    right = np.random.default_rng(2).standard_normal((8192, left.shape[1]), dtype=np.float32)
    out = np.empty((len(left), len(right)), dtype=np.float32)
    product = min(timed(lambda: np.matmul(left, right.T, out=out)) for _ in range(5))
    source = np.ones(1 << 26, dtype=np.float32)
    target = np.empty_like(source)
    copy = min(timed(lambda: np.copyto(target, source)) for _ in range(5))
    return {"gemm_flops": 2.0 * out.size * left.shape[1] / product, "copy_bytes": 2.0 * source.nbytes / copy}


def write(rows: int, width: int, *, path: Path) -> None:
    """Write the file in plain blocks: a mapped one would count among this process's memory."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
        for start in range(0, rows, _BLOCK):
            part = rng.standard_normal((min(_BLOCK, rows - start), width), dtype=np.float32)
            part *= rng.lognormal(0.0, 0.1, size=(len(part), 1)).astype(np.float32)
            file.write(part.tobytes())


def peak(rows: int, width: int, *, folder: str) -> dict:
    from normwise.workflows.inspect import inspect

    with tempfile.TemporaryDirectory(dir=folder or None) as place:
        path = Path(place) / "vectors.npy"
        write(rows, width, path=path)
        factors = make_factors(rows)
        seconds = timed(lambda: inspect(path, factors=factors))
    return {
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "vector_bytes": 4 * rows * width,
        "seconds": seconds,
    }


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["pairs", "peak"])
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="")
    options = parser.parse_args()
    if options.case == "pairs":
        result = pairs(options.rows, options.width, rounds=options.rounds)
    else:
        result = peak(options.rows, options.width, folder=options.folder)
    print(json.dumps(result))


if __name__ == "__main__":
    run()
