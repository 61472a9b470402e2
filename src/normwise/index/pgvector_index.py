"""The door to pgvector: what needs its driver is imported behind it."""

from __future__ import annotations

from pathlib import Path

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.index_records import IndexManifest
from normwise.index.protocol import Index
from normwise.index.request import BuildRequest


def build_pgvector(request: BuildRequest) -> Index:
    """Build a request on the PostgreSQL server at its `url`.

    Raises:
        InputError: address, name, width, or a server that does not let this user in.
        WorkError: the server is down or refuses.
        MissingExtraError: the driver is not installed.
    """
    _need_driver()
    from normwise.index.pgvector_build import build_table
    from normwise.index.pgvector_server import PgServer

    if request.config.url is None:
        raise InputError('engine pgvector needs url, as in url = "postgresql://user@host:5432/database"')
    server = PgServer(request.config.url)
    try:
        return build_table(request, server)
    except BaseException:
        server.close()
        raise


def open_pgvector(folder: Path, manifest: IndexManifest, *, url: str | None) -> Index:
    """Open the table that a manifest names.

    Args:
        folder: where the manifest is, for messages.
        manifest: what was built.
        url: the address with its password; None takes the one in the manifest, and the password from PGPASSWORD or ~/.pgpass.

    Raises:
        InputError: the address, a server that does not let this user in, or a table that is missing or half loaded.
        WorkError: the server is down, or the table is not the one that was built.
        MissingExtraError: the driver is not installed.
    """
    _need_driver()
    from normwise.index.pgvector_server import PgServer
    from normwise.index.pgvector_table import PgVectorIndex

    address = url if url is not None else manifest.location
    if address is None or manifest.name is None:
        raise InputError(f"the index in {folder} does not say where its table is: build the index again")
    server = PgServer(address)
    try:
        return PgVectorIndex(server, manifest.name, manifest)
    except BaseException:
        server.close()
        raise


def _need_driver() -> None:
    for module, package in (("psycopg", "psycopg"), ("pgvector.psycopg", "pgvector")):
        try:
            __import__(module)
        except ImportError:
            raise MissingExtraError(package, extra="index") from None
