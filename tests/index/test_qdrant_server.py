"""What a Qdrant server is asked to do, with Qdrant's own local engine in its place, and what can be wrong with one, in words."""

import http.server
import json
import shutil
import socket
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from contract import mixed, names
from qdrant_client import QdrantClient, models

from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import RecallRow
from normwise.index import qdrant_build
from normwise.index.build import build_index, check_engine
from normwise.index.opening import open_index
from normwise.index.qdrant_collection import check_collection_name, read_entry, write_entry
from normwise.index.qdrant_server import QdrantServer

URL = "http://:tigerlily@127.0.0.1:6333"
ROWS, CHUNK = 90, 20
BELONGS = r"collection 'docs' at .* belongs to the index that was built at 20\d\d-.* UTC: open the folder of that build"


class Cut(Exception):
    pass


@pytest.fixture
def engine(monkeypatch):
    """One engine that outlives connections, as a server does."""
    client = QdrantClient(":memory:")
    monkeypatch.setattr(QdrantServer, "_connect", lambda self, url: client)
    monkeypatch.setattr(QdrantServer, "close", lambda self: None)
    monkeypatch.setattr(qdrant_build, "_NO_GRAPH_SECONDS", 0.0)
    monkeypatch.setattr(qdrant_build, "_LOOK_SECONDS", 0.0)
    for module in ("qdrant_build", "qdrant_opened"):
        monkeypatch.setattr(f"normwise.index.{module}.chunk_rows", lambda dimensions: CHUNK)
    yield client
    client.close()


@pytest.fixture
def build(engine, tmp_path):
    def build(*, scale=1.0, log=None, overwrite=False, folder="index", method="exact", name="docs"):
        config = IndexConfig(similarity="dot", engine="qdrant", url=URL, name=name, method=method)
        vectors = np.float32(scale) * mixed(ROWS, 6, seed=1)
        return build_index(
            config,
            tmp_path / folder,
            ids=names(ROWS),
            vectors=vectors,
            texts=[f"t{n}" for n in range(ROWS)],
            metadata=[{"third": n % 3} for n in range(ROWS)],
            overwrite=overwrite,
            log=log,
        )

    return build


def after(chunks):
    seen = []

    def log(line):
        seen.append(line)
        if line.startswith("loaded") and len([one for one in seen if one.startswith("loaded")]) == chunks:
            raise Cut

    log.seen = seen
    return log


def aliases(engine):
    return {one.alias_name: one.collection_name for one in engine.get_aliases().aliases}


def test_vectors_are_compared_by_inner_product_and_never_normalized(build, engine):
    index = build()
    parameters = engine.get_collection("docs").config.params.vectors
    assert parameters.distance == models.Distance.DOT
    assert index.search(mixed(3, 6, seed=2), k=4).counts.tolist() == [4, 4, 4]
    assert open_index(index._folder).manifest == index.manifest


def test_the_folder_holds_the_address_without_its_key(build, tmp_path):
    said = []
    index = build(log=said.append)
    assert index.manifest.location == "http://127.0.0.1:6333"
    for text in ((tmp_path / "index" / "index.json").read_text(), " ".join(said)):
        assert "tigerlily" not in text


def test_an_interrupted_load_answers_nothing_and_goes_on_where_it_stopped(build, engine, tmp_path):
    with pytest.raises(Cut):
        build(log=after(3))
    assert aliases(engine) == {}
    assert not (tmp_path / "index").exists()
    (half,) = engine.get_collections().collections
    assert read_entry(engine, half.name).state == "loading"
    # A killed request may have left some of its points.
    engine.delete(
        half.name,
        points_selector=models.FilterSelector(
            filter=models.Filter(must=[models.FieldCondition(key="position", range=models.Range(gte=53))])
        ),
    )
    said = after(0)
    index = build(log=said)
    assert said.seen[:2] == ["went on with the load that stopped after 40 of 90 points", "loaded 60 of 90 points"]
    assert aliases(engine) == {"docs": half.name}
    whole = build(name="other", folder="other")
    queries = mixed(5, 6, seed=3)
    assert np.array_equal(index.search(queries, k=ROWS).ids, whole.search(queries, k=ROWS).ids)
    assert index.manifest.corpus_vectors == whole.manifest.corpus_vectors


def test_other_contents_do_not_go_on_with_a_load(build, engine):
    with pytest.raises(Cut):
        build(log=after(2))
    with pytest.raises(InputError, match="half loaded with other contents or settings: run the build that began it, pass --overwrite"):
        build(scale=2.0)
    build(scale=2.0, overwrite=True)
    assert len(engine.get_collections().collections) == 1


