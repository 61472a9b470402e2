"""From the name of a picture in a row to its file: inside the folder that names begin at, and nowhere else."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError

_URL = re.compile(r"[a-z][a-z0-9+.-]*://|(?:data|file|gs|s3|https?|ftps?):", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_ELSEWHERE = "set data.image_root to a folder that holds all pictures ('/' for anywhere)"
# Names of neighbors that are looked at for a hint: a folder may hold millions.
_NEIGHBORS = 10_000
_CLOSE = 0.75


def resolve_picture(name: Any, *, root: Path, where: str) -> Path:
    """Find the file of a picture that a row names.

    A relative name begins at `root`; an absolute one may be given too. Links are followed first, and what counts is
    where they end: a name never leads out of `root`, be it by `..`, by an absolute path or by a link.

    Args:
        name: what stands in the row.
        root: the folder that names begin at; it may be a link itself.
        where: file, row and column, which begin every message.

    Returns:
        The regular file, absolute, without links.

    Raises:
        InputError: it is no name, a URL, outside of `root`, missing, or no regular file; or `root` is no folder.

    Example:
        >>> resolve_picture("https://example.org/cat.png", root=Path("."), where="pairs.jsonl: row 3, column query_image")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: pairs.jsonl: row 3, column query_image: 'https://example.org/cat.png' is a URL: download it \
first, and name the file
    """
    text = _checked_name(name, where)
    home = _real(Path(root), where, f"the folder of the pictures, {root},")
    kind = _mode(home, where, f"the folder of the pictures, {root},")
    if kind is None or not stat.S_ISDIR(kind):
        raise InputError(f"{where}: the folder of the pictures, {root}, {_missing(kind)}: set data.image_root to the folder they are in")
    shown = repr(text) if len(text) <= 160 else f"{text[:120]!r}... ({len(text)} characters)"
    path = _real(home / text, where, shown)
    if path != home and home not in path.parents:
        raise InputError(f"{where}: {shown} leads out of {root} (to {_short(path)}): {_ELSEWHERE}")
    kind = _mode(path, where, shown)
    if kind is None:
        raise InputError(f"{where}: {shown} does not exist in {root}{_hint(text, home, path)}")
    if stat.S_ISDIR(kind):
        raise InputError(f"{where}: {shown} is a folder: name one picture in it")
    if not stat.S_ISREG(kind):
        raise InputError(f"{where}: {shown} is a device, pipe or socket: name a file")
    return path


def _checked_name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        what = (
            "NaN" if isinstance(name, float) and name != name else repr(name) if name is None else f"{name!r:.60} ({type(name).__name__})"
        )
        raise InputError(f"{where}: {what} is not the name of a picture: give a path as text")
    if not name.strip():
        raise InputError(f"{where}: the name {name!r:.20} is empty: give the path of a picture")
    if "\0" in name:
        raise InputError(f"{where}: {name!r:.160} holds a null character: give the path as it is in the file system")
    found = _URL.match(name)
    if found is None:
        return name
    kind = found[0].rstrip("/").lower()
    if kind == "data:":
        raise InputError(f"{where}: {name!r:.60} holds a picture inside a URL: decode it, and give the bytes or a file")
    if kind == "file:":
        raise InputError(f"{where}: {name!r:.160} is a URL: give the path alone, without file:")
    raise InputError(f"{where}: {name!r:.160} is a URL: download it first, and name the file")


def _real(path: Path, where: str, shown: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # a lone surrogate, a name that is too long for some systems
        raise InputError(f"{where}: {shown} cannot be looked up ({_reason(error)}): give the path as it is in the file system") from None


def _mode(path: Path, where: str, shown: str) -> int | None:
    """What the file system says of a path; None where nothing stands there."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{where}: {shown} cannot be looked up ({_reason(error)}): check the name and the rights") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _missing(kind: int | None) -> str:
    return "does not exist" if kind is None else "is no folder"


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _near(name: str, names: Sequence[str]) -> list[str]:
    """Names that one may have meant: close, and with the same numbers, since 12.png is no slip for 13.png.

    Example:
        >>> _near("car_12.jpg", ["car_12.jpeg", "car_13.jpg", "carr_12.jpg", "train.jsonl"])
        ['carr_12.jpg', 'car_12.jpeg']
    """
    numbers = _NUMBER.findall(name)
    return difflib.get_close_matches(name, [other for other in names if _NUMBER.findall(other) == numbers], n=3, cutoff=_CLOSE)


def _hint(text: str, home: Path, path: Path) -> str:
    """What may have been meant; only what stands inside `home` is looked at."""
    if os.sep == "/" and "\\" in text:
        turned = text.replace("\\", "/")
        other = Path(os.path.realpath(home / turned))
        if home in other.parents and other.is_file():
            return f": {turned!r} does: write / between folders"
    above = path.parent
    while above != home and not above.is_dir():
        path, above = above, above.parent
    try:
        with os.scandir(above) as items:
            names = [item.name for item in islice(items, _NEIGHBORS)]
    except OSError:
        return ": check the name"
    alike = sorted(name for name in names if name.lower() == path.name.lower())
    lacking = f" ({path.name!r:.80} is missing in {above})" if above != home else ""
    if alike:
        return f"{lacking}: did you mean {' or '.join(alike)}?"
    if near := _near(path.name[:255], names):
        return f"{lacking}: did you mean {' or '.join(near)}?"
    return f"{lacking}: check the name, or set data.image_root to the folder that names begin at"
