"""Building and changing an index of bare vectors: what is kept, what is measured, what is refused before any work."""

import json
import socket
from contextlib import closing

import numpy as np
import pytest

from normwise import build_index
from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.core.search_records import IndexReport
from normwise.index.opening import open_index
from normwise.workflows import build_index as module
from normwise.workflows import change_index
from normwise.workflows.change_index import add_to_index, delete_from_index, index_info
from search_material import ROWS, WIDTH, mixed_vectors, save_encoder, write_corpus


def test_row_numbers_name_vectors_and_norms_are_raw(tmp_path):
    vectors = mixed_vectors()
    report = build_index(tmp_path / "index", vectors=vectors, similarity="dot")
    assert (report.candidates, report.changed, report.manifest.recall) == (ROWS, 0, 1.0)
    found = open_index(tmp_path / "index").search(vectors[:3], k=ROWS)
    scores = vectors[:3].astype(np.float64) @ vectors.T.astype(np.float64)
    for row in range(3):
        rows = [int(name) for name in found.ids[row]]
        assert sorted(rows) == list(range(ROWS))
        np.testing.assert_allclose(found.scores[row], scores[row, rows], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.norms[row], np.linalg.norm(vectors[rows], axis=1), rtol=1e-6)


def test_ids_texts_and_metadata_come_from_data(tmp_path):
    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"even": row % 2 == 0}})
    vectors = mixed_vectors(27)
    build_index(tmp_path / "index", vectors=vectors, data=corpus, similarity="cosine")
    index = open_index(tmp_path / "index")
    assert index.manifest.metadata_keys == ("even",)
    assert index.texts(["d4"]) == ["red dog sleeps"]
    assert set(index.search(vectors[:1], k=27, where={"even": True}).ids[0]) - {None} == {f"d{row}" for row in range(0, 27, 2)}


def test_ids_may_come_as_a_list_or_a_file(tmp_path):
    names = [f"n{row}" for row in range(ROWS)]
    (tmp_path / "ids.txt").write_text("\n".join(names))
    np.save(tmp_path / "d.npy", mixed_vectors())
    one = build_index(tmp_path / "one", vectors=mixed_vectors(), ids=names, similarity="dot")
    two = build_index(tmp_path / "two", vectors=tmp_path / "d.npy", ids=tmp_path / "ids.txt", similarity="dot")
    assert one.manifest.corpus_vectors == two.manifest.corpus_vectors


def test_the_self_test_uses_the_queries_that_are_given(tmp_path):
    report = build_index(tmp_path / "index", vectors=mixed_vectors(), queries=mixed_vectors(7, seed=1), similarity="dot", method="hnsw")
    assert (report.manifest.recall_queries, report.manifest.recall_source) == (7, "queries")
    made = build_index(tmp_path / "made", vectors=mixed_vectors(), similarity="dot")
    assert made.manifest.recall_source == "candidates"


def test_bytes_per_vector_count_what_a_vector_takes(tmp_path):
    large = np.random.default_rng(0).normal(size=(2_000, 32)).astype(np.float32)
    whole = build_index(tmp_path / "whole", vectors=large, similarity="dot")
    small = build_index(tmp_path / "small", vectors=large, similarity="dot", storage="int8", norm_storage="float16")
    assert 32 * 4 + 4 <= whole.bytes_per_vector <= 32 * 4 + 4 + 1
    assert 32 + 2 <= small.bytes_per_vector <= 32 + 2 + 8
    assert IndexReport.from_json(small.to_json()) == small


def test_the_report_is_that_of_the_folder(tmp_path):
    built = build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    again = index_info(tmp_path / "index")
    assert again.manifest == built.manifest
    assert again.bytes_on_disk == sum(path.stat().st_size for path in (tmp_path / "index").iterdir())
    assert again.changed == 0


