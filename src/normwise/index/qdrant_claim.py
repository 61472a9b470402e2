"""Whose a collection's name is: looked at before any work, taken by a build, and tied to its folder at the end."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from qdrant_client import QdrantClient

from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index.identity import refuse_taken, time_now
from normwise.index.load_contents import LoadContents
from normwise.index.qdrant_collection import Entry, check_collection_name, count_points, read_entry, write_entry
from normwise.index.qdrant_server import QdrantServer
from normwise.index.request import BuildRequest


@dataclass(frozen=True)
class Work:
    """A build under way: `name` is what the alias will be, `collection` what holds the points."""

    request: BuildRequest
    server: QdrantServer
    load: LoadContents
    name: str
    collection: str


def check_collection(config: IndexConfig, out: Path, server: QdrantServer, *, overwrite: bool) -> None:
    """Refuse, before any work, what the server would refuse after it.

    Raises:
        InputError: the name, a server that does not take the key, or another index or collection of that name.
        WorkError: the server is down or too old.
    """
    name = name_of(config, out)
    with server.calls("while looking for the collection") as client:
        _, entry = _standing(client, server, name)
    if entry is not None and entry.built_at is not None and not overwrite:
        refuse_taken(_called(server, name), built_at=entry.built_at)


def name_of(config: IndexConfig, out: Path) -> str:
    """The name of the collection that a build makes; the folder's where the settings give none.

    Raises:
        InputError: no collection can be called so.
    """
    return check_collection_name(config.name if config.name is not None else out.resolve().name)


def _called(server: QdrantServer, name: str) -> str:
    return f"collection {name!r} at {server.where}"


def collection_of(client: QdrantClient, name: str) -> str | None:
    """The collection behind an alias; None where there is no such alias."""
    return next((one.collection_name for one in client.get_aliases().aliases if one.alias_name == name), None)


def collection_name(request: BuildRequest, server: QdrantServer, load: LoadContents, name: str) -> str:
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


def _standing(client: QdrantClient, server: QdrantServer, name: str) -> tuple[str | None, Entry | None]:
    """The collection that answers to a name now, and what it says of itself; None for both where there is none.

    Raises:
        InputError: a collection that is not ours.
    """
    live = collection_of(client, name)
    if live is None and client.collection_exists(name):
        raise InputError(
            f"{server.where} has a collection {name!r} that is no index of normwise: choose another name; no flag replaces such a one"
        )
    entry = None if live is None else read_entry(client, live)
    if live is not None and entry is None:
        raise InputError(f"{server.where} has an alias {name!r} to a collection that is no index of normwise: choose another name")
    return live, entry


def left_behind(client: QdrantClient, work: Work) -> Entry | None:
    """What this very build left when it was stopped before it wrote its folder; None where it has to be made.

    Raises:
        InputError: a collection that is not ours, another index and no leave to replace it, or half a load of other contents.
    """
    name, request = work.name, work.request
    live, entry = _standing(client, work.server, name)
    if live is not None and entry is not None and not request.overwrite:
        unchanged = entry.candidates == count_points(client, live) and entry.corpus_vectors == entry.built_vectors
        if live == work.collection and unchanged and entry.manifest is not None and entry.built_at is None:
            request.log(f"collection {name!r} had been built from the same vectors with the same settings: only its folder was missing")
            return entry
        refuse_taken(_called(work.server, name), built_at=entry.built_at)
    _drop_other_loads(client, work)
    return None


def tie_to_folder(client: QdrantClient, work: Work, entry: Entry) -> None:
    """Note that the folder of a build is written: from now on its collection belongs to that folder.

    Raises:
        WorkError: another build has taken the collection meanwhile.
    """
    now = read_entry(client, work.collection)
    if now is None or now.identity != entry.identity or now.built_at is not None:
        raise WorkError(f"{_called(work.server, work.name)} was taken by another build at the same time: open the folder of that one")
    write_entry(client, work.collection, now.model_copy(update={"built_at": time_now()}))


def _drop_other_loads(client: QdrantClient, work: Work) -> None:
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
