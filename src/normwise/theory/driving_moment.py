"""The gradient second moment that drives a norm which forgets: each visit weighted by how much of it is left at the end."""

from __future__ import annotations

from typing import final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int


def acting_decay(weight_decay: float, *, momentum: float, coupled: bool) -> float:
    """Return the decay as it acts on r: one that goes through the momentum's buffer acts 1 / (1 - b) times.

    Args:
        weight_decay: lambda >= 0.
        momentum: b in 0..1, below 1.
        coupled: the decay enters the momentum buffer.

    Returns:
        lambda, or lambda / (1 - b).

    Reference: our derivation, see `predicted_norm_sgd`.

    Example:
        >>> acting_decay(0.25, momentum=0.5, coupled=True), acting_decay(0.25, momentum=0.5, coupled=False)
        (0.5, 0.25)
    """
    return weight_decay / (1.0 - momentum) if coupled else weight_decay


@final
class DrivingMoment:
    """Running second moment G of each item, as the law of SGD needs it where gradients or learning rates change over the run.

    Equation: from r'^4 = (1 - eta lambda)^4 r^4 + c eta^2 ||g||^2, with c the same at every step up to eta lambda, the last norm holds
    the visit of step t with the weight

        w_t = eta_t^2 prod_(s > t) (1 - eta_s lambda)^4,      G = sum_visits w_t ||g_t||^2 / (f sum_t w_t),   f = visits / steps

    for dense decay; under lazy decay product and sum run over the item's own visits, and f is 1. Without decay and at one learning
    rate G is the plain mean over visits. The plain mean is wrong under decay wherever gradients shrink in training: the norm has
    forgotten the large ones.

    Args:
        items: N >= 1.
        weight_decay: lambda >= 0; eta lambda < 1.
        lazy: decay touches an item only when it is visited.

    Raises:
        InputError: a value outside its range.

    Reference: our derivation, from the recursion of r^4 that `predicted_norm_sgd` solves.

    Example:
        >>> driving = DrivingMoment(1, weight_decay=0.5)
        >>> driving.add(np.array([0]), np.array([16.0]), learning_rate=1.0)
        >>> driving.add(np.array([0]), np.array([1.0]), learning_rate=1.0)
        >>> driving.values.round(4).tolist()  # (16 / 16 + 1) / (1 / 16 + 1)
        [1.8824]
    """

    def __init__(self, items: int, *, weight_decay: float = 0.0, lazy: bool = False) -> None:
        if items < 1 or weight_decay < 0:
            raise InputError(f"items is {items} and weight_decay {weight_decay}; expected at least one item, and a decay >= 0")
        self._decay, self._lazy = weight_decay, lazy
        self._visits = np.zeros(items, dtype=np.int64)
        self._sums = np.zeros(items)
        self._weights = np.zeros(items)
        # Sums are kept as of an item's last visit, where its weights are in range; `_seen` is the clock of that visit.
        self._seen = np.zeros(items)
        self._clock = 0.0
        self._total = 0.0
        self._steps = 0

    def add(self, rows: Int[np.ndarray, " B"], squares: Float[np.ndarray, " B"], *, learning_rate: float) -> None:
        """Take one step: the items that it visited, each at most once, and their ||g||^2.

        Args:
            rows: (B,) items; may be empty.
            squares: (B,) ||g||^2 >= 0, tangential, on the unit sphere.
            learning_rate: eta >= 0 of the step.

        Raises:
            InputError: eta lambda is not below 1.
        """
        shrink = learning_rate * self._decay
        if not 0.0 <= shrink < 1.0:
            raise InputError(f"learning_rate times weight_decay is {shrink:g}; expected at least 0 and below 1")
        forgets, size = -4.0 * np.log1p(-shrink), learning_rate**2
        self._steps += 1
        self._visits[rows] += 1
        if self._lazy:
            left = np.exp(-forgets)
        else:
            self._clock += forgets
            self._total = self._total * np.exp(-forgets) + size
            left = np.exp(self._seen[rows] - self._clock)
            self._seen[rows] = self._clock
        self._sums[rows] = self._sums[rows] * left + size * squares
        self._weights[rows] = self._weights[rows] * left + size

    @property
    def values(self) -> Float[np.ndarray, " N"]:
        """G of each item; NaN for one without a visit, or if every learning rate was 0."""
        if self._lazy:
            below, sums = self._weights, self._sums
        else:
            below = self._visits * (self._total / max(self._steps, 1))
            sums = self._sums * np.exp(self._seen - self._clock)
        return np.divide(sums, below, out=np.full(below.shape, np.nan), where=below > 0.0)
