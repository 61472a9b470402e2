"""What moves a token's embedding in a feed-forward network: one term for each order of its probability signatures.

f(X) = U sigma(sum_i e_{x_i}), sigma(z) = sum_k C_k z^k elementwise, softmax cross-entropy, gradient flow. Axes: A tokens asked for,
V vocabulary, Y labels (rows of U), d width, L length, K degree, m order. Signatures are as in `label_terms` and `prediction_terms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.flow_checks import finite, law_rows
from normwise.theory.flow_orders import accessible_order

# Values of one dense coefficient tensor, 0.4 GB; the terms themselves never hold one.
MOST_VALUES = 50_000_000
_CHUNK_VALUES = 1 << 22


@dataclass(frozen=True, eq=False)
class PolynomialNetwork:
    """A feed-forward network f(X) = U sigma(sum_i e_{x_i}) whose activation is a polynomial.

    Args:
        embedding: (V, d) rows e_a.
        unembedding: (Y, d) rows u_v.
        coefficients: (K + 1,) C_0..C_K of sigma(z) = sum_k C_k z^k; one of C_1..C_K is not 0.
        length: L >= 1, tokens of a sequence.

    Raises:
        InputError: shapes that do not fit, a value that is not finite, or an activation without slope anywhere.

    Example:
        >>> net = PolynomialNetwork(np.ones((3, 2)), np.ones((3, 2)), np.array([0.0, 1.0, 0.5, 0.0]), length=4)
        >>> net.degree, net.accessible_order
        (2, 1)
    """

    embedding: np.ndarray
    unembedding: np.ndarray
    coefficients: np.ndarray
    length: int

    def __post_init__(self) -> None:
        for name, axes in (("embedding", "(V, d)"), ("unembedding", "(Y, d)"), ("coefficients", "(K + 1,)")):
            object.__setattr__(self, name, finite(name, getattr(self, name), axes))
        if self.embedding.shape[1] != self.unembedding.shape[1]:
            raise InputError(
                f"embedding has width {self.embedding.shape[1]} and unembedding {self.unembedding.shape[1]}; expected the same d for both"
            )
        if self.length < 1:
            raise InputError(f"length is {self.length}; expected the number of tokens of a sequence, at least 1")
        if not self.coefficients[1:].any():
            raise InputError("coefficients C_1, C_2, .. are all 0; expected one that is not, or no embedding ever moves")

    @property
    def degree(self) -> int:
        """K, the highest power whose coefficient is not 0."""
        return int(np.flatnonzero(self.coefficients)[-1])

    @property
    def accessible_order(self) -> int:
        """The highest order of signature that moves an embedding, `accessible_order`."""
        return accessible_order(self.length, self.degree)


def context_coefficients(
    network: PolynomialNetwork, *, order: int, of: Int[np.ndarray, " A"] | None = None
) -> Float[np.ndarray, "A *context d"]:
    """Return the part of the coefficient tensors that the label does not enter: A_{a,m}(v, b_1..b_m) = u_v * T_{a,m}(b_1..b_m).

    Equation, powers and products elementwise over d:

        T_{a,m}(b_1..b_m) = sum_{k=m+1}^K k C_k binom(L-1, m) sum (k-1)! / (l! prod_r n_r!) e_a^l prod_r e_{b_r}^{n_r}

    with the inner sum over l >= 0, n_r >= 1, l + sum_r n_r = k - 1.

    Args:
        network: the network.
        order: m in 0..L-1.
        of: (A,) tokens; all V by default.

    Returns:
        (A, V, .., V, d) with m axes V; zeros beyond K - 1.

    Raises:
        InputError: order outside its range, tokens outside the vocabulary, or more than `MOST_VALUES` values.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> net = PolynomialNetwork(np.array([[1.0], [2.0]]), np.ones((2, 1)), np.array([0.0, 0.0, 1.0]), length=3)
        >>> context_coefficients(net, order=1)[0, :, 0].tolist()  # 2 binom(2, 1) e_b
        [4.0, 8.0]
    """
    _check_order(network, order)
    rows = network.embedding[_tokens(network, of)]
    vocabulary, width = network.embedding.shape
    _check_size(len(rows) * vocabulary**order * width, "of=")
    shape = len(rows), *(vocabulary,) * order, width
    found = np.zeros(shape)
    for powers in _compositions(order, most=network.degree - 1):
        part = _own_factor(network, rows, powers).reshape(len(rows), *(1,) * order, width)
        for axis, n in enumerate(powers):
            context = (1, *(vocabulary if r == axis else 1 for r in range(order)), width)
            part = part * (network.embedding**n).reshape(context)
        found += part
    return math.comb(network.length - 1, order) * found


def coefficient_tensors(
    network: PolynomialNetwork, *, order: int, of: Int[np.ndarray, " A"] | None = None
) -> Float[np.ndarray, "A Y *context d"]:
    """Return the coefficient tensors A_{a,m} that are contracted with label signatures; with u_v replaced by its mean, B_{a,m}.

    Equation: A_{a,m}(v, b_1..b_m) = u_v * T_{a,m}(b_1..b_m), see `context_coefficients`.

    Args:
        network: the network.
        order: m in 0..L-1.
        of: (A,) tokens; all V by default.

    Returns:
        (A, Y, V, .., V, d) with m axes V.

    Raises:
        InputError: as `context_coefficients`.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> net = PolynomialNetwork(np.ones((2, 1)), np.array([[1.0], [3.0]]), np.array([0.0, 2.0]), length=3)
        >>> coefficient_tensors(net, order=0, of=np.array([1])).tolist()
        [[[2.0], [6.0]]]
    """
    context = context_coefficients(network, order=order, of=of)
    labels = len(network.unembedding)
    _check_size(context.size * labels, "of=, or context_coefficients,")
    return context[:, None] * network.unembedding.reshape(1, labels, *(1,) * order, -1)


def label_terms(
    network: PolynomialNetwork,
    signatures: Sequence[np.ndarray],
    frequency: np.ndarray,
    *,
    of: Int[np.ndarray, " A"] | None = None,
) -> Float[np.ndarray, "M A d"]:
    """Return what each order of label signature adds to d e_a / dt through the observed labels.

    Equation: d e_a/dt |label = L r_a sum_{m=0}^{min(L-1, K-1)} A_{a,m} . phi_a^{y;m}, the gradient of E[u_y^T sigma(sum_i e_{x_i})];
    exact for any law of sequences, exchangeable or not.

    Args:
        network: the network.
        signatures: orders 0, 1, ..; the m-th (A, Y, V, .., V) = P(y, b_1..b_m | a), each row of sum 1, or 0 for a token never seen.
            The sum over orders is the whole gradient where they go up to `accessible_order`.
        frequency: (A,) r_a = P(x_I = a), I a uniform position.
        of: (A,) the tokens of the rows; all V by default.

    Returns:
        One (A, d) term for each order that came; zeros beyond the accessible one.

    Raises:
        InputError: no signature, shapes that do not fit, rows that are no probabilities, orders above L - 1.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> net = PolynomialNetwork(np.zeros((2, 1)), np.array([[1.0], [-1.0]]), np.array([0.0, 1.0]), length=2)
        >>> label_terms(net, [np.array([[1.0, 0.0], [0.5, 0.5]])], np.array([0.5, 0.5])).tolist()
        [[[1.0], [0.0]]]
    """
    return _all_terms(network, signatures, frequency, tokens=_tokens(network, of), readout=network.unembedding)


def prediction_terms(
    network: PolynomialNetwork,
    cooccurrences: Sequence[np.ndarray],
    frequency: np.ndarray,
    *,
    of: Int[np.ndarray, " A"] | None = None,
) -> Float[np.ndarray, "M A d"]:
    """Return what each order of co-occurrence signature adds to d e_a / dt through the predictions, while they are uniform.

    Equation: d e_a/dt |pred = - L r_a sum_m B_{a,m} . phi_a^m, B_{a,m} = A_{a,m} with u_v replaced by (1/Y) sum_v u_v: minus the
    gradient of E[mean_v u_v^T sigma(sum_i e_{x_i})]. It is the whole prediction part where the softmax is uniform, as at a vanishing
    init; the next order of the softmax reaches `accessible_order` with softmax_order=1. The flow is this plus `label_terms`.

    Args:
        network: the network.
        cooccurrences: orders 0, 1, ..; the m-th (A, V, .., V) = P(b_1..b_m | a) of sum 1, or 0 for a token never seen; order 0 is (A,).
        frequency: (A,) r_a.
        of: (A,) the tokens of the rows; all V by default.

    Returns:
        One (A, d) term for each order that came, its sign included.

    Raises:
        InputError: as `label_terms`.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> net = PolynomialNetwork(np.zeros((2, 1)), np.array([[1.0], [3.0]]), np.array([0.0, 1.0]), length=2)
        >>> prediction_terms(net, [np.ones(2)], np.array([0.25, 0.75])).tolist()
        [[[-1.0], [-3.0]]]
    """
    mean = network.unembedding.mean(axis=0)
    return -_all_terms(network, cooccurrences, frequency, tokens=_tokens(network, of), readout=mean)


def _all_terms(
    network: PolynomialNetwork, signatures: Sequence[np.ndarray], frequency: np.ndarray, *, tokens: np.ndarray, readout: np.ndarray
) -> np.ndarray:
    """The term of every order, (M, A, d), where `readout` is (Y, d) for label signatures and (d,) for co-occurrence signatures."""
    if not len(signatures):
        raise InputError("no signature came; expected those of orders 0, 1, ..")
    rates = finite("frequency", frequency, "(A,)")
    if rates.shape != tokens.shape or (rates < 0.0).any() or (rates > 1.0).any():
        raise InputError(
            f"frequency has shape {rates.shape} and lies in {rates.min():g}..{rates.max():g}; expected ({len(tokens)},), in 0..1"
        )
    terms = []
    for order, came in enumerate(signatures):
        _check_order(network, order)
        shape = len(tokens), *readout.shape[:-1], *(len(network.embedding),) * order
        values = law_rows(f"signatures[{order}]", came, shape=shape, rates=rates).reshape(len(tokens), -1, len(network.embedding) ** order)
        terms.append(_term(network, network.embedding[tokens], values, order=order, readout=np.atleast_2d(readout)))
    return network.length * rates[:, None] * np.stack(terms)


def _term(network: PolynomialNetwork, rows: np.ndarray, values: np.ndarray, *, order: int, readout: np.ndarray) -> np.ndarray:
    """sum_{v, b} T_{a,m}(b) u_v phi_a(v, b) as (A, d), for values (A, Y, V^m), a few tokens at a time."""
    vocabulary, width = network.embedding.shape
    found = np.zeros(rows.shape)
    step = max(1, _CHUNK_VALUES // (vocabulary**order * width))
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        # A vector of width d for each context, in place of the label axis.
        read = np.swapaxes(values[part], 1, 2) @ readout
        for powers in _compositions(order, most=network.degree - 1):
            left = read
            for n in reversed(powers):
                left = np.einsum("acbd,bd->acd", left.reshape(len(left), -1, vocabulary, width), network.embedding**n)
            found[part] += _own_factor(network, rows[part], powers) * left.reshape(len(left), width)
    return math.comb(network.length - 1, order) * found


def _own_factor(network: PolynomialNetwork, rows: np.ndarray, powers: tuple[int, ...]) -> np.ndarray:
    """sum_k k C_k (k-1)! / (l! prod_r n_r!) e_a^l with l = k - 1 - sum_r n_r >= 0, as (A, d)."""
    taken = sum(powers)
    below = math.prod(math.factorial(n) for n in powers)
    found = np.zeros(rows.shape)
    for k in range(taken + 1, network.degree + 1):
        own = k - 1 - taken
        ways = math.factorial(k - 1) // (math.factorial(own) * below)
        found += k * ways * network.coefficients[k] * rows**own
    return found


def _compositions(parts: int, *, most: int) -> Iterator[tuple[int, ...]]:
    """Every (n_1, .., n_parts) of whole numbers >= 1 with a sum of at most `most`."""
    if not parts:
        yield ()
        return
    for first in range(1, most - parts + 2):
        for rest in _compositions(parts - 1, most=most - first):
            yield first, *rest


def _tokens(network: PolynomialNetwork, of: np.ndarray | None) -> np.ndarray:
    """The rows asked for; all of them where `of` is None."""
    vocabulary = len(network.embedding)
    if of is None:
        return np.arange(vocabulary)
    if of.ndim != 1 or not of.size or of.min() < 0 or of.max() >= vocabulary:
        raise InputError(
            f"of has shape {of.shape} and values {of.tolist()[:5]}..; expected (A,) tokens in 0..{vocabulary - 1}, A at least 1"
        )
    return of


def _check_order(network: PolynomialNetwork, order: int) -> None:
    if not 0 <= order < network.length:
        raise InputError(
            f"order is {order}; expected 0..{network.length - 1}, because a sequence of {network.length} holds no more other tokens"
        )


def _check_size(values: int, narrower: str) -> None:
    if values > MOST_VALUES:
        raise InputError(
            f"the dense tensor would hold {values:,} values; expected at most {MOST_VALUES:,}: "
            f"take fewer tokens with {narrower} or a lower order"
        )
