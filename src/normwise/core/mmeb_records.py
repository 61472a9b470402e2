"""What `evaluate` found on MMEB: P@1 inside given candidate sets by task, means over tasks, and two models compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from normwise.core.records import Interval, Record

Verdict = Literal["better", "worse", "undecided at this size"]
OVERALL, IN_DOMAIN, OUT_OF_DOMAIN = "overall", "in-domain", "out-of-domain"


class MmebDifference(Record):
    """A paired difference of P@1 with its interval at `level`, and what it allows one to say of the one against the other."""

    difference: Interval
    level: float
    verdict: Verdict


class MmebTask(Record):
    """One task under both rankings.

    `chance` is P@1 of an encoder that knows nothing. `first` holds, for each ranking, P@1 of every query (ties share the
    first place), `clusters` the cluster of every query, numbered across all tasks of the evaluation, and `fingerprint` tells
    queries, candidates and answers from any others.
    """

    name: str
    meta: str
    in_domain: bool | None
    queries: int
    candidates: int
    chance: float
    p_at_1: Mapping[str, Interval]
    mrr: Mapping[str, float]
    dot_minus_cosine: MmebDifference
    fingerprint: str
    first: Mapping[str, tuple[float, ...]]
    clusters: tuple[int, ...]
    notes: tuple[str, ...] = ()


class MmebMean(Record):
    """A mean over tasks that weighs each task alike, as the benchmark publishes it."""

    tasks: tuple[str, ...]
    p_at_1: Mapping[str, Interval]
    dot_minus_cosine: MmebDifference


class MmebEvaluation(Record):
    """What one model does on tasks of MMEB; `means` by meta task, in-domain, out-of-domain and overall, where there are any."""

    model: str
    data: str
    tasks: tuple[MmebTask, ...]
    means: Mapping[str, MmebMean]
    notes: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The figures in plain lines: tasks, then means.

        Example:
            >>> MmebEvaluation(model="m", data="d", tasks=(), means={}).lines()
            ('task                  meta            queries  chance  cosine                  dot                     dot - cosine',)
        """
        rows = [_line("task", "meta", "queries", "chance", "cosine", "dot", "dot - cosine")]
        for task in self.tasks:
            figures = _figures(task.p_at_1, task.dot_minus_cosine)
            rows.append(_line(task.name, task.meta, f"{task.queries:,}", f"{task.chance:.3f}", *figures))
        for name, mean in self.means.items():
            rows.append(_line(f"mean {name}", f"{len(mean.tasks)} tasks", "", "", *_figures(mean.p_at_1, mean.dot_minus_cosine)))
        return tuple(rows)


class MmebComparison(Record):
    """Two models on the same queries: paired differences `trained - base` of P@1, each under its own ranking.

    `overall` is one claim at its own level; `means` and `tasks` are each corrected for their number.
    """

    base: str
    trained: str
    base_ranking: str
    trained_ranking: str
    overall: MmebDifference
    means: Mapping[str, MmebDifference]
    tasks: Mapping[str, MmebDifference]
    words: str


def _figures(p_at_1: Mapping[str, Interval], difference: MmebDifference) -> tuple[str, str, str]:
    return _span(p_at_1["cosine"]), _span(p_at_1["dot"]), f"{_span(difference.difference)} {difference.verdict}"


def _span(interval: Interval) -> str:
    if interval.mean is None:
        return "undefined"
    if interval.ci_low is None or interval.ci_high is None:
        return f"{interval.mean:.3f} (no interval)"
    return f"{interval.mean:.3f} [{interval.ci_low:.3f}, {interval.ci_high:.3f}]"


def _line(name: str, meta: str, queries: str, chance: str, cosine: str, dot: str, difference: str) -> str:
    return f"{name:<21} {meta:<15} {queries:>7}  {chance:<7} {cosine:<23} {dot:<23} {difference}"
