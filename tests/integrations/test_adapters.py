"""The adapters with the real libraries: documents and nodes, whom they drop, the asynchronous way, and a library that is missing."""

import asyncio
import importlib
import sys

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore

from normwise import Searcher, build_index
from normwise.core.errors import InputError
from normwise.integrations import MissingLibraryError
from normwise.integrations.langchain import NormwiseRetriever as LangChainRetriever
from normwise.integrations.llama_index import NormwiseRetriever as LlamaIndexRetriever
from normwise.theory.lower_hits import LowerHits
from normwise.workflows.change_index import delete_from_index
from search_material import DOCUMENTS, calibration_for, mixed_vectors, save_encoder, write_corpus

KEYS = {"id", "score", "similarity", "norm", "probability", "abstain", "reason"}
BOTH = pytest.mark.parametrize("retriever", [LangChainRetriever, LlamaIndexRetriever])
ASKED = "red cat runs"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    corpus = write_corpus(folder / "set", extra=lambda row: {"metadata": {"third": row % 3}})
    build_index(folder / "index", model=save_encoder(folder / "model"), data=corpus)
    return folder / "index"


@pytest.fixture(scope="module")
def calibration(index):
    return calibration_for(index, probability=0.2)


def hits_of(retriever, text):
    return retriever.invoke(text) if isinstance(retriever, LangChainRetriever) else retriever.retrieve(text)


def metadata_of(found):
    return [item.metadata if isinstance(item, Document) else item.node.metadata for item in found]


def text_of(item):
    return item.page_content if isinstance(item, Document) else item.node.get_content()


@BOTH
def test_an_adapter_says_what_a_search_says(index, calibration, retriever):
    for chosen in (None, calibration):
        found = hits_of(retriever.open(index, calibration=chosen, k=4), ASKED)
        with Searcher.open(index, calibration=chosen) as searcher:
            hits = searcher.search([ASKED], k=4).hits(0)
        assert [set(metadata) for metadata in metadata_of(found)] == [KEYS | {"third"}] * 4
        assert metadata_of(found) == [hit.model_dump(include=KEYS) | {"third": int(hit.id[1:]) % 3} for hit in hits]
        assert [text_of(item) for item in found] == [hit.text for hit in hits]
        assert all(text in DOCUMENTS for text in map(text_of, found))


@BOTH
def test_what_a_document_says_of_itself_hides_nothing_that_the_search_says(tmp_path, retriever):
    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"abstain": True, "year": 2000 + row} if row else {}})
    build_index(tmp_path / "index", model=save_encoder(tmp_path / "model"), data=corpus)
    found = metadata_of(hits_of(retriever.open(tmp_path / "index", k=27), ASKED))
    assert {metadata["abstain"] for metadata in found} == {False}
    assert {metadata["id"]: metadata.get("year") for metadata in found} == {"d0": None} | {f"d{row}": 2000 + row for row in range(1, 27)}


@BOTH
def test_what_is_not_to_be_trusted_is_dropped_on_request(index, calibration, retriever):
    some = hits_of(retriever.open(index, calibration=calibration, k=4, drop_abstained=True), ASKED)
    assert len(some) == 1  # hits after the first have no probability here
    strict = calibration.model_copy(update={"threshold": calibration.threshold.model_copy(update={"probability": 0.999999})})
    assert hits_of(retriever.open(index, calibration=strict, k=4, drop_abstained=True), ASKED) == []


@BOTH
def test_a_guard_with_no_calibration_is_refused_when_a_retriever_is_made(index, calibration, retriever):
    words = "(?s)drop_abstained needs .*require_calibration=False.*no calibration.json lies in the index.*normwise calibrate .*--index"
    with pytest.raises(InputError, match=words):
        retriever.open(index, drop_abstained=True)
    with Searcher.open(index) as searcher, pytest.raises(InputError, match=words):
        retriever(searcher=searcher, drop_abstained=True)
    retriever.open(index, calibration=calibration, drop_abstained=True)
    assert len(hits_of(retriever.open(index, k=4), ASKED)) == 4


@BOTH
def test_an_outdated_calibration_guards_nothing(tmp_path, retriever):
    corpus = write_corpus(tmp_path / "set")
    build_index(tmp_path / "index", vectors=mixed_vectors(27), data=corpus, similarity="dot")
    (tmp_path / "index" / "calibration.json").write_text(calibration_for(tmp_path / "index").to_json())
    retriever.open(tmp_path / "index", drop_abstained=True)
    delete_from_index(tmp_path / "index", ["d3"])
    with pytest.raises(InputError, match="the corpus has 26 candidates, fitted on 27"):
        retriever.open(tmp_path / "index", drop_abstained=True)


@BOTH
def test_a_guard_whose_corpus_changes_under_it_answers_nothing(tmp_path, retriever):
    """A list that is empty because the calibration is old would say "I don't know", and one that is not "trust this"."""
    corpus = write_corpus(tmp_path / "set")
    build_index(tmp_path / "index", model=save_encoder(tmp_path / "model"), data=corpus)
    calibration = calibration_for(tmp_path / "index", probability=0.2)
    for named in (True, False):
        (tmp_path / "index" / "calibration.json").write_text(calibration.to_json())
        opened = retriever.open(tmp_path / "index", calibration=calibration if named else None, k=3, drop_abstained=True)
        assert len(hits_of(opened, ASKED)) == 1
        opened.searcher._index.delete(["d3"])
        with pytest.raises(InputError, match="the corpus has 26 candidates, fitted on 27"):
            hits_of(opened, ASKED)


