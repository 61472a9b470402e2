"""Laws of labeled sequences, how often each token stands in them, and the ids that keep a place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class SequenceLaw:
    """A law of labeled sequences of one length, or a sample of them, in which every sequence weighs the same.

    A draw is a sequence X = (x_1..x_L) with its label y, in proportion to its weight; the same sequence may stand in several rows.

    Args:
        tokens: (N, L) ids in [0, vocabulary), of any integer type; may be a memory map.
        labels: (N,) ids in [0, label_count).
        vocabulary: V, token ids that there are.
        label_count: labels that there are; None where labels are tokens, which makes it V.
        weights: (N,) of at least 0, of any positive sum; None weighs all rows the same.

    Raises:
        InputError: shapes differ, an id is out of range, a weight is negative or not finite, or all weights are 0; the message
            names the row.

    Example:
        >>> law = SequenceLaw(np.array([[0, 1], [1, 1]]), np.array([1, 0]), vocabulary=3, weights=np.array([3.0, 1.0]))
        >>> law.length, law.labels_known, law.chances.tolist()
        (2, 3, [0.75, 0.25])
    """

    tokens: np.ndarray
    labels: np.ndarray
    vocabulary: int
    label_count: int | None = None
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 2 or not self.tokens.size or self.labels.shape != self.tokens.shape[:1]:
            raise InputError(
                f"tokens have shape {self.tokens.shape}, labels {self.labels.shape}; expected (N, L) and (N,), N and L at least 1: "
                "sequences of several lengths make one law for each length"
            )
        check_ids("tokens", self.tokens, self.vocabulary)
        check_ids("labels", self.labels, self.labels_known)
        if self.weights is None:
            return
        if self.weights.shape != self.labels.shape:
            raise InputError(f"weights have shape {self.weights.shape}; expected one for each of {len(self.tokens)} sequences")
        bad = np.flatnonzero(~(np.isfinite(self.weights) & (self.weights >= 0.0)))
        if bad.size:
            raise InputError(f"weights: row {bad[0]} is {self.weights[bad[0]]}; expected a finite value of at least 0")
        if not self.weights.any():
            raise InputError("weights are all 0; expected a sum above 0: leave weights out for sequences that weigh the same")

    @property
    def length(self) -> int:
        """L, tokens in a sequence."""
        return self.tokens.shape[1]

    @property
    def labels_known(self) -> int:
        """Labels that there are, seen or not."""
        return self.vocabulary if self.label_count is None else self.label_count

    @cached_property
    def chances(self) -> Float[np.ndarray, " N"]:
        """(N,) weights divided by their sum."""
        weights = np.ones(len(self.tokens)) if self.weights is None else self.weights.astype(np.float64)
        # The largest is taken out first: the sum of weights that are finite may not be.
        weights = weights / weights.max()
        return weights / weights.sum()


def token_frequency(law: SequenceLaw) -> Float[np.ndarray, " V"]:
    """Return how often each token stands at a position drawn at random.

    Equation: r_a = P(x_I = a) = E[count_a(X)] / L, I uniform over the L positions.

    Args:
        law: the sequences.

    Returns:
        (V,) of sum 1; 0 for tokens that are never seen.

    Example:
        >>> token_frequency(SequenceLaw(np.array([[0, 1], [1, 1]]), np.zeros(2, int), vocabulary=3)).tolist()
        [0.25, 0.75, 0.0]
    """
    weights = np.repeat(law.chances / law.length, law.length)
    return np.bincount(law.tokens.ravel(), weights=weights, minlength=law.vocabulary)


def top_tokens(frequency: Float[np.ndarray, " V"], count: int) -> Int[np.ndarray, " N"]:
    """Return the most frequent tokens, the most frequent first; of equals, the lower id.

    Args:
        frequency: (V,) shares or counts, >= 0.
        count: how many, at least 1.

    Raises:
        InputError: fewer than `count` tokens have a frequency above 0.

    Example:
        >>> top_tokens(np.array([0.25, 0.5, 0.25, 0.0]), 2).tolist()
        [1, 0]
    """
    seen = int((frequency > 0.0).sum())
    if not 1 <= count <= seen:
        raise InputError(f"count is {count}; expected 1 to {seen}, the tokens that are seen at least once")
    return np.argsort(-frequency, kind="stable")[:count]


def check_ids(name: str, ids: np.ndarray, size: int) -> None:
    """Raise InputError unless ids are integers in [0, size); the message names the first that is not."""
    if ids.dtype.kind not in "iu":
        raise InputError(f"{name} are of type {ids.dtype}; expected integer ids")
    if size < 1:
        raise InputError(f"{name}: there are {size} ids; expected at least 1")
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= size):
        place = tuple(np.argwhere((ids < 0) | (ids >= size))[0].tolist())
        where = f"row {place[0]}" + (f", position {place[1]}" if len(place) > 1 else "")
        raise InputError(f"{name}: {where} (from 0) is {ids[place]}; expected ids from 0 to {size - 1}: is this the right vocabulary?")


def kept_ids(name: str, ids: np.ndarray | None, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids that keep a place, and the place of each of `size` ids, -1 for those without one.

    Raises:
        InputError: no id, one that is out of range, or one that is there twice.
    """
    if ids is None:
        return np.arange(size), np.arange(size)
    if ids.ndim != 1 or not ids.size:
        raise InputError(f"{name} has shape {ids.shape}; expected one or more ids in one row, or None for all")
    check_ids(name, ids, size)
    ids = ids.astype(np.int64)
    slots = np.full(size, -1)
    slots[ids] = np.arange(ids.size)
    twice = np.flatnonzero(slots[ids] != np.arange(ids.size))
    if twice.size:
        raise InputError(f"{name}: id {ids[twice[0]]} is there twice; expected each id once")
    return ids, slots


def check_order(order: int, length: int) -> None:
    """Raise InputError unless a sequence of this length has `order` positions beside any one."""
    if not 0 <= order < length:
        raise InputError(f"order is {order} in sequences of length {length}; expected 0 to {length - 1}, the positions beside a token")
