"""Reading and writing the manifest of an index folder: every file is known by its hash, and opening checks all of them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import ValidationError

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json, refusal, write_json
from normwise.core.folder_swap import is_being_replaced, refuse_left_aside
from normwise.core.index_records import IndexManifest
from normwise.index.protocol import Index

MANIFEST = "index.json"
_FORMAT = 1
_SEAL = "seal"
_KEYS = frozenset({"format", "engine", "method", "similarity", "files"})
# Lies in the folder by custom, and is kept when the index is replaced.
GUEST = "calibration.json"
_CHUNK = 1 << 20
_TRIES, _SWAP_SECONDS = 5, 0.05
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
    for _ in range(_TRIES):
        before = _written(folder)
        try:
            index = _open(folder, url=url)
        except Exception:
            # Of half an old folder and half a new one anything may come: a map longer than its file, rows that do not fit.
            if before is None:
                time.sleep(_SWAP_SECONDS)
            if _written(folder) == before and not is_being_replaced(folder):
                raise
            continue
        if _written(folder) == before:
            return index
        index.close()
    raise WorkError(f"{folder} was replaced {_TRIES} times while it was read: try again when nobody changes it")


def _written(folder: Path) -> tuple[int, int] | None:
    """Which manifest lies there now: a save by somebody else replaces the whole folder, also in the middle of reading it."""
    try:
        state = (folder / MANIFEST).stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns


def _open(folder: Path, *, url: str | None) -> Index:
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
        refuse_left_aside(folder)
        came = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {came}: expected a folder that build_index made")
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"{folder} holds no {MANIFEST}: it is not an index of normwise; name the folder that build_index made")
    values = read_json(path)
    _check_format(path, values)
    seal = values.pop(_SEAL, None)
    try:
        manifest = IndexManifest.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise InputError(f"{path}: {key}: {problem['msg']}; {_AGAIN}") from None
    for name, wanted in manifest.files.items():
        _check_file(folder / name, wanted, inside=folder)
    if seal != _seal_of(values):
        raise InputError(f"{path} was changed: the hash at its end is not that of the rest; {_AGAIN}")
    return manifest


def check_out(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that an index may not replace.

    Raises:
        InputError: it exists and `overwrite` is false, it holds something else than an index, be it beside one, or it is missing
            since a writer was killed in the middle of replacing it.
    """
    refuse_left_aside(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is not an index of normwise: refusing to replace it; choose another folder")
    inside = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    manifest = _read_if_json(folder / MANIFEST)
    if inside and not _is_manifest(manifest):
        raise InputError(f"{folder} is not an index of normwise: refusing to replace it; choose another folder")
    if not overwrite:
        raise InputError(f"{folder} exists already: pass --overwrite to replace it, or choose another folder")
    ours = {MANIFEST, GUEST, *(manifest["files"] if _is_manifest(manifest) else ())}
    foreign = [name for name in inside if name not in ours]
    if foreign:
        raise InputError(
            f"{folder} holds {foreign[0]!r}, which is no part of the index: refusing to replace it; move it away, or choose another folder"
        )


def write_manifest(folder: Path, manifest: IndexManifest) -> IndexManifest:
    """Write `index.json` beside the other files of a new folder, with the hash of each of them.

    Returns:
        The manifest with `files`.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    manifest = manifest.model_copy(update={"files": {name: file_hash(folder / name) for name in names}})
    write_json(folder / MANIFEST, {**manifest.model_dump(mode="json"), _SEAL: seal_of(manifest)})
    return manifest


def seal_of(manifest: IndexManifest) -> str:
    """The hash that stands in `index.json` behind a manifest."""
    return _seal_of(manifest.model_dump(mode="json"))


def check_unchanged(folder: Path, seal: str) -> None:
    """Refuse to write over an index that somebody else has written since it was opened.

    Args:
        folder: of the index.
        seal: `seal_of` the manifest that was opened.

    Raises:
        WorkError: another manifest lies there now.
    """
    values = _read_if_json(folder / MANIFEST)
    if isinstance(values, dict) and values.get(_SEAL) != seal:
        raise WorkError(f"{folder} was changed by somebody else since it was opened: nothing was saved; make the change once more")


def _seal_of(values: Mapping[str, Any]) -> str:
    """The hash of everything else in a manifest, so that a change in it is seen as one in any other file is."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _check_format(path: Path, values: Any) -> None:
    number = values.get("format") if isinstance(values, dict) else None
    if not isinstance(number, int) or not _is_manifest(values):
        raise InputError(f"{path} is not the manifest of an index; name the folder that build_index made")
    if number > _FORMAT:
        raise InputError(
            f"{path} has format {number}, and this normwise reads up to {_FORMAT}: update normwise, or build the index again with this one"
        )


def _is_manifest(values: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(values, dict) and set(values) >= _KEYS and isinstance(values["files"], dict)


def _read_if_json(path: Path) -> Any:
    try:
        return read_json(path)
    except InputError:
        return None


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
