"""Reading and writing the manifest of an index folder: every file is known by its hash, and opening checks all of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from normwise.core.errors import InputError
from normwise.core.files import read_json, refusal, write_json
from normwise.core.index_records import IndexManifest
from normwise.index.protocol import Index

MANIFEST = "index.json"
_FORMAT = 1
_CHUNK = 1 << 20
_AGAIN = 'copy the folder again, or build the index again ("normwise index build")'


def open_index(path: str | Path, *, url: str | None = None) -> Index:
    """Open an index folder, whichever engine holds the vectors.

    Args:
        path: the folder that `build_index` made.
        url: the address of the server, where the one in the folder is not to be used (it never holds a password).

    Raises:
        InputError: no such folder, none of ours, a newer format, or a file that is missing, cut short or changed; the message
            names it and says what to do.
        WorkError: a server is down or holds something else.
        MissingExtraError: the engine's library is not installed.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    if manifest.engine == "pgvector":
        from normwise.index.pgvector_index import open_pgvector

        return open_pgvector(folder, manifest, url=url)
    if manifest.engine == "qdrant":
        from normwise.index.qdrant_index import open_qdrant

        return open_qdrant(folder, manifest, url=url)
    if url is not None:
        raise InputError(f"url came, and the index in {folder} is held by faiss in that folder: leave url out")
    from normwise.index.faiss_index import open_faiss

    return open_faiss(folder, manifest)


def read_manifest(folder: Path) -> IndexManifest:
    """Read `index.json` and check every file that it names.

    Raises:
        InputError: as `open_index`.
    """
    if not folder.is_dir():
        came = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {came}: expected a folder that build_index made")
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"{folder} holds no {MANIFEST}: it is not an index of normwise; name the folder that build_index made")
    values = read_json(path)
    _check_format(path, values)
    try:
        manifest = IndexManifest.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise InputError(f"{path}: {key}: {problem['msg']}; {_AGAIN}") from None
    for name, wanted in manifest.files.items():
        _check_file(folder / name, wanted, inside=folder)
    return manifest


def check_out(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that an index may not replace.

    Raises:
        InputError: it exists and `overwrite` is false, or it holds something else than an index.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MANIFEST).is_file()):
        raise InputError(f"{folder} is not an index of normwise: refusing to replace it; choose another folder")
    if not overwrite:
        raise InputError(f"{folder} exists already: pass --overwrite to replace it, or choose another folder")


def write_manifest(folder: Path, manifest: IndexManifest) -> IndexManifest:
    """Write `index.json` beside the other files of a new folder, with the hash of each of them.

    Returns:
        The manifest with `files`.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    manifest = manifest.model_copy(update={"files": {name: file_hash(folder / name) for name in names}})
    write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _check_format(path: Path, values: Any) -> None:
    number = values.get("format") if isinstance(values, dict) else None
    if not isinstance(number, int) or not {"engine", "method", "files"} <= set(values):
        raise InputError(f"{path} is not the manifest of an index; name the folder that build_index made")
    if number > _FORMAT:
        raise InputError(
            f"{path} has format {number}, and this normwise reads up to {_FORMAT}: update normwise, or build the index again with this one"
        )


def _check_file(path: Path, wanted: str, *, inside: Path) -> None:
    if not path.resolve().is_relative_to(inside.resolve()):
        raise InputError(f"{inside / MANIFEST} names the file {path}, outside its folder: {_AGAIN}")
    if not path.is_file():
        raise InputError(f"{path} is missing, and {MANIFEST} names it: {_AGAIN}")
    try:
        found = file_hash(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {refusal(error)}") from None
    if found != wanted:
        raise InputError(f"{path} is cut short or was changed: its SHA-256 is not the one in {MANIFEST}; {_AGAIN}")
