"""The folder of a count that can be gone on with: what was counted, and of which shards."""

from __future__ import annotations

import hashlib
import io
from dataclasses import asdict
from pathlib import Path
from typing import final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import RunFolder, read_json, write_bytes, write_json
from normwise.data.opening import reading
from normwise.data.token_files import TokenFiles
from normwise.theory.stream_counts import CountPlan, StreamCounts

_COUNTS, _SOURCES, _HASH = "counts.bin", "sources.json", 64
_AGAIN = "pass --overwrite to count again from the start"


@final
class CountingProgress:
    """Counts and the shards in them, written together: after a kill, both are those of the last time that they were saved.

    `counts.bin` is the SHA-256 of what follows it, in hex, and numpy's npz of the arrays of `StreamCounts` and of `done`.

    Args:
        folder: where.
        files: the sources; with the plan, what the folder must have been started with.
        plan: what is counted.
        resume: go on with what the folder holds.
        overwrite: throw away what it holds.

    Raises:
        InputError: the folder holds something and neither is given, or it was started with other sources or another plan (the file that
            changed is named), or its counts are corrupt.
    """

    def __init__(self, folder: Path, files: TokenFiles, plan: CountPlan, *, resume: bool, overwrite: bool) -> None:
        self._path, self._plan, self._marks = folder, plan, [asdict(source) for source in files.sources]
        fingerprint = hashlib.sha256(f"{files.fingerprint} {plan.fingerprint}".encode()).hexdigest()
        if resume and not overwrite:
            self._refuse_other_sources()
        self._run = RunFolder.open(folder, fingerprint=fingerprint, resume=resume, overwrite=overwrite)
        self._fingerprint = fingerprint
        self.done = np.zeros(len(files.shards), dtype=np.bool_)
        self.counts = None if overwrite else self._load()
        if self.counts is None and self._run.complete and not overwrite:
            raise InputError(f"{folder / _COUNTS} is missing from a complete count: {_AGAIN}")

    def start(self) -> None:
        """Make the folder; what it replaces is deleted now."""
        self._run.start()
        write_json(self._path / _SOURCES, self._marks)

    def save(self, counts: StreamCounts) -> None:
        """Write the counts and the shards that `done` says are in them, atomically.

        Raises:
            WorkError: the disk refused; what was saved last is untouched.
        """
        buffer = io.BytesIO()
        buffer.write(b" " * _HASH)
        np.savez(buffer, allow_pickle=False, done=self.done, fingerprint=np.array(self._fingerprint), **counts.arrays)
        with buffer.getbuffer() as data:
            data[:_HASH] = hashlib.sha256(data[_HASH:]).hexdigest().encode()
        write_bytes(self._path / _COUNTS, buffer.getvalue())

    def close(self) -> None:
        """Mark the count complete."""
        self._run.close()

    def _load(self) -> StreamCounts | None:
        path = self._path / _COUNTS
        if not path.exists():
            return None
        with reading(path):
            data = memoryview(path.read_bytes())
        if hashlib.sha256(data[_HASH:]).hexdigest().encode() != bytes(data[:_HASH]):
            raise InputError(f"{path} is corrupt: its hash does not fit; {_AGAIN}")
        with np.load(io.BytesIO(data[_HASH:]), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        if str(found.get("fingerprint")) != self._fingerprint:
            raise InputError(f"{path} is of another count than {self._path / 'state.json'}: {_AGAIN}")
        self.done = found["done"]
        return StreamCounts.from_arrays(self._plan, found)

    def _refuse_other_sources(self) -> None:
        path = self._path / _SOURCES
        if not path.is_file():
            return
        held = read_json(path)
        if not isinstance(held, list) or not all(isinstance(mark, dict) and isinstance(mark.get("path"), str) for mark in held):
            raise InputError(f"{path} is corrupt: no list of sources; {_AGAIN}")
        before, now = ({mark["path"]: mark for mark in marks} for marks in (held, self._marks))
        for name in [*now, *before]:
            if now.get(name) != before.get(name):
                what = "is new among the sources" if name not in before else "is no more among them" if name not in now else "changed"
                raise InputError(f"{name} {what} since the count in {self._path} began: bring the same files back, or {_AGAIN}")
