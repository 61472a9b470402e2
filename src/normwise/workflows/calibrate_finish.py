"""The end of a calibration: every direction fitted, everything written, one report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from normwise.core.calibration_records import CalibrationReport
from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.data.texts import printable
from normwise.data.thumbnails import ThumbnailBudget
from normwise.report.hits_view import DirectionReport, DirectionsReport, ShownPictures
from normwise.theory.calibration import Calibration
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.calibrate_directions import (
    CalibrationSet,
    DirectedCalibration,
    Part,
    corpus_modalities,
    corpus_notes,
    divide,
)
from normwise.workflows.calibrate_files import Place, write_calibration
from normwise.workflows.calibrate_fit import Goal, fit_calibration
from normwise.workflows.calibrate_material import Material

Report = TypeVar("Report", bound=CalibrationReport | DirectionsReport)
# Of one page, all directions together; from there on it has names only.
_PICTURES, _CHARACTERS = 40, 300_000
_APART = "scores of different directions are different scales, so that each was fitted, tested and given a threshold by itself"


@dataclass(frozen=True)
class Output:
    """What is to be written where, what was typed beside model, data and aim, and when the work began."""

    place: Place
    page: Path | None
    typed: Mapping[str, str]
    started: float

    def write(self, report: Report, calibration: Calibration | CalibrationSet) -> Report:
        """Write the calibration, the card's section and the page; return the report with their places."""
        notes = write_calibration(self.place, calibration, report)
        whole = report.model_copy(
            update={
                "notes": (*report.notes, *notes),
                "calibration": None if self.place.file is None else printable(str(self.place.file)),
                "report": None if self.page is None else printable(str(self.page)),
                "seconds": time.monotonic() - self.started,
            }
        )
        if self.page is not None:
            from normwise.report.page import render_calibration

            write_text(Path(self.page), render_calibration(whole))
        return whole


def finish(material: Material, asked: Asked, goal: Goal, output: Output, names: tuple[str, str]) -> CalibrationReport | DirectionsReport:
    """Fit a calibration for each direction and task of the queries, and write what is to be written.

    Args:
        material: judged hits of all queries.
        asked: the queries.
        goal: what is asked of each calibration.
        output: where things go.
        names: how `normwise calibrate` would name model and data again.

    Returns:
        One report where all is text -> text, or one direction; else one for each direction or task that could be fitted.

    Raises:
        InputError: none could be fitted; the message says why for each.
    """
    parts = divide(material, asked, seed=goal.seed)
    if len(parts) == 1 and not parts[0].pictured and not parts[0].task:
        fitted = _fit(parts[0], goal, names, thumbnails=None)
        report, calibration = fitted if not isinstance(fitted, InputError) else _refuse(fitted, asked)
        return output.write(report, calibration.model_copy(update={"options": output.typed}))
    share = len(parts)
    tried = {
        part.name: _fit(part, goal, names, thumbnails=ThumbnailBudget(_PICTURES // share, _CHARACTERS // share) if part.pictured else None)
        for part in parts
    }
    refused = {name: str(each) for name, each in tried.items() if isinstance(each, InputError)}
    made = [(part, each) for part in parts if not isinstance(each := tried[part.name], InputError)]
    if not made:
        words = refused.values() if len(refused) == 1 else (f"{name}: {why}" for name, why in refused.items())
        _refuse(InputError("; ".join(words)), asked)
    kept = CalibrationSet(
        calibrations=tuple(
            DirectedCalibration(
                direction=part.direction, task=part.task, calibration=calibration.model_copy(update={"options": output.typed})
            )
            for part, (_, calibration) in made
        ),
        candidates=corpus_modalities(asked.judged.corpus.contents),
        refused=refused,
    )
    mixed = corpus_notes(asked.judged.corpus.contents)
    reports = {part.name: _directed(part, report, mixed) for part, (report, _) in made}
    if len(parts) == 1:
        return output.write(next(iter(reports.values())), kept)
    lacking = [f"{name} has no calibration: {why}" for name, why in refused.items()]
    notes = (_APART, *mixed, *lacking)
    return output.write(DirectionsReport(model=material.name, data=asked.name, directions=reports, refused=refused, notes=notes), kept)


def _fit(
    part: Part, goal: Goal, names: tuple[str, str], *, thumbnails: ThumbnailBudget | None
) -> tuple[CalibrationReport, Calibration] | InputError:
    """Fit one part, or say why it cannot be: another part may."""
    try:
        return fit_calibration(part.material, part.asked, goal, model_name=names[0], data_name=names[1], thumbnails=thumbnails)
    except InputError as error:
        return error


def _refuse(error: InputError, asked: Asked) -> NoReturn:
    # What may be why too few came.
    raise InputError("; ".join([str(error), *asked.unjudged])) from None


def _directed(part: Part, report: CalibrationReport, notes: Sequence[str]) -> DirectionReport:
    known = {name: getattr(report, name) for name in CalibrationReport.model_fields if name != "notes"}
    shown = report.shown if isinstance(report, DirectionReport) else ShownPictures()
    return DirectionReport(**known, shown=shown, direction=part.direction, task=part.task, notes=(*notes, *report.notes))
