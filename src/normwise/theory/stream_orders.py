"""Signatures of several orders of one language-model stream, ready to be compared with embeddings at every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.stats import rankdata

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.alignment import EmbeddingPairs, OrderAlignment, SignatureAlignment, cosine_gram
from normwise.theory.incremental_alignment import OrderShare, incremental_r2
from normwise.theory.signatures import Signature
from normwise.theory.token_pairs import token_folds

# Five folds with three tokens in each.
LEAST_FOLDED = 15
_PERMUTATIONS = 5
# Pairs of 500 tokens say as much as a fit of a few numbers needs; its time grows with the square.
_MOST_FOLDED = 500


@dataclass(frozen=True)
class OrderRows:
    """Signatures of one order: (A, ...) exact, or several sketches of each, (A, R, C)."""

    order: int
    values: np.ndarray


@final
class StreamOrders:
    """What a stream says of A tokens, order by order; `at` compares the embeddings of these tokens with it.

    Order 0 is the next token, order 1 the next token with one that was there before, order 2 with two of them. Each order's figure is
    `SignatureAlignment` over the first N tokens: a correlation over pairs of tokens, whose null under permutations of tokens is known.
    Orders resemble each other, since each contains the lower ones; `gains` says what one adds to them.

    Args:
        next_token: the order-0 signature of all A tokens.
        rows: one per order from 0 on, each of all A tokens; those that are asked for.
        counts: (A,) how often each token stands in the stream, at least 1.
        judged: N, the first so many tokens are compared; the others have neighbors only. None = all.
        vocabulary: V, of which the next tokens of `next_token` may be a part.

    Raises:
        InputError: no order, one that is there twice, rows of another number of tokens, or fewer than three tokens to compare.
    """

    def __init__(
        self,
        next_token: Signature,
        rows: Sequence[OrderRows],
        *,
        counts: Int[np.ndarray, " A"],
        vocabulary: int,
        judged: int | None = None,
    ) -> None:
        self.tokens, self.vocabulary = next_token.of, vocabulary
        self.orders = tuple(each.order for each in rows)
        if not rows or len(set(self.orders)) < len(rows):
            raise InputError(f"orders are {', '.join(map(str, self.orders)) or 'none'}; expected one or more, each once")
        for each in rows:
            if each.values.shape[0] != self.tokens.size:
                raise InputError(f"order {each.order} has signatures of {each.values.shape[0]} tokens; expected {self.tokens.size}")
        self._next, self.counts = next_token, counts
        self.judged = np.arange(self.tokens.size if judged is None else judged)
        self._frequency_ranks = rankdata(counts[self.judged])
        self._values = {each.order: each.values for each in rows}
        self._alignments = {order: SignatureAlignment(values, tokens=self.judged) for order, values in self._values.items()}

    def at(self, embedding: Float[np.ndarray, "A D"]) -> dict[int, OrderAlignment]:
        """Compare embeddings of the A tokens with each order.

        Raises:
            InputError: another number of rows, a value that is not finite, or fewer than three rows that are not zero.
        """
        found: dict[int, OrderAlignment] = {}
        shared: EmbeddingPairs | None = None
        for order, alignment in self._alignments.items():
            if embedding.shape[0] != self.tokens.size:
                raise InputError(f"embedding has {embedding.shape[0]} rows; expected one for each of {self.tokens.size} tokens")
            if shared is None or not np.array_equal(shared.asked, alignment.tokens):
                shared = EmbeddingPairs.of(embedding, tokens=alignment.tokens)
            found[order] = alignment.of(shared)
        return found

    def gains(self, embedding: Float[np.ndarray, "A D"], *, seed: int = 0) -> tuple[OrderShare, ...]:
        """Return what how often two tokens occur explains of their similarity, then what each order adds; on held-out tokens.

        The first share, called order -1, is of frequency alone: l_a + l_b and l_a l_b, l the logarithm of the count less its mean, and
        s_a s_b, s_a^-2 = 1 + (1 - |p|^2) / (|p|^2 n_a): about that are cosines of order 0 where all tokens have one law p, of which n_a
        next tokens were counted, so that sampling alone makes them go with frequency. What follows are `orders`,
        rising. Of the first 500 tokens that have all signatures and a row that is not zero; empty with fewer than 15.
        """
        tokens = self.judged
        for alignment in self._alignments.values():
            tokens = np.intersect1d(tokens, alignment.tokens)
        tokens = tokens[np.any(embedding[tokens] != 0.0, axis=1)][:_MOST_FOLDED]
        if tokens.size < LEAST_FOLDED:
            return ()
        level = np.log(self.counts[tokens].astype(np.float64))
        level -= level.mean()
        shrunk = self._shrinkage[tokens]
        frequency = np.stack([level[:, None] + level, level[:, None] * level, shrunk[:, None] * shrunk])
        grams = [frequency, *(self._grams[order][np.ix_(tokens, tokens)] for order in sorted(self.orders))]
        shares = incremental_r2(
            cosine_gram(embedding[tokens]), grams, folds=token_folds(tokens.size, seed=seed), permutations=_PERMUTATIONS, seed=seed
        )
        names = (-1, *sorted(self.orders))
        return tuple(OrderShare(name, share.r2, share.gain) for name, share in zip(names, shares, strict=True))

    def norm_frequency(self, embedding: Float[np.ndarray, "A D"]) -> float:
        """Return Spearman's correlation of the length of embeddings with how frequent their tokens are; NaN where one does not vary."""
        sizes = rankdata(np.linalg.norm(embedding[self.judged].astype(np.float64), axis=1))
        own, other = sizes - sizes.mean(), self._frequency_ranks - self._frequency_ranks.mean()
        scale = np.sqrt((own @ own) * (other @ other))
        return float(own @ other / scale) if scale > 0.0 else float("nan")

    def nearest(self, place: int, count: int, *, embedding: Float[np.ndarray, "A D"] | None = None) -> Int[np.ndarray, " K"]:
        """Return the places of the tokens nearest to one, by order-0 signature or by embedding, nearest first; zero rows have none."""
        gram = self._next_gram if embedding is None else cosine_gram(embedding)
        if not gram[place, place] > 0.0:
            return np.empty(0, dtype=np.int64)
        ranked = np.argsort(-gram[place], kind="stable")
        return ranked[(ranked != place) & (np.diagonal(gram)[ranked] > 0.0)][:count]

    @cached_property
    def growth_rates(self) -> Float[np.ndarray, " _"]:
        """Singular values of A = diag(r) (Phi_0 - 1/V), V columns, falling: how fast directions of order 0 grow.

        Per unit of steps times learning rate, of a table and an unembedding that plain gradient descent trains from a small init, with
        nothing but a linear path between them. The first is often the direction that all tokens share; the second tells them apart. Tokens
        without a row, and next tokens without a place, are left out: with them each would be as large or larger.

        Equation: A A^T(a, b) = r_a r_b (<phi_a, phi_b> - (s_a + s_b) / V + C / V^2), C next tokens with a place, s_a the sum of phi_a.

        Reference: the direct path of Yao, Hang, Xu (2026), arXiv 2608.30315, with the early phase of `EarlyPhase`, which is ours.
        """
        phi, rates = self._next.values, self._next.frequency
        sums = phi.sum(axis=1)
        inner = phi @ phi.T - (sums[:, None] + sums) / self.vocabulary + phi.shape[1] / self.vocabulary**2
        return np.sqrt(np.maximum(0.0, np.linalg.eigvalsh(rates[:, None] * inner * rates)[::-1]))

    @property
    def growth_rate(self) -> float:
        """sigma_1, the largest of `growth_rates`."""
        return float(self.growth_rates[0])

    @cached_property
    def uniform(self) -> bool:
        """Whether every token's next tokens are uniform over the whole vocabulary, so that order 0 has nothing to move."""
        phi = self._next.values[self._next.frequency > 0.0]
        return bool(phi.size) and bool(np.abs(phi - 1.0 / self.vocabulary).max() <= 1e-9)

    @property
    def noise_rate(self) -> float:
        """About the largest growth rate that sampling alone gives where all next tokens are uniform: sqrt(max r / T) + sqrt(1 / (V T)).

        Entries of the drive then have variance r_a / (V T), T the tokens that were counted; the bound is that of its longest row and
        column.
        """
        total = float(self.counts.sum())
        return float(np.sqrt(self._next.frequency.max() / total) + np.sqrt(1.0 / (self.vocabulary * total)))

    @property
    def why_no_stair(self) -> str | None:
        """Say why order 0 has nothing to grow; None where it has."""
        if self.uniform:
            return "every token's next tokens are uniform over the whole vocabulary, which is what the softmax says at init"
        if self.growth_rate <= self.noise_rate:
            return (
                f"its growth rate of {self.growth_rate:.3g} is no larger than what counting {int(self.counts.sum()):,} tokens of a uniform "
                f"law gives ({self.noise_rate:.3g})"
            )
        return None

    def why_undefined(self, order: int) -> str | None:
        """Say why nothing can be correlated with an order's signatures; None where it can."""
        rule = self._alignments[order].rule
        if rule == "pearson":
            return None
        told = "all signatures are equal" if rule == "one minus mse" else "all signatures are equally far apart"
        return f"{told}: there is nothing for similarities of embeddings to go with"

    @cached_property
    def _shrinkage(self) -> Float[np.ndarray, " A"]:
        rates = self._next.frequency
        law = rates @ self._next.values / max(float(rates.sum()), np.finfo(np.float64).tiny)
        square = float(law @ law)
        if square <= 0.0:
            return np.ones(self.counts.size)
        return 1.0 / np.sqrt(1.0 + (1.0 - square) / (square * self.counts))

    @property
    def left_out(self) -> float:
        """The part of next tokens, over all positions of the tokens with a row, that has no place."""
        rates = self._next.frequency
        return float(rates @ self._next.left_out / rates.sum()) if rates.sum() > 0.0 else float("nan")

    @cached_property
    def _next_gram(self) -> np.ndarray:
        return cosine_gram(self._next.values)

    @cached_property
    def _grams(self) -> Mapping[int, np.ndarray]:
        return {order: cosine_gram(values.reshape(values.shape[0], -1)) for order, values in self._values.items()}
