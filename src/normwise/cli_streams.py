"""The streams of a command: results on stdout, everything else on stderr, whatever stands behind either.

A log that cannot be written never costs the work; a result that cannot be written is an error that is told.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import threading
import warnings
from _thread import interrupt_main
from collections.abc import Iterator
from typing import Any

_SOON = 0.05


class _Lenient(io.FileIO):
    """A file that takes what it cannot write for written: stderr on a full disk, or with nobody listening."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def open_streams() -> None:
    """Make stderr one that never fails, and stdout one that has a way to write every letter.

    A descriptor that was closed before the start is bound to the null device: the next file to be opened would get its
    number, and the prints with it. `sys.stdout` stays None when it was closed.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(spare, True)
    os.close(spare)
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    raw = io.BufferedWriter(_Lenient(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def keep_interrupts() -> None:
    """Stop soon where Python would print a traceback and go on: an interrupt that falls into a destructor or a callback."""
    tell = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            tell(dropped)
            return
        again = threading.Timer(_SOON, interrupt_main)
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def settle_stdout() -> None:
    """Give up what stdout could not take, so that Python does not try again at its exit and complain in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)


def write_json(text: str) -> None:
    """Write one JSON value on one line of stdout, escaped where its encoding lacks a letter."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = re.sub(r"[^\x00-\x7f]", lambda letter: json.dumps(letter[0])[1:-1], text)
    sys.stdout.write(text + "\n")


@contextlib.contextmanager
def logs_on_stderr(log: logging.Logger) -> Iterator[None]:
    """Show a logger's lines, and Python's warnings as lines of it: their place in the source is nothing to a user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_args, **_settings: log.warning("warning: %s", " ".join(str(message).split()))
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Libraries print where they like: Python's prints and those of compiled code both go to stderr meanwhile."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            saved = os.dup(1)
            undo.callback(os.close, saved)
            undo.callback(os.dup2, saved, 1)
            undo.callback(_flush_compiled_code)
            os.dup2(2, 1)
        yield


def _flush_compiled_code() -> None:
    # What C code printed may wait in its own buffer, and would come out on stdout later.
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
