"""Folds: whole clusters, even sizes, seeds, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.folds import cluster_folds


@given(
    st.lists(st.integers(-3, 9), min_size=2, max_size=60).filter(lambda names: len(set(names)) > 1), st.integers(2, 7), st.integers(0, 99)
)
def test_no_cluster_is_split_and_sizes_are_even_up_to_one_cluster(names, folds, seed):
    clusters = np.array(names)
    found = cluster_folds(clusters, folds=folds, seed=seed)
    assert set(found.tolist()) == set(range(min(folds, len(set(names)))))
    assert all(len(set(found[clusters == name].tolist())) == 1 for name in set(names))
    sizes, largest = np.bincount(found), max(names.count(name) for name in names)
    assert sizes.max() - sizes.min() <= largest


def test_the_seed_decides():
    clusters = np.arange(50)
    assert np.array_equal(cluster_folds(clusters, folds=5, seed=1), cluster_folds(clusters, folds=5, seed=1))
    assert not np.array_equal(cluster_folds(clusters, folds=5, seed=1), cluster_folds(clusters, folds=5, seed=2))


@pytest.mark.parametrize(("clusters", "folds"), [(np.array([3, 3]), 2), (np.array([1, 2]), 1)])
def test_refusals(clusters, folds):
    with pytest.raises(InputError, match="expected at least two of both"):
        cluster_folds(clusters, folds=folds, seed=0)
