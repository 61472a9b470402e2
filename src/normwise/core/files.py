"""The one module that writes files: everything appears whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, WorkError
from normwise.core.folder_swap import behind_links, put_in_place, refuse_left_aside, remove_if_empty

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


# As tempfile names them for the writers of this module: .NAME.xxxxxxxx and .NAME.old.xxxxxxxx
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")


def refusal(error: OSError) -> str:
    """Say in words what the system refused, and the next step that fits.

    Example:
        >>> refusal(OSError(errno.ENOSPC, "No space left on device"))
        'No space left on device; free space or choose another folder'
        >>> refusal(OSError(errno.EACCES, "Permission denied"))
        'Permission denied; change the permissions or choose another folder'
    """
    steps = {
        **dict.fromkeys(_FULL, "free space or "),
        **dict.fromkeys(_FORBIDDEN, "change the permissions or "),
        **dict.fromkeys(_IN_THE_WAY, "a file stands where a folder should, or the other way round: move it or "),
        errno.ENAMETOOLONG: "choose a shorter name or ",
    }
    return f"{error.strerror or error}; {steps.get(error.errno or 0, '')}choose another folder"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part.

    Through a symbolic link the file that it names is written, and the link stays.

    Raises:
        WorkError: the disk refused; the old content is untouched.
    """
    named = path
    try:
        path = behind_links(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WorkError(f"could not write {named}: {refusal(error)}") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write plain data as indented JSON, atomically; see `write_bytes`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file of ours.

    Raises:
        InputError: the file is missing, cannot be read or is not JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        # ValueError is broken JSON, broken UTF-8, or an integer of more digits than Python reads.
        raise InputError(f"{path} is not valid JSON: {error}") from error


@contextmanager
def whole_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Fill a folder under a temporary name and move it into place at the end.

    Args:
        path: where the folder is to stand; must not exist unless `overwrite`.
        overwrite: replace an existing folder (only at the end, when the new one is whole).

    Yields:
        The temporary folder to write into.

    Raises:
        InputError: `path` exists, now or at the end, and `overwrite` is false; it is a file; or it is missing since a writer was
            killed in the middle of replacing it, and what stood there lies beside it.
        WorkError: the disk refused; what stood at `path` is untouched, and nothing else is left behind.
    """
    work: Path | None = None
    above: list[Path] = []
    try:
        target = behind_links(path)
        refuse_left_aside(path)
        if target.exists() and not overwrite:
            raise InputError(f"{path} exists already: pass --overwrite to replace it, or choose another folder")
        _refuse_file(path, target)
        above = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield work
        _open_to_others(work)
        if overwrite:
            _refuse_file(path, target)
        put_in_place(work, target, overwrite=overwrite)
    except BaseException as error:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for parent in above:
            remove_if_empty(parent)
        if isinstance(error, OSError):
            raise WorkError(f"could not write {path}: {refusal(error)}") from error
        raise


def _refuse_file(path: Path, target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise InputError(f"{path} is a file, and a folder never replaces one: choose another folder")


def _open_to_others(folder: Path) -> None:
    """Give a folder and its files the permissions that the user's umask asks for; some writers leave 0600 behind."""
    mask = _umask()
    os.chmod(folder, 0o777 & ~mask)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            os.chmod(path, (0o777 if path.is_dir() else 0o666) & ~mask)


def _sweep(folder: Path) -> None:
    """Delete what killed writers left under their temporary names, here and in the folders below."""
    for path in list(folder.rglob(".*")):
        if _TEMPORARY.fullmatch(path.name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


class RunFolder:
    """A run's folder: new, resumable or complete, never half a model that loads.

    `state.json` holds the fingerprint of the settings and whether the run is complete.
    `open` only looks; nothing is made or deleted before `start`, so that a run refused for its data costs nothing.
    """

    def __init__(self, path: Path, state: dict[str, Any], *, replaces: bool) -> None:
        self.path = path
        self._state = state
        self._replaces = replaces

    @classmethod
    def open(cls, path: Path, *, fingerprint: str, resume: bool, overwrite: bool) -> RunFolder:
        """Look whether a folder may hold a run with these settings.

        Args:
            path: the folder.
            fingerprint: a hash of everything that decides the result.
            resume: go on with an unfinished run of the same settings.
            overwrite: throw an existing run away (when `start` is called).

        Raises:
            InputError: the folder holds a run (or something else) and neither flag allows its use, or it was started
                with other settings.
        """
        fresh = {"fingerprint": fingerprint, "complete": False}
        try:
            is_free = not path.exists() or path.is_dir() and not any(path.iterdir())
            state = None if is_free else _state_of_ours(path / "state.json")
        except OSError as error:
            raise InputError(f"{path} cannot be looked into: {refusal(error)}") from error
        if is_free:
            return cls(path, fresh, replaces=False)
        if state is None:
            if overwrite:
                raise InputError(f"{path} is not a run folder of normwise: refusing to delete it; choose another --out")
            what = "holds other files" if path.is_dir() else "is not a folder"
            raise InputError(f"{path} {what}: choose an empty or new folder for --out")
        if overwrite:
            return cls(path, fresh, replaces=True)
        if not resume:
            if state["complete"]:
                raise InputError(f"{path} holds a complete run: choose another --out, or pass --overwrite to start again")
            raise InputError(f"{path} holds an unfinished run: pass --resume to go on with it, or --overwrite to start again")
        if state["fingerprint"] != fingerprint:
            raise InputError(f"{path} was started with other settings: resume with the same ones, or pass --overwrite")
        return cls(path, state, replaces=False)

    def start(self) -> None:
        """Make the folder ready for work; what it replaces is deleted now.

        Raises:
            InputError: the folder cannot be made, or the old run in it cannot be deleted.
            WorkError: the disk refused.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be made: {refusal(error)}") from error
        # First, so that a folder whose old files are half deleted is still known as a run, and as an unfinished one.
        self._save()
        if self._replaces:
            try:
                _empty(self.path, but="state.json")
            except OSError as error:
                raise InputError(f"the old run in {self.path} cannot be deleted: {refusal(error)}") from error
            self._replaces = False
        _sweep(self.path)

    @property
    def complete(self) -> bool:
        """Whether everything of the run has been written."""
        return bool(self._state["complete"])

    def close(self) -> None:
        """Mark the run complete."""
        self._state["complete"] = True
        self._save()

    def _save(self) -> None:
        write_json(self.path / "state.json", self._state)


def _state_of_ours(marker: Path) -> dict[str, Any] | None:
    """The state of a run, or None where the file is not one that `RunFolder` wrote."""
    if not marker.is_file():
        return None
    try:
        state = json.loads(marker.read_bytes())
    except (ValueError, RecursionError):
        return None
    if not isinstance(state, dict):
        return None
    fingerprint = state.get("fingerprint")
    ours = isinstance(fingerprint, str) and _FINGERPRINT.fullmatch(fingerprint) and isinstance(state.get("complete"), bool)
    return state if ours else None


def _empty(folder: Path, *, but: str) -> None:
    for path in folder.iterdir():
        if path.name == but:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
