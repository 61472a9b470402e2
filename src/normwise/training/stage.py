"""One stage of training, whatever it trains: the only loop there is."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import TrainerCallback

from normwise.core.config import NegativeSource, StageConfig, TemperatureConfig, Trainable, Weighting
from normwise.core.errors import InputError, WorkError
from normwise.core.records import StageResult
from normwise.data.contents import iter_pictures
from normwise.data.pictures import Picture
from normwise.data.sets import TrainingPairs
from normwise.models.inputs import grouped_features
from normwise.models.lora import attach_lora
from normwise.models.probe import probe_vectors
from normwise.models.trainable import set_trainable
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.temperature import remove_learnable_temperature
from normwise.training.collate import PairCollator
from normwise.training.observers import CheckpointMark, CurveObserver, FiniteGuard, MovementGuard, ProgressLines, count_loss_spikes
from normwise.training.picture_features import Grouped, PictureFeatures
from normwise.training.trackers import TENSORBOARD, tensorboard
from normwise.training.trainer import StageTrainer, complete_checkpoints

Plan = Callable[[StageConfig, int, int], Sequence[np.ndarray]]


@dataclass(frozen=True)
class StageRun:
    """Where and how a stage runs: what is the same for every stage of a recipe.

    Attributes:
        pairs: the training pairs.
        plan: for (stage, batches, seed), the row numbers of each batch; decided before training.
        seed: of weights' noise (dropout) and batches.
        confidence_temperature: tau_w of focal weights that give none.
        observe_every: steps between two observed ones; None trains without observers.
        precision: `fp32`, `bf16` or `fp16` (autocast; scores, softmax and norms stay in fp32).
        report_to: trackers of the trainer, such as `tensorboard` and `wandb`.
        logs: folder for TensorBoard's events, one folder per stage in it; None keeps them beside the checkpoints.
        progress: draw the trainer's progress bar.
        keep_steps: checkpoints that must outlive the stage.
        say: receives a line of words a few times in a stage; None says nothing.
        features: what frozen vision towers said of pictures, shared by the stages of a run.
    """

    pairs: TrainingPairs
    plan: Plan
    seed: int
    confidence_temperature: float | None = None
    observe_every: int | None = 1
    precision: str = "fp32"
    report_to: tuple[str, ...] = ()
    logs: Path | None = None
    progress: bool = False
    keep_steps: tuple[int, ...] = ()
    say: Callable[[str], None] | None = None
    features: PictureFeatures = field(default_factory=PictureFeatures)


def prepare(model: SentenceTransformer, stage: StageConfig, *, seed: int, modalities: frozenset[str] | None = None) -> tuple[str, ...]:
    """Attach adapters or unfreeze weights, as the stage says.

    Args:
        model: the model to train.
        stage: what to train.
        seed: of the adapters.
        modalities: those of the training data; None is all that the model reads.

    Returns:
        The names of the trainable tensors that are expected to move.
    """
    if stage.trainable is Trainable.LORA:
        attach_lora(model, stage.lora_settings, seed=seed)
    return set_trainable(model, stage, modalities=modalities)


def build_loss(
    model: SentenceTransformer, stage: StageConfig, *, temperature: float | None, confidence_temperature: float | None, seed: int = 0
) -> FocalEmbeddingLoss:
    """The loss of a stage.

    Args:
        model: the model that is trained.
        stage: similarity, focal weights, negatives.
        temperature: the measured one, where the stage's mode is `match`.
        confidence_temperature: tau_w where the focal settings leave it out.
        seed: of the permutations of weighting random.

    Raises:
        InputError: the stage wants a matched temperature and none was measured.
    """
    settings = stage.temperature
    if settings.mode == "match":
        if temperature is None:
            raise InputError(f"stage {stage.name!r}: temperature = match, but no stage came before it: give a number")
        settings = TemperatureConfig(mode="fixed", value=temperature)
    focal = stage.focal
    if focal is not None and focal.temperature is None and focal.weighting is not Weighting.NONE:
        focal = focal.model_copy(update={"temperature": confidence_temperature})
    return FocalEmbeddingLoss(
        model,
        similarity=stage.similarity,
        temperature=settings,
        focal=focal,
        loss=stage.loss,
        symmetric=stage.symmetric,
        negatives=stage.negatives.source,
        seed=seed,
    )


def training_arguments(stage: StageConfig, run: StageRun, folder: Path) -> SentenceTransformerTrainingArguments:
    """The trainer's own arguments for a stage."""
    on_gpu = torch.cuda.is_available()
    save_steps = _save_interval(stage, run.keep_steps)
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=stage.steps,
        per_device_train_batch_size=stage.batch_size,
        gradient_accumulation_steps=stage.accumulation,
        learning_rate=stage.learning_rate,
        weight_decay=stage.weight_decay,
        warmup_steps=stage.warmup_ratio,
        lr_scheduler_type=stage.scheduler,
        max_grad_norm=stage.max_gradient_norm,
        seed=run.seed,
        data_seed=run.seed,
        bf16=run.precision == "bf16",
        fp16=run.precision == "fp16",
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        logging_strategy="steps",
        logging_steps=run.observe_every or max(stage.steps, 1),
        logging_first_step=True,
        save_strategy="steps" if save_steps else "no",
        save_steps=save_steps or 500,
        report_to=[name for name in run.report_to if name != TENSORBOARD] or "none",
        disable_tqdm=not run.progress,
        average_tokens_across_devices=False,
    )


