"""Building a Qdrant index: load, measure, and only then an alias that gives the collection its name."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

from normwise.core.errors import InputError, WorkError
from normwise.core.files import whole_folder
from normwise.core.index_records import IndexManifest, Method, RecallRow
from normwise.index.contents import check_queries
from normwise.index.load_contents import LoadContents
from normwise.index.opening import write_manifest
from normwise.index.qdrant_collection import (
    MOST_DIMENSIONS,
    Entry,
    check_collection_name,
    chunk_rows,
    count_points,
    create_collection,
    index_fields,
    kinds_of,
    put_points,
    read_entry,
    write_entry,
)
from normwise.index.qdrant_local import write_points
from normwise.index.qdrant_opened import QdrantIndex
from normwise.index.qdrant_search import Asked, search_collection
from normwise.index.qdrant_server import LOCAL, QdrantServer
from normwise.index.request import BuildRequest
from normwise.index.self_test import doubling, raise_effort
from normwise.index.served import Hit, check_exact

_FIRST_EFFORT, _MOST_EFFORT = 16, 2048
# How long a graph that does not appear is waited for, and how long one that grows may take without a sign of it.
_NO_GRAPH_SECONDS, _STUCK_SECONDS, _LOOK_SECONDS = 5.0, 600.0, 0.2


@dataclass(frozen=True)
class _Work:
    """A build under way: `name` is what the alias will be, `collection` what holds the points."""

    request: BuildRequest
    server: QdrantServer
    load: LoadContents
    name: str
    collection: str


def build_collection(request: BuildRequest, server: QdrantServer) -> QdrantIndex:
    """Load, measure and publish; see `build_index`.

    Raises:
        InputError: the name or width cannot be, or something else stands under that name.
        WorkError: the server was lost or refused; run again, the build goes on where it stopped.
    """
    config, contents = request.config, request.contents
    name = check_collection_name(config.name if config.name is not None else request.out.resolve().name)
    if contents.dimensions > MOST_DIMENSIONS:
        raise InputError(f"vectors have {contents.dimensions} dimensions; Qdrant takes at most {MOST_DIMENSIONS:,}: choose engine faiss")
    with whole_folder(request.out, overwrite=request.overwrite) as folder:
        load = LoadContents(contents, contents.scored(config.similarity))
        work = _Work(request, server, load, name, _collection_name(request, server, load, name))
        manifest = write_manifest(folder, _make(work, folder))
    return QdrantIndex(server, work.collection, manifest, folder=request.out)


def collection_of(client: QdrantClient, name: str) -> str | None:
    """The collection behind an alias; None where there is no such alias."""
    return next((one.collection_name for one in client.get_aliases().aliases if one.alias_name == name), None)


def _collection_name(request: BuildRequest, server: QdrantServer, load: LoadContents, name: str) -> str:
    """What holds the points: named by contents and settings, so that a build that was stopped finds what it left."""
    if server.local:
        return name
    own = f"{name}.{_settings_hash(request, load)[:16]}"
    with server.calls("while looking for the collection") as client:
        live = collection_of(client, name)
    # What answers now goes on until its successor is whole.
    return f"{own}+" if request.overwrite and live == own else own


def _settings_hash(request: BuildRequest, load: LoadContents) -> str:
    settings = request.config.model_dump(mode="json", exclude={"url", "name"})
    return hashlib.sha256(f"{load.fingerprint} {json.dumps(settings, sort_keys=True)}".encode()).hexdigest()


def _make(work: _Work, folder: Path) -> IndexManifest:
    with work.server.calls("while loading") as client:
        there = None if work.server.local else _there_already(client, work)
        if there is not None:
            return there
        entry = _load(client, work)
    manifest = _measure(work, entry)
    entry = entry.model_copy(update={"state": "ready", "manifest": manifest.model_copy(update={"files": {}}).to_json()})
    with work.server.calls("while publishing the collection") as client:
        write_entry(client, work.collection, entry)
        if work.server.local:
            write_points(client, work.collection, entry, folder)
        else:
            _publish(client, work)
    return manifest


def _there_already(client: QdrantClient, work: _Work) -> IndexManifest | None:
    """Look at what has the name: the manifest of this very build, which was stopped before it wrote its folder, or None.

    Raises:
        InputError: a collection that is not ours, another index and no leave to replace it, or half a load of other contents.
    """
    name, request, where = work.name, work.request, work.server.where
    live = collection_of(client, name)
    if live is None and client.collection_exists(name):
        raise InputError(
            f"{where} has a collection {name!r} that is no index of normwise: choose another name; no flag replaces such a one"
        )
    if live is not None:
        entry = read_entry(client, live)
        if entry is None:
            raise InputError(f"{where} has an alias {name!r} to a collection that is no index of normwise: choose another name")
        whole = (
            entry.candidates == count_points(client, live) and entry.corpus_vectors == entry.built_vectors and entry.manifest is not None
        )
        if live == work.collection and whole:
            request.log(f"collection {name!r} had been built from the same vectors with the same settings: only its folder was missing")
            found = {"model": request.model, "model_name": request.model_name}
            return IndexManifest.from_json(str(entry.manifest)).model_copy(update=found)
        if not request.overwrite:
            raise InputError(f"{where} has an index {name!r} already: pass --overwrite to replace it, or choose another name")
    _drop_other_loads(client, work)
    return None


def _drop_other_loads(client: QdrantClient, work: _Work) -> None:
    """Throw away half-loaded collections of this name with other contents, where `overwrite` allows it."""
    for one in client.get_collections().collections:
        if not one.name.startswith(f"{work.name}.") or one.name == work.collection:
            continue
        entry = read_entry(client, one.name)
        if entry is None or entry.state != "loading" or entry.settings != work.name:
            continue
        if not work.request.overwrite:
            raise InputError(
                f"index {work.name!r} at {work.server.where} is half loaded with other contents or settings: "
                "run the build that began it, pass --overwrite to throw its points away, or choose another name"
            )
        client.delete_collection(one.name)


def _load(client: QdrantClient, work: _Work) -> Entry:
    """Fill the collection, from where an earlier try of the same build stopped."""
    contents, config = work.request.contents, work.request.config
    entry = Entry(
        fingerprint=work.load.fingerprint,
        settings=work.name,
        candidates=len(contents),
        next_position=len(contents),
        corpus_vectors=work.load.corpus,
        corpus_texts=work.load.texts,
        built_vectors=work.load.corpus,
        largest_norm=float(contents.norms.max()),
        kinds=kinds_of(contents.kinds),
    )
    step, done = chunk_rows(contents.dimensions), 0
    if client.collection_exists(work.collection):
        # Chunks come one after the other, so that all but the last that was begun are whole; that one is sent again.
        done = count_points(client, work.collection) // step * step
        work.request.log(f"went on with the load that stopped after {done:,} of {len(contents):,} points")
    else:
        links = config.hnsw_links if config.method == "hnsw" else 0
        create_collection(
            client, work.collection, dimensions=contents.dimensions, entry=entry, links=links, construction=config.hnsw_construction
        )
    if not work.server.local:
        index_fields(client, work.collection, entry)
    for start in range(done, len(contents), step):
        rows = slice(start, min(start + step, len(contents)))
        put_points(client, work.collection, work.load, rows, entry=entry, first=0)
        work.request.log(f"loaded {rows.stop:,} of {len(contents):,} points")
    if count_points(client, work.collection) != len(contents):
        raise WorkError(
            f"collection {work.collection!r} at {work.server.where} has not the points that were sent: delete it, and build again"
        )
    return entry


def _measure(work: _Work, entry: Entry) -> IndexManifest:
    """Raise the effort of the graph, where there is one, until the target is met; else the index is exact."""
    request, config = work.request, work.request.config
    tried: list[RecallRow] = []
    words: list[str] = []
    method: Method = "exact"
    effort: dict[str, int] = {}
    if config.method == "hnsw" and work.server.local:
        words.append(f"{LOCAL} has no graph: hnsw was asked for, and the index is exact.")
    elif config.method == "hnsw" and not _graph_appears(work):
        words.append("The server built no graph over so few vectors: hnsw was asked for, and the index is exact.")
    elif config.method == "hnsw":
        ladder = doubling(max(_FIRST_EFFORT, request.test.k), _MOST_EFFORT)
        tried += raise_effort(lambda ef: _row(work, entry, "hnsw", {"hnsw_ef": ef}), ladder, target=config.recall_target)
        reached = tried[-1].recall >= config.recall_target
        method, effort = ("hnsw", dict(tried[-1].effort)) if reached else ("exact", {})
        end = "kept" if reached else f"the target {config.recall_target:g} was not reached, so the index is exact"
        words.append(f"HNSW by inner product reached recall@{request.test.k} {tried[-1].recall:.4f} at {tried[-1].effort}: {end}.")
    if method == "exact":
        tried.append(_row(work, entry, "exact", {}))
        words.append("Every search compares with every vector.")
    if work.server.local:
        words.append(f"{LOCAL} runs in the memory of the process that opens the folder.")
    manifest = request.manifest(
        method=method,
        effort=effort,
        recall=tried[-1].recall,
        tried=tuple(tried),
        words=" ".join(words),
        location=None if work.server.url is None else work.server.url.shown,
        name=work.name,
    )
    request.log(f"recall@{request.test.k} {tried[-1].recall:.4f} on {len(request.test)} {request.test.source}. {manifest.words}")
    return manifest


def _graph_appears(work: _Work) -> bool:
    """Wait until the server has done what it does in the background; whether a graph came of it."""
    started = changed = time.monotonic()
    before = -1
    while True:
        with work.server.calls("while the graph is built") as client:
            info = client.get_collection(work.collection)
        indexed, now = info.indexed_vectors_count or 0, time.monotonic()
        idle = info.status == models.CollectionStatus.GREEN
        if idle and indexed > 0:
            return True
        if idle and now - started > _NO_GRAPH_SECONDS:
            return False
        if indexed != before:
            before, changed = indexed, now
        if now - changed > _STUCK_SECONDS:
            raise WorkError(
                f"{work.server.where} has not come on with its graph for {_STUCK_SECONDS:g} s: see to it, then run the build again"
            )
        time.sleep(_LOOK_SECONDS)


def _row(work: _Work, entry: Entry, method: Method, effort: dict[str, int]) -> RecallRow:
    """Measure one effort, or exact search, which has to find the best."""
    request = work.request
    cosine = request.config.similarity.normalizes_candidate
    largest = 1.0 if cosine else entry.largest_norm
    hits: list[list[Hit]] = []

    def search(queries: np.ndarray, k: int) -> list[list[str | None]]:
        directions, _ = check_queries(queries, dimensions=request.contents.dimensions)
        asked = Asked(work.collection, entry.candidates, min(k, entry.candidates), method, largest, effort.get("hnsw_ef", 0))
        with work.server.calls("while measuring recall") as client:
            hits.extend(search_collection(client, asked, directions))
        return [[hit.id for hit in row] for row in hits]

    graph = "directions" if cosine else "inner product"
    row = request.test.row(search, graph=graph if method == "hnsw" else f"exact over {graph}", effort=effort)
    if method == "exact":
        check_exact(request, hits, largest_key=largest, where=work.server.where)
    return row


def _publish(client: QdrantClient, work: _Work) -> None:
    """Point the name at the whole collection in one step, and drop what it pointed at before."""
    before = collection_of(client, work.name)
    steps: list[models.CreateAliasOperation | models.DeleteAliasOperation] = []
    if before is not None:
        steps.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=work.name)))
    steps.append(models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=work.collection, alias_name=work.name)))
    client.update_collection_aliases(change_aliases_operations=steps)
    if before is not None and before != work.collection:
        client.delete_collection(before)
