"""Writing a changed index over its folder: one at a time, never over what somebody else saved, and with the files of others kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from normwise.core.files import whole_folder
from normwise.core.index_records import IndexManifest
from normwise.index.opening import MANIFEST, check_unchanged


@contextmanager
def replaced(path: Path, manifest: IndexManifest, *, seal: str | None) -> Iterator[Path]:
    """Fill a folder that takes the place of an index, whole or not at all; files of others in it (a calibration) go along.

    Args:
        path: the folder of the index.
        manifest: names the files of ours that go.
        seal: `seal_of` the manifest that lay there when the index was opened; None does not look.

    Yields:
        The folder to fill, its manifest included.

    Raises:
        WorkError: the disk refused, or somebody else has saved since; the folder is as it was.
    """
    with _alone(path):
        if seal is not None:
            check_unchanged(path, seal)
        ours = {MANIFEST, *manifest.files}
        others = [other for other in path.iterdir() if other.name not in ours] if path.is_dir() else []
        with whole_folder(path, overwrite=True) as folder:
            yield folder
            for other in others:
                (shutil.copytree if other.is_dir() else shutil.copy2)(other, folder / other.name)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time write an index that exists: the folder above is locked, where the system can, until the end."""
    try:
        import fcntl

        handle = os.open(folder.resolve().parent, os.O_RDONLY)
    except (ImportError, OSError):  # Windows, and folders that may be entered but not read
        yield
        return
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
