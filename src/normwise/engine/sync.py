"""Waiting for the other processes of a launch."""

from __future__ import annotations

from normwise.engine.processes import current_processes


def join_launch() -> None:
    """Start the process group of a torchrun launch; nothing happens in a process that nobody launched.

    Called before work is divided, since the trainer itself would only do it at its first stage.
    """
    if current_processes().world_size > 1:
        import torch
        from accelerate import PartialState

        PartialState(cpu=not torch.cuda.is_available())


def barrier() -> None:
    """Wait until every process of the launch has come here."""
    if current_processes().world_size > 1:
        from accelerate import PartialState

        PartialState().wait_for_everyone()
