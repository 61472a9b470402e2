"""Effective sizes: the slow sum over clusters, identities with independent queries, limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, t

from normwise.theory.clustered_errors import effective_sizes, error_tail, risk_bound

queries = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=30)


def slow_effect(wrong, clusters):
    """Variance over clusters against that of independent queries; None where nothing is known."""
    size, rate = len(wrong), np.mean(wrong)
    names = sorted(set(clusters))
    if rate in (0.0, 1.0) or len(names) == 1:
        return None
    parts = [[wrong[i] for i in range(size) if clusters[i] == name] for name in names]
    spread = sum((sum(part) - rate * len(part)) ** 2 for part in parts)
    return max(1.0, len(names) / (len(names) - 1) * spread / size**2 / (rate * (1 - rate) / (size - 1)))


def slow_size(wrong, clusters, everything, level):
    size = len(wrong)
    squares = sum(clusters.count(name) ** 2 for name in set(clusters))
    effect, whole = slow_effect(wrong, clusters), slow_effect(*everything)
    if effect is None:
        return size**2 / squares
    pairs = sum(everything[1].count(name) ** 2 for name in set(everything[1])) / len(everything[1]) - 1
    shared = 1.0 if whole is None else min(1.0, (whole - 1) / pairs) if pairs else 0.0
    effect = max(effect, 1 + shared * (squares / size - 1))
    student = t.ppf(1 - level, size - 1) / t.ppf(1 - level, len(set(clusters)) - 1)
    return min(size, size / effect * student**2)


@given(queries, st.sampled_from([0.02, 0.1, 0.3]))
def test_sizes_are_the_slow_ones_of_every_prefix(drawn, level):
    wrong, clusters = ([pair[i] for pair in drawn] for i in (0, 1))
    counts = np.arange(1, len(drawn) + 1)
    expected = [slow_size(wrong[:n], clusters[:n], (wrong, clusters), level) for n in counts]
    assert effective_sizes(np.array(wrong), np.array(clusters), counts, level=level) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_queries_of_their_own_count_in_full(wrong):
    counts = np.arange(1, len(wrong) + 1)
    assert effective_sizes(np.array(wrong), counts, counts, level=0.1) == pytest.approx(counts.astype(float), rel=1e-12)


def test_copies_of_a_query_add_nothing():
    rng = np.random.default_rng(0)
    wrong = np.repeat(rng.random(200) < 0.1, 5)
    clusters = np.repeat(np.arange(200), 5)
    sizes = effective_sizes(wrong, clusters, np.array([1000]), level=0.1)
    assert 0.97 * 200 < sizes[0] <= 201


def test_without_an_error_a_cluster_counts_once():
    right, clusters = np.zeros(12, dtype=bool), np.repeat(np.arange(4), 3)
    assert effective_sizes(right, clusters, np.array([3, 6, 12]), level=0.1).tolist() == [1.0, 2.0, 4.0]


@given(st.integers(1, 300), st.data(), st.sampled_from([0.01, 0.05, 0.1, 0.4]))
def test_tail_and_bound_are_those_of_the_binomial(size, data, level):
    errors = data.draw(st.integers(0, size))
    tail = float(error_tail(np.array([float(errors)]), np.array([float(size)]), risk=0.07)[0])
    assert tail == pytest.approx(binom.cdf(errors, size, 0.07), rel=1e-9)
    bound = risk_bound(float(errors), float(size), level=level)
    assert bound == pytest.approx(binomtest(errors, size, alternative="less").proportion_ci(1.0 - level, method="exact").high, rel=1e-6)
    assert (bound <= 0.07) == (tail <= level) or abs(tail - level) < 1e-9


def test_nothing_seen_says_nothing():
    assert error_tail(np.array([0.0, 3.0]), np.array([0.0, 3.0]), risk=0.05).tolist() == [1.0, 1.0]
