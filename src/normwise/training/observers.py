"""Observers of a stage: they read detached values and never write back, so weights are bit-equal without them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from normwise.core.errors import WorkError
from normwise.core.files import write_text
from normwise.models.trainable import parameter_snapshot, unmoved
from normwise.objectives.loss import FocalEmbeddingLoss, LossObservation

logger = logging.getLogger(__name__)

Row = dict[str, float | None]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if len(a) < 3 or len(a) != len(b) or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return _finite(float(np.corrcoef(a, b)[0, 1]))


def observe(observation: LossObservation, token_counts: tuple[np.ndarray, ...]) -> Row:
    """The figures of one micro-batch.

    Args:
        observation: what the loss saw, detached.
        token_counts: tokens per text of each feature (queries, positives, ...).

    Returns:
        `loss`; `residual` (mean 1 - p_plus); `effective_sample_size`; norms of the candidates (`norm_mean`, `norm_cv`,
        `norm_p01`, `norm_p99`) and of the queries (`query_norm_mean`); `norm_length` (correlation of log norm and
        log token count); `entanglement` (spec E1 inside the batch: correlation of log(||q|| ||c_+||) and their
        cosine); `positive_cosine`; `anisotropy` (spec A1 inside the batch: mean cosine of a query with candidates that
        are not its own); `temperature`; `duplicates_masked`.
    """
    candidate = observation.candidate_norms.float().cpu().numpy().astype(np.float64)
    query = observation.query_norms.float().cpu().numpy().astype(np.float64)
    positive = observation.positive_norms.float().cpu().numpy().astype(np.float64)
    cosine = observation.positive_cosine.float().cpu().numpy().astype(np.float64)
    mean = float(candidate.mean())
    row: Row = {
        "loss": _finite(float((observation.loss_per_query * observation.weights).mean())),
        "residual": _finite(float(observation.residual.mean())),
        "effective_sample_size": _finite(float(observation.effective_sample_size)),
        "norm_mean": _finite(mean),
        "norm_cv": _finite(float(candidate.std()) / mean) if mean > 0 else None,
        "norm_p01": _finite(float(np.quantile(candidate, 0.01))),
        "norm_p99": _finite(float(np.quantile(candidate, 0.99))),
        "query_norm_mean": _finite(float(query.mean())),
        "positive_cosine": _finite(float(cosine.mean())),
        "anisotropy": _finite(float(observation.random_cosine)),
        "temperature": _finite(float(observation.temperature)),
        "duplicates_masked": float(observation.n_duplicates_masked),
    }
    with np.errstate(divide="ignore"):
        log_product = np.log(query * positive)
        log_positive = np.log(positive)
    if np.isfinite(log_product).all():
        row["entanglement"] = _correlation(log_product, cosine)
        if len(token_counts) > 1:
            row["norm_length"] = _correlation(log_positive, np.log(np.maximum(token_counts[1], 1)))
    return row


def _mean_rows(rows: list[Row]) -> Row:
    keys = {key for row in rows for key in row}
    merged: Row = {}
    for key in sorted(keys):
        values = [value for row in rows if (value := row.get(key)) is not None]
        merged[key] = float(np.mean(values)) if values else None
    return merged


class CurveObserver(TrainerCallback):
    """Collects the figures of each observed step; the trainer logs them, so they reach TensorBoard and W&B too.

    What is logged stands in the trainer's own state file and so survives a resume.

    Args:
        loss: the loss that is trained; its `last` observation is read.
        every: observe every so many steps (and the first).
    """

    def __init__(self, loss: FocalEmbeddingLoss, *, every: int) -> None:
        self._loss = loss
        self._every = every
        self._micro: list[Row] = []
        self.token_counts: tuple[np.ndarray, ...] = ()

    def on_substep_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Read one micro-batch of an accumulated step."""
        self._read(state.global_step + 1)

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Read the last micro-batch before the weights move."""
        self._read(state.global_step + 1)

    def take(self) -> Row:
        """The means over the micro-batches since the last call; empty when nothing was observed."""
        row = _mean_rows(self._micro)
        self._micro = []
        return row

    def _read(self, step: int) -> None:
        observation = self._loss.last
        if observation is not None and (step == 1 or step % self._every == 0):
            self._micro.append(observe(observation, self.token_counts))


class MovementGuard(TrainerCallback):
    """Fails when a trainable tensor cannot move: after the second step with a learning rate above zero, no gradient has reached it.

    The second, since one of LoRA's two factors has an exactly zero gradient in the first. A tensor with a gradient that
    stands still all the same (a warm-up step below the rounding of its values) is told in the log, not refused.

    Args:
        model: the model that is trained.
        names: trainable tensors that are expected to move.
    """

    def __init__(self, model: SentenceTransformer, names: tuple[str, ...]) -> None:
        self._model = model
        self._names = names
        self._waiting: set[str] = set()
        self._snapshot: dict[str, int] = {}
        self._moves = 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Remember where the tensors stand; a resumed run has been checked before."""
        if state.global_step == 0:
            self._waiting = set(self._names)
            self._snapshot = parameter_snapshot(self._model, self._names)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, optimizer: Any = None, **kwargs: Any
    ) -> None:
        """See which gradients have arrived, in steps that can move anything."""
        if not self._snapshot or optimizer is None:
            return
        if state.global_step == 0:
            self._refuse_left_out(optimizer)
        self._waiting -= {name for name in self._waiting if _has_gradient(self._model.get_parameter(name))}
        self._moves += max(group["lr"] for group in optimizer.param_groups) > 0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Judge, once."""
        if not self._snapshot or self._moves < 2:
            return
        still, self._snapshot = unmoved(self._model, self._snapshot), {}
        if self._waiting:
            names = sorted(self._waiting)
            raise WorkError(
                f"{len(names)} trainable tensors have not moved after step {state.global_step}: {_some(names)}; "
                "no gradient reaches them: freeze them (unfreeze), or look at gradient checkpointing"
            )
        if still:
            logger.info(
                "%d tensors stand still after step %d: updates are below their rounding so far (%s)",
                len(still),
                state.global_step,
                _some(still),
            )

    def _refuse_left_out(self, optimizer: Any) -> None:
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        left_out = [name for name in self._names if id(self._model.get_parameter(name)) not in held]
        if left_out:
            raise WorkError(f"the optimizer leaves {len(left_out)} trainable tensors out: {_some(left_out)}; report this as a bug")


def _has_gradient(parameter: torch.nn.Parameter) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


class FiniteGuard(TrainerCallback):
    """Stops at the first loss that is not a finite number, and says what to look at."""

    def __init__(self, loss: FocalEmbeddingLoss) -> None:
        self._loss = loss

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Check before the weights move."""
        observation = self._loss.last
        if observation is not None and not bool(torch.isfinite(observation.loss_per_query).all()):
            raise WorkError(
                f"the loss is not finite at step {state.global_step + 1} (temperature {float(observation.temperature):.4g}, "
                f"largest candidate norm {float(observation.candidate_norms.max()):.4g}): "
                "lower the learning rate, raise the temperature, or train in fp32"
            )


