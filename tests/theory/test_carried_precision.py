"""Precision read off the numbers: every rounding done on purpose is named, and none moved a value farther than is said."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.theory.carried_precision import carried_precision, distinct_levels, precision_name


def directions(count=60, width=96, *, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, width))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cut_to_bfloat16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16 << 16).view(np.float32)


def to_bits(x, bits):
    """Round to so many significant bits, by the definition."""
    fractions, exponents = np.frexp(x)
    return np.ldexp(np.rint(fractions * 2.0**bits) / 2.0**bits, exponents)


def to_digits(x, digits):
    return np.array([[float(f"{value:.{digits}g}") for value in row] for row in x])


def as_json(x):
    """A float32 as JSON has it: the shortest decimal that reads back as the same float32."""
    return np.array(json.loads(json.dumps([[float(str(value)) for value in row] for row in x.astype(np.float32)])))


ROUNDINGS = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16).astype(np.float32),
    "bfloat16": cut_to_bfloat16,
    "6 significant bits": lambda x: to_bits(x, 6).astype(np.float32),
    "4 decimals": lambda x: np.round(x, 4).astype(np.float32),
    "8 decimals": lambda x: np.round(x, 8).astype(np.float32),
    "10 decimals": lambda x: np.round(x, 10),
    "6 significant digits": lambda x: to_digits(x, 6).astype(np.float32),
    "9 significant digits": as_json,
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_each_rounding_is_named_and_its_error_is_covered(name):
    exact = directions()
    stored = ROUNDINGS[name](exact)
    whole = carried_precision(stored.reshape(1, -1))
    assert whole.name(0) == name
    found = carried_precision(stored)
    bound = np.maximum(found.errors(stored.astype(np.float64)), whole.errors(stored.astype(np.float64)))
    error = np.abs(stored.astype(np.float64) - exact)
    assert (error <= bound * (1 + 1e-9)).all()
    if name != "float64":
        assert (error > 0.4 * bound).any()


def test_a_copy_in_a_finer_type_keeps_the_error_of_the_coarser():
    exact = directions()
    single = exact.astype(np.float32).astype(np.float64)
    found = carried_precision(single)
    assert {found.name(row) for row in range(len(single))} == {"float32"}
    assert (np.abs(single - exact) <= found.errors(single)).all()
    half = carried_precision(exact.astype(np.float16))
    assert half.name(0) == "float16"
    # float16's own rounding is to nearest; a trace of it elsewhere may be that of cutting off.
    wide = exact.astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(2.0 * half.errors(wide), carried_precision(exact.astype(np.float16).astype(np.float32)).errors(wide))


@given(st.integers(4, 23), st.integers(0, 10_000))
def test_any_number_of_bits_is_found_row_by_row(bits, seed):
    x = directions(2, 64, seed=seed)
    rounded = np.stack([to_bits(x[0], bits), x[1]]).astype(np.float32)
    found = carried_precision(rounded)
    assert found.epsilon[0] >= 2.0 ** (1 - bits)
    assert found.epsilon[1] == 2.0**-23
    assert (np.abs(rounded[0] - x[0]) <= found.errors(rounded.astype(np.float64))[0]).all()


def test_plain_numbers_show_no_trace_even_in_many_rows():
    for dtype, epsilon in ((np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        x = directions(4000, 48).astype(dtype)
        found = carried_precision(x)
        assert (found.epsilon == epsilon).all()
        assert not found.decimals.any()
        assert not found.digits.any()
        np.testing.assert_allclose(found.errors(x.astype(np.float64)), np.abs(x.astype(np.float64)) * epsilon / 2, rtol=1e-3, atol=1e-17)
        assert distinct_levels(x[:500], epsilon=epsilon) is None


def test_a_row_of_two_values_shows_nothing_by_chance():
    # Ten low bits of each are zero, which happens; in twenty values it does not.
    x = np.array([[1 + 2.0**-13, 1.5 + 2.0**-13]], dtype=np.float32)
    assert carried_precision(x).name(0) == "float32"
    assert carried_precision(np.tile(x, (1, 10))).name(0) == "14 significant bits"
    assert carried_precision(np.zeros((1, 4), dtype=np.float32)).errors(np.zeros((1, 4))).max() < 1e-44


def test_what_is_known_of_the_past_is_taken_over():
    x = directions().astype(np.float32)
    found = carried_precision(x, epsilon=2.0**-7)
    assert found.name(0) == "bfloat16"
    assert (found.errors(x.astype(np.float64)) >= np.abs(x) * 2.0**-8).all()
    assert (found.errors(x.astype(np.float64)) < np.abs(x) * 2.0**-7).all()


def test_a_value_that_half_precision_made_zero_is_not_exact():
    x = np.full((1, 64), 0.125)
    x[0, :3] = [2e-8, 7e-8, 1.8e-7]
    x[0, 3:] += np.random.default_rng(0).normal(size=61) * 0.01
    rounded = x.astype(np.float16).astype(np.float32)
    assert rounded[0, 0] == 0.0
    assert (np.abs(rounded - x) <= carried_precision(rounded).errors(rounded.astype(np.float64))).all()


QUANTIZED = {
    "one scale": lambda x: np.rint(x * 127 * 3) / (127 * 3),
    "a scale per row": lambda x: np.rint(x / np.abs(x).max(axis=1, keepdims=True) * 127) * np.abs(x).max(axis=1, keepdims=True) / 127,
    "a scale per column": lambda x: np.rint(x / np.abs(x).max(axis=0) * 127) * np.abs(x).max(axis=0) / 127,
    "bfloat16, then unit length": lambda x: (y := cut_to_bfloat16(x).astype(np.float64)) / np.linalg.norm(y, axis=1, keepdims=True),
    "float16, then unit length": lambda x: (y := x.astype(np.float16).astype(np.float64)) / np.linalg.norm(y, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_values_that_meet_too_often_are_seen_whatever_scaled_them(name):
    stored = QUANTIZED[name](directions(120, 200)).astype(np.float32)
    levels = distinct_levels(stored, epsilon=2.0**-23)
    assert levels is not None
    assert levels < {"float16, then unit length": 20_000}.get(name, 1500)


def test_levels_are_counted_as_a_slow_loop_counts_them():
    x = np.random.default_rng(3).integers(0, 30, size=(12, 20)).astype(np.float32)
    found = []
    for lists in (np.abs(x), x.T):
        equal = pairs = 0
        for some in lists:
            for i in range(len(some)):
                for j in range(i):
                    if some[i] != 0 and some[j] != 0:
                        pairs += 1
                        equal += int(some[i] == some[j])
        found.append(pairs / equal)
    assert distinct_levels(x, epsilon=2.0**-23) == pytest.approx(min(found))


def test_what_half_precision_explains_is_not_told_twice():
    x = directions(120, 200).astype(np.float16)
    assert distinct_levels(x, epsilon=2.0**-10) is None
    assert distinct_levels(x, epsilon=2.0**-23) is not None


def test_names():
    assert [precision_name(2.0**-power) for power in (52, 23, 10, 7, 4)] == [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "5 significant bits",
    ]
