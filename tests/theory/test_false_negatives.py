"""A bound on positives among the negatives: true whatever the scores, close where positives alone score high."""

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.theory.false_negatives import false_negative_bound, score_shift


def world(seed, *, share, queries=1500, pool=1000, gap=4.0):
    """Scores are the first coordinate: positives lie `gap` above negatives, of which a share are drawn like positives."""
    random = np.random.default_rng(seed)
    asked = np.tile([1.0, 0.0], (queries, 1))
    own = np.stack([random.normal(gap, 1.0, queries), np.zeros(queries)], axis=1)
    wrong = random.random(pool) < share
    others = np.stack([np.where(wrong, random.normal(gap, 1.0, pool), random.normal(0.0, 1.0, pool)), np.zeros(pool)], axis=1)
    return asked, own, others


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_bound_lies_above_the_share_and_close_where_negatives_score_lower(share):
    for seed in range(10):
        found = false_negative_bound(*world(seed, share=share, pool=4000))
        assert found.high >= share
        assert found.at_most == pytest.approx(share, rel=0.4, abs=0.015)


def test_without_any_difference_the_bound_is_one():
    found = false_negative_bound(*world(0, share=0.0, gap=0.0, pool=4000))
    assert found.at_most > 0.9
    assert found.high == 1.0


def test_what_outranks_the_positive_is_counted_and_masked_pairs_are_not():
    asked, own = np.eye(2), np.eye(2)
    pool = np.array([[2.0, 0.0], [0.0, 0.5], [1.0, 0.0]])
    found = false_negative_bound(asked, own, pool)
    assert (found.above_own, found.hit_rate) == (pytest.approx(1.0 / 6.0), 0.5)
    masked = np.array([0, 0]), np.array([0, 2])
    found = false_negative_bound(asked, own, pool, masked=masked)
    assert (found.above_own, found.hit_rate) == (0.0, 1.0)


def test_ties_do_not_go_by_the_luck_of_rounding():
    """Each query scores its positive as two rows of the pool do, but for the order in which a product adds."""
    random = np.random.default_rng(5)
    asked, own = (random.normal(size=(300, 384)).astype(np.float32) for _ in range(2))
    # Sums of the same terms in another order, as a copy that was scaled there and back.
    pool = np.concatenate([own * np.float32(1.7) / np.float32(1.7), -np.abs(own)])
    scores = np.einsum("ij,ij->i", asked, pool[:300], dtype=np.float64)
    assert (scores > np.einsum("ij,ij->i", asked, own, dtype=np.float64)).any()
    rest = np.nonzero(~np.eye(300, 600, dtype=bool))
    found = false_negative_bound(asked, own, pool, masked=rest)
    # One tie for each: the positive comes first every other time.
    assert (found.above_own, found.hit_rate) == (0.0, 0.5)
    higher = np.concatenate([own + np.float32(1e-4) * asked, -np.abs(own)])
    found = false_negative_bound(asked, own, higher, masked=rest)
    assert (found.above_own, found.hit_rate) == (1.0, 0.0)


def test_an_encoder_that_tells_nothing_apart_finds_positives_by_chance():
    same = np.ones((50, 4)) / 2.0
    found = false_negative_bound(same, same, same, masked=(np.arange(50), np.arange(50)))
    assert found.hit_rate == pytest.approx(1.0 / 50.0)


def test_one_query_bounds_nothing():
    found = false_negative_bound(np.eye(2)[:1], np.eye(2)[:1], -np.ones((3, 2)))
    assert np.isnan(found.at_most)
    assert found.hit_rate == 1.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="expected rows of one width"):
        false_negative_bound(np.eye(2), np.eye(2), np.ones((3, 4)))
    with pytest.raises(InputError, match="no query has a negative"):
        false_negative_bound(np.eye(2), np.eye(2), np.ones((1, 2)), masked=(np.array([0, 1]), np.array([0, 0])))


def test_two_sets_of_one_law_hardly_differ_and_moved_ones_do():
    random = np.random.default_rng(0)
    asked, first, second = (random.normal(size=(3000, 5)) for _ in range(3))
    assert score_shift(asked, first, second) < 0.03
    assert score_shift(asked + 2.0, first, second + 3.0) > 0.5
    assert score_shift(asked, first, second, seed=1) == score_shift(asked, first, second, seed=1)


def test_a_query_is_never_paired_with_its_own_positive():
    """Own positives score 100, all others 0."""
    many = 10.0 * np.eye(40)
    assert score_shift(many, many, np.zeros((10, 40))) == 0.0
    with pytest.raises(InputError, match="give at least 2"):
        score_shift(many[:1], many[:1], many)


def test_none_seen_is_not_none_there():
    found = false_negative_bound(*world(0, share=0.0, gap=50.0, pool=300))
    assert found.at_most == 0.0
    assert 3.0 / 300 <= found.high < 0.05
