"""What the norm laws need to know of a torch optimizer, read from the optimizer itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from normwise.core.track_records import OptimizerSettings


def owning_group(optimizer: Any, parameters: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return the parameter group that holds most of the given parameters' elements.

    Args:
        optimizer: a torch optimizer, or one that accelerate wraps.
        parameters: what makes the items.

    Returns:
        The live group: its `lr` is the one of the coming step. The first group where none holds any.
    """
    wanted = {id(parameter) for parameter in parameters}
    groups = optimizer.param_groups
    return max(groups, key=lambda group: sum(p.numel() for p in group["params"] if id(p) in wanted))


def optimizer_settings(optimizer: Any, group: dict[str, Any], *, learning_rate: float) -> OptimizerSettings:
    """Return what the laws need to know.

    torch's SGD and Adam couple the decay to the gradient, AdamW does not. SGD with Nesterov's or damped momentum, AMSGrad and all other
    optimizers have no law: their name is None. SparseAdam is lazy.

    Args:
        optimizer: a torch optimizer, or one that accelerate wraps.
        group: of `owning_group`.
        learning_rate: to record.

    Returns:
        The settings.

    Example:
        >>> sgd = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1, momentum=0.9)
        >>> optimizer_settings(sgd, sgd.param_groups[0], learning_rate=0.1).momentum
        0.9
    """
    inner: Any = optimizer
    # accelerate's wrapper is an Optimizer too.
    while not isinstance(inner, torch.optim.Optimizer) or type(inner).__name__ == "AcceleratedOptimizer":
        inner = getattr(inner, "optimizer")  # noqa: B009 - not known to the type of torch's class
    decay = float(group.get("weight_decay", 0.0))
    if isinstance(inner, torch.optim.SGD):
        plain = not (group.get("nesterov") or group.get("dampening") or group.get("maximize"))
        momentum = float(group.get("momentum", 0.0))
        name = "sgd" if plain else None
        return OptimizerSettings(name=name, learning_rate=learning_rate, weight_decay=decay, momentum=momentum, coupled=momentum > 0)
    if isinstance(inner, torch.optim.SparseAdam):
        return OptimizerSettings(name="adam", learning_rate=learning_rate, beta2=float(group["betas"][1]), lazy=True)
    if isinstance(inner, torch.optim.Adam) and not (group.get("amsgrad") or group.get("maximize")):
        decoupled = isinstance(inner, torch.optim.AdamW) or bool(group.get("decoupled_weight_decay"))
        beta2 = float(group["betas"][1])
        name = "adamw" if decoupled else "adam"
        return OptimizerSettings(
            name=name, learning_rate=learning_rate, weight_decay=decay, beta2=beta2, coupled=not decoupled and decay > 0
        )
    # AdamW of older torch versions is no kind of Adam.
    if isinstance(inner, torch.optim.AdamW) and not (group.get("amsgrad") or group.get("maximize")):
        return OptimizerSettings(name="adamw", learning_rate=learning_rate, weight_decay=decay, beta2=float(group["betas"][1]))
    return OptimizerSettings(name=None, learning_rate=learning_rate, weight_decay=decay)
