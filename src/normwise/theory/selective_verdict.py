"""Whether a usable threshold exists on these data at all, and why not, in words.

Two ways to have none: the probability does not tell right hits from wrong ones (then no threshold on it means anything, even
one that happens to meet a low target), or it does, and no threshold shows the target.
"""

from __future__ import annotations

import numpy as np

from normwise.core.calibration_records import ThresholdRecord, VerdictRecord
from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.selective_threshold import certified_threshold, least_without_error
from normwise.theory.threshold_words import apart

LEAST_OF_EACH = 30
# Targets that a diagnosis tries, from the strictest on.
TARGETS = (0.99, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
# With fewer answers than this, one error more or less moves what is certified by a percent or more.
MANY_ANSWERS = 100


def verdict(
    auroc: Interval,
    threshold: ThresholdRecord | None,
    *,
    target: float,
    confidence_level: float,
    queries: int,
    right: int,
    passing: float | None = None,
) -> VerdictRecord:
    """Return whether the threshold may be used, with the figures that say so.

    | label               | when                                                                                         |
    |---------------------|----------------------------------------------------------------------------------------------|
    | no-usable-threshold | AUROC or its interval is undefined, the interval reaches 0.5 or lies below it, or no threshold |
    | usable              | the whole interval lies above 0.5, and a threshold passed                                      |

    Args:
        auroc: of the confidence on the test queries, with its interval.
        threshold: what `certified_threshold` or learn-then-test returned.
        target: the precision asked for.
        confidence_level: how certain it has to be.
        queries: test queries, >= 1.
        right: those whose first hit is relevant.
        passing: where no threshold passed, the target that the fit queries would have passed, of `passing_target`.

    Returns:
        Label and text. Where the label is no-usable-threshold the threshold is void, also one that passed.

    Raises:
        InputError: there is no query, or more are right than there are.

    Example:
        >>> chance = Interval(mean=0.51, ci_low=0.46, ci_high=0.56)
        >>> said = verdict(chance, None, target=0.95, confidence_level=0.9, queries=500, right=300)
        >>> said.label, said.text[:79]
        ('no-usable-threshold', 'No usable threshold exists on these data: the probability does not tell right h')
    """
    if queries < 1 or not 0 <= right <= queries:
        raise InputError(f"right is {right} of {queries} queries; expected at least one query and no more right ones than queries")
    reason = _untold(auroc, queries=queries, right=right)
    if reason is not None:
        text = f"{_NONE}: {reason}. {_gain(target, queries=queries, right=right)}"
        return VerdictRecord(label="no-usable-threshold", text=text)
    if threshold is None:
        text = _not_certain(target, confidence_level, queries=queries, right=right)
        text = f"No usable threshold for a precision of {target:g} exists on these data: {text} {_told(auroc)}"
        return VerdictRecord(label="no-usable-threshold", text=f"{text} {_diagnosis(target, passing)}")
    return VerdictRecord(label="usable", text=f"{_usable(threshold, queries=queries)} {_told(auroc)}")


def check_enough(right: Bool[np.ndarray, " B"], *, what: str, least: int = LEAST_OF_EACH) -> None:
    """Refuse answers that are too few, or too much alike, to fit or to test a confidence.

    Args:
        right: (B,) whether the first hit is relevant; queries without an answer in the corpus are wrong.
        what: which queries they are, for the message.
        least: of right ones and of wrong ones.

    Raises:
        InputError: fewer right or fewer wrong ones; the message says what to add.

    Example:
        >>> check_enough(np.arange(60) < 30, what="fit queries")
        >>> check_enough(np.ones(500, dtype=bool), what="fit queries")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: fit queries: the first hit is right for 500 of 500, wrong for none; expected at least 30 of each: \
add queries that the corpus does not answer (an empty relevance set), or harder ones
    """
    total, good = int(right.size), int(np.count_nonzero(right))
    bad = total - good
    if good >= least and bad >= least:
        return
    came = f"{what}: the first hit is right for {good or 'none'} of {total}, wrong for {bad or 'none'}; expected at least {least} of each"
    if good >= least:
        raise InputError(f"{came}: add queries that the corpus does not answer (an empty relevance set), or harder ones")
    step = "add judged queries" if good else "see that the ids in the judgements are those of the corpus, and add judged queries"
    raise InputError(f"{came}: {step}")


def passing_target(
    held_out: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " _"],
    *,
    target: float,
    confidence_level: float,
    clusters: Int[np.ndarray, " _"] | None = None,
) -> float | None:
    """Return the strictest precision, of `target` and the `TARGETS` below it, that the queries of the fit would have passed.

    It is a diagnosis that spends nothing of the confidence, as it reads no test query; and it promises nothing, since the
    same queries chose the calibrator. A target taken from it is to be tested on fresh queries.

    Args:
        held_out: (B,) held-out probabilities of the queries that fitted.
        right: (B,) whether the hit that was put first is relevant.
        target: the precision that the test queries did not show.
        confidence_level: above 0.5, at most 0.9999.
        clusters: (B,) as `certified_threshold` takes them.

    Returns:
        The precision, or None where not even the lowest passes.

    Example:
        >>> held_out = np.linspace(0.99, 0.01, 400)
        >>> passing_target(held_out, np.arange(400) % 5 > 0, target=0.95, confidence_level=0.9)
        0.7
    """
    how = {"confidence_level": confidence_level, "clusters": clusters}
    tried = (target, *(each for each in TARGETS if each < target))
    return next((each for each in tried if certified_threshold(held_out, right, target=each, **how) is not None), None)


