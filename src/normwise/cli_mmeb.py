"""`normwise evaluate` on a folder in MMEB's layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normwise.cli_tables import stdout_console
from normwise.core.errors import InputError
from normwise.core.mmeb_records import MmebComparison, MmebEvaluation

if TYPE_CHECKING:
    from normwise.core.config import DataConfig
    from normwise.core.records import Record


def asked(data: str | None, subsets: Sequence[str] | None, image_root: Path | None, baseline: Path | None) -> bool:
    """Whether a call is about an MMEB folder: its name, or a config whose [data] names one in the layout of evaluation.

    Raises:
        InputError: options of MMEB for something else.
    """
    from normwise.data.mmeb_layout import mmeb_layout
    from normwise.data.opening import user_path

    if data is not None:
        name = _settings(data).name
        layout = mmeb_layout(user_path(name, what="data"))
        # A config that names training files is read as training reads them, by the splits that it holds out.
        if layout == "evaluation" or (layout is not None and name == data):
            return True
    if subsets or image_root is not None or baseline is not None:
        raise InputError(
            f"--subset, --image-root and --baseline belong to a folder in MMEB's layout, and --data is {data!r}: leave them out"
        )
    return False


def _settings(data: str) -> DataConfig:
    from normwise.data.settings import data_settings

    return data_settings(data, source="--data")


def _check_settings(settings: DataConfig, data: str) -> None:
    """Refuse settings that would change nothing here."""
    own = ("name", "image_root", "on_bad_rows", "limit_queries", "check_pictures")
    others = [name for name in type(settings).model_fields if name not in own]
    idle = [f"data.{name}" for name in others if getattr(settings, name) != type(settings).model_fields[name].get_default()]
    if idle:
        raise InputError(
            f"{data}: {', '.join(idle)} would change nothing, since {settings.name} is in MMEB's layout of evaluation, which brings its "
            "queries, candidate sets and instructions, and pictures are shown as the model was trained: leave it out"
        )


def refuse(**options: Any) -> None:
    """Refuse options that say nothing about MMEB's protocol.

    Raises:
        InputError: names the first.
    """
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"--{name} does not apply to a folder in MMEB's layout, which brings its queries and candidate sets: leave it out"
            )


def evaluate(
    model: str | None,
    data: str | None,
    *,
    subsets: Sequence[str] | None,
    image_root: Path | None,
    baseline: Path | None,
    report: Path | None = None,
) -> Record:
    """Measure a model, or compare it with what was measured of another; the page is of what is returned."""
    from normwise.workflows.evaluate import check_report
    from normwise.workflows.mmeb import evaluate_mmeb
    from normwise.workflows.mmeb_compare import compare_mmeb

    if model is None or data is None:
        raise InputError("evaluate needs --model and --data")
    settings = _settings(data)
    _check_settings(settings, data)
    check_report(report)
    before = None if baseline is None else _baseline(baseline)
    own = report if before is None else None
    found = evaluate_mmeb(
        model,
        settings.name,
        image_root=image_root or settings.image_root,
        subsets=subsets,
        limit_queries=settings.limit_queries,
        on_bad_rows=settings.on_bad_rows,
        check_pictures=settings.check_pictures,
        progress=sys.stderr.isatty(),
        report=own,
    )
    if before is None:
        return found
    # Each model is read as its own similarity ranks.
    return compare_mmeb(
        before, found, base_ranking=before.own_ranking or "cosine", trained_ranking=found.own_ranking or "cosine", report=report
    )


def _baseline(path: Path) -> MmebEvaluation:
    """What was measured before.

    Raises:
        InputError: the file holds something else; it is named before any work.
    """
    from pydantic import ValidationError

    from normwise.core.files import read_json

    values = read_json(path)
    wanted = "give what normwise evaluate --json said of a model on the same folder, without --baseline"
    try:
        before = MmebEvaluation.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(
            f"--baseline {path} holds no evaluation of an MMEB folder ({place}: {first['msg']}; {error.error_count()} such problem(s)): "
            f"{wanted}"
        ) from None
    for task in before.tasks:
        for name in ("cosine", "dot"):
            values = task.first.get(name)
            if values is None or len(values) != task.queries or not all(0 <= value <= 1 for value in values):
                raise InputError(
                    f"--baseline {path}: tasks, {task.name}, first.{name} must hold {task.queries} figures between 0 and 1, one a query: "
                    f"{wanted}"
                )
            if name not in task.p_at_1:
                raise InputError(f"--baseline {path}: tasks, {task.name}, p_at_1.{name} is missing: {wanted}")
    return before


def is_mmeb_record(record: Any) -> bool:
    """Whether a result is one of MMEB's."""
    return isinstance(record, MmebEvaluation | MmebComparison)


def show(record: Any) -> None:
    """Print a result of MMEB's protocol, line by line."""
    console = stdout_console()
    for line in (*record.lines(), *getattr(record, "notes", ())):
        console.print(line)
