"""One fresh process of the evaluation benchmark: it builds a case, works on it, and prints one JSON line.

Times come from `pairs`, where both sides alternate in one process; peaks from `peak-*`, where only one side runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def make_queries(count: int, width: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, width), dtype=np.float32)


def write_candidates(path: Path, count: int, width: int) -> None:
    """Random directions with log-normal norms, written in pieces so that the making has no large peak."""
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, width))
    for start in range(0, count, 50_000):
        part = rng.standard_normal((min(50_000, count - start), width), dtype=np.float32)
        out[start : start + len(part)] = part * rng.lognormal(0.0, 0.1, size=(len(part), 1)).astype(np.float32)
    out.flush()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def pairs(queries: np.ndarray, candidates: np.ndarray, *, k: int, rounds: int) -> dict:
    """A B C A B C ...: faiss, ours with one ranking, ours with both rankings and the norms."""
    import faiss

    from normwise.theory.search import exact_top_k

    index = faiss.IndexFlatIP(candidates.shape[1])
    index.add(candidates)
    sides = {
        "faiss": lambda: index.search(queries, k),
        "one": lambda: exact_top_k(queries, candidates, k=k, rankings=("dot",)),
        "both": lambda: exact_top_k(queries, candidates, k=k),
    }
    few = queries[:64]
    index.search(few, k), exact_top_k(few, candidates, k=k)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            times[name].append(timed(work))
    found, peer = exact_top_k(queries[:200], candidates, k=k)["dot"], index.search(queries[:200], k)[1]
    agreement = float(np.mean([len(set(a) & set(b)) / k for a, b in zip(found.indices.tolist(), peer.tolist(), strict=True)]))
    return {"seconds": times, "agreement": agreement}


def machine(queries: np.ndarray) -> dict:
    """The rates under the floor: a large matrix product and a large copy, the best of five."""
    left = np.ascontiguousarray(queries[:2000])
    right = np.random.default_rng(2).standard_normal((8192, left.shape[1]), dtype=np.float32)
    out = np.empty((len(left), len(right)), dtype=np.float32)
    product = min(timed(lambda: np.matmul(left, right.T, out=out))[0] for _ in range(5))
    source = np.ones(1 << 26, dtype=np.float32)
    target = np.empty_like(source)
    copy = min(timed(lambda: np.copyto(target, source))[0] for _ in range(5))
    return {"gemm_flops": 2.0 * out.size * left.shape[1] / product, "copy_bytes": 2.0 * source.nbytes / copy}


def peak(case: str, queries: np.ndarray, candidates: np.ndarray, *, k: int) -> dict:
    if case == "peak-faiss":
        import faiss

        index = faiss.IndexFlatIP(candidates.shape[1])
        index.add(candidates)
        index.search(queries, k)
    else:
        from normwise.theory.search import exact_top_k

        exact_top_k(queries, candidates, k=k)
    return {"peak_bytes": peak_bytes(), "vector_bytes": queries.nbytes + candidates.nbytes}


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["pairs", "peak-ours", "peak-ours-mapped", "peak-faiss"])
    parser.add_argument("--queries", type=int, required=True)
    parser.add_argument("--candidates", type=int, required=True)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidates.npy"
        write_candidates(path, options.candidates, options.width)
        queries = make_queries(options.queries, options.width)
        candidates = np.load(path, mmap_mode="r" if options.case == "peak-ours-mapped" else None)
        if options.case == "pairs":
            result = pairs(queries, candidates, k=options.k, rounds=options.rounds) | machine(queries)
        else:
            result = peak(options.case, queries, candidates, k=options.k)
    print(json.dumps(result))


if __name__ == "__main__":
    run()
