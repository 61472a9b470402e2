"""Which queries fit a calibration and which test it: apart by cluster, and enough of both kinds on either side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.bake_off import LEAST_ANSWERS, LEAST_CLUSTERS
from normwise.theory.folds import cluster_folds
from normwise.theory.hit_lists import JudgedHits


@dataclass(frozen=True)
class Split:
    """Rows of the queries that fit and of those that test, and how they came apart, in words."""

    fit: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...]


def split_queries(judged: JudgedHits, from_dev: np.ndarray, *, seed: int) -> Split:
    """Let dev queries fit and test queries test where both have enough; else split in halves by cluster.

    Enough are 30 right and 30 wrong first hits and 10 clusters among queries with a direction. Halves are of the test queries,
    or of dev where there are none; where those have too few, of both together.

    Args:
        judged: all B queries.
        from_dev: (B,) which come from a dev split.
        seed: of the halves.

    Returns:
        The two parts; no query is in both.

    Raises:
        InputError: nothing gives both sides enough; the message has the counts.
    """
    _refuse_hopeless(judged)
    dev, test = np.flatnonzero(from_dev), np.flatnonzero(~from_dev)
    if dev.size and test.size:
        if _enough(judged, dev) and _enough(judged, test):
            return Split(dev, test, ("dev queries fit, test queries test", *_shared(judged, dev, test)))
        pools = [(test, "test"), (np.arange(len(judged)), "dev and test together")]
        before = ["one of dev and test has too few right or wrong first hits or clusters to do its part alone"]
    else:
        pools, before = [(dev, "dev") if dev.size else (test, "test")], []
    counts, scarce = "", np.arange(len(judged))
    for rows, called in pools:
        halves = _halves(judged, rows, seed=seed)
        if halves is None:
            continue
        if all(_enough(judged, half) for half in halves):
            words = f"queries of {called} were split in halves by cluster (seed {seed}): one fits, the other tests"
            return Split(halves[0], halves[1], ("; ".join([*before, words]),))
        counts, scarce = " and ".join(_counts(judged, half) for half in halves), rows
    came = f"split in halves by cluster they have {counts}" if counts else f"they have {_counts(judged, scarce)}"
    raise InputError(
        f"too few judged queries: {came}; the half that "
        f"fits and the half that tests need {LEAST_ANSWERS} right and {LEAST_ANSWERS} wrong first hits in {LEAST_CLUSTERS} clusters each: "
        f"{_way_out(judged, scarce)}"
    )


def _refuse_hopeless(judged: JudgedHits) -> None:
    usable = judged.hits.usable
    if not usable.any():
        raise InputError(
            f"for each of {len(judged):,} queries, the query or its first hit is a zero vector, which has no direction: check the model, "
            "or the files of vectors"
        )
    right = int(judged.right[usable].sum())
    count = int(usable.sum())
    zero = f" ({len(judged) - count:,} queries more are left out: they or their first hits are zero vectors)" if count < len(judged) else ""
    if right == count:
        raise InputError(
            f"all {count:,} first hits are right{zero}, so nothing tells right from wrong: give harder queries, some without an answer "
            "(no_answer in queries.jsonl), or let --unanswerable 0.3 hide the answers of some"
        )
    if right == 0:
        raise InputError(
            f"all {count:,} first hits are wrong{zero}, so nothing tells right from wrong: check that model, similarity and judgements fit"
        )


def _enough(judged: JudgedHits, rows: np.ndarray) -> bool:
    right, wrong, clusters = _count(judged, rows)
    return min(right, wrong) >= LEAST_ANSWERS and clusters >= LEAST_CLUSTERS


def _count(judged: JudgedHits, rows: np.ndarray) -> tuple[int, int, int]:
    used = rows[judged.hits.usable[rows]]
    right = int(judged.right[used].sum())
    return right, used.size - right, np.unique(judged.clusters[used]).size


def _way_out(judged: JudgedHits, rows: np.ndarray) -> str:
    """What to add, by what is scarce: two halves need twice as much as one."""
    right, wrong, clusters = _count(judged, rows)
    if clusters < 2 * LEAST_CLUSTERS:
        return "give queries of other texts, on other candidates"
    if right < 2 * LEAST_ANSWERS <= wrong:
        return "give more judged queries; where this few are right, check that model, similarity and judgements fit"
    if wrong < 2 * LEAST_ANSWERS <= right:
        return (
            "give harder queries, some without an answer (no_answer in queries.jsonl), or let --unanswerable 0.3 hide the answers of some"
        )
    return "give more judged queries"


def _counts(judged: JudgedHits, rows: np.ndarray) -> str:
    right, wrong, clusters = _count(judged, rows)
    return f"{right:,} right and {wrong:,} wrong first hits in {clusters:,} clusters"


def _halves(judged: JudgedHits, rows: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    if np.unique(judged.clusters[rows]).size < 2:
        return None
    first = cluster_folds(judged.clusters[rows], folds=2, seed=seed) == 0
    return rows[first], rows[~first]


def _shared(judged: JudgedHits, fit: np.ndarray, test: np.ndarray) -> list[str]:
    shared = np.isin(judged.clusters[test], judged.clusters[fit])
    if not shared.any():
        return []
    return [f"{np.count_nonzero(shared):,} test queries share a relevant candidate (or a source) with a query that fits"]
