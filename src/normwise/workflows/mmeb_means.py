"""Means over tasks of MMEB: which tasks each takes, its interval from shared draws, and what a difference allows one to say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from normwise.core.mmeb_records import IN_DOMAIN, OUT_OF_DOMAIN, OVERALL, MmebDifference, Verdict
from normwise.core.records import Interval
from normwise.data.mmeb_layout import METAS
from normwise.theory.bootstrap import SAMPLES, bonferroni_level, excludes_zero, holm_levels
from normwise.theory.candidate_ranking import drawn_interval

LEVEL = 0.95
_TAIL_DRAWS = 20


def groups_of(tasks: Sequence[tuple[str, str, bool | None]]) -> dict[str, tuple[int, ...]]:
    """Rows of the tasks of each mean; means of no task are left out, and one meta task alone is no mean of its own."""
    rows = {meta: tuple(row for row, task in enumerate(tasks) if task[1] == meta) for meta in METAS}
    rows[IN_DOMAIN] = tuple(row for row, task in enumerate(tasks) if task[2] is True)
    rows[OUT_OF_DOMAIN] = tuple(row for row, task in enumerate(tasks) if task[2] is False)
    rows[OVERALL] = tuple(range(len(tasks)))
    return {name: mine for name, mine in rows.items() if mine}


def samples_for(comparisons: int) -> int:
    """Draws that leave 20 in each tail of the strictest interval that is asked for."""
    strictest = bonferroni_level(LEVEL, max(comparisons, len(METAS) + 2))
    return max(SAMPLES, math.ceil(2.0 * _TAIL_DRAWS / (1.0 - strictest)))


def interval_of(rows: Sequence[int], means: np.ndarray, draws: np.ndarray, *, level: float = LEVEL) -> Interval:
    """The mean over some tasks, (T,) means of the sample and (R, T) draws given, each task weighed alike."""
    chosen = list(rows)
    return drawn_interval(float(means[chosen].mean()), draws[:, chosen], level=level)


def judge(groups: Mapping[str, Sequence[int]], means: np.ndarray, draws: np.ndarray) -> dict[str, MmebDifference]:
    """Differences of groups of tasks, corrected for their number."""

    def claim(rows: Sequence[int]) -> Callable[[float], Interval]:
        return lambda level: interval_of(rows, means, draws, level=level)

    judged = holm_levels([claim(rows) for rows in groups.values()], level=LEVEL)
    return {
        name: MmebDifference(difference=interval, level=level, verdict=_verdict(interval))
        for name, (interval, level) in zip(groups, judged, strict=True)
    }


def _verdict(interval: Interval) -> Verdict:
    if interval.mean is None or not excludes_zero(interval):
        return "undecided at this size"
    return "better" if interval.mean > 0.0 else "worse"