def test_an_old_index_answers_until_the_new_one_is_whole(build, engine, tmp_path):
    queries = mixed(4, 6, seed=2)
    old = build()
    before = old.search(queries, k=5)
    with pytest.raises(InputError, match=BELONGS):
        build(scale=2.0, folder="two")
    with pytest.raises(Cut):
        build(scale=2.0, folder="two", overwrite=True, log=after(2))
    assert np.array_equal(open_index(tmp_path / "index").search(queries, k=5).scores, before.scores)
    new = build(scale=2.0, folder="two", overwrite=True)
    assert np.allclose(new.search(queries, k=5).scores, 2 * before.scores, rtol=1e-6)
    assert len(engine.get_collections().collections) == 1
    with pytest.raises(InputError, match=r"holds no collection .* \(any more\)"):
        old.search(queries, k=5)
    with pytest.raises(WorkError, match="was built anew at .* UTC: open the folder"):
        open_index(tmp_path / "index")
    again = build(scale=2.0, folder="two", overwrite=True)
    assert len(again) == ROWS
    assert len(engine.get_collections().collections) == 1


def test_a_build_that_was_stopped_after_its_collection_was_whole_only_writes_its_folder(build, tmp_path, monkeypatch):
    def cut(*_):
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(qdrant_build, "write_manifest", cut)
        with pytest.raises(Cut):
            build()
    assert not (tmp_path / "index").exists()
    said = []
    assert len(build(log=said.append, folder="other")) == ROWS
    assert len(open_index(tmp_path / "other")) == ROWS
    with pytest.raises(InputError, match=BELONGS):
        build()
    assert said == ["collection 'docs' had been built from the same vectors with the same settings: only its folder was missing"]


