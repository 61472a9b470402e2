"""Exact permutation moments against all permutations, one after the other."""

import itertools

import numpy as np
import pytest

from normwise.theory.permutation_moments import MatrixSums, permutation_moments
from normwise.theory.token_pairs import token_pairs


def _symmetric(rng, count):
    half = rng.normal(size=(count, count))
    return half + half.T


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_moments_are_those_of_all_permutations(count):
    rng = np.random.default_rng(count)
    first, second = _symmetric(rng, count), _symmetric(rng, count) + 0.7
    orders = [list(order) for order in itertools.permutations(range(count))]
    products = [(first * second[np.ix_(order, order)]).sum() for order in orders]
    found = permutation_moments(MatrixSums.of(first), MatrixSums.of(second))
    assert found == pytest.approx((np.mean(products), np.std(products)), rel=1e-10)


def test_sums_of_pairs_are_those_of_the_matrix_with_a_zero_diagonal():
    pairs = token_pairs(np.arange(5))
    matrix = _symmetric(np.random.default_rng(1), 5)
    np.fill_diagonal(matrix, 0.0)
    one, other = MatrixSums.of(matrix), MatrixSums.of_pairs(matrix[pairs[0], pairs[1]], pairs, count=5)
    assert vars(one) == pytest.approx(vars(other))


def test_a_matrix_that_no_permutation_changes_has_no_spread():
    sums = MatrixSums.of(np.ones((6, 6)) + np.eye(6))
    mean, spread = permutation_moments(sums, MatrixSums.of(_symmetric(np.random.default_rng(0), 6)))
    assert np.isfinite(mean)
    assert spread == pytest.approx(0.0, abs=1e-6)
