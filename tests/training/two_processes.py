"""What each process of the two-process test runs: LoRA with a learnable temperature, then dot with focal weights."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from conftest import WORDS
from normwise.core.config import PaceConfig
from normwise.data.sets import Corpus, TrainingPairs
from normwise.engine.processes import current_processes
from normwise.engine.sync import barrier, join_launch
from normwise.models.loading import load_base
from normwise.training.recipe import Recipe


def main() -> None:
    base, out = sys.argv[1:]
    join_launch()
    rank = current_processes().rank
    texts = tuple(f"def {word}(): {'go ' * (number % 7)}" for number, word in enumerate(WORDS))
    pairs = TrainingPairs(
        queries=tuple(f"make a {word}" for word in WORDS),
        positives=np.arange(24),
        negatives=((),) * 24,
        corpus=Corpus(ids=tuple(map(str, range(24))), contents=texts),
        clusters=np.arange(24),
    )
    common = {"batch_size": 4, "steps": 3, "learning_rate": 5e-3}
    angular = {
        "name": "angular",
        "trainable": "lora",
        "lora": {"rank": 4},
        "temperature": {"mode": "learnable", "value": 0.1},
        "focal": {"temperature": 0.1},
        **common,
    }
    radial = {"name": "radial", "similarity": "dot", "temperature": "match", "focal": {"temperature": 0.1}, **common}
    config = PaceConfig.read({"data": {"name": "toy"}, "model": {"name": base}, "arms": {"pace": [angular, radial]}})

    def plan(stage, batches, seed):
        generator = np.random.default_rng(seed)
        return [generator.permutation(24)[: stage.batch_size] for _ in range(batches)]

    def embed(model, texts, prompt):
        return model.encode(list(texts), prompt=prompt, normalize_embeddings=False, show_progress_bar=False)

    recipe = Recipe(
        config=config,
        encoder=lambda: load_base(config.model),
        pairs=pairs,
        plan=plan,
        seed=0,
        work=Path(out) / "work",
        data_fingerprint="toy",
        embed=embed,
        dev_cosine=None,
        log=lambda line: None,
    )
    trained = {}
    original = Recipe._keep

    def keep(self, node, model, before):
        if node.result is not None:
            trained[node.result.name] = (embed(model, pairs.queries, None), node.result.temperature)
        return original(self, node, model, before)

    Recipe._keep = keep
    recipe.arm(config.arms["pace"])
    np.save(Path(out) / f"vectors-{rank}.npy", trained["radial"][0])
    np.save(Path(out) / f"temperature-{rank}.npy", np.float64(trained["angular"][1]))
    if rank == 0:
        model = SentenceTransformer(base, local_files_only=True)
        np.save(Path(out) / "vectors-base.npy", embed(model, pairs.queries, None))
    barrier()


if __name__ == "__main__":
    main()