def test_an_index_is_replaced_on_request_and_nothing_else_ever(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    report = build_index(tmp_path / "index", vectors=mixed_vectors(5), similarity="dot", overwrite=True)
    assert report.candidates == 5
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is not an index of normwise: refusing to replace it"):
        build_index(home, vectors=mixed_vectors(), similarity="dot", overwrite=True)
    with pytest.raises(InputError, match="is not an index of normwise: refusing to replace it"):
        build_index(home / "letter.txt", vectors=mixed_vectors(), similarity="dot", overwrite=True)
    with pytest.raises(InputError, match="is no folder; choose another place"):
        build_index(home / "letter.txt" / "index", vectors=mixed_vectors(), similarity="dot")
    assert (home / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give model and data, or vectors and similarity"),
        ({"data": "python-docs"}, "give model and data, or vectors and similarity"),
        ({"vectors": np.eye(2), "similarity": "dot", "model": "m"}, "model encodes data, and vectors are there already"),
        ({"vectors": np.eye(2)}, "bare vectors do not tell how they are scored: give similarity"),
        ({"vectors": np.eye(2), "similarity": "dott"}, "similarity"),
        ({"vectors": np.eye(2), "similarity": "dot", "methd": "hnsw"}, "did you mean method"),
        ({"vectors": np.eye(2), "similarity": "dot", "ids": ["a"]}, "ids are 1, and vectors 2 rows"),
        ({"vectors": np.eye(2), "similarity": "dot", "ids": ["a", "a"]}, "row 1 is 'a', as row 0"),
        ({"vectors": np.ones(2), "similarity": "dot"}, r"of shape \(2,\); expected an array"),
        ({"vectors": [[1.0]], "similarity": "dot"}, "vectors are a list"),
        ({"vectors": np.array([[1.0, np.nan]]), "similarity": "dot"}, "row 0, column 1 is nan"),
        ({"vectors": np.eye(2), "similarity": "dot", "queries": ["a text"]}, "queries beside bare vectors are vectors too"),
        ({"vectors": np.eye(2), "similarity": "dot", "queries": np.eye(3)}, "queries have 3 dimensions, and the index has 2"),
        ({"model": "m", "data": "d", "ids": ["a"]}, "ids are of bare vectors"),
        ({"model": "m", "data": "d", "similarity": "dot"}, "similarity is the model's own"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path, arguments, words):
    with pytest.raises(InputError, match=words):
        build_index(tmp_path / "index", **arguments)
    assert not list(tmp_path.iterdir())


def test_data_with_another_number_of_rows_are_refused(tmp_path):
    corpus = write_corpus(tmp_path / "set")
    with pytest.raises(InputError, match="holds 27 documents, and vectors 5 rows"):
        build_index(tmp_path / "index", vectors=mixed_vectors(5), data=corpus, similarity="dot")


def test_an_engine_without_its_library_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'psycopg is not installed; run: pip install "normwise\[index\]"'):
        build_index(tmp_path / "index", vectors="gone.npy", similarity="dot", engine="pgvector", url="postgresql://x")


def test_adding_and_deleting_are_on_disk_and_the_corpus_hash_follows(tmp_path):
    vectors = mixed_vectors()
    whole = build_index(tmp_path / "whole", vectors=vectors, similarity="dot")
    build_index(tmp_path / "index", vectors=vectors[:30], similarity="dot")
    added = add_to_index(tmp_path / "index", vectors=vectors[30:], ids=[str(row) for row in range(30, ROWS)])
    assert (added.candidates, added.changed) == (ROWS, 10)
    assert added.manifest.corpus_vectors == whole.manifest.corpus_vectors
    assert index_info(tmp_path / "index").candidates == ROWS
    (tmp_path / "gone.txt").write_text("3\n4\n")
    deleted = delete_from_index(tmp_path / "index", tmp_path / "gone.txt")
    assert (deleted.candidates, deleted.changed) == (ROWS - 2, 2)
    found = open_index(tmp_path / "index").search(vectors[:2], k=ROWS)
    assert {"3", "4"}.isdisjoint(found.ids.ravel().tolist())
    assert index_info(tmp_path / "index").candidates == ROWS - 2


def test_a_change_keeps_the_calibration_in_the_folder(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    (tmp_path / "index" / "calibration.json").write_text("{}")
    delete_from_index(tmp_path / "index", ["3"])
    assert (tmp_path / "index" / "calibration.json").read_text() == "{}"


def test_bad_changes_change_nothing(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    before = (tmp_path / "index" / "index.json").read_bytes()
    refused = [
        ("which the index holds already", lambda: add_to_index(tmp_path / "index", vectors=mixed_vectors(1), ids=["3"])),
        ("vectors have 3 dimensions, and the index has 6", lambda: add_to_index(tmp_path / "index", vectors=np.eye(3))),
        ("nothing to add: give data, or vectors", lambda: add_to_index(tmp_path / "index")),
        ("which the index does not hold: nothing was deleted", lambda: delete_from_index(tmp_path / "index", ["3", "none"])),
        ("no ids came", lambda: delete_from_index(tmp_path / "index", [])),
        ("holds bare vectors, and no model is known", lambda: add_to_index(tmp_path / "index", data=write_corpus(tmp_path / "set"))),
    ]
    for words, change in refused:
        with pytest.raises(InputError, match=words):
            change()
    assert (tmp_path / "index" / "index.json").read_bytes() == before


def test_foreign_missing_and_broken_folders_are_told_apart(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        index_info(tmp_path / "gone")
    with pytest.raises(InputError, match="it is not an index of normwise"):
        index_info(tmp_path)
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    file = tmp_path / "index" / "vectors.faiss"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"vectors\.faiss is cut short or was changed"):
        index_info(tmp_path / "index")
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=r"vectors\.faiss is cut short or was changed"):
        index_info(tmp_path / "index")
    file.unlink()
    with pytest.raises(InputError, match=r"vectors\.faiss is missing"):
        index_info(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(InputError, match="is not the manifest of an index"):
        index_info(tmp_path / "index")


def test_width_is_that_of_the_vectors(tmp_path):
    assert build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot").manifest.dimensions == WIDTH


def test_the_current_folder_is_not_replaced_under_ones_feet(tmp_path, monkeypatch):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    monkeypatch.chdir(tmp_path / "index")
    changes = [
        lambda: delete_from_index(".", ["3"]),
        lambda: add_to_index(tmp_path / "index", vectors=mixed_vectors(1), ids=["new"]),
        lambda: build_index(".", vectors=mixed_vectors(), similarity="dot", overwrite=True),
    ]
    for change in changes:
        with pytest.raises(InputError, match="is the current folder or above it, and is replaced as a whole: go to another folder"):
            change()
    assert index_info(".").candidates == ROWS


def test_rows_are_refused_before_the_model_is_opened(tmp_path):
    folder = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"year": str(row) if row == 5 else row}})
    with pytest.raises(InputError, match=r"corpus\.jsonl: metadata: row 5, key 'year' is '5', a str, and row 0 has int"):
        build_index(tmp_path / "index", model=tmp_path / "no model", data=folder)


