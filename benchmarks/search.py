"""Time of a batch of searches with norms, probability and abstention, against raw FAISS over the same vectors.

The peer is faiss.IndexFlatIP.search on prepared float32 queries: rows and inner products, nothing else. Ours takes raw queries,
checks them, and returns ids, scores under the similarity, raw norms, ties in order, the probability of every hit by a logistic
on score, margin and norms, and whether to abstain. Vectors have norms of spread .5 under dot. The two take turns (A B B A ...).
Claim: at most 1.05 times.

Run: python benchmarks/search.py [--rounds 5] [--candidates 1000000] [--width 384] [--batch 1000] [--k 10] [--similarity dot]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import faiss
import numpy as np

from normwise.core.calibration_records import Fingerprint, ThresholdRecord, VerdictRecord
from normwise.core.files import write_json
from normwise.core.index_config import IndexConfig
from normwise.core.similarity import parse_similarity
from normwise.index.build import build_index
from normwise.theory.calibration import Calibration
from normwise.theory.directions import exact_norms
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.lower_hits import LowerHits
from normwise.workflows.search import Searcher

RESULTS = Path(__file__).parent / "results" / "search.json"
BOUND = 1.05


def vectors_of(count: int, width: int, *, seed: int) -> np.ndarray:
    """Gaussian directions with log norms of standard deviation .5, made in parts."""
    generator = np.random.default_rng(seed)
    result = np.empty((count, width), dtype=np.float32)
    for start in range(0, count, 10_000):
        part = result[start : start + 10_000]
        part[:] = generator.standard_normal(part.shape, dtype=np.float32)
        part *= np.exp(0.5 * generator.standard_normal((len(part), 1), dtype=np.float32)) / np.float32(width**0.5)
    return result


def calibration_for(index, queries: np.ndarray, similarity: str) -> Calibration:
    """A calibration of this index, fitted on these queries with relevance drawn by the margin: as fast as a real one."""
    found = index.search(queries, k=10)
    hits = HitLists(found.scores, exact_norms(queries, name="queries"), found.norms, parse_similarity(similarity))
    relevant = np.random.default_rng(2).random(hits.scores.shape) < 0.5
    judged = JudgedHits(hits, relevant, np.arange(len(hits)), np.ones(len(hits), dtype=bool))
    fitted = LogisticCalibrator.fit(judged, kind="logistic_norm")
    manifest = index.manifest
    return Calibration(
        fingerprint=Fingerprint(
            model=manifest.model,
            similarity=similarity,
            search=manifest.search_kind,
            candidates=len(index),
            corpus_texts=manifest.corpus_texts,
            corpus_vectors=manifest.corpus_vectors,
            depth=10,
        ),
        calibrator=fitted,
        lower_hits=LowerHits.fit(judged, fitted.predict(hits)),
        threshold=ThresholdRecord(
            precision_target=0.5, confidence=0.9, probability=0.5, coverage=0.5, answered=500, precision=0.5, precision_low=0.5
        ),
        verdict=VerdictRecord(label="usable", text="for timing only"),
        target=0.5,
        confidence_level=0.9,
        created=datetime.now(UTC).date().isoformat(),
    )


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
            queries=queries[:50],
        )
        del vectors
        raw = faiss.read_index(str(Path(folder) / "index" / "vectors.faiss"))
        searcher = Searcher.open(index, calibration=calibration_for(index, queries, options.similarity))

        def ours() -> float:
            def search() -> None:
                found = searcher.search(queries, k=options.k)
                # Columns are made when they are asked for.
                _ = found.ids, found.scores, found.norms, found.probabilities, found.abstains

            return timed(search)

        def theirs() -> float:
            return timed(lambda: raw.search(queries, options.k))

        ours(), theirs()
        pairs = []
        for turn in range(options.rounds):
            first = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
            seconds = {which: which() for which in first}
            pairs.append((seconds[ours], seconds[theirs]))
            print(pairs[-1], flush=True)
        index.close()
    ratios = [a / b for a, b in pairs]
    median = statistics.median(ratios)
    threads = faiss.omp_get_max_threads()
    claim = {
        "claim": f"search with probability and abstention / faiss.IndexFlatIP: {options.batch:,} queries x {options.candidates:,} x "
        f"{options.width}, k = {options.k}",
        "median": median,
        "min": min(ratios),
        "max": max(ratios),
        "unit": "x",
        "rounds": options.rounds,
        "bound": BOUND,
        "holds": median <= BOUND,
        "note": f"{statistics.median(a for a, _ in pairs):.2f} s against {statistics.median(b for _, b in pairs):.2f} s a batch",
    }
    machine = f"{os.cpu_count()} cores, {threads} threads, {platform.system()} {platform.machine()}, faiss {faiss.__version__}"
    write_json(RESULTS, {"machine": machine, "claims": [claim]})
    print(claim)


if __name__ == "__main__":
    main()
