"""How high the order of a signature may be that still moves an embedding, and what weight each order has late in training."""

from __future__ import annotations

import math

from scipy.special import stirling2

from normwise.core.errors import InputError


def accessible_order(length: int, degree: int, *, softmax_order: int = 0) -> int:
    """Return the highest order of signature that reaches the flow of the embedding.

    Equation: min(L - 1, K - 1) for label signatures, and for co-occurrence signatures under the uniform softmax; with the softmax
    expanded to order q in the logits, co-occurrence signatures reach min(L - 1, (q + 1) K - 1). A task that all L tokens decide,
    such as modular addition, therefore needs K >= L.

    Args:
        length: L >= 1.
        degree: K >= 1, the highest power of the activation.
        softmax_order: q >= 0; leave it 0 for label signatures.

    Returns:
        The order, at least 0.

    Raises:
        InputError: a value below its range.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315, for q = 0 and q = 1; any q is ours: the logits have degree K in z, their q-th
    power q K, and sigma' adds K - 1.

    Example:
        >>> accessible_order(4, 2), accessible_order(4, 6), accessible_order(4, 2, softmax_order=1)
        (1, 3, 3)
    """
    if length < 1 or degree < 1 or softmax_order < 0:
        raise InputError(f"length is {length}, degree {degree}, softmax_order {softmax_order}; expected at least 1, 1 and 0")
    return min(length - 1, (softmax_order + 1) * degree - 1)


def late_prefactor(length: int, degree: int, order: int) -> int:
    """Return the weight of an order of signature where all embeddings are of one size: the sum of its coefficients at e = u = 1.

    Equation: for sigma(z) = z^K, K binom(L-1, m) m! S2(K, m+1) with S2 the Stirling numbers of the second kind; over m they sum to
    K L^(K-1). An order in the middle is usually the heaviest: 4, 84, 144, 24 for L = K = 4.

    Args:
        length: L >= 1.
        degree: K >= 1.
        order: m >= 0; beyond `accessible_order` the weight is 0.

    Returns:
        The whole number.

    Raises:
        InputError: a value below its range.

    Reference: ours: the K - 1 factors of sigma' fall on the token and on m others, each of the m at least once. The smaller count
    (m+1)! S2(K-1, m+1) takes only products that hold the token itself too: it is 0 at m = K - 1, an order that is accessible.

    Example:
        >>> [late_prefactor(4, 4, m) for m in range(5)]
        [4, 84, 144, 24, 0]
    """
    if length < 1 or degree < 1 or order < 0:
        raise InputError(f"length is {length}, degree {degree}, order {order}; expected length and degree of at least 1, order >= 0")
    ways = math.factorial(order) * int(stirling2(degree, order + 1, exact=True))
    return degree * math.comb(length - 1, order) * ways
