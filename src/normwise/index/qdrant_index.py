"""The door to Qdrant: what needs its client is imported behind it."""

from __future__ import annotations

from pathlib import Path

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest
from normwise.index.protocol import Index
from normwise.index.request import BuildRequest


def build_qdrant(request: BuildRequest) -> Index:
    """Build a request on the Qdrant server at its `url`, or in Qdrant's local mode where there is none.

    Raises:
        InputError: address, name, width, or a server that does not take the key.
        WorkError: the server is down or refuses.
        MissingExtraError: the client is not installed.
    """
    _need_client()
    from normwise.index.qdrant_build import build_collection
    from normwise.index.qdrant_server import QdrantServer

    server = QdrantServer(request.config.url)
    try:
        return build_collection(request, server)
    except BaseException:
        server.close()
        raise


def check_qdrant(config: IndexConfig, out: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, what the Qdrant server at `url` would refuse after it.

    Raises:
        InputError: address, name, a server that does not take the key, or another index of that name.
        WorkError: the server is down or too old.
        MissingExtraError: the client is not installed.
    """
    _need_client()
    from normwise.index.qdrant_claim import check_collection
    from normwise.index.qdrant_server import QdrantServer

    server = QdrantServer(config.url)
    try:
        check_collection(config, out, server, overwrite=overwrite)
    finally:
        server.close()


def open_qdrant(folder: Path, manifest: IndexManifest, *, url: str | None) -> Index:
    """Open the collection that a manifest names, or local mode with what is in the folder.

    Args:
        folder: where the manifest is.
        manifest: what was built.
        url: the address with its key; None takes the one in the manifest.

    Raises:
        InputError: the address, a server that does not take the key, or a collection that is missing or half loaded.
        WorkError: the server is down, or the collection is not the one that was built.
        MissingExtraError: the client is not installed.
    """
    _need_client()
    from normwise.index.qdrant_claim import collection_of
    from normwise.index.qdrant_local import read_points
    from normwise.index.qdrant_opened import QdrantIndex
    from normwise.index.qdrant_server import QdrantServer

    if manifest.name is None:
        raise InputError(f"the index in {folder} does not say what its collection is called: build the index again")
    if manifest.location is None and url is not None:
        raise InputError(f"url came, and the index in {folder} is held by Qdrant's local mode in that folder: leave url out")
    server = QdrantServer(url if url is not None else manifest.location)
    try:
        with server.calls("while opening the index") as client:
            if server.local:
                read_points(client, manifest.name, folder, dimensions=manifest.dimensions)
                collection = manifest.name
            else:
                collection = collection_of(client, manifest.name)
        if collection is None:
            raise InputError(f"{server.where} holds no index named {manifest.name!r}: build it there, or name the right address")
        return QdrantIndex(server, collection, manifest, folder=folder)
    except BaseException:
        server.close()
        raise


def _need_client() -> None:
    try:
        import qdrant_client  # noqa: F401
    except ImportError:
        raise MissingExtraError("qdrant_client", extra="index") from None
