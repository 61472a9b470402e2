"""From onsets over seeds to a verdict: a word of a fixed list, and a sentence with the figures behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.staircase_records import (
    BeyondOrderZero,
    PredictedStair,
    SeedStairsRecord,
    StaircaseVerdict,
    TokenGroup,
)

LABELS = ("staircase", "no-zeroth-stair", "order-0-only", "out-of-order", "not-learned", "no-stair")
# Eight seeds of ten, and as large a share of others.
SHARE = 0.8
# Order 1 that adds less R^2 than this to order 0, above its null, is order 0 seen through a frequency that resembles it.
OWN = 0.1


def needed(seeds: int) -> int:
    """Seeds that a verdict needs.

    Example:
        >>> needed(10), needed(2)
        (8, 2)
    """
    return math.ceil(SHARE * seeds - 1e-9)


def largest_gain(beyond: Sequence[BeyondOrderZero]) -> BeyondOrderZero | None:
    """The checkpoint at which order 1 adds most to order 0, above its null; None where that was not asked."""
    known = [row for row in beyond if row.gain is not None and row.null is not None]
    return max(known, key=lambda row: (row.gain or 0.0) - (row.null or 0.0), default=None)


def verdict_of(
    seeds: Sequence[SeedStairsRecord],
    predicted: PredictedStair,
    *,
    beyond: Sequence[BeyondOrderZero] = (),
    tokens: Sequence[TokenGroup] = (),
    last_step: int,
) -> StaircaseVerdict:
    """Judge the onsets of the seeds.

    Args:
        seeds: at least one.
        predicted: whether order 0 has anything to learn.
        beyond: what order 1 adds to order 0 up to the task, where order 0 tells tokens apart.
        tokens: anchors and others, which have a sentence of their own.
        last_step: of the series.

    Returns:
        The first that holds: "no-zeroth-stair", the law has none and too few seeds show one; "staircase", order 0, then order 1, not
        after the task; "not-learned"; "out-of-order", both rise, but not so; "order-0-only"; "no-stair". Each needs `SHARE` of the seeds.
        Order 1 that adds nothing of its own to order 0 is none.

    Example:
        >>> rows = [SeedStairsRecord(seed=s, order_0=10, order_1=30, task=40, in_order=True) for s in range(5)]
        >>> verdict_of(rows, PredictedStair(exists=True, reason=""), last_step=50).label
        'staircase'
    """
    need = needed(len(seeds))
    zero, one, task = (sum(getattr(row, name) is not None for row in seeds) for name in ("order_0", "order_1", "task"))
    ordered = sum(row.in_order for row in seeds)
    own = _own_words(beyond)
    facts = f"{_rises(seeds)}; order 0, then order 1, not after the task: {ordered} of {len(seeds)}"
    if not predicted.exists and zero <= len(seeds) - need:
        label, text = "no-zeroth-stair", f"Order 0 has nothing to learn here: {predicted.reason}. As found: {facts}."
    elif ordered >= need and own is None:
        label, text = "staircase", f"The staircase is there: {facts}."
    elif task < need:
        label, text = "not-learned", f"The task is not learned within {last_step:,} steps in enough seeds: {facts}."
    elif zero >= need and one >= need and own is None:
        label, text = "out-of-order", f"Both orders rise, but not one after the other and before the task: {facts}."
    elif zero >= need:
        label, text = "order-0-only", f"Order 0 rises, and no stair of order 1 beside it: {facts}."
    else:
        label, text = "no-stair", f"Too few seeds show a stair of order 0: {facts}."
    return StaircaseVerdict(label=label, text=" ".join([text, *([own] if own else []), *_token_words(tokens)]))


def _rises(seeds: Sequence[SeedStairsRecord]) -> str:
    told = []
    for words, name in (("order 0 rises", "order_0"), ("order 1 rises", "order_1"), ("the task is learned", "task")):
        steps = sorted(getattr(row, name) for row in seeds if getattr(row, name) is not None)
        when = "" if not steps else f" at step {steps[0]:,}" if steps[0] == steps[-1] else f" at steps {steps[0]:,} to {steps[-1]:,}"
        told.append(f"{words} in {len(steps)} of {len(seeds)} seeds{when}")
    return ", ".join(told)


def _own_words(beyond: Sequence[BeyondOrderZero]) -> str | None:
    """Why order 1 is not one of its own; None where it is, or where order 0 tells no tokens apart."""
    most = largest_gain(beyond)
    if most is None or most.gain is None or most.null is None or most.gain - most.null >= OWN:
        return None
    return (
        f"What order 1 shows is not a stair of its own: its first frequency resembles order 0, and up to the task all frequencies add at "
        f"most {most.gain - most.null:.3f} of R^2 to order 0, above the null (step {most.step:,}); {OWN:g} would count."
    )


def _token_words(tokens: Sequence[TokenGroup]) -> list[str]:
    if not tokens:
        return []
    told = [
        f"{group.name} {group.norm[0]:.2f} -> {group.norm[-1]:.2f} in length and {group.attention[0]:.3f} -> {group.attention[-1]:.3f} in "
        "attention"
        for group in tokens
    ]
    return [f"From the first checkpoint to the last: {'; '.join(told)}."]
