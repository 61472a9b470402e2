"""A small deep encoder for synthetic concepts, whose norm is free."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import nn

from normwise.core.errors import InputError
from normwise.theory.concept_world import ConceptWorld
from normwise.theory.vmf_draws import uniform_directions

CODE_WIDTH = 16
HIDDEN = 96


@final
class ConceptEncoder(nn.Module):
    """A multilayer perceptron x -> z of three bias-free linear maps with ReLUs between them.

    Without biases z is positively homogeneous in every weight matrix, so that <W, grad_W L> = 0 for a cosine loss, and nothing ties
    ||z|| to the direction of z.

    Args:
        inputs: width of x.
        outputs: width D of z.
        seed: of the weights; the global random state is left as it is.

    Raises:
        InputError: a width below 1.

    Example:
        >>> ConceptEncoder(4, 3, seed=0)(torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, inputs: int, outputs: int, *, seed: int) -> None:
        if inputs < 1 or outputs < 1:
            raise InputError(f"inputs is {inputs} and outputs {outputs}; expected at least 1 of each")
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            widths = (inputs, HIDDEN, HIDDEN, outputs)
            maps = [nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:], strict=False)]
            for layer in maps:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.layers = nn.Sequential(maps[0], nn.ReLU(), maps[1], nn.ReLU(), maps[2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return z (B, D) of x (B, inputs)."""
        return self.layers(x)


def encoder_inputs(world: ConceptWorld, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the encoder sees of concepts and of instances.

    A concept is its own random code beside its node's direction, an instance an empty code beside its own direction; each half has
    length 1 or 0. So concepts share what the tree says of them, and each has something of its own.

    Args:
        world: N concepts and M instances of width D.
        seed: of the codes.

    Returns:
        (N, 16 + D) and (M, 16 + D), float32.
    """
    codes = uniform_directions(np.random.default_rng(seed), world.centers.shape[0], CODE_WIDTH)
    concepts = np.concatenate([codes, world.centers], axis=1)
    instances = np.concatenate([np.zeros((world.candidates.shape[0], CODE_WIDTH)), world.candidates], axis=1)
    return torch.as_tensor(concepts, dtype=torch.float32), torch.as_tensor(instances, dtype=torch.float32)
