"""Lists and graphs: measured against exact search, kept for what they measured, and what happens when much has changed."""

import numpy as np
import pytest
from contract import all_scores, mixed, names

from normwise.core.index_config import IndexConfig
from normwise.core.similarity import Similarity
from normwise.index import faiss_build
from normwise.index.approximate import augmented
from normwise.index.build import build_index
from normwise.index.opening import open_index
from normwise.theory.search import exact_top_k

METHODS = [{"method": "hnsw", "links": 8, "construction_effort": 40}, {"method": "ivf"}]


def built(folder, vectors, *, queries=None, log=None, metadata=None, **settings):
    config = IndexConfig(**({"similarity": "dot"} | settings))
    return build_index(config, folder, ids=names(len(vectors)), vectors=vectors, queries=queries, log=log, metadata=metadata)


def grouped(count, width, *, seed):
    """Vectors around 40 fixed directions, with norms of spread .4: what lists are made for."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(77).normal(size=(40, width))
    x = centers[rng.integers(40, size=count)] + 0.4 * rng.normal(size=(count, width))
    return (x * np.exp(0.4 * rng.normal(size=(count, 1)))).astype(np.float32)


def recall(index, vectors, queries, *, k=10):
    ranking = Similarity(index.manifest.similarity).ranking.value
    best = exact_top_k(queries, vectors, k=k, rankings=[ranking])[ranking].indices
    found = index.search(queries, k=k).ids
    return np.mean([len({f"d{row}" for row in rows} & set(ids)) / k for rows, ids in zip(best, found, strict=True)])


def test_augmented_vectors_rank_by_distance_as_by_inner_product():
    vectors, queries = mixed(100, 5, seed=1), mixed(4, 5, seed=2)
    radius = float(np.linalg.norm(vectors, axis=1).max())
    longer = augmented(vectors, radius)
    assert np.allclose(np.linalg.norm(longer, axis=1), radius, rtol=1e-5)
    distances = ((np.pad(queries, ((0, 0), (0, 1)))[:, None] - longer) ** 2).sum(axis=2)
    wanted = (queries**2).sum(axis=1, keepdims=True) + radius**2 - 2 * queries @ vectors.T
    assert np.allclose(distances, wanted, atol=1e-4)
    assert augmented(vectors, 0.0) is vectors


@pytest.mark.parametrize("settings", METHODS)
def test_both_graphs_are_measured_under_dot_and_the_better_is_kept(tmp_path, settings):
    vectors, queries, told = grouped(3000, 16, seed=3), grouped(60, 16, seed=4), []
    index = built(tmp_path / "i", vectors, queries=queries, log=told.append, **settings)
    manifest = index.manifest
    by = {}
    for row in manifest.tried:
        by.setdefault(row.graph, []).append(row)
    assert set(by) == {"inner product", "augmented"}
    for rows in by.values():
        efforts = [next(iter(row.effort.values())) for row in rows]
        assert all(later <= 2 * earlier for earlier, later in zip(efforts, efforts[1:], strict=False))
        assert all(row.recall < 0.95 for row in rows[:-1])
    assert manifest.method == settings["method"]
    assert manifest.recall >= 0.95
    assert manifest.recall == by[manifest.graph][-1].recall
    reached = {graph: rows[-1].effort["vectors_compared"] for graph, rows in by.items() if rows[-1].recall >= 0.95}
    assert reached[manifest.graph] == min(reached.values())
    assert f"Kept {manifest.graph}." in manifest.words
    assert "60 real queries" in manifest.words
    assert told[-1] == manifest.words
    assert recall(index, vectors, grouped(100, 16, seed=5)) >= 0.9


@pytest.mark.parametrize("settings", METHODS)
def test_the_augmented_graph_answers_with_inner_products(tmp_path, monkeypatch, settings):
    graphs = faiss_build._graphs
    monkeypatch.setattr(faiss_build, "_graphs", lambda *arguments: graphs(*arguments)[1:])
    vectors, queries = mixed(500, 8, seed=6), mixed(9, 8, seed=7)
    index = built(tmp_path / "i", vectors, queries=queries, target_recall=0.8, **settings)
    assert index.manifest.graph == "augmented"
    assert recall(index, vectors, queries) >= 0.8
    for _ in range(2):
        found = index.search(queries, k=5)
        scores = all_scores(queries, vectors, Similarity.DOT)
        pairs = [[scores[row, int(name[1:])] for name in found.ids[row]] for row in range(9)]
        assert np.allclose(found.scores, pairs, rtol=1e-5)
        index.close()
        index = open_index(tmp_path / "i")
    assert index.radius == pytest.approx(np.linalg.norm(vectors, axis=1).max())
    # A vector beyond the radius: built again, around a larger one.
    long = vectors[:1] * np.float32(1.2 * index.radius / np.linalg.norm(vectors[0]))
    index.add(["long"], long)
    assert index.radius == pytest.approx(np.linalg.norm(long))
    assert index.search(long, k=1).ids.tolist() == [["long"]]
    assert len(index) == 501


def test_a_target_that_no_effort_reaches_becomes_exact_search_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(faiss_build, "_MOST_EFFORT", 16)
    vectors, queries = mixed(2000, 32, seed=8), mixed(40, 32, seed=9)
    index = built(tmp_path / "i", vectors, queries=queries, method="hnsw", links=2, construction_effort=4, target_recall=1.0)
    manifest = index.manifest
    assert manifest.method == "exact"
    assert manifest.search_kind == "exact"
    assert manifest.recall == 1.0
    assert [row.graph for row in manifest.tried] == ["inner product", "augmented", "exact over inner product"]
    assert "None reached the target 1: kept exact search" in manifest.words
    assert recall(index, vectors, mixed(20, 32, seed=10)) == 1.0
    assert recall(open_index(tmp_path / "i"), vectors, mixed(20, 32, seed=10)) == 1.0


def test_without_queries_the_manifest_says_what_stood_in(tmp_path):
    manifest = built(tmp_path / "i", mixed(500, 8, seed=11), method="hnsw", similarity="cosine").manifest
    assert manifest.recall_source == "candidates"
    assert manifest.graph == "directions"
    assert "candidates with noise of half their length, since no query was given" in manifest.words
    assert {row.graph for row in manifest.tried} == {"directions"}


@pytest.mark.parametrize("settings", METHODS)
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_the_dead_are_never_found_and_a_fifth_of_them_builds_anew(tmp_path, settings, similarity):
    vectors, queries = mixed(2600, 8, seed=12), mixed(40, 8, seed=13)
    index = built(tmp_path / "i", vectors, queries=queries, similarity=similarity, **settings)
    first = index._store
    gone = sorted({name for row in index.search(queries, k=5).ids for name in row})
    kept = np.array([row for row, name in enumerate(names(2600)) if name not in set(gone)])
    index.delete(gone)
    assert index._store is first
    assert index.manifest.words.endswith(f"Since then 0 came and {len(gone)} went.")
    # Those that left are the very best ones: saving measures again, and raises the effort where it must.
    ranking = Similarity(similarity).ranking.value
    floor = exact_top_k(queries, vectors[kept], k=10, rankings=[ranking])[ranking].scores[:, -1:]
    for least in (0.8, 0.95):
        found = index.search(queries, k=10)
        assert not set(gone) & set(found.ids.ravel())
        assert (found.counts == 10).all()
        assert (found.scores >= floor - 1e-5).mean() >= least
        index.save()
        assert index.manifest.recall >= 0.95
        assert index.manifest.words.endswith("Measured again after changes.")
        index = open_index(tmp_path / "i")
    more = [f"d{row}" for row in kept[:600]]
    before = index._store
    index.delete(more)
    assert (index._store is not before) == (settings["method"] == "hnsw")
    assert not index._store.stale()
    assert "Since then" not in index.manifest.words
    assert index.manifest.candidates == len(index) == 2600 - len(gone) - 600
    found = index.search(queries, k=10)
    assert not (set(gone) | set(more)) & set(found.ids.ravel())
    assert index.manifest.recall >= 0.95


@pytest.mark.parametrize("settings", METHODS)
def test_filters_that_leave_many_use_the_structure_and_find_only_what_they_should(tmp_path, settings):
    vectors, queries = mixed(4200, 8, seed=14), mixed(30, 8, seed=15)
    rows = [{"kind": "many" if row % 10 else "few"} for row in range(4200)]
    index = built(tmp_path / "i", vectors, queries=queries, metadata=rows, **settings)
    for kind, exact in (("many", False), ("few", True)):
        kept = np.array([row for row in range(4200) if rows[row]["kind"] == kind])
        found = index.search(queries, k=10, where={"kind": kind})
        assert {rows[int(name[1:])]["kind"] for name in found.ids.ravel()} == {kind}
        floor = exact_top_k(queries, vectors[kept], k=10, rankings=["dot"])["dot"].scores[:, -1:]
        share = (found.scores >= floor - 1e-5).mean()
        assert share == 1.0 if exact else share >= 0.9


@pytest.mark.parametrize("settings", METHODS)
def test_the_measure_is_of_the_structure_alone(tmp_path, settings):
    """Exhaustive search fills short lists for users; in a measurement it would make every effort look perfect."""
    vectors = grouped(600, 8, seed=20)
    index = built(tmp_path / "i", vectors, queries=vectors[:5], recall_k=200, target_recall=0.2, **settings)
    store = index._store
    directions = vectors[:5].astype(np.float64) / np.linalg.norm(vectors[:5], axis=1, keepdims=True)
    store.effort = 1
    store.counters.reset()
    found, keys = store.nearest(directions, k=600)
    assert 0 < store.counters.ndis <= 5 * 650
    if settings["method"] == "ivf":
        assert (found[:, -1] == -1).all()
        assert (keys[:, -1] == -np.inf).all()
        row = faiss_build._measured_effort(store, index._test(vectors), graph="g", effort={"probes": 1}, log=lambda _: None)
        assert row.effort["vectors_compared"] < 150
        assert row.recall == pytest.approx(row.effort["vectors_compared"] / 200, abs=0.25)
    assert (store.search(directions, k=600, rows=None)[0] >= 0).all()


@pytest.mark.parametrize("settings", METHODS)
def test_more_hits_than_the_structure_finds_are_searched_exactly(tmp_path, settings):
    vectors, queries = mixed(400, 8, seed=16), mixed(3, 8, seed=17)
    index = built(tmp_path / "i", vectors, queries=queries, **settings)
    found = index.search(queries, k=400)
    assert [set(row) for row in found.ids] == [set(names(400))] * 3


@pytest.mark.parametrize("settings", METHODS)
def test_additions_are_found_at_once_and_a_fifth_of_them_is_measured(tmp_path, settings):
    vectors, queries = grouped(1000, 8, seed=18), grouped(40, 8, seed=19)
    index = built(tmp_path / "i", vectors[:700], queries=queries, **settings)
    index.add(names(50, first=700), vectors[700:750])
    found = index.search(vectors[700:750] / np.linalg.norm(vectors[700:750], axis=1, keepdims=True) ** 2, k=750)
    assert all(f"d{row}" in set(ids) for row, ids in zip(range(700, 750), found.ids, strict=True))
    assert index.manifest.words.endswith("Since then 50 came and 0 went.")
    index.add(names(250, first=750), vectors[750:])
    assert index.manifest.words.endswith(("Measured again after changes.", "Kept inner product.", "Kept augmented."))
    assert index.manifest.recall_queries == 40
    assert index.manifest.recall >= 0.95
    assert recall(index, vectors, queries) >= 0.95


@pytest.mark.parametrize("method", ["ivf", "hnsw"])
def test_norms_whose_squares_overflow_are_searched_exactly(tmp_path, method):
    vectors = mixed(20, 5, seed=3)
    vectors[4] *= np.float32(1e35)
    manifest = built(tmp_path / "i", vectors, method=method).manifest
    assert (manifest.method, manifest.recall) == ("exact", 1.0)
    assert "Kept exact search, since norms reach" in manifest.words
    assert built(tmp_path / "j", vectors, method=method, similarity="cosine").manifest.method == method


@pytest.mark.parametrize("method", ["ivf", "hnsw"])
def test_an_index_that_grew_from_one_vector_says_on_what_it_was_measured(tmp_path, method):
    vectors = mixed(120, 6, seed=5)
    index = built(tmp_path / "i", vectors[:1], method=method)
    index.add([f"new{row}" for row in range(119)], vectors[1:])
    manifest = index.manifest
    assert (manifest.recall_k, manifest.recall_queries, manifest.recall_source) == (10, 120, "candidates")
    assert "recall@10 on 120 candidates with noise" in manifest.words
    assert "real queries" not in manifest.words


@pytest.mark.parametrize("storage", ["int8", "pq", "binary"])
def test_the_recall_of_codes_is_not_claimed_after_more_than_a_fifth_changed(tmp_path, storage):
    vectors = mixed(60, 6, seed=6)
    index = built(tmp_path / "i", vectors[:50], storage=storage)
    measured = index.manifest.recall
    index.add([f"new{row}" for row in range(10)], vectors[50:])
    assert index.manifest.recall == measured
    index.delete(["new0", "new1", "new2"])
    assert index.manifest.recall is None
    assert "The recall of so changed a" in index.manifest.words
    index.save()
    assert open_index(tmp_path / "i").manifest == index.manifest
