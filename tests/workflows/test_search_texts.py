"""Indices of texts: built by a model, searched by that model and by no other, calibrated with what texts alone have."""

import shutil

import numpy as np
import pytest

from normwise import Encoder, Searcher, build_index
from normwise.core.errors import InputError
from normwise.index.opening import open_index
from normwise.workflows.change_index import add_to_index
from normwise.workflows.index_rows import MOST_QUERIES, encoded_queries
from normwise.workflows.search_model import model_hash
from normwise.workflows.text_lengths import text_lengths
from search_material import DOCUMENTS, calibration_for, save_encoder, write_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture
def index(tmp_path, model, corpus):
    build_index(tmp_path / "index", model=model, data=corpus)
    return tmp_path / "index"


def test_a_text_finds_what_its_encoder_scores_highest(index, model):
    encoder = Encoder.load(model)
    asked = ["red cat runs", "blue bird", "old tree"]
    with Searcher.open(index) as searcher:
        found = searcher.search(asked, k=5)
    scores = encoder.encode_queries(asked).astype(np.float64) @ encoder.encode_candidates(DOCUMENTS).T.astype(np.float64)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    assert found.ids.tolist() == [[f"d{row}" for row in line] for line in order]
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, order, axis=1), rtol=1e-5)
    hit = found.hits(0)[0]
    assert (hit.query, hit.text, hit.similarity) == ("red cat runs", DOCUMENTS[order[0, 0]], "dot")


def test_the_index_knows_its_model_and_real_queries_tested_it(index, model):
    manifest = open_index(index).manifest
    assert manifest.model_name == str(model)
    assert len(manifest.model) == 64
    assert (manifest.recall_queries, manifest.recall_source, manifest.has_texts, manifest.has_lengths) == (9, "queries", True, True)


def test_an_open_encoder_and_bare_texts_do_too(tmp_path, model):
    encoder = Encoder.load(model)
    (tmp_path / "texts.txt").write_text("\n".join(DOCUMENTS))
    report = build_index(tmp_path / "index", model=encoder, data=tmp_path / "texts.txt", queries=["red cat"], method="hnsw")
    assert (report.candidates, report.manifest.recall_queries) == (27, 1)
    with Searcher.open(tmp_path / "index", model=encoder) as searcher:
        assert searcher.search(["red cat runs"], k=1).ids.shape == (1, 1)


def test_queries_of_the_self_test_are_few_and_drawn(model, corpus):
    from normwise.data.documents import read_documents

    encoder, documents = Encoder.load(model), read_documents(corpus)
    many = [f"red cat {number}" for number in range(MOST_QUERIES + 5)]
    assert encoded_queries(encoder, many, documents, seed=0, batch_size=64).shape[0] == MOST_QUERIES
    assert encoded_queries(encoder, None, documents, seed=0, batch_size=64).shape[0] == 9
    vectors = np.ones((2, encoder.dimensions), dtype=np.float32)
    assert encoded_queries(encoder, vectors, documents, seed=0, batch_size=64) is vectors


def test_another_model_is_refused(index, tmp_path, model):
    other = save_encoder(tmp_path / "other", seed=1)
    with Searcher.open(index, model=other) as searcher, pytest.raises(InputError, match=r"was built with .*model.* is another model"):
        searcher.search(["red cat"])
    new = tmp_path / "new.jsonl"
    new.write_text('{"_id": "new", "text": "red cat"}\n')
    with pytest.raises(InputError, match="is another model"):
        add_to_index(index, model=other, data=new)
    moved = shutil.copytree(model, tmp_path / "moved")
    with Searcher.open(index, model=moved) as searcher:
        assert len(searcher.search(["red cat"], k=2).hits(0)) == 2


def test_a_model_for_bare_vectors_is_taken_at_its_word(tmp_path, model, corpus):
    encoder = Encoder.load(model)
    build_index(tmp_path / "index", vectors=encoder.encode_candidates(DOCUMENTS), data=corpus, similarity="dot")
    with Searcher.open(tmp_path / "index", model=model) as searcher:
        found = searcher.search(["red cat runs"], k=1)
    assert found.notes == (f"{tmp_path / 'index'} was made of bare vectors: whether they are of {model} cannot be checked",)
    build_index(tmp_path / "narrow", vectors=np.eye(3), similarity="dot")
    with Searcher.open(tmp_path / "narrow", model=model) as searcher, pytest.raises(InputError, match="makes vectors of 8 dimensions"):
        searcher.search(["red"])


