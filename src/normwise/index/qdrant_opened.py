"""An index whose vectors a Qdrant engine holds: a server's collection, or local mode fed from the index folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse

from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError, WorkError
from normwise.core.index_records import IndexManifest
from normwise.core.similarity import Similarity
from normwise.index.checks import Value
from normwise.index.contents import Known, check_contents
from normwise.index.identity import check_owner, read_identity
from normwise.index.load_contents import LoadContents
from normwise.index.opening import seal_of, write_manifest
from normwise.index.placing import replaced
from normwise.index.protocol import Found, Where
from normwise.index.qdrant_collection import (
    Entry,
    chunk_rows,
    conditions,
    count_points,
    drop_from,
    drop_points,
    index_fields,
    kinds_of,
    metadata_fields,
    metadata_of,
    point_id,
    put_points,
    read_entry,
    write_entry,
)
from normwise.index.qdrant_local import write_points
from normwise.index.qdrant_search import Asked, search_collection
from normwise.index.qdrant_server import QdrantServer
from normwise.index.questions import check_k, check_known_ids, check_new_ids, check_present, check_queries, check_where
from normwise.index.row_hashes import sum_hashes
from normwise.index.served import found_of, manifest_now

_NOT_FOUND = 404
_RETRIEVED = 1000


class QdrantIndex:
    """Candidates in a collection, which says of itself what it holds.

    On a server every change is there at once, and one that is cut off is taken back or finished when the index is opened again;
    two writers at the same time are not kept apart. In local mode what `add` and `delete` change is in the folder after `save`.

    Args:
        server: the engine.
        collection: its collection.
        manifest: as the index was built.
        folder: where local mode saves to, and where the token of a server's index is.

    Raises:
        InputError: no such collection, one that is none of ours, or a half-loaded one.
        WorkError: the server is down, or the collection is not the one that was built.
    """

    def __init__(self, server: QdrantServer, collection: str, manifest: IndexManifest, *, folder: Path) -> None:
        self._server, self._collection, self._built, self._folder = server, collection, manifest, folder
        self._identity = None if server.local else read_identity(folder)
        with server.calls("while opening the index") as client:
            entry = self._repaired(client, self._entry(client))
            points = count_points(client, collection)
        if points != entry.candidates:
            raise WorkError(
                f"collection {collection!r} at {server.where} has {points:,} points and should have {entry.candidates:,}: "
                "something else than normwise changed it; build the index again with --overwrite"
            )
        self._manifest = _now(manifest, entry)

    @property
    def manifest(self) -> IndexManifest:
        """What is in it and how it was built; the corpus as the last call found or left it."""
        return self._manifest

    def __len__(self) -> int:
        return self._manifest.candidates

    def search(self, queries: np.ndarray, *, k: int, where: Where | None = None) -> Found:
        """Return the k best candidates of raw queries; see `Index.search`."""
        k = check_k(k)
        directions, lengths = check_queries(queries, dimensions=self._built.dimensions)
        similarity = Similarity(self._built.similarity)
        with self._server.calls("while searching") as client:
            entry = self._entry(client)
            must = conditions(check_where(where, entry.types), entry)
            width = min(k, entry.candidates)
            asked = Asked(
                collection=self._collection,
                candidates=entry.candidates,
                k=width,
                method=self._built.method,
                largest_key=1.0 if similarity.normalizes_candidate else entry.largest_norm,
                effort=self._built.effort.get("hnsw_ef", 0),
                must=must,
            )
            hits = search_collection(client, asked, directions)
        self._manifest = _now(self._built, entry)
        scale = np.ones_like(lengths) if similarity.normalizes_query else lengths
        return found_of(hits, k=width, scale=scale, with_lengths=self._built.has_lengths)

    def add(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        *,
        texts: Sequence[str] | None = None,
        lengths: np.ndarray | None = None,
        metadata: Sequence[Mapping[str, Value]] | None = None,
    ) -> None:
        """Add candidates; see `Index.add`."""
        built = self._built
        with self._server.calls("while adding") as client:
            entry = self._repaired(client, self._entry(client))
            known = Known(built.dimensions, entry.types, built.has_texts, built.has_lengths)
            contents = check_contents(ids, vectors, texts=texts, lengths=lengths, metadata=metadata, known=known)
            check_new_ids(contents.ids, self._payloads(client, contents.ids))
            load = LoadContents(contents, contents.scored(Similarity(built.similarity)))
            kinds = kinds_of(contents.kinds, entry.kinds)
            after = entry.model_copy(
                update={
                    "candidates": entry.candidates + len(contents),
                    "next_position": entry.next_position + len(contents),
                    "corpus_vectors": sum_hashes([bytes.fromhex(load.corpus)], start=entry.corpus_vectors),
                    "corpus_texts": None if load.texts is None else sum_hashes([bytes.fromhex(load.texts)], start=entry.corpus_texts),
                    "largest_norm": max(entry.largest_norm, float(contents.norms.max())),
                    "kinds": kinds,
                }
            )
            write_entry(client, self._collection, entry.model_copy(update={"adding": True}))
            if kinds != entry.kinds and not self._server.local:
                index_fields(client, self._collection, after)
            step = chunk_rows(built.dimensions)
            for start in range(0, len(contents), step):
                rows = slice(start, min(start + step, len(contents)))
                put_points(client, self._collection, load, rows, entry=after, first=entry.next_position)
            write_entry(client, self._collection, after)
        self._manifest = _now(built, after)

    def delete(self, ids: Sequence[str]) -> None:
        """Take candidates out; see `Index.delete`."""
        with self._server.calls("while deleting") as client:
            entry = self._repaired(client, self._entry(client))
            payloads = self._payloads(client, ids)
            gone = [payloads[name] for name in check_known_ids(ids, payloads)]
            if not gone:
                return
            texts = entry.corpus_texts
            if texts is not None:
                texts = contents_hash(((one["id"], one["text"].encode("utf-8")) for one in gone), start=texts, take_away=True)
            after = entry.model_copy(
                update={
                    "candidates": entry.candidates - len(gone),
                    "corpus_vectors": sum_hashes((bytes.fromhex(one["hash"]) for one in gone), start=entry.corpus_vectors, take_away=True),
                    "corpus_texts": texts,
                }
            )
            points = tuple(point_id(one["id"]) for one in gone)
            write_entry(client, self._collection, after.model_copy(update={"leaving": points}))
            drop_points(client, self._collection, points)
            write_entry(client, self._collection, after)
        self._manifest = _now(self._built, after)

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The texts of candidates, where the index was given them."""
        with self._server.calls("while reading texts") as client:
            payloads = self._payloads(client, ids)
        check_present(ids, payloads)
        return [payloads[name].get("text") for name in ids]

    def metadata(self, ids: Sequence[str]) -> list[Mapping[str, Value]]:
        """The metadata of candidates; see `Index.metadata`."""
        with self._server.calls("while reading metadata") as client:
            entry = self._entry(client)
            payloads = self._payloads(client, ids, fields=metadata_fields(entry))
        check_present(ids, payloads)
        return [metadata_of(payloads[name], entry) for name in ids]

    def save(self) -> None:
        """Write an index in local mode as it is now over its folder; see `Index.save`."""
        if self._server.local:
            with replaced(self._folder, self._built, seal=seal_of(self._built)) as folder, self._server.calls("while saving") as client:
                write_points(client, self._collection, self._entry(client), folder)
                manifest = write_manifest(folder, self._manifest)
            self._built = self._manifest = manifest

    def close(self) -> None:
        """Let go of connections; in local mode what was not saved is lost, and the index answers no more."""
        self._server.close()

    def _entry(self, client: QdrantClient) -> Entry:
        """What the collection says now; somebody may have built another index under this name meanwhile."""
        name, where = self._collection, self._server.where
        try:
            entry = read_entry(client, name)
        except (UnexpectedResponse, ValueError) as error:
            if isinstance(error, UnexpectedResponse) and error.status_code != _NOT_FOUND:
                raise
            raise InputError(f"{where} holds no collection {name!r} (any more): open the index again, or build it there") from None
        if entry is None:
            raise InputError(f"collection {name!r} at {where} is no index of normwise: open the folder of an index that is there")
        if entry.state == "loading":
            raise InputError(f"collection {name!r} at {where} is half loaded: run the same build again, and it goes on where it stopped")
        if not self._server.local:
            check_owner(f"collection {self._built.name!r} at {where}", identity=entry.identity, own=self._identity, built_at=entry.built_at)
        return entry

    def _repaired(self, client: QdrantClient, entry: Entry) -> Entry:
        """Take back an addition that was cut off, and finish a deletion that was."""
        if not entry.adding and not entry.leaving:
            return entry
        if entry.adding:
            drop_from(client, self._collection, entry.next_position)
        if entry.leaving:
            drop_points(client, self._collection, entry.leaving)
        whole = entry.model_copy(update={"adding": False, "leaving": ()})
        write_entry(client, self._collection, whole)
        return whole

    def _payloads(self, client: QdrantClient, ids: Sequence[str], *, fields: Sequence[str] = ("hash", "text")) -> dict[str, dict[str, Any]]:
        """What stands beside the vectors of ids, those that are there; what can be no id of ours is not."""
        names = [name for name in ids if isinstance(name, str) and not any(0xD800 <= ord(letter) < 0xE000 for letter in name)]
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(names), _RETRIEVED):
            points = [point_id(name) for name in names[start : start + _RETRIEVED]]
            for record in client.retrieve(self._collection, ids=points, with_payload=["id", *fields]):
                payload = record.payload or {}
                found[payload["id"]] = payload
        return found


def _now(manifest: IndexManifest, entry: Entry) -> IndexManifest:
    return manifest_now(manifest, candidates=entry.candidates, vectors=entry.corpus_vectors, texts=entry.corpus_texts, kinds=entry.types)
