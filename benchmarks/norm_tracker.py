"""Claim: the norm tracker adds less than 5% to a training step of sentence-transformers.

Same model, data, batches and trainer, with and without the tracker among the callbacks; the two take turns (A B B A ...), each round in a
fresh trainer, timed from the end of the first step to the end of the last, so that the encodings before and after training, which do not
grow with its length, stay out.

Run: python benchmarks/norm_tracker.py [--rounds 6] [--steps 8] [--batch 64] [--layers 2] [--tokens 24] [--items 512]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

from normwise.core.config import ModelConfig
from normwise.core.files import write_json
from normwise.models.loading import load_base
from normwise.training.gradient_ledger import GradientLedger
from normwise.training.norm_tracker import NormTracker
from normwise.training.tracked_items import TrackedTexts

RESULTS = Path(__file__).parent / "results" / "norm_tracker.json"
BOUND = 1.05
WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part".split()


class Clock(TrainerCallback):
    """Seconds on the wall, and of the processor, from the end of the first step to the end of the last."""

    def __init__(self) -> None:
        self.first = self.last = (0.0, 0.0)

    def on_step_end(self, args, state, control, **kwargs):
        self.last = (time.perf_counter(), time.process_time())
        if state.global_step == 1:
            self.first = self.last

    def per_step(self, steps: int) -> tuple[float, float]:
        return tuple((last - first) / (steps - 1) for first, last in zip(self.first, self.last, strict=True))


class Spent:
    """Processor seconds inside the tracker's own functions: what a ratio of two noisy runs cannot resolve."""

    PARTS = ((TrackedTexts, "_find"), (GradientLedger, "watch"), (NormTracker, "_remember"), (NormTracker, "before_step"))

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self):
        self._kept = [(owner, name, getattr(owner, name)) for owner, name in self.PARTS]
        for owner, name, original in self._kept:
            setattr(owner, name, self._timed(original))
        return self

    def __exit__(self, *_):
        for owner, name, original in self._kept:
            setattr(owner, name, original)

    def _timed(self, original):
        def timed(*args, **kwargs):
            started = time.process_time()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - started

        return timed


def one(options: argparse.Namespace, texts: list[str], *, tracked: bool) -> tuple[float, float]:
    clock = Clock()
    model = load_base(ModelConfig(layers=options.layers, max_tokens=options.tokens))
    # Half of every batch is tracked: the anchors.
    callbacks = [NormTracker(TrackedTexts(model, texts[: options.items])), clock] if tracked else [clock]
    half = len(texts) // 2
    with tempfile.TemporaryDirectory() as folder:
        SentenceTransformerTrainer(
            model=model,
            args=SentenceTransformerTrainingArguments(
                output_dir=folder,
                max_steps=options.steps,
                per_device_train_batch_size=options.batch,
                use_cpu=not torch.cuda.is_available(),
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"anchor": texts[:half], "positive": texts[half:]}),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=callbacks,
        ).train()
    return clock.per_step(options.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 6), ("steps", 8), ("batch", 64), ("layers", 2), ("tokens", 24), ("items", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    count = 2 * options.batch * options.steps
    texts = [f"{row} " + " ".join(generator.choice(WORDS, size=options.tokens)) for row in range(count)]
    one(options, texts, tracked=True)
    pairs = []
    for turn in range(options.rounds):
        order = (True, False) if turn % 2 == 0 else (False, True)
        found = {tracked: one(options, texts, tracked=tracked) for tracked in order}
        pairs.append((found[True], found[False]))
    ratios = {kind: [a[place] / b[place] for a, b in pairs] for place, kind in enumerate(("wall", "processor"))}
    machine = (
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, {platform.system()} {platform.machine()}, torch {torch.__version__}"
    )
    claims, own = [], []
    for _ in range(3):
        with Spent() as spent:
            per_step = one(options, texts, tracked=True)[1]
        own.append(spent.seconds / options.steps / per_step)
    ratios["the tracker's own functions alone: 1 + their processor"] = [1.0 + share for share in own]
    for kind, values in ratios.items():
        median = statistics.median(values)
        figures = {"median": median, "min": min(values), "max": max(values), "unit": "x", "rounds": len(values)}
        words = f"a step with the tracker on {options.items} texts / one without ({kind} time)"
        claims.append({"claim": words, **figures, "bound": BOUND, "holds": median < BOUND, "note": f"settings: {vars(options)}"})
        print(claims[-1])
    write_json(RESULTS, {"machine": machine, "claims": claims})


if __name__ == "__main__":
    main()
