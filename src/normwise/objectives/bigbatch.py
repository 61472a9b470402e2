"""One batch over several processes: sums, maxima and gathered rows that keep their gradients.

Without an initialized process group every function here is the identity.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Number of processes that train together (1 without a process group)."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process among them (0 without a process group)."""
    return dist.get_rank() if world_size() > 1 else 0


def global_sum(x: Tensor) -> Tensor:
    """Sum of `x` over all processes, element by element; a constant for autograd."""
    return _reduce(x, dist.ReduceOp.SUM) if world_size() > 1 else x.detach()


def global_maximum(x: Tensor) -> Tensor:
    """Maximum of `x` over all processes, element by element; a constant for autograd."""
    return _reduce(x, dist.ReduceOp.MAX) if world_size() > 1 else x.detach()


def _reduce(x: Tensor, operation: Any) -> Tensor:
    total = x.detach().clone()
    dist.all_reduce(total, op=operation)
    return total


def gather_rows(x: Tensor) -> Tensor:
    """Rows of all processes, in order of rank; the counts of rows may differ.

    The backward pass sums over the processes what each of them says about a row and hands it back to the process that
    owns the row. With losses averaged over processes (as DDP does) this is the gradient of the mean loss.

    Args:
        x: (n, ...) tensor; all axes but the first agree between processes.

    Returns:
        (sum of n, ...) tensor; `x` itself in a single process.
    """
    if world_size() == 1:
        return x
    return _Gather.apply(x, row_counts(x))  # type: ignore[no-any-return]


def row_counts(x: Tensor) -> list[int]:
    """Number of rows of `x` in each process, in order of rank."""
    if world_size() == 1:
        return [x.shape[0]]
    mine = torch.tensor([x.shape[0]], device=x.device)
    counts = [torch.zeros_like(mine) for _ in range(world_size())]
    dist.all_gather(counts, mine)
    return [int(count) for count in counts]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: x.shape[0]] = x
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        start = sum(ctx.counts[: rank()])
        return total[start : start + ctx.counts[rank()]], None
