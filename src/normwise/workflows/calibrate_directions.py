"""Directions: scores of text -> image and of image -> text are two scales, so each is calibrated by itself.

The direction of a hit is the modality of its query and its own. Where a corpus mixes modalities, queries are told apart by
the modality of the hit that the search puts first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.data.contents import MODALITIES, Content, Modality, count_modalities, modality_of
from normwise.data.documents import stored_modality
from normwise.theory.calibration import Calibration, parse_calibration
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.calibrate_hits import judge_hits
from normwise.workflows.calibrate_material import Material
from normwise.workflows.text_lengths import known_lengths

FORMAT = 2
TEXT_ONLY = "text -> text"
MIXED = (
    "candidates are of several modalities ({counts}): each hit is judged by its own direction, and where hits of two modalities stand in "
    "one list, their order is not to be trusted, since scores across the gap between modalities are not comparable"
)


def direction(query: Modality, candidate: Modality) -> str:
    """The name of a direction.

    Example:
        >>> direction("text", "image")
        'text -> image'
    """
    return f"{query} -> {candidate}"


def task_in(task: str, name: str) -> str:
    """What a task of several directions is called in one of them.

    Example:
        >>> task_in("find", "text -> image")
        'find: text -> image'
    """
    return f"{task}: {name}"


class DirectedCalibration(Record):
    """The calibration of one direction, or of one task of that direction."""

    direction: str = Field(pattern=r"^(text|image|text\+image) -> (text|image|text\+image)$")
    task: str = ""
    calibration: Calibration

    @property
    def name(self) -> str:
        """What it is called: its task where it has one, else its direction."""
        return self.task or self.direction


class CalibrationSet(Record):
    """Calibrations of several directions, or of one that is not text -> text: the other form of `calibration.json`.

    `candidates` are the modalities of the corpus; `refused` says of other directions of the data why they have none. A
    `Calibration` by itself, the first form, is of text -> text.
    """

    format: Literal[2] = FORMAT
    calibrations: tuple[DirectedCalibration, ...] = Field(min_length=1)
    candidates: tuple[Modality, ...] = Field(min_length=1)
    refused: dict[str, str] = Field(default_factory=dict)

    @property
    def known(self) -> str:
        """Its directions, in words.

        Every direction stands there once, with its tasks where it has some.
        """
        names: dict[str, list[str]] = {}
        for each in self.calibrations:
            names.setdefault(each.direction, []).extend([each.task] if each.task else [])
        return " and ".join(f"{name} ({', '.join(tasks)})" if tasks else name for name, tasks in names.items())

    @property
    def depth_needed(self) -> int:
        """How many hits per query a search has to find, whatever it shows and in whichever direction."""
        return max(each.calibration.depth_needed for each in self.calibrations)

    @property
    def needs_lengths(self) -> bool:
        """Whether the search has to know token counts in any direction."""
        return any(each.calibration.needs_lengths for each in self.calibrations)

    def of(self, wanted: str, *, task: str | None = None) -> Calibration | str:
        """The calibration of a direction, or in words why there is none.

        Args:
            wanted: the direction.
            task: which task, where several share the direction; of a task of several directions its bare name is enough.

        Example:
            `calibrations.of("image -> text")`
        """
        here = [each for each in self.calibrations if each.direction == wanted]
        names = (wanted,) if task is None else (task, task_in(task, wanted))
        found = here if task is None else next((some for name in names if (some := [each for each in here if each.task == name])), [])
        if len(found) == 1:
            return found[0].calibration
        if found:
            return f"calibrated for {wanted} by task ({', '.join(each.task for each in found)}): name the task"
        why = next((self.refused[name] for name in names if name in self.refused), "")
        asked = wanted if task is None else f"{wanted}, task {task!r}"
        return f"calibrated for {self.known} only, and this is {asked}" + (f" ({why})" if why else "")


def parse_calibrations(text: str | bytes, source: str, *, again: str = "") -> Calibration | CalibrationSet:
    """Read a `calibration.json` of either form.

    Args:
        text: what stands in the file.
        source: the file, for the message.
        again: the command that fits one, where it is known.

    Raises:
        InputError: neither form; the message says what is wrong, and of which direction.
    """
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict) or "calibrations" not in read:
        return parse_calibration(text, source, again=again)
    way = f"Move it away and fit it again: {again or 'normwise calibrate'}"
    if read.get("format") != FORMAT or isinstance(read["format"], bool):
        raise InputError(f"{source} has format {read.get('format')!r:.20}; a file of several calibrations has {FORMAT}. {way}")
    rows = read["calibrations"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "calibration" in row for row in rows):
        raise InputError(f"{source} is not a whole set of calibrations: expected a list of them, each with its direction. {way}")
    for row in rows:
        # Each in the words that one alone would have.
        parse_calibration(json.dumps(row["calibration"]), f"{source}, {str(row.get('direction')):.60}", again=again)
    try:
        found = CalibrationSet.model_validate_json(text)
    except ValueError as refused:
        problem = refused.errors()[0] if hasattr(refused, "errors") else {}  # pyright: ignore[reportAttributeAccessIssue]
        place = ".".join(map(str, problem.get("loc", ())))
        raise InputError(f"{source} is not a whole set of calibrations: {place}: {problem.get('msg', refused)}. {way}") from None
    names = [(each.direction, each.task) for each in found.calibrations]
    if len(set(names)) < len(names):
        raise InputError(f"{source} has two calibrations of one direction and task: expected one each. {way}")
    return found


@dataclass(frozen=True)
class Part:
    """The queries of one direction, or of one task of it, with their hits."""

    direction: str
    task: str
    material: Material
    asked: Asked

    @property
    def name(self) -> str:
        """What it is called: its task where it has one, else its direction."""
        return self.task or self.direction

    @property
    def pictured(self) -> bool:
        """Whether anything but texts is involved."""
        return self.direction != TEXT_ONLY


def divide(material: Material, asked: Asked, *, seed: int) -> list[Part]:
    """Divide judged hits by direction, and by task where the set has tasks, the largest part first.

    A part of text -> text in a set of nothing else is the whole, untouched.

    Args:
        material: hits of all queries.
        asked: the queries.
        seed: of `judge_hits`.

    Returns:
        Parts whose queries together are all queries. A task of several directions has a part for each.
    """
    queries: list[Modality] = [modality_of(content) for content in asked.judged.queries]
    first = _first_modalities(material, asked)
    tasks = asked.judged.tasks or ("",) * len(queries)
    keys: list[tuple[str, str]] = [(direction(query, hit), task) for query, hit, task in zip(queries, first, tasks, strict=True)]
    places: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    if set(places) == {(TEXT_ONLY, "")}:
        return [Part(TEXT_ONLY, "", material, asked)]
    several = {task for _, task in places if task and sum(other == task for _, other in places) > 1}
    parts = []
    for (name, task), rows in sorted(places.items(), key=lambda item: (-len(item[1]), item[0])):
        at = np.asarray(rows, dtype=np.int64)
        some = asked.subset(at)
        called = task_in(task, name) if task in several else task
        parts.append(Part(name, called, _material_of(material, some, at, seed=seed), some))
    return parts


def corpus_notes(contents: Sequence[Content]) -> list[str]:
    """What to say of a corpus that mixes modalities."""
    counts = count_modalities(tuple(contents))
    if len(counts) < 2:
        return []
    return [MIXED.format(counts=", ".join(f"{count:,} {modality}" for modality, count in counts.items()))]


def corpus_modalities(contents: Sequence[Content]) -> tuple[Modality, ...]:
    """The modalities of a corpus, in a fixed order."""
    counts = count_modalities(tuple(contents))
    return tuple(modality for modality in MODALITIES if modality in counts)


def _first_modalities(material: Material, asked: Asked) -> list[Modality]:
    """(B,) the modality of each query's first hit."""
    known = [modality_of(content) for content in asked.judged.corpus.contents]
    found: list[Modality] = []
    for row, at in enumerate(material.found.rows[:, 0].tolist()):
        if at >= 0:
            found.append(known[at])
            continue
        content = material.describe(row, 0)[1]
        found.append(stored_modality(content) if isinstance(content, str) else modality_of(content))
    return found


def _material_of(material: Material, asked: Asked, rows: np.ndarray, *, seed: int) -> Material:
    found = material.found.subset(rows)
    lengths = material.lengths[0][rows], material.lengths[1]
    judged = judge_hits(found, asked, similarity=material.similarity, query_lengths=lengths[0], candidate_lengths=lengths[1], seed=seed)
    both = known_lengths(judged.hits.query_lengths) is not None and judged.hits.hit_lengths is not None
    lacking = [] if both else ["pictures have no length in tokens: where queries or hits have none, it is neither a signal nor a control"]
    return replace(
        material,
        judged=judged,
        found=found,
        lengths=lengths,
        lengths_at_search=material.lengths_at_search and both,
        describe=lambda row, place: material.describe(int(rows[row]), place),
        vectors=None if material.vectors is None else (material.vectors[0][rows], material.vectors[1]),
        notes=(*material.notes, *lacking),
    )
