"""The border of the closed forms: what is let in, and in which words the rest is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.quantities import Span, check_decay, decay_weighted_steps, quantities


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        (Span.POSITIVE, [5e-324, 1.0, 1e308], [0.0, -1.0]),
        (Span.NONNEGATIVE, [0.0, 1e308], [-5e-324]),
        (Span.FINITE, [-1e308, 0.0, 1e308], []),
        (Span.SHARE, [0.0, 1.0], [-1e-9, 1.0 + 1e-9]),
        (Span.BELOW_ONE, [0.0, 1.0 - 1e-16], [1.0, -0.1]),
        (Span.COUNT, [1, 4096], [0, 1.5, -1]),
    ],
)
def test_each_range_holds_what_its_words_say(span, inside, outside):
    for value in inside:
        assert quantities(x=(value, span))[0] == value
    for value in [*outside, math.nan, math.inf, -math.inf]:
        with pytest.raises(InputError, match=rf"^x is .*; expected {span.value}$"):
            quantities(x=(value, span))


def test_the_message_names_the_position():
    with pytest.raises(InputError, match=r"^g2\[1, 0\] is nan; expected a finite number >= 0$"):
        quantities(g2=([[1.0], [math.nan]], Span.NONNEGATIVE))


@pytest.mark.parametrize("value", ["1.0", True, None, 1j, [1.0, None], {"a": 1.0}, np.array([True])])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(InputError, match=r"^x holds .*; expected a finite number > 0, or an array of them$"):
        quantities(x=(value, Span.POSITIVE))


def test_ragged_lists_are_refused():
    with pytest.raises(InputError, match=r"x is ragged"):
        quantities(x=([[1.0], [1.0, 2.0]], Span.POSITIVE))


def test_shapes_that_do_not_broadcast_are_refused_with_their_names():
    with pytest.raises(InputError, match=r"^shapes do not broadcast: a \(2,\), b \(3,\); expected"):
        quantities(a=(np.ones(2), Span.POSITIVE), b=(np.ones(3), Span.POSITIVE), c=(1.0, Span.POSITIVE))


@pytest.mark.parametrize("value", [np.float32(0.5), np.array([1, 2], dtype=np.int32), np.ones(2, dtype=np.float16), [], 3])
def test_everything_becomes_float64_in_its_own_shape(value):
    (found,) = quantities(x=(value, Span.POSITIVE))
    assert found.dtype == np.float64
    assert found.shape == np.shape(value)
    assert np.array_equal(found, np.asarray(value))


def test_the_input_is_not_changed():
    given_array = np.array([1.0, 2.0])
    quantities(x=(given_array, Span.POSITIVE))[0][0] = 9.0
    assert given_array.tolist() == [1.0, 2.0]


@given(st.integers(0, 60), st.floats(0.0, 0.99))
def test_decay_weighted_steps_is_the_geometric_sum(steps, rate):
    slow = sum((1.0 - rate) ** t for t in range(steps))
    assert float(decay_weighted_steps(float(steps), rate)) == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, 5e-324, 1e-300, 1e-151, 1e-149, 1e-20])
def test_decay_weighted_steps_without_decay_are_the_steps(rate):
    assert float(decay_weighted_steps(1e6, rate)) == pytest.approx(1e6, rel=1e-12)


def test_a_step_of_decay_that_erases_the_vector_is_refused():
    with pytest.raises(InputError, match=r"learning_rate \* weight_decay is 1; expected below 1.*lower either"):
        check_decay(np.array([0.1, 2.0]), np.array(0.5))
