"""Losses that a Hugging Face trainer wrote beside its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from normwise.data.checkpoint_series import Checkpoint
from normwise.data.opening import kind_of, read_json_object

_STATE = "trainer_state.json"
_LARGEST = 1e300


def told_history(series: Sequence[Checkpoint]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Return the training loss and the accuracy on evaluation at each checkpoint, as the last `trainer_state.json` of the series tells.

    Each is the latest that was logged up to the checkpoint and after the one before it; None where there is none, or no number, or an
    accuracy outside 0..1.

    Args:
        series: rising.

    Returns:
        (loss, accuracy), as long as the series.

    Raises:
        InputError: the file is no JSON.
    """
    entries: list[dict[str, Any]] = []
    for checkpoint in reversed(series):
        state = checkpoint.path / _STATE
        if kind_of(checkpoint.path) == "folder" and kind_of(state) == "file":
            history = read_json_object(state).get("log_history")
            entries = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
            break
    steps = [checkpoint.step for checkpoint in series]
    return _latest(entries, "loss", steps), _latest(entries, "eval_accuracy", steps)


def _latest(entries: Sequence[dict[str, Any]], name: str, steps: Sequence[int]) -> tuple[float | None, ...]:
    told = sorted((entry["step"], float(entry[name])) for entry in entries if _number(entry.get("step")) and _number(entry.get(name)))
    told = [(step, value) for step, value in told if name != "eval_accuracy" or 0.0 <= value <= 1.0]
    found: list[float | None] = []
    before = -1
    for step in steps:
        inside = [value for at, value in told if before < at <= step]
        found.append(inside[-1] if inside else None)
        before = step
    return tuple(found)


def _number(value: Any) -> bool:
    # An integer of hundreds of digits is no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
