from __future__ import annotations

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.models.probe import PROBE_TEXTS, compare, probe_vectors


def test_texts_are_fixed_distinct_and_cover_the_odd_ones():
    assert len(PROBE_TEXTS) == len(set(PROBE_TEXTS)) == 24
    assert any(not text.strip() for text in PROBE_TEXTS)
    assert any(not text.isascii() for text in PROBE_TEXTS)
    assert max(len(text.split()) for text in PROBE_TEXTS) > 600


def test_vectors_are_raw_ordered_and_leave_the_mode(make_small):
    st = make_small(query_prompt="query: ")
    st.default_prompt_name = "query"
    st.train()
    vectors = probe_vectors(st)
    assert st.training
    assert vectors.dtype == np.float32
    # One text at a time, without a prompt.
    for index in (0, 5, 23):
        np.testing.assert_allclose(vectors[index], st.encode(PROBE_TEXTS[index], prompt=""), atol=1e-5)


def test_bound_scales_with_the_norms_but_never_below_one():
    reference = np.full((2, 4), 50.0)
    assert compare(reference, reference, tolerance=1e-4).allowed == pytest.approx(1e-2)
    assert compare(np.zeros((2, 4)), np.zeros((2, 4)), tolerance=1e-4).allowed == 1e-4


def test_each_difference_decides_alone():
    reference = np.array([[3.0, 4.0]])
    turned = compare(np.array([[4.0, 3.0]]), reference, tolerance=0.1)
    assert (turned.largest_difference, turned.largest_norm_difference) == (1.0, 0.0)
    assert not turned.same
    wide = np.full((1, 10_000), 1.0)
    longer = compare(wide * (1 + 5e-5), wide, tolerance=1e-5)
    assert longer.largest_difference == pytest.approx(5e-5)
    assert longer.largest_norm_difference == pytest.approx(5e-3)
    assert longer.largest_difference < longer.allowed == pytest.approx(1e-3)
    assert not longer.same


def test_nan_is_never_the_same_and_another_width_is_an_error():
    reference = np.ones((2, 3))
    assert not compare(np.full((2, 3), np.nan), reference, tolerance=1.0).same
    with pytest.raises(InputError, match=r"shape \(2, 4\), expected \(2, 3\)"):
        compare(np.ones((2, 4)), reference, tolerance=1.0)
