"""Squared norm = 2 KL at the optimum of a dot-product softmax: exact gain, its quadratic form, and their order."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.static_optimum import half_squared_norm, information_gain


def slow_gain(u, contexts, prior):
    """KL by its definition, one context at a time, with the sums in exact order."""
    weights = [p * math.exp(sum(a * b for a, b in zip(u, v, strict=True))) for p, v in zip(prior, contexts, strict=True)]
    total = math.fsum(weights)
    return math.fsum(w / total * math.log(w / total / p) for w, p in zip(weights, prior, strict=True) if p > 0)


def table(seed, *, contexts=40, width=5, words=6, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(words, width)), rng.normal(size=(contexts, width)), rng.dirichlet(np.ones(contexts))


@given(st.integers(0, 10**6), st.floats(0.05, 5.0))
def test_the_gain_is_the_divergence(seed, scale):
    u, v, p = table(seed, scale=scale)
    assert information_gain(u, v, p) == pytest.approx([slow_gain(row, v, p) for row in u], rel=1e-8)


@given(st.integers(0, 10**6))
def test_shifting_all_contexts_changes_nothing(seed):
    u, v, p = table(seed)
    moved = v + np.random.default_rng(seed + 1).normal(size=5) * 10
    assert information_gain(u, moved, p) == pytest.approx(information_gain(u, v, p), rel=1e-9)
    assert half_squared_norm(u, moved, p) == pytest.approx(half_squared_norm(u, v, p), rel=1e-9)


def test_the_quadratic_form_is_half_the_norm_in_the_metric_of_the_covariance():
    u, v, p = table(3)
    covariance = np.cov(v.T, aweights=p, ddof=0)
    assert half_squared_norm(u, v, p) == pytest.approx([0.5 * row @ covariance @ row for row in u])


def test_the_two_differ_at_third_order():
    u, v, p = table(0)
    errors = [np.abs(information_gain(s * u, v, p) - half_squared_norm(s * u, v, p)) for s in (0.02, 0.01)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(np.full(6, 3.0), abs=0.3)


def test_they_agree_to_some_per_cent_where_the_gain_is_moderate():
    """The printed check has .1732 against .1762; averaged over words of such gains the ratio is near 1."""
    u, v, p = table(1, contexts=2000, width=16, words=200)
    u *= math.sqrt(2 * 0.1762 / np.mean(2 * half_squared_norm(u, v, p)))
    exact, quadratic = information_gain(u, v, p).mean(), half_squared_norm(u, v, p).mean()
    assert quadratic == pytest.approx(0.1762)
    assert exact == pytest.approx(quadratic, rel=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1e-8, 1e-100, 1e-150])
def test_tiny_words_keep_their_digits(scale):
    """Two contexts of +-1: KL = x tanh x - log cosh x = x^2 / 2 - x^4 / 4 + ..."""
    found = information_gain(np.array([[scale]]), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))[0]
    assert found == pytest.approx(scale**2 / 2 - scale**4 / 4, rel=1e-12, abs=0)


@pytest.mark.parametrize("x", [0.3, 0.4999, 0.5001, 0.6, 2.0, 30.0])
def test_two_contexts_have_a_closed_form_on_both_sides_of_the_series(x):
    found = information_gain(np.array([[x]]), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))[0]
    assert found == pytest.approx(x * math.tanh(x) - math.log(math.cosh(x)), rel=1e-12)


@pytest.mark.parametrize("scale", [50.0, 1e4, 1e300])
def test_certain_words_gain_the_surprise_of_their_context(scale):
    v, p = np.eye(4), np.array([0.1, 0.2, 0.3, 0.4])
    assert information_gain(scale * np.eye(4), v, p) == pytest.approx(-np.log(p), rel=1e-9)


@given(st.integers(0, 10**6), st.floats(0.0, 1e3))
def test_the_gain_is_never_negative_nor_above_the_largest_surprise(seed, scale):
    u, v, p = table(seed, scale=scale)
    found = information_gain(u, v, p)
    assert (found >= 0.0).all()
    assert (found <= -math.log(p.min()) * (1 + 1e-9)).all()


def test_a_zero_word_and_a_single_context_tell_nothing():
    assert information_gain(np.zeros((2, 3)), np.ones((4, 3)), np.full(4, 0.25)).tolist() == [0.0, 0.0]
    assert information_gain(np.ones((1, 3)), np.ones((1, 3)), np.ones(1)).tolist() == [0.0]


def test_contexts_of_probability_zero_are_left_out():
    u, v, p = table(5)
    padded = np.vstack([v, 1e3 * np.ones((1, 5))]), np.append(p, 0.0)
    assert information_gain(u, *padded) == pytest.approx(information_gain(u, v, p), rel=1e-12)
    assert half_squared_norm(u, *padded) == pytest.approx(half_squared_norm(u, v, p), rel=1e-12)


def test_float32_is_read_and_float64_returned():
    u, v, p = (a.astype(np.float32) for a in table(6))
    found = information_gain(u, v, p)
    assert found.dtype == np.float64
    assert found == pytest.approx(information_gain(*table(6)), rel=1e-4)


@pytest.mark.parametrize("function", [information_gain, half_squared_norm])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda u, v, p: (u, v, 2 * p), r"^prior sums to 2 .*divide counts by their sum$"),
        (lambda u, v, p: (u, v, p - 0.2), r"^prior sums to .*least value -0"),
        (lambda u, v, p: (u, v, p[:-1] / p[:-1].sum()), r"do not fit; expected \(B, D\), \(N, D\), \(N,\)$"),
        (lambda u, v, p: (u[:, :-1], v, p), r"do not fit"),
        (lambda u, v, p: (np.where(np.eye(*u.shape) > 0, np.nan, u), v, p), r"^words\[0, 0\] is nan; expected finite values"),
        (lambda u, v, p: (u, v[:0], p[:0]), r"^prior sums to 0 "),
        (lambda u, v, p: (1e200 * u, 1e200 * v, p), r"inner products beyond float64.*rescale"),
    ],
)
def test_bad_input_is_refused_by_name(function, change, words):
    with pytest.raises(InputError, match=words):
        function(*change(*table(0)))
