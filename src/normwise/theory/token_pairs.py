"""Pairs of tokens: which are held out, and ranks and correlations over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.folds import cluster_folds

# Cosines in float64 are known to a few units of the sixteenth digit; a spread below this is rounding.
EQUAL_WITHIN = 1e-12
# A pair alone has no spread within its fold: three tokens make three pairs.
LEAST_TOKENS = 3
_ENOUGH_PAIRS = 100


@dataclass(frozen=True)
class TokenFold:
    """Tokens (T,) that a probe is fitted on, and tokens (H,) that it is judged on; no token is in both."""

    train: np.ndarray
    held: np.ndarray


def token_folds(count: int, *, folds: int = 5, repeats: int = 1, seed: int = 0) -> tuple[TokenFold, ...]:
    """Return the folds of a cross-validation over tokens: a pair is held out only where both of its tokens are.

    Pairs that are held out while their tokens are not leak: a probe that places each token by its training pairs also knows where
    the other pairs of that token lie.

    Args:
        count: A, the number of tokens.
        folds: parts of each partition, 2 or more.
        repeats: partitions; with few tokens one of them holds few pairs out.
        seed: of the partitions.

    Returns:
        folds * repeats folds; in each partition every token is held out once.

    Raises:
        InputError: a held-out part has fewer than three tokens.

    Example:
        >>> fold = token_folds(9, folds=3)[0]
        >>> fold.train.size, fold.held.size, np.intersect1d(fold.train, fold.held).size
        (6, 3, 0)
    """
    if folds < 2 or repeats < 1 or count // max(folds, 1) < LEAST_TOKENS:
        raise InputError(
            f"{repeats} times {folds} folds of {count} tokens: expected 2 folds or more with at least {LEAST_TOKENS} tokens in each; "
            "give more tokens or fewer folds"
        )
    found = []
    for repeat in range(repeats):
        part = cluster_folds(np.arange(count), folds=folds, seed=seed + repeat)
        found += [TokenFold(np.flatnonzero(part != fold), np.flatnonzero(part == fold)) for fold in range(folds)]
    return tuple(found)


def usual_folds(count: int) -> tuple[TokenFold, ...]:
    """Return `token_folds` into five, of seed 0, in as many partitions as it takes to hold out a hundred pairs.

    Example:
        >>> [len(usual_folds(count)) for count in (20, 81)]
        [20, 5]
    """
    held = count // 5
    return token_folds(count, repeats=max(1, -(-_ENOUGH_PAIRS // max(1, 5 * held * (held - 1) // 2))))


def token_pairs(tokens: Int[np.ndarray, " A"]) -> Int[np.ndarray, "2 P"]:
    """Return (2, P) all P = A (A - 1) / 2 pairs of the tokens, each once.

    Example:
        >>> token_pairs(np.array([4, 7, 9])).tolist()
        [[4, 4, 7], [7, 9, 9]]
    """
    return np.stack([tokens[side] for side in np.triu_indices(tokens.size, k=1)])


def mid_ranks(values: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Return ranks from 1; ties share the middle of theirs. As scipy's `rankdata`, and several times as fast on millions.

    Example:
        >>> mid_ranks(np.array([5.0, 1.0, 5.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    order = np.argsort(values)
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if values.size else np.zeros(0, dtype=np.int64)
    sizes = np.diff(np.append(starts, values.size))
    ranks = np.empty(values.size)
    ranks[order] = np.repeat(starts + 0.5 * (sizes + 1.0), sizes)
    return ranks


def within_fold_correlation(predicted: Sequence[np.ndarray], observed: Sequence[np.ndarray]) -> Float[np.ndarray, " C"]:
    """Return the correlation of predicted and observed held-out pairs, each fold centered on its own.

    Equation: sum_f sum_i (x_fi - mean x_f)(y_fi - mean y_f) / sqrt(sum (x - mean x_f)^2 sum (y - mean y_f)^2). A fold's own level, which
    its training tokens set, is no part of it.

    Args:
        predicted: one array (P_f, C) per fold; C problems side by side.
        observed: the same shapes.

    Returns:
        (C,) in -1..1. 0 where every prediction is constant: the training tokens gave nothing to predict with. NaN where the observed
        pairs do not vary.

    Example:
        >>> x = np.array([[1.0], [2.0], [4.0]])
        >>> within_fold_correlation([x, x + 9.0], [3.0 * x, x]).round(3).tolist()
        [0.894]
    """
    x = np.concatenate([part - part.mean(axis=0) for part in predicted])
    y = np.concatenate([part - part.mean(axis=0) for part in observed])
    both, xx, yy = (x * y).sum(axis=0), (x * x).sum(axis=0), (y * y).sum(axis=0)
    varies = np.abs(x).max(axis=0) > EQUAL_WITHIN
    found = np.where(varies, both / np.sqrt(np.where(varies, xx * yy, 1.0).clip(np.finfo(np.float64).tiny)), 0.0)
    return np.where(np.abs(y).max(axis=0) > EQUAL_WITHIN, found, np.nan)
