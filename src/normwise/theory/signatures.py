"""Probability signatures of tokens: what stands beside a token and which label goes with it, order by order, as exact sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.sequence_law import SequenceLaw, check_order, kept_ids

# Values that one dense signature holds, 400 MB in float64; order 1 of 368 tokens, labels and contexts.
MOST_VALUES = 50_000_000
_CHUNK_VALUES = 1 << 20
_CHUNK_TUPLES = 1 << 14


@dataclass(frozen=True, eq=False)
class Signature:
    """Signatures of one order, one row for each token.

    Args:
        of: (A,) the tokens a.
        values: (A, C, B, .., B) chances given a, with one axis of B for each context; without C for co-occurrence. Rows of tokens
            that are never seen are 0.
        frequency: (A,) r_a = P(x_I = a), I uniform over the positions that the signature draws from.
        left_out: (A,) the part of a row's mass that fell on targets or contexts that were not asked for, in [0, 1].
        contexts: (B,) the tokens of each context axis; None at order 0.
        targets: (C,) the labels or next tokens; None for co-occurrence.
    """

    of: np.ndarray
    values: np.ndarray
    frequency: np.ndarray
    left_out: np.ndarray
    contexts: np.ndarray | None = None
    targets: np.ndarray | None = None

    @property
    def order(self) -> int:
        """m, the number of contexts."""
        return self.values.ndim - (1 if self.targets is None else 2)

    @property
    def seen(self) -> Bool[np.ndarray, " A"]:
        """(A,) whether the token has a signature at all."""
        return self.frequency > 0.0

    @property
    def unseen(self) -> Int[np.ndarray, " _"]:
        """Ids of tokens that are never seen, whose rows are 0 and mean nothing."""
        return self.of[~self.seen]


def label_signature(
    law: SequenceLaw,
    *,
    order: int = 0,
    of: np.ndarray | None = None,
    contexts: np.ndarray | None = None,
    targets: np.ndarray | None = None,
) -> Signature:
    """Return the label signatures of tokens, exactly, as a dense array.

    Equation: phi_a^{y;m}(v, b_1..b_m) = P(y = v, x_J1 = b_1, .., x_Jm = b_m | x_I = a), I uniform over positions, J an ordered m-tuple
    of distinct positions drawn uniformly from the L - 1 others. Order 0 is P(y = v | x_I = a).
    Summing one context axis of order m gives order m - 1, where all contexts are kept.

    Args:
        law: the sequences.
        order: m, 0 to L - 1.
        of: (A,) tokens a that get a row; None for all V.
        contexts: (B,) tokens that get a place on each context axis; None for all V.
        targets: (C,) labels that get a place; None for all.

    Returns:
        Values (A, C, B, .., B); `left_out` is P(y or one of x_J was not kept | a).

    Raises:
        InputError: the order does not fit the length, an id is out of range or twice there, or the values are above `MOST_VALUES`;
            `signature_sketch.sketch_signature` contracts them without making them.

    Reference: Yao, Hang and Xu (2026), the label signature; weights make it hold for any law of sequences, exchangeable or not.

    Example:
        >>> pairs = np.argwhere(np.ones((3, 3)))
        >>> law = SequenceLaw(pairs, pairs.sum(axis=1) % 3, vocabulary=4)
        >>> found = label_signature(law, order=1)
        >>> found.values.shape, found.unseen.tolist(), found.values[1, 0].round(4).tolist()
        ((4, 4, 4), [3], [0.0, 0.0, 0.3333, 0.0])
    """
    return _signature(law, order, of, contexts, kept_ids("targets", targets, law.labels_known))


def cooccurrence_signature(
    law: SequenceLaw, *, order: int = 1, of: np.ndarray | None = None, contexts: np.ndarray | None = None
) -> Signature:
    """Return the co-occurrence signatures of tokens, exactly, as a dense array.

    Equation: phi_a^m(b_1..b_m) = P(x_J1 = b_1, .., x_Jm = b_m | x_I = a), I and J as in `label_signature`, whose sum over all labels
    this is.

    Args:
        law: the sequences; labels are not read.
        order: m, 0 to L - 1; order 0 is 1 for every token that is seen.
        of: (A,) tokens a that get a row; None for all V.
        contexts: (B,) tokens that get a place on each context axis; None for all V.

    Returns:
        Values (A, B, .., B).

    Raises:
        InputError: as `label_signature`.

    Example:
        >>> law = SequenceLaw(np.array([[0, 1, 1]]), np.array([0]), vocabulary=2)
        >>> cooccurrence_signature(law).values.tolist()
        [[0.0, 1.0], [0.5, 0.5]]
    """
    return _signature(law, order, of, contexts, None)


def contract(values: Float[np.ndarray, "*values"], vectors: Float[np.ndarray, "*vectors"]) -> Float[np.ndarray, "*found"]:
    """Contract the last m axes of a signature with m vectors, one axis each, in order.

    Equation: h_r = sum_{b_1..b_m} phi(.., b_1..b_m) v_r1(b_1) .. v_rm(b_m).

    Args:
        values: (.., B, .., B) with at least m axes of B.
        vectors: (m, B), or (R, m, B) for R contractions; over the contexts that the signature kept, in their order.

    Returns:
        (..), or (R, ..) for R contractions.

    Raises:
        InputError: widths differ, or there are more vectors than axes.

    Example:
        >>> contract(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[1.0, -1.0]])).tolist()
        [-1.0, 0.0]
    """
    order = vectors.shape[-2] if vectors.ndim in (2, 3) else 0
    if not 1 <= order <= values.ndim or values.shape[values.ndim - order :] != (vectors.shape[-1],) * order:
        raise InputError(
            f"vectors have shape {vectors.shape}, values {values.shape}; expected (m, B) or (R, m, B) for values whose last m axes hold "
            "B contexts each: one number for each context that the signature kept"
        )
    sets = vectors if vectors.ndim == 3 else vectors[None]
    found = np.moveaxis(values @ sets[:, -1].T, -1, 0)
    for place in range(order - 2, -1, -1):
        found = np.einsum("r...b,rb->r...", found, sets[:, place])
    return found if vectors.ndim == 3 else found[0]


def check_size(shape: tuple[int, ...], way_out: str) -> None:
    """Raise InputError where a dense array of this shape is above `MOST_VALUES`."""
    if math.prod(shape) > MOST_VALUES:
        sizes = " x ".join(f"{size:,}" for size in shape)
        raise InputError(f"{sizes} values are above {MOST_VALUES:,}, the most that are held at once: {way_out}")


def per_token(sums: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Divide each row of sums (A, ..) by its token's own (A,); rows of tokens that are never seen stay 0."""
    divisor = np.where(seen > 0.0, seen, 1.0)
    return sums / divisor.reshape(-1, *[1] * (sums.ndim - 1))


