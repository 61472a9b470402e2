"""Which calibration goes with an index: the one that was named, or one that lies where calibrations lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from normwise.core.calibration_records import Fingerprint
from normwise.core.errors import InputError
from normwise.core.index_records import IndexManifest
from normwise.data.opening import kind_of, reading, user_path
from normwise.theory.calibration import FILE, Calibration
from normwise.theory.calibration_command import ADDRESS, calibrate_command, model_source, vectors_source
from normwise.workflows.calibrate_directions import CalibrationSet, parse_calibrations


@dataclass(frozen=True)
class Fitted:
    """A calibration that holds for an index, or the reason why there is none; `named` says that a person asked for it."""

    calibration: Calibration | CalibrationSet | None
    why_not: str = ""
    named: bool = False
    place: str = ""


def read_calibration(path: str | Path, *, again: str = "") -> Calibration | CalibrationSet:
    """Read a `calibration.json` of either form, or the one in a folder; `again` is the command that fits one, where it is known.

    Raises:
        InputError: no such file, or something else; the message names it.

    Example:
        >>> read_calibration("gone.json")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.json does not exist: check the path
    """
    path = user_path(path, what="calibration")
    if kind_of(path) == "folder":
        path = path / FILE
    with reading(path):
        text = path.read_bytes()
    try:
        return parse_calibrations(text, str(path), again=again)
    except RecursionError:
        raise InputError(
            f"{path} is no calibration: it is nested too deep. Move it away and fit it again: {again or 'normwise calibrate'}"
        ) from None


def fingerprint_of(manifest: IndexManifest, *, candidates: int, depth: int, model: str | None = None) -> Fingerprint:
    """What a calibration must have been fitted on to hold for an index as it stands now.

    Args:
        manifest: of the index.
        candidates: how many it holds.
        depth: how many hits per query a search finds.
        model: hash of the model that reads queries; None takes the one that the index knows.
    """
    return Fingerprint(
        model=model or manifest.model,
        similarity=manifest.similarity,
        search=manifest.search_kind,
        candidates=candidates,
        corpus_texts=manifest.corpus_texts,
        corpus_vectors=manifest.corpus_vectors,
        depth=depth,
    )


@dataclass(frozen=True)
class Searched:
    """The index that a calibration is sought for.

    Args:
        manifest: of the index.
        size: how many candidates it has now.
        index: its folder.
        model: where the model lies.
        model_hash: of the model that reads queries of bare vectors, which the index itself does not know.
        at: the address of the server, where it was given.
    """

    manifest: IndexManifest
    size: int
    index: Path | None = None
    model: str | None = None
    model_hash: str | None = None
    at: str | None = None

    def check(self, calibration: Calibration | CalibrationSet) -> None:
        """Refuse a calibration that was fitted on something else.

        Raises:
            InputError: says what differs and what to do.
        """
        if isinstance(calibration, CalibrationSet):
            for each in calibration.calibrations:
                self.check(each.calibration)
            return
        fitted = calibration.fingerprint
        known = self.model_hash if fitted.model == self.model_hash else None
        now = fingerprint_of(self.manifest, candidates=self.size, depth=fitted.depth, model=known)
        calibration.check(now, index=self._folder, model=self.model or "", addressed=self.at is not None)

    @property
    def command(self) -> str:
        """The command that fits a calibration for this index; DATA are judged queries that nobody has named yet."""
        source = model_source(self.model or "")
        if self.model is None and self.manifest.model == "vectors":
            source = vectors_source("", self.manifest.similarity)
        options = {} if self.at is None else {"--url": ADDRESS}
        return calibrate_command(source, index=self._folder or "INDEX", options=options)

    @property
    def _folder(self) -> str | None:
        return None if self.index is None else str(self.index)


def find_calibration(named: str | Path | Calibration | CalibrationSet | None, searched: Searched) -> Fitted:
    """Find the calibration of an index, and check that it was fitted on that index's model, similarity, search and corpus.

    Args:
        named: the one a person named; None looks in the index's folder, then in the model's.
        searched: the index.

    Raises:
        InputError: the one that was named does not hold; the message says what differs and what to do.
    """
    if named is not None:
        given = isinstance(named, Calibration | CalibrationSet)
        calibration = named if isinstance(named, Calibration | CalibrationSet) else read_calibration(named, again=searched.command)
        place = "calibration" if given else str(named)
        try:
            searched.check(calibration)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        return Fitted(calibration, named=True, place=place)
    reasons = []
    for folder in (searched.index, None if searched.model is None else Path(searched.model)):
        if folder is None or kind_of(folder / FILE) != "file":
            continue
        try:
            calibration = read_calibration(folder / FILE, again=searched.command)
        except InputError as error:
            reasons.append(str(error))
            continue
        try:
            searched.check(calibration)
        except InputError as error:
            reasons.append(f"{folder / FILE}: {error}")
            continue
        return Fitted(calibration, place=str(folder / FILE))
    return Fitted(None, "; ".join(reasons) or f"no {FILE} lies in the index or beside the model; fit one with: {searched.command}")
