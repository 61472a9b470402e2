"""The one module that writes files: everything appears whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, WorkError


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part.

    Raises:
        WorkError: the disk refused; the old content is untouched.
    """
    try:
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
        raise WorkError(f"could not write {path}: {error.strerror or error}; free space or choose another folder") from error


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
        InputError: the file is missing or is not JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
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
        InputError: `path` exists and `overwrite` is false.
        WorkError: the disk refused; what stood at `path` is untouched.
    """
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already: pass --overwrite to replace it, or choose another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise WorkError(f"could not write {path}: {error.strerror or error}; free space or choose another folder") from error
    try:
        yield work
        _open_to_others(work)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            os.replace(path, old / path.name)
            try:
                os.replace(work, path)
            except BaseException:
                os.replace(old / path.name, path)
                old.rmdir()
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(work, path)
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        raise WorkError(f"could not write {path}: {error.strerror or error}; free space or choose another folder") from error
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _open_to_others(folder: Path) -> None:
    """Give a folder and its files the permissions that the user's umask asks for; some writers leave 0600 behind."""
    mask = _umask()
    os.chmod(folder, 0o777 & ~mask)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            os.chmod(path, (0o777 if path.is_dir() else 0o666) & ~mask)


class RunFolder:
    """A run's folder: new, resumable or complete, never half a model that loads.

    `state.json` holds the fingerprint of the settings, the steps done so far (by key) and whether the run is complete.
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
        fresh = {"fingerprint": fingerprint, "complete": False, "done": {}}
        if path.is_dir() and not any(path.iterdir()) or not path.exists():
            return cls(path, fresh, replaces=False)
        marker = path / "state.json"
        if not marker.is_file():
            if overwrite:
                raise InputError(f"{path} is not a run folder of normwise: refusing to delete it; choose another --out")
            raise InputError(f"{path} holds other files: choose an empty or new folder for --out")
        if overwrite:
            return cls(path, fresh, replaces=True)
        state = read_json(marker)
        if not resume:
            word = "a complete" if state.get("complete") else "an unfinished"
            raise InputError(f"{path} holds {word} run: pass --resume to go on with it, or --overwrite to start again")
        if state.get("fingerprint") != fingerprint:
            raise InputError(f"{path} was started with other settings: resume with the same ones, or pass --overwrite")
        return cls(path, state, replaces=False)

    def start(self) -> None:
        """Make the folder ready for work; what it replaces is deleted now.

        Raises:
            InputError: the folder cannot be made.
            WorkError: the disk refused.
        """
        if self._replaces:
            shutil.rmtree(self.path)
            self._replaces = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be made: {error.strerror or error}; choose another --out") from error
        self._save()

    @property
    def complete(self) -> bool:
        """Whether everything of the run has been written."""
        return bool(self._state["complete"])

    def done(self, key: str) -> Any | None:
        """What was saved for a finished step, or None."""
        return self._state["done"].get(key)

    def finish(self, key: str, value: Mapping[str, Any]) -> None:
        """Record that a step is finished; written before the next one starts."""
        self._state["done"][key] = dict(value)
        self._save()

    def close(self) -> None:
        """Mark the run complete."""
        self._state["complete"] = True
        self._save()

    def _save(self) -> None:
        write_json(self.path / "state.json", self._state)
