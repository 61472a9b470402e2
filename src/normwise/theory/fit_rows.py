"""What calibrators share: the rows they may be fitted on, what "right" means, and the order of those that keep it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Int
from normwise.theory.hit_lists import HitLists, JudgedHits

LEAST_OF_BOTH = 2
# Two or three numbers are known to about 1% from this many queries: more would cost seconds and move no probability.
MOST_ROWS = 20_000


class KeepsOrder:
    """A calibrator that reads the whole row and leaves its order alone."""

    def order(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Int[np.ndarray, " B"]:
        """Return (B,) the place of the hit that stands first: 0 everywhere."""
        return np.zeros(len(hits), dtype=np.int64)

    @property
    def depth(self) -> int | None:
        """How many hits per query it reads; None = the whole row."""
        return None


def fit_rows(judged: JudgedHits, *, name: str) -> Int[np.ndarray, " _"]:
    """Return the rows with a direction, of which at least two first hits are right and two wrong.

    Args:
        judged: B queries; those whose query or first hit is a zero vector are left out.
        name: of the calibrator, for the message.

    Raises:
        InputError: fewer than two right or two wrong first hits.
    """
    rows = np.flatnonzero(judged.hits.usable)
    right = int(np.count_nonzero(judged.right[rows]))
    if min(right, rows.size - right) < LEAST_OF_BOTH:
        raise InputError(
            f"{name}: {right} right and {rows.size - right} wrong first hits in {rows.size} usable queries; "
            f"expected at least {LEAST_OF_BOTH} of both: judge more queries, unanswerable ones among them"
        )
    return rows


def thinned(rows: Int[np.ndarray, " _"]) -> Int[np.ndarray, " _"]:
    """Return at most `MOST_ROWS` of the rows, at even steps: for models of a few numbers that read whole rows of hits.

    Example:
        >>> thinned(np.arange(50_000))[:4].tolist(), thinned(np.arange(3)).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return rows if rows.size <= MOST_ROWS else rows[np.arange(MOST_ROWS) * rows.size // MOST_ROWS]


def check_rivals(judged: JudgedHits, *, name: str) -> None:
    """Refuse rows of a single hit: a softmax over one hit is 1 whatever the score."""
    if judged.hits.depth < 2:
        raise InputError(f"{name}: one hit per query; a softmax over one hit is always 1: expected at least 2 hits per query")


def chosen_right(judged: JudgedHits, places: Int[np.ndarray, " B"]) -> Bool[np.ndarray, " B"]:
    """Return whether the hit at the given place of each row is relevant: what "right" means for a calibrator that re-ranks."""
    return judged.relevant[np.arange(len(judged)), places]
