"""The door to pgvector: what needs its driver is imported behind it."""

from __future__ import annotations

from pathlib import Path

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest
from normwise.index.identity import read_identity
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

    server = PgServer(_address(request.config))
    try:
        return build_table(request, server)
    except BaseException:
        server.close()
        raise


def check_pgvector(config: IndexConfig, out: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, what the PostgreSQL server would refuse after it.

    Raises:
        InputError: address, name, a server that does not let this user in, or another index of that name.
        WorkError: the server is down, has no pgvector, or grants too little.
        MissingExtraError: the driver is not installed.
    """
    _need_driver()
    from normwise.index.pgvector_claim import check_table
    from normwise.index.pgvector_server import PgServer

    server = PgServer(_address(config))
    try:
        check_table(config, out, server, overwrite=overwrite)
    finally:
        server.close()


def open_pgvector(folder: Path, manifest: IndexManifest, *, url: str | None) -> Index:
    """Open the table that a manifest names.

    Args:
        folder: where the manifest and the token of the build are.
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
        return PgVectorIndex(server, manifest.name, manifest, identity=read_identity(folder))
    except BaseException:
        server.close()
        raise


def _address(config: IndexConfig) -> str:
    if config.url is None:
        raise InputError('engine pgvector needs url, as in url = "postgresql://user@host:5432/database"')
    return config.url


def _need_driver() -> None:
    for module, package in (("psycopg", "psycopg"), ("pgvector.psycopg", "pgvector")):
        try:
            __import__(module)
        except ImportError:
            raise MissingExtraError(package, extra="index") from None
