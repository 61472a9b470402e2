"""Token files that are counted on every engine, and counts that are killed in the middle."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from normwise.data.token_files import TokenReading, open_token_files
from normwise.engine.token_counting import Counting, count_tokens
from normwise.theory.signature_sketch import random_probes
from normwise.theory.stream_counts import CountPlan

VOCABULARY, END = 30, 0


def write_ids(folder, *, documents=60, longest=80, seed=0):
    rng = np.random.default_rng(seed)
    texts = [np.append(rng.zipf(1.4, rng.integers(1, longest)) % 29 + 1, END) for _ in range(documents)]
    np.save(folder / "ids.npy", np.concatenate(texts).astype(np.uint16))


def opened(folder, *, shard_tokens=50):
    return open_token_files(folder / "ids.npy", TokenReading(vocabulary=VOCABULARY, end=END, shard_tokens=shard_tokens))


def plan_of(**settings):
    settings = {"vocabulary": VOCABULARY, "presence": "prefix", "near": 3, "contexts": np.arange(9)} | settings
    probes = random_probes(3, 2, settings["vocabulary"], seed=0).astype(np.int8)
    return CountPlan(**({"probes": probes[:, 0], "pairs": probes[:2]} | settings))


def same(one, two):
    return one.arrays.keys() == two.arrays.keys() and all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)


def counted_until_killed(folder, workers):
    """Count with progress, and die after the twelfth report as kill -9 does it; with several processes, the parent dies."""
    folder, place = Path(folder), 0

    def told(done, total):
        nonlocal place
        place += 1
        if place == 12:
            os.kill(os.getpid(), signal.SIGKILL)

    count_tokens(opened(folder), plan_of(), Counting(workers=workers, folder=folder / "progress", save_every=2), told=told)


def counted_on_ray(folder, workers):
    """Whether a cluster that is started for it counts what one process does, and is gone afterwards."""
    import ray

    files = opened(Path(folder))
    found = count_tokens(files, plan_of(), Counting(engine="ray", workers=workers))
    return same(found, count_tokens(files, plan_of(), Counting(workers=1))) and not ray.is_initialized()


if __name__ == "__main__":
    if sys.argv[3:] == ["ray"]:
        sys.exit(0 if counted_on_ray(sys.argv[1], int(sys.argv[2])) else 3)
    counted_until_killed(sys.argv[1], int(sys.argv[2]))
