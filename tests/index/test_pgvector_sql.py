"""Names, signs, plans and limits of the SQL, on a real server."""

import numpy as np
import pytest
from contract import all_scores, mixed, names
from psycopg import sql

from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.core.similarity import Similarity
from normwise.index.build import build_index
from normwise.index.opening import open_index
from normwise.index.pgvector_sql import Layout, check_dimensions, check_name, search_statement, settings_for
from normwise.index.row_hashes import row_hashes, sum_hashes

NAMES = [
    'docs"; DROP TABLE victim; --',
    "it's",
    "two words",
    "a%sb %(x)s 100% %%",
    "{} {0} {x}",
    "Größe ü",
    "\\",
    "select",
    "x" * 63,
]


@pytest.fixture
def make(postgres, tmp_path):
    made = []

    def make(name, *, similarity="dot", vectors=None, ids=None, overwrite=False, folder=None, contents=None, **settings):
        vectors = mixed(30, 4, seed=1) if vectors is None else vectors
        config = IndexConfig(similarity=similarity, engine="pgvector", url=postgres.url, name=name, **settings)
        folder = tmp_path / f"index{len(made)}" if folder is None else folder
        made.append(build_index(config, folder, ids=ids or names(len(vectors)), vectors=vectors, overwrite=overwrite, **(contents or {})))
        return made[-1]

    yield make
    for index in made:
        index.close()


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_quoted_and_never_spliced(make, run_sql, name):
    run_sql("CREATE TABLE IF NOT EXISTS victim (x int)")
    index = make(name, method="hnsw", links=4, construction_effort=20, contents={"metadata": [{"k'\"%s": "%s'); --"}] * 30})
    assert run_sql("SELECT count(*) FROM pg_class WHERE relname = %s AND relkind = 'r'", name) == [(1,)]
    assert run_sql("SELECT count(*) FROM victim") == [(0,)]
    index.add(["%s'; DROP TABLE victim; --"], np.full((1, 4), 9.0, dtype=np.float32), metadata=[{"k'\"%s": "other"}])
    found = index.search(np.ones((1, 4)), k=2, where={"k'\"%s": "other"})
    assert found.ids[0, 0] == "%s'; DROP TABLE victim; --"
    index.delete(["%s'; DROP TABLE victim; --", "d3"])
    assert len(index) == 29
    make(name, overwrite=True)
    assert run_sql("SELECT count(*) FROM victim") == [(0,)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 64, "name has 64 bytes; PostgreSQL keeps 1 to 63"),
        ("ü" * 32, "name has 64 bytes"),
        ("", "name has 0 bytes"),
        ("a\0b", "name holds a NUL"),
        ("\ud800", "no valid Unicode"),
        ("normwise_indexes", "one that normwise uses itself"),
        ("normwise_load_x", "one that normwise uses itself"),
    ],
)
def test_names_that_cannot_be(name, message):
    with pytest.raises(InputError, match=message):
        check_name(name)


def test_a_table_of_somebody_else_is_never_replaced(make, run_sql, table_name):
    run_sql(sql.SQL("CREATE TABLE {} (x int)").format(sql.Identifier(table_name)))
    for overwrite in (False, True):
        with pytest.raises(InputError, match="that is no index of normwise: choose another name; no flag replaces such a table"):
            make(table_name, overwrite=overwrite)
    assert run_sql(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table_name))) == [(0,)]


def test_another_index_is_replaced_only_when_told_to(make, table_name):
    make(table_name)
    with pytest.raises(
        InputError, match="belongs to the index that was built at .* UTC: open the folder of that build, choose another name"
    ):
        make(table_name, vectors=mixed(31, 4, seed=2))
    assert len(make(table_name, vectors=mixed(31, 4, seed=2), overwrite=True)) == 31


@pytest.mark.parametrize("settings", [{}, {"method": "hnsw", "links": 4, "construction_effort": 20}], ids=["exact", "hnsw"])
def test_the_operator_is_the_negative_inner_product_and_is_read_so(make, run_sql, table_name, settings):
    assert run_sql("SELECT '[1,2]'::vector <#> '[3,4]'::vector") == [(-11.0,)]
    vectors = np.array([[1, 0], [5, 0], [-3, 0], [0, 2]], dtype=np.float32)
    index = make(table_name, vectors=vectors, **settings)
    assert index.manifest.method == settings.get("method", "exact")
    found = index.search(np.array([[2.0, 0.0]]), k=4)
    assert found.ids.tolist() == [["d1", "d0", "d3", "d2"]]
    assert found.scores.tolist() == [[10.0, 2.0, 0.0, -6.0]]
    assert not np.signbit(found.scores[0, 2])


