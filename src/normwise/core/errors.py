"""The errors that people see: each says what was expected, what came, and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NormwiseError(Exception):
    """Base of every error that normwise raises on purpose; the work could not be done (exit code 1)."""

    exit_code = 1


class WorkError(NormwiseError):
    """The input was fine, but the work failed: a merge that does not match, a disk that is full."""


class InputError(NormwiseError, ValueError):
    """Bad input or usage (exit code 2): the message names the file, row, column or argument at fault."""

    exit_code = 2


class MissingExtraError(NormwiseError, ImportError):
    """An optional dependency is not installed; the message holds the command that installs it.

    Example:
        >>> raise MissingExtraError("faiss", extra="index")
        Traceback (most recent call last):
        ...
        normwise.core.errors.MissingExtraError: faiss is not installed; run: pip install "normwise[index]"
    """

    exit_code = 2

    def __init__(self, module: str, *, extra: str) -> None:
        super().__init__(f'{module} is not installed; run: pip install "normwise[{extra}]"')


def near_names(name: str, known: Iterable[str]) -> str:
    """Say which known names are close to `name`, or list them all when none is.

    Args:
        name: what came.
        known: what would have been accepted.

    Returns:
        A clause for the end of an error message.

    Example:
        >>> near_names("temprature", ["temperature", "steps"])
        'did you mean temperature?'
        >>> near_names("x", ["temperature", "steps"])
        'known names: steps, temperature'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known names: {', '.join(names)}"
