"""The optimizers of the simulated table, row by row: one visited step, and any number of unvisited ones in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from normwise.core.errors import InputError


class Optimizer(StrEnum):
    """`sgd`, heavy-ball `momentum`, `adam`, or `adamw` (Adam with decoupled weight decay)."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"


@dataclass(frozen=True)
class UpdateRule:
    """How a row u with gradient q = g / r moves.

    Equations of a visited step, with learning rate eta and weight decay lambda:

        sgd                  u' = (1 - eta lambda) u - eta q
        momentum             m' = b m + q,             u' = (1 - eta lambda) u - eta m'
        momentum, coupled    m' = b m + q + lambda u,  u' = u - eta m'
        adam, adamw          m' = b1 m + (1 - b1) q,  v' = b2 v + (1 - b2) q^2,
                             u' = (1 - eta lambda) u - eta (m' / (1 - b1^n)) / (sqrt(v' / (1 - b2^n)) + epsilon)

    An unvisited step is the same with q = 0 where the update is dense, and nothing at all where it is `lazy`. n is the
    step for a dense update and the row's own visits for a lazy one.

    Args:
        optimizer: see `Optimizer`.
        learning_rate: eta > 0.
        weight_decay: lambda >= 0 with eta lambda < 1; not for `adam`.
        momentum: b in [0, 1); only for `momentum`.
        coupled: the decay goes through the momentum buffer (L2 in the gradient); only for `momentum`.
        beta1: b1 in [0, 1).
        beta2: b2 in (0, 1), with b1 < (1 - eta lambda) sqrt(b2).
        epsilon: >= 0.
        lazy: rows that a step does not visit stay as they are, decay and moments included.

    Raises:
        InputError: a value outside its range, or one that the optimizer does not have.

    Reference: torch.optim's SGD (dampening 0), Adam and AdamW. torch's SparseAdam is lazy too but corrects the bias by
        the global step, so that its rarely visited rows move further.
    """

    optimizer: Optimizer
    learning_rate: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    coupled: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    lazy: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InputError(f"learning_rate is {self.learning_rate}; expected a finite number > 0")
        if not (self.weight_decay >= 0 and self.learning_rate * self.weight_decay < 1):
            raise InputError(f"weight_decay is {self.weight_decay}; expected >= 0 and below 1 / learning_rate = {1 / self.learning_rate:g}")
        if not (0 <= self.momentum < 1 and 0 <= self.beta1 < 1 and 0 < self.beta2 < 1):
            raise InputError(f"momentum is {self.momentum}, beta1 {self.beta1}, beta2 {self.beta2}; expected numbers in [0, 1), beta2 > 0")
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon is {self.epsilon}; expected a finite number >= 0")
        is_momentum = self.optimizer is Optimizer.MOMENTUM
        if (self.momentum > 0 or self.coupled) and not is_momentum:
            raise InputError(f"momentum and coupled belong to the optimizer momentum, not to {self.optimizer}: leave them out")
        if is_momentum and self.momentum == 0:
            raise InputError("the optimizer momentum needs momentum > 0, as in momentum = 0.9; without it, it is sgd")
        if self.optimizer is Optimizer.ADAM and self.weight_decay > 0:
            raise InputError("weight_decay in Adam's gradient has no law here: use adamw, whose decay is decoupled, or weight_decay 0")
        largest = self.shrink * self.beta2**0.5
        if self.is_adam and not self.lazy and self.beta1 >= largest:
            raise InputError(
                f"beta1 is {self.beta1}; expected below (1 - learning_rate weight_decay) sqrt(beta2) = {largest:.4g}, "
                "or unvisited rows never come to rest"
            )

    @property
    def is_adam(self) -> bool:
        """Whether the gradient's scale cancels."""
        return self.optimizer in (Optimizer.ADAM, Optimizer.ADAMW)

    @property
    def shrink(self) -> float:
        """What a decayed step leaves of a row: 1 - eta lambda."""
        return 1.0 - self.learning_rate * self.weight_decay


@runtime_checkable
class Rows(Protocol):
    """A block of rows with their optimizer state; both methods change the first rows of it."""

    vectors: np.ndarray

    def rest(self, done: np.ndarray, gaps: np.ndarray) -> None:
        """Let the first rows, `done` steps old, pass `gaps` unvisited steps."""
        ...

    def step(self, gradients: np.ndarray, steps: np.ndarray) -> None:
        """Visit the first rows with gradients q = g / r, which are used up; `steps` counts them, this one included."""
        ...


def start_rows(rule: UpdateRule, vectors: np.ndarray, *, steps: int) -> Rows:
    """Return rows at rest for a run of `steps` steps: moments 0; the vectors are changed in place."""
    if rule.is_adam:
        return _AdamRows(rule, vectors, steps)
    return _MomentumRows(rule, vectors, steps) if rule.momentum > 0 else _SgdRows(rule, vectors)


