"""The staircase as a training goes: a callback that compares the embedding table with the signatures of the text that it trains on."""

from __future__ import annotations

import logging
from typing import Any, final

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from normwise.core.errors import InputError
from normwise.core.staircase_records import TrackReport
from normwise.core.strict import shown
from normwise.engine.order_counting import CountedOrders
from normwise.training.infonce_vectors import read_count
from normwise.training.stair_track import StairTrack

logger = logging.getLogger(__name__)


@final
class StaircaseCallback(TrainerCallback):
    """Records figures of every order while a Hugging Face or sentence-transformers trainer trains.

        counted = nw.count_signatures("train.txt", nw.CorpusReading(tokenizer="my-model"))
        callback = nw.StaircaseCallback(counted)
        trainer = Trainer(model=model, args=args, train_dataset=data)
        callback.join(trainer)
        trainer.train()
        print(callback.report().verdict.text)

    Joined, its figures stand in the logs that reporters get, as `staircase/order_0`, ..; passed as `callbacks=[callback]` they are in the
    trainer's history alone. Steps 0, 1, 2, 4, 8, .. below `every`, then every `every` steps and the last are recorded: order 0 comes
    early. It reads detached values and draws no random number: weights are bit-equal with and without it. With several processes the
    first one records. In a loop of your own, use `StairTrack`.

    Args:
        counted: signatures of the text that is trained on.
        table: the embedding, (V, D); None = the model's input embedding.
        every: steps between two recordings.
        prefix: of the logged names.

    Raises:
        InputError: `every` below 1, an empty prefix; at the start of training: no embedding is found, or it has another number of rows
            than the vocabulary that was counted; at `report`: fewer than two steps were recorded. Once training runs nothing is raised: a
            table that cannot be read is warned of and passed over.
    """

    def __init__(
        self,
        counted: CountedOrders,
        *,
        table: torch.Tensor | None = None,
        every: int = 100,
        prefix: str = "staircase",
    ) -> None:
        if not isinstance(prefix, str) or not prefix.strip():
            raise InputError(f"prefix is {shown(prefix)}; expected a name, which the logged figures begin with")
        self._counted, self._given, self._prefix = counted, table, prefix
        self._every = read_count(every, name="every")
        self._begin_anew()

    def join(self, trainer: Trainer) -> StaircaseCallback:
        """Become the first of a trainer's callbacks, so that its reporters log the figures."""
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(each for each in callbacks if each is not self)]
        return self

    def report(self) -> TrackReport:
        """Return what was found so far.

        Raises:
            InputError: fewer than two steps were recorded.
        """
        notes = ()
        if self._skipped:
            told = ", ".join(f"{step:,}" for step in self._skipped[:8])
            notes = (f"the embedding could not be read at {len(self._skipped)} steps, such as {told}, and they are left out",)
        return self._track.report(source="a training, as it went", notes=notes)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Find the table and record the init; a resumed training is recorded from where it resumes."""
        self._begin_anew()
        self._model = kwargs.get("model")
        self._found_table()
        self._record(state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record at the steps that are due."""
        step = state.global_step
        if step % self._every == 0 or (step < self._every and step & (step - 1) == 0) or step == state.max_steps:
            self._record(state)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Add the figures to a log of the training loss, and keep that loss."""
        if logs is None or "loss" not in logs:
            return
        if isinstance(logs["loss"], int | float):
            self._track.tell(state.global_step, loss=float(logs["loss"]))
        if self._fresh:
            figures = {f"{self._prefix}/{name}": value for name, value in self._fresh.items()}
            self._fresh = {}
            logs.update(figures)
            if state.log_history:
                state.log_history[-1].update(figures)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Record the last step."""
        if not self._track.steps or self._track.steps[-1] < state.global_step:
            self._record(state)

    def _found_table(self) -> torch.Tensor:
        """The table as it is now: a training may put another one in its place."""
        table = self._given if self._given is not None else input_embedding(self._model)
        vocabulary = self._counted.signatures.vocabulary
        if table.ndim != 2 or table.shape[0] != vocabulary:
            raise InputError(
                f"the embedding has shape {tuple(table.shape)}, and the signatures a vocabulary of {vocabulary:,}: count with "
                f"vocabulary={table.shape[0]}, or give the right table="
            )
        return table

    def _begin_anew(self) -> None:
        self._track = StairTrack(self._counted)
        self._model: Any = None
        self._fresh: dict[str, float] = {}
        self._skipped: list[int] = []

    def _record(self, state: TrainerState) -> None:
        if not state.is_world_process_zero:
            return
        try:
            table = self._found_table()
            index = torch.as_tensor(self._counted.signatures.tokens, device=table.device)
            rows = table.detach().index_select(0, index).float().cpu().numpy()
            self._fresh = self._track.record_rows(state.global_step, rows)
        except InputError as error:
            if not self._skipped:
                logger.warning("step %d is left out of the %s: %s", state.global_step, self._prefix, error)
            if state.global_step not in self._skipped:
                self._skipped.append(state.global_step)


def input_embedding(model: Any) -> torch.Tensor:
    """Return the (V, D) weight of a model's input embedding, of what wraps a model too.

    Raises:
        InputError: none is found.

    Example:
        >>> class Small(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.words = nn.Embedding(5, 2)
        ...     def get_input_embeddings(self):
        ...         return self.words
        >>> tuple(input_embedding(Small()).shape)
        (5, 2)
    """
    for each in _wrapped(model):
        try:
            found = each.get_input_embeddings()
        except (AttributeError, NotImplementedError):
            continue
        weight = getattr(found, "weight", None)
        if isinstance(weight, torch.Tensor):
            return weight
    raise InputError(f"{type(model).__name__} has no input embedding that is found: give it as table=, such as model.embeddings.weight")


def _wrapped(model: Any) -> list[Any]:
    """A model, what it wraps, and the first modules of a chain of them."""
    found = [model]
    for name in ("module", "model", "auto_model"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module):
            found += _wrapped(inner)
    if isinstance(model, nn.Sequential) and len(model):
        found += _wrapped(model[0])
    return found
