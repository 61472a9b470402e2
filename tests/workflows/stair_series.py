"""A real little training whose checkpoints tests can spoil: embedding and unembedding of a bigram model, by plain gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

VOCABULARY, WIDTH = 40, 16


def bigram_chain(seed: int = 0) -> np.ndarray:
    """(V, V) chances of the next token, far from uniform."""
    return np.random.default_rng(seed).dirichlet(np.full(VOCABULARY, 0.15), size=VOCABULARY)


def ids_of(chain: np.ndarray, *, length: int = 12_000, seed: int = 1) -> np.ndarray:
    """(T,) a walk of the chain."""
    random, ids, ends = np.random.default_rng(seed), np.zeros(length, dtype=np.uint16), chain.cumsum(axis=1)
    for place in range(1, length):
        ids[place] = min(VOCABULARY - 1, int(np.searchsorted(ends[ids[place - 1]], random.random())))
    return ids


def tables_of(
    ids: np.ndarray, steps: Sequence[int], *, rate: float = 4.0, scale: float = 0.02, seed: int = 2
) -> tuple[list[np.ndarray], list[float]]:
    """Tables (V, D) before the update of each step, and the losses there; full-batch gradient descent."""
    pairs = np.zeros((VOCABULARY, VOCABULARY))
    np.add.at(pairs, (ids[:-1].astype(int), ids[1:].astype(int)), 1.0)
    rates = pairs.sum(axis=1) / pairs.sum()
    law = pairs / np.maximum(1.0, pairs.sum(axis=1, keepdims=True))
    random = np.random.default_rng(seed)
    embedding, unembedding = (scale * random.normal(size=(VOCABULARY, WIDTH)) for _ in range(2))
    tables, losses = [], []
    for step in range(max(steps) + 1):
        logits = embedding @ unembedding.T
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        if step in steps:
            tables.append(embedding.copy())
            losses.append(float(-(rates[:, None] * law * np.log(chances)).sum()))
        drive = rates[:, None] * (law - chances)
        embedding, unembedding = embedding + rate * drive @ unembedding, unembedding + rate * drive.T @ embedding
    return tables, losses


def save_series(folder: Path, steps: Sequence[int], tables: Sequence[np.ndarray], *, dtype: str = "float32") -> Path:
    """Write each table as a checkpoint folder."""
    for step, table in zip(steps, tables, strict=True):
        place = folder / f"checkpoint-{step}"
        place.mkdir(parents=True)
        save_file(
            {"model.embed_tokens.weight": table.astype(dtype), "lm_head.weight": np.zeros((VOCABULARY, WIDTH), np.float32)},
            place / "model.safetensors",
        )
    return folder
