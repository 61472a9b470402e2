"""Which run and ranking to use, and in which words a claim may be told."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import Comparison, Decision, Interval, Outcome
from normwise.core.shapes import Int
from normwise.theory.bootstrap import SAMPLES, bonferroni_level, paired_hierarchical_interval

MINIMUM_SEEDS = 5
METRIC = "ndcg@10"

Pair = tuple[str, str]


def decide(
    scores: Mapping[Pair, np.ndarray],
    clusters: Int[np.ndarray, " _"],
    *,
    split: str = "dev",
    seed: int = 0,
    level: float = 0.95,
    samples: int = SAMPLES,
) -> tuple[Decision, list[Comparison]]:
    """Choose the (run, ranking) pair to use: the best cosine run, unless another pair is better beyond doubt.

    The rule: the cosine pair of highest mean is the default. Every other pair is compared with it on the same queries
    and seeds by a paired bootstrap (seeds, then clusters), at the level corrected for the number of comparisons
    (Bonferroni: 1 - (1 - level) / m). Only a pair whose whole interval lies above 0 replaces the default; of several, the
    one of highest mean. Equal means: the pair given first.

    Args:
        scores: (run, "cosine" or "dot") -> (S, B) values of nDCG@10 per seed and query; NaN where undefined.
        clusters: (B,) the cluster of each query.
        split: on which the values were measured; it is named in the result.
        seed: of the bootstrap.
        level: joint coverage of all comparisons.
        samples: least number of draws, as in `hierarchical_interval`.

    Returns:
        The decision with its reason in plain words, and one comparison (pair minus default) per other pair. A pair is
        named "run (ranking)".

    Raises:
        InputError: no cosine pair, an unknown ranking, or shapes that do not agree.

    Example:
        >>> good, bad = np.ones((1, 40)), np.tile([0.0, 1.0], 20)[None]
        >>> decide({("a", "cosine"): bad, ("a", "dot"): good}, np.arange(40))[0].similarity
        'dot'
        >>> decide({("a", "cosine"): bad, ("a", "dot"): bad}, np.arange(40))[0].similarity
        'cosine'
    """
    _check(scores)
    means = {pair: float(np.nanmean(values)) if np.isfinite(values).any() else -math.inf for pair, values in scores.items()}
    default = max((pair for pair in scores if pair[1] == "cosine"), key=lambda pair: means[pair])
    others = [pair for pair in scores if pair != default]
    corrected = bonferroni_level(level, len(others))
    comparisons, winners = [], []
    for pair in others:
        difference = paired_hierarchical_interval(scores[pair], scores[default], clusters, seed=seed, level=corrected, samples=samples)
        comparisons.append(_comparison(pair, default, difference, split=split, level=corrected))
        if difference.ci_low is not None and difference.ci_low > 0.0:
            winners.append((pair, difference))
    chosen, difference = max(winners, key=lambda winner: means[winner[0]], default=(default, None))
    reason = _reason(chosen, default, difference, comparisons, split=split)
    return Decision(similarity=chosen[1], run=chosen[0], split=split, reason=reason), comparisons


def outcome(interval: Interval, seeds: int, *, threshold: float = 0.0) -> Outcome:
    """Return the words that the evidence allows for the claim "the quantity lies above `threshold`".

    Args:
        interval: of the quantity, at the level corrected for the number of claims.
        seeds: number of independent seeds behind it; fewer than 5 can only say undecided.
        threshold: written down before the run.

    Returns:
        "reproduced" if the whole interval lies above the threshold, "not reproduced" if it lies wholly below it,
        else "undecided at this size".

    Example:
        >>> outcome(Interval(mean=0.02, ci_low=0.01, ci_high=0.03), 5)
        'reproduced'
        >>> outcome(Interval(mean=0.02, ci_low=0.01, ci_high=0.03), 3)
        'undecided at this size'
    """
    if seeds < MINIMUM_SEEDS or interval.ci_low is None or interval.ci_high is None:
        return "undecided at this size"
    if interval.ci_low > threshold:
        return "reproduced"
    return "not reproduced" if interval.ci_high < threshold else "undecided at this size"


def name_of(pair: Pair) -> str:
    """Return the name of a (run, ranking) pair, as comparisons use it.

    Example:
        >>> name_of(("baseline", "cosine"))
        'baseline (cosine)'
    """
    return f"{pair[0]} ({pair[1]})"


def _comparison(pair: Pair, default: Pair, difference: Interval, *, split: str, level: float) -> Comparison:
    if difference.ci_low is None or difference.ci_high is None:
        words = "no interval: too few clusters of queries"
    elif difference.ci_low > 0.0:
        words = "better"
    elif difference.ci_high < 0.0:
        words = "worse"
    else:
        words = "no difference shown at this size"
    return Comparison(
        candidate=name_of(pair), baseline=name_of(default), metric=METRIC, split=split, difference=difference, level=level, words=words
    )


def _reason(chosen: Pair, default: Pair, difference: Interval | None, comparisons: list[Comparison], *, split: str) -> str:
    if difference is not None:
        return (
            f"{name_of(chosen)} beats the best cosine run, {name_of(default)}, by {_span(difference)} {METRIC} on {split}; "
            f"the paired interval, corrected for {_count(comparisons)}, excludes 0"
        )
    if not comparisons:
        return f"{name_of(default)} is the only candidate"
    best = max(comparisons, key=lambda c: -math.inf if c.difference.mean is None else c.difference.mean)
    if best.difference.ci_low is None:
        return f"{name_of(default)} is the best cosine run on {split} and stays: too few clusters of queries for an interval"
    return (
        f"{name_of(default)} is the best cosine run on {split} and stays the default: the closest other candidate, {best.candidate}, "
        f"differs by {_span(best.difference)} {METRIC}; its paired interval, corrected for {_count(comparisons)}, does not lie above 0"
    )


def _span(difference: Interval) -> str:
    return f"{difference.mean:+.4f} [{difference.ci_low:+.4f}, {difference.ci_high:+.4f}]"


def _count(comparisons: list[Comparison]) -> str:
    return "1 comparison" if len(comparisons) == 1 else f"{len(comparisons)} comparisons"


def _check(scores: Mapping[Pair, np.ndarray]) -> None:
    shapes = {values.shape for values in scores.values()}
    if len(shapes) > 1 or any(len(shape) != 2 for shape in shapes):
        raise InputError(
            f"scores have shapes {sorted(shapes)}; expected one (seeds, queries) shape for all pairs, so that they can be paired"
        )
    unknown = sorted({ranking for _, ranking in scores} - {"cosine", "dot"})
    if unknown:
        raise InputError(f"scores name the rankings {unknown}; expected cosine or dot (the other similarities rank as one of them)")
    if not any(ranking == "cosine" for _, ranking in scores):
        raise InputError("scores hold no cosine pair; the decision rule needs one as its default")