@BOTH
def test_a_filter_under_a_guard_is_refused_at_retrieval(index, calibration, retriever):
    (index / "calibration.json").write_text(calibration.to_json())
    try:
        opened = retriever.open(index, k=4, drop_abstained=True, where={"third": 1})
        with pytest.raises(InputError, match="(?s)drop_abstained .*require_calibration=False.*where searches a part of the corpus"):
            hits_of(opened, ASKED)
        assert len(hits_of(retriever.open(index, k=4, where={"third": 1}), ASKED)) == 4
        lax = retriever.open(index, k=4, drop_abstained=True, require_calibration=False, where={"third": 1})
        with pytest.warns(UserWarning, match="where searches a part of the corpus"):
            assert len(hits_of(lax, ASKED)) == 4
        assert len(hits_of(lax, ASKED)) == 4  # a second warning would be an error
    finally:
        (index / "calibration.json").unlink()


@BOTH
def test_who_goes_without_a_guard_is_warned_once(index, retriever):
    with pytest.warns(UserWarning, match="drop_abstained leaves out nothing but zero vectors: .*no calibration.json") as told:
        opened = retriever.open(index, k=4, drop_abstained=True, require_calibration=False)
    assert [warning.filename for warning in told] == [__file__]
    assert [len(hits_of(opened, ASKED)) for _ in range(2)] == [4, 4]  # a second warning would be an error


@BOTH
def test_a_refused_retriever_lets_go_of_its_index(monkeypatch, index, retriever):
    closed = []
    monkeypatch.setattr(Searcher, "close", lambda searcher: closed.append(searcher))
    for settings in ({"k": 0}, {"drop_abstained": True}):
        with pytest.raises(InputError, match="k is 0|no calibration"):
            retriever.open(index, **settings)
    assert len(closed) == 2


@BOTH
def test_a_filter_is_handed_on(index, retriever):
    found = hits_of(retriever.open(index, k=30, where={"third": 1}), ASKED)
    assert sorted(int(metadata["id"][1:]) for metadata in metadata_of(found)) == list(range(1, 27, 3))


@BOTH
def test_the_asynchronous_way_finds_the_same(index, calibration, retriever):
    opened = retriever.open(index, calibration=calibration, k=3)
    if retriever is LangChainRetriever:
        found = asyncio.run(opened.ainvoke(ASKED))
    else:
        found = asyncio.run(opened.aretrieve(ASKED))
    assert metadata_of(found) == metadata_of(hits_of(opened, ASKED))


def test_the_nodes_of_a_list_are_scored_on_one_scale(index, calibration):
    plain = hits_of(LlamaIndexRetriever.open(index, k=2), ASKED)
    assert all(isinstance(node, NodeWithScore) for node in plain)
    assert [node.score for node in plain] == [node.node.metadata["score"] for node in plain]
    some = hits_of(LlamaIndexRetriever.open(index, calibration=calibration, k=2), ASKED)
    assert [node.node.metadata["probability"] is None for node in some] == [False, True]
    assert [node.score for node in some] == [node.node.metadata["score"] for node in some]
    (first,) = hits_of(LlamaIndexRetriever.open(index, calibration=calibration, k=2, drop_abstained=True), ASKED)
    assert first.score == first.node.metadata["probability"]
    whole = calibration.model_copy(update={"lower_hits": LowerHits(intercept=-1.0, weights=(0.3, 0.1, -0.2, 0.5))})
    every = hits_of(LlamaIndexRetriever.open(index, calibration=whole, k=4), ASKED)
    assert [node.score for node in every] == [node.node.metadata["probability"] for node in every]
    assert all(0.0 < node.score < 1.0 for node in every)
    assert first.node.get_content(metadata_mode="llm") == first.node.get_content()


@BOTH
def test_bad_settings_are_refused(tmp_path, index, retriever):
    for settings, words in (
        ({"k": 0}, "k is 0; expected a whole number"),
        ({"k": True}, "k is True; expected a whole number"),
        ({"k": "3"}, "k is '3'; expected a whole number"),
        ({"k": 2.5}, "k is 2.5; expected a whole number"),
        ({"where": "third"}, "where is 'third'; expected keys and values"),
        ({"drop_abstained": "no"}, "drop_abstained is 'no'; expected True or False"),
        ({"require_calibration": 1}, "require_calibration is 1; expected True or False"),
        ({"calibration": 5}, "calibration is 5; expected a file, the folder of one, or a Calibration"),
        ({"model": 5}, "model is 5; expected a folder, a hub id, or an open encoder"),
    ):
        with pytest.raises(InputError, match=words):
            retriever.open(index, **settings)
    with pytest.raises(InputError, match=r"searcher is 'my-index'; expected an open Searcher: a retriever's open\('my-index'\) makes one"):
        retriever(searcher="my-index")
    with pytest.raises(InputError, match="does not exist"):
        retriever.open(tmp_path / "gone")
    build_index(tmp_path / "bare", vectors=mixed_vectors(), similarity="dot")
    with pytest.raises(InputError, match="holds vectors without texts, and a retriever hands texts on: build it with --data"):
        retriever.open(tmp_path / "bare")


@pytest.mark.parametrize(
    ("module", "library", "command"),
    [
        ("normwise.integrations.langchain", "langchain_core", r'pip install "langchain-core>=1\.0"'),
        ("normwise.integrations.llama_index", "llama_index", r'pip install "llama-index-core>=0\.14"'),
    ],
)
def test_a_missing_library_is_told_with_its_command(monkeypatch, module, library, command):
    hidden = [name for name in sys.modules if name.partition(".")[0] == library] + [library]
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, module)
    with pytest.raises(MissingLibraryError, match=f"is not installed; run: {command}"):
        importlib.import_module(module)
