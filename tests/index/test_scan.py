"""The exhaustive search of virtual vectors: equal to exact search, down to ties, whatever a first search found."""

import numpy as np
import pytest
from contract import mixed
from hypothesis import given
from hypothesis import strategies as st

from normwise.index import scan
from normwise.index.faiss_flat import FlatStore
from normwise.index.store import best
from normwise.theory.directions import normalize
from normwise.theory.search import exact_top_k


class Held:
    """A source in memory that counts how often its rows are read in bulk."""

    def __init__(self, vectors):
        self.vectors, self.passes = vectors, 0

    def __len__(self):
        return len(self.vectors)

    @property
    def largest(self):
        return float(np.linalg.norm(self.vectors.astype(np.float64), axis=1).max()) * (1 + 1e-9)

    def take(self, rows):
        self.passes += isinstance(rows, slice) and rows.start == 0
        return self.vectors[rows]


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12), st.booleans(), st.booleans())
def test_it_is_exact_search(seed, count, k, coarse, hub):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, size=(count, 3)).astype(np.float32) if coarse else mixed(count, 3, seed=seed)
    if hub:
        vectors[rng.integers(count)] *= np.float32(1e6)
    queries = mixed(7, 3, seed=seed + 1)
    queries[3] = 0.0
    exact = exact_top_k(queries, vectors, k=k, rankings=["dot"])["dot"]
    directions = normalize(queries.astype(np.float64))
    for source in (Held(vectors), FlatStore.build(vectors)):
        rows, keys = (
            scan.top_of(source, directions, k=min(k, count))
            if isinstance(source, Held)
            else best(source, directions, k=min(k, count), rows=None)
        )
        assert np.array_equal(rows, exact.indices)
        assert np.allclose(keys * np.linalg.norm(queries.astype(np.float64), axis=1)[:, None], exact.scores, rtol=2.0**-23, atol=0)


def test_small_tiles_change_nothing(monkeypatch):
    vectors, directions = mixed(200, 4, seed=1), normalize(mixed(5, 4, seed=2).astype(np.float64))
    vectors[50:90] = vectors[50]
    whole = scan.top_of(Held(vectors), directions, k=20)
    monkeypatch.setattr(scan, "_TILE_VALUES", 4 * 7)
    monkeypatch.setattr(scan, "_GATHER_VALUES", 4 * 5)
    monkeypatch.setattr(scan, "_TOGETHER", 2)
    for one, other in zip(whole, scan.top_of(Held(vectors), directions, k=20), strict=True):
        assert np.array_equal(one, other)


def test_chosen_rows_only():
    vectors, directions = mixed(100, 4, seed=3), normalize(mixed(5, 4, seed=4).astype(np.float64))
    rows = np.array([2, 3, 5, 8, 13, 21, 34, 55, 89])
    found, keys = scan.top_of(Held(vectors), directions, k=4, rows=rows)
    exact = exact_top_k(directions, vectors[rows], k=4, rankings=["dot"])["dot"]
    assert np.array_equal(found, rows[exact.indices])
    assert np.allclose(keys, exact.scores, rtol=1e-6)


@pytest.mark.parametrize("copies", [0, 40])
def test_a_second_pass_only_where_the_last_place_is_open(copies):
    vectors, directions = mixed(400, 16, seed=5), normalize(mixed(1, 16, seed=6).astype(np.float64))
    source = Held(vectors)
    order = np.argsort(-(vectors @ directions[0]))
    vectors[order[10 : 10 + copies]] = vectors[order[10]]
    scan.top_of(source, directions, k=12)
    assert source.passes == (2 if copies else 1)
