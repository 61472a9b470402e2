"""Bulk load into a staging table, a chunk a transaction: a load that was killed answers no query, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import psycopg
from psycopg import sql
from psycopg.copy import LibpqWriter

from normwise.core.errors import InputError, WorkError
from normwise.index.contents import Contents
from normwise.index.load_contents import LoadContents, json_object
from normwise.index.pgvector_register import (
    Entry,
    count_rows,
    make_register,
    read_entry,
    remove_entry,
    table_exists,
    write_entry,
)
from normwise.index.pgvector_rows import HEADER, TRAILER, RowChunk, column_names, encode_rows
from normwise.index.pgvector_server import PgServer, setting
from normwise.index.pgvector_sql import REGISTER, Layout, create_table, named, run, staging_name

# What is lost at most when a load is killed, and what one transaction holds.
CHUNK_BYTES = 64 << 20
# What is laid out at a time.
_PIECE_BYTES = 1 << 20
# The driver sends what the server takes and keeps the rest, so that rows are hashed and laid out meanwhile.
_UNSENT_BYTES = 8 << 20
_LOCK_SECONDS = 30
_ROW_OVERHEAD = 128


@dataclass(frozen=True)
class Load:
    """What is to be loaded, in the form in which it is stored.

    Args:
        name: the table's name when it is whole.
        hashed: the candidates as they are stored.
        begun: what the register says of it until its first rows are in for good; its fingerprint is a name of its own.
        log: takes one line of words for each chunk.
    """

    name: str
    hashed: LoadContents
    begun: Entry
    log: Callable[[str], None]

    @property
    def contents(self) -> Contents:
        """The candidates."""
        return self.hashed.contents

    @property
    def entry(self) -> Entry:
        """What the register says of it while it loads; the hashes of the corpus come at the end (`whole_entry`)."""
        return replace(self.begun, fingerprint=self.hashed.fingerprint)

    @property
    def whole_entry(self) -> Entry:
        """What the register is to say of it when it is whole."""
        corpus = self.hashed.corpus
        return replace(self.entry, loaded=len(self.contents), corpus_vectors=corpus, built_vectors=corpus, corpus_texts=self.hashed.texts)

    @property
    def staging(self) -> Layout:
        """The table that is filled."""
        return Layout(staging_name(self.name), self.contents.dimensions)


def prepare_load(name: str, contents: Contents, vectors: np.ndarray, log: Callable[[str], None]) -> Load:
    """Begin to take the fingerprint of contents, so that a load that goes on is known to go on with the same ones."""
    hashed = LoadContents(contents, vectors)
    begun = Entry(
        fingerprint=f"begun {uuid4().hex}",
        loaded=0,
        candidates=len(contents),
        next_position=len(contents),
        corpus_vectors="",
        corpus_texts=None,
        built_vectors="",
        largest_norm=float(contents.norms.max()),
        kinds=contents.kinds,
    )
    return Load(name, hashed, begun, log)


def load_rows(server: PgServer, load: Load, *, overwrite: bool) -> None:
    """Fill the staging table, from where an earlier try of the same load stopped.

    Raises:
        InputError: a load of other contents stands half done under this name and `overwrite` is false.
        WorkError: the server was lost or refused; the same call goes on.
    """
    done = _begin(server, load, overwrite=overwrite)
    total = len(load.contents)
    step = max(1, CHUNK_BYTES // (4 * load.contents.dimensions + _ROW_OVERHEAD))
    for start in range(done, total, step):
        stop = min(start + step, total)
        with server.transaction("while loading", unlimited=True) as connection:
            setting(connection, "lock_timeout", f"{_LOCK_SECONDS}s")
            _count_in(connection, load, start=start, stop=stop)
            copy_rows(connection, load.staging.table, load_chunks(load, start, stop))
            if not start:
                write_entry(connection, load.name, "loading", replace(load.entry, loaded=stop))
        load.log(f"loaded {stop:,} of {total:,} rows")


def copy_rows(connection: psycopg.Connection, table: str, chunks: Iterator[RowChunk]) -> None:
    """Send rows through binary COPY, piece by piece."""
    # COPY takes no parameters: the identifiers are quoted as they are.
    columns = sql.SQL(", ").join(map(sql.Identifier, column_names()))
    statement = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT BINARY)").format(sql.Identifier(table), columns)
    cursor = connection.cursor()
    with cursor.copy(statement, writer=LibpqWriter(cursor, flush_threshold=_UNSENT_BYTES)) as copy:
        copy.write(HEADER)
        for chunk in chunks:
            copy.write(encode_rows(chunk))
        copy.write(TRAILER)


def load_chunks(load: Load, start: int, stop: int, *, first_position: int = 0) -> Iterator[RowChunk]:
    """Cut rows of a load into pieces."""
    contents = load.contents
    step = max(1, _PIECE_BYTES // (4 * contents.dimensions + _ROW_OVERHEAD))
    for low in range(start, stop, step):
        rows = slice(low, min(low + step, stop))
        yield RowChunk(
            position=np.arange(rows.start, rows.stop) + first_position,
            ids=contents.ids[rows],
            vectors=load.hashed.vectors[rows],
            norms=contents.norms[rows],
            hashes=load.hashed.hashes(rows),
            lengths=None if contents.lengths is None else contents.lengths[rows],
            texts=None if contents.texts is None else contents.texts[rows],
            metadata=None if contents.metadata is None else [json_object(row) for row in contents.metadata[rows]],
        )


def _begin(server: PgServer, load: Load, *, overwrite: bool) -> int:
    """Make the staging table, or find it; the number of rows that are in it for good."""
    staging = load.staging
    with server.transaction("while preparing the load") as connection:
        setting(connection, "lock_timeout", f"{_LOCK_SECONDS}s")
        make_register(connection)
        entry = read_entry(connection, load.name, "loading", lock=True)
        exists = table_exists(connection, staging.table)
        # A load of which no row is in for good is in nobody's way.
        held = entry if entry is not None and entry.loaded else None
        same = held is not None and held.fingerprint == load.entry.fingerprint
        if held is not None and not same and not overwrite:
            raise InputError(
                f"table {load.name!r} at {server.url.shown} is half loaded with other contents ({held.loaded:,} of {held.candidates:,} "
                "rows): run the build that began it, pass --overwrite to throw its rows away, or choose another name"
            )
        if held is not None and same and exists and count_rows(connection, staging.table) == held.loaded:
            load.log(f"went on with the load that stopped after {held.loaded:,} of {held.candidates:,} rows")
            return held.loaded
        drop_staging(connection, load.name)
        run(connection, create_table(staging))
        write_entry(connection, load.name, "loading", load.begun)
    return 0


def drop_staging(connection: psycopg.Connection, name: str) -> None:
    """Throw away what a load of this name left."""
    run(connection, named("DROP TABLE IF EXISTS {}", staging_name(name)))
    remove_entry(connection, name, "loading")


def _count_in(connection: psycopg.Connection, load: Load, *, start: int, stop: int) -> None:
    """Note the rows of a chunk before they come, in their own transaction; it also keeps a second loader out."""
    statement = f"UPDATE {REGISTER} SET loaded = %s WHERE name = %s AND state = 'loading' AND fingerprint = %s AND loaded = %s"
    fingerprint = load.entry.fingerprint if start else load.begun.fingerprint
    if run(connection, statement, stop, load.name, fingerprint, start).rowcount != 1:
        raise WorkError(f"table {load.name!r} is loaded by another build at the same time: let one of them end, then run the other again")
