"""Trackers that follow a run: checked before training, and fed where their files outlive it."""

from __future__ import annotations

from pathlib import Path

from transformers import TrainerCallback
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, TensorBoardCallback, get_available_reporting_integrations

from normwise.core.errors import InputError, near_names

TENSORBOARD = "tensorboard"


def check_trackers(names: tuple[str, ...]) -> None:
    """Refuse a tracker that is unknown or not installed, before anything is trained.

    Args:
        names: as in `report_to`.

    Raises:
        InputError: names it, and the command that installs it or near names.

    Example:
        >>> check_trackers(())
    """
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InputError(f"report_to: tracker {name!r} is unknown: {near_names(name, INTEGRATION_TO_CALLBACK)}")
        if name not in get_available_reporting_integrations():
            raise InputError(f"report_to: tracker {name!r} is not installed; run: pip install {name}")


def tensorboard(names: tuple[str, ...], folder: Path) -> list[TrainerCallback]:
    """TensorBoard's callback, if it is asked for, writing its events to `folder`.

    The trainer's own would write beside the checkpoints, which go when the run is done.
    """
    if TENSORBOARD not in names:
        return []
    from torch.utils.tensorboard import SummaryWriter

    return [TensorBoardCallback(SummaryWriter(log_dir=str(folder)))]