class _SgdRows:
    def __init__(self, rule: UpdateRule, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self._rule = rule

    def rest(self, done: np.ndarray, gaps: np.ndarray) -> None:
        if not self._rule.lazy and self._rule.weight_decay > 0:
            self.vectors[: gaps.size] *= (self._rule.shrink**gaps)[:, None]

    def step(self, gradients: np.ndarray, steps: np.ndarray) -> None:
        here = self.vectors[: steps.size]
        if self._rule.weight_decay > 0:
            here *= self._rule.shrink
        gradients *= self._rule.learning_rate
        here -= gradients


class _MomentumRows:
    def __init__(self, rule: UpdateRule, vectors: np.ndarray, steps: int) -> None:
        self.vectors = vectors
        self._rule = rule
        self._buffer = np.zeros_like(vectors)
        eta, decay, b = rule.learning_rate, rule.weight_decay, rule.momentum
        # An unvisited step maps (u, m) linearly, with the same numbers in every dimension.
        once = np.array([[rule.shrink, -eta * b], [decay if rule.coupled else 0.0, b]])
        self._powers = _matrix_powers(once, 0 if rule.lazy else steps)

    def rest(self, done: np.ndarray, gaps: np.ndarray) -> None:
        if self._rule.lazy:
            return
        here, buffer = self.vectors[: gaps.size], self._buffer[: gaps.size]
        power = self._powers[gaps][..., None]
        moved = power[:, 0, 0] * here + power[:, 0, 1] * buffer
        buffer *= power[:, 1, 1]
        buffer += power[:, 1, 0] * here
        here[:] = moved

    def step(self, gradients: np.ndarray, steps: np.ndarray) -> None:
        here, buffer = self.vectors[: steps.size], self._buffer[: steps.size]
        buffer *= self._rule.momentum
        buffer += gradients
        if self._rule.coupled:
            buffer += self._rule.weight_decay * here
        elif self._rule.weight_decay > 0:
            here *= self._rule.shrink
        here -= self._rule.learning_rate * buffer


class _AdamRows:
    def __init__(self, rule: UpdateRule, vectors: np.ndarray, steps: int) -> None:
        self.vectors = vectors
        self._rule = rule
        self._first = np.zeros_like(vectors)
        self._second = np.zeros_like(vectors)
        counts = np.arange(1, steps + 1, dtype=np.float64)
        self._first_left = 1.0 - rule.beta1**counts
        self._second_left = -np.expm1(counts * np.log(rule.beta2))
        self._ahead = None if rule.lazy else _displacement_ahead(rule, np.sqrt(self._second_left) / self._first_left)

    def rest(self, done: np.ndarray, gaps: np.ndarray) -> None:
        """Move by the sum of the unvisited steps.

        While q = 0 the ratio m / sqrt(v) shrinks by the same factor in every dimension, so that the k-th unvisited step
        after step t is -eta (b1 / sqrt(b2))^k c_{t+k} m / sqrt(v) with c_s = sqrt(1 - b2^s) / (1 - b1^s). epsilon is left
        out of it: exact for epsilon = 0, else off by the order of epsilon r / |g|.
        """
        if self._ahead is None:
            return
        rule, count = self._rule, gaps.size
        here, first, second = self.vectors[:count], self._first[:count], self._second[:count]
        shrink = rule.shrink**gaps
        fade = (rule.beta1 / (np.sqrt(rule.beta2) * rule.shrink)) ** gaps
        weight = rule.learning_rate * shrink * (self._ahead[done] - fade * self._ahead[done + gaps])
        ratio = np.divide(first, np.sqrt(second), out=np.zeros_like(first), where=second > 0)
        here *= shrink[:, None]
        here -= weight[:, None] * ratio
        first *= (rule.beta1**gaps)[:, None]
        second *= (rule.beta2**gaps)[:, None]

    def step(self, gradients: np.ndarray, steps: np.ndarray) -> None:
        rule, count = self._rule, steps.size
        here, first, second = self.vectors[:count], self._first[:count], self._second[:count]
        first *= rule.beta1
        first += (1.0 - rule.beta1) * gradients
        second *= rule.beta2
        second += (1.0 - rule.beta2) * gradients**2
        root = np.sqrt(second / self._second_left[steps - 1][:, None])
        root += rule.epsilon
        root *= self._first_left[steps - 1][:, None]
        if rule.weight_decay > 0:
            here *= rule.shrink
        moved = np.divide(first, root, out=np.zeros_like(first), where=root > 0)
        moved *= rule.learning_rate
        here -= moved


def _displacement_ahead(rule: UpdateRule, corrections: np.ndarray) -> np.ndarray:
    """F_t = sum_{k >= 1} x^k c_{t+k} for t = 0..T, with x = b1 / (sqrt(b2) (1 - eta lambda)); any g terms are F_t - x^g F_{t+g}."""
    ratio = rule.beta1 / (np.sqrt(rule.beta2) * rule.shrink)
    ahead = np.empty(corrections.size + 1)
    ahead[-1] = ratio / (1.0 - ratio)
    for step in range(corrections.size - 1, -1, -1):
        ahead[step] = ratio * (corrections[step] + ahead[step + 1])
    return ahead


def _matrix_powers(matrix: np.ndarray, largest: int) -> np.ndarray:
    """Powers 0..largest of a small matrix, doubled at a time."""
    powers = np.eye(matrix.shape[0])[None]
    square = matrix
    while powers.shape[0] <= largest:
        powers = np.concatenate([powers, powers @ square])
        square = square @ square
    return powers[: largest + 1]
