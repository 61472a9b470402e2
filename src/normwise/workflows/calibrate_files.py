"""Where a calibration is written: beside the model or where one says, over an older one of ours, over nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from normwise.core.calibration_records import CalibrationReport
from normwise.core.errors import InputError, NormwiseError
from normwise.core.files import write_text
from normwise.data.opening import check_new_place, kind_of, user_path
from normwise.data.texts import printable
from normwise.report.card_calibration import BEGIN, END, calibration_section, with_calibration
from normwise.report.hits_view import DirectionsReport
from normwise.theory.calibration import Calibration
from normwise.workflows.calibrate_directions import CalibrationSet, parse_calibrations

CALIBRATION_FILE, CARD_FILE = "calibration.json", "README.md"


@dataclass(frozen=True)
class Place:
    """Where to write, if anywhere: the file, the card of the model beside it, and what to say of both."""

    file: Path | None
    card: Path | None
    notes: tuple[str, ...]


def choose_place(model: str | None, *, out: str | Path | None, save: bool, index: str | Path | None = None) -> Place:
    """Decide before the work where the calibration goes, and refuse what would fail after it.

    Args:
        model: folder or hub id as the user gave it; None for bare vectors or an open encoder.
        out: the file that the user names; None writes beside a model that is a folder of the user's, else into the index, else nowhere.
        save: False writes nothing at all.
        index: folder of the index that is calibrated on, if there is one.

    Returns:
        The place. The model's card gets a section only where the calibration lies beside it.

    Raises:
        InputError: the file's name does not end in .json, something else than a calibration of ours stands there, or the place
            cannot be written.
    """
    if not save:
        if out is not None:
            raise InputError("--out names a file to write and --no-save writes none: leave one of them out")
        return Place(None, None, ())
    folder = None if model is None else user_path(model, what="model")
    beside = folder is not None and kind_of(folder) == "folder"
    notes = []
    if out is None and not beside and index is not None:
        out = user_path(index, what="index") / CALIBRATION_FILE
        why = "" if model is None else ", since the model is no folder of yours"
        notes.append(f"the calibration goes to {out}, where a search of this index looks first{why}")
    if out is None and not beside:
        return Place(None, None, ("the calibration was not saved, since there is no model folder to put it in: name a file with --out",))
    file = user_path(out, what="out") if out is not None else Path(str(folder)) / CALIBRATION_FILE
    if file.suffix.lower() != ".json" and kind_of(file) != "folder":
        raise InputError(f"{file} is to hold the calibration, which is JSON: give --out a name that ends in .json")
    check_new_place(file)
    if (kind := kind_of(file)) is not None:
        _check_ours(file, kind=kind)
        notes.append(f"the older calibration at {file} was replaced")
    # Also where a file is replaced: the new one takes its place in the folder.
    above = next((parent for parent in file.absolute().parents if kind_of(parent) is not None), None)
    if above is not None and not os.access(above, os.W_OK):
        raise InputError(f"{above} is write-protected: name another place with --out, or save nothing with --no-save")
    at_home = beside and folder is not None and file.absolute().parent == folder.absolute() and file.name == CALIBRATION_FILE
    return Place(file, folder / CARD_FILE if at_home and folder is not None else None, tuple(notes))


def write_calibration(
    place: Place, calibration: Calibration | CalibrationSet, report: CalibrationReport | DirectionsReport
) -> tuple[str, ...]:
    """Write the file, and put the section into the model's card.

    Args:
        place: of `choose_place`.
        calibration: what the file holds.
        report: what the section tells.

    Returns:
        Notes: what was replaced, or why the card stayed as it was.

    Raises:
        WorkError: the disk refused.
    """
    if place.file is None:
        return place.notes
    write_text(place.file, calibration.to_json() + "\n")
    if place.card is None:
        return place.notes
    if kind_of(place.card) != "file":
        return (*place.notes, f"the model has no {CARD_FILE}, so no card tells of its calibration")
    if place.card.is_symlink():
        return (*place.notes, f"{place.card} was left as it was: it is a link, and what it names may serve others, as in a cache of models")
    try:
        # As bytes: the lines of others keep the endings that they have.
        before = place.card.read_bytes().decode("utf-8")
        write_text(place.card, with_calibration(before, _section(report)))
    except (UnicodeDecodeError, OSError, InputError) as error:
        return (*place.notes, f"{place.card} was left as it was: {error}")
    return (*place.notes, f"{place.card} tells of the calibration")


def _section(report: CalibrationReport | DirectionsReport) -> str:
    """The section of a model card; of several directions each under its name, between one pair of markers."""
    if isinstance(report, CalibrationReport):
        return calibration_section(report)
    parts = []
    for name, each in report.directions.items():
        body = calibration_section(each).removeprefix(BEGIN).removesuffix(END).strip().removeprefix("## Calibration").strip()
        parts.append(f"### {_markdown(name)}\n\n{body}")
    none = [f"- {_markdown(name)}: none, since {_markdown(why)}" for name, why in report.refused.items()]
    return "\n\n".join([BEGIN, "## Calibration", *parts, *(["\n".join(none)] if none else []), END])


def _markdown(text: str) -> str:
    """A name in which no markup takes effect."""
    return "`" + " ".join(printable(text).split()).replace("`", "'") + "`"


def _check_ours(file: Path, *, kind: str) -> None:
    way = "name another file with --out, or move it away"
    if kind != "file":
        raise InputError(f"{file} is no file, and nothing but an older calibration is replaced: {way}")
    try:
        parse_calibrations(file.read_bytes(), str(file))
    except NormwiseError as error:
        raise InputError(f"{file} is no calibration of normwise, and nothing else is replaced ({error}): {way}") from None
    except ValueError:
        raise InputError(f"{file} is no calibration of normwise, and nothing else is replaced: {way}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}; {way}") from None
