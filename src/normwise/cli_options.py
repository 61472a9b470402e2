"""From the options of a command to a checked value: mistakes are told by the names that people typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from normwise.core.errors import InputError, near_names
from normwise.core.problem_words import causes_of, words_of
from normwise.core.strict import shown

M = TypeVar("M", bound=BaseModel)


def option_names(names: Iterable[str]) -> dict[str, str]:
    """The options that settings of these names have.

    Example:
        >>> option_names(["learning_rate"])
        {'learning_rate': '--learning-rate'}
    """
    return {name: f"--{name.replace('_', '-')}" for name in names}


def built(model: type[M], values: Mapping[str, Any], *, options: Mapping[str, str], source: str) -> M:
    """Return the value that options and other settings make, or refuse it.

    Args:
        model: its class, whose fields hold the ranges.
        values: field -> what was given.
        options: field -> the option that gave it, for those that came from options.
        source: where the other values came from, for the message.

    Raises:
        InputError: lists every problem; what came by an option is named as on the command line.

    Example:
        >>> from normwise.core.norm_records import TrainingEvidence
        >>> built(TrainingEvidence, {"steps": 0}, options={"steps": "--steps"}, source="inspect")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: --steps is 0; expected 1 or above
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        told = [_told(model, problem, options, source) for problem in causes_of(error.errors())]
    raise InputError("; ".join(told))


def _told(model: type[BaseModel], problem: Any, options: Mapping[str, str], source: str) -> str:
    place = [str(part) for part in problem["loc"]]
    if not place:
        return f"{source}: {_renamed(words_of(problem), options)}"
    if problem["type"] == "extra_forbidden":
        return f"{source}: unknown key {place[0]!r}: {near_names(place[0], model.model_fields)}"
    name = options.get(place[0])
    verb = "holds" if len(place) > 1 else "is"
    came = f"{name or f'{source}: {place[0]}'} {verb} {shown(problem['input'])}"
    return f"{came}; {words_of(problem)}"


def _renamed(words: str, options: Mapping[str, str]) -> str:
    """A check of several settings at once names fields: those whose names are no common words become options."""
    for name, option in options.items():
        if "_" in name:
            words = re.sub(rf"\b{name}\b", option, words)
    return words
