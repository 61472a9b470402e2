"""One pass over a pool leaves what the whole score matrix would: sums over sets, squares, and each negative left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.theory import negative_sums as module
from normwise.theory import negative_tiles
from normwise.theory.negative_sums import negative_sums


def vectors(seed, *, queries, pool, width=8, temperature=0.1, scale=1.0):
    random = np.random.default_rng(seed)
    q, n = random.normal(size=(queries, width)), random.normal(size=(pool, width))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    n *= scale * random.lognormal(0.0, 0.3, size=(pool, 1)) / np.linalg.norm(n, axis=1, keepdims=True)
    return (q / temperature).astype(np.float32), n.astype(np.float32)


def scores_of(queries, pool, masked=None):
    scores = queries.astype(np.float64) @ pool.astype(np.float64).T
    if masked is not None:
        scores[masked] = -np.inf
    return scores


def left_out(scores):
    """Mean over negatives of log(1 - w), one by one; what is left beside one that holds nearly all is known to 1e-7 of it."""
    found = []
    for row in scores:
        there = row[np.isfinite(row)]
        whole = logsumexp(there)
        found.append(
            np.mean([max(logsumexp(np.delete(there, at)) - whole, np.log(1e-7)) for at in range(there.size)]) if there.size > 1 else np.nan
        )
    return np.array(found)


def check_against_matrix(queries, pool, masked=None, *, accuracy=2e-5):
    found, scores = negative_sums(queries, pool, masked=masked), scores_of(queries, pool, masked)
    counts = np.isfinite(scores).sum(axis=1)
    np.testing.assert_array_equal(found.size, counts)
    np.testing.assert_allclose(found.log_mean, logsumexp(scores, axis=1) - np.log(counts), atol=accuracy, rtol=accuracy)
    weights = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(found.cv2, counts * (weights**2).sum(axis=1) - 1.0, atol=accuracy * 10, rtol=accuracy * 10)
    own = np.stack([negatives_of(row) for row in scores])
    assert found.pool == counts.min()
    assert sorted(found.sets) == sorted({2**power for power in range(20) if 2**power < counts.min()} | {counts.min()})
    for k, means in found.sets.items():
        assert means.shape[1] == (min(64, len(pool) // k) if k < found.pool else 1)
        for at in range(means.shape[1]):
            expected = np.where((at + 1) * k <= counts, logsumexp(own[:, at * k : (at + 1) * k], axis=1) - np.log(k), np.nan)
            np.testing.assert_allclose(means[:, at] + found.shift, expected, atol=accuracy, rtol=accuracy)
    tile = int(found.counts.max())
    for at in range(found.tiles.shape[1]):
        part = own[:, at * tile : (at + 1) * tile]
        np.testing.assert_array_equal(found.counts[:, at], np.isfinite(part).sum(axis=1))
        np.testing.assert_allclose(found.tiles[:, at] + found.shift, logsumexp(part, axis=1), atol=accuracy, rtol=accuracy)
    return found, scores


def negatives_of(row):
    """A query's negatives in their places, the last of them in those of masked ones before; then -inf."""
    there = np.isfinite(row)
    front = there.sum()
    order = np.arange(row.size)
    order[np.flatnonzero(~there[:front])] = front + np.flatnonzero(there[front:])
    return np.concatenate([row[order[:front]], np.full(row.size - front, -np.inf)])


@pytest.mark.parametrize(
    ("queries", "pool", "temperature", "scale"),
    [(7, 100, 0.1, 1.0), (3, 1, 0.1, 1.0), (3, 3, 1.0, 1.0), (5, 2049, 0.02, 1.0), (600, 700, 0.05, 1.0), (6, 1500, 0.05, 8.0)],
)
def test_sums_are_those_of_the_score_matrix(queries, pool, temperature, scale):
    q, n = vectors(0, queries=queries, pool=pool, temperature=temperature, scale=scale)
    check_against_matrix(q, n, accuracy=1e-4 if scale > 1.0 else 2e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.05])
def test_each_negative_is_left_out_once(temperature):
    q, n = vectors(1, queries=9, pool=230, temperature=temperature)
    found, scores = check_against_matrix(q, n)
    # A hundredth of the sum is where the series ends: w^3 / 3 of it, and what it costs the jackknife of 230.
    np.testing.assert_allclose(found.left_out * 230, left_out(scores) * 230, atol=5e-5)


def test_a_negative_that_holds_nearly_all_is_left_out_too():
    q, n = np.array([[10.0, 0.0]]), np.concatenate([np.tile([0.0, 1.0], (99, 1)), [[1.0, 0.0]]])
    found = negative_sums(q, n)
    assert found.left_out[0] * 100 == pytest.approx(left_out(scores_of(q, n))[0] * 100, abs=1e-3)


def test_masked_pairs_are_no_negatives_in_any_sum():
    q, n = vectors(2, queries=60, pool=60)
    own = np.arange(60)
    check_against_matrix(q, n, (own, own))
    q, n = vectors(2, queries=20, pool=40_000)
    rows, places = np.divmod(np.arange(20 * 700), 700)
    check_against_matrix(q, n, (rows, places))


