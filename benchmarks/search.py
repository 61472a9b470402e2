"""Time of a batch of searches, with ids, norms and exact scores, against raw FAISS over the same vectors.

The peer is faiss.IndexFlatIP.search on prepared float32 queries: rows and inner products, nothing else. Ours takes raw queries,
checks them, and returns ids, scores under the similarity, raw norms and lengths, ties in order. Vectors have norms of spread .5
under dot. The two take turns (A B A B ...). Claim: at most 1.05 times, for the exact kind.

Run: python benchmarks/search.py [--rounds 5] [--candidates 1000000] [--width 384] [--batch 1000] [--k 10] [--similarity dot]
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from normwise.core.index_config import IndexConfig
from normwise.index.build import build_index
from normwise.index.faiss_index import FaissIndex

RESULTS = Path(__file__).parent / "results" / "search.json"


def vectors_of(count: int, width: int, *, seed: int) -> np.ndarray:
    """Gaussian directions with log norms of standard deviation .5, made in parts."""
    generator = np.random.default_rng(seed)
    result = np.empty((count, width), dtype=np.float32)
    for start in range(0, count, 10_000):
        part = result[start : start + 10_000]
        part[:] = generator.standard_normal(part.shape, dtype=np.float32)
        part *= np.exp(0.5 * generator.standard_normal((len(part), 1), dtype=np.float32)) / np.float32(width**0.5)
    return result


def timed(search) -> float:
    started = time.perf_counter()
    search()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 5), ("candidates", 1_000_000), ("width", 384), ("batch", 1000), ("k", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--similarity", default="dot")
    options = parser.parse_args()
    vectors = vectors_of(options.candidates, options.width, seed=0)
    queries = vectors_of(options.batch, options.width, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            IndexConfig(similarity=options.similarity),
            Path(folder) / "index",
            ids=[f"document-{row}" for row in range(len(vectors))],
            vectors=vectors,
            lengths=np.full(len(vectors), 20.0),
            queries=queries[:50],
        )
        if not isinstance(index, FaissIndex):
            raise SystemExit("expected the embedded index")
        del vectors
        raw = faiss.read_index(str(Path(folder) / "index" / "vectors.faiss"))

        def ours() -> float:
            return timed(lambda: index.search(queries, k=options.k))

        def theirs() -> float:
            return timed(lambda: raw.search(queries, options.k))

        ours(), theirs()
        rounds = [(ours(), theirs()) for _ in range(options.rounds)]
        index.close()
    ratios = sorted(a / b for a, b in rounds)
    result = {
        "name": "search",
        "claim": "exact search with ids, norms and scores costs at most 1.05 times raw FAISS "
        f"({options.candidates:,} x {options.width}, batch of {options.batch:,}, k = {options.k})",
        "bound": 1.05,
        "ratio_median": float(np.median(ratios)),
        "ratio_min": ratios[0],
        "ratio_max": ratios[-1],
        "seconds_ours": [a for a, _ in rounds],
        "seconds_peer": [b for _, b in rounds],
        "settings": vars(options),
        "threads": faiss.omp_get_max_threads(),
        "machine": platform.processor() or platform.machine(),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