def _save_interval(stage: StageConfig, keep_steps: tuple[int, ...]) -> int | None:
    """Steps between checkpoints: as asked, else a quarter of the stage within 50..500; every step to keep is among them.

    A stage too short for one of these is begun again when it is killed.
    """
    interval = stage.checkpoint_every or max(50, min(500, stage.steps // 4))
    for step in keep_steps:
        interval = int(np.gcd(interval, step))
    return interval if interval < stage.steps else stage.checkpoint_every


def train_stage(
    model: SentenceTransformer, stage: StageConfig, run: StageRun, folder: Path, *, temperature: float | None = None
) -> StageResult:
    """Train one stage in place, resuming from its last complete checkpoint when there is one.

    Args:
        model: the model to train; adapters are attached here and stay on it.
        stage: what to do.
        run: where and how.
        folder: for checkpoints; nothing in it loads as a model.
        temperature: the measured one, where the stage's mode is `match`.

    Returns:
        The stage's curve and final temperature.

    Raises:
        InputError: no query could ever have a negative.
        WorkError: the loss became infinite, or a trainable tensor does not move.
    """
    started = time.monotonic()
    names = prepare(model, stage, seed=run.seed, modalities=run.pairs.modalities)
    loss = build_loss(model, stage, temperature=temperature, confidence_temperature=run.confidence_temperature, seed=run.seed)
    observer = None if run.observe_every is None else CurveObserver(loss, every=run.observe_every)
    arguments = training_arguments(stage, run, folder)
    plan = run.plan(stage, stage.steps * stage.accumulation * arguments.world_size, run.seed)
    checkpoints = complete_checkpoints(folder)
    last = max(checkpoints, default=None)
    with run.features.used_by(model, list(_shown(run.pairs, plan)), say=run.say) as known:
        trainer = StageTrainer(
            model=model,
            args=arguments,
            loss=loss,
            collator=_collator(model, stage, run, known),
            plan=plan,
            rows=len(run.pairs.queries),
            callbacks=_callbacks(model, stage, run, loss=loss, names=names, logs=run.logs or folder),
            observer=observer,
        )
        trainer.train(resume_from_checkpoint=str(checkpoints[last]) if last else None)
    # Autocast stays wrapped around the model's forward otherwise, and what follows is measured in full precision.
    trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    if not np.isfinite(probe_vectors(model)).all():
        raise WorkError(
            f"stage {stage.name!r} diverged: after {stage.steps} steps at learning_rate {stage.learning_rate:g} vectors are not finite; "
            "lower learning_rate or raise the temperature"
        )
    final_temperature = float(loss.temperature.current())
    remove_learnable_temperature(model)
    curve = tuple(_curve_row(row) for row in trainer.state.log_history if "loss" in row)
    return StageResult(
        name=stage.name,
        similarity=stage.similarity.value,
        trainable=stage.trainable.value,
        steps=stage.steps,
        temperature=final_temperature,
        seconds=time.monotonic() - started,
        curve=curve,
        notes=_notes(stage, curve, len(names)),
    )


def _shown(pairs: TrainingPairs, plan: Sequence[np.ndarray]) -> Iterator[Picture]:
    """The pictures that the planned batches show: those of their pairs, or of the whole set where negatives are drawn from it."""
    if "image" not in pairs.modalities:
        return
    rows = np.unique(np.concatenate(plan)) if len(plan) else np.zeros(0, dtype=np.int64)
    candidates = {int(pairs.positives[row]) for row in rows} | {candidate for row in rows for candidate in pairs.negatives[row]}
    contents = [pairs.queries[row] for row in rows] + [pairs.corpus.contents[candidate] for candidate in sorted(candidates)]
    yield from iter_pictures(tuple(contents))


def _collator(model: SentenceTransformer, stage: StageConfig, run: StageRun, known: Grouped | None) -> PairCollator:
    prompts = model.prompts or {}
    return PairCollator(
        run.pairs,
        stage,
        model.preprocess,
        query_prompt=prompts.get("query") or None,
        candidate_prompt=prompts.get("document") or None,
        group=known or (lambda contents, prompt: grouped_features(model, contents, prompt=prompt)),
        seed=run.seed,
    )


def _callbacks(
    model: SentenceTransformer, stage: StageConfig, run: StageRun, *, loss: FocalEmbeddingLoss, names: tuple[str, ...], logs: Path
) -> list[TrainerCallback]:
    lines = [] if run.say is None else [ProgressLines(stage.name, run.say)]
    return [MovementGuard(model, names), FiniteGuard(loss), CheckpointMark(), *lines, *tensorboard(run.report_to, logs)]


def prune_checkpoints(folder: Path, keep_steps: tuple[int, ...]) -> None:
    """Delete a finished stage's checkpoints, except those that a later stage starts from."""
    for path in folder.glob("checkpoint-*"):
        if path.name not in {f"checkpoint-{step}" for step in keep_steps}:
            shutil.rmtree(path, ignore_errors=True)


def _curve_row(row: dict[str, float]) -> dict[str, float | None]:
    return {key: float(value) if np.isfinite(value) else None for key, value in row.items() if isinstance(value, int | float)}


def _notes(stage: StageConfig, curve: Sequence[dict[str, float | None]], tensors: int) -> tuple[str, ...]:
    losses = np.array([row["loss"] for row in curve if row.get("loss") is not None], dtype=np.float64)
    notes = [f"{tensors} tensors trained ({stage.trainable})"]
    if len(losses) > 10:
        notes.append(f"{count_loss_spikes(losses)} loss spikes in the second half (above median + 6 MAD of the 50 steps before)")
    if stage.negatives.source is NegativeSource.IN_BATCH:
        notes.append("in-batch negatives divide popularity out: neither angle nor norm is asked to carry a candidate prior")
    return tuple(notes)
