"""From what an index found to what a person is told: probabilities, the order to show hits in, and whom not to trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from normwise.core.similarity import Similarity
from normwise.index.protocol import Found
from normwise.theory.applied_calibration import Applied
from normwise.theory.calibration import Calibration
from normwise.theory.hit_lists import HitLists

ZERO = "zero vector: it has no direction, so no similarity says anything"


@dataclass(frozen=True)
class Shown:
    """The hits to show, (B, k) each, in the order to show them in.

    Args:
        places: where each stood in what the index found.
        probabilities: NaN where nobody knows.
        abstains: whether a hit is not to be trusted.
        reason_at: from row and shown place to why.
    """

    places: np.ndarray
    probabilities: np.ndarray
    abstains: np.ndarray
    reason_at: Callable[[int, int], str]


@dataclass(frozen=True)
class Query:
    """What is known of B queries beside their vectors: (B,) norms, and token counts where texts asked."""

    norms: np.ndarray
    lengths: np.ndarray | None = None


def uncalibrated(found: Found, query: Query, *, shown: int, why: str) -> Shown:
    """Hits as the index found them: no probabilities, and nothing to mistrust but zero vectors.

    Args:
        found: what the index found.
        query: of the queries.
        shown: how many hits per query to show at most.
        why: why no calibration applies.
    """
    count = min(shown, found.ids.shape[1])
    zero = (query.norms[:, None] == 0.0) | (found.norms[:, :count] == 0.0)
    reason = f"not calibrated: {why}"
    return Shown(
        places=np.broadcast_to(np.arange(count), zero.shape),
        probabilities=np.where(zero, 0.0, np.nan),
        abstains=zero,
        reason_at=lambda row, place: ZERO if zero[row, place] else reason,
    )


def calibrated(found: Found, query: Query, calibration: Calibration, *, shown: int, candidates: int) -> Shown:
    """Hits with their probabilities, the one that the calibration puts first in front.

    Queries that have fewer hits than the calibration reads get no probability, and all their hits abstain: nobody knows.

    Args:
        found: what the index found, at least as deep as the calibration reads.
        query: of the queries.
        calibration: that holds for this index.
        shown: how many hits per query to show at most.
        candidates: how many the index holds; with as many hits a softmax over the row is one over the corpus.
    """
    count = min(shown, found.ids.shape[1])
    shape = (found.ids.shape[0], count)
    places = np.array(np.broadcast_to(np.arange(count), shape))
    zero = (query.norms[:, None] == 0.0) | (found.norms[:, :count] == 0.0)
    probabilities, abstains = np.where(zero, 0.0, np.nan), np.ones(shape, dtype=bool)
    applied: dict[int, tuple[Applied, np.ndarray]] = {}
    within = np.zeros(shape[0], dtype=np.int64)
    for depth in np.unique(found.counts).tolist():
        rows = np.flatnonzero(found.counts == depth)
        if depth < max(1, calibration.depth_needed):
            continue
        made = calibration.apply(_hit_lists(found, query, rows, depth=depth, calibration=calibration, complete=depth >= candidates))
        chosen = made.places(min(shown, depth))
        width = chosen.shape[1]
        places[rows, :width] = chosen
        probabilities[rows, :width] = np.take_along_axis(made.probabilities, chosen, axis=1)
        abstains[rows, :width] = np.take_along_axis(made.abstain, chosen, axis=1)
        applied[depth] = (made, chosen)
        within[rows] = np.arange(rows.size)

    def reason_at(row: int, place: int) -> str:
        depth = int(found.counts[row])
        if depth not in applied:
            few = f"{'1 hit was' if depth == 1 else f'{depth} hits were'} found, and the calibration reads {calibration.depth_needed}"
            return ZERO if zero[row, place] else f"no probability is known: {few}"
        made, chosen = applied[depth]
        return made.reason(int(within[row]), int(chosen[within[row], place]))

    return Shown(places, probabilities, abstains, reason_at)


def _hit_lists(found: Found, query: Query, rows: np.ndarray, *, depth: int, calibration: Calibration, complete: bool) -> HitLists:
    whole = rows.size == found.ids.shape[0]

    def cut(values: np.ndarray) -> np.ndarray:
        return values[:, :depth] if whole else values[rows, :depth]

    return HitLists(
        scores=cut(found.scores),
        query_norms=query.norms[rows],
        hit_norms=cut(found.norms),
        similarity=Similarity(calibration.fingerprint.similarity),
        complete=complete,
        query_lengths=None if query.lengths is None else query.lengths[rows],
        hit_lengths=None if found.lengths is None else cut(found.lengths),
    )
