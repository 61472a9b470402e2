"""`normwise train --dry-run`: what a run would do and need, before it does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import NegativeSource, PaceConfig, StageConfig, Trainable
from normwise.core.records import Record
from normwise.data.hygiene import check_data
from normwise.data.load import load_data
from normwise.data.sets import repeated_share
from normwise.models.loading import load_base

BYTES_FP32 = 4


class StagePlan(Record):
    """What one stage would use.

    Attributes:
        arm: the arm it belongs to.
        stage: its name.
        similarity: its similarity.
        temperature: the number, or how it will be measured.
        negatives_per_query: candidates that each query is told apart from, k: in-batch, explicit and uniform ones
            together. Gradient accumulation adds none: each micro-batch has its own.
        steps: optimizer steps.
        pairs_seen: pairs over all steps (with repetition).
        trainable: what is trained.
        memory_bytes: a rough estimate: weights, gradients and optimizer state exactly, activations by rule of thumb.
    """

    arm: str
    stage: str
    similarity: str
    temperature: str
    negatives_per_query: int
    steps: int
    pairs_seen: int
    trainable: str
    memory_bytes: int


class PlanReport(Record):
    """What `--dry-run` prints."""

    data: str
    training_pairs: int
    dev_queries: int
    test_queries: int
    candidates: int
    repeated_positives: float
    truncated: Mapping[str, float]
    batches: str
    stages: tuple[StagePlan, ...]
    hygiene: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def plan(config: PaceConfig, *, processes: int = 1) -> PlanReport:
    """Read the data and the encoder, train nothing, and say what the run would do.

    Args:
        config: the whole run.
        processes: how many processes would train together.

    Returns:
        Effective number of negatives, temperature, memory estimate, duplicates and truncated share.

    Raises:
        InputError: the data or the encoder cannot be read.
    """
    data = load_data(config.data, seed=0)
    model = load_base(config.model)
    hygiene = check_data(data, token_counter=token_counter(model), max_tokens=model.max_seq_length)
    train_pairs = 0 if data.train is None else len(data.train.queries)
    stages = tuple(
        _stage_plan(arm, stage, model, processes=processes, pairs=train_pairs)
        for arm, arm_stages in config.arms.items()
        for stage in arm_stages
    )
    notes = [f"arm {arm!r}: {sum(stage.steps for stage in arm_stages)} steps in all" for arm, arm_stages in config.arms.items()]
    if len({sum(stage.steps for stage in arm_stages) for arm_stages in config.arms.values()}) > 1:
        notes.append("the arms have different numbers of steps: a difference between them may be the budget's")
    return PlanReport(
        data=data.name,
        training_pairs=train_pairs,
        dev_queries=0 if data.dev is None else len(data.dev.queries),
        test_queries=0 if data.test is None else len(data.test.queries),
        candidates=0 if data.test is None else len(data.test.corpus.texts),
        repeated_positives=0.0 if data.train is None else repeated_share(data.train.positives),
        truncated=hygiene.truncated,
        batches="random, duplicates masked in the loss" if data.skewed else "no two rows of a batch share a text",
        stages=stages,
        hygiene=hygiene.model_dump(mode="json"),
        notes=(*data.notes, *notes),
    )


def token_counter(model: SentenceTransformer) -> Callable[[Sequence[str]], np.ndarray]:
    """A function that counts the tokens of texts before truncation, special tokens included."""

    def count(texts: Sequence[str]) -> np.ndarray:
        encoded = model.tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)

    return count


def _stage_plan(arm: str, stage: StageConfig, model: SentenceTransformer, *, processes: int, pairs: int) -> StagePlan:
    settings = stage.temperature
    if settings.mode == "match":
        temperature = "measured: logits of " + (f"cosine at {settings.value:g}" if settings.value else "the stage before")
    else:
        temperature = f"{settings.value:g}" + (
            f", learned within {settings.minimum:g}..{settings.maximum:g}" if settings.mode == "learnable" else ""
        )
    return StagePlan(
        arm=arm,
        stage=stage.name,
        similarity=stage.similarity.value,
        temperature=temperature,
        negatives_per_query=negatives_per_query(stage),
        steps=stage.steps,
        pairs_seen=stage.steps * stage.batch_size * stage.accumulation * processes,
        trainable=stage.trainable.value,
        memory_bytes=_memory(stage, model),
    )


def negatives_per_query(stage: StageConfig) -> int:
    """k: how many negatives each query is told apart from in one micro-batch, at most.

    Example:
        >>> negatives_per_query(StageConfig(name="s", temperature=0.05, batch_size=32, hard_negatives=2))
        95
    """
    explicit = stage.batch_size * stage.hard_negatives
    if stage.negatives.source is NegativeSource.UNIFORM:
        return explicit + (stage.negatives.count or 0)
    return stage.batch_size - 1 + explicit


def _memory(stage: StageConfig, model: SentenceTransformer) -> int:
    weights = sum(parameter.numel() for parameter in model.parameters())
    if stage.trainable is Trainable.FULL:
        trained = weights
    elif stage.trainable is Trainable.HEAD:
        trained = sum(parameter.numel() for module in list(model.children())[2:] for parameter in module.parameters())
    else:
        rank = stage.lora_settings.rank
        maps = [module for module in model.modules() if type(module).__name__ == "Linear"]
        trained = sum(rank * (module.in_features + module.out_features) for module in maps)  # pyright: ignore[reportAttributeAccessIssue, reportOperatorIssue]
    config = getattr(model[0], "auto_model", model[0]).config
    width, layers, heads = (
        getattr(config, name, default) for name, default in (("hidden_size", 768), ("num_hidden_layers", 12), ("num_attention_heads", 12))
    )
    tokens = model.max_seq_length or 512
    texts = stage.batch_size * (2 + stage.hard_negatives) + (stage.negatives.count or 0)
    # Activations of one transformer layer: 34 tokens*width + 5 heads*tokens^2 bytes at 16 bit (Korthikanti et al. 2022), twice at 32.
    activations = 2 * layers * texts * (34 * tokens * width + 5 * heads * tokens * tokens)
    return int(BYTES_FP32 * (weights + 3 * trained) + activations)
