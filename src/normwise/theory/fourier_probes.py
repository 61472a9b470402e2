"""First-order signatures of a cyclic task, frequency by frequency, against embeddings: a combination judged on held-out tokens."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import nnls

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.alignment import NAN, Figure, check_rows, cosine_gram, seen_tokens
from normwise.theory.directions import normalize
from normwise.theory.permutation_moments import MatrixSums, permutation_moments
from normwise.theory.token_pairs import EQUAL_WITHIN, TokenFold, token_pairs, usual_folds, within_fold_correlation

# A frequency that holds less than this part of a token's signature is rounding and has no direction.
NO_AMPLITUDE = 1e-9
# Squared singular values below this part of the largest: Grams of all frequencies of a full cycle are linearly dependent.
_DEPENDENT = 1e-12
_MOST_VALUES = 100_000_000


@dataclass(frozen=True)
class FourierAlignment:
    """What frequencies say of an embedding.

    `figure` is the held-out correlation of the combination over all k >= 1, `train` its mean on training tokens, `weights` (K + 1,) of the
    fit to all tokens (0 at k = 0). `by_frequency` (K + 1,) holds the correlation of each frequency alone, over all pairs: nothing is
    fitted, its null is exactly 0 and its standard deviation over permuted rows `frequency_spread`; NaN where similarities at a
    frequency are all equal.
    """

    figure: Figure
    train: float
    weights: np.ndarray
    by_frequency: np.ndarray
    frequency_spread: np.ndarray

    @property
    def frequency(self) -> int | None:
        """The k >= 1 with the highest correlation of its own; None where none has any."""
        alone = np.nan_to_num(self.by_frequency[1:], nan=-np.inf)
        return int(np.argmax(alone)) + 1 if np.isfinite(alone).any() else None


def fourier_grams(signature: Float[np.ndarray, "A Y V"], *, cycle: Int[np.ndarray, " p"] | None = None) -> Float[np.ndarray, "K A A"]:
    """Return similarities of tokens at every frequency of the cycle.

    Equation: h_{a,k}(v) = sum_j phi_a^{y;1}(v, j) e^{2 pi i k j / p}, k = 0..p/2, and G_k(a, b) = Re <h_a, h_b> / (||h_a|| ||h_b||): cosine
    and sine side by side, so that it does not matter where the cycle begins. With the cosine alone it would; on y = x_1 + x_2 + c mod p
    over the whole cycle both are cos(2 pi k (a - b) / p). k = 0 is order 0.

    Args:
        signature: (A, Y, V) first-order label signatures.
        cycle: (p,) columns of the context tokens in cyclic order; None = all V.

    Returns:
        (p // 2 + 1, A, A); zeros, on the diagonal too, where a token has nothing at a frequency.

    Raises:
        InputError: a column that does not exist or stands twice, fewer than three, or more than 10^8 values.

    Reference: the context staircase paper (arXiv 2608.30315) with cosines only; the sine is ours.

    Example:
        >>> shift = np.array([[[float(v == (a + b) % 4) for b in range(4)] for v in range(4)] for a in range(4)])
        >>> fourier_grams(shift)[1, 0].round(6).tolist()
        [1.0, 0.0, -1.0, 0.0]
    """
    columns = np.arange(signature.shape[2]) if cycle is None else cycle
    if columns.size < 3 or np.unique(columns).size < columns.size or columns.min() < 0 or columns.max() >= signature.shape[2]:
        raise InputError(
            f"cycle holds {columns.size} columns, {np.unique(columns).size} of them different; expected three or more different ones "
            f"in 0..{signature.shape[2] - 1}"
        )
    count = signature.shape[0]
    if (columns.size // 2 + 1) * count * count > _MOST_VALUES:
        raise InputError(f"{columns.size // 2 + 1} frequencies of {count} tokens: similarities would not fit in memory; give fewer tokens")
    kept = signature[:, :, columns].astype(np.float64)
    amplitude = np.fft.rfft(kept, axis=2)
    sizes = np.sqrt((kept * kept).sum(axis=(1, 2)) * columns.size)
    grams = np.empty((amplitude.shape[2], count, count))
    for k in range(amplitude.shape[2]):
        rows = np.concatenate([amplitude[:, :, k].real, amplitude[:, :, k].imag], axis=1)
        rows[np.linalg.norm(rows, axis=1) <= NO_AMPLITUDE * sizes] = 0.0
        unit = normalize(rows)
        grams[k] = unit @ unit.T
    return grams


@final
class FourierProbe:
    """Similarities at all frequencies, folds and permutations, made once for a corpus; `at` compares an embedding with them.

    Equations: on the pairs of training tokens, S_emb(a, b) ~ c + sum_{k >= 1} w_k G_k(a, b), w >= 0, by least squares, which is the
    combination of highest Pearson correlation; then the correlation of prediction and S_emb over pairs of held-out tokens, each fold on
    its own level (`within_fold_correlation`). On a cyclic task w_k = |v_k|^2 makes it the Gram of the probe v (`signature_probes`).
    The null is the mean of the same over permuted rows of the signature, the same permutations for every embedding.

    Args:
        signature: (A, Y, V) first-order label signatures.
        cycle: (p,) columns of the context tokens in cyclic order; None = all V.
        tokens: rows to use; None = all. Those whose signature is zero (never seen) are left out.
        folds: over those tokens, numbered from 0; None = `usual_folds`.
        permutations: of the null, at least 2.
        seed: of the permutations.

    Raises:
        InputError: see `fourier_grams` and `token_folds`; fewer than two permutations.

    Reference: the staircase paper (arXiv 2608.30315) for single frequencies; the combination, held-out tokens and nulls are ours.

    Example:
        >>> p = 15
        >>> shift = np.array([[[float(v == (a + b) % p) for b in range(p)] for v in range(p)] for a in range(p)])
        >>> angles = 2.0 * np.pi * 3.0 * np.arange(p) / p
        >>> found = FourierProbe(shift).at(np.column_stack([np.cos(angles), np.sin(angles)]))
        >>> found.frequency, round(found.figure.value, 6), found.figure.null < 0.2
        (3, 1.0, True)
    """

    def __init__(
        self,
        signature: Float[np.ndarray, "A Y V"],
        *,
        cycle: Int[np.ndarray, " p"] | None = None,
        tokens: Int[np.ndarray, " T"] | None = None,
        folds: Sequence[TokenFold] | None = None,
        permutations: int = 10,
        seed: int = 0,
    ) -> None:
        if permutations < 2:
            raise InputError(f"permutations is {permutations}; expected at least 2, so that the null has a spread")
        self.tokens = seen_tokens(signature, np.arange(signature.shape[0]) if tokens is None else tokens)
        self._rows, count, self._initial = signature.shape[0], self.tokens.size, None
        grams = fourier_grams(signature[self.tokens], cycle=cycle)
        pairs = token_pairs(np.arange(count))
        values = grams[:, pairs[0], pairs[1]]
        self._folds = [_FoldFit(values[1:], pairs, fold) for fold in folds or usual_folds(count)]
        self._all = _FoldFit(values[1:], pairs, TokenFold(np.arange(count), np.arange(count)))
        centered = values - values.mean(axis=1)[:, None]
        length = np.linalg.norm(centered, axis=1)
        varies = np.abs(centered).max(axis=1) > EQUAL_WITHIN
        self._alone = np.where(varies[:, None], centered / np.where(varies, length, 1.0)[:, None], NAN)
        self._sums = [MatrixSums.of_pairs(row, pairs, count=count) for row in self._alone]
        self._pairs, self._index = pairs, permuted_pairs(count, pairs, permutations=permutations, seed=seed)

    def with_initial(self, embedding: Float[np.ndarray, "A D"]) -> FourierProbe:
        """Return the same with an initial embedding to set beside the figure; all that was prepared is shared."""
        found = copy.copy(self)
        found._initial = self.at(embedding).figure.value
        return found

    def at(self, embedding: Float[np.ndarray, "A D"]) -> FourierAlignment:
        """Compare an embedding with the signatures.

        Args:
            embedding: (A, D) rows of the same tokens as those of the signature.

        Raises:
            InputError: another number of rows, a value that is not finite, or a row of zeros.
        """
        check_rows(embedding, self._rows)
        cosines = directed_gram(embedding, self.tokens).ravel()[self._index]
        fits = [fold.fit(cosines) for fold in self._folds]
        held = within_fold_correlation([fit[1] for fit in fits], [cosines[fold.held] for fold in self._folds])
        alone, spread = self._each(cosines[:, 0])
        return FourierAlignment(
            Figure.of_fits(held, self._initial),
            float(np.mean([fit[2] for fit in fits])),
            np.concatenate([[0.0], self._all.fit(cosines[:, :1])[0][:, 0]]),
            alone,
            spread,
        )

    def _each(self, cosines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centered = cosines - cosines.mean()
        if np.abs(centered).max() <= EQUAL_WITHIN:
            return np.full(len(self._alone), NAN), np.full(len(self._alone), NAN)
        unit = centered / np.linalg.norm(centered)
        sums = MatrixSums.of_pairs(unit, self._pairs, count=self.tokens.size)
        spread = [permutation_moments(own, sums)[1] / 2.0 if not np.isnan(own.squares) else NAN for own in self._sums]
        return self._alone @ unit, np.array(spread)


class _FoldFit:
    """Least squares with w >= 0 on the pairs of training tokens, as normal equations of which only the right side is new each time."""

    def __init__(self, values: np.ndarray, pairs: np.ndarray, fold: TokenFold) -> None:
        self.train, self.held = (np.flatnonzero(np.isin(pairs, side).all(axis=0)) for side in (fold.train, fold.held))
        self._design = values[:, self.train] - values[:, self.train].mean(axis=1)[:, None]
        self._held = values[:, self.held]
        squares, vectors = np.linalg.eigh(self._design @ self._design.T)
        kept = squares > _DEPENDENT * max(float(squares[-1]), np.finfo(np.float64).tiny)
        self._root = np.sqrt(squares[kept])[:, None] * vectors[:, kept].T
        self._side = vectors[:, kept].T / np.sqrt(squares[kept])[:, None]

    def fit(self, cosines: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights (K, C), held-out predictions (H, C), and the correlation of the first of C problems on training tokens."""
        target = cosines[self.train]
        sides = self._side @ (self._design @ (target - target.mean(axis=0)))
        weights = (
            np.stack([nnls(self._root, side)[0] for side in sides.T], axis=1)
            if self._root.size
            else np.zeros((len(self._design), sides.shape[1]))
        )
        first = within_fold_correlation([self._design.T @ weights[:, :1]], [target[:, :1]])
        return weights, self._held.T @ weights, float(first[0])


def permuted_pairs(count: int, pairs: Int[np.ndarray, "2 P"], *, permutations: int, seed: int) -> Int[np.ndarray, "P C"]:
    """Return (P, 1 + permutations) places of the pairs in a raveled Gram: the tokens as they are, then permuted against the signatures."""
    rng = np.random.default_rng(seed)
    orders = [np.arange(count)] + [rng.permutation(count) for _ in range(permutations)]
    return np.stack([order[pairs[0]] * count + order[pairs[1]] for order in orders], axis=1)


def directed_gram(embedding: Float[np.ndarray, "A D"], tokens: Int[np.ndarray, " T"]) -> Float[np.ndarray, "T T"]:
    """Return the cosines of the tokens' rows; refuse a row of zeros, since folds are made for tokens that all have a direction."""
    gram = cosine_gram(embedding[tokens])
    zero = np.flatnonzero(np.diagonal(gram) == 0.0)
    if zero.size:
        raise InputError(f"embedding: row {tokens[zero[0]]} is a zero vector and has no direction; leave that token out of tokens")
    return gram
