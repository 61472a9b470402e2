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
    """What is known of one parameter: the note of this process, who may still have to look for one, who set it by hand."""

    note: torch.Tensor | None = None
    look: set[bool] = field(default_factory=lambda: {True, False})
    given: bool = False


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
    record.given = record.given or given


def restore(parameter: nn.Parameter) -> None:
    """Take the value from an optimizer's state that was loaded since; nothing where none was.

    The search goes over everything that refers to the parameter, so it is made once for training and once for evaluation
    after the parameter is made and after each load of the model.
    """
    record, training = _record(parameter), torch.is_grad_enabled()
    if training not in record.look:
        return
    record.look.discard(training)
    # No trainer tells a loss which optimizer it uses; the optimizer's state, though, has the parameter for a key.
    for holder in gc.get_referrers(parameter):
        entry = dict.get(holder, parameter) if isinstance(holder, dict) else None
        note = entry.get(NOTE) if isinstance(entry, Mapping) else None
        if isinstance(note, torch.Tensor) and note is not record.note:
            with torch.no_grad():
                parameter.copy_(note)
            record.note = note


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
        elif note is not record.note:
            # The value in use was pulled back onto its bounds, the note may lie a step outside of them.
            now, noted = float(parameter.detach()), float(note)
            if not math.isclose(now, noted, rel_tol=1e-3, abs_tol=1e-3) and not record.given:
                raise WorkError(
                    f"the optimizer was resumed at a learned temperature of {math.exp(-noted):g}, but the loss computed with "
                    f"{math.exp(-now):g}: load the optimizer before the first batch, or call load_temperature_state with the saved state"
                )
            record.note = note


def _warn_of_no_note(entry: Mapping[str, Any], parameter: nn.Parameter, record: _Record) -> None:
    if record.note is None and not record.given and float(entry.get("step", 0)) > 0:
        warnings.warn(
            f"the optimizer was resumed from a checkpoint that holds no learned temperature: it starts again at "
            f"{math.exp(-float(parameter.detach())):g}; call load_temperature_state with the saved state",
            stacklevel=2,
        )


def _note(optimizer: Optimizer, arguments: Any, keywords: Any) -> None:
    for parameter, record in _carried_by(optimizer):
        # Without a gradient the optimizer made no entry, and an entry that holds a note only would look like a complete one.
        if parameter.grad is None:
            continue
        entry = optimizer.state[parameter]
        if record.note is None or entry.get(NOTE) is not record.note:
            record.note = entry[NOTE] = parameter.detach().clone()
        else:
            record.note.copy_(parameter.detach())
