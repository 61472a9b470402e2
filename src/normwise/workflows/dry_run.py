"""`normwise train --dry-run`: what a run would do and need, before it does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import NegativeSource, PaceConfig, StageConfig, Trainable
from normwise.core.files import RunFolder
from normwise.core.records import Record
from normwise.data.sets import TrainingPairs, repeated_share
from normwise.models.structure import backbone, token_limit
from normwise.workflows.job import Job, batch_plan, fingerprint, prepare_job

BYTES_FP32 = 4
PLANNED = 64


class StagePlan(Record):
    """What one stage would use.

    Attributes:
        arm: the arm it belongs to.
        stage: its name.
        similarity: its similarity.
        temperature: the number, or how it will be measured.
        negatives_per_query: k, the mean number of candidates that a query is told apart from: in-batch, explicit and
            uniform ones together, duplicates of its own positive left out. Measured on the first batches.
            Accumulation adds none: each micro-batch has its own.
        steps: optimizer steps.
        pairs_seen: pairs over all steps (with repetition).
        trainable: what is trained.
        memory_bytes: a rough estimate: weights, gradients and optimizer state exactly, activations by rule of thumb.
        batches: how batches are made, and why.
    """

    arm: str
    stage: str
    similarity: str
    temperature: str
    negatives_per_query: float
    steps: int
    pairs_seen: int
    trainable: str
    memory_bytes: int
    batches: str


class PlanReport(Record):
    """What `--dry-run` prints."""

    data: str
    training_pairs: int
    dev_queries: int
    test_queries: int
    candidates: int
    repeated_positives: float
    truncated: Mapping[str, float]
    stages: tuple[StagePlan, ...]
    hygiene: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def plan(
    config: PaceConfig, *, out: Path | None = None, resume: bool = False, overwrite: bool = False, log: Callable[[str], None] | None = None
) -> PlanReport:
    """Read the data and the encoder, train nothing, and say what the run would do; refuse what the run would refuse.

    Args:
        config: the whole run.
        out: where the run would write; looked at, not touched.
        resume: as in `train`.
        overwrite: as in `train`.
        log: receives one line of words per event.

    Returns:
        Effective number of negatives, temperature, memory estimate, duplicates and truncated share.

    Raises:
        InputError: as `train`.
    """
    if out is not None:
        RunFolder.open(out, fingerprint=fingerprint(config), resume=resume, overwrite=overwrite)
    job = prepare_job(config, log=log or (lambda line: None), progress=False)
    stages = tuple(_stage_plan(arm, stage, job) for arm, arm_stages in config.arms.items() for stage in arm_stages)
    totals = {arm: sum(stage.steps for stage in arm_stages) for arm, arm_stages in config.arms.items()}
    notes = [f"arm {arm!r}: {steps} steps in all" for arm, steps in totals.items()]
    if len(set(totals.values())) > 1:
        notes.append("the arms have different numbers of steps: a difference between them may be the budget's")
    return PlanReport(
        data=job.data.name,
        training_pairs=len(job.pairs),
        dev_queries=len(job.dev),
        test_queries=len(job.test),
        candidates=len(job.test.corpus),
        repeated_positives=repeated_share(job.pairs.positives),
        truncated=job.hygiene.truncated,
        stages=stages,
        hygiene=job.hygiene.model_dump(mode="json"),
        notes=(*job.warnings, *job.data.notes, *notes),
    )


def _stage_plan(arm: str, stage: StageConfig, job: Job) -> StagePlan:
    settings = stage.temperature
    if settings.mode == "match":
        temperature = "measured: logits of " + (f"cosine at {settings.value:g}" if settings.value else "the stage before")
    else:
        learned = f", learned within {settings.minimum:g}..{settings.maximum:g}" if settings.mode == "learnable" else ""
        temperature = f"{settings.value:g}{learned}"
    batches = batch_plan(job.pairs, stage, batches=stage.steps * stage.accumulation, seed=job.config.seeds[0])
    return StagePlan(
        arm=arm,
        stage=stage.name,
        similarity=stage.similarity.value,
        temperature=temperature,
        negatives_per_query=negatives_per_query(stage, job.pairs, batches.batches[:PLANNED]),
        steps=stage.steps,
        pairs_seen=sum(map(len, batches.batches)),
        trainable=stage.trainable.value,
        memory_bytes=_memory(stage, job.encoder),
        batches=batches.words,
    )


def negatives_per_query(stage: StageConfig, pairs: TrainingPairs, batches: Sequence[np.ndarray]) -> float:
    """k: how many candidates a query is told apart from, on average over the queries of some batches.

    Candidates are the positives of the batch (unless negatives are uniform), explicit negatives (the query's own where
    negatives are uniform), and the uniform pool; those equal to the query's positive are masked and do not count.

    Args:
        stage: where negatives come from.
        pairs: the training pairs.
        batches: rows of each batch.
    """
    uniform = stage.negatives.source is NegativeSource.UNIFORM
    found = []
    for rows in batches:
        positives = pairs.positives[rows]
        explicit = [np.array(pairs.negatives[row][: stage.hard_negatives], dtype=np.int64) for row in rows]
        shared = np.concatenate([positives, *explicit])
        for place, row in enumerate(rows):
            others = explicit[place] if uniform else shared
            found.append(int((others != pairs.positives[row]).sum()) + (stage.negatives.count or 0))
    return float(np.mean(found))


def _memory(stage: StageConfig, model: SentenceTransformer) -> int:
    weights = sum(parameter.numel() for parameter in model.parameters())
    head = sum(parameter.numel() for name, parameter in model.named_parameters() if not name.startswith("0."))
    if stage.trainable is Trainable.FULL:
        trained = weights
    elif stage.trainable is Trainable.HEAD:
        trained = head
    else:
        rank = stage.lora_settings.rank
        maps = [module for module in model[0].modules() if type(module).__name__ == "Linear"]
        trained = head + sum(rank * (module.in_features + module.out_features) for module in maps)  # pyright: ignore[reportOperatorIssue]
    config = getattr(backbone(model), "config", None)
    width, layers, heads = (
        getattr(config, name, usual) for name, usual in (("hidden_size", 768), ("num_hidden_layers", 12), ("num_attention_heads", 12))
    )
    tokens = token_limit(model) or 512
    texts = stage.batch_size * (2 + stage.hard_negatives) + (stage.negatives.count or 0)
    # Activations of one transformer layer: 34 tokens*width + 5 heads*tokens^2 bytes at 16 bit (Korthikanti et al. 2022), twice at 32.
    activations = 2 * layers * texts * (34 * tokens * width + 5 * heads * tokens * tokens)
    return int(BYTES_FP32 * (weights + 3 * trained) + activations)