def test_raw_norms_are_stored_as_they_came(make, run_sql, table_name):
    vectors = mixed(30, 4, seed=3).astype(np.float64) * 1e-3
    make(table_name, similarity="cosine", vectors=vectors)
    rows = run_sql(sql.SQL("SELECT norm, vector_norm(vector) FROM {} ORDER BY position").format(sql.Identifier(table_name)))
    norms, stored = np.array(rows).T
    assert np.allclose(norms, np.linalg.norm(vectors, axis=1), rtol=1e-15)
    assert np.allclose(stored, 1.0, atol=1e-6)


def test_exact_search_uses_no_index_even_where_somebody_added_one(make, run_sql, table_name):
    vectors, queries = mixed(600, 8, seed=4), mixed(25, 8, seed=5)
    index = make(table_name, vectors=vectors)
    run_sql(
        sql.SQL("CREATE INDEX ON {} USING hnsw (vector vector_ip_ops) WITH (m = 2, ef_construction = 4)").format(sql.Identifier(table_name))
    )
    run_sql(sql.SQL("ANALYZE {}").format(sql.Identifier(table_name)))
    found = index.search(queries, k=10)
    assert np.allclose(found.scores, np.sort(all_scores(queries, vectors, Similarity.DOT), axis=1)[:, ::-1][:, :10], rtol=1e-5)
    assert "hnsw" not in plan(index, queries, exact=True)


@pytest.mark.parametrize(("method", "similarity"), [("hnsw", "cosine"), ("ivf", "cosine"), ("hnsw", "dot")])
def test_approximate_search_walks_its_graph(make, run_sql, table_name, method, similarity):
    settings = {"lists": 8} if method == "ivf" else {"links": 4, "construction_effort": 40}
    vectors = mixed(800, 8, seed=6)
    index = make(table_name, similarity=similarity, vectors=vectors, method=method, target_recall=0.5, **settings)
    assert index.manifest.method == method
    assert "Index Scan" in plan(index, mixed(2, 8, seed=7), exact=False)
    kept = run_sql("SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexdef ~ 'USING (hnsw|ivfflat)'", table_name)
    assert len(kept) == 1
    assert {row.graph for row in index.manifest.tried} == ({"directions"} if similarity == "cosine" else {"inner product", "augmented"})
    assert index.manifest.recall >= 0.5


def plan(index, queries, *, exact):
    from pgvector import Vector

    with index._server.transaction("while testing") as connection:
        layout = index._layout(index._entry(connection))
        for name, value in settings_for(layout, exact=exact, filtered=False, effort=4, k=3).items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        statement = sql.SQL("EXPLAIN {}").format(search_statement(layout, exact=exact, filtered=False))
        rows = connection.execute(statement, ([Vector(row) for row in queries.astype(np.float32)], 3)).fetchall()
    return " ".join(row[0] for row in rows)


def test_a_target_that_no_effort_reaches_ends_in_exact_search(make, table_name):
    index = make(table_name, vectors=mixed(400, 24, seed=8), method="ivf", lists=40, target_recall=1.0)
    manifest = index.manifest
    assert manifest.method == "exact"
    assert manifest.recall == 1.0
    assert manifest.search_kind == "exact"
    assert "none reached the target, so the index is exact" in manifest.words
    assert {row.graph for row in manifest.tried} == {"inner product", "augmented", "exact over inner product"}


def test_more_hits_than_a_graph_gives_are_completed(make, postgres, tmp_path, table_name):
    vectors = mixed(1500, 4, seed=9)
    settings = {"method": "hnsw", "links": 4, "construction_effort": 20, "target_recall": 0.5}
    make(table_name, vectors=vectors, similarity="cosine", folder=tmp_path / "kept", **settings)
    # As a graph of millions, whose scan stops before it has seen everything.
    index = open_index(tmp_path / "kept", url=f"{postgres.url}&options=-c%20hnsw.max_scan_tuples%3D1")
    assert index.manifest.method == "hnsw"
    found = index.search(mixed(2, 4, seed=10), k=1400)
    assert found.counts.tolist() == [1400, 1400]
    assert all(len(set(row)) == 1400 for row in found.ids)
    index.close()


def test_ties_that_float32_does_not_see_come_in_the_order_of_addition(make, table_name):
    rng = np.random.default_rng(16)
    vectors = np.array([rng.permutation(mixed(1, 64, seed=17)[0]) for _ in range(80)])
    found = make(table_name, vectors=vectors).search(np.ones((1, 64)), k=10)
    assert found.ids[0].tolist() == names(10)
    assert len(set(found.scores[0])) == 1


