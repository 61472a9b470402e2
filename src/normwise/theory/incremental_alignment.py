"""What signatures of a higher order tell of embeddings beyond the lower ones: R^2 on held-out tokens, order by order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.alignment import NAN, Figure
from normwise.theory.fourier_probes import permuted_pairs
from normwise.theory.token_pairs import EQUAL_WITHIN, TokenFold, token_pairs

# Directions of standardized columns below this part of the largest are taken for linear dependence.
_DEPENDENT = 1e-10


@dataclass(frozen=True)
class OrderShare:
    """What orders 0..m explain together (`r2`) and what m adds to the lower ones (`gain`, with its null); both on held-out tokens."""

    order: int
    r2: float
    gain: Figure


def incremental_r2(
    embedding_gram: Float[np.ndarray, "A A"],
    signature_grams: Sequence[np.ndarray],
    *,
    folds: Sequence[TokenFold],
    permutations: int = 5,
    seed: int = 0,
) -> tuple[OrderShare, ...]:
    """Return the R^2 of S_emb on S_sig0, then S_sig1 and so on, fitted on training tokens and judged on held-out ones.

    Equation: R^2_m = 1 - sum_f sum (S_emb - c_f - sum_{i <= m} b_fi . S_sig,i)^2 / sum_f sum (S_emb - mean_f)^2, the sums over pairs
    of held-out tokens of fold f; c_f, b_fi and mean_f by least squares from pairs of its training tokens; gain_m = R^2_m - R^2_{m-1},
    with R^2_{-1} = 0. Below 0 where a fit is worse than the mean of the training pairs. The null of a gain keeps lower orders in place
    and permutes the tokens of order m alone; it is a little below 0, since useless columns cost something on held-out tokens.

    Args:
        embedding_gram: (A, A) S_emb, such as `cosine_gram`.
        signature_grams: one (A, A) per order, or (K, A, A) where an order has several, as `fourier_grams` from k = 1 on.
        folds: over the A tokens, by `token_folds`.
        permutations: of each null, at least 2.
        seed: of the permutations.

    Returns:
        One share per order; NaN where held-out similarities do not vary.

    Raises:
        InputError: shapes that do not match, a value that is not finite, or fewer than two permutations.

    Example:
        >>> from normwise.theory.token_pairs import token_folds
        >>> a = np.random.default_rng(0).normal(size=(2, 20, 20))
        >>> zero, one = incremental_r2(a[0] + a[0].T + a[1] + a[1].T, [a[0] + a[0].T, a[1] + a[1].T], folds=token_folds(20, repeats=4))
        >>> round(one.r2, 6), zero.r2 < 0.8, one.gain.value - one.gain.null > 0.2
        (1.0, True, True)
    """
    count = embedding_gram.shape[0]
    stacks = [gram.reshape(-1, *gram.shape[-2:]) for gram in signature_grams]
    _check(embedding_gram, stacks, permutations)
    pairs = token_pairs(np.arange(count))
    index = permuted_pairs(count, pairs, permutations=permutations, seed=seed)
    target = embedding_gram[pairs[0], pairs[1]]
    sides = [tuple(np.flatnonzero(np.isin(pairs, side).all(axis=0)) for side in (fold.train, fold.held)) for fold in folds]
    lower, before, shares = np.zeros((0, target.size)), 0.0, []
    for order, stack in enumerate(stacks):
        flat = stack.reshape(stack.shape[0], -1)
        found = [_held_out_r2(target, np.concatenate([lower, flat[:, places]]), sides) for places in index.T]
        null = np.array(found[1:]) - before
        shares.append(OrderShare(order, found[0], Figure(found[0] - before, float(null.mean()), float(null.std(ddof=1)))))
        lower, before = np.concatenate([lower, flat[:, index[:, 0]]]), found[0]
    return tuple(shares)


def _held_out_r2(target: np.ndarray, columns: np.ndarray, sides: Sequence[tuple[np.ndarray, ...]]) -> float:
    left = total = 0.0
    for train, held in sides:
        mean, level = columns[:, train].mean(axis=1), float(target[train].mean())
        design = columns[:, train] - mean[:, None]
        # A column that does not vary on the training tokens says nothing there and is left out.
        used = np.abs(design).max(axis=1) > EQUAL_WITHIN
        size = np.linalg.norm(design[used], axis=1)
        design = design[used] / size[:, None]
        weights = np.linalg.pinv(design @ design.T, rcond=_DEPENDENT, hermitian=True) @ (design @ (target[train] - level))
        rest = target[held] - level
        error = rest - weights @ ((columns[:, held][used] - mean[used, None]) / size[:, None])
        left, total = left + float(error @ error), total + float(rest @ rest)
    return 1.0 - left / total if total > EQUAL_WITHIN**2 * target.size else NAN


def _check(embedding_gram: np.ndarray, stacks: Sequence[np.ndarray], permutations: int) -> None:
    if permutations < 2:
        raise InputError(f"permutations is {permutations}; expected at least 2, so that the null has a spread")
    for order, stack in enumerate(stacks):
        if stack.shape[1:] != embedding_gram.shape:
            raise InputError(
                f"signature_grams: order {order} is of {stack.shape[1:]} tokens; expected {embedding_gram.shape}, as the embedding"
            )
        if not np.isfinite(stack).all():
            raise InputError(f"signature_grams: order {order} holds values that are not finite")
