"""What moves a token's embedding in one attention layer: as a value, as a key, and as the query of the last position.

f(X) = U W_OV sum_s a_s e_{x_s}, a = softmax_s(c e_{x_s}^T W_QK e_{x_L}): the last position reads out. Axes: V vocabulary, Y labels,
d width, N sequences, L length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.flow_checks import finite


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention layer without residual, norm or bias, read out at the last position.

    Args:
        embedding: (V, d) rows e_a.
        unembedding: (Y, d) rows u_v.
        key_query: (d, d) W_QK = W_K^T W_Q; keys on its left, the query on its right.
        output_value: (d, d) W_OV = W_O W_V.
        score_scale: c > 0 on the scores; 1 / sqrt(d) by default, 1 / sqrt(d_k) in a layer whose keys have width d_k.

    Raises:
        InputError: shapes that do not fit, or a value that is not finite.

    Example:
        >>> AttentionLayer(np.ones((3, 4)), np.ones((2, 4)), np.eye(4), np.eye(4)).scale
        0.5
    """

    embedding: np.ndarray
    unembedding: np.ndarray
    key_query: np.ndarray
    output_value: np.ndarray
    score_scale: float | None = None

    def __post_init__(self) -> None:
        for name, axes in (("embedding", "(V, d)"), ("unembedding", "(Y, d)"), ("key_query", "(d, d)"), ("output_value", "(d, d)")):
            object.__setattr__(self, name, finite(name, getattr(self, name), axes))
        d = self.embedding.shape[1]
        for name, shape in (("unembedding", (len(self.unembedding), d)), ("key_query", (d, d)), ("output_value", (d, d))):
            came = getattr(self, name).shape
            if came != shape:
                raise InputError(f"{name} has shape {came}; expected {shape}, d = {d} as of embedding")
        if self.score_scale is not None and not 0.0 < self.score_scale < math.inf:
            raise InputError(f"score_scale is {self.score_scale}; expected a finite number > 0, or None for 1 / sqrt(d)")

    @property
    def scale(self) -> float:
        """The factor c of the scores."""
        return 1.0 / math.sqrt(self.embedding.shape[1]) if self.score_scale is None else self.score_scale

    def attention(self, tokens: np.ndarray) -> Float[np.ndarray, "N L"]:
        """Return the weights a_s (N, L) with which the last position of each of the sequences (N, L) looks at its positions."""
        vectors = self.embedding[tokens]
        queries = vectors[:, -1] @ self.key_query.T
        return softmax(self.scale * np.einsum("nld,nd->nl", vectors, queries), axis=1)


@dataclass(frozen=True, eq=False)
class AttentionTerms:
    """The three parts of d e_a / dt, each (V, d).

    Args:
        value: through what a token hands on.
        key: through how much it is looked at.
        query: through where it looks as the last token.
    """

    value: np.ndarray
    key: np.ndarray
    query: np.ndarray

    @property
    def total(self) -> Float[np.ndarray, "V d"]:
        """The sum of the three."""
        return self.value + self.key + self.query


