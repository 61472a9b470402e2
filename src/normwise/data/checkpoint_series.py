"""Saved checkpoints of one training: found in a folder, put in the order of their steps, their embedding tables read raw."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, read_json_object, reading
from normwise.data.row_files import FileRows
from normwise.data.safetensors_tables import open_table, read_header
from normwise.data.table_digests import TableDigest

# step1000, checkpoint-500, stage1-step140000-tokens294B, iter_0002000, epoch=3-step=1200
_NAMED = re.compile(r"(?:step|checkpoint|ckpt|iter(?:ation)?)s?[-_=]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_OPTIMIZER = re.compile(r"exp_avg|exp_avg_sq|momentum|optimizer|variance|max_exp", re.IGNORECASE)
# What stands beside the weights of one model.
_ONE = ("config.json", "modules.json")
_STATES = ("optimizer.pt", "optimizer.bin", "optimizer.safetensors", "optim_states.pt")
# Few enough to stay in a processor's cache while they are rounded and hashed.
_HASHED_VALUES = 1 << 17
# Squares of larger values, summed, leave float64.
_LARGEST = 1e140
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

    def block(self, low: int, high: int) -> np.ndarray:
        """Read some rows.

        Raises:
            InputError: a value that is not finite, or so large that its square is not.
        """
        found = self.rows[low:high]
        # Written so that nan is bad, too.
        good = np.abs(found) <= min(_LARGEST, float(np.finfo(found.dtype).max))
        if not good.all():
            row, column = (int(at[0]) for at in np.nonzero(~good))
            value = float(found[row, column])
            what = f"holds {value:g}" if np.isfinite(value) else f"holds a value that is not finite, {value:g}"
            raise InputError(
                f"{self.path}: row {low + row} (from 0) of {self.table} {what}: the training diverged or the file is damaged; fetch it "
                f"again, or pass it over with --leave-out {self.step}"
            )
        return found

    def digest(self) -> str:
        """A hash of the values of the table, whatever type they are stored in; a zero has no sign.

        Raises:
            InputError: see `block`.
        """
        count, width = self.rows.shape
        found, step = TableDigest((count, width)), max(1, _HASHED_VALUES // width)
        for low in range(0, count, step):
            found.update(self.block(low, min(low + step, count)))
        return found.exact


def open_series(folder: Path, *, table: str | None = None, leave_out: Collection[int] = ()) -> tuple[Checkpoint, ...]:
    """Open the checkpoints in a folder in the order of their steps.

    Each is a folder with `.safetensors` files, or a `.safetensors` file, with its step in its name (checkpoint-500, step1000), or in its
    `trainer_state.json`. What has no weights, such as a folder of logs, is passed over, and so is a finished model beside its checkpoints.

    Args:
        folder: that holds them.
        table: name of the tensor; None finds it.
        leave_out: steps to pass over.

    Returns:
        At least 2, by ascending step, with tables of one name and shape.

    Raises:
        InputError: fewer than 2; a step that cannot be told, that two share, or that contradicts the `trainer_state.json` beside the
            weights; files that are not whole; weights that are missing where an optimizer's state is there, or that are such a state;
            a folder that is named as a checkpoint and has none; tables whose names or shapes differ; a step to leave out that is not there.
    """
    if kind_of(folder) != "folder":
        raise InputError(f"{folder} is no folder; expected one with checkpoints in it, such as checkpoint-500 and checkpoint-1000")
    with reading(folder):
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.name in _ONE or path.name.endswith(".safetensors.index.json") for path in inside):
        # A trainer writes the finished model beside its checkpoints, without a step.
        inside = [path for path in inside if kind_of(path) == "folder" and _NAMED.search(path.name)]
        if not inside:
            raise InputError(f"{folder} is one checkpoint; give the folder that holds several of them")
    by_step, passed = _by_step(folder, inside, set(leave_out))
    missing = sorted(set(leave_out) - passed)
    if missing:
        has = _listed(sorted(passed | set(by_step)))
        raise InputError(f"step {missing[0]} is to be left out, and {folder} has none of that step; it has {has}")
    steps = sorted(by_step)
    if len(steps) < 2:
        but = f" (besides {_listed(sorted(passed))}, left out)" if passed else ""
        raise InputError(f"{folder} holds {len(steps)} checkpoint with weights; expected at least 2, as folders or .safetensors files{but}")
    series = tuple(_opened(step, by_step[step], table) for step in steps)
    first = series[0]
    for each in series[1:]:
        if each.table != first.table:
            raise InputError(
                f"{first.path.name} has its embedding in {first.table}, and {each.path.name} in {each.table}: name one with --table"
            )
        if each.rows.shape != first.rows.shape:
            raise InputError(
                f"{first.path.name} has a table of shape {first.rows.shape}, and {each.path.name} one of {each.rows.shape}: expected "
                f"checkpoints of one training; take the others away, or pass them over with --leave-out, such as {each.step}"
            )
    return series


def _by_step(folder: Path, inside: Sequence[Path], leave_out: set[int]) -> tuple[dict[int, Path], set[int]]:
    """Checkpoints by their steps, and the steps passed over: what is broken can be left out, too."""
    by_step: dict[int, Path] = {}
    passed: set[int] = set()
    for path in inside:
        named = _named_steps(path)
        may_be_one = kind_of(path) == "folder" or path.suffix == ".safetensors"
        if may_be_one and len(named) == 1 and named[0] in leave_out:
            passed.add(named[0])
            continue
        if not _holds_weights(path):
            if kind_of(path) == "folder" and len(named) == 1 and _NAMED.search(path.name):
                raise InputError(
                    f"{path} is named as a checkpoint and holds no weights: it is still being written, or its files are elsewhere; wait "
                    f"or fetch it again, take it away, or pass it over with --leave-out {named[0]}"
                )
            continue
        step = _step_of(path)
        if step in leave_out:
            passed.add(step)
            continue
        if step in by_step:
            raise InputError(f"{by_step[step].name} and {path.name} in {folder} are both of step {step}: take one of them away")
        by_step[step] = path
    return by_step, passed


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


def _named_steps(path: Path) -> list[int]:
    """Numbers in a name that may be its step: those after a word such as step, if there are any."""
    name = path.stem if path.suffix == ".safetensors" else path.name
    return [int(each) for each in _NAMED.findall(name) or _NUMBER.findall(name)]


def _step_of(path: Path) -> int:
    numbers = _named_steps(path)
    told = _told_step(path)
    if len(numbers) == 1 and (told is None or told == numbers[0]):
        return numbers[0]
    if len(numbers) != 1 and told is not None:
        return told
    if told is not None:
        raise InputError(f"{path} is named for step {numbers[0]}, and its trainer_state.json says {told}: it was moved or overwritten")
    came = f"it has the numbers {', '.join(str(each) for each in numbers[:_SHOWN])}" if numbers else "it has no number"
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
