"""Building a Qdrant index: load, measure, and only then an alias that gives the collection its name."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

from normwise.core.errors import InputError, WorkError
from normwise.core.index_records import IndexManifest, Method, RecallRow
from normwise.index.identity import new_identity, write_identity
from normwise.index.load_contents import LoadContents
from normwise.index.opening import write_manifest
from normwise.index.placing import placed
from normwise.index.qdrant_claim import Work, collection_name, collection_of, left_behind, name_of, tie_to_folder
from normwise.index.qdrant_collection import (
    MOST_DIMENSIONS,
    Entry,
    chunk_rows,
    count_points,
    create_collection,
    index_fields,
    kinds_of,
    put_points,
    write_entry,
)
from normwise.index.qdrant_local import write_points
from normwise.index.qdrant_opened import QdrantIndex
from normwise.index.qdrant_search import Asked, search_collection
from normwise.index.qdrant_server import LOCAL, QdrantServer
from normwise.index.questions import check_queries
from normwise.index.request import BuildRequest
from normwise.index.self_test import doubling, raise_effort
from normwise.index.served import Hit, check_exact

_FIRST_EFFORT, _MOST_EFFORT = 16, 2048
# How long a graph that does not appear is waited for, and how long one that grows may take without a sign of it.
_NO_GRAPH_SECONDS, _STUCK_SECONDS, _LOOK_SECONDS = 5.0, 600.0, 0.2


def build_collection(request: BuildRequest, server: QdrantServer) -> QdrantIndex:
    """Load, measure and publish; see `build_index`.

    Raises:
        InputError: the name or width cannot be, or something else stands under that name.
        WorkError: the server was lost or refused; run again, the build goes on where it stopped.
    """
    config, contents = request.config, request.contents
    name = name_of(config, request.out)
    if contents.dimensions > MOST_DIMENSIONS:
        raise InputError(f"vectors have {contents.dimensions} dimensions; Qdrant takes at most {MOST_DIMENSIONS:,}: choose engine faiss")
    with placed(request.out, overwrite=request.overwrite) as folder:
        load = LoadContents(contents, contents.scored(config.similarity))
        work = Work(request, server, load, name, collection_name(request, server, load, name))
        manifest = _make(work, folder)
    return QdrantIndex(server, work.collection, manifest, folder=request.out)


def _make(work: Work, folder: Path) -> IndexManifest:
    """Load, measure, publish and write the folder; its manifest."""
    server = work.server
    with server.calls("while loading") as client:
        entry = None if server.local else left_behind(client, work)
        loaded = _load(client, work) if entry is None else entry
    if entry is None:
        manifest = _measure(work, loaded).model_copy(update={"files": {}})
        identity = None if server.local else new_identity()
        entry = loaded.model_copy(update={"state": "ready", "manifest": manifest.to_json(), "identity": identity})
        with server.calls("while publishing the collection") as client:
            write_entry(client, work.collection, entry)
            if server.local:
                write_points(client, work.collection, entry, folder)
            else:
                _publish(client, work)
    own = {"model": work.request.model, "model_name": work.request.model_name}
    if entry.identity is not None:
        write_identity(folder, entry.identity)
    manifest = write_manifest(folder, IndexManifest.from_json(str(entry.manifest)).model_copy(update=own))
    if not server.local:
        # Before the folder is in place: a build that is stopped in between leaves a collection without a folder, never two with one.
        with server.calls("while noting that the index is whole") as client:
            tie_to_folder(client, work, entry)
    return manifest


def _load(client: QdrantClient, work: Work) -> Entry:
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


def _measure(work: Work, entry: Entry) -> IndexManifest:
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
        corpus_vectors=work.load.corpus,
        method=method,
        effort=effort,
        **({"graph": "none"} if method == "exact" else {}),
        recall=tried[-1].recall,
        tried=tuple(tried),
        words=" ".join(words),
        location=None if work.server.url is None else work.server.url.shown,
        name=work.name,
    )
    request.log(f"recall@{request.test.k} {tried[-1].recall:.4f} on {len(request.test)} {request.test.source}. {manifest.words}")
    return manifest


def _graph_appears(work: Work) -> bool:
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


def _row(work: Work, entry: Entry, method: Method, effort: dict[str, int]) -> RecallRow:
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


def _publish(client: QdrantClient, work: Work) -> None:
    """Point the name at the whole collection in one step, and drop what it pointed at before."""
    before = collection_of(client, work.name)
    steps: list[models.CreateAliasOperation | models.DeleteAliasOperation] = []
    if before is not None:
        steps.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=work.name)))
    steps.append(models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=work.collection, alias_name=work.name)))
    client.update_collection_aliases(change_aliases_operations=steps)
    if before is not None and before != work.collection:
        client.delete_collection(before)
