"""What follows, weighted by the attention that a token gets: the signature that an attention layer's values see."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.sequence_law import check_ids, kept_ids
from normwise.theory.signatures import Signature, check_size, per_token

# Rows of half-precision weights, averaged over heads, sum to 1 up to about 1e-3.
_SUM_WITHIN = 2e-3


def attention_signature(
    tokens: np.ndarray,
    attention: np.ndarray,
    *,
    vocabulary: int,
    of: np.ndarray | None = None,
    targets: np.ndarray | None = None,
) -> Signature:
    """Return what follows each token that stands in the text so far, weighted by the attention that it gets there.

    Equation: phi_a^attn(v) = E[Abar_{s,I_s} 1{x_{s+1} = v} | a], s uniform over the positions that have a next token and at or before
    which a stands, in all sequences, I_s uniform over the positions i <= s with x_i = a. With n_a(s) of these it is the mean over s of

        1{x_{s+1} = v} sum_{i <= s, x_i = a} Abar_{s,i} / n_a(s).

    Rows do not sum to 1: their sum is the mean attention that one a gets. Attention that stays at s gives a's k-th occurrence in a
    sequence the weight 1/k: where no token stands twice in one, r_a phi_a^attn = r_a^nt phi_a^nt, with the frequencies of this signature
    and of `next_token_signature`. There, whatever the attention is, sum_a r_a phi_a^attn(v) = P(x_{s+1} = v).

    Args:
        tokens: (S, L) ids, L at least 2; each sequence is one document, without padding. The last position has no next token.
        attention: (S, L, L) Abar, weights from position s (rows) to i, averaged over the heads of a layer: at least 0, 0 where i > s, rows
            summing to 1; may be a memory map.
        vocabulary: V.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) next tokens v that get a place; None for all V.

    Returns:
        Values (A, C), of order 0; `frequency` is P(a stands at or before s), s uniform over the positions with a next token, whose sum is
        no 1; `left_out` the part of a's attention that fell where the next token is not among targets, 0 where it gets none.

    Raises:
        InputError: shapes that do not fit, an id out of range or twice there, attention that is none (the message names sequence and
            row), or values above `signatures.MOST_VALUES`.

    Reference: Yao, Hang and Xu (2026), arXiv 2608.30315, the attention signature of one layer of language models.

    Example:
        >>> tokens, uniform = np.array([[1, 0, 1, 2]]), np.tril(np.ones((4, 4))) / np.arange(1.0, 5.0)[:, None]
        >>> attention_signature(tokens, uniform[None], vocabulary=3).values.round(4).tolist()
        [[0.0, 0.25, 0.1667], [0.3333, 0.1667, 0.1111], [0.0, 0.0, 0.0]]
    """
    _check(tokens, attention, vocabulary)
    (rows, row_of), (nexts, place_of) = kept_ids("of", of, vocabulary), kept_ids("targets", targets, vocabulary)
    check_size((rows.size, nexts.size), "name fewer tokens in of or targets")
    values, seen = np.zeros((rows.size, nexts.size)), np.zeros(rows.size, dtype=np.int64)
    mass, lost = np.zeros((2, rows.size))
    for ids, weights in zip(tokens, attention, strict=True):
        there, stood, mean = _attention_to(row_of[ids], weights)
        places = place_of[ids[1:]]
        kept = places >= 0
        seen[there] += stood.sum(axis=0)
        mass[there] += mean.sum(axis=0)
        lost[there] += mean[~kept].sum(axis=0)
        np.add.at(values, (there, places[kept, None]), mean[kept])
    return Signature(
        of=rows,
        values=per_token(values, seen),
        frequency=seen / (tokens.shape[0] * (tokens.shape[1] - 1)),
        left_out=per_token(lost, mass),
        targets=nexts,
    )


def _attention_to(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one sequence: (U,) the different rows of its tokens, (L - 1, U) whether one stands at or before s, and its mean attention there.

    Args:
        rows: (L,) the row of each token, -1 for those without one.
        weights: (L, L) attention.
    """
    there = np.unique(rows[rows >= 0])
    at = (rows[:, None] == there).astype(np.float64)
    counts = np.cumsum(at, axis=0)[:-1]
    total = weights[:-1].astype(np.float64) @ at
    return there, counts > 0.0, total / np.maximum(counts, 1.0)


def _check(tokens: np.ndarray, attention: np.ndarray, vocabulary: int) -> None:
    if tokens.ndim != 2 or not len(tokens) or tokens.shape[1] < 2:
        raise InputError(f"tokens have shape {tokens.shape}; expected (S, L), S at least 1 and L at least 2: some token needs a next one")
    length = tokens.shape[1]
    if attention.shape != (*tokens.shape, length):
        raise InputError(
            f"attention has shape {attention.shape}, tokens {tokens.shape}; expected {(*tokens.shape, length)}: "
            "a matrix for each sequence, the mean over the heads of a layer"
        )
    check_ids("tokens", tokens, vocabulary)
    ahead = np.triu(np.ones((length, length), dtype=np.bool_), k=1)
    for number, weights in enumerate(attention):
        # NaN fails every comparison.
        fine = (weights >= 0.0) & ~(ahead & (weights != 0.0))
        sums = weights.astype(np.float64).sum(axis=1)
        if not fine.all():
            row, place = np.argwhere(~fine)[0]
            raise InputError(
                f"attention: sequence {number}, row {row}, position {place} (from 0) is {weights[row, place]}; expected at least 0, "
                "and 0 behind the diagonal: weights after the softmax, with a causal mask"
            )
        bad = np.flatnonzero(~(np.abs(sums - 1.0) <= _SUM_WITHIN))
        if bad.size:
            raise InputError(
                f"attention: sequence {number}, row {bad[0]} (from 0) sums to {sums[bad[0]]:.6g}; expected 1: "
                "the mean over heads, not their sum, of weights without dropout"
            )
