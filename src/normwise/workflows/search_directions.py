"""Which calibration judges which query: that of the query's modality and of the modality of what it found first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.data.contents import Modality
from normwise.data.documents import stored_modality
from normwise.index.protocol import Found, Index
from normwise.theory.calibration import Calibration
from normwise.workflows.calibrate_directions import TEXT_ONLY, CalibrationSet, direction
from normwise.workflows.search_judging import Query, Shown, calibrated, uncalibrated
from normwise.workflows.text_lengths import known_lengths

FOREIGN = "no probability is known: this hit is {own}, and the first one of its list {first}, whose scores are another scale"


@dataclass(frozen=True)
class Choice:
    """Which calibration judges each of B queries, and why none does where none does.

    Args:
        calibrations: those that judge any.
        which: (B,) rows of `calibrations`, -1 for none.
        why: from row of a query to why none judges it.
        names: the directions of `calibrations`.
    """

    calibrations: tuple[Calibration, ...]
    which: np.ndarray
    why: dict[int, str]
    names: tuple[str, ...]

    @property
    def why_not(self) -> str:
        """Why no query is judged; empty where any is."""
        return "; ".join(dict.fromkeys(self.why.values())) if self.which.size and (self.which < 0).all() else ""

    @property
    def notes(self) -> list[str]:
        """Why some queries are not judged, where others are."""
        if self.why_not or not self.why:
            return []
        return [f"{len(self.why):,} of {self.which.size:,} queries have no probabilities: {'; '.join(dict.fromkeys(self.why.values()))}"]

    @property
    def verdict(self) -> str:
        """Why hits abstain where their calibration has no threshold."""
        words = [(name, each.verdict.text) for name, each in zip(self.names, self.calibrations, strict=True) if each.threshold is None]
        return words[0][1] if len(words) == len(self.names) == 1 else "; ".join(f"{name}: {text}" for name, text in words)


def known_directions(calibration: Calibration | CalibrationSet, queries: Sequence[Modality], *, task: str | None) -> str:
    """Say why a query can have no probability whatever it finds; empty where each may have one.

    Args:
        calibration: that holds for the index.
        queries: the modality of each.
        task: as asked for.

    Example:
        `known_directions(calibrations, ["image"], task=None)`
    """
    candidates: tuple[Modality, ...] = calibration.candidates if isinstance(calibration, CalibrationSet) else ("text",)
    for query in dict.fromkeys(queries):
        found = [_of(calibration, direction(query, candidate), task=task) for candidate in candidates]
        if all(isinstance(each, str) for each in found):
            return str(found[0])
    return ""


def choose(
    calibration: Calibration | CalibrationSet, queries: Sequence[Modality], first: Sequence[Modality], *, task: str | None
) -> Choice:
    """Choose a calibration for each query.

    Args:
        calibration: that holds for the index; one by itself is of text -> text.
        queries: the modality of each query.
        first: the modality of the first hit of each.
        task: of these queries, where several tasks share a direction.
    """
    known: dict[str, Calibration | str] = {}
    which = np.full(len(queries), -1, dtype=np.int64)
    why: dict[int, str] = {}
    names: list[str] = []
    for row, pair in enumerate(zip(queries, first, strict=True)):
        name = direction(*pair)
        if name not in known:
            known[name] = _of(calibration, name, task=task)
            names += [name] if not isinstance(known[name], str) else []
        found = known[name]
        if isinstance(found, str):
            why[row] = found
        else:
            which[row] = names.index(name)
    return Choice(tuple(each for name in names if not isinstance(each := known[name], str)), which, why, tuple(names))


def first_modalities(index: Index, calibration: Calibration | CalibrationSet, found: Found) -> list[Modality]:
    """(B,) the modality of each query's first hit; the index is asked only where its candidates are of several."""
    kinds: tuple[Modality, ...] = calibration.candidates if isinstance(calibration, CalibrationSet) else ("text",)
    if len(kinds) == 1:
        return [kinds[0]] * found.ids.shape[0]
    first = found.ids[:, 0] if found.ids.shape[1] else np.full(found.ids.shape[0], None)
    known = _modalities(index, [name for name in first.tolist() if name is not None])
    return [known.get(name, kinds[0]) for name in first.tolist()]


