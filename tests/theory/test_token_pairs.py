"""Pairs of tokens: folds that share no token, ranks, and correlations within folds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from normwise.core.errors import InputError
from normwise.theory.token_pairs import mid_ranks, token_folds, token_pairs, usual_folds, within_fold_correlation


def test_every_token_is_held_out_once_in_each_partition_and_never_beside_itself():
    folds = token_folds(23, folds=5, repeats=3, seed=4)
    for fold in folds:
        assert np.array_equal(np.sort(np.concatenate([fold.train, fold.held])), np.arange(23))
    for repeat in range(3):
        held = np.concatenate([fold.held for fold in folds[5 * repeat : 5 * repeat + 5]])
        assert np.array_equal(np.sort(held), np.arange(23))
    assert not all(np.array_equal(one.held, other.held) for one, other in zip(folds[:5], folds[5:10], strict=True))


@pytest.mark.parametrize(("count", "folds", "repeats"), [(14, 5, 1), (20, 1, 1), (20, 5, 0)])
def test_folds_without_pairs_are_refused(count, folds, repeats):
    with pytest.raises(InputError, match=f"{repeats} times {folds} folds of {count} tokens: expected .* give more tokens or fewer folds"):
        token_folds(count, folds=folds, repeats=repeats)


@given(st.integers(15, 200))
def test_usual_folds_hold_out_a_hundred_pairs(count):
    folds = usual_folds(count)
    assert sum(fold.held.size * (fold.held.size - 1) // 2 for fold in folds) >= 100
    assert len(folds) % 5 == 0


def test_pairs_are_all_of_them_in_the_order_of_the_tokens():
    tokens = np.array([7, 2, 9, 4])
    expected = [(tokens[i], tokens[j]) for i in range(4) for j in range(i + 1, 4)]
    assert token_pairs(tokens).T.tolist() == [list(pair) for pair in expected]


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_ranks_are_those_of_scipy_ties_and_all(values):
    array = np.array(values, dtype=np.float64)
    assert np.array_equal(mid_ranks(array), rankdata(array))


def test_within_one_fold_it_is_pearson_and_levels_of_folds_are_no_part_of_it():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9, 2))
    assert within_fold_correlation([x], [y]) == pytest.approx([np.corrcoef(x[:, c], y[:, c])[0, 1] for c in range(2)])
    split = within_fold_correlation([x[:4], x[4:]], [y[:4], y[4:]])
    assert within_fold_correlation([x[:4] + 100.0, x[4:]], [y[:4], y[4:] - 50.0]) == pytest.approx(split)
    dx, dy = ([part - part.mean(axis=0) for part in (each[:4], each[4:])] for each in (x, y))
    slow = sum((a * b).sum(axis=0) for a, b in zip(dx, dy, strict=True)) / np.sqrt(
        sum((a * a).sum(axis=0) for a in dx) * sum((b * b).sum(axis=0) for b in dy)
    )
    assert split == pytest.approx(slow)


def test_constant_predictions_predict_nothing_and_constant_truth_cannot_be_predicted():
    x = np.arange(4.0)[:, None]
    assert within_fold_correlation([np.full((4, 1), 0.3)], [x]).tolist() == [0.0]
    assert np.isnan(within_fold_correlation([x], [np.full((4, 1), 0.3)])).all()
