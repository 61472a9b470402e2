"""Intervals under each other on one axis: the figure of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from normwise.core.records import Interval
from normwise.report.svg import Scale, finite, series_class, shorten, text, tick_labels, value_range, wrap


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """One interval of a forest plot; `number` picks the color of the run, `mark` is a word beside the name."""

    name: str
    interval: Interval
    number: int = 0
    mark: str = ""


def forest(rows: Sequence[ForestRow], *, title: str, zero: bool = False) -> str:
    """Intervals under each other on one axis, with the numbers in words at the right.

    The figure has no fixed width: positions are in percent, so names and numbers keep their size on a narrow screen.

    Args:
        rows: what to draw; a row whose mean is None is listed as not measured.
        title: the quantity, for the text alternative.
        zero: whether 0 (no difference) belongs to the axis and is marked.

    Returns:
        An SVG element, or "" where no row has a mean.
    """
    known = finite(v for row in rows for v in (row.interval.mean, row.interval.ci_low, row.interval.ci_high))
    if not any(row.interval.mean is not None and math.isfinite(row.interval.mean) for row in rows):
        return ""
    low, high = value_range([*known, 0.0] if zero else known, pad=0.08)
    scale = Scale(low=low, high=high, start=1.0, end=99.0)
    height = 42.0
    floor = height * len(rows) + 8
    parts = []
    ticks = scale.ticks(count=5)
    for value, label in zip(ticks, tick_labels(ticks), strict=True):
        place = scale(value)
        at, anchor = f"{place:.2f}%", "start" if place < 5 else "end" if place > 95 else "middle"
        parts.append(f'<line class="{"zero" if zero and value == 0 else "grid"}" x1="{at}" x2="{at}" y1="4" y2="{floor:.0f}"/>')
        parts.append(text(at, floor + 14, label, anchor=anchor))
    for order, row in enumerate(rows):
        parts.extend(_forest_row(row, scale, top=height * order + 4, signed=zero))
    said = "; ".join(f"{row.name}: {interval_words(row.interval, signed=zero)}" for row in rows)
    return wrap("".join(parts), label=f"{title}. {said}.", size=f'width="100%" height="{floor + 20:.0f}"')


def _forest_row(row: ForestRow, scale: Scale, *, top: float, signed: bool) -> list[str]:
    base = top + 28
    tone = series_class(row.number) if row.number else "ink"
    name = f"{row.number}  {row.name}" if row.number else row.name
    label = shorten(name, limit=34 - len(row.mark)) + (f" · {row.mark}" if row.mark else "")
    out = [
        text("0", top + 14, label, role="row"),
        text("100%", top + 14, interval_words(row.interval, signed=signed), role="value", anchor="end"),
    ]
    mean, low, high = row.interval.mean, row.interval.ci_low, row.interval.ci_high
    if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        out.append(f'<line class="bar {tone}" x1="{scale(low):.2f}%" x2="{scale(high):.2f}%" y1="{base:.0f}" y2="{base:.0f}"/>')
    if mean is not None and math.isfinite(mean):
        out.append(f'<circle class="mean {tone}" cx="{scale(mean):.2f}%" cy="{base:.0f}" r="4.5"/>')
    return out


def interval_words(interval: Interval, *, signed: bool = False) -> str:
    """`0.412 [0.395, 0.428]`, or what is missing in words.

    Example:
        >>> interval_words(Interval(mean=0.5, ci_low=0.4, ci_high=0.6))
        '0.500 [0.400, 0.600]'
        >>> interval_words(Interval(mean=None, ci_low=None, ci_high=None))
        'not measured'
    """

    def number(value: float) -> str:
        return (f"{value:+.3f}" if signed else f"{value:.3f}").replace("-", "−")

    if interval.mean is None or not math.isfinite(interval.mean):
        return "not measured"
    if interval.ci_low is None or interval.ci_high is None:
        return f"{number(interval.mean)} [no interval]"
    return f"{number(interval.mean)} [{number(interval.ci_low)}, {number(interval.ci_high)}]"