@given(seed=st.integers(0, 1000), queries=st.integers(1, 6), pool=st.integers(2, 90), share=st.floats(0.0, 0.95))
@settings(max_examples=60, deadline=None)
def test_whatever_is_masked_sets_hold_as_many_negatives_as_they_say(seed, queries, pool, share):
    random = np.random.default_rng(seed)
    q, n = vectors(seed, queries=queries, pool=pool)
    there = random.random((queries, pool)) < share
    there[np.arange(queries), random.integers(0, pool, queries)] = False
    check_against_matrix(q, n, np.nonzero(there))


def test_a_pair_that_is_masked_twice_is_masked_once():
    q, n = vectors(5, queries=3, pool=40)
    once = negative_sums(q, n, masked=(np.array([1]), np.array([4])))
    twice = negative_sums(q, n, masked=(np.array([1, 1]), np.array([4, 4])))
    np.testing.assert_array_equal(once.size, twice.size)
    np.testing.assert_array_equal(once.tiles, twice.tiles)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("pool", "most"), [(30, 400.0), (500, 400.0), (5000, 400.0), (5000, 3000.0)])
def test_scores_hundreds_apart_are_summed_as_near_ones_are(pool, most, masked, monkeypatch):
    monkeypatch.setattr(negative_tiles, "_MOST_TILE", 128)
    random = np.random.default_rng(6)
    q, n = random.normal(size=(9, 8)), random.normal(size=(pool, 8))
    q, n = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (q, n))
    # A tail that no other comes near, and a query whose scores are near each other.
    n[pool // 2], q[0] = 4.0 * q[3], q[0] * 1e-3
    there = (random.random((9, pool)) < 0.3).nonzero() if masked else None
    # Products of float32 are known to some 1e-7 of the largest score.
    check_against_matrix((most * q).astype(np.float32), n.astype(np.float32), there, accuracy=most * 2e-6)


def test_a_late_negative_far_above_moves_what_was_summed_before():
    q, n = vectors(7, queries=4, pool=4000, temperature=1.0)
    n[-1] = 50.0 * q[2]
    # Query 0 has a thousand negatives, the others all.
    check_against_matrix(q, n, (np.zeros(3000, dtype=np.int64), np.arange(500, 3500)), accuracy=1e-4)


def test_blocks_tiles_and_threads_change_nothing_but_rounding(monkeypatch):
    q, n = vectors(3, queries=90, pool=5000)
    whole = negative_sums(q, n)
    monkeypatch.setattr(negative_tiles, "_BLOCK_QUERIES", 7)
    monkeypatch.setattr(negative_tiles, "_MOST_TILE", 64)
    monkeypatch.setattr(module, "_LEAST_QUERIES", 1)
    monkeypatch.setattr(module, "allowed_threads", lambda: 3)
    parts = negative_sums(q, n)
    np.testing.assert_allclose(parts.log_mean, whole.log_mean, atol=1e-5)
    np.testing.assert_allclose(parts.left_out, whole.left_out, rtol=2e-3)


@pytest.mark.parametrize("where", ["first", "last"])
def test_scores_of_thousands_stay_finite_wherever_the_largest_lies(where):
    n = np.zeros((5000, 2), dtype=np.float32)
    n[0 if where == "first" else -1] = (400.0, 0.0)
    n[2500] = (-400.0, 0.0)
    found, _ = check_against_matrix(np.array([[10.0, 0.0], [-10.0, 0.0]], dtype=np.float32), n, accuracy=1e-3)
    np.testing.assert_allclose(found.log_mean, 4000.0 - np.log(5000.0), rtol=1e-6)


@given(shift=st.floats(-50.0, 50.0), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_adding_to_all_scores_of_a_query_moves_its_log_mean_alone(shift, seed):
    q, n = vectors(seed, queries=4, pool=70)
    q, n = np.concatenate([q, np.full((4, 1), shift)], axis=1), np.concatenate([n, np.ones((70, 1))], axis=1)
    plain = np.concatenate([q[:, :-1], np.zeros((4, 1))], axis=1)
    moved, before = negative_sums(q, n), negative_sums(plain, n)
    np.testing.assert_allclose(moved.log_mean, before.log_mean + shift, atol=1e-4)
    np.testing.assert_allclose(moved.cv2, before.cv2, rtol=1e-3, atol=1e-3)


def test_what_cannot_be_summed_is_refused():
    q, n = vectors(4, queries=3, pool=5)
    with pytest.raises(InputError, match="expected rows of one width"):
        negative_sums(q, n[:, :3])
    with pytest.raises(InputError, match="and a candidate"):
        negative_sums(q, n[:0])
    bad = q.copy()
    bad[1, 0] = np.nan
    with pytest.raises(InputError, match="scores of query 1 are not all finite"):
        negative_sums(bad, n)
    with pytest.raises(InputError, match="query 2 has no negative"):
        negative_sums(q, n[:1], masked=(np.array([2]), np.array([0])))
