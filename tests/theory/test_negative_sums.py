"""One pass over a pool leaves what the whole score matrix would: sums over sets, squares, and each negative left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.theory import negative_sums as module
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
    for k, means in found.sets.items():
        for at in range(means.shape[1]):
            part = scores[:, at * k : (at + 1) * k] if k < found.pool else scores
            there = np.isfinite(part).sum(axis=1)
            np.testing.assert_array_equal(np.isnan(means[:, at]), there == 0)
            some = there > 0
            expected = logsumexp(part[some], axis=1) - np.log(there[some])
            seen = expected - found.shift[some] > -80.0
            got = np.log(means[some, at][seen]) + found.shift[some][seen]
            np.testing.assert_allclose(got, expected[seen], atol=accuracy, rtol=accuracy)
    return found, scores


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


def test_blocks_tiles_and_threads_change_nothing_but_rounding(monkeypatch):
    q, n = vectors(3, queries=90, pool=5000)
    whole = negative_sums(q, n)
    monkeypatch.setattr(module, "_BLOCK_QUERIES", 7)
    monkeypatch.setattr(module, "_MOST_TILE", 64)
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
