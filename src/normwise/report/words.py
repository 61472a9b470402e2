"""Numbers, names and figures of a result in plain words; nothing here is computed that the record does not hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from normwise.core.records import METRICS, Decision, Evaluation, RunResult, TrainResult
from normwise.core.similarity import Similarity

NOT_MEASURED = "not measured"

METRIC_NAMES = {
    "p@1": "P@1",
    "mrr@10": "MRR@10",
    "ndcg@10": "nDCG@10",
    "recall@1": "Recall@1",
    "recall@10": "Recall@10",
    "recall@100": "Recall@100",
}

_RANKING = {
    Similarity.COSINE: ("rank by cosine", "q̂ · ĉ"),
    Similarity.DOT: ("rank by dot product", "q · c"),
    Similarity.QUERY_NORMALIZED: ("rank by the dot product with the normalized query", "q̂ · c"),
    Similarity.CANDIDATE_NORMALIZED: ("rank by the dot product with the normalized candidate", "q · ĉ"),
}


def known_similarity(name: str) -> Similarity | None:
    """The similarity of that name, or None for a name that is not one of the four."""
    try:
        return Similarity(name)
    except ValueError:
        return None


def ranking_words(name: str) -> str:
    """How to rank with a similarity, in words."""
    similarity = known_similarity(name)
    return _RANKING[similarity][0] if similarity else f"rank by {name}"


def score_words(name: str) -> str:
    """The formula of a similarity and which lengths enter its ranking."""
    similarity = known_similarity(name)
    if similarity is None:
        return ""
    return f"{_RANKING[similarity][1]}; ranks {'without' if similarity.normalizes_candidate else 'with'} candidate length"


def length_words(name: str) -> str:
    """Whether a candidate's length counts under a similarity, and what that means for stored vectors."""
    similarity = known_similarity(name)
    if similarity is None:
        return ""
    if similarity.normalizes_candidate:
        return "A candidate’s length does not count in this ranking: stored vectors may be normalized."
    return "A candidate’s length counts in this ranking: do not normalize stored vectors."


def number(value: float | None, *, digits: int = 4) -> str:
    """A number to so many significant digits, or that it was not measured.

    Example:
        >>> number(0.123456), number(12345.6), number(None), number(-2.0)
        ('0.1235', '12,346', 'not measured', '−2')
    """
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def duration(seconds: float) -> str:
    """A time span in words.

    Example:
        >>> duration(42.04), duration(432), duration(7384)
        ('42 s', '7 min 12 s', '2 h 3 min')
    """
    if not math.isfinite(seconds):
        return NOT_MEASURED
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`, `2 queries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def geometry_number(value: float | None) -> str:
    """A geometry figure with three decimals, so that columns line up; large or tiny ones to four digits.

    Example:
        >>> geometry_number(0.5), geometry_number(212.43), geometry_number(2e-5), geometry_number(None)
        ('0.500', '212.4', '2e−05', 'not measured')
    """
    if value is None or not (value == 0 or 5e-4 <= abs(value) < 100):
        return number(value)
    return f"{value:.3f}".replace("-", "−")


def arm_numbers(runs: Sequence[RunResult]) -> dict[str, int]:
    """One number for each name, from 1 in order of appearance: an arm may stand under several rankings."""
    return {name: number for number, name in enumerate(dict.fromkeys(run.name for run in runs), start=1)}


def first_of_each(runs: Sequence[RunResult]) -> list[RunResult]:
    """One result for each name: what does not depend on the ranking (curves, geometry, stages) is shown once."""
    firsts: dict[str, RunResult] = {}
    for run in runs:
        firsts.setdefault(run.name, run)
    return list(firsts.values())


def decided_run(runs: Sequence[RunResult], decision: Decision) -> RunResult | None:
    """The run that a decision names, with its similarity or that one's ranking where a name occurs twice; or None."""
    named = [run for run in runs if run.name == decision.run]
    similarity = known_similarity(decision.similarity)
    wanted = (decision.similarity, similarity.ranking.value if similarity else None)
    exact = [run for name in wanted for run in named if run.similarity == name]
    return next(iter(exact or named), None)


def headline(decision: Decision) -> str:
    """The verdict as one sentence.

    Example:
        >>> headline(Decision(similarity="cosine", reason="", run="baseline"))
        'Use “baseline” and rank by cosine.'
    """
    rule = ranking_words(decision.similarity)
    return f"Use “{decision.run}” and {rule}." if decision.run else f"{rule[:1].upper()}{rule[1:]}."


def claims_summary(claims: Mapping[str, str]) -> str:
    """How many claims were reproduced, not reproduced or undecided.

    Example:
        >>> claims_summary({"a": "reproduced", "b": "undecided at this size"})
        'Of 2 claims, 1 reproduced, 1 undecided at this size.'
        >>> claims_summary({})
        'No claim was tested in this run.'
    """
    if not claims:
        return "No claim was tested in this run."
    tallies = {outcome: list(claims.values()).count(outcome) for outcome in ("reproduced", "not reproduced", "undecided at this size")}
    said = ", ".join(f"{count} {outcome}" for outcome, count in tallies.items() if count)
    return f"Of {counted(len(claims), 'claim')}, {said}."


def seeds_words(result: TrainResult) -> str:
    """How many seeds the runs have, and what that allows to say."""
    counts = sorted({len(set(run.seeds)) for run in result.runs if run.seeds})
    if not counts:
        return NOT_MEASURED
    if counts == [1]:
        return "1 seed: intervals cover the queries, not the seed"
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{many} seeds" + (": fewer than five, so claims stay undecided" if counts[0] < 5 else "")


def level_words(level: float) -> str:
    """The coverage of an interval in percent; a small `level` is read as its error rate.

    Example:
        >>> level_words(0.95), level_words(0.0125)
        ('95%', '98.75%')
    """
    return f"{100 * (level if level >= 0.5 else 1 - level):.4g}%"


def metric_order(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics that at least one table holds, in the usual order, unknown ones last."""
    present = {metric for table in tables for metric in table}
    return [metric for metric in METRICS if metric in present] + sorted(present - set(METRICS))


def metric_name(metric: str) -> str:
    """How a metric is written."""
    return METRIC_NAMES.get(metric, metric)


def flat(values: Mapping[str, Any], *, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and readable values of nested plain data."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, prefix=f"{name}.")
        elif isinstance(value, list | tuple):
            yield (
                name,
                "; ".join(json.dumps(v, ensure_ascii=False, default=str) if isinstance(v, Mapping) else str(v) for v in value) or "none",
            )
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, int | float):
            yield name, number(value)
        else:
            yield name, NOT_MEASURED if value is None else str(value)


def evaluation_headline(evaluation: Evaluation) -> str:
    """What an evaluation says to do, or that it decides nothing."""
    if evaluation.decision is None:
        return "Measured, nothing decided."
    return headline(evaluation.decision)
