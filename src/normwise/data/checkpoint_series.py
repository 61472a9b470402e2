"""Saved checkpoints of one training: found in a folder, put in the order of their steps, their embedding tables read raw."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, read_json_object, reading
from normwise.data.row_files import FileRows
from normwise.data.safetensors_tables import open_table, read_header

# step1000, checkpoint-500, stage1-step140000-tokens294B, iter_0002000, epoch=3-step=1200
_NAMED = re.compile(r"(?:step|checkpoint|ckpt|iter(?:ation)?)s?[-_=]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_OPTIMIZER = re.compile(r"exp_avg|exp_avg_sq|momentum|optimizer|variance|max_exp", re.IGNORECASE)
_STATES = ("optimizer.pt", "optimizer.bin", "optimizer.safetensors", "optim_states.pt")
_HASHED_VALUES = 1 << 22
_SHOWN = 8


@dataclass(frozen=True)
class Checkpoint:
    """One of a series.

    Args:
        step: of the training.
        path: its folder or file.
        table: the tensor's name.
        rows: the (V, D) table, read from the file as it is.
    """

    step: int
    path: Path
    table: str
    rows: FileRows

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.path.name

    def digest(self) -> str:
        """A hash of the values of the table, whatever type they are stored in; a zero has no sign.

        Raises:
            InputError: a value that is not finite.
        """
        found = blake2b(digest_size=16)
        count, width = self.rows.shape
        found.update(f"{count} {width}".encode())
        step = max(1, _HASHED_VALUES // width)
        for low in range(0, count, step):
            block = self.rows[low : low + step]
            bad = ~np.isfinite(block).all(axis=1)
            if bad.any():
                raise InputError(f"{self.path}: row {low + int(bad.argmax())} of {self.table} holds a value that is not finite")
            found.update((block.astype(np.float64) + 0.0).tobytes())
        return found.hexdigest()


def open_series(folder: Path, *, table: str | None = None, leave_out: Collection[int] = ()) -> tuple[Checkpoint, ...]:
    """Open the checkpoints in a folder in the order of their steps.

    Each is a folder with `.safetensors` files, or a `.safetensors` file, with its step in its name (checkpoint-500, step1000), or in its
    `trainer_state.json`. What has no weights, such as a folder of logs, is passed over.

    Args:
        folder: that holds them.
        table: name of the tensor; None finds it.
        leave_out: steps to pass over.

    Returns:
        At least 2, by ascending step, with tables of one name and shape.

    Raises:
        InputError: fewer than 2; a step that cannot be told, that two share, or that contradicts the `trainer_state.json` beside the
            weights; files that are not whole; weights that are missing where an optimizer's state is there, or that are such a state;
            tables whose names or shapes differ; a step to leave out that is not there.
    """
    if kind_of(folder) != "folder":
        raise InputError(f"{folder} is no folder; expected one with checkpoints in it, such as checkpoint-500 and checkpoint-1000")
    with reading(folder):
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.name == "config.json" or path.name.endswith(".safetensors.index.json") for path in inside):
        raise InputError(f"{folder} is one checkpoint; give the folder that holds several of them")
    by_step: dict[int, Path] = {}
    for path in inside:
        if not _holds_weights(path):
            continue
        step = _step_of(path)
        if step in by_step:
            raise InputError(f"{by_step[step].name} and {path.name} in {folder} are both of step {step}: take one of them away")
        by_step[step] = path
    missing = sorted(set(leave_out) - set(by_step))
    if missing:
        raise InputError(f"step {missing[0]} is to be left out, and {folder} has none of that step; it has {_listed(sorted(by_step))}")
    steps = sorted(set(by_step) - set(leave_out))
    if len(steps) < 2:
        raise InputError(f"{folder} holds {len(steps)} checkpoint with weights; expected at least 2, as folders or .safetensors files")
    series = tuple(_opened(step, by_step[step], table) for step in steps)
    first = series[0]
    for each in series[1:]:
        if each.table != first.table:
            raise InputError(
                f"{first.path.name} has its embedding in {first.table}, and {each.path.name} in {each.table}: name one with --table"
            )
        if each.rows.shape != first.rows.shape:
            raise InputError(
                f"{first.path.name} has a table of shape {first.rows.shape}, and {each.path.name} one of {each.rows.shape}: "
                "expected checkpoints of one training"
            )
    return series


def _holds_weights(path: Path) -> bool:
    """Whether a path is a checkpoint; an optimizer's state without weights beside it is refused by name."""
    kind = kind_of(path)
    if kind == "file":
        return path.suffix == ".safetensors" and path.name not in _STATES
    if kind != "folder":
        return False
    with reading(path):
        names = {each.name for each in path.iterdir()}
    if any(name.endswith((".safetensors", ".safetensors.index.json")) and name not in _STATES for name in names):
        return True
    states = sorted(names & set(_STATES))
    if states:
        raise InputError(f"{path} holds {states[0]}, an optimizer's state, and no weights: save the model there too, or take it away")
    # A pickle, or the older layout of sentence-transformers: opening it says what is wrong, if anything is.
    return any(name.startswith("pytorch_model") for name in names) or any(path.glob("0_*/*.safetensors"))


def _step_of(path: Path) -> int:
    named = _NAMED.findall(path.stem if path.suffix == ".safetensors" else path.name)
    numbers = named or _NUMBER.findall(path.stem if path.suffix == ".safetensors" else path.name)
    told = _told_step(path)
    if len(numbers) == 1 and (told is None or told == int(numbers[0])):
        return int(numbers[0])
    if len(numbers) != 1 and told is not None:
        return told
    if told is not None:
        raise InputError(f"{path} is named for step {int(numbers[0])}, and its trainer_state.json says {told}: it was moved or overwritten")
    came = f"it has the numbers {', '.join(numbers[:_SHOWN])}" if numbers else "it has no number"
    raise InputError(f"which step is {path}? {came}: rename it to step-NUMBER")


def _told_step(path: Path) -> int | None:
    state = path / "trainer_state.json"
    if kind_of(path) != "folder" or kind_of(state) != "file":
        return None
    told = read_json_object(state).get("global_step")
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _opened(step: int, path: Path, table: str | None) -> Checkpoint:
    names = [name for name in read_header(path) if _OPTIMIZER.search(name)]
    if names and (table is None or table in names):
        raise InputError(f"{path} holds an optimizer's state, such as {names[0]}, and no weights alone: name the table with --table")
    rows, name = open_table(path, name=table)
    return Checkpoint(step, path, name, rows)


def _listed(steps: Sequence[int]) -> str:
    shown = ", ".join(str(step) for step in steps[:_SHOWN])
    return f"{shown}, ..." if len(steps) > _SHOWN else shown or "none"