def test_a_collection_of_somebody_else_is_never_replaced(build, engine):
    engine.create_collection("docs", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    for overwrite in (False, True):
        with pytest.raises(InputError, match="has a collection 'docs' that is no index of normwise: choose another name"):
            build(overwrite=overwrite)


def test_an_addition_that_was_cut_off_is_taken_back(build, engine, tmp_path, monkeypatch):
    index = build()
    hashed = index.manifest.corpus_vectors
    real, calls = engine.upsert, []

    def upsert(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise Cut
        return real(*arguments, **options)

    monkeypatch.setattr(engine, "upsert", upsert)
    with pytest.raises(Cut):
        index.add([f"new{n}" for n in range(30)], mixed(30, 6, seed=5), texts=["x"] * 30)
    monkeypatch.setattr(engine, "upsert", real)
    again = open_index(tmp_path / "index")
    assert len(again) == ROWS
    assert again.manifest.corpus_vectors == hashed
    assert "new0" not in again.search(mixed(1, 6, seed=5), k=ROWS).ids


def test_a_deletion_that_was_cut_off_is_finished(build, engine, tmp_path, monkeypatch):
    index = build()
    real = engine.delete

    def cut(*arguments, **options):
        raise Cut

    monkeypatch.setattr(engine, "delete", cut)
    with pytest.raises(Cut):
        index.delete(["d1", "d2"])
    monkeypatch.setattr(engine, "delete", real)
    again = open_index(tmp_path / "index")
    assert len(again) == ROWS - 2
    assert not {"d1", "d2"} & set(again.search(mixed(1, 6, seed=5), k=ROWS).ids[0])


def test_a_collection_changed_behind_our_back_is_refused(build, engine, tmp_path):
    index = build()
    engine.delete(
        "docs",
        points_selector=models.FilterSelector(
            filter=models.Filter(must=[models.FieldCondition(key="position", match=models.MatchValue(value=4))])
        ),
    )
    with pytest.raises(WorkError, match="has 89 points and should have 90: something else than normwise changed it"):
        open_index(tmp_path / "index")
    entry = read_entry(engine, index._collection)
    write_entry(engine, index._collection, entry.model_copy(update={"state": "loading"}))
    with pytest.raises(InputError, match="is half loaded: run the same build again"):
        open_index(tmp_path / "index")


def test_a_server_without_a_graph_is_said_to_be_exact(build):
    manifest = build(method="hnsw").manifest
    assert manifest.method == "exact"
    assert "The server built no graph over so few vectors" in manifest.words


@pytest.mark.parametrize(("target_met", "method", "effort"), [(True, "hnsw", {"hnsw_ef": 32}), (False, "exact", {})])
def test_the_effort_of_a_graph_is_raised_until_the_target_or_given_up(build, monkeypatch, target_met, method, effort):
    monkeypatch.setattr(qdrant_build, "_graph_appears", lambda work: True)
    real = qdrant_build._row

    def row(work, entry, kind, knob):
        found = real(work, entry, kind, knob)
        if kind != "hnsw":
            return found
        return RecallRow(graph=found.graph, effort=knob, recall=1.0 if target_met and knob["hnsw_ef"] >= 32 else 0.2)

    monkeypatch.setattr(qdrant_build, "_row", row)
    index = build(method="hnsw")
    assert index.manifest.method == method
    assert dict(index.manifest.effort) == effort
    assert [row.effort.get("hnsw_ef") for row in index.manifest.tried][:2] == [16, 32]
    found = index.search(np.vstack([mixed(2, 6, seed=2), np.zeros((1, 6), dtype=np.float32)]), k=5)
    assert found.ids[2].tolist() == names(5)
    assert index.search(mixed(1, 6, seed=2), k=40, where={"third": 1}).counts.tolist() == [30]


@pytest.mark.parametrize(
    ("name", "message"), [("a/b", "holds '/'"), ("", "has 0 characters"), ("x" * 201, "has 201 characters"), ("a\nb", r"holds '\\n'")]
)
def test_names_that_cannot_be(name, message):
    with pytest.raises(InputError, match=message):
        check_collection_name(name)


def ask(url):
    server = QdrantServer(url)
    try:
        with server.calls("while testing") as client:
            return client.get_collections()
    finally:
        server.close()


@pytest.fixture
def answering():
    """A server that gives every request the same answer."""
    servers = []

    def start(status, body, *, seconds=0.0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(seconds)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                # A client that has given up hears nothing any more.
                with suppress(OSError):
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://:tigerlily@127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_server_that_is_down():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        WorkError, match=f"Qdrant at http://127.0.0.1:{port} did not answer while testing .*is it running and reachable"
    ) as caught:
        ask(f"http://:tigerlily@127.0.0.1:{port}")
    assert "tigerlily" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")
def test_a_server_that_is_slow(answering):
    url = answering(200, {}, seconds=1.5)
    with pytest.raises(WorkError, match="was too slow while testing .*allow more time in the address, as in .timeout=300"):
        ask(f"{url}?timeout=1")


def test_a_key_that_is_refused(answering):
    with pytest.raises(InputError, match="refused the key while testing .*https://:API-KEY@host:6333") as caught:
        ask(answering(403, {"status": {"error": "forbidden for tigerlily"}}))
    assert "tigerlily" not in str(caught.value)


def test_a_server_that_fails(answering):
    with pytest.raises(WorkError, match="refused while testing: Unexpected Response: 500"):
        ask(answering(500, {"status": {"error": "disk is full"}}))


def test_a_server_that_is_too_old(answering):
    with pytest.raises(WorkError, match=r"is version 1.12.4; expected 1.16 or newer, which knows metadata of collections: update it"):
        ask(answering(200, {"title": "qdrant", "version": "1.12.4"}))


def test_a_time_limit_that_is_no_number():
    with pytest.raises(InputError, match="expected whole seconds, as in .timeout=300"):
        ask("http://127.0.0.1:1?timeout=soon")


def test_a_missing_client_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingExtraError, match=r'qdrant_client is not installed; run: pip install "normwise\[index\]"'):
        build_index(IndexConfig(similarity="dot", engine="qdrant"), tmp_path / "x", ids=["a"], vectors=np.ones((1, 2)))


def test_a_collection_belongs_to_the_folder_of_its_build(build, engine, tmp_path):
    first = build()
    with pytest.raises(InputError, match=BELONGS):
        build(folder="two")
    assert not (tmp_path / "two").exists()
    second = build(folder="two", overwrite=True)
    with pytest.raises(WorkError, match="was built anew at .* UTC: open the folder"):
        open_index(tmp_path / "index")
    with pytest.raises((WorkError, InputError), match="was built anew|holds no collection"):
        first.delete(["d0"])
    assert len(second) == len(open_index(tmp_path / "two")) == ROWS
    shutil.rmtree(tmp_path / "two")
    with pytest.raises(InputError, match=BELONGS):
        build(folder="two")
    assert len(build(folder="two", overwrite=True)) == ROWS


def test_what_stands_on_a_server_is_looked_at_before_the_work(build, engine, tmp_path):
    def look(*, name="docs", overwrite=False):
        check_engine(IndexConfig(similarity="dot", engine="qdrant", url=URL, name=name), tmp_path / "index", overwrite=overwrite)

    look()
    build()
    with pytest.raises(InputError, match=BELONGS):
        look()
    look(overwrite=True)
    engine.create_collection("foreign", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    with pytest.raises(InputError, match="has a collection 'foreign' that is no index of normwise: choose another name"):
        look(name="foreign", overwrite=True)
    with pytest.raises(InputError, match="holds '/'"):
        look(name="a/b")
