"""Which folder a server's table or collection belongs to: a random token on both sides, so that no two folders share one unawares."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json, write_json

_FILE = "server.json"


def new_identity() -> str:
    """A token that no other build has."""
    return secrets.token_hex(16)


def time_now() -> str:
    """The time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())


def write_identity(folder: Path, identity: str) -> None:
    """Write a build's token into its folder."""
    write_json(folder / _FILE, {"identity": identity})


def read_identity(folder: Path) -> str | None:
    """The token in a folder, None where there is none."""
    path = folder / _FILE
    return read_json(path)["identity"] if path.exists() else None


def check_owner(what: str, *, identity: str | None, own: str | None, built_at: str | None) -> None:
    """Check that a table or collection is still the one that this folder was built with.

    Args:
        what: it, for messages.
        identity: the token that it has now.
        own: the token of the folder.
        built_at: when the folder of its build was written; None where that build is not done, or was stopped before.

    Raises:
        WorkError: another build replaced it.
    """
    if identity == own:
        return
    if built_at is None:
        raise WorkError(
            f"{what} was replaced by a build that has not written its folder: if none is at work, run that same build again, "
            "with --overwrite where its folder stands, to finish it; or build this index again under another name"
        )
    raise WorkError(f"{what} was built anew at {built_at}: open the folder of that build, or build this index again under another name")


def refuse_taken(what: str, *, built_at: str | None) -> None:
    """Refuse to build over an index that belongs to another folder.

    Args:
        what: the table or collection, for messages.
        built_at: when the folder of its build was written; None where that build was stopped before.

    Raises:
        InputError: always.
    """
    if built_at is None:
        raise InputError(
            f"{what} is left of a build that was stopped before it wrote its folder: run that build again, choose another name, "
            "or pass --overwrite to build it anew"
        )
    raise InputError(
        f"{what} belongs to the index that was built at {built_at}: open the folder of that build, choose another name, "
        "or pass --overwrite to build it anew"
    )
