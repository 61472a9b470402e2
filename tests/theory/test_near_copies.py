"""Near copies: against a slow loop, under rounding and noise, and what must not pass for one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory import near_copies
from normwise.theory.near_copies import NEAR, first_of_kind


def rows(count, width, *, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) * rng.lognormal(0.0, 0.3, size=(count, 1))


def slow(x):
    """Every kept row leaves out the later ones within reach; chance pairs as the module draws them."""
    lengths = np.linalg.norm(x, axis=1)
    unit = np.median(lengths)
    rng = np.random.default_rng(0)
    rng.normal(size=(x.shape[1], min(near_copies._SHADOW, x.shape[1])))
    usual = near_copies._usual_distance(x, unit, rng) * unit
    kept = np.ones(len(x), dtype=bool)
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            if kept[i] and np.linalg.norm(x[i] - x[j]) <= NEAR * min(usual, lengths[i]):
                kept[j] = False
    return kept


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 12]), st.sampled_from([1e-12, 1e-4, 5e-3, 2e-2]))
def test_what_is_kept_is_what_a_slow_loop_keeps(seed, width, noise):
    rng = np.random.default_rng(seed)
    x = rows(12, width, seed=seed)[rng.integers(12, size=40)]
    x += noise * rng.normal(size=x.shape)
    np.testing.assert_array_equal(first_of_kind(x), slow(x))


def half(x, rng):
    return x.astype(np.float16).astype(np.float64)


def rescaled(x, rng):
    return x * (1.0 + 1e-3 * rng.normal(size=(len(x), 1)))


def noisy(x, rng):
    return x + 1e-4 * rng.normal(size=x.shape)


@pytest.mark.parametrize("change", [half, rescaled, noisy])
@pytest.mark.parametrize("width", [3, 24, 384])
def test_copies_are_found_whatever_moved_them(change, width):
    x = rows(300, width)
    order = np.random.default_rng(1).permutation(600)
    both = np.concatenate([x, change(x, np.random.default_rng(2))])[order]
    kept = first_of_kind(both)
    assert kept.sum() == pytest.approx(300, abs=2)
    # One of each pair stays, the one that comes first.
    first = np.unique(order % 300, return_index=True)[1]
    assert np.isin(np.flatnonzero(kept), first).mean() > 0.99


def test_rows_of_their_own_are_no_copies():
    rng = np.random.default_rng(0)
    assert first_of_kind(rows(2000, 8)).all()
    # An untrained encoder: all rows within 1% of each other, which is all that tells them apart.
    assert first_of_kind(rng.normal(size=(1, 64)) + 1e-3 * rng.normal(size=(500, 64))).all()
    # Clusters are no copies either, and short vectors are measured by their own length.
    assert first_of_kind(np.repeat(rows(20, 32), 25, axis=0) + 0.1 * rng.normal(size=(500, 32))).all()
    assert first_of_kind(rng.normal(size=(500, 16)) * np.exp(4.0 * rng.normal(size=(500, 1)))).all()


@pytest.mark.parametrize("giant", [1e9, 1e300])
def test_giants_do_not_make_copies_of_the_others(giant):
    x = rows(200, 8)
    x[7] *= giant / 10
    x[9] = x[3] * (1.0 + 1e-6)
    assert np.flatnonzero(~first_of_kind(x)).tolist() == [9]


def test_the_unit_does_not_matter_and_few_rows_are_no_trouble():
    x = np.repeat(rows(30, 5), 3, axis=0)
    for factor in (1e-30, 1.0, 1e30):
        assert first_of_kind(x * factor).sum() == 30
    for few in (np.empty((0, 3)), np.ones((1, 3)), np.zeros((4, 3))):
        assert first_of_kind(few).all()
    assert first_of_kind(np.ones((3, 2), dtype=np.float16)).tolist() == [True, False, False]
    with pytest.raises(InputError, match="row 1, column 0 is nan; expected finite values"):
        first_of_kind(np.array([[1.0], [np.nan]]))