def test_known_ids_are_refused_before_anything_is_encoded(tmp_path, monkeypatch):
    folder, model = write_corpus(tmp_path / "set"), save_encoder(tmp_path / "model")
    build_index(tmp_path / "index", model=model, data=folder)
    monkeypatch.setattr(change_index, "encoded_rows", lambda *_, **__: pytest.fail("documents were encoded"))
    with pytest.raises(InputError, match=r"corpus\.jsonl: ids: row 0 is 'd0', which the index holds already"):
        add_to_index(tmp_path / "index", data=folder)


@pytest.fixture
def filtered(tmp_path):
    """An index of a model whose candidates have metadata; the model is gone."""
    folder = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"year": row, "lang": "de"}})
    build_index(tmp_path / "index", model=save_encoder(tmp_path / "model"), data=folder)
    (tmp_path / "model").rename(tmp_path / "gone")
    return tmp_path / "index"


def test_documents_without_metadata_are_refused_before_the_model_is_opened_with_the_way_out(filtered, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"_id": "n0", "text": "red cat"}\n{"_id": "n1", "text": "blue dog"}\n')
    told = (
        r"metadata are missing in .*new\.jsonl, and the candidates of the index have some \(lang, year\): give data like corpus\.jsonl, "
        r'with "metadata": \{"lang": \.\.\., "year": \.\.\.\} on each line; nothing was added'
    )
    with pytest.raises(InputError, match=told):
        add_to_index(filtered, data=tmp_path / "new.jsonl")


def test_the_way_out_for_documents_without_metadata_leads_out(filtered, tmp_path):
    lines = (f'{{"_id": "n{row}", "text": "red cat", "metadata": {{"lang": "en", "year": {row}}}}}\n' for row in range(2))
    (tmp_path / "new.jsonl").write_text("".join(lines))
    assert add_to_index(filtered, data=tmp_path / "new.jsonl", model=tmp_path / "gone").changed == 2


