"""Weighted search: a full sort as oracle, identities with the plain search, ties, tiles, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory import weighted_search
from normwise.theory.search import exact_top_k
from normwise.theory.weighted_search import weighted_top_k


def slow(queries, candidates, logs, scorings, k):
    """Every key by its equation, sorted; ties to the lower row."""
    found = []
    for row, beta in scorings:
        answers = []
        for q in queries:
            keys = []
            for c, log in zip(candidates, logs[row], strict=True):
                lengths = np.linalg.norm(q) * np.linalg.norm(c)
                keys.append(0.0 if lengths == 0 else float(q @ c) / lengths * np.exp(beta * log))
            answers.append(sorted(range(len(keys)), key=lambda i, keys=keys: (-keys[i], i))[:k])
        found.append(answers)
    return found


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 40), st.integers(1, 12))
def test_equals_a_full_sort(seed, queries, count, k):
    rng = np.random.default_rng(seed)
    q, c = rng.normal(size=(queries, 5)), rng.normal(size=(count, 5)) * rng.lognormal(size=(count, 1))
    logs = np.stack([np.log(np.linalg.norm(c, axis=1)), rng.normal(size=count)])
    scorings = [(0, 0.0), (0, 1.0), (1, -2.5), (1, 0.3), (0, -0.7)]
    found = weighted_top_k(q, c, logs, scorings, k=k, tile_rows=int(rng.integers(1, 50)))
    assert found.shape == (5, queries, min(k, count))
    assert found.tolist() == slow(q, c, logs, scorings, k)


def test_powers_zero_and_one_of_the_norm_are_cosine_and_dot():
    rng = np.random.default_rng(1)
    q = rng.normal(size=(60, 24)).astype(np.float32)
    c = (rng.normal(size=(3000, 24)) * rng.lognormal(size=(3000, 1))).astype(np.float32)
    logs = np.log(np.linalg.norm(c.astype(np.float64), axis=1))[None]
    found = weighted_top_k(q, c, logs, [(0, 0.0), (0, 1.0)], k=10)
    plain = exact_top_k(q, c, k=10)
    assert np.array_equal(found[0], plain["cosine"].indices)
    assert np.array_equal(found[1], plain["dot"].indices)


def test_equal_candidates_stand_in_the_order_of_rows_whatever_the_tiles():
    rng = np.random.default_rng(2)
    c = np.tile(rng.normal(size=(40, 8)), (5, 1))
    logs = np.tile(rng.normal(size=40), 5)[None]
    q = rng.normal(size=(7, 8))
    expected = slow(q, c, logs, [(0, 0.8)], 12)
    for tile in (1, 3, 17, 64, 200, 5000):
        assert weighted_top_k(q, c, logs, [(0, 0.8)], k=12, tile_rows=tile).tolist() == expected


def test_candidates_within_rounding_of_each_other_are_told_apart_under_large_weights():
    """A float32 product orders these by its errors; the bound must be that of the weighted key, whatever the weights."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=(12, 64))
    c = q.mean(axis=0) + 2e-7 * rng.normal(size=(2000, 64))
    logs = np.where(np.arange(2000) < 100, 0.0, 6.0)[None]
    unit_q, unit_c = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, c))
    keys = ((unit_q @ unit_c.T) * np.exp(logs - 6.0)).astype(np.float32)
    found = weighted_top_k(q, c, logs, [(0, 1.0)], k=5, tile_rows=128)[0]
    assert np.array_equal(found, np.argsort(-keys, axis=1, kind="stable")[:, :5])


def test_a_zero_candidate_scores_zero_and_its_weight_is_never_read():
    c = np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    logs = np.array([[50.0, 0.0, 0.0, 0.1]])
    assert weighted_top_k(np.array([[1.0, 0.0]]), c, logs, [(0, 1.0)], k=4).tolist() == [[[3, 0, 2, 1]]]
    assert weighted_top_k(np.zeros((1, 2)), c, logs, [(0, 1.0)], k=3).tolist() == [[[0, 1, 2]]]


def test_many_scorings_take_several_passes(monkeypatch):
    rng = np.random.default_rng(3)
    q, c = rng.normal(size=(5, 4)), rng.normal(size=(90, 4))
    logs, scorings = rng.normal(size=(2, 90)), [(row, beta) for row in (0, 1) for beta in (-1.0, 0.0, 0.5)]
    whole = weighted_top_k(q, c, logs, scorings, k=4)
    monkeypatch.setattr(weighted_search, "_HELD_VALUES", 200)
    assert np.array_equal(weighted_top_k(q, c, logs, scorings, k=4), whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.ones((1, 3))}, "queries have 3 dimensions, candidates 2"),
        ({"candidates": np.ones((0, 2)), "log_weights": np.ones((1, 0))}, r"candidates have shape \(0, 2\)"),
        ({"log_weights": np.ones((1, 4))}, "log_weights have 4 columns for 3 candidates"),
        ({"k": 0}, "k is 0 and tile_rows 2048"),
        ({"log_weights": np.array([[0.0, -np.inf, 1.0]])}, "prior 0 is -inf for candidate 1"),
        ({"scorings": [(1, 1.0)]}, "scorings name prior 1; expected 0 to 0"),
        ({"scorings": [(0, 100.0)]}, r"beta = 100.0 makes the weights of prior 0 span more than e\^60"),
        ({"scorings": [(0, np.nan)]}, "beta = nan"),
    ],
)
def test_refusals(change, message):
    call = {
        "queries": np.ones((1, 2)),
        "candidates": np.ones((3, 2)),
        "log_weights": np.array([[0.0, 1.0, 2.0]]),
        "scorings": [(0, 1.0)],
        "k": 1,
    }
    call |= change
    with pytest.raises(InputError, match=message):
        weighted_top_k(call["queries"], call["candidates"], call["log_weights"], call["scorings"], k=call["k"])
