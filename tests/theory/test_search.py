"""Exact search: brute force, ties, signs, dtypes, tiles, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from normwise.core.errors import InputError
from normwise.theory import search
from normwise.theory.search import exact_top_k


def slow_top_k(queries, candidates, k, ranking):
    """Scores and rows by the definition, in float64, keys rounded to float32 and ties to the lower row."""
    rows, scores = [], []
    for q in queries.astype(np.float64):
        length = np.sqrt((q * q).sum())
        found = []
        for row, c in enumerate(candidates.astype(np.float64)):
            c_length = np.sqrt((c * c).sum())
            key = 0.0 if length == 0 else float((q * c).sum()) / length
            if ranking == "cosine":
                key = key / c_length if c_length > 0 else 0.0
            key = float(np.float32(key))
            found.append((-key, row, key if ranking == "cosine" else key * length))
        found.sort()
        rows.append([row for _, row, _ in found[:k]])
        scores.append([score for _, _, score in found[:k]])
    return np.array(rows).reshape(len(queries), -1), np.array(scores).reshape(len(queries), -1)


whole = st.integers(-3, 3).map(float)


@st.composite
def searches(draw):
    width = draw(st.integers(1, 5))
    queries = draw(arrays(np.float32, (draw(st.integers(1, 5)), width), elements=whole))
    candidates = draw(arrays(np.float32, (draw(st.integers(1, 60)), width), elements=whole))
    return queries, candidates, draw(st.integers(1, 70)), draw(st.integers(1, 40))


@given(searches())
def test_equals_brute_force_with_many_ties_zeros_and_negative_scores(case):
    queries, candidates, k, tile = case
    found = exact_top_k(queries, candidates, k=k, tile_rows=tile)
    for ranking, top in found.items():
        rows, scores = slow_top_k(queries, candidates, k, ranking)
        assert top.indices.tolist() == rows.tolist()
        assert top.scores == pytest.approx(scores, rel=1e-12, abs=0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float16, np.float32, np.float64]), st.integers(1, 30))
def test_equals_brute_force_on_random_vectors_of_every_dtype(seed, dtype, k):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(4, 24)).astype(dtype)
    candidates = (rng.normal(size=(150, 24)) * rng.lognormal(0, 2, size=(150, 1))).astype(dtype)
    for ranking, top in exact_top_k(queries, candidates, k=k, tile_rows=32).items():
        rows, scores = slow_top_k(queries, candidates, k, ranking)
        assert top.indices.tolist() == rows.tolist()
        assert top.scores == pytest.approx(scores, rel=1e-6)


def test_copies_of_one_vector_tie_at_any_distance_and_the_lower_rows_win():
    rng = np.random.default_rng(0)
    candidates = rng.normal(size=(5003, 385)).astype(np.float32)
    queries = rng.normal(size=(67, 385)).astype(np.float32)
    copies = np.array([3, 700, 1023, 1024, 2047, 2049, 3333, 4999, 5002])
    candidates[copies] = 3 * queries[5]
    found = exact_top_k(queries, candidates, k=4, tile_rows=1000)
    for top in found.values():
        assert top.indices[5].tolist() == copies[:4].tolist()
        assert len(set(top.scores[5].tolist())) == 1


def test_more_ties_at_the_last_place_than_the_list_can_hold():
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(3, 16)).astype(np.float32)
    queries[0] = -queries[1]
    candidates = np.tile(rng.normal(size=(1, 16)), (3000, 1)).astype(np.float32)
    candidates[2990] = queries[1] * 10
    found = exact_top_k(queries, candidates, k=5, tile_rows=256)
    for top in found.values():
        assert top.indices[0].tolist() == [0, 1, 2, 3, 4]
        assert top.indices[1].tolist() == [2990, 0, 1, 2, 3]


def test_nearly_equal_candidates_are_ordered_exactly():
    """Differences far below the rounding of a float32 product still decide."""
    rng = np.random.default_rng(3)
    queries = np.abs(rng.normal(size=(2, 256))).astype(np.float32)
    base = np.abs(rng.normal(size=256)).astype(np.float32)
    candidates = np.tile(base, (900, 1))
    for row in range(900):
        candidates[row, rng.integers(256)] *= np.float32(1 + rng.integers(-8, 8) * 2.0**-22)
    found = exact_top_k(queries, candidates, k=50, tile_rows=64)
    for ranking, top in found.items():
        assert top.indices.tolist() == slow_top_k(queries, candidates, 50, ranking)[0].tolist()


@pytest.mark.parametrize("tile", [1, 8, 100, 129, 2048])
def test_tiles_and_threads_change_nothing(tile, monkeypatch):
    rng = np.random.default_rng(2)
    queries, candidates = rng.normal(size=(200, 33)).astype(np.float32), rng.normal(size=(777, 33)).astype(np.float32)
    one = exact_top_k(queries, candidates, k=20)
    monkeypatch.setattr(search, "allowed_threads", lambda: 3)
    monkeypatch.setattr(search, "_BLOCK_VALUES", 4096)
    other = exact_top_k(queries, candidates, k=20, tile_rows=tile)
    for ranking, top in one.items():
        assert np.array_equal(top.indices, other[ranking].indices)
        assert np.array_equal(top.scores, other[ranking].scores)


@given(st.integers(0, 2**32 - 1))
def test_a_querys_norm_changes_no_ranking(seed):
    rng = np.random.default_rng(seed)
    queries, candidates = rng.normal(size=(3, 8)), rng.normal(size=(40, 8))
    scaled = queries * np.array([[1e-20], [1.0], [1e20]])
    for ranking, top in exact_top_k(scaled, candidates, k=7).items():
        assert np.array_equal(top.indices, exact_top_k(queries, candidates, k=7)[ranking].indices)


def test_memory_maps_are_read_in_place(tmp_path):
    rng = np.random.default_rng(0)
    candidates = rng.normal(size=(500, 12)).astype(np.float16)
    np.save(tmp_path / "c.npy", candidates)
    mapped = np.load(tmp_path / "c.npy", mmap_mode="r")
    queries = rng.normal(size=(5, 12)).astype(np.float32)
    expected = exact_top_k(queries, candidates, k=9)
    for ranking, top in exact_top_k(queries, mapped, k=9, tile_rows=64).items():
        assert np.array_equal(top.indices, expected[ranking].indices)


def test_zero_vectors_score_zero():
    queries, candidates = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    found = exact_top_k(queries, candidates, k=3)
    for top in found.values():
        assert top.indices.tolist() == [[0, 1, 2], [2, 1, 0]]
        assert top.scores[0].tolist() == [0, 0, 0]
        assert top.scores[1, 1] == 0
        assert top.scores[1, 2] < 0


def test_one_huge_candidate_does_not_disturb_the_others():
    rng = np.random.default_rng(5)
    queries, candidates = rng.normal(size=(20, 64)).astype(np.float32), rng.normal(size=(600, 64)).astype(np.float32)
    candidates[411] *= 1e12
    for ranking, top in exact_top_k(queries, candidates, k=10, tile_rows=100).items():
        assert top.indices.tolist() == slow_top_k(queries, candidates, 10, ranking)[0].tolist()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scores_do_not_leave_float64(scale):
    x = np.eye(3, dtype=np.float32) * np.float32(scale)
    top = exact_top_k(x, x, k=1)["dot"]
    assert top.indices[:, 0].tolist() == [0, 1, 2]
    assert top.scores[:, 0] == pytest.approx(scale**2, rel=1e-6)


def test_k_above_n_gives_n_and_no_query_gives_no_row():
    candidates = np.eye(3)
    assert exact_top_k(candidates, candidates, k=9)["dot"].indices.shape == (3, 3)
    assert exact_top_k(np.empty((0, 3)), candidates, k=2)["cosine"].indices.shape == (0, 2)


@pytest.mark.parametrize(
    ("queries", "candidates", "options", "message"),
    [
        (np.ones((1, 3)), np.ones((2, 4)), {}, "queries have 3 dimensions, candidates 4"),
        (np.ones((1, 3)), np.ones((0, 3)), {}, r"candidates have shape \(0, 3\)"),
        (np.ones((1, 3)), np.ones((2, 3)), {"k": 0}, "k is 0"),
        (np.ones((1, 3)), np.ones((2, 3)), {"rankings": ("l2",)}, "expected some of"),
        (np.ones((1, 3)), np.ones((2, 3)), {"rankings": ()}, "expected some of"),
        (np.ones((1, 3)), np.ones((2, 3)), {"tile_rows": 0}, "tile_rows is 0"),
        (np.array([[1.0, np.nan]]), np.ones((2, 2)), {}, "queries: row 0, column 1 is nan"),
        (np.ones((1, 2)), np.array([[1.0, 1.0], [-np.inf, 1.0]]), {}, "candidates: row 1, column 0 is -inf"),
        (np.ones((1, 2)), np.array([[1.0, 1.0], [1e38, 1.0]]), {}, "candidates: row 1 has norm 1e.38"),
        (np.full((1, 2), 1e-40), np.ones((2, 2)), {}, "queries: row 0 has norm 1.41e-40"),
    ],
)
def test_refusals(queries, candidates, options, message):
    with pytest.raises(InputError, match=message):
        exact_top_k(queries, candidates, **({"k": 1} | options))
