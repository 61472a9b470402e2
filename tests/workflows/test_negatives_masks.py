"""Copies of positives in the pool: masked however they were stored, and no query's copies cut the curve of all others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.workflows.negatives import advise_negatives
from normwise.workflows.negatives_inputs import Limits, Words
from normwise.workflows.negatives_masks import enough_left, find_masked, reach_of
from normwise.workflows.negatives_material import prepared


def world(seed=0, *, queries=100, pool=400, width=8):
    random = np.random.default_rng(seed)
    target = random.normal(size=(queries, width))
    return target + 0.7 * random.normal(size=(queries, width)), target, random.normal(size=(pool, width))


def advise(queries, positives, pool=None, **more):
    return advise_negatives(queries, positives, pool=pool, **({"similarity": "cosine", "temperature": 0.2, "temperatures": []} | more))


def note(found, words):
    return [each for each in found.notes if words in each]


@pytest.mark.parametrize(
    ("copy", "rounded"),
    [(lambda p: p, False), (lambda p: 2.0 * p, False), (lambda p: 1.7 * p.astype(np.float16).astype(np.float64), True)],
    ids=["equal", "scaled", "half"],
)
def test_copies_of_positives_are_masked_however_they_are_stored(copy, rounded):
    queries, positives, pool = world()
    pool[:100] = positives
    bare = advise(queries, positives, pool)
    pool[:100] = copy(positives)
    seen = advise(queries, positives, pool)
    assert seen.pool.masked == 100
    assert seen.temperatures[0].recall_at_1 == bare.temperatures[0].recall_at_1
    assert seen.risk == pytest.approx(bare.risk, abs=1e-3)
    assert note(seen, "100 pairs of a query and its own positive in the pool are no negatives: masked")
    assert bool(note(seen, "(100 of them are copies but for rounding)")) == rounded


def test_scaled_copies_are_others_where_lengths_count():
    queries, positives, pool = world()
    pool[:100] = 2.0 * positives
    assert advise(queries, positives, pool, similarity="dot", temperature=2.0).pool.masked == 0


def test_positives_that_are_copies_but_for_rounding_collide():
    queries, positives, pool = world()
    positives[1] = positives[0] * (1.0 + 1e-3 * np.random.default_rng(1).normal(size=8))
    equal = positives.copy()
    equal[1] = equal[0]
    assert advise(queries, positives, pool).pool.collision == advise(queries, equal, pool).pool.collision
    assert advise(queries, positives).pool.masked == 102


def test_one_query_with_hardly_a_negative_does_not_cut_the_curve_of_all():
    queries, positives, pool = world(queries=200, pool=1000)
    pool[:997] = positives[0]
    seen = advise(queries, positives, pool)
    assert (seen.queries, seen.k[-1], seen.pool.masked) == (199, 1000, 0)
    assert note(seen, "1 of 200 queries have next to no negatives") == [
        "1 of 200 queries have next to no negatives and were left out of everything: queries, row 0 "
        "(997 of 1,000 rows of the pool are copies of its positive)"
    ]
    bare = advise(queries[1:], positives[1:], pool)
    assert seen.risk[-1] == pytest.approx(bare.risk[-1])


def test_rows_that_are_left_out_are_those_of_the_file_though_queries_were_drawn(tmp_path):
    queries, positives, pool = world(queries=200, pool=500)
    pool[:400] = positives[190]
    for name, vectors in (("q", queries), ("p", positives), ("n", pool)):
        np.save(tmp_path / f"{name}.npy", vectors)
    paths = [tmp_path / f"{name}.npy" for name in "qpn"]
    seen = [advise(*paths, limit_queries=150, seed=seed) for seed in range(4)]
    told = [note(each, "left out") for each in seen]
    assert [each.queries for each in seen] == [149 if each else 150 for each in told]
    assert any(told)
    for each in filter(None, told):
        assert each[0].endswith("q.npy, row 190 (400 of 500 rows of the pool are copies of its positive)")


def test_a_pool_that_masks_cut_for_all_is_said():
    queries, positives, _ = world(queries=200)
    positives[:120] = positives[0]
    seen = advise(queries, positives)
    assert (seen.queries, seen.k[-1]) == (200, 80)
    assert note(seen, "the curve ends at 80 of 200 in the pool")


def test_where_nothing_is_left_it_is_refused():
    queries, positives, pool = world()
    with pytest.raises(InputError, match="no query has a negative: of 2 in positives all are copies of its positive; give a pool"):
        advise(queries[:2], np.repeat(positives[:1], 2, axis=0))
    with pytest.raises(InputError, match="no query has a negative: of 400 in pool all are copies"):
        advise(queries[:2], np.repeat(positives[:1], 2, axis=0), np.repeat(positives[:1], 400, axis=0))


def test_queries_that_are_their_own_positives_or_the_pool_itself_are_said(tmp_path):
    queries, positives, pool = world()
    assert note(advise(queries, queries, pool), "100 of 100 queries are equal to their own positive")
    positives[:3] = queries[:3].astype(np.float16)
    assert note(advise(queries, positives, pool), "3 of 100 queries are equal to their own positive")
    assert note(advise(queries, positives, queries), "pool and queries are one")
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "p.npy", positives)
    same = advise(tmp_path / "q.npy", tmp_path / "p.npy", str(tmp_path / "q.npy"))
    assert note(same, "q.npy, so that a query is one of its own negatives")
    assert not note(advise(queries, world()[1], pool), "equal")


def test_a_pool_of_copies_has_intervals_that_are_too_narrow_and_it_is_said():
    queries, positives, pool = world()
    seen = advise(queries, positives, np.repeat(pool[:40], 10, axis=0))
    assert note(seen, "of 400 rows of the pool only 40 differ from each other")
    assert not note(advise(queries, positives, pool), "differ from each other")


def test_vectors_that_hardly_differ_are_no_copies():
    """All of an encoder that was not trained lie within less than half precision would move them, and are told apart nonetheless."""
    random = np.random.default_rng(3)
    middle = random.normal(size=(1, 32))
    queries, positives, pool = (middle + 1e-4 * random.normal(size=(count, 32)) for count in (50, 50, 300))
    seen = advise(queries, positives, pool, temperatures=[])
    assert (seen.queries, seen.pool.masked) == (50, 0)
    assert reach_of(positives, pool, seed=0) < 1e-4


@settings(max_examples=40, deadline=None)
@given(left=st.lists(st.integers(0, 1000), min_size=1, max_size=200))
def test_fewer_than_a_twentieth_of_those_that_have_any_are_left_out(left):
    left = np.array(left)
    kept = enough_left(left)
    some = left > 0
    assert not kept[~some].any()
    assert kept.any() == some.any()
    assert (some & ~kept).sum() <= 0.05 * some.sum()
    if kept.any():
        assert left[kept].min() >= left[some & ~kept].max(initial=0)


def test_a_part_of_a_pool_leaves_out_queries_that_have_next_to_nothing_of_it():
    queries, positives, pool = (each.astype(np.float32) for each in world(queries=40, pool=200))
    first = prepared(queries, positives, pool, similarity=Similarity.DOT, temperature=1.0, limits=Limits(99, 999, 0), words=Words("x"))
    # All of the first ten, in the order of the draw, are copies of the positive of query 3.
    order = np.random.default_rng([0, 6]).permutation(200)
    pool[order[:10]] = positives[3]
    found = prepared(queries, positives, pool, similarity=Similarity.DOT, temperature=1.0, limits=Limits(99, 999, 0), words=Words("x"))
    assert (len(first.queries), len(found.queries), len(found.masked.rows)) == (40, 40, 10)
    few = found.cut(40, 10, seed=0)
    assert (len(few.queries), len(few.pool), few.pairs) == (39, 10, None)
    np.testing.assert_array_equal(few.positives, np.delete(positives, 3, axis=0))
    # Where a part leaves nothing to anybody, the whole stays.
    pool[order[:10]] = positives[3]
    alone = prepared(
        queries[3:4], positives[3:4], pool, similarity=Similarity.DOT, temperature=1.0, limits=Limits(99, 999, 0), words=Words("x")
    )
    assert len(alone.cut(1, 10, seed=0).pool) == 200


def test_masks_of_some_queries_and_of_the_first_of_a_pool_are_numbered_anew():
    own, others = np.eye(3), np.eye(3)[[0, 1, 2, 1, 0]]
    masked = find_masked(own, others, within=0.0, places=[np.array([1]), np.array([], dtype=int), np.array([2])], pool="pool")
    assert list(zip(masked.rows.tolist(), masked.places.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 4), (1, 1), (1, 3), (2, 2)]
    few = masked.of(np.array([True, False, True]), size=4)
    assert list(zip(few.rows.tolist(), few.places.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2)]


def test_more_pairs_than_memory_holds_are_refused():
    one = np.ones((10_000, 1))
    with pytest.raises(InputError, match="100,000,000 pairs of a query and a row of n.npy are no negatives"):
        find_masked(one, one, within=0.0, pool="n.npy")
