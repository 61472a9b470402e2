"""Putting the folder of an index in its place: one writer at a time, and what others keep in the folder is looked at only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from normwise.core.errors import WorkError
from normwise.core.files import whole_folder
from normwise.core.folder_swap import alone
from normwise.core.index_records import IndexManifest
from normwise.index.opening import GUEST, MANIFEST, check_out, check_unchanged


@contextmanager
def placed(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Fill the folder of a new index, which takes its place whole or not at all; a calibration that lies there goes along.

    Args:
        path: where the index is to stand.
        overwrite: whether an index that stands there goes, be it one that came in the meantime.

    Yields:
        The folder to fill, its manifest included.

    Raises:
        InputError: something stands there that may not be replaced, now or at the end.
        WorkError: the disk refused.
    """
    with ExitStack() as until_then, whole_folder(path, overwrite=overwrite) as folder:
        yield folder
        # Whether a calibration still holds is told by its hashes; what took long to fit is never thrown away unasked.
        # A build may take hours: what it replaces, and what it must not, is what stands there at its end.
        until_then.enter_context(alone(path))
        if overwrite:
            check_out(path, overwrite=True)
            _take_along([path / GUEST], folder)


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
        WorkError: the disk refused, somebody else has saved since, or a file of others cannot be copied; the folder is as it was.
    """
    with alone(path):
        if seal is not None:
            check_unchanged(path, seal)
        ours = {MANIFEST, *manifest.files}
        with whole_folder(path, overwrite=True) as folder:
            yield folder
            _take_along([other for other in path.iterdir() if other.name not in ours] if path.is_dir() else [], folder)


def _take_along(others: Iterable[Path], folder: Path) -> None:
    """Copy files and folders of others into a new folder; a link stays a link, whether anything stands behind it or not."""
    for other in others:
        try:
            if other.is_dir() and not other.is_symlink():
                shutil.copytree(other, folder / other.name, symlinks=True)
            elif os.path.lexists(other):
                shutil.copy2(other, folder / other.name, follow_symlinks=False)
        except OSError as error:
            raise WorkError(
                f"{other} lies in the folder of the index and cannot be copied along: {error.strerror or error}; "
                "nothing was changed: move it away, see to its permissions, or free space"
            ) from error
