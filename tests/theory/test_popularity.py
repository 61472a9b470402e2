"""Log sampling probabilities, and weights that count every relevant candidate once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.popularity import log_sampling_probabilities, one_query_per_candidate_weights


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.floats(0.01, 10.0))
def test_shares_sum_to_one_and_follow_the_counts(counts, smoothing):
    log_g = log_sampling_probabilities(np.array(counts), smoothing=smoothing)
    total = sum(counts) + smoothing * len(counts)
    assert np.exp(log_g).sum() == pytest.approx(1.0)
    assert log_g.tolist() == pytest.approx([math.log((n + smoothing) / total) for n in counts], abs=1e-9)


def test_large_smoothing_tends_to_uniform():
    assert log_sampling_probabilities(np.array([0, 9]), smoothing=1e12) == pytest.approx([math.log(0.5)] * 2)


@pytest.mark.parametrize(
    ("counts", "smoothing", "message"),
    [
        ([1, 0], 0.0, "candidate 1 was never seen and smoothing is 0"),
        ([1, -1], 1.0, "candidate 1 has count -1"),
        ([np.nan], 1.0, "candidate 0 has count nan"),
        ([], 1.0, "one count per candidate"),
        ([1], -1.0, "smoothing is -1"),
        ([1], math.inf, "smoothing is inf"),
    ],
)
def test_refusals(counts, smoothing, message):
    with pytest.raises(InputError, match=message):
        log_sampling_probabilities(np.array(counts), smoothing=smoothing)


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=1, max_size=12), st.integers(0, 1000))
def test_a_weighted_mean_is_the_expectation_over_candidates_then_queries(targets, seed):
    relevance = [{row: 1.0 for row in rows} | {9: 0.0} for rows in targets]
    values = np.random.default_rng(seed).random(len(targets))
    weights = one_query_per_candidate_weights(relevance)
    candidates = sorted({row for rows in targets for row in rows})
    shared = any(sum(row in rows for rows in targets) > 1 for row in candidates)
    assert (weights is not None) == shared
    if weights is None:
        return
    # Draw a candidate uniformly, then one of the queries it is relevant to.
    expected = np.mean([np.mean([values[q] for q, rows in enumerate(targets) if row in rows]) for row in candidates])
    assert float(weights @ values / weights.sum()) == pytest.approx(expected)
    assert weights.sum() == pytest.approx(len(candidates))