def judged(found: Found, query: Query, choice: Choice, *, shown: int, candidates: int) -> Shown:
    """Hits with the probabilities of the calibration of their query; those of no calibration without any.

    Args:
        found: what the index found, as deep as every calibration reads.
        query: of the queries.
        choice: of `choose`.
        shown: how many hits per query to show at most.
        candidates: how many the index holds.
    """
    count = min(shown, found.ids.shape[1])
    shape = found.ids.shape[0], count
    places = np.array(np.broadcast_to(np.arange(count), shape))
    probabilities, abstains = np.full(shape, np.nan), np.ones(shape, dtype=bool)
    part_of: dict[int, tuple[Shown, int]] = {}
    groups = [(at, np.flatnonzero(choice.which == at)) for at in np.unique(choice.which[choice.which >= 0]).tolist()]
    reasons: dict[str, list[int]] = {}
    for row, why in choice.why.items():
        reasons.setdefault(why, []).append(row)
    parts: list[tuple[Shown, np.ndarray]] = []
    for at, rows in groups:
        some = _rows(found, rows), _queries(query, rows)
        parts.append((calibrated(*some, choice.calibrations[at], shown=shown, candidates=candidates), rows))
    for why, listed in reasons.items():
        rows = np.asarray(listed, dtype=np.int64)
        parts.append((uncalibrated(_rows(found, rows), _queries(query, rows), shown=shown, why=why), rows))
    for made, rows in parts:
        places[rows], probabilities[rows], abstains[rows] = made.places, made.probabilities, made.abstains
        part_of |= {row: (made, at) for at, row in enumerate(rows.tolist())}

    def reason_at(row: int, place: int) -> str:
        made, at = part_of[row]
        return made.reason_at(at, place)

    return Shown(places, probabilities, abstains, reason_at)


def without_foreign(
    index: Index, found: Found, shown: Shown, queries: Sequence[Modality], first: Sequence[Modality], choice: Choice
) -> Shown:
    """The same without probabilities of hits of another modality than the first of their list: nobody knows these.

    Args:
        index: tells the modality of each hit.
        found: what it found.
        shown: of `judged`.
        queries: the modality of each query.
        first: the modality of the first hit of each.
        choice: of `choose`; hits of queries that nothing judges stay as they are.
    """
    ids = np.take_along_axis(found.ids, shown.places, axis=1)
    known = _modalities(index, [name for name in ids.ravel().tolist() if name is not None])
    foreign = np.array(
        [[name is not None and known[name] != first[row] for name in line] for row, line in enumerate(ids.tolist())], dtype=bool
    ).reshape(ids.shape)
    foreign &= (choice.which >= 0)[:, None]
    # A zero vector has probability 0 in any direction.
    foreign &= ~(shown.probabilities == 0.0)

    def reason_at(row: int, place: int) -> str:
        if not foreign[row, place]:
            return shown.reason_at(row, place)
        names = (direction(queries[row], kind) for kind in (known[ids[row, place]], first[row]))
        return FOREIGN.format(own=next(names), first=next(names))

    return Shown(shown.places, np.where(foreign, np.nan, shown.probabilities), shown.abstains | foreign, reason_at)


def _of(calibration: Calibration | CalibrationSet, name: str, *, task: str | None) -> Calibration | str:
    if isinstance(calibration, CalibrationSet):
        return calibration.of(name, task=task)
    if task is not None:
        raise InputError(f"task is {task!r}, and the calibration is of one direction without tasks: leave task out")
    return calibration if name == TEXT_ONLY else f"calibrated for {TEXT_ONLY} only, and this is {name}"


def _modalities(index: Index, names: list[str]) -> dict[str, Modality]:
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return {}
    return {name: stored_modality(text or "") for name, text in zip(distinct, index.texts(distinct), strict=True)}


def _rows(found: Found, rows: np.ndarray) -> Found:
    return Found(
        ids=found.ids[rows],
        scores=found.scores[rows],
        norms=found.norms[rows],
        counts=found.counts[rows],
        lengths=None if found.lengths is None else found.lengths[rows],
    )


def _queries(query: Query, rows: np.ndarray) -> Query:
    return Query(query.norms[rows], None if query.lengths is None else known_lengths(query.lengths[rows]))
