"""Claims: 50 checkpoints are compared for 2,000 tokens within a minute, and each synthetic demo with its ten seeds ends within one.

- Alignment: orders 0 and 1 of 2,000 tokens at 50 embeddings of 384 values, figures and report, gains at 8 steps among them.
- The whole command: 50 checkpoints of 30,000 x 384 float32 on disk, checked, then compared with 4 million ids from a file.
- Demos: `staircase_demo` of mod, add and parity, ten seeds each, report and maps included.

Embeddings are a random walk from a random start: what is measured does not depend on what they have learned. Times are wall times.

Run: python benchmarks/staircase_track.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from normwise.core.files import write_json
from normwise.engine.order_counting import OrderCounting, orders_of_stream
from normwise.theory.token_stream import TokenStream
from normwise.training.stair_track import StairTrack
from normwise.workflows.staircase_demo import staircase_demo
from normwise.workflows.staircase_track import CorpusReading, staircase_track

RESULT = Path(__file__).parent / "results" / "staircase_track.json"
CHECKPOINTS, COMPARED, WIDTH, VOCABULARY, IDS = 50, 2_000, 384, 30_000, 4_000_000
MINUTE = 60.0


def ids_of(count: int) -> np.ndarray:
    """Zipf's law over the vocabulary; each id follows from a few before it now and then, so that signatures differ."""
    random = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, VOCABULARY + 1)
    ids = random.choice(VOCABULARY, size=count, p=chances / chances.sum())
    repeated = random.random(count) < 0.3
    ids[1:][repeated[1:]] = (ids[:-1][repeated[1:]] * 7 + 1) % VOCABULARY
    return ids.astype(np.uint16)


def walk(rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    table = random.normal(size=(rows, WIDTH)).astype(np.float32)
    drift = random.normal(size=(rows, WIDTH)).astype(np.float32)
    found = []
    for _ in range(CHECKPOINTS):
        table = table + np.float32(0.1) * drift + np.float32(0.02) * random.normal(size=table.shape).astype(np.float32)
        found.append(table)
    return found


def seconds(work: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return found


def claim(words: str, took: list[float], note: str) -> dict[str, object]:
    median = statistics.median(took)
    return {
        "claim": words,
        "median": median,
        "min": min(took),
        "max": max(took),
        "rounds": len(took),
        "unit": " s",
        "bound": MINUTE,
        "holds": median <= MINUTE,
        "note": note,
    }


def alignment(rounds: int) -> dict[str, object]:
    stream = TokenStream(ids_of(IDS).astype(np.int64), vocabulary=VOCABULARY)
    counted = orders_of_stream(stream, OrderCounting(orders=(0, 1), tokens=COMPARED, window=32))
    copies = walk(counted.signatures.tokens.size)

    def work() -> object:
        track = StairTrack(counted)
        for step, rows in enumerate(copies):
            track.record_rows(step, rows)
        return track.report()

    return claim(
        f"alignment of {COMPARED:,} tokens, orders 0 and 1, at {CHECKPOINTS} embeddings, with the report",
        seconds(work, rounds),
        f"{counted.next_tokens:,} next tokens at order 0, {counted.contexts} next tokens and contexts at order 1",
    )


def whole(rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "ids.npy", ids_of(IDS))
        for step, table in enumerate(walk(VOCABULARY)):
            place = folder / "run" / f"checkpoint-{step + 1}"
            place.mkdir(parents=True)
            save_file({"model.embed_tokens.weight": table}, place / "model.safetensors")
        settings = CorpusReading(orders=(0, 1), window=32)
        took = seconds(lambda: staircase_track(folder / "run", folder / "ids.npy", settings), rounds)
    size = CHECKPOINTS * VOCABULARY * WIDTH * 4 / 2**30
    return claim(
        f"`staircase track`: {CHECKPOINTS} checkpoints of {VOCABULARY:,} x {WIDTH} checked, {IDS:,} ids counted, 200 tokens compared",
        took,
        f"{size:.1f} GiB of tables, in the page cache",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    claims = [alignment(options.rounds), whole(options.rounds)]
    for task in ("mod", "add", "parity"):
        took = seconds(lambda task=task: staircase_demo(task), options.rounds)
        claims.append(claim(f"`staircase demo --task {task}`, ten seeds", took, "figures, nulls, gains and maps included"))
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    write_json(RESULT, {"machine": f"{machine}, numpy {np.__version__}, torch {torch.__version__}", "claims": claims})
    for each in claims:
        print(each)


if __name__ == "__main__":
    main()
