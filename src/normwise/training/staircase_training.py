"""Training of the staircase's networks, all seeds at once, with copies of their embeddings at chosen steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from normwise.core.errors import InputError, WorkError
from normwise.theory.sequence_law import SequenceLaw
from normwise.training.staircase_models import StairModel
from normwise.training.staircase_tasks import StairTask, without_order

_BATCHES = 1


def check_looks(looks: np.ndarray, steps: int) -> None:
    """Raise InputError unless checkpoints rise within 0..steps."""
    if not looks.size or looks[0] < 0 or looks[-1] > steps or (np.diff(looks) <= 0).any():
        raise InputError(f"checkpoints are {looks.tolist()}; expected rising steps in 0..{steps}")


@dataclass(frozen=True)
class StairRun:
    """Settings of a run.

    Args:
        steps: updates, at least 1; with full batches, epochs.
        checkpoints: steps to look at, rising, in 0..steps; 0 is the init. None = the init and every twentieth of the run.
        optimizer: sgd (no momentum) or adam (beta .9 and .999).
        learning_rate: above 0.
        batch: sequences drawn by their weights for each update, with replacement; None = the mean over the whole law.

    Raises:
        InputError: a value outside its range.
    """

    steps: int
    checkpoints: Sequence[int] | None = None
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 1.0
    batch: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.learning_rate > 0.0 or (self.batch is not None and self.batch < 1):
            raise InputError(
                f"steps is {self.steps}, learning_rate {self.learning_rate:g}, batch {self.batch}; expected at least 1 step, a rate above "
                "0 and batches of at least 1"
            )
        if self.optimizer not in ("sgd", "adam"):
            raise InputError(f"optimizer is {self.optimizer!r}; expected 'sgd' or 'adam'")
        check_looks(self.looks, self.steps)

    @property
    def looks(self) -> np.ndarray:
        """(T,) the steps to look at."""
        if self.checkpoints is None:
            return np.unique(np.linspace(0, self.steps, 21).round().astype(np.int64))
        return np.asarray(self.checkpoints, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class StairSeries:
    """What a run of S seeds showed at T checkpoints, before the update of that step.

    Args:
        seeds: S of them, in the order of the first axes.
        steps: (T,).
        loss: (S, T) mean cross-entropy over the whole law.
        accuracy: (S, T) chance that the largest logit is the label's, over the whole law.
        embedding: (S, T, V, d) copies.
        unembedding: (S, T, Y, d) copies.
        attention: (S, T, V) E[a_I | x_I = a]; None without attention.
    """

    seeds: tuple[int, ...]
    steps: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    embedding: np.ndarray
    unembedding: np.ndarray
    attention: np.ndarray | None


def train_stairs(model: StairModel, task: StairTask, run: StairRun, *, seeds: Sequence[int]) -> StairSeries:
    """Train all seeds of a network on a task.

    Equation: each seed goes down sum_n w_n CE(f(X_n), y_n) on its own; the sum over seeds is one computation.

    Args:
        model: S networks at init; trained in place.
        task: its law is what is learned and what loss and accuracy are of.
        run: settings; equal ones and equal seeds give equal results.
        seeds: (S,) of the batches, and names of the networks.

    Returns:
        The series.

    Raises:
        InputError: seeds that are not as many as the networks.
        WorkError: a loss that is not finite at a checkpoint.
    """
    if len(seeds) != len(model.unembedding):
        raise InputError(f"{len(seeds)} seeds for {len(model.unembedding)} networks; expected one each")
    table = _Table(model, task.law if model.reads_order else without_order(task.law))
    make = torch.optim.SGD if run.optimizer == "sgd" else torch.optim.Adam
    optimizer = make([each for each in model.parameters() if each.requires_grad], lr=run.learning_rate)
    random = [np.random.default_rng([seed, _BATCHES]) for seed in seeds]
    looks, found = set(run.looks.tolist()), []
    for step in range(run.steps + 1):
        if step in looks:
            found.append(_look(model, table, step=step, seeds=seeds))
        if step < run.steps:
            optimizer.zero_grad()
            loss = table.loss() if run.batch is None else table.batch_loss(run.batch, random)
            loss.sum().backward()
            optimizer.step()
    columns = {name: np.stack([each[name] for each in found], axis=1) for name in found[0]}
    return StairSeries(tuple(seeds), run.looks, attention=columns.pop("attention", None), **columns)


class _Table:
    """All sequences of a law as a network reads them, with labels (N,) and weights (N,)."""

    def __init__(self, model: StairModel, law: SequenceLaw) -> None:
        self._model, self.law = model, law
        self._tokens = torch.as_tensor(law.tokens, dtype=torch.int64)
        self._sequences = model.read(self._tokens)
        self._labels = torch.as_tensor(law.labels, dtype=torch.int64)
        self._weights = torch.as_tensor(law.chances, dtype=model.unembedding.dtype)
        self._ends = np.cumsum(law.chances)

    def loss(self) -> torch.Tensor:
        """(S,) mean loss over the whole law."""
        return _losses(self._model(self._sequences), self._labels) @ self._weights

    def batch_loss(self, size: int, random: Sequence[np.random.Generator]) -> torch.Tensor:
        """(S,) mean loss over a batch that each seed draws for itself."""
        draws = [np.searchsorted(self._ends, self._ends[-1] * each.random(size), side="right") for each in random]
        rows = torch.as_tensor(np.stack(draws))
        return _losses(self._model(self._model.read(self._tokens[rows])), self._labels[rows]).mean(dim=1)

    def judge(self) -> tuple[np.ndarray, np.ndarray]:
        """(S,) loss and (S,) accuracy, in float64."""
        with torch.no_grad():
            logits = self._model(self._sequences)
        right = (logits.argmax(dim=2) == self._labels).double().numpy()
        return _losses(logits, self._labels).double().numpy() @ self.law.chances, right @ self.law.chances


def _losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy (S, N) of logits (S, N, Y) with labels (N,) or (S, N)."""
    return -logits.log_softmax(dim=2).gather(2, labels.expand(logits.shape[:2])[:, :, None])[:, :, 0]


def _look(model: StairModel, table: _Table, *, step: int, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    loss, accuracy = table.judge()
    lost = np.flatnonzero(~np.isfinite(loss))
    if lost.size:
        raise WorkError(f"the loss of seed {seeds[lost[0]]} is {loss[lost[0]]} at step {step}; take a lower learning rate")
    with torch.no_grad():
        found = {"loss": loss, "accuracy": accuracy, "embedding": model.table().clone().numpy()}
    found["unembedding"] = model.unembedding.detach().clone().numpy()
    attention = model.token_attention(table.law)
    return found if attention is None else found | {"attention": attention}
