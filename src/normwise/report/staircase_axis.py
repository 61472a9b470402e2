"""The axis of training steps, linear or by logarithm with room for step 0, and series cut where values are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from normwise.report.svg import Scale

Values = Sequence[float | None]
# Larger ones are no figures of a training, and smaller ones are 0: their differences and ratios may be beyond what a float holds.
_DRAWABLE, _LEAST = 1e100, 1e-100
# Where step 0 stands before the first of a log axis: log 0 is nowhere.
_ZERO_ROOM = 20.0


@dataclass(frozen=True, kw_only=True)
class StepAxis:
    """Positions of steps; on a log axis step 0 has a place of its own, `zero`, left of where the scale starts."""

    scale: Scale
    zero: float | None = None

    def __call__(self, step: float) -> float:
        """The position of a step; one outside the axis stands at its end."""
        scale = self.scale
        if self.zero is not None and step < scale.low:
            return self.zero + (scale.start - self.zero) * max(0.0, step) / scale.low
        return scale(min(max(float(step), scale.low), scale.high))

    @property
    def start(self) -> float:
        """Where the axis begins."""
        return self.scale.start if self.zero is None else self.zero

    def holds(self, step: float | None) -> bool:
        """Whether a step lies within the axis."""
        low = 0.0 if self.zero is not None else self.scale.low
        return step is not None and low <= step <= self.scale.high

    def ticks(self) -> list[tuple[float, str]]:
        """Positions and words of round steps; whole ones only, for there is no half step."""
        wide = self.scale.high >= 1e5
        places = [tick for tick in self.scale.ticks(count=4 if wide else 5) if tick == math.floor(tick)]
        places = places or sorted({self.scale.low, self.scale.high})
        found = [] if self.zero is None else [(self.zero, "0")]
        return [*found, *((self(place), step_words(place)) for place in places)]


def step_words(step: float) -> str:
    """A step on an axis.

    Example:
        >>> step_words(1000), step_words(143000.0), step_words(2_500_000)
        ('1,000', '143,000', '2.5M')
    """
    return f"{step:,.0f}" if abs(step) < 1e6 else f"{step / 1e6:,.4g}M"


def spaced_by_log(steps: Sequence[int]) -> bool:
    """Whether a log axis suits steps better: on it the closest checkpoints lie farther apart, as a share of the axis.

    Not the two closest but the third closest pair of a long series decide: one checkpoint beside another makes no spacing. On the log axis
    step 0 lies as far from the first step as that one from the next; steps below 0 have no place there.

    Example:
        >>> spaced_by_log([0, 1, 2, 4, 8, 16, 32]), spaced_by_log([0, 10, 20, 30, 40]), spaced_by_log([0, 600])
        (True, False, False)
    """
    ordered = sorted(set(steps))
    logs = [math.log(step) for step in ordered if step > 0]
    if len(logs) < 2 or ordered[0] < 0:
        return False
    if ordered[0] == 0:
        logs = [2 * logs[0] - logs[1], *logs]
    return _closest(logs) > _closest([float(step) for step in ordered]) + 1e-12


def step_axis(steps: Sequence[int], *, start: float, end: float) -> StepAxis:
    """The axis that suits at least one step, from `start` to `end`."""
    low, high = float(min(steps)), float(max(steps))
    if not spaced_by_log(steps):
        return StepAxis(scale=Scale(low=low, high=high, start=start, end=end))
    first = float(min(step for step in steps if step > 0))
    if low > 0:
        return StepAxis(scale=Scale(low=first, high=high, start=start, end=end, log=True))
    return StepAxis(scale=Scale(low=first, high=high, start=start + _ZERO_ROOM, end=end, log=True), zero=start)


def drawable(values: Iterable[float | None]) -> list[float | None]:
    """The values, with None for all that cannot be drawn."""
    known = [float(v) if v is not None and math.isfinite(v) and abs(v) < _DRAWABLE else None for v in values]
    return [0.0 if v is not None and abs(v) < _LEAST else v for v in known]


def less_null(alignment: Values, null: Values) -> list[float | None]:
    """Alignment less its null; None where either is missing.

    Example:
        >>> less_null([0.75, None, 1.0], [0.25, 0.0])
        [0.5, None]
    """
    pairs = zip(drawable(alignment), drawable(null), strict=False)
    return [None if value is None or chance is None else value - chance for value, chance in pairs]


def runs(steps: Sequence[int], values: Values, *, gaps: Sequence[tuple[int, int]] = ()) -> list[list[tuple[int, float]]]:
    """The series in pieces to be drawn as lines: cut at values that are missing, and where checkpoints are.

    Args:
        steps: of the checkpoints, in order.
        values: one each.
        gaps: pairs of neighboring steps between which checkpoints are missing.

    Example:
        >>> runs([0, 1, 2, 3], [0.5, None, 0.25, 1.0]), runs([0, 1, 9], [1.0, 2.0, 3.0], gaps=[(1, 9)])
        ([[(0, 0.5)], [(2, 0.25), (3, 1.0)]], [[(0, 1.0), (1, 2.0)], [(9, 3.0)]])
    """
    missing = {(int(before), int(after)) for before, after in gaps}
    pieces: list[list[tuple[int, float]]] = []
    before: int | None = None
    for step, value in zip(steps, drawable(values), strict=False):
        if value is not None:
            if before is None or (before, step) in missing:
                pieces.append([])
            pieces[-1].append((step, value))
        before = None if value is None else step
    return pieces


def _closest(places: Sequence[float]) -> float:
    """How far the closest neighbors are apart, as a share of the whole: the third closest pair, or a closer one of few."""
    apart = sorted(after - before for before, after in pairwise(places))
    return apart[min(2, max(0, len(apart) // 2 - 1))] / (places[-1] - places[0])
