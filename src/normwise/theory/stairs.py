"""From figures at checkpoints to stairs: when an order's alignment rises above its null, where it peaks, and how far it falls again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int


@dataclass(frozen=True)
class StairRule:
    """What counts as a rise: more than `threshold` above the null at `stays` checkpoints in a row. To be set before figures are seen.

    Raises:
        InputError: a threshold outside 0..1, or less than one checkpoint.
    """

    threshold: float
    stays: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < 1.0 or self.stays < 1:
            raise InputError(
                f"threshold is {self.threshold:g} and stays {self.stays}; expected 0 < threshold < 1 and at least 1 checkpoint"
            )


@dataclass(frozen=True)
class Stair:
    """One order's stair, or that there is none: `onset` is None, and `note` says how near the series came.

    `onset` is the first step of the rise and `before` the checkpoint before it (None where the series begins with the rise): the rise
    lies between the two. `peak` is the highest figure above the null from the onset on, `peak_step` its first step, `decay` the peak
    less the last figure, and `end` the first step after the peak from which the figure stays at or below the threshold as long as a rise
    must stay above it (None where it does not). Without a stair `peak` and `peak_step` are those of the whole series, NaN and None where it
    has no figure at all; `decay` is None.
    """

    order: int
    onset: int | None
    before: int | None
    peak_step: int | None
    peak: float
    decay: float | None
    end: int | None
    note: str

    @property
    def found(self) -> bool:
        """Whether there is a stair."""
        return self.onset is not None


def find_stair(
    steps: Int[np.ndarray, " T"], alignment: Float[np.ndarray, " T"], null: Float[np.ndarray, " N"], *, order: int, rule: StairRule
) -> Stair:
    """Return the stair of one order's series, or that there is none.

    Equation: g_t = alignment_t - null_t; the onset is the first step with g_t, .., g_{t + stays - 1} > threshold. A rise at the last
    checkpoints that has not stayed yet is none. NaN (an undefined figure) is not above anything.

    Args:
        steps: (T,) strictly rising.
        alignment: (T,) figures of an order.
        null: (N,) the same of its null, N = T.
        order: of the signature.
        rule: set before the figures are seen.

    Returns:
        The stair; `found` tells whether there is one.

    Raises:
        InputError: lengths that differ, no checkpoint, or steps that do not rise.

    Example:
        >>> series = np.array([0.0, 0.1, 0.6, 0.9, 0.8, 0.3])
        >>> stair = find_stair(np.arange(6) * 10, series, np.zeros(6), order=0, rule=StairRule(0.5))
        >>> stair.onset, stair.before, stair.peak_step, stair.peak, round(stair.decay, 6)
        (20, 10, 30, 0.9, 0.6)
        >>> find_stair(np.arange(6), series, series, order=1, rule=StairRule(0.5)).note
        'no stair: the figure is at most 0 above its null, which is not above the threshold of 0.5'
    """
    _check(steps, alignment=alignment, null=null)
    above = alignment - null
    known = np.where(np.isnan(above), -np.inf, above)
    high = known > rule.threshold
    start = _first_run(high, rule.stays)
    if start is None:
        top = int(np.argmax(known))
        there = bool(np.isfinite(known[top]))
        peak_step, peak = (int(steps[top]), float(above[top])) if there else (None, float("nan"))
        return Stair(order, None, None, peak_step, peak, None, None, _no_stair(peak, high, rule))
    top = start + int(np.argmax(known[start:]))
    end = _first_run(~high[top:], rule.stays)
    last = float(above[np.flatnonzero(~np.isnan(above))[-1]])
    return Stair(
        order=order,
        onset=int(steps[start]),
        before=int(steps[start - 1]) if start else None,
        peak_step=int(steps[top]),
        peak=float(above[top]),
        decay=float(above[top]) - last,
        end=None if end is None else int(steps[top + end]),
        note="" if start else "the figure is above the threshold from the first checkpoint on: the rise itself was not seen",
    )


def task_onset(steps: Int[np.ndarray, " T"], accuracy: Float[np.ndarray, " T"], *, threshold: float, stays: int = 1) -> int | None:
    """Return the first step from which the accuracy is above a threshold for some checkpoints in a row; None where it never is.

    Args:
        steps: (T,) strictly rising.
        accuracy: (T,) in 0..1; NaN is not above anything.
        threshold: in 0..1, ends excluded.
        stays: checkpoints in a row.

    Raises:
        InputError: as `find_stair` and `StairRule`.

    Example:
        >>> task_onset(np.array([0, 20, 40]), np.array([0.1, 0.2, 0.9]), threshold=0.5)
        40
    """
    rule = StairRule(threshold, stays)
    _check(steps, accuracy=accuracy)
    start = _first_run(accuracy > rule.threshold, rule.stays)
    return None if start is None else int(steps[start])


def climbs_in_order(order_0: Stair, order_1: Stair, task: int | None) -> bool:
    """Return whether order 1 rose after order 0 and not after the task: both stairs exist, and onset 0 < onset 1 <= onset of the task.

    A task that was never learned within the series comes after everything in it.

    Example:
        >>> rule, steps, figures = StairRule(0.5, 1), np.array([0, 10, 20]), np.array([[0.0, 0.9, 0.9], [0.0, 0.0, 0.9]])
        >>> first, second = (find_stair(steps, row, np.zeros(3), order=order, rule=rule) for order, row in enumerate(figures))
        >>> climbs_in_order(first, second, 20), climbs_in_order(first, second, 10), climbs_in_order(first, first, None)
        (True, False, False)
    """
    if order_0.onset is None or order_1.onset is None:
        return False
    return order_0.onset < order_1.onset and (task is None or order_1.onset <= task)


def _first_run(high: np.ndarray, length: int) -> int | None:
    """The first place where so many in a row are true."""
    if high.size < length:
        return None
    runs = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(high, length).all(axis=1))
    return int(runs[0]) if runs.size else None


def _no_stair(peak: float, high: np.ndarray, rule: StairRule) -> str:
    if np.isnan(peak):
        return "no stair: the figure is undefined at every checkpoint"
    count = int(np.count_nonzero(high))
    many = "1 checkpoint" if count == 1 else f"{count} checkpoints"
    if not count:
        return f"no stair: the figure is at most {peak:.3g} above its null, which is not above the threshold of {rule.threshold:g}"
    return f"no stair: the figure is above the threshold of {rule.threshold:g} at {many}, but never at {rule.stays} in a row"


def _check(steps: np.ndarray, **series: np.ndarray) -> None:
    if not steps.size:
        raise InputError("steps is empty; expected at least one checkpoint")
    for name, values in series.items():
        if values.shape != steps.shape:
            raise InputError(f"{name} has shape {values.shape} and steps {steps.shape}; expected one figure per checkpoint")
    falls = np.flatnonzero(np.diff(steps) <= 0)
    if falls.size:
        at = int(falls[0])
        raise InputError(f"steps: {steps[at]} is followed by {steps[at + 1]} at checkpoint {at + 1} (from 0); expected rising steps")
