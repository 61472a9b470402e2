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
    from normwise.core.records import Record


def asked(data: str | None, subsets: Sequence[str] | None, image_root: Path | None, baseline: Path | None) -> bool:
    """Whether a call is about an MMEB folder.

    Raises:
        InputError: options of MMEB for something else.
    """
    from normwise.data.mmeb_layout import is_mmeb
    from normwise.data.opening import kind_of, user_path

    path = None if data is None else user_path(data, what="data")
    if path is not None and kind_of(path) == "folder" and is_mmeb(path):
        return True
    if subsets or image_root is not None or baseline is not None:
        raise InputError(
            f"--subset, --image-root and --baseline belong to a folder in MMEB's layout, and --data is {data!r}: leave them out"
        )
    return False


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
    from normwise.core.files import read_json
    from normwise.workflows.evaluate import check_report
    from normwise.workflows.mmeb import evaluate_mmeb
    from normwise.workflows.mmeb_compare import compare_mmeb

    if model is None or data is None:
        raise InputError("evaluate needs --model and --data")
    check_report(report)
    before = None if baseline is None else MmebEvaluation.model_validate(read_json(baseline))
    own = report if before is None else None
    found = evaluate_mmeb(model, data, image_root=image_root, subsets=subsets, progress=sys.stderr.isatty(), report=own)
    return found if before is None else compare_mmeb(before, found, report=report)


def is_mmeb_record(record: Any) -> bool:
    """Whether a result is one of MMEB's."""
    return isinstance(record, MmebEvaluation | MmebComparison)


def show(record: Any) -> None:
    """Print a result of MMEB's protocol, line by line."""
    console = stdout_console()
    for line in (*record.lines(), *getattr(record, "notes", ())):
        console.print(line)