def test_a_calibration_of_the_model_holds_for_its_bare_vectors_once_the_model_is_named(tmp_path, model, corpus):
    encoder = Encoder.load(model)
    build_index(tmp_path / "index", vectors=encoder.encode_candidates(DOCUMENTS), data=corpus, similarity="dot")
    of_model = calibration_for(tmp_path / "index", model=model_hash(encoder))
    of_vectors = calibration_for(tmp_path / "index")
    with pytest.raises(InputError, match="the model is vectors, fitted on"):
        Searcher.open(tmp_path / "index", calibration=of_model)
    other = save_encoder(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="the model is vectors, fitted on"):
        Searcher.open(tmp_path / "index", calibration=of_model, model=other)
    with Searcher.open(tmp_path / "index", calibration=of_model, model=model) as searcher:
        assert searcher.search(["red cat runs"], k=1).hits(0)[0].probability is not None
    # Vectors of the same model may have come through a pipeline that normalizes: texts are no such queries.
    with Searcher.open(tmp_path / "index", calibration=of_vectors, model=model) as searcher:
        with pytest.raises(InputError, match="was fitted on bare query vectors, and nothing tells whether the model makes the same"):
            searcher.search(["red cat runs"], k=1)
        assert searcher.search(encoder.encode_queries(["red cat runs"]), k=1).hits(0)[0].probability is not None
    (tmp_path / "index" / "calibration.json").write_text(of_vectors.to_json())
    with Searcher.open(tmp_path / "index", model=model) as searcher:
        found = searcher.search(["red cat runs"], k=1)
        assert found.hits(0)[0].probability is None
        assert "was fitted on bare query vectors" in found.why_not_calibrated


def test_documents_join_by_the_same_model(index, tmp_path, model, corpus):
    (tmp_path / "more.jsonl").write_text('{"_id": "new", "text": "old tree"}\n')
    report = add_to_index(index, data=tmp_path / "more.jsonl")
    assert (report.candidates, report.changed) == (28, 1)
    with Searcher.open(index) as searcher:
        hits = searcher.search(["old tree"], k=28).hits(0)
    assert {hit.id: hit.text for hit in hits}["new"] == "old tree"
    with pytest.raises(InputError, match="give data, and leave vectors out"):
        add_to_index(index, vectors=np.ones((1, 8)))
    with pytest.raises(InputError, match="which the index holds already"):
        add_to_index(index, data=tmp_path / "more.jsonl")


def test_a_calibration_beside_the_model_is_found(index, model):
    place = model / "calibration.json"
    place.write_text(calibration_for(index).to_json())
    try:
        with Searcher.open(index) as searcher:
            assert searcher.search(["red cat runs"], k=1).hits(0)[0].probability is not None
        (index / "calibration.json").write_text(calibration_for(index, model="0" * 64).to_json())
        with Searcher.open(index) as searcher:  # the one in the index does not hold, the one beside the model does
            assert not searcher.why_not_calibrated
    finally:
        place.unlink()


def test_lengths_are_counted_for_a_calibration_that_reads_them(index, model):
    chosen = calibration_for(index, signal="query length")
    asked = ["red", "red cat runs fast"]
    with Searcher.open(index, calibration=chosen) as searcher:
        found = searcher.search(asked, k=1)
        with pytest.raises(InputError, match="a query vector has none"):
            searcher.search(np.ones((1, 8)))
    expected = 1.0 / (1.0 + np.exp(-(np.log1p(text_lengths(Encoder.load(model), asked)) - 5.0)))
    np.testing.assert_allclose(found.probabilities[:, 0], expected, rtol=1e-9)
    assert expected[0] != expected[1]


def test_bad_texts_are_refused(index):
    with Searcher.open(index) as searcher:
        for queries, words in ((["red", " "], "row 1 is empty or whitespace"), (["\ud800"], "row 0 holds a lone surrogate")):
            with pytest.raises(InputError, match=words):
                searcher.search(queries)
