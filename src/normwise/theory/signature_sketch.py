"""Signatures contracted with probe vectors, straight from the sequences: any order, without the dense array."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float
from normwise.theory.sequence_law import SequenceLaw, check_order, kept_ids
from normwise.theory.signatures import check_size, per_token

_CHUNK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class SignatureSketch:
    """Label signatures contracted with R sets of probes.

    Args:
        of: (A,) the tokens a.
        targets: (C,) the labels v.
        values: (R, A, C) in float64; rows of tokens that are never seen are 0. Their sum over all labels is the co-occurrence signature,
            contracted the same way.
        frequency: (A,) r_a = P(x_I = a).
        left_out: (A,) P(y is not among targets | a).
    """

    of: np.ndarray
    targets: np.ndarray
    values: np.ndarray
    frequency: np.ndarray
    left_out: np.ndarray

    @property
    def seen(self) -> Bool[np.ndarray, " A"]:
        """(A,) whether the token has a signature at all."""
        return self.frequency > 0.0


def random_probes(count: int, order: int, vocabulary: int, *, seed: int) -> Float[np.ndarray, "R m V"]:
    """Draw probes of independent signs.

    Sketches of two tokens then estimate the product of their signatures without bias: E <h_a, h_b> = <phi_a, phi_b>_F, since every
    probe has E[v v^T] = I. Signs have the least variance of all such laws with independent entries.

    Args:
        count: R, sets of probes, at least 1.
        order: m, probes in a set, at least 1.
        vocabulary: V.
        seed: of the draw.

    Returns:
        (R, m, V) of -1 and 1.

    Raises:
        InputError: a size is below 1.

    Example:
        >>> random_probes(2, 1, 3, seed=0).shape
        (2, 1, 3)
    """
    if min(count, order, vocabulary) < 1:
        raise InputError(f"count is {count}, order {order}, vocabulary {vocabulary}; expected at least 1 each")
    return 2.0 * np.random.default_rng(seed).integers(0, 2, size=(count, order, vocabulary)) - 1.0


def sketch_signature(
    law: SequenceLaw, probes: np.ndarray, *, of: np.ndarray | None = None, targets: np.ndarray | None = None
) -> SignatureSketch:
    """Contract label signatures of order m with R sets of m probes.

    Equation: h_{r,a}(v) = sum_{b_1..b_m} phi_a^{y;m}(v, b_1..b_m) p_r1(b_1) .. p_rm(b_m) = E[1{y = v} p_r1(x_J1) .. p_rm(x_Jm) | x_I = a].
    A probe that is 0 outside some tokens contracts the signature restricted to these contexts; a probe of ones lowers the order by one.

    How: the mean over tuples of distinct positions comes from sums over single positions, one for each subset of the probes, from
    which the tuples that use a position twice are taken off.

    Args:
        law: the sequences.
        probes: (R, m, V) finite numbers, m from 1 to L - 1; `random_probes` draws some.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) labels that get a place; None for all.

    Returns:
        Values (R, A, C), those of `contract` on the dense signature up to rounding. Time grows with N L R 3^m, memory with R A C.

    Raises:
        InputError: probes have another shape or are not finite, the order does not fit the length, an id is out of range or twice
            there, or the values are above `signatures.MOST_VALUES`.

    Reference: 4.2's random projection; sums over distinct positions by Moebius inversion over set partitions (Rota, 1964).

    Example:
        >>> law = SequenceLaw(np.array([[0, 1, 1]]), np.array([0]), vocabulary=2)
        >>> sketch_signature(law, np.array([[[1.0, -1.0]]])).values.tolist()
        [[[-1.0, 0.0], [0.0, 0.0]]]
    """
    if probes.ndim != 3 or probes.shape[2] != law.vocabulary or not probes.shape[0] * probes.shape[1]:
        raise InputError(
            f"probes have shape {probes.shape}; expected (R, m, {law.vocabulary}), R and m at least 1: order 0 needs no probe, "
            "label_signature makes it"
        )
    if not np.isfinite(probes).all():
        raise InputError(f"probes hold {int((~np.isfinite(probes)).sum())} values that are not finite; expected finite numbers")
    count, order, _ = probes.shape
    check_order(order, law.length)
    (tokens, token_slots), (labels, label_slots) = kept_ids("of", of, law.vocabulary), kept_ids("targets", targets, law.labels_known)
    check_size((count, tokens.size, labels.size), "name fewer tokens in of or targets, or take fewer probes at a time")
    values, left_out, seen = np.zeros((tokens.size * labels.size, count)), np.zeros(tokens.size), np.zeros(tokens.size)
    step = max(1, _CHUNK_VALUES // (law.length * count << order))
    for start in range(0, len(law.tokens), step):
        part = slice(start, start + step)
        rows, places = np.nonzero(token_slots[law.tokens[part]] >= 0)
        a, weights = token_slots[law.tokens[part][rows, places]], law.chances[part][rows]
        label = label_slots[law.labels[part][rows]]
        kept = label >= 0
        seen += np.bincount(a, weights=weights, minlength=tokens.size)
        left_out += np.bincount(a[~kept], weights=weights[~kept], minlength=tokens.size)
        found = _distinct_sums(probes, law.tokens[part], rows[kept], places[kept])
        cells = (a[kept] * labels.size + label[kept], np.arange(int(kept.sum())))
        values += coo_array((weights[kept], cells), shape=(len(values), cells[1].size)).tocsr() @ found.T
    values = np.moveaxis(values.reshape(tokens.size, labels.size, count), 2, 0) / math.perm(law.length - 1, order)
    return SignatureSketch(
        of=tokens,
        targets=labels,
        values=np.moveaxis(per_token(np.moveaxis(values, 0, 2), seen), 2, 0),
        frequency=seen / law.length,
        left_out=per_token(left_out, seen),
    )


def _distinct_sums(probes: np.ndarray, tokens: np.ndarray, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Sums over ordered tuples J of distinct positions other than I of p_1(x_J1) .. p_m(x_Jm), for each probe set and I: (R, I).

    F(S) = sum over B in S that hold S's first probe of (-1)^(|B| - 1) (|B| - 1)! s_B F(S without B), F of none = 1, where s_B sums the
    product of the probes in B over single positions. Subsets are bits.
    """
    order = probes.shape[1]
    at = probes[:, :, tokens]
    products = {0: np.ones_like(at[:, 0])}
    singles: dict[int, np.ndarray] = {}
    found: dict[int, np.ndarray] = {0: np.ones((len(probes), rows.size))}
    for subset in range(1, 1 << order):
        first = subset & -subset
        products[subset] = products[subset ^ first] * at[:, first.bit_length() - 1]
        singles[subset] = products[subset].sum(axis=2)[:, rows] - products[subset][:, rows, places]
        found[subset] = np.zeros_like(found[0])
        others = more = subset ^ first
        while True:
            block = more | first
            size = block.bit_count()
            found[subset] += (-1.0) ** (size - 1) * math.factorial(size - 1) * singles[block] * found[subset ^ block]
            if not more:
                break
            more = (more - 1) & others
    return found[(1 << order) - 1]
