"""Log sampling probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.popularity import log_sampling_probabilities


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
