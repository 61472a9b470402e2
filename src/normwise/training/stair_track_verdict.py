"""What the alignment of a language model's embeddings says in words: which orders rose, when they peaked, what is left of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from normwise.core.shapes import Float, Int
from normwise.core.staircase_records import OrderGain, StaircaseVerdict, TrackThresholds
from normwise.theory.stairs import Stair, StairRule, find_stair

# Set before the first checkpoint was seen. A rise is a correlation .1 above its null, and three of the null's standard deviations, at two
# checkpoints in a row; a decay takes .05 off it; early is the first quarter of the steps.
THRESHOLDS = TrackThresholds(rise=0.1, spreads=3.0, stays=2, falls=0.05)
EARLY = 0.25
# Of R^2: what would count as an order of its own, as in the demo of small tasks.
OWN = 0.1
# Of R^2 beyond frequency: less, and what an order shows is frequency. Set after text without any order had shown a rise, with .012.
BEYOND_FREQUENCY = 0.02


def stream_stair(
    steps: Int[np.ndarray, " T"],
    alignment: Float[np.ndarray, " T"],
    null: Float[np.ndarray, " T"],
    spread: Float[np.ndarray, " T"],
    *,
    order: int,
) -> Stair:
    """Return the stair of one order by `THRESHOLDS`: `find_stair` over figures that are clear of their null, others are not above it.

    Example:
        >>> stair = stream_stair(np.arange(4), np.array([0.0, 0.3, 0.4, 0.2]), np.zeros(4), np.full(4, 0.05), order=0)
        >>> stair.onset, stair.peak_step, round(stair.decay, 6)
        (1, 2, 0.2)
    """
    rule = StairRule(THRESHOLDS.rise, stays=THRESHOLDS.stays)
    above = alignment - null
    clear = above > THRESHOLDS.spreads * np.nan_to_num(spread)
    found = find_stair(steps, np.where(clear, alignment, np.minimum(alignment, null)), null, order=order, rule=rule)
    if found.onset is not None:
        return replace(found, decay=found.peak - float(above[~np.isnan(above)][-1]))
    plain = find_stair(steps, alignment, null, order=order, rule=rule)
    if plain.onset is None:
        return plain
    note = f"no stair: the figure is {plain.peak:.3g} above its null, within {THRESHOLDS.spreads:g} of the null's standard deviations"
    return replace(plain, onset=None, before=None, decay=None, end=None, note=note)


def label_of(stair: Stair, *, last_step: int, last: float) -> str:
    """Return the word for a series with this stair of order 0.

    "no-stair": it does not rise. "risen-before": it is above its null from the first checkpoint on, so that the rise was not seen.
    "no-decay": it rose, and has not fallen so far. "early-peak" and "late-peak": it peaked within the first quarter of the steps, or
    later, and fell to a level above its null. "faded": it fell to its null.

    Args:
        stair: of order 0.
        last_step: of the series.
        last: the last figure above its null.
    """
    if stair.onset is None or stair.peak_step is None:
        return "no-stair"
    if stair.before is None:
        return "risen-before"
    if (stair.decay or 0.0) < THRESHOLDS.falls:
        return "no-decay"
    if not last > THRESHOLDS.rise:
        return "faded"
    return "early-peak" if stair.peak_step <= EARLY * last_step else "late-peak"


def track_verdict(
    stairs: Sequence[Stair], above: Mapping[int, np.ndarray], *, steps: Int[np.ndarray, " T"], gains: Sequence[OrderGain]
) -> StaircaseVerdict:
    """Judge one training: the word is order 0's, or of the lowest order that was followed; the sentences tell every order.

    Args:
        stairs: by order, rising.
        above: by order, (T,) figures less their nulls.
        steps: (T,).
        gains: what orders add, at some steps; the last is told.
    """
    first = stairs[0]
    lowest = above[first.order]
    last = float(lowest[np.flatnonzero(~np.isnan(lowest))[-1]]) if np.any(~np.isnan(lowest)) else float("nan")
    label = label_of(first, last_step=int(steps[-1]), last=last)
    told = [order_words(stair, above[stair.order]) for stair in stairs]
    most = most_beyond_frequency(gains)
    if label != "no-stair" and most is not None and most >= BEYOND_FREQUENCY:
        told.append(f"Beyond how often tokens occur the orders explain at most {plain(most)} of R^2, above the null.")
    if label != "no-stair" and most is not None and most < BEYOND_FREQUENCY:
        label = "frequency-only"
        told.append(
            f"That goes with how often tokens occur: beyond it the orders explain at most {plain(most)} of R^2 at any step that was asked, "
            f"above the null, and {BEYOND_FREQUENCY:g} would count."
        )
    return StaircaseVerdict(label=label, text=" ".join([*told, *_stands_on(gains)]))


def most_beyond_frequency(gains: Sequence[OrderGain]) -> float | None:
    """The most that orders together explain beyond frequency and above their nulls, over the steps that were asked; None if none was."""
    by_step: dict[int, float] = {}
    for row in gains:
        if row.order >= 0 and row.gain is not None and row.null is not None:
            by_step[row.step] = by_step.get(row.step, 0.0) + row.gain - row.null
    return max(by_step.values(), default=None)


def order_words(stair: Stair, above: Float[np.ndarray, " T"]) -> str:
    """Tell one order's series in a sentence."""
    known = above[~np.isnan(above)]
    if stair.onset is None:
        return f"Order {stair.order} shows {stair.note}."
    rise = "is above its null from the first checkpoint on" if stair.before is None else f"rises at step {stair.onset:,}"
    now = f"is {known[-1]:.3f} above its null at the last step"
    if stair.decay is not None and stair.decay < THRESHOLDS.falls:
        return f"Order {stair.order} {rise}, and {now}, its highest {stair.peak:.3f} at step {stair.peak_step:,}: no decay so far."
    return f"Order {stair.order} {rise}, peaks at step {stair.peak_step:,} at {stair.peak:.3f}, and {now}."


def _stands_on(gains: Sequence[OrderGain]) -> list[str]:
    """What the embedding is made of at the last step for which that was asked."""
    if not gains:
        return []
    step = max(gain.step for gain in gains)
    rows = [gain for gain in gains if gain.step == step and gain.gain is not None and gain.null is not None]
    if not rows:
        return []
    told = [f"{_who(row)} {plain(row.gain)} of R^2 (null {plain(row.null)})" for row in rows]
    own = [row.order for row in rows if row.order >= 0 and (row.gain or 0.0) - (row.null or 0.0) >= OWN]
    stands = f"it stands on order {max(own)}" if own else f"no order adds {OWN:g}, which would make it a stair of its own"
    return [f"At step {step:,}, on held-out tokens: {', '.join(told)}; {stands}."]


def plain(value: float | None) -> str:
    """A figure with three digits; nothing is minus zero.

    Example:
        >>> plain(-0.0001), plain(0.25), plain(None)
        ('0.000', '0.250', 'undefined')
    """
    return "undefined" if value is None else f"{round(value, 3) + 0.0:.3f}"


def _who(row: OrderGain) -> str:
    return "frequency alone explains" if row.order < 0 else f"order {row.order} adds"
