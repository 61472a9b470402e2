"""An index whose vectors stand in a table of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg

from normwise.core.contents_hash import contents_hash
from normwise.core.index_records import IndexManifest
from normwise.core.similarity import Similarity
from normwise.index.checks import Value
from normwise.index.contents import Known, check_contents
from normwise.index.pgvector_load import copy_rows, load_chunks, prepare_load
from normwise.index.pgvector_register import Entry, check_same, check_whole, ready_entry, write_entry
from normwise.index.pgvector_search import TOGETHER, Asked, search_table
from normwise.index.pgvector_server import PgServer
from normwise.index.pgvector_sql import EFFORT_NAMES, Layout, create_graph, drop_graphs, named, run
from normwise.index.protocol import Found, Where
from normwise.index.questions import check_k, check_known_ids, check_new_ids, check_present, check_queries, check_where
from normwise.index.row_hashes import sum_hashes
from normwise.index.served import Hit, found_of, manifest_now


class PgVectorIndex:
    """Candidates in a table; the register beside it says what they are, and is read again in every call.

    Args:
        server: where the table is.
        name: its name.
        manifest: as the index was built.
        identity: the token of its folder.

    Raises:
        InputError: the server does not let this user in, or holds no such index, or a half-loaded one.
        WorkError: the server is down, or the table is not the one that was built.
    """

    def __init__(self, server: PgServer, name: str, manifest: IndexManifest, *, identity: str | None) -> None:
        self._server, self._name, self._built, self._identity = server, name, manifest, identity
        with server.transaction("while opening the index") as connection:
            entry = ready_entry(connection, name, where=self._where)
            check_whole(connection, name, entry, identity=identity, where=self._where)
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
        hits: list[list[Hit]] = []
        # A time limit is one of a few statements, however many queries there are; no query at all is checked all the same.
        for start in range(0, max(1, directions.shape[0]), TOGETHER):
            with self._server.transaction("while searching") as connection:
                entry = self._entry(connection)
                wanted = check_where(where, entry.kinds)
                asked = Asked(self._layout(entry), entry.candidates, min(k, entry.candidates), self._effort, wanted)
                hits += search_table(connection, asked, directions[start : start + TOGETHER])
        scale = np.ones_like(lengths) if similarity.normalizes_query else lengths
        return found_of(hits, k=min(k, len(self)), scale=scale, with_lengths=self._built.has_lengths)

    def add(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        *,
        texts: Sequence[str] | None = None,
        lengths: np.ndarray | None = None,
        metadata: Sequence[Mapping[str, Value]] | None = None,
    ) -> None:
        """Add candidates, all or none; see `Index.add`."""
        built = self._built
        with self._server.transaction("while adding", unlimited=True) as connection:
            entry = self._entry(connection, lock=True)
            known = Known(built.dimensions, entry.kinds, built.has_texts, built.has_lengths)
            contents = check_contents(ids, vectors, texts=texts, lengths=lengths, metadata=metadata, known=known)
            check_new_ids(contents.ids, self._rows_of(connection, contents.ids))
            load = prepare_load(self._name, contents, contents.scored(Similarity(built.similarity)), lambda _: None)
            copy_rows(connection, self._name, load_chunks(load, 0, len(contents), first_position=entry.next_position))
            entry = replace(
                entry,
                candidates=entry.candidates + len(contents),
                next_position=entry.next_position + len(contents),
                corpus_vectors=_together(entry.corpus_vectors, load.hashed.corpus),
                corpus_texts=None if entry.corpus_texts is None else _together(entry.corpus_texts, load.hashed.texts),
                kinds=contents.kinds if metadata is not None else entry.kinds,
            )
            if load.begun.largest_norm > entry.largest_norm:
                entry = replace(entry, largest_norm=load.begun.largest_norm)
                if built.graph == "augmented":
                    options = drop_graphs(connection, self._name)
                    run(connection, create_graph(self._layout(entry), options))
            write_entry(connection, self._name, "ready", entry)
        self._manifest = _now(built, entry)

    def delete(self, ids: Sequence[str]) -> None:
        """Take candidates out, all or none; see `Index.delete`."""
        with self._server.transaction("while deleting", unlimited=True) as connection:
            entry = self._entry(connection, lock=True)
            names = check_known_ids(ids, self._rows_of(connection, ids))
            gone = run(connection, named("DELETE FROM {} WHERE id = ANY(%s) RETURNING id, row_hash, text", self._name), names).fetchall()
            texts = entry.corpus_texts
            if texts is not None:
                texts = contents_hash(((name, text.encode("utf-8")) for name, _, text in gone), start=texts, take_away=True)
            entry = replace(
                entry,
                candidates=entry.candidates - len(gone),
                corpus_vectors=sum_hashes((bytes(row) for _, row, _ in gone), start=entry.corpus_vectors, take_away=True),
                corpus_texts=texts,
            )
            write_entry(connection, self._name, "ready", entry)
        self._manifest = _now(self._built, entry)

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The texts of candidates, where the index was given them."""
        with self._server.transaction("while reading texts") as connection:
            self._entry(connection)
            rows = self._rows_of(connection, ids)
        check_present(ids, rows)
        return [rows[name] for name in ids]

    def metadata(self, ids: Sequence[str]) -> list[Mapping[str, Value]]:
        """The metadata of candidates; see `Index.metadata`."""
        with self._server.transaction("while reading metadata") as connection:
            kinds = self._entry(connection).kinds
            rows = self._rows_of(connection, ids, column="metadata")
        check_present(ids, rows)
        # JSON knows one kind of number: 3.0 may come back as 3.
        return [{key: kinds[key](value) for key, value in (rows[name] or {}).items()} for name in ids]

    def save(self) -> None:
        """Nothing: every change is in the table when the call that makes it returns."""

    def close(self) -> None:
        """Let go of the connection; the next call opens another."""
        self._server.close()

    @property
    def _where(self) -> str:
        return f"PostgreSQL at {self._server.url.shown}"

    @property
    def _effort(self) -> int:
        return self._built.effort.get(EFFORT_NAMES.get(self._built.method, ""), 0)

    def _entry(self, connection: psycopg.Connection, *, lock: bool = False) -> Entry:
        """What the register says now; somebody may have built another index under this name meanwhile."""
        entry = ready_entry(connection, self._name, where=self._where, lock=lock)
        check_same(entry, self._name, identity=self._identity, where=self._where)
        self._manifest = _now(self._built, entry)
        return entry

    def _layout(self, entry: Entry) -> Layout:
        built = self._built
        graph = built.graph
        if built.method == "exact":
            graph = "directions" if Similarity(built.similarity).normalizes_candidate else "inner product"
        return Layout(self._name, built.dimensions, built.method, graph, entry.largest_norm)

    def _rows_of(self, connection: psycopg.Connection, ids: Sequence[str], *, column: str = "text") -> dict[str, Any]:
        """Ids that the table holds, with their texts or metadata; what can be no id of ours is not there."""
        names = [name for name in ids if isinstance(name, str) and _storable(name)]
        statement = named("SELECT id, {} FROM {} WHERE id = ANY(%s)", column, self._name)
        return dict(run(connection, statement, names).fetchall())


def _storable(name: str) -> bool:
    return "\0" not in name and name.isascii() or not any(0xD800 <= ord(letter) < 0xE000 or letter == "\0" for letter in name)


def _together(one: str, other: str | None) -> str:
    return one if other is None else sum_hashes([bytes.fromhex(other)], start=one)


def _now(manifest: IndexManifest, entry: Entry) -> IndexManifest:
    return manifest_now(manifest, candidates=entry.candidates, vectors=entry.corpus_vectors, texts=entry.corpus_texts, kinds=entry.kinds)
