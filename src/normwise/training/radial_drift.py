"""How much of the real radial change of deep encoders' norms the kernel drift explains, and how much the free vector's law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import nn

from normwise.theory.dynamics import sgd_step_norm
from normwise.training.gradient_ledger import GradientLedger
from normwise.training.optimizer_reading import optimizer_settings, owning_group

FRACTION = 0.125
PREDICTIONS: tuple[str, ...] = ("free", "drift", "both", "displacement")


def first_order_displacement(
    vectors: Callable[[], np.ndarray], parameters: Sequence[torch.Tensor], before: Sequence[torch.Tensor], *, fraction: float = FRACTION
) -> np.ndarray:
    """Return how every vector moves, to first order, along the step that the weights have just made.

    Equation: dz_x = J_x Delta theta, with J_x the Jacobian of z_x at the weights before the step; for plain SGD this is
    -eta sum_b K(x, b) g_b / r_b with K = J_x J_b^T. Its radial part <hat z_x, dz_x> is the kernel drift of the norm. Computed as the
    central difference [z(theta + e Delta) - z(theta - e Delta)] / (2 e), whose error is of third order: it works for any encoder.

    Args:
        vectors: gives the (N, D) vectors at the present weights, without a random draw.
        parameters: the weights after the step; on return they are bit-equal to what they were.
        before: copies of them from before the step.
        fraction: e > 0.

    Returns:
        (N, D) displacements.

    Reference: our derivation (kernel drift of deep encoders).

    Example:
        >>> weight = torch.tensor([[2.0, 0.0]])
        >>> first_order_displacement(lambda: weight.numpy() ** 2, [weight], [torch.tensor([[1.0, 0.0]])]).tolist()
        [[2.0, 0.0]]
    """
    after = [parameter.detach().clone() for parameter in parameters]

    def at(share: float) -> np.ndarray:
        with torch.no_grad():
            for parameter, old, new in zip(parameters, before, after, strict=True):
                parameter.copy_(old + share * (new - old))
        return np.array(vectors(), dtype=np.float64)

    try:
        return (at(fraction) - at(-fraction)) / (2.0 * fraction)
    finally:
        with torch.no_grad():
            for parameter, new in zip(parameters, after, strict=True):
                parameter.copy_(new)


@final
class DriftMeter:
    """Compares real one-step changes of log r with four predictions, over measured steps and all items.

    free: the free vector's exact step from the item's own gradient (no change of radius at first order, eta^2 ||g||^2 / (2 r^3) at
    second, and the decay); for Adam the same with Adam's mean step. drift: <hat z, J Delta theta>, which a free vector lacks. both: their
    sum, the decay counted once. displacement: ||z + J Delta theta|| - r, which adds to the drift the heat of what *all* items' gradients
    do to this one sideways. The share explained is 1 - sum (change - prediction)^2 / sum change^2: 0 for "nothing changes", below 0 for
    worse than that.

    Args:
        vectors: gives the (N, D) vectors at the present weights, without a random draw.
        parameters: all trained weights.
        ledger: of the same items; its last step is read.
        every: measure one step in so many.
    """

    def __init__(
        self, vectors: Callable[[], np.ndarray], parameters: Sequence[nn.Parameter], ledger: Callable[[], GradientLedger], *, every: int = 1
    ) -> None:
        self._vectors, self._parameters, self._ledger, self._every = vectors, list(parameters), ledger, every
        self._step = 0
        self._real = 0.0
        self._errors: dict[str, float] = {name: 0.0 for name in PREDICTIONS}
        self._before: tuple[list[torch.Tensor], np.ndarray] | None = None
        self._paths: dict[str, np.ndarray] = {}

    def before_step(self) -> None:
        """Remember weights and vectors; call it after the ledger closed the step, before the optimizer's own."""
        self._before = None
        if self._step % self._every == 0:
            self._before = ([parameter.detach().clone() for parameter in self._parameters], self._vectors())
        self._step += 1

    def after_step(self, optimizer: Any) -> None:
        """Measure; call it after the optimizer's step."""
        if self._before is None:
            return
        weights, z = self._before
        moved = first_order_displacement(self._vectors, self._parameters, weights)
        old, new = np.linalg.norm(z, axis=1), np.linalg.norm(self._vectors(), axis=1)
        free, decayed = self._free(optimizer, old)
        drift = np.einsum("nd,nd->n", z, moved) / old
        predictions = {
            "free": free - old,
            "drift": drift,
            "both": drift + free - decayed,
            "displacement": np.linalg.norm(z + moved, axis=1) - old,
        }
        change = (new - old) / old
        self._real += float(change @ change)
        for name, prediction in predictions.items():
            error = change - prediction / old
            self._errors[name] += float(error @ error)
            # The drift is d log r itself; the others are new norms, whose logs add up however large the steps are.
            along = np.log1p(prediction / old) if name in ("free", "displacement") else prediction / old
            self._paths[name] = self._paths.get(name, 0.0) + along

    def figures(self) -> dict[str, float | None]:
        """`radial_r2_` of each prediction; None where nothing was measured."""
        return {f"radial_r2_{name}": 1.0 - error / self._real if self._real > 0.0 else None for name, error in self._errors.items()}

    def path(self, name: str) -> np.ndarray | None:
        """(N,) the change of log r in all that a prediction gave, step by step from the real norms; None unless every step was measured."""
        return self._paths.get(name) if self._every == 1 else None

    def _free(self, optimizer: Any, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Norms after a free vector's step, and after its decay alone."""
        group = owning_group(optimizer, self._parameters)
        rate = float(group["lr"])
        settings = optimizer_settings(optimizer, group, learning_rate=rate)
        decayed = old * (1.0 - rate * settings.weight_decay)
        ledger = self._ledger()
        squares = np.zeros(old.size)
        squares[ledger.last_rows] = ledger.last_squares
        if settings.name == "sgd":
            return np.asarray(sgd_step_norm(old, squares, learning_rate=rate, weight_decay=settings.weight_decay)), decayed
        # Of Adam's law only what it says of one step: each coordinate of a visited vector moves by about eta.
        return np.hypot(decayed, rate * np.sqrt(ledger.width) * (squares > 0)), decayed