class ProgressLines(TrainerCallback):
    """Says a few times in a stage how far it is, for people without a terminal and its bar."""

    def __init__(self, name: str, say: Callable[[str], None], *, lines: int = 4) -> None:
        self._name, self._say, self._lines, self._started = name, say, lines, 0.0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Speak when another share of the steps is done; the end is told by whoever goes on from it."""
        step, steps = state.global_step, state.max_steps
        if step == steps or not state.is_world_process_zero or step * self._lines // steps == (step - 1) * self._lines // steps:
            return
        losses = [row["loss"] for row in state.log_history[-1:] if "loss" in row]
        loss = f"loss {losses[0]:.3f}, " if losses else ""
        self._say(f"stage {self._name!r}: step {step} of {steps} ({loss}{time.monotonic() - self._started:.0f} s)")


class CheckpointMark(TrainerCallback):
    """Writes the last file of a checkpoint, without which it is never resumed from.

    A checkpoint whose weights are not finite never gets it: resuming there could only fail again.
    """

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Mark the checkpoint of this step complete."""
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        model = kwargs.get("model")
        if model is not None and not all(bool(torch.isfinite(p).all()) for p in model.parameters() if p.requires_grad):
            return
        if state.is_world_process_zero and (folder / "trainer_state.json").is_file():
            try:
                write_text(folder / "complete", f"{state.global_step}\n")
            except WorkError as error:
                logger.warning("checkpoint %s could not be marked (%s): training goes on without it", folder.name, error)


def count_loss_spikes(losses: np.ndarray, *, window: int = 50) -> int:
    """Count late steps whose loss stands out: above median + 6 MAD of the steps before it.

    Args:
        losses: (T,) losses by step.
        window: how many steps before it are compared; the first half of the run is not counted.

    Returns:
        The number of spikes.

    Reference:
        PACE, stability figure (late-stage spikes).

    Example:
        >>> count_loss_spikes(np.r_[np.linspace(1, 0.5, 60), 9.0, np.full(9, 0.5)])
        1
    """
    count = 0
    for step in range(max(len(losses) // 2, 5), len(losses)):
        before = losses[max(0, step - window) : step]
        middle = float(np.median(before))
        spread = float(np.median(np.abs(before - middle)))
        if losses[step] > middle + 6 * spread and spread > 0:
            count += 1
    return count
