"""How far the similarities of token embeddings are those of their signatures, over pairs of tokens, each figure next to its null."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.directions import normalize
from normwise.theory.permutation_moments import MatrixSums, permutation_moments
from normwise.theory.token_pairs import EQUAL_WITHIN, LEAST_TOKENS, mid_ranks, token_pairs

NAN = float("nan")
# Signatures that agree to this cosine are equal: probabilities that are exact up to rounding, not counts of a sample.
SAME_WITHIN = 1e-9

Rule = Literal["pearson", "one minus mse", "undefined"]
_Standard = tuple[np.ndarray, MatrixSums]


@dataclass(frozen=True)
class Figure:
    """A figure next to its nulls.

    `null` is its mean where the rows of the signature are permuted, `spread` its standard deviation over permutations, and `initial`
    the same figure of the initial embedding, None where that was not given.
    """

    value: float
    null: float
    spread: float
    initial: float | None = None

    @classmethod
    def of_fits(cls, found: Float[np.ndarray, " C"], initial: float | None) -> Figure:
        """The figure of a fit, first in `found`, beside those of the same fit to permuted rows."""
        return cls(float(found[0]), float(found[1:].mean()), float(found[1:].std(ddof=1)), initial)

    @property
    def above_null(self) -> float:
        """The value less its null."""
        return self.value - self.null


@dataclass(frozen=True)
class OrderAlignment:
    """How well similarities of signatures of one order tell those of embeddings; `rule` says what `figure` is.

    `spearman` is None by any rule but pearson.
    """

    rule: Rule
    figure: Figure
    spearman: Figure | None
    tokens: int


@dataclass(frozen=True)
class EmbeddingPairs:
    """Similarities of an embedding over pairs of tokens, ready to be compared with signatures of several orders.

    `places` are those of the `asked` tokens whose row is not zero; `cosines` (P,) are of their pairs, `values` and `ranks` the same and
    their ranks, standardized, None where they do not vary; `width` is D.
    """

    asked: np.ndarray
    places: np.ndarray
    width: int
    cosines: np.ndarray
    values: _Standard | None
    ranks: _Standard | None

    @classmethod
    def of(cls, embedding: Float[np.ndarray, "A D"], *, tokens: Int[np.ndarray, " T"]) -> EmbeddingPairs:
        """Make them for some tokens, such as `SignatureAlignment.tokens`.

        Raises:
            InputError: a value that is not finite, or fewer than three rows that are not zero.
        """
        gram = cosine_gram(embedding[tokens])
        places = np.flatnonzero(np.diagonal(gram) > 0.0)
        if places.size < LEAST_TOKENS:
            raise InputError(
                f"embedding: {places.size} of {tokens.size} tokens have a row that is not zero; expected at least {LEAST_TOKENS}"
            )
        pairs = token_pairs(np.arange(places.size))
        cosines = gram[places[pairs[0]], places[pairs[1]]]
        if float(np.ptp(cosines)) <= EQUAL_WITHIN:
            return cls(tokens, places, embedding.shape[1], cosines, None, None)
        values, ranks = (_standard(each, pairs, places.size) for each in (cosines, mid_ranks(cosines)))
        return cls(tokens, places, embedding.shape[1], cosines, values, ranks)


def cosine_gram(rows: Float[np.ndarray, "A D"]) -> Float[np.ndarray, "A A"]:
    """Return the cosines of all rows, in float64; a zero row has no direction, and zeros stand in its place, on the diagonal too.

    Raises:
        InputError: a value is not finite.

    Example:
        >>> cosine_gram(np.array([[2.0, 0.0], [3.0, 3.0], [0.0, 0.0]])).round(3).tolist()
        [[1.0, 0.707, 0.0], [0.707, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    unit = normalize(np.asarray(rows, dtype=np.float64))
    return unit @ unit.T


@final
class SignatureAlignment:
    """Similarities of signatures of one order, made once for a corpus; `at` compares an embedding with them.

    Equations: over pairs a < b of the tokens, S_sig(a, b) = cos(phi_a, phi_b), S_emb(a, b) = cos(e_a, e_b), and

        pearson         corr(S_sig, S_emb), and Spearman's, the same of mid-ranks. Over all permutations of the rows of the signature its
                        mean is exactly 0, and its standard deviation is exact too (`permutation_moments`)
        one minus mse   1 - mean (1 - S_emb)^2, where all rows of the signature point one way, so that there is nothing to correlate with.
                        A permutation then changes nothing: the null is the figure of the initial embedding (`with_initial`), else that of
                        independent random directions in D dimensions, -1/D
        undefined       NaN, where all similarities are equal but the rows are not, as those of order 1 with deterministic labels, of which
                        no two have an entry in common: a probe (`signature_probes`) can compare them

    Nothing is fitted, so every token may be judged; `tokens` picks those that a probe holds out. Tokens whose signature is zero (never
    seen) are left out, and so is at each embedding a token whose row is zero. NaN too where similarities of embeddings do not vary.

    Args:
        signature: (A, ...) one row per token, >= 0: (A, Y) of order 0, (A, Y, V) of order 1, or a sketch of it.
        tokens: rows to compare; None = all.
        same_within: by how much cosines of equal signatures may be off; larger for counts of a sample, by their own noise.

    Raises:
        InputError: fewer than three tokens are left, or a row that does not exist is asked for.

    Reference: the context staircase paper (arXiv 2608.30315) for the figures; nulls and the third rule are ours.

    Example:
        >>> rows = np.array([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7], [0.1, 0.9]])
        >>> found = SignatureAlignment(rows).at(3.0 * rows)
        >>> found.rule, round(found.figure.value, 6), found.figure.null, found.tokens
        ('pearson', 1.0, 0.0, 4)
    """

    def __init__(
        self, signature: Float[np.ndarray, "A ..."], *, tokens: Int[np.ndarray, " T"] | None = None, same_within: float = SAME_WITHIN
    ) -> None:
        asked = np.arange(signature.shape[0]) if tokens is None else tokens
        self.tokens = seen_tokens(signature, asked)
        self._rows, self._same_within, self._initial = signature.shape[0], same_within, None
        self._gram = cosine_gram(signature.reshape(signature.shape[0], -1)[self.tokens])
        self._prepare()

    def with_initial(self, embedding: Float[np.ndarray, "A D"]) -> SignatureAlignment:
        """Return the same with an initial embedding to set beside every figure; similarities of signatures are shared."""
        found = copy.copy(self)
        found._initial = self.at(embedding)
        return found

    def at(self, embedding: Float[np.ndarray, "A D"]) -> OrderAlignment:
        """Compare an embedding with the signatures.

        Args:
            embedding: (A, D) rows of the same tokens as those of the signature.

        Raises:
            InputError: another number of rows, a value that is not finite, or fewer than three rows that are not zero.
        """
        check_rows(embedding, self._rows)
        return self.of(EmbeddingPairs.of(embedding, tokens=self.tokens))

    def of(self, embedding: EmbeddingPairs) -> OrderAlignment:
        """Compare as `at`, with pairs that orders of the same tokens can share: ranks of millions of pairs cost most.

        Raises:
            InputError: pairs of other tokens.
        """
        if not np.array_equal(embedding.asked, self.tokens):
            raise InputError(
                f"embedding holds pairs of {embedding.asked.size} tokens, and the signature those of {self.tokens.size}, not all the same; "
                "make them with tokens= of this alignment"
            )
        if embedding.places.size < self.tokens.size:
            return self._only(embedding.places)._compare(embedding)
        return self._compare(embedding)

    def _compare(self, embedding: EmbeddingPairs) -> OrderAlignment:
        start = self._initial
        if self.rule == "undefined":
            return OrderAlignment(self.rule, Figure(NAN, NAN, NAN), None, self.tokens.size)
        if self.rule == "one minus mse":
            initial = None if start is None else start.figure.value
            value = 1.0 - float(np.mean((1.0 - embedding.cosines) ** 2))
            figure = Figure(value, -1.0 / embedding.width if initial is None else initial, NAN, initial)
            return OrderAlignment(self.rule, figure, None, self.tokens.size)
        figure = _correlation(embedding.values, self._values, None if start is None else start.figure)
        ranked = _correlation(embedding.ranks, self._ranks, None if start is None else start.spearman)
        return OrderAlignment(self.rule, figure, ranked, self.tokens.size)

    def _prepare(self) -> None:
        if self.tokens.size < LEAST_TOKENS:
            raise InputError(f"{self.tokens.size} tokens with a signature and an embedding are left; expected at least {LEAST_TOKENS}")
        pairs = token_pairs(np.arange(self.tokens.size))
        values = self._gram[pairs[0], pairs[1]]
        self.rule: Rule = "pearson"
        if float(np.ptp(values)) <= self._same_within:
            self.rule = "one minus mse" if abs(float(values.mean()) - 1.0) <= self._same_within else "undefined"
            return
        self._values, self._ranks = (_standard(each, pairs, self.tokens.size) for each in (values, mid_ranks(values)))

    def _only(self, places: np.ndarray) -> SignatureAlignment:
        found = copy.copy(self)
        found.tokens, found._gram = self.tokens[places], self._gram[np.ix_(places, places)]
        found._prepare()
        return found


def seen_tokens(signature: Float[np.ndarray, "A ..."], tokens: Int[np.ndarray, " T"]) -> Int[np.ndarray, " _"]:
    """Return those of the tokens whose signature is not zero; refuse tokens that have no row."""
    bad = tokens[(tokens < 0) | (tokens >= signature.shape[0])]
    if bad.size:
        raise InputError(f"tokens holds {bad[0]}; expected rows of the signature, 0..{signature.shape[0] - 1}")
    return tokens[np.any(signature.reshape(signature.shape[0], -1)[tokens] != 0.0, axis=1)]


def check_rows(embedding: Float[np.ndarray, "A D"], rows: int) -> None:
    """Refuse an embedding of another number of tokens than the signature's."""
    if embedding.shape[0] != rows:
        raise InputError(f"embedding has {embedding.shape[0]} rows and the signature {rows}; expected one row each for the same tokens")


def _standard(values: np.ndarray, pairs: np.ndarray, count: int) -> _Standard:
    """Values of pairs, centered and of length 1, and what their permutations need."""
    centered = values - values.mean()
    unit = centered / np.sqrt(centered @ centered)
    return unit, MatrixSums.of_pairs(unit, pairs, count=count)


def _correlation(values: _Standard | None, own: _Standard, start: Figure | None) -> Figure:
    initial = None if start is None else start.value
    if values is None:
        return Figure(NAN, 0.0, NAN, initial)
    # The product of the matrices counts each pair twice; its mean over permutations is 0 since both are centered.
    return Figure(float(own[0] @ values[0]), 0.0, permutation_moments(own[1], values[1])[1] / 2.0, initial)
