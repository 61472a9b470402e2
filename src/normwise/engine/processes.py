"""Which process this is, how many there are, and how many threads each may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from normwise.core.errors import InputError


@dataclass(frozen=True)
class Processes:
    """The place of this process in a launch.

    Attributes:
        rank: number of this process, 0 to world_size - 1.
        world_size: number of processes that train together.
        local_rank: number of this process on its machine.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks; exactly one does."""
        return self.rank == 0


def current_processes(environment: Mapping[str, str] | None = None) -> Processes:
    """Find the place of this process: from `torch.distributed` when it runs, else from torchrun's variables.

    torch is only asked when it is loaded already, so that a light command stays light.

    Args:
        environment: variables to read in place of the process's own.

    Returns:
        The place; a process that nobody launched is rank 0 of 1.

    Raises:
        InputError: torchrun's variables are incomplete or contradict each other.

    Example:
        >>> current_processes({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}).is_main
        False
    """
    variables = os.environ if environment is None else environment
    distributed = _running_distributed() if environment is None else None
    if distributed is not None:
        return Processes(rank=distributed[0], world_size=distributed[1], local_rank=_whole_number(variables, "LOCAL_RANK", default=0))
    given = [name for name in ("RANK", "WORLD_SIZE") if name in variables]
    if not given:
        return Processes()
    if len(given) == 1:
        raise InputError(f"the environment has {given[0]} but not its partner of RANK and WORLD_SIZE: launch with torchrun, or unset it")
    rank, world_size = _whole_number(variables, "RANK"), _whole_number(variables, "WORLD_SIZE")
    if rank >= world_size:
        raise InputError(f"RANK {rank} must be below WORLD_SIZE {world_size}: launch with torchrun")
    return Processes(rank=rank, world_size=world_size, local_rank=_whole_number(variables, "LOCAL_RANK", default=0))


def _running_distributed() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _whole_number(variables: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    text = variables.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise InputError(
            f"environment variable {name} must be a whole number of at least 0, got {text!r}: launch with torchrun, or unset it"
        )
    return int(text)


def available_cores() -> int:
    """How many cores this process may run on, which is what thread counts should follow; at least 1.

    Example:
        >>> available_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[int]:
    """Run torch's operators on `count` threads, and put the old number back.

    Args:
        count: threads, at least 1; None shares the available cores evenly among the local processes of a launch
            (torchrun's LOCAL_WORLD_SIZE).

    Yields:
        The number of threads in use.

    Raises:
        InputError: `count` is below 1.
    """
    import torch

    if count is None:
        count = max(1, available_cores() // max(1, _whole_number(os.environ, "LOCAL_WORLD_SIZE", default=1)))
    if count < 1:
        raise InputError(f"threads must be at least 1, got {count}")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)
