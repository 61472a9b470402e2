"""Where the page of a report on a staircase goes, and its writing."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from normwise.core.files import write_text
from normwise.core.staircase_records import StaircaseReport, TrackReport
from normwise.data.opening import user_path
from normwise.data.texts import printable
from normwise.workflows.evaluate import check_report

Report = TypeVar("Report", StaircaseReport, TrackReport)


def page_place(report: str | Path | None, *, overwrite: bool) -> Path | None:
    """Return where a page is to be written, refused before the work where it cannot be.

    Raises:
        InputError: the place is taken or cannot be made; MissingExtraError: the page needs packages.
    """
    if report is None:
        return None
    place = user_path(report, what="report")
    check_report(place, overwrite=overwrite)
    return place


def write_page(found: Report, place: Path | None) -> Report:
    """Write the page of a report, if one was asked for, and say in the report where it is."""
    if place is None:
        return found
    from normwise.report.page import render_staircase

    found = found.model_copy(update={"report": printable(str(place))})
    write_text(place, render_staircase(found))
    return found
