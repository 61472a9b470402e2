"""The server's own register of indexes: which tables are whole, what is in them, and how far a load has come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from normwise.core.errors import InputError, WorkError
from normwise.index.identity import check_owner
from normwise.index.pgvector_sql import REGISTER, named, run

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool)}
_COLUMNS = (
    "fingerprint, loaded, candidates, next_position, corpus_vectors, corpus_texts, built_vectors, largest_norm, kinds, manifest, "
    "identity, built_at"
)
_TABLE = f"""CREATE TABLE IF NOT EXISTS {REGISTER} (
    name text NOT NULL, state text NOT NULL CHECK (state IN ('loading', 'ready')), fingerprint text NOT NULL,
    loaded bigint NOT NULL, candidates bigint NOT NULL, next_position bigint NOT NULL,
    corpus_vectors text NOT NULL, corpus_texts text, built_vectors text NOT NULL,
    largest_norm double precision NOT NULL, kinds text NOT NULL, manifest text,
    identity text, built_at text, PRIMARY KEY (name, state))"""


@dataclass(frozen=True)
class Entry:
    """What the register says of a table.

    Args:
        fingerprint: hash of contents and settings that the table is or was filled from.
        loaded: rows that are in it for good.
        candidates: how many it holds, or is to hold.
        next_position: the number of the next row that is added.
        corpus_vectors: order-free hash of what it holds now.
        corpus_texts: the same of texts.
        built_vectors: the hash when it was built.
        largest_norm: the largest norm when it was built.
        kinds: the type of each metadata key.
        manifest: the manifest as built, JSON; None while loading.
        identity: the token that it shares with its folder; None while loading.
        built_at: when that folder was written; None before.
    """

    fingerprint: str
    loaded: int
    candidates: int
    next_position: int
    corpus_vectors: str
    corpus_texts: str | None
    built_vectors: str
    largest_norm: float
    kinds: Mapping[str, type]
    manifest: str | None = None
    identity: str | None = None
    built_at: str | None = None


def make_register(connection: psycopg.Connection) -> None:
    """Make the register where the database has none."""
    # Two that make it at once would collide inside the server, IF NOT EXISTS or not.
    run(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", REGISTER)
    run(connection, _TABLE)


def read_entry(connection: psycopg.Connection, name: str, state: str, *, lock: bool = False) -> Entry | None:
    """Read what the register says of a table, and hold it for the rest of the transaction where `lock`."""
    statement = f"SELECT {_COLUMNS} FROM {REGISTER} WHERE name = %s AND state = %s"
    row = run(connection, f"{statement} FOR UPDATE" if lock else statement, name, state).fetchone()
    if row is None:
        return None
    values: dict[str, Any] = dict(zip(_COLUMNS.split(", "), row, strict=True))
    values["kinds"] = kinds_from(values["kinds"])
    return Entry(**values)


def write_entry(connection: psycopg.Connection, name: str, state: str, entry: Entry) -> None:
    """Write what the register says of a table, whether it said something before or not."""
    columns = _COLUMNS.split(", ")
    values = [kinds_text(entry.kinds) if column == "kinds" else getattr(entry, column) for column in columns]
    marks = ", ".join(["%s"] * len(columns))
    changes = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
    run(
        connection,
        f"INSERT INTO {REGISTER} (name, state, {_COLUMNS}) VALUES (%s, %s, {marks}) ON CONFLICT (name, state) DO UPDATE SET {changes}",
        name,
        state,
        *values,
    )


def remove_entry(connection: psycopg.Connection, name: str, state: str) -> None:
    """Take a table out of the register."""
    run(connection, f"DELETE FROM {REGISTER} WHERE name = %s AND state = %s", name, state)


def table_exists(connection: psycopg.Connection, table: str) -> bool:
    """Whether a table (view, sequence, index) of that name is where ours would be made or found."""
    row = run(connection, "SELECT to_regclass(quote_ident(%s)) IS NOT NULL", table).fetchone()
    return bool(row and row[0])


def count_rows(connection: psycopg.Connection, table: str) -> int:
    """How many rows a table has."""
    row = run(connection, named("SELECT count(*) FROM {}", table)).fetchone()
    return int(row[0]) if row else 0


def ready_entry(connection: psycopg.Connection, name: str, *, where: str, lock: bool = False) -> Entry:
    """Read the entry of a table that answers queries.

    Raises:
        InputError: there is none, or its load never came to its end.
    """
    if not table_exists(connection, REGISTER):
        raise InputError(f"{where} has no index of normwise in this database: build it there, or name the right address")
    entry = read_entry(connection, name, "ready", lock=lock)
    if entry is None and read_entry(connection, name, "loading") is not None:
        raise InputError(f"table {name!r} at {where} is half loaded: run the same build again, and it goes on where it stopped")
    if entry is None:
        raise InputError(f"{where} holds no index named {name!r}: build it there, or name the right address")
    return entry


def check_whole(connection: psycopg.Connection, name: str, entry: Entry, *, identity: str | None, where: str) -> None:
    """Check that a table is the one that a folder was built with, with as many rows as the register says.

    Raises:
        WorkError: it was built anew, is gone, or rows came or went behind our back.
    """
    check_same(entry, name, identity=identity, where=where)
    if not table_exists(connection, name):
        raise WorkError(f"table {name!r} at {where} is gone, though the register names it: build the index again with --overwrite")
    rows = count_rows(connection, name)
    if rows != entry.candidates:
        raise WorkError(
            f"table {name!r} at {where} has {rows:,} rows and should have {entry.candidates:,}: something else than normwise changed it; "
            "build the index again with --overwrite"
        )


def check_same(entry: Entry, name: str, *, identity: str | None, where: str) -> None:
    """Check that a table belongs to the folder with this token.

    Raises:
        WorkError: another build has replaced it.
    """
    check_owner(f"table {name!r} at {where}", identity=entry.identity, own=identity, built_at=entry.built_at)


def kinds_text(kinds: Mapping[str, type]) -> str:
    """The types of metadata keys as JSON.

    Example:
        >>> kinds_from(kinds_text({"year": int}))
        {'year': <class 'int'>}
    """
    return json.dumps({key: kind.__name__ for key, kind in kinds.items()}, ensure_ascii=False)


def kinds_from(text: str) -> dict[str, type]:
    """Read what `kinds_text` wrote."""
    return {key: _KINDS[name] for key, name in json.loads(text).items()}
