"""How many negatives of a set count: against slow loops, between its ends, and where sums would underflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.effective_negatives import effective_counts, effective_curve


def slow(scores, k):
    """One set after the other, in the log domain."""
    found = []
    for start in range(0, len(scores) - k + 1, k):
        part = scores[start : start + k] - max(scores[start : start + k])
        found.append(sum(np.exp(part)) ** 2 / sum(np.exp(2.0 * part)))
    return float(np.mean(found))


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.sampled_from([0.0, 1.0, 30.0, 1e4]))
def test_each_is_the_mean_over_sets_and_lies_between_1_and_k(seed, size, spread):
    random = np.random.default_rng(seed)
    scores = spread * random.normal(size=size)
    ks = sorted({*(k for k in (1, 2, 4, 8, 16, 32, 64) if k <= size), size})
    found = effective_counts(scores, ks)
    assert found[0] == 1.0
    assert all(1.0 <= each <= k for each, k in zip(found, ks, strict=True))
    np.testing.assert_allclose(found, [slow(scores, k) for k in ks], rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(-1e5, 1e5))
def test_a_shift_changes_nothing(seed, shift):
    scores = np.random.default_rng(seed).normal(size=40)
    np.testing.assert_allclose(effective_counts(scores + shift, [1, 2, 5, 40]), effective_counts(scores, [1, 2, 5, 40]), rtol=1e-9)


def test_equal_scores_all_count_and_one_that_outweighs_the_others_counts_alone():
    assert effective_counts(np.full(12, -700.0), [1, 3, 6, 12]) == [1.0, 3.0, 6.0, 12.0]
    # Beside 1e6 the others are nothing, and yet they are two of two in their own sets.
    assert effective_counts(np.array([1e6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), [2, 4, 8]) == [7 / 4, 5 / 2, 1.0]


@pytest.mark.parametrize("ks", [[0], [1, 5], [2, 2], [2, 1]])
def test_sizes_that_are_none_are_refused(ks):
    with pytest.raises(InputError, match="of 4 scores; expected ascending sizes"):
        effective_counts(np.zeros(4), ks)


def test_masked_pairs_are_dropped_and_the_middle_of_queries_is_told():
    random = np.random.default_rng(0)
    queries, pool = random.normal(size=(5, 4)), random.normal(size=(30, 4))
    rows, places = np.array([4, 0, 4, 2]), np.array([3, 29, 0, 7])
    found = effective_curve(queries, pool, [1, 8, 28], masked=(rows, places))
    each = [np.delete(queries[row] @ pool.T, places[rows == row]) for row in range(5)]
    np.testing.assert_allclose(found, [np.median([slow(scores, k) for scores in each]) for k in (1, 8, 28)], rtol=1e-9)
    assert not np.allclose(found, effective_curve(queries, pool, [1, 8, 28]))


def test_few_of_many_queries_are_drawn_by_the_seed():
    random = np.random.default_rng(1)
    queries, pool = 2.0 * random.normal(size=(1000, 4)), random.normal(size=(64, 4))
    first, again, other = (effective_curve(queries, pool, [8, 64], seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    whole = np.median([[slow(scores, k) for k in (8, 64)] for scores in queries @ pool.T], axis=0)
    np.testing.assert_allclose(first, whole, rtol=0.25)
