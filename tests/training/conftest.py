"""A real encoder cut to one layer, and a few real-looking pairs."""

from __future__ import annotations

import numpy as np
import pytest

WORDS = [
    "queue", "stack", "tree", "graph", "heap", "list", "matrix", "vector", "string", "socket", "thread", "process",
    "file", "folder", "cache", "token", "parser", "lexer", "kernel", "filter", "buffer", "stream", "event", "signal",
]  # fmt: skip


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory):
    """all-MiniLM-L6-v2 cut to its first layer, saved as a plain folder."""
    from normwise.core.config import ModelConfig
    from normwise.models.loading import load_base

    folder = tmp_path_factory.mktemp("base") / "model"
    load_base(ModelConfig(layers=1, max_tokens=16)).save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture
def model(base_folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(base_folder), local_files_only=True)


@pytest.fixture(scope="session")
def pairs():
    """48 pairs over 24 documents, each with zero to three explicit negatives."""
    from normwise.data.sets import Corpus, TrainingPairs

    texts = tuple(f"def {word}(): {'go ' * (number % 7)}" for number, word in enumerate(WORDS))
    rows = np.arange(48) % 24
    queries = tuple(f"create a {WORDS[row]} number {number}" for number, row in enumerate(rows))
    negatives = tuple(tuple((int(row) + shift) % 24 for shift in range(1, 1 + number % 4)) for number, row in enumerate(rows))
    return TrainingPairs(
        queries=queries,
        positives=rows.astype(np.int64),
        negatives=negatives,
        corpus=Corpus(ids=tuple(str(i) for i in range(24)), contents=texts),
        clusters=rows.astype(np.int64),
    )


@pytest.fixture(scope="session")
def plan(pairs):
    """Random batches without a repeated document."""

    def make(stage, batches: int, seed: int) -> list[np.ndarray]:
        generator = np.random.default_rng(seed)
        return [generator.permutation(24)[: stage.batch_size] + 24 * int(generator.integers(2)) for _ in range(batches)]

    return make
