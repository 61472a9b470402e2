"""Losses beside checkpoints, as a trainer wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from normwise.core.errors import InputError
from normwise.data.checkpoint_series import Checkpoint, open_series
from normwise.data.trainer_history import told_history


def series_in(folder: Path, steps: list[int], history: object = None) -> tuple[Checkpoint, ...]:
    for step in steps:
        place = folder / f"checkpoint-{step}"
        place.mkdir()
        save_file({"embeddings.weight": np.full((3, 2), float(step + 1), dtype=np.float32)}, place / "model.safetensors")
    if history is not None:
        state = {"global_step": steps[-1], "log_history": history}
        (folder / f"checkpoint-{steps[-1]}" / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return open_series(folder)


def test_each_checkpoint_has_the_latest_log_since_the_one_before(tmp_path: Path) -> None:
    history = [
        {"loss": 5.0, "step": 5},
        {"loss": 4.0, "step": 10},
        {"loss": 3.5, "step": 15},
        {"eval_loss": 9.0, "eval_accuracy": 0.25, "step": 20},
        {"loss": 3.0, "step": 40},
    ]
    loss, accuracy = told_history(series_in(tmp_path, [10, 20, 30, 40], history))
    assert loss == (4.0, 3.5, None, 3.0)
    assert accuracy == (None, 0.25, None, None)


def test_without_a_state_there_is_nothing(tmp_path: Path) -> None:
    assert told_history(series_in(tmp_path, [10, 20])) == ((None, None), (None, None))


@pytest.mark.parametrize("history", ["none", [3, {"loss": "low", "step": 10}, {"loss": 2.0}, {"loss": True, "step": 10}], {"loss": 1.0}])
def test_entries_that_tell_nothing_are_passed_over(tmp_path: Path, history: object) -> None:
    assert told_history(series_in(tmp_path, [10, 20], history))[0] == (None, None)


def test_a_broken_state_is_named(tmp_path: Path) -> None:
    series = series_in(tmp_path, [10, 20])
    (tmp_path / "checkpoint-20" / "trainer_state.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="trainer_state.json"):
        told_history(series)
