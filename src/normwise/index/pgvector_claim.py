"""Whose a table's name is: looked at before any work, taken by a build, and tied to its folder at the end."""

from __future__ import annotations

import json
from pathlib import Path

from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index.identity import refuse_taken, time_now
from normwise.index.pgvector_load import Load
from normwise.index.pgvector_register import Entry, count_rows, read_entry, table_exists
from normwise.index.pgvector_server import PgServer
from normwise.index.pgvector_sql import REGISTER, check_name, run
from normwise.index.request import BuildRequest


def table_name(config: IndexConfig, out: Path) -> str:
    """The name of the table that a build makes; the folder's where the settings give none.

    Raises:
        InputError: no table can be called so.
    """
    return check_name(config.name if config.name is not None else out.resolve().name)


def check_table(config: IndexConfig, out: Path, server: PgServer, *, overwrite: bool) -> None:
    """Refuse, before any work, what the server would refuse after it.

    Raises:
        InputError: the settings, the name, or another index or table of that name.
        WorkError: the server is down, has no pgvector, or does not let this role make tables.
    """
    name = table_name(config, out)
    check_links(config)
    entry, _ = _standing(server, name)
    if entry is not None and entry.built_at is not None and not overwrite:
        refuse_taken(_called(server, name), built_at=entry.built_at)
    with server.transaction("while looking for the table") as connection:
        row = run(connection, "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE')").fetchone()
    if row is None or not row[1]:
        schema = "a schema" if row is None or row[0] is None else f"schema {row[0]!r}"
        raise WorkError(
            f"PostgreSQL at {server.url.shown} does not allow this while making tables in {schema}: grant the role that right "
            "(GRANT CREATE ON SCHEMA), or connect as another one"
        )


def check_links(config: IndexConfig) -> None:
    """Check what pgvector asks of a graph's settings.

    Raises:
        InputError: construction_effort is less than twice the links.
    """
    if config.method == "hnsw" and config.hnsw_construction < 2 * config.hnsw_links:
        raise InputError(
            f"construction_effort is {config.hnsw_construction} and links {config.hnsw_links}; "
            "pgvector wants a construction_effort of at least twice the links: raise it, or lower links"
        )


def settings_hash(request: BuildRequest, load: Load) -> str:
    """What a table that answers queries was built from: contents and every setting but where it stands."""
    settings = request.config.model_dump(mode="json", exclude={"url", "name"})
    return f"{load.entry.fingerprint} {json.dumps(settings, sort_keys=True)}"


def left_behind(request: BuildRequest, server: PgServer, load: Load) -> Entry | None:
    """What this very build left when it was stopped before it wrote its folder; None where it has to be made.

    Raises:
        InputError: a table that is not ours, or another index and no leave to replace it.
    """
    entry, rows = _standing(server, load.name)
    if entry is None:
        return None
    same = entry.fingerprint == settings_hash(request, load) and entry.manifest is not None
    if same and entry.built_at is None and entry.corpus_vectors == entry.built_vectors and rows == entry.candidates:
        request.log(f"table {load.name!r} had been built from the same vectors with the same settings: only its folder was missing")
        return entry
    if not request.overwrite:
        refuse_taken(_called(server, load.name), built_at=entry.built_at)
    return None


def tie_to_folder(server: PgServer, name: str, identity: str) -> None:
    """Note that the folder of a build is written: from now on its table belongs to that folder.

    Raises:
        WorkError: another build has taken the table meanwhile.
    """
    statement = f"UPDATE {REGISTER} SET built_at = %s WHERE name = %s AND state = 'ready' AND identity = %s AND built_at IS NULL"
    with server.transaction("while noting that the index is whole") as connection:
        if run(connection, statement, time_now(), name, identity).rowcount != 1:
            raise WorkError(f"{_called(server, name)} was taken by another build at the same time: open the folder of that one")


def _standing(server: PgServer, name: str) -> tuple[Entry | None, int]:
    """The index that has a name now, and its rows.

    Raises:
        InputError: a table that is not ours.
    """
    with server.transaction("while looking for the table") as connection:
        entry = read_entry(connection, name, "ready") if table_exists(connection, REGISTER) else None
        taken = table_exists(connection, name)
        rows = count_rows(connection, name) if taken and entry is not None else 0
    if entry is None and taken:
        raise InputError(
            f"{server.url.shown} has a table {name!r} that is no index of normwise: choose another name; no flag replaces such a table"
        )
    return (entry if taken else None), rows


def _called(server: PgServer, name: str) -> str:
    return f"table {name!r} at {server.url.shown}"