def test_an_added_norm_beyond_the_radius_of_the_augmented_graph_builds_it_anew(make, table_name, monkeypatch):
    monkeypatch.setattr("normwise.index.pgvector_build._GRAPHS", ("augmented",))
    vectors = mixed(400, 6, seed=11, spread=0.05)
    index = make(table_name, vectors=vectors, method="hnsw", links=6, construction_effort=40, target_recall=0.5)
    assert index.manifest.graph == "augmented"
    large = 30 * mixed(5, 6, seed=12)
    index.add([f"large{row}" for row in range(5)], large)
    found = index.search(large, k=1)
    best = all_scores(large, np.vstack([vectors, large]), Similarity.DOT).max(axis=1)
    assert np.allclose(found.scores[:, 0], best, rtol=1e-5)
    assert "Index Scan" in plan(index, large, exact=False)


@pytest.mark.parametrize(
    ("dimensions", "method", "augmented", "message"),
    [
        (16_001, "exact", False, "pgvector stores at most 16,000: choose engine faiss or qdrant"),
        (2_001, "hnsw", False, "pgvector's hnsw takes at most 2,000: choose method exact"),
        (2_000, "ivf", True, "at most 2,000 with the one that it adds: choose method exact"),
    ],
)
def test_widths_beyond_pgvector_name_the_way_out(dimensions, method, augmented, message):
    with pytest.raises(InputError, match=message):
        check_dimensions(dimensions, method, augmented=augmented)
    check_dimensions(dimensions - 1, method, augmented=augmented)


def test_the_widest_indexed_vectors_are_taken_by_the_server(make, table_name):
    index = make(table_name, vectors=mixed(5, 2000, seed=13), similarity="cosine", method="hnsw", links=4, construction_effort=20)
    assert index.manifest.method == "hnsw"


def test_too_little_construction_effort_is_refused_before_the_load(make, table_name):
    with pytest.raises(InputError, match="construction_effort of at least twice the links"):
        make(table_name, method="hnsw", links=30, construction_effort=40)


def test_a_table_changed_behind_our_back_is_refused(make, run_sql, tmp_path, table_name):
    make(table_name, folder=tmp_path / "kept")
    run_sql(sql.SQL("DELETE FROM {} WHERE id = 'd3'").format(sql.Identifier(table_name)))
    with pytest.raises(WorkError, match="has 29 rows and should have 30: something else than normwise changed it"):
        open_index(tmp_path / "kept")
    run_sql(sql.SQL("DROP TABLE {}").format(sql.Identifier(table_name)))
    with pytest.raises(WorkError, match="is gone, though the register names it"):
        open_index(tmp_path / "kept")
    run_sql("DELETE FROM normwise_indexes WHERE name = %s", table_name)
    with pytest.raises(InputError, match="holds no index named"):
        open_index(tmp_path / "kept")


def test_an_index_rebuilt_by_somebody_else_is_noticed_in_the_next_search(make, tmp_path, table_name):
    index = make(table_name, folder=tmp_path / "old")
    make(table_name, vectors=mixed(30, 4, seed=14), overwrite=True, folder=tmp_path / "new")
    for act in (lambda: index.search(np.ones((1, 4)), k=1), lambda: open_index(tmp_path / "old")):
        with pytest.raises(WorkError, match="was built anew at .* UTC: open the folder"):
            act()


def test_additions_of_others_are_seen(make, tmp_path, table_name):
    index = make(table_name, folder=tmp_path / "one")
    other = open_index(tmp_path / "one")
    other.add(["big"], np.full((1, 4), 50.0))
    other.close()
    assert index.search(np.ones((1, 4)), k=1).ids.tolist() == [["big"]]
    assert len(index) == 31
    assert index.manifest.corpus_vectors == other.manifest.corpus_vectors


def test_row_hashes_add_up_to_the_hash_of_the_corpus():
    vectors = mixed(9, 5, seed=15)
    vectors[2, 1] = -0.0
    plain = (vectors + 0.0).astype("<f4")
    whole = contents_hash((name, row.tobytes()) for name, row in zip(names(9), plain, strict=True))
    assert sum_hashes(row.tobytes() for row in row_hashes(names(9), vectors)) == whole


def test_a_layout_of_directions_has_keys_up_to_one():
    assert Layout("t", 2, graph="directions", largest_norm=7.0).largest_key == 1.0
    assert Layout("t", 2, largest_norm=7.0).largest_key == 7.0
