"""Which orders reach the flow, and how heavily, against counts and differences that know no formula."""

import itertools
import math

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.theory.embedding_flow import PolynomialNetwork, context_coefficients
from normwise.theory.flow_orders import accessible_order, late_prefactor


def interaction(function, rows, order):
    """Size of the mixed difference of a function of sum_r e_r in `order` of the rows: 0 where it has no terms of that order."""
    total = 0.0
    for kept in itertools.product((0, 1), repeat=order):
        total = total + (-1.0) ** (order - sum(kept)) * function(np.array(kept, dtype=float) @ rows[:order])
    return np.abs(total).max()


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("softmax_order", [0, 1, 2])
def test_the_softmax_to_order_q_reaches_that_order_and_none_above(degree, softmax_order):
    """The prediction part sum_v (f_v)^q u_v * sigma'(z) as a function of five other tokens, next to the token itself."""
    rng = np.random.default_rng(0)
    unembedding, own, rows = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(9, 4))

    def part(context):
        z = own + context
        logits = (z**degree) @ unembedding.T
        return (logits**softmax_order) @ unembedding * degree * z ** (degree - 1)

    highest = accessible_order(10, degree, softmax_order=softmax_order)
    assert highest <= 8
    assert interaction(part, rows, highest) > 1e-2
    assert interaction(part, rows, highest + 1) < 1e-8


def test_a_short_sequence_is_the_limit_where_the_activation_is_not():
    assert [accessible_order(length, 4) for length in (1, 2, 4, 5, 9)] == [0, 1, 3, 3, 3]
    assert [accessible_order(4, degree) for degree in (1, 2, 4, 5)] == [0, 1, 3, 3]


@pytest.mark.parametrize(("length", "degree"), [*itertools.product((1, 2, 3, 4), (1, 2, 3, 5))])
def test_late_weights_count_the_ways_in_which_factors_fall_on_tokens(length, degree):
    counted = [0] * length
    for places in itertools.product(range(length), repeat=degree - 1):
        counted[len(set(places) - {0})] += degree
    assert [late_prefactor(length, degree, order) for order in range(length)] == counted
    assert sum(counted) == degree * length ** (degree - 1)
    ones = PolynomialNetwork(np.ones((2, 1)), np.ones((1, 1)), np.eye(degree + 1)[degree], length=length)
    for order in range(length):
        assert context_coefficients(ones, order=order).ravel().tolist() == pytest.approx(2 ** (order + 1) * [counted[order]])


def test_the_highest_order_need_not_be_the_heaviest():
    weights = [late_prefactor(4, 4, order) for order in range(4)]
    assert np.argmax(weights) == 2
    # Products that hold the token itself: binom(L-1, m) (m+1)! S2(K-1, m+1), none of them of the highest order.
    with_itself = [
        math.comb(3, order) * sum({*places} == {*range(order + 1)} for places in itertools.product(range(4), repeat=3))
        for order in range(4)
    ]
    assert with_itself == [1, 18, 18, 0]


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="length is 0, degree 2, softmax_order 0"):
        accessible_order(0, 2)
    with pytest.raises(InputError, match="softmax_order -1"):
        accessible_order(2, 2, softmax_order=-1)
    with pytest.raises(InputError, match="length is 2, degree 0, order 1"):
        late_prefactor(2, 0, 1)
