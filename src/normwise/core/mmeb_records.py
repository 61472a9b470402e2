"""What `evaluate` found on MMEB: P@1 inside given candidate sets by task, means over tasks, and two models compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from normwise.core.records import Interval, NearestHits, Record

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
    """What one model does on tasks of MMEB; `means` by meta task, in-domain, out-of-domain and overall, where there are any.

    `nearest` holds some queries, drawn by seed over all tasks, with the best of their own candidates under the ranking that has the
    higher mean; None where there are no pictures. `own_ranking` is the one that the model's own similarity asks for, where it has one.
    """

    model: str
    data: str
    tasks: tuple[MmebTask, ...]
    means: Mapping[str, MmebMean]
    notes: tuple[str, ...] = ()
    own_ranking: Literal["cosine", "dot"] | None = None
    nearest: NearestHits | None = None

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
            rows.append(_line(f"mean {name}", _tasks(len(mean.tasks)), "", "", *_figures(mean.p_at_1, mean.dot_minus_cosine)))
        return tuple(rows)


class MmebBoth(Record):
    """P@1 of two models, each under its own ranking, on one task or as a mean over `tasks` of them (then without a meta task)."""

    base: Interval
    trained: Interval
    tasks: int = 1
    meta: str = ""
    queries: int
    candidates: int
    chance: float


class MmebComparison(Record):
    """Two models on the same queries: paired differences `trained - base` of P@1, each under its own ranking.

    `overall` is one claim at its own level; `means` and `tasks` are each corrected for their number. `p_at_1` holds what both
    reached on each task, `mean_p_at_1` the same for each mean, overall included. `nearest` are those of the trained model.
    """

    base: str
    trained: str
    base_ranking: str
    trained_ranking: str
    overall: MmebDifference
    means: Mapping[str, MmebDifference]
    tasks: Mapping[str, MmebDifference]
    words: str
    data: str = ""
    p_at_1: Mapping[str, MmebBoth] = Field(default_factory=dict)
    mean_p_at_1: Mapping[str, MmebBoth] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    nearest: NearestHits | None = None

    def lines(self) -> tuple[str, ...]:
        """The figures in plain lines: the sentence, tasks, then means; a figure that an older record lacks is empty.

        Example:
            >>> same = MmebDifference(difference=Interval(mean=0.0, ci_low=0.0, ci_high=0.0), level=0.95, verdict="undecided at this size")
            >>> known = {"base": "a", "trained": "b", "base_ranking": "cosine", "trained_ranking": "dot"}
            >>> MmebComparison(**known, overall=same, means={}, tasks={}, words="b against a: undecided").lines()[0]
            'b against a: undecided'
        """
        rows = [self.words, _line("task", "meta", "queries", "chance", "base", "trained", "trained - base")]
        rows += [_both_line(name, self.p_at_1.get(name), difference) for name, difference in self.tasks.items()]
        means = {**self.means, OVERALL: self.overall}
        rows += [_both_line(f"mean {name}", self.mean_p_at_1.get(name), difference) for name, difference in means.items()]
        return tuple(rows)


def _figures(p_at_1: Mapping[str, Interval], difference: MmebDifference) -> tuple[str, str, str]:
    return _span(p_at_1["cosine"]), _span(p_at_1["dot"]), f"{_span(difference.difference)} {difference.verdict}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _both_line(name: str, both: MmebBoth | None, found: MmebDifference) -> str:
    said = f"{_span(found.difference)} {found.verdict}"
    if both is None:
        return _line(name, "", "", "", "", "", said)
    meta = both.meta or _tasks(both.tasks)
    return _line(name, meta, f"{both.queries:,}", f"{both.chance:.3f}", _span(both.base), _span(both.trained), said)


def _span(interval: Interval) -> str:
    if interval.mean is None:
        return "undefined"
    if interval.ci_low is None or interval.ci_high is None:
        return f"{interval.mean:.3f} (no interval)"
    return f"{interval.mean:.3f} [{interval.ci_low:.3f}, {interval.ci_high:.3f}]"


def _line(name: str, meta: str, queries: str, chance: str, cosine: str, dot: str, difference: str) -> str:
    return f"{name:<21} {meta:<15} {queries:>7}  {chance:<7} {cosine:<23} {dot:<23} {difference}"