def few_answers(threshold: ThresholdRecord) -> str | None:
    """Say that a threshold hangs on few answered queries, or nothing where they are many.

    Example:
        >>> one = {"precision_target": 0.9, "confidence": 0.9, "probability": 0.7, "coverage": 0.2, "precision_low": 0.9}
        >>> few_answers(ThresholdRecord(answered=40, precision=0.975, **one))
        'the threshold hangs on 40 answered test queries, 1 of them wrong: another split of the queries may decide otherwise; \
more test queries make it firmer'
        >>> few_answers(ThresholdRecord(answered=100, precision=0.97, **one)) is None
        True
    """
    if threshold.answered >= MANY_ANSWERS:
        return None
    wrong = round(threshold.answered * (1.0 - threshold.precision))
    return (
        f"the threshold hangs on {threshold.answered:,} answered test queries, {wrong or 'none'} of them wrong: another split of the "
        "queries may decide otherwise; more test queries make it firmer"
    )


_NONE = "No usable threshold exists on these data"


def _untold(auroc: Interval, *, queries: int, right: int) -> str | None:
    if right in (0, queries):
        kind = "right" if right else "wrong"
        return f"the first hit is {kind} for all {queries:,} test queries, so that there is nothing to tell apart"
    if auroc.mean is None:
        return "the AUROC of the probability is undefined on the test queries"
    if auroc.ci_low is None or auroc.ci_high is None:
        cause = "all probabilities may be equal, or all queries one cluster"
        return f"the AUROC of the probability is {auroc.mean:.3g} and has no interval ({cause})"
    if auroc.ci_high < 0.5:
        figures = f"AUROC {auroc.mean:.3g}, interval {auroc.ci_low:.3g} to {apart(auroc.ci_high, 0.5)[0]}, below 0.5"
        return f"the probability ranks wrong hits above right ones ({figures})"
    if auroc.ci_low <= 0.5:
        figures = f"AUROC {auroc.mean:.3g}, interval {apart(auroc.ci_low, 0.5)[0]} to {auroc.ci_high:.3g}, where 0.5 is chance"
        return f"the probability does not tell right hits from wrong ones ({figures})"
    return None


def _gain(target: float, *, queries: int, right: int) -> str:
    precision = _all_answered(queries=queries, right=right)
    if right >= target * queries:
        return f"{precision}, which meets {target:g} already; nothing is gained by abstaining on this probability."
    step = "What would help: other signals, or more test queries where the interval is wide."
    return f"{precision}, and abstaining on this probability is not known to raise it to {target:g}. {step}"


def _all_answered(*, queries: int, right: int) -> str:
    return f"Answering every query gives a precision of {right / queries:.3g} on {queries:,} test queries"


def _not_certain(target: float, confidence_level: float, *, queries: int, right: int) -> str:
    least = least_without_error(target, confidence_level)
    few = f"; {queries:,} test queries are too few for that" if queries < least else ""
    level = f"{100.0 * confidence_level:.4g}%"
    return (
        f"no threshold shows it with {level} confidence, however few queries are answered. {_all_answered(queries=queries, right=right)}. "
        f"What would help: more test queries (it takes at least {least:,} answered ones without an error{few}), or a lower target."
    )


def _diagnosis(target: float, passing: float | None) -> str:
    if passing is None:
        return f"On the fit queries, no target precision down to {min(target, TARGETS[-1]):g} would have passed either."
    passed = f"On the fit queries, a target precision of {passing:g} would have passed"
    if passing == target:
        return f"{passed}: fit and test queries disagree, and more test queries would decide."
    return f"{passed}: a guess, to be tested on fresh queries, since trying several targets on the same test queries spends the confidence."


def _usable(threshold: ThresholdRecord, *, queries: int) -> str:
    level = f"{100.0 * threshold.confidence:.4g}%"
    figures = f"{threshold.precision:.3g} on the {threshold.answered:,} of {queries:,} test queries that it answers"
    text = (
        f"Answer when the probability is {threshold.probability:.3g} or more: precision is then at least "
        f"{threshold.precision_target:g} with {level} confidence ({figures}, coverage {threshold.coverage:.3g})."
    )
    if threshold.inert == "rejects nothing":
        text += " It rejects nothing: every test query may be answered."
    return text


def _told(auroc: Interval) -> str:
    return f"The probability tells right hits from wrong ones: AUROC {auroc.mean:.3g}, interval {auroc.ci_low:.3g} to {auroc.ci_high:.3g}."
