"""Sets that mix tasks: their names, and the instructions that are written into their queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from normwise.core.errors import InputError, near_names
from normwise.data.contents import Content
from normwise.data.picture_columns import instruct
from normwise.data.sets import Judged, RetrievalData, TrainingPairs

EVERY_OTHER = "*"
Part = TypeVar("Part", TrainingPairs, Judged)


def task_names(data: RetrievalData) -> tuple[str, ...]:
    """The names of the tasks of all splits, sorted; empty for a set of one task."""
    parts = (data.train, data.dev, data.test)
    return tuple(sorted({task for part in parts if part is not None for task in part.tasks}))


def with_instructions(data: RetrievalData, instructions: Mapping[str, str]) -> RetrievalData:
    """Write each task's instruction into its queries.

    Args:
        data: the set.
        instructions: task -> words; the task `*` is every other one, and every query of a set without tasks.

    Raises:
        InputError: an instruction for a task that no row has.
    """
    if not instructions:
        return data
    known = task_names(data)
    for task in instructions:
        if task != EVERY_OTHER and task not in known:
            raise InputError(f"data.instructions: task {task!r} is none of this set: {near_names(task, (*known, EVERY_OTHER))}")
    parts = {split: getattr(data, split) for split in ("train", "dev", "test")}
    told = {split: None if part is None else _told(part, instructions) for split, part in parts.items()}
    return replace(data, **told)


def _told(part: Part, instructions: Mapping[str, str]) -> Part:
    tasks = part.tasks or ("",) * len(part)
    queries: list[Content] = []
    for query, task in zip(part.queries, tasks, strict=True):
        words = instructions.get(task) or instructions.get(EVERY_OTHER)
        queries.append(query if words is None else instruct(query, words))
    return replace(part, queries=tuple(queries))
