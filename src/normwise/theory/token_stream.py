"""Documents one after the other, as one row of token ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Int
from normwise.theory.sequence_law import check_ids


@dataclass(frozen=True, eq=False)
class TokenStream:
    """Documents one after the other.

    Args:
        ids: (T,) token ids in [0, vocabulary), of any integer type; may be a memory map.
        vocabulary: V.
        starts: (D,) where each document starts, ascending from 0; equal starts are empty documents.
        end: the end-of-text id, in place of starts. It belongs to the document that it ends: other tokens may have it next, and it has
            nothing next. With neither, all is one document.

    Raises:
        InputError: no token, an id out of range, starts that do not ascend from 0 or pass the end, or both starts and end.

    Example:
        >>> TokenStream(np.array([1, 2, 0, 2, 1, 0]), vocabulary=3, end=0).bounds.tolist()
        [0, 3, 6]
    """

    ids: np.ndarray
    vocabulary: int
    starts: np.ndarray | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or not self.ids.size:
            raise InputError(f"ids have shape {self.ids.shape}; expected one row of at least 1 token")
        check_ids("ids", self.ids, self.vocabulary)
        if self.end is not None and not 0 <= self.end < self.vocabulary:
            raise InputError(f"end is {self.end}; expected an id from 0 to {self.vocabulary - 1}")
        if self.starts is None:
            return
        if self.end is not None:
            raise InputError("starts and end are both given; expected one of them: each tells where documents end")
        if self.starts.ndim != 1 or not self.starts.size:
            raise InputError(f"starts have shape {self.starts.shape}; expected one row with the start of at least 1 document")
        check_ids("starts", self.starts, self.ids.size + 1)
        if self.starts[0] != 0 or (self.starts[1:] < self.starts[:-1]).any():
            raise InputError("starts do not ascend from 0; expected the place of each document's first token, in order")

    @cached_property
    def bounds(self) -> Int[np.ndarray, " _"]:
        """Starts of the documents that hold a token, ascending, and T."""
        total = self.ids.size
        if self.starts is not None:
            inner = self.starts.astype(np.int64)
        else:
            inner = np.zeros(1, dtype=np.int64) if self.end is None else np.append(0, np.flatnonzero(self.ids == self.end) + 1)
        return np.unique(np.append(inner, total))

    @property
    def longest(self) -> int:
        """Tokens in the longest document."""
        return int(np.diff(self.bounds).max())

    @property
    def spans(self) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"]]:
        """(T,) where the document of each token starts, and where the next one does."""
        lengths = np.diff(self.bounds)
        return np.repeat(self.bounds[:-1], lengths), np.repeat(self.bounds[1:], lengths)

    @property
    def going_on(self) -> np.ndarray:
        """(T,) whether the document has a next token."""
        found = np.ones(self.ids.size, dtype=np.bool_)
        found[self.bounds[1:] - 1] = False
        return found


def check_window(stream: TokenStream, window: int | None) -> None:
    """Raise InputError unless some document is as long as the window, and has two tokens."""
    if stream.longest < 2:
        raise InputError(f"none of {stream.bounds.size - 1} documents has two tokens; expected one with a next token: check starts or end")
    if window is not None and not 1 <= window <= stream.longest:
        raise short_of(window, stream.longest)


def short_of(window: int, longest: int) -> InputError:
    """The error of a window that no document fills."""
    return InputError(
        f"window is {window}; expected 1 to {longest}, the tokens of the longest document: "
        "take a shorter window, or all of a document where that is allowed"
    )
