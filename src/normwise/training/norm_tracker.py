"""The norm tracker: a callback that compares each chosen item's norm with the one that the optimizer's law predicts from its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from normwise.core.errors import InputError
from normwise.core.track_records import NormTrack, OptimizerSettings
from normwise.theory.driving_moment import DrivingMoment, acting_decay
from normwise.theory.tracked_norms import TrackedRun, track_of
from normwise.training.gradient_ledger import GradientLedger
from normwise.training.optimizer_reading import optimizer_settings, owning_group
from normwise.training.tracked_items import TrackedItems, TrackedTexts

_WITNESS_SIZE = 4096
_WITNESSES = 8
_CLIP_TOLERANCE = 1e-6
_LARGEST_DECAY = 0.1


@final
class NormTracker(TrainerCallback):
    """Records G = E ||g||^2 (signal and noise), visits and norms of chosen items during any sentence-transformers training.

    Among a trainer's callbacks it needs nothing else. In a loop of your own:

        from normwise.training.norm_tracker import NormTracker
        from normwise.training.tracked_items import TrackedTexts

        tracker = NormTracker(TrackedTexts(model, texts))
        with tracker.watching():
            for batch in batches:
                loss(batch).backward()
                tracker.before_step(optimizer)
                optimizer.step()
                optimizer.zero_grad()
        print(tracker.result().words)

    It reads detached values only: weights are bit-equal with and without it. Memory is two vectors per item. Gradients of texts are
    taken before clipping and multiplied by the factor that clipping applied, which shows on a few small parameters (the witnesses).
    For a deep encoder the free vector's law is a yardstick, not a truth: z moves whenever the weights do.

    Args:
        items: `TrackedTexts` or `TrackedRows`.

    Raises:
        InputError: at the start of training: fp16 loss scaling or several processes, under which a rank's hook does not see the
            gradient that the optimizer uses; at `result`: no step was seen.
    """

    def __init__(self, items: TrackedItems) -> None:
        self._items = items
        self._ledger = GradientLedger(len(items.names))
        self._handles: list[Any] = []
        self._witnesses: dict[nn.Parameter, torch.Tensor] = {}
        self._initial: np.ndarray | None = None
        self._final: np.ndarray | None = None
        self._settings: OptimizerSettings | None = None
        self._driving: DrivingMoment | None = None

    @property
    def ledger(self) -> GradientLedger:
        """The gradients seen so far."""
        return self._ledger

    def start(self) -> None:
        """Measure the first norms and begin to watch; a second start begins anew."""
        self.stop(measure=False)
        self._ledger = GradientLedger(len(self._items.names))
        self._settings = self._final = self._driving = None
        self._initial = self._items.norms()
        if not np.all(self._initial > 0):
            raise InputError(f"item {self._items.names[int(np.argmin(self._initial))]!r:.60} has a zero vector, which has no direction")
        self._handles = self._items.attach(self._ledger)
        if self._handles:
            self._handles += [p.register_post_accumulate_grad_hook(self._remember) for p in _witnesses(self._items.parameters())]

    def before_step(self, optimizer: Any) -> None:
        """Count one optimizer step: call it after the backward pass (and clipping), before `optimizer.step()`."""
        self._items.gather(self._ledger)
        group = owning_group(optimizer, self._items.parameters())
        if self._settings is None:
            self._settings = optimizer_settings(optimizer, group, learning_rate=float(group["lr"]))
            if self._settings.name == "sgd":
                self._driving = DrivingMoment(len(self._items.names), weight_decay=_acting_decay(self._settings), lazy=self._settings.lazy)
        self._ledger.close_step(float(group["lr"]), clip=self._clip())
        self._drive(float(group["lr"]))

    def stop(self, *, measure: bool = True) -> None:
        """Stop watching and measure the last norms."""
        for handle in self._handles:
            handle.remove()
        watched, self._handles, self._witnesses = bool(self._initial is not None), [], {}
        if measure and watched:
            self._final = self._items.norms()

    @contextmanager
    def watching(self) -> Iterator[NormTracker]:
        """Watch inside a with block."""
        self.start()
        try:
            yield self
        except BaseException:
            self.stop(measure=False)
            raise
        self.stop()

    def result(self) -> NormTrack:
        """Return the record: predicted and real norm of each item, and how well they agree.

        Raises:
            InputError: no step was seen.
        """
        if self._settings is None or self._initial is None:
            raise InputError("no optimizer step was seen: train with the tracker among the callbacks, or call before_step in your loop")
        rates = np.array(self._ledger.learning_rates)
        return track_of(
            TrackedRun(
                names=self._items.names,
                stream=self._ledger.stream,
                initial_norms=self._initial,
                norms=self._items.norms() if self._final is None else self._final,
                lengths=self._items.lengths,
                learning_rates=rates,
                settings=self._settings.model_copy(update={"learning_rate": float(rates.mean())}),
                width=self._ledger.width,
                driving_moments=None if self._driving is None else self._driving.values,
                radial_share=self._ledger.radial_share,
                clipped_share=self._ledger.clipped_share,
                shared=_shares_weights(self._items),
            )
        )

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Start with the training; a resumed one is tracked from where it resumes."""
        if args.fp16:
            raise InputError("fp16 scales the loss, and gradients with it: track with bf16 or float32")
        if args.world_size > 1:
            raise InputError(f"{args.world_size} processes average their gradients after the hooks: track in one process")
        self.start()

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Count the step."""
        self.before_step(kwargs["optimizer"])

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop with the training."""
        self.stop()

    def _remember(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None and not parameter.grad.is_sparse:
            self._witnesses[parameter] = parameter.grad.detach().float().square().sum()  # pyright: ignore[reportArgumentType]

    def _drive(self, rate: float) -> None:
        """Add the step to the second moment of SGD's law."""
        if self._driving is None or self._settings is None:
            return
        if rate * _acting_decay(self._settings) >= _LARGEST_DECAY:
            # Far outside the law, whose own error comes with the result: it must not stop a training.
            self._driving = None
            return
        self._driving.add(self._ledger.last_rows, self._ledger.last_squares, learning_rate=rate)

    def _clip(self) -> float:
        """The factor between the witnesses' gradients now and after the backward pass; 1 without clipping."""
        seen, self._witnesses = self._witnesses, {}
        before = sum(float(square) for square in seen.values())
        after = sum(float(p.grad.float().square().sum()) for p in seen if p.grad is not None)
        factor = float(np.sqrt(after / before)) if before > 0.0 else 1.0
        return factor if abs(factor - 1.0) > _CLIP_TOLERANCE else 1.0


def _acting_decay(settings: OptimizerSettings) -> float:
    return acting_decay(settings.weight_decay, momentum=settings.momentum, coupled=settings.coupled)


def _shares_weights(items: TrackedItems) -> bool:
    """Whether one item's step moves others: texts do, but for single tokens of a model that is nothing but a table."""
    if not isinstance(items, TrackedTexts):
        return False
    alone = items.lengths is not None and bool(np.all(items.lengths == 1))
    return not (alone and len(items.parameters()) == 1)


def _witnesses(parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    """A few trainable parameters, small ones first: every one of them is clipped by the same factor."""
    trained = sorted((p for p in parameters if p.requires_grad), key=lambda p: p.numel())
    small = [p for p in trained if p.numel() <= _WITNESS_SIZE]
    return (small or trained)[:_WITNESSES] if len(small) < _WITNESSES else small[-_WITNESSES:]