def test_vectors_for_an_index_with_texts_and_metadata_need_both(tmp_path):
    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"year": row}})
    build_index(tmp_path / "index", vectors=mixed_vectors(27), data=corpus, similarity="dot")
    with pytest.raises(InputError, match="keeps a text for every vector: give data too, a file like corpus.jsonl"):
        add_to_index(tmp_path / "index", vectors=mixed_vectors(1), ids=["new"])
    (tmp_path / "new.jsonl").write_text('{"_id": "n0", "text": "red cat"}\n')
    with pytest.raises(InputError, match=r"metadata are missing in .*new\.jsonl, .*\(year\): give data like corpus\.jsonl"):
        add_to_index(tmp_path / "index", vectors=mixed_vectors(1), data=tmp_path / "new.jsonl")


def test_metadata_for_an_index_without_are_left_out_and_that_is_said(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    new = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"year": row, "lang": "de"}} if row else {})
    report = add_to_index(tmp_path / "index", vectors=mixed_vectors(27), data=new)
    (note,) = report.notes
    assert note.startswith(f"metadata of {new} (lang, year) are left out, since the index was built without: build it again")
    assert report.manifest.metadata_keys == ()


def test_ids_are_those_of_a_corpus_never_its_texts(tmp_path):
    corpus = write_corpus(tmp_path / "set") / "corpus.jsonl"
    build_index(tmp_path / "index", vectors=mixed_vectors(27), ids=corpus, similarity="dot")
    with closing(open_index(tmp_path / "index")) as index:
        assert set(index.search(mixed_vectors(1), k=3).ids.ravel()) < {f"d{row}" for row in range(27)}
    (tmp_path / "odd.jsonl").write_text('{"key": "a", "text": "b"}\n')
    with pytest.raises(InputError, match=r"odd\.jsonl has no column _id or id; it has key, text: name the one with the ids so"):
        build_index(tmp_path / "other", vectors=mixed_vectors(1), ids=tmp_path / "odd.jsonl", similarity="dot")


@pytest.mark.parametrize(
    ("engine", "scheme", "words"),
    [("pgvector", "postgresql://me", "cannot connect to PostgreSQL at"), ("qdrant", "http://", "did not answer while looking for the")],
)
def test_a_server_that_is_down_is_found_before_anything_is_encoded(tmp_path, monkeypatch, engine, scheme, words):
    pytest.importorskip({"pgvector": "psycopg", "qdrant": "qdrant_client"}[engine])
    folder, model = write_corpus(tmp_path / "set"), save_encoder(tmp_path / "model")
    for name in ("encoded_rows", "encoded_queries"):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("documents were encoded"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = f"{scheme}@127.0.0.1:{port}" if engine == "pgvector" else f"{scheme}127.0.0.1:{port}"
    with pytest.raises(WorkError, match=words):
        build_index(tmp_path / "index", model=model, data=folder, engine=engine, url=at)
    assert not (tmp_path / "index").exists()


def test_documents_that_no_filter_will_find_are_counted_and_metadata_of_another_kind_are_named(tmp_path):
    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"year": row}})
    build_index(tmp_path / "index", vectors=mixed_vectors(27), data=corpus, similarity="dot")
    rows = ('{"_id": "n0", "text": "a", "metadata": {"year": 3}}\n', '{"_id": "n1", "text": "b", "metadata": {"other": 3}}\n')
    (tmp_path / "new.jsonl").write_text("".join(rows))
    notes = add_to_index(tmp_path / "index", vectors=mixed_vectors(2), data=tmp_path / "new.jsonl").notes
    assert any(note.startswith("1 of 2 documents of ") and note.endswith("(year): no filter will find them") for note in notes)
    (tmp_path / "list.jsonl").write_text('{"_id": "n2", "text": "a", "metadata": {"year": [3]}}\n')
    with pytest.raises(InputError, match=r"metadata are missing .*; metadata 'year' of 1 rows is no text, number or truth value"):
        add_to_index(tmp_path / "index", vectors=mixed_vectors(1), data=tmp_path / "list.jsonl")
