"""Norms and directions: scale, zeros, dtypes, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from normwise.core.errors import InputError
from normwise.theory.directions import exact_norms, normalize, norms

vectors = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1e3, 1e3, width=32))


def slow_norm(row):
    return math.sqrt(math.fsum(float(value) ** 2 for value in row))


@given(vectors)
def test_norms_are_the_sum_of_squares(x):
    assert np.allclose(norms(x), [slow_norm(row) for row in x], rtol=1e-6, atol=1e-44)


@given(vectors)
def test_directions_have_norm_one_or_zero(x):
    lengths = norms(normalize(x))
    assert np.allclose(lengths[norms(x) > 0], 1.0, atol=1e-6)
    assert (lengths[norms(x) == 0] == 0).all()


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e-300), (np.float64, 1e300), (np.float64, 5e-324)]
)
def test_scale_does_not_matter(dtype, scale):
    x = np.array([[3.0, 4.0, 0.0]], dtype=dtype) * dtype(scale)
    assert norms(x)[0] == pytest.approx(5.0 * scale, rel=1e-6)
    assert normalize(x)[0].tolist() == pytest.approx([0.6, 0.8, 0.0], rel=1e-6)


@pytest.mark.parametrize(("given_dtype", "expected"), [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64)])
def test_dtypes(given_dtype, expected):
    x = np.full((2, 3), 60000.0, dtype=given_dtype)
    assert norms(x).dtype == normalize(x).dtype == expected
    assert np.isfinite(norms(x)).all()


def test_inputs_are_left_alone_and_empty_is_fine():
    x = np.array([[3.0, 4.0]])
    normalize(x)
    assert x.tolist() == [[3.0, 4.0]]
    assert norms(np.empty((0, 4))).shape == (0,)
    assert normalize(np.empty((0, 4))).shape == (0, 4)


def test_equal_rows_have_equal_norms_wherever_they_stand():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5000, 385)).astype(np.float32)
    x[[17, 2730, 4999]] = x[0]
    assert len(set(norms(x)[[0, 17, 2730, 4999]].tolist())) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_named(value):
    x = np.ones((3000, 400), dtype=np.float32)
    x[2999, 7] = value
    with pytest.raises(InputError, match="queries: row 2999, column 7 is"):
        exact_norms(x, name="queries")