def attention_label_terms(
    layer: AttentionLayer, tokens: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> AttentionTerms:
    """Return the flow of the embedding through the observed labels, as value, key and query: the gradient of E[<u_y, W_OV ebar_X>].

    Equation, with I a uniform position, r_a = P(x_I = a), ebar_X = sum_s a_s e_{x_s}, c = 1/sqrt(d) by default:

        value   L r_a (U W_OV)^T (phi_a^{y;0} .* psi_a),  psi_a(v) = E[a_I | y = v, a]           (`attention_signature`)
        key     c L r_a W_QK E[a_I e_{x_L} u_y^T W_OV (e_a - ebar_X) | a]
        query   c P(x_L = a) W_QK^T E[sum_s a_s e_{x_s} (u_y^T W_OV e_{x_s}) - ebar_X (u_y^T W_OV ebar_X) | x_L = a]

    Where every matrix (E, U, W_K, W_Q, W_O, W_V) is of the size s, value is O(s^3), key and query are O(s^7): at a small init the
    attention-weighted order-0 signature alone moves embeddings.

    Args:
        layer: the layer.
        tokens: (N, L) whole numbers in 0..V-1, a law or a sample of sequences.
        labels: (N,) whole numbers in 0..Y-1.
        weights: (N,) >= 0, divided by their sum; uniform by default.

    Returns:
        The three terms; zeros for a token that never occurs.

    Raises:
        InputError: shapes that do not fit, or values outside their range.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315; its displayed query term has W_QK where W_QK^T must stand. The orders in s are ours.

    Example:
        >>> layer = AttentionLayer(np.zeros((2, 1)), np.array([[1.0], [-1.0]]), np.eye(1), np.eye(1))
        >>> attention_label_terms(layer, np.array([[0, 1]]), np.array([0])).value.tolist()  # each is looked at by half
        [[0.5], [0.5]]
    """
    shares = _read_law(layer, tokens, labels, weights)
    value = (attention_signature(layer, tokens, labels, weights) @ layer.unembedding) @ layer.output_value
    key, query = _through_scores(layer, tokens, layer.unembedding[labels], shares)
    return AttentionTerms(value, key, query)


def attention_prediction_terms(layer: AttentionLayer, tokens: np.ndarray, weights: np.ndarray | None = None) -> AttentionTerms:
    """Return the flow of the embedding through the predictions, while they are uniform; the flow is this plus `attention_label_terms`.

    Equation: the terms of `attention_label_terms` with u_y replaced by -(1/Y) sum_v u_v.

    Args:
        layer: the layer.
        tokens: (N, L) whole numbers in 0..V-1.
        weights: (N,) >= 0; uniform by default.

    Returns:
        The three terms, their sign included.

    Raises:
        InputError: as `attention_label_terms`.

    Reference: ours, as the uniform softmax of the feed-forward network.

    Example:
        >>> layer = AttentionLayer(np.zeros((2, 1)), np.array([[1.0], [3.0]]), np.eye(1), np.eye(1))
        >>> attention_prediction_terms(layer, np.array([[0, 1]])).value.tolist()
        [[-1.0], [-1.0]]
    """
    shares = _read_law(layer, tokens, np.zeros(len(tokens), dtype=np.int64), weights)
    mean = -layer.unembedding.mean(axis=0)
    looked_at = np.zeros(len(layer.embedding))
    np.add.at(looked_at, tokens, shares[:, None] * layer.attention(tokens))
    key, query = _through_scores(layer, tokens, np.tile(mean, (len(tokens), 1)), shares)
    return AttentionTerms(np.outer(looked_at, mean @ layer.output_value), key, query)


def attention_signature(
    layer: AttentionLayer, tokens: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> Float[np.ndarray, "V Y"]:
    """Return the attention-weighted order-0 signatures that drive the value path, by how often their tokens occur.

    Equation: L r_a (phi_a^{y;0} .* psi_a)(v) = L r_a E[a_I 1{y = v} | a] = E[sum_s a_s 1{x_s = a, y = v}]. All of them sum to 1.

    Args:
        layer: the layer.
        tokens: (N, L) whole numbers in 0..V-1.
        labels: (N,) whole numbers in 0..Y-1.
        weights: (N,) >= 0; uniform by default.

    Returns:
        (V, Y); divided by L r_a it is phi .* psi.

    Raises:
        InputError: as `attention_label_terms`.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> layer = AttentionLayer(np.zeros((2, 1)), np.ones((2, 1)), np.eye(1), np.eye(1))
        >>> attention_signature(layer, np.array([[0, 1], [0, 0]]), np.array([0, 1])).tolist()
        [[0.25, 0.5], [0.25, 0.0]]
    """
    shares = _read_law(layer, tokens, labels, weights)
    found = np.zeros((len(layer.embedding), len(layer.unembedding)))
    np.add.at(found, (tokens, labels[:, None]), shares[:, None] * layer.attention(tokens))
    return found


def _through_scores(layer: AttentionLayer, tokens: np.ndarray, readouts: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The key and the query term (V, d) for a readout vector (N, d) of each sequence, in place of u_y."""
    vectors, weights = layer.embedding[tokens], layer.attention(tokens)
    worth = np.einsum("nld,nd->nl", vectors, readouts @ layer.output_value)
    # Slope of the readout in each score: a_s (u^T W_OV e_{x_s} - u^T W_OV ebar_X), by the share of the sequence.
    slopes = shares[:, None] * weights * (worth - (weights * worth).sum(axis=1, keepdims=True))
    key, query = np.zeros_like(layer.embedding), np.zeros_like(layer.embedding)
    np.add.at(key, tokens, layer.scale * slopes[:, :, None] * (vectors[:, -1] @ layer.key_query.T)[:, None])
    np.add.at(query, tokens[:, -1], layer.scale * np.einsum("nl,nld->nd", slopes, vectors) @ layer.key_query)
    return key, query


def _read_law(layer: AttentionLayer, tokens: np.ndarray, labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Check a law of sequences and return its probabilities, (N,)."""
    if tokens.ndim != 2 or not tokens.size or labels.shape != tokens.shape[:1]:
        raise InputError(f"tokens has shape {tokens.shape} and labels {labels.shape}; expected (N, L) and (N,), N and L at least 1")
    for name, came, most in (("tokens", tokens, len(layer.embedding)), ("labels", labels, len(layer.unembedding))):
        if came.dtype.kind not in "iu" or came.min() < 0 or came.max() >= most:
            raise InputError(f"{name} holds {came.dtype} in {came.min()}..{came.max()}; expected whole numbers in 0..{most - 1}")
    if weights is None:
        return np.full(len(tokens), 1.0 / len(tokens))
    shares = finite("weights", weights, "(N,)")
    if shares.shape != labels.shape or (shares < 0.0).any() or not shares.any():
        raise InputError(
            f"weights has shape {shares.shape}, least value {shares.min():g} and sum {shares.sum():g}; "
            f"expected ({len(labels)},), values >= 0 and not all 0"
        )
    return shares / shares.sum()