def _signature(
    law: SequenceLaw, order: int, of: np.ndarray | None, contexts: np.ndarray | None, targets: tuple[np.ndarray, np.ndarray] | None
) -> Signature:
    """The sum over sequences, positions I and tuples J, in parts; without targets, over all labels."""
    check_order(order, law.length)
    (tokens, token_slots), (near, near_slots) = kept_ids("of", of, law.vocabulary), kept_ids("contexts", contexts, law.vocabulary)
    shape = (tokens.size, *(() if targets is None else (targets[0].size,)), *[near.size] * order)
    check_size(shape, "name fewer tokens in of, contexts or targets, or contract them with sketch_signature")
    rows, places = np.nonzero((token_slots[law.tokens] >= 0) & (law.chances > 0.0)[:, None])
    slots = token_slots[law.tokens[rows, places]]
    weights = law.chances[rows]
    values, left_out = np.zeros(math.prod(shape)), np.zeros(tokens.size)
    for others in _tuples(law.length - 1, order):
        step = max(1, _CHUNK_VALUES // max(1, len(others)))
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            n, i, a = (values_of[part, None] for values_of in (rows, places, slots))
            key, kept = np.broadcast_to(a, (a.size, len(others))), np.ones((a.size, len(others)), dtype=np.bool_)
            modes = [] if targets is None else [(targets[1][law.labels[n]], targets[0].size)]
            # Position j of those beside I is position j of the sequence, or the one after it from I on.
            modes += [(near_slots[law.tokens[n, j + (j >= i)]], near.size) for j in others.T]
            for place, size in modes:
                key, kept = key * size + place, kept & (place >= 0)
            chance = np.broadcast_to(weights[part, None], key.shape)
            np.add.at(values, key[kept], chance[kept])
            left_out += np.bincount(np.broadcast_to(a, key.shape)[~kept], weights=chance[~kept], minlength=tokens.size)
    seen = np.bincount(slots, weights=weights, minlength=tokens.size)
    drawn = seen * math.perm(law.length - 1, order)
    return Signature(
        of=tokens,
        values=per_token(values.reshape(shape), drawn),
        frequency=seen / law.length,
        left_out=per_token(left_out, drawn),
        contexts=near if order else None,
        targets=None if targets is None else targets[0],
    )


def _tuples(places: int, order: int) -> Iterator[np.ndarray]:
    """Every ordered tuple of distinct places, in parts (P, order); of order 0 there is one, which is empty."""
    powers = places ** np.arange(order)[::-1]
    for start in range(0, places**order, _CHUNK_TUPLES):
        found = np.arange(start, min(places**order, start + _CHUNK_TUPLES))[:, None] // powers % places
        ordered = np.sort(found, axis=1)
        yield found[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
