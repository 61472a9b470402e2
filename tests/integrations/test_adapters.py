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
        assert [set(metadata) for metadata in metadata_of(found)] == [KEYS] * 4
        assert metadata_of(found) == [hit.model_dump(include=KEYS) for hit in hits]
        assert [text_of(item) for item in found] == [hit.text for hit in hits]
        assert all(text in DOCUMENTS for text in map(text_of, found))


@BOTH
def test_what_is_not_to_be_trusted_is_dropped_on_request(index, calibration, retriever):
    some = hits_of(retriever.open(index, calibration=calibration, k=4, drop_abstained=True), ASKED)
    assert len(some) == 1  # hits after the first have no probability here
    strict = calibration.model_copy(update={"threshold": calibration.threshold.model_copy(update={"probability": 0.999999})})
    assert hits_of(retriever.open(index, calibration=strict, k=4, drop_abstained=True), ASKED) == []
    assert len(hits_of(retriever.open(index, k=4, drop_abstained=True), ASKED)) == 4


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


def test_a_node_has_the_probability_for_its_score_where_there_is_one(index, calibration):
    plain = hits_of(LlamaIndexRetriever.open(index, k=2), ASKED)
    assert all(isinstance(node, NodeWithScore) for node in plain)
    assert [node.score for node in plain] == [node.node.metadata["score"] for node in plain]
    first, second = hits_of(LlamaIndexRetriever.open(index, calibration=calibration, k=2), ASKED)
    assert first.score == first.node.metadata["probability"]
    assert second.score == second.node.metadata["score"]
    assert first.node.get_content(metadata_mode="llm") == first.node.get_content()


@BOTH
def test_bad_settings_are_refused(tmp_path, index, retriever):
    with pytest.raises(InputError, match="k is 0; expected at least 1"):
        retriever.open(index, k=0)
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
