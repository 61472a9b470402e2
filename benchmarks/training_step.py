"""Time per step of a stage (observers on) against sentence-transformers' MultipleNegativesRankingLoss.

Same model, data, batches and arguments; the two take turns (A B A B ...), each round in a fresh trainer, and the time is
measured from the end of the first step to the end of the last. Claim: at most 1.05 times.

Run: python benchmarks/training_step.py [--rounds 5] [--steps 8] [--batch 64] [--layers 2] [--tokens 24]
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

from normwise.core.config import ModelConfig, StageConfig
from normwise.data.sets import Corpus, TrainingPairs
from normwise.models.loading import load_base
from normwise.training.stage import StageRun, train_stage, training_arguments
from normwise.training.trainer import PlannedBatches, StageTrainer

RESULTS = Path(__file__).parent / "results" / "training_step.json"


class Clock(TrainerCallback):
    """Seconds from the end of the first step to the end of the last."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        self.last = time.perf_counter()
        if state.global_step == 1:
            self.first = self.last

    def per_step(self, steps: int) -> float:
        return (self.last - self.first) / (steps - 1)


def pairs_of(count: int, words: int) -> TrainingPairs:
    """Pairs of random words, long enough to fill the token limit."""
    generator = np.random.default_rng(0)
    vocabulary = (
        "time year people way day man thing woman life child world school state family student group country problem hand part".split()
    )

    def text() -> str:
        return " ".join(generator.choice(vocabulary, size=words))

    corpus = Corpus(ids=tuple(map(str, range(count))), contents=tuple(f"{text()} {row}" for row in range(count)))
    queries = tuple(f"{text()} {row}" for row in range(count))
    return TrainingPairs(queries, np.arange(count), ((),) * count, corpus, np.arange(count))


def ours(options: argparse.Namespace, pairs: TrainingPairs, stage: StageConfig, plan: list[np.ndarray]) -> float:
    clock = Clock()
    original = StageTrainer.__init__

    def timed(self, **kwargs):
        original(self, **{**kwargs, "callbacks": [*kwargs["callbacks"], clock]})

    StageTrainer.__init__ = timed
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = load_base(ModelConfig(layers=options.layers, max_tokens=options.tokens))
            train_stage(model, stage, StageRun(pairs=pairs, plan=lambda *_: plan, seed=0), Path(folder))
    finally:
        StageTrainer.__init__ = original
    return clock.per_step(options.steps)


class Plain(SentenceTransformerTrainer):
    plan: list[np.ndarray]

    def get_batch_sampler(self, dataset, *args, **kwargs):
        return PlannedBatches(self.plan)


def theirs(options: argparse.Namespace, pairs: TrainingPairs, stage: StageConfig, plan: list[np.ndarray]) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        model = load_base(ModelConfig(layers=options.layers, max_tokens=options.tokens))
        run = StageRun(pairs=pairs, plan=lambda *_: plan, seed=0, observe_every=None)
        data = Dataset.from_dict({"anchor": list(pairs.queries), "positive": [pairs.corpus.texts[row] for row in pairs.positives]})
        Plain.plan = plan
        trainer = Plain(
            model=model,
            args=training_arguments(stage, run, Path(folder)),
            train_dataset=data,
            loss=MultipleNegativesRankingLoss(model, scale=20.0),
            callbacks=[clock],
        )
        trainer.train()
    return clock.per_step(options.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 5), ("steps", 8), ("batch", 64), ("layers", 2), ("tokens", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    pairs = pairs_of(options.batch * options.steps, options.tokens)
    stage = StageConfig.model_validate({"name": "step", "temperature": 0.05, "batch_size": options.batch, "steps": options.steps})
    generator = np.random.default_rng(0)
    plan = np.array_split(generator.permutation(len(pairs)), options.steps)
    ours(options, pairs, stage, plan)
    theirs(options, pairs, stage, plan)
    rounds = [(ours(options, pairs, stage, plan), theirs(options, pairs, stage, plan)) for _ in range(options.rounds)]
    ratios = sorted(a / b for a, b in rounds)
    result = {
        "name": "training_step",
        "claim": "a stage with observers costs at most 1.05 times a step of MultipleNegativesRankingLoss",
        "bound": 1.05,
        "ratio_median": float(np.median(ratios)),
        "ratio_min": ratios[0],
        "ratio_max": ratios[-1],
        "seconds_ours": [a for a, _ in rounds],
        "seconds_peer": [b for _, b in rounds],
        "settings": vars(options),
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
