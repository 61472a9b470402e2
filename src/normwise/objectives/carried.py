"""A learned temperature that rides in the optimizer's state, so that any trainer that resumes brings it back.

The parameter is kept out of the model's folder, hence a trainer that reloads the model from a checkpoint finds the value
that the loss was built with. The optimizer's state, however, belongs to the checkpoint: after each step the value is
noted there, next to the moments of the same parameter, and read back before the first use after a load.
"""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from normwise.core.errors import WorkError

NOTE = "learned_temperature"


@dataclass(eq=False)
class _Record:
    """What is known of one parameter.

    Attributes:
        notes: the notes that this process wrote or has read already; any other one came with a loaded state.
        look: in which of training (True) and evaluation (False) a loaded state has still to be looked for.
        loaded: whether the model was loaded and no step was taken since.
        given: whether the value was set by hand from a saved state.
        bounds: least and greatest value in use; a note may lie one step outside of them.
    """

    notes: list[torch.Tensor] = field(default_factory=list)
    look: set[bool] = field(default_factory=lambda: {True, False})
    loaded: bool = False
    given: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def knows(self, note: torch.Tensor) -> bool:
        """Whether this very note (not one of equal value) is known."""
        return any(note is known for known in self.notes)


_RECORDS: Any = WeakTensorKeyDictionary()
_HOOKS: list[Any] = []


def carry(parameter: nn.Parameter) -> None:
    """From now on every optimizer that steps this parameter keeps its value in its state."""
    _record(parameter)
    if not _HOOKS:
        _HOOKS.extend([register_optimizer_step_pre_hook(_refuse_reset), register_optimizer_step_post_hook(_note)])


def look_again(parameter: nn.Parameter, *, given: bool = False) -> None:
    """The model was loaded, or (`given`) the value was restored by hand: an optimizer's state may have come with it."""
    record = _record(parameter)
    record.look = {True, False}
    record.loaded = record.loaded or not given
    record.given = record.given or given


def restore(parameter: nn.Parameter, *, bounds: tuple[float, float]) -> None:
    """Take the value from an optimizer's state that was loaded since; nothing where none was.

    The search goes over everything that refers to the parameter, so it is made once for training and once for evaluation
    after the parameter is made and after each load of the model.
    """
    record, training = _record(parameter), torch.is_grad_enabled()
    record.bounds = bounds
    if training not in record.look:
        return
    record.look.discard(training)
    # No trainer tells a loss which optimizer it uses; the optimizer's state, though, has the parameter for a key.
    for holder in gc.get_referrers(parameter):
        entry = dict.get(holder, parameter) if isinstance(holder, dict) else None
        note = entry.get(NOTE) if isinstance(entry, Mapping) else None
        if isinstance(note, torch.Tensor) and not record.knows(note):
            with torch.no_grad():
                parameter.copy_(note)
            record.notes.append(note)


def _record(parameter: nn.Parameter) -> _Record:
    if parameter not in _RECORDS:
        _RECORDS[parameter] = _Record()
    return _RECORDS[parameter]


def _carried_by(optimizer: Optimizer) -> list[tuple[nn.Parameter, _Record]]:
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return [(parameter, record) for parameter, record in list(_RECORDS.items()) if id(parameter) in held]


def _refuse_reset(optimizer: Optimizer, arguments: Any, keywords: Any) -> None:
    for parameter, record in _carried_by(optimizer):
        entry = optimizer.state.get(parameter, {})
        note = entry.get(NOTE)
        if note is None:
            _warn_of_no_note(entry, parameter, record)
        elif not record.knows(note):
            _refuse_other_value(note, parameter, record)
            record.notes.append(note)
        record.loaded = False


def _refuse_other_value(note: torch.Tensor, parameter: nn.Parameter, record: _Record) -> None:
    now, noted = parameter.detach(), note.detach().clamp(*record.bounds)
    if not record.given and not torch.equal(now.to(noted), noted):
        raise WorkError(
            f"the optimizer was resumed at a learned temperature of {math.exp(-float(noted)):g}, but the loss computed with "
            f"{math.exp(-float(now)):g}: load the optimizer before the first batch, or call load_temperature_state with the saved state"
        )


def _warn_of_no_note(entry: Mapping[str, Any], parameter: nn.Parameter, record: _Record) -> None:
    resumed = record.loaded or float(entry.get("step", 0)) > 0
    if resumed and not record.notes and not record.given:
        warnings.warn(
            f"the model or the optimizer was loaded, but no learned temperature came with the optimizer's state: it starts at "
            f"{math.exp(-float(parameter.detach())):g}; to resume a run, load the optimizer too or call load_temperature_state",
            stacklevel=2,
        )


def _note(optimizer: Optimizer, arguments: Any, keywords: Any) -> None:
    for parameter, record in _carried_by(optimizer):
        # Without a gradient the optimizer made no entry, and an entry that holds a note only would look like a complete one.
        if parameter.grad is None:
            continue
        entry = optimizer.state[parameter]
        if NOTE in entry and record.knows(entry[NOTE]):
            entry[NOTE].copy_(parameter.detach())
        else:
            entry[NOTE] = parameter.detach().clone()
            record.notes.append(entry[NOTE])
