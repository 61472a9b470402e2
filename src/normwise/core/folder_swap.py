"""Where one folder takes the place of another: what is moved aside for that moment comes back, or is swept, and is never lost unseen."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from normwise.core.errors import InputError, WorkError

_STANDS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def behind_links(path: Path) -> Path:
    """The place that a path names, behind symbolic links.

    Raises:
        OSError: the links go in a circle.
    """
    # A way that goes up again may lead through the very folder that is moved aside.
    if not path.is_symlink() and ".." not in path.parts:
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def put_in_place(work: Path, path: Path, *, overwrite: bool) -> None:
    """Move a finished folder to its place, and sweep what killed writers had moved aside there.

    Args:
        work: the folder; it lies beside its place.
        path: its place, behind links.
        overwrite: whether a folder that stands there goes.

    Raises:
        InputError: `overwrite` is false and something stands there by now.
        WorkError: `overwrite` is true, and another writer was quicker by a moment.
        OSError: the disk refused; what stood there stands there again.
    """
    try:
        if overwrite and path.exists():
            _swap(work, path)
        elif not overwrite and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        else:
            # A folder is never renamed over one that holds something: of two writers at once the second is told here.
            os.rename(work, path)
    except OSError as error:
        if error.errno not in _STANDS or not path.exists() or not work.exists():
            raise
        came = f"{path} was written by somebody else in the meantime"
        if overwrite:
            raise WorkError(f"{came}, and was left as it is: try again when nobody else writes it") from error
        raise InputError(f"{came}: pass --overwrite to replace it, or choose another folder") from error
    for folder in _moved_aside(path):
        _sweep(folder)


def _swap(work: Path, path: Path) -> None:
    with _made_aside(path) as aside:
        try:
            os.replace(path, aside / path.name)
            os.replace(work, path)
        except BaseException:
            # An interrupt may come before, between and after the two.
            if work.exists():
                _put_back(aside / path.name, path)
            else:
                shutil.rmtree(aside, ignore_errors=True)
            remove_if_empty(aside)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _put_back(old: Path, path: Path) -> None:
    if old.exists() and not os.path.lexists(path):
        os.replace(old, path)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that holds nothing; leave any other."""
    with suppress(OSError):
        folder.rmdir()


def refuse_left_aside(path: Path) -> None:
    """Refuse to take a path for free where its folder is missing only because a writer was killed in the middle of replacing it.

    Nothing is put back unasked: the folder may as well have been deleted on purpose, beside what an older kill left.

    Raises:
        InputError: nothing stands there, and what stood there lies beside it, with no writer at work.
    """
    with suppress(OSError):
        place = behind_links(path)
        if os.path.lexists(place):
            return
        left = [folder for folder in _moved_aside(place) if (folder / place.name).is_dir() and not _is_locked(folder)]
        if not left:
            return
        newest = max(left, key=lambda folder: folder.stat().st_mtime_ns).absolute()
        command = shlex.join(["mv", str(newest / place.name), str(place.absolute())])
        raise InputError(
            f"{path} does not exist, and {newest / place.name} stood there until a write was stopped in the middle: "
            f"put it back with: {command}, or delete {newest} to do without it"
        )


def is_being_replaced(path: Path) -> bool:
    """Whether a writer is at this moment between taking the old folder away and putting the new one there."""
    try:
        place = behind_links(path)
        return not os.path.lexists(place) and any(map(_is_locked, _moved_aside(place)))
    except OSError:
        return False


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let one process at a time work on what stands at a path: the folder above is locked, where the system can, until the end."""
    handle = _lock(path.resolve().parent)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def _made_aside(path: Path) -> Iterator[Path]:
    """A new folder beside a path, locked as long as its writer lives."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
        handle = _lock(folder)
        if folder.exists():
            break
        # Somebody swept it in the moment before it was locked.
        if handle is not None:
            os.close(handle)
    try:
        yield folder
    finally:
        if handle is not None:
            os.close(handle)


def _moved_aside(path: Path) -> list[Path]:
    """The folders beside a path that hold what `_swap` took from there, and nothing else."""
    ours = re.compile(re.escape(f".{path.name}.old.") + "[a-z0-9_]{8}")
    found = []
    with suppress(OSError):
        for folder in path.parent.iterdir():
            if ours.fullmatch(folder.name) and not folder.is_symlink() and {one.name for one in folder.iterdir()} <= {path.name}:
                found.append(folder)
    return found


def _sweep(folder: Path) -> None:
    """Delete a folder that was moved aside, unless its writer lives or cannot be told to be dead."""
    with suppress(BlockingIOError):
        handle = _lock(folder, wait=False)
        if handle is not None:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _is_locked(folder: Path) -> bool:
    try:
        handle = _lock(folder, wait=False)
    except BlockingIOError:
        return True
    if handle is not None:
        os.close(handle)
    return False


def _lock(folder: Path, *, wait: bool = True) -> int | None:
    """Lock a folder until the handle is closed; None on Windows, for folders that may not be read, and on file systems without locks.

    Raises:
        BlockingIOError: `wait` is false, and another holds it.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
            return None
        raise
    return handle
