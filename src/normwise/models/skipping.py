"""Contents that are left out because a picture of theirs cannot be read: one record of them, one warning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from normwise.core.errors import InputError

OnError = Literal["raise", "skip"]
_SHOWN = 5


@dataclass
class Skipped:
    """Collects the contents that cannot be read, with the reasons.

    Args:
        what: what messages call the contents.
        problems: by a content's number in messages, what is wrong with each picture of it.

    Example:
        >>> skipped = Skipped("queries")
        >>> skipped.add(3, "cat.png is empty (0 bytes)")
        >>> skipped.words
        '1 of the queries (number 3) has a picture that cannot be read and got the zero vector: cat.png is empty (0 bytes)'
    """

    what: str
    problems: dict[int, list[str]] = field(default_factory=dict)

    def add(self, number: int, problem: str) -> None:
        """Note one more problem of a content."""
        self.problems.setdefault(number, []).append(problem)

    def rows(self, first: int, count: int) -> np.ndarray:
        """The rows, int64, of contents numbered from `first` that are skipped.

        Example:
            >>> Skipped("queries", {7: ["is empty"]}).rows(5, 10).tolist()
            [2]
        """
        return np.asarray(sorted(number - first for number in self.problems if first <= number < first + count), dtype=np.int64)

    @property
    def words(self) -> str:
        """How many they are, and the first few numbers and reasons; the same reason once."""
        numbers = sorted(self.problems)
        reasons = list(dict.fromkeys(reason for number in numbers for reason in self.problems[number]))
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        each = f"(number {shown}) has" if len(numbers) == 1 else f"(numbers {shown}) have"
        return (
            f"{len(numbers)} of the {self.what} {each} a picture that cannot be read and got the zero vector: "
            f"{'; '.join(reasons[:_SHOWN])}{more}"
        )

    def warn(self, *, stacklevel: int = 2) -> None:
        """Say so, if there are any; `stacklevel` as in `warnings.warn`."""
        if self.problems:
            warnings.warn(self.words, UserWarning, stacklevel=stacklevel + 1)


def collector(on_error: OnError, what: str) -> Skipped | None:
    """What collects the contents to skip; None where the first picture that cannot be read is to raise.

    Raises:
        InputError: `on_error` is neither raise nor skip.

    Example:
        >>> collector("raise", "queries") is None
        True
    """
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error must be raise or skip, got {on_error!r}")
    return Skipped(what) if on_error == "skip" else None
