"""Vectors that a model made zero without a word: found and told, apart from those that were made zero on purpose."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from normwise.data.contents import Content, modality_of

_SHOWN = 5
_PICTURES = (
    "the vision tower answers such pictures with zeros in every channel, as one of ReLUs does where a picture is too small or too "
    "plain for it: train with a greater model.vision.image_size (64 or more for efficientnet-lite0), or leave these out"
)
_TEXTS = "the model knows nothing in such texts: write them otherwise, or leave them out"
_BOTH = "the model answers them with zeros: give pictures with more pixels and texts with words that it knows, or leave them out"


@dataclass
class ZeroVectors:
    """Counts, over one call that may encode in several parts, the contents that a model made zero; says so once.

    Args:
        what: what messages call the contents.
    """

    what: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    modalities: set[str] = field(default_factory=set)

    def add(self, vectors: np.ndarray, contents: Sequence[Content], *, first: int = 0, without: Collection[int] = ()) -> None:
        """Look at the vectors of one part; arguments as of `zero_numbers`."""
        found = zero_numbers(vectors, first=first, without=without).tolist()
        self.count += len(contents)
        self.numbers += found
        self.modalities |= {modality_of(contents[number - first]) for number in found}

    def warn(self, *, stacklevel: int = 2) -> None:
        """Say so, if there are any; `stacklevel` as in `warnings.warn`."""
        if self.numbers:
            words = zero_words(self.numbers, count=self.count, what=self.what, modalities=self.modalities)
            warnings.warn(words, UserWarning, stacklevel=stacklevel + 1)


def zero_numbers(vectors: np.ndarray, *, first: int = 0, without: Collection[int] = ()) -> np.ndarray:
    """The numbers of contents whose vector is zero in every dimension though they were encoded.

    Args:
        vectors: (n, D), any float type.
        first: the number of the first row.
        without: rows, counted from 0, that were made zero on purpose and told elsewhere.

    Returns:
        Ascending numbers, int64.

    Example:
        >>> zero_numbers(np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), first=10, without=[2]).tolist()
        [11]
    """
    rows = np.flatnonzero(~np.any(vectors, axis=1))
    return np.setdiff1d(rows, np.asarray(sorted(without), dtype=np.int64)).astype(np.int64) + first


def zero_words(numbers: Sequence[int] | np.ndarray, *, count: int, what: str, modalities: Collection[str]) -> str:
    """Say how many vectors are zero, which come first, and what to do; empty where there is none.

    Args:
        numbers: of the contents, as `zero_numbers` gives them, of all that was encoded.
        count: how many contents were encoded.
        what: what messages call them.
        modalities: of the contents whose vectors are zero, as `modality_of` says.

    Example:
        >>> zero_words([3], count=9, what="contents", modalities={"text"})
        '1 of 9 contents (number 3) has a zero vector, which scores 0 against everything: the model knows nothing in such texts: \
write them otherwise, or leave them out'
        >>> zero_words([], count=9, what="contents", modalities=())
        ''
    """
    if not len(numbers):
        return ""
    shown = ", ".join(str(int(number)) for number in numbers[:_SHOWN]) + (", ..." if len(numbers) > _SHOWN else "")
    which = f"(number {shown}) has a zero vector" if len(numbers) == 1 else f"(numbers {shown}) have zero vectors"
    why = _TEXTS if set(modalities) == {"text"} else _BOTH if "text" in modalities else _PICTURES
    return f"{len(numbers):,} of {count:,} {what} {which}, which {'scores' if len(numbers) == 1 else 'score'} 0 against everything: {why}"
