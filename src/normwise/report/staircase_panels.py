"""Panels over training steps: numbered lines with bands that end where values are missing, levels, one axis of steps at the foot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from normwise.report.staircase_axis import StepAxis, Values, drawable, runs
from normwise.report.svg import WIDTH, Scale, clean, finite, point, text, tick_labels, value_range, wrap

# A letter is about so wide, at the larger of the sizes that pages draw figures at.
LETTER = 6.0
_FLOOR, _LABEL_GAP = 36.0, 11.0
# Checkpoints of a series up to this long have a dot each, to point at.
_DOTTED = 40


@dataclass(frozen=True, kw_only=True)
class Line:
    """A series as it is drawn, and a band (low, high), which lies around it or around chance."""

    name: str
    end: str
    style: str
    tone: str
    values: Values
    low: Values = ()
    high: Values = ()


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A drawing with its own vertical axis; `levels` are dashed, each with its words."""

    name: str
    lines: Sequence[Line]
    height: float
    levels: Sequence[tuple[float, str]] = ()
    head: float = 0.0
    foot: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What all panels share, and what is drawn so far."""

    steps: Sequence[int]
    gaps: Sequence[tuple[int, int]]
    axis: StepAxis
    parts: list[str] = field(default_factory=list)


def draw_panel(drawing: Drawing, panel: Panel, *, top: float) -> Scale:
    """Draw a panel whose upper edge is at `top`; returns its vertical axis."""
    floor, axis = top + panel.height, drawing.axis
    ends = [value for line in panel.lines for value in finite(drawable([*line.values, *line.low, *line.high]))]
    levels = [(level, words) for level, words in panel.levels if finite(drawable([level]))]
    low, high = value_range([*ends, *(level for level, _ in levels)])
    room = high - low
    y = Scale(low=low - panel.foot * room, high=high + panel.head * room, start=floor, end=top)
    ticks = y.ticks(count=4 if panel.height > 100 else 3)
    for value, label in zip(ticks, tick_labels(ticks), strict=True):
        drawing.parts.append(f'<path class="grid" d="M{point(axis.start, y(value))}H{axis.scale.end:.1f}"/>')
        drawing.parts.append(text(axis.start - 6, y(value) + 3.5, label, anchor="end"))
    drawing.parts.append(f'<path class="axis" d="M{point(axis.start, floor)}H{axis.scale.end:.1f}"/>')
    for line in panel.lines:
        drawing.parts.extend(_band_parts(drawing, line, y))
    for level, _ in levels:
        drawing.parts.append(f'<path class="zero" d="M{point(axis.start, y(level))}H{axis.scale.end:.1f}"/>')
    for line in panel.lines:
        drawing.parts.extend(_line_parts(drawing, line, y))
    drawing.parts.extend(_level_words(drawing, panel, level, words, y) for level, words in levels if words)
    drawing.parts.extend(_end_labels(drawing, panel.lines, y))
    drawing.parts.append(text(axis.start, top - 5, panel.name, role="name"))
    return y


def finish(drawing: Drawing, *, floor: float, label: str) -> str:
    """The SVG element, with the axis of steps at its foot."""
    axis = drawing.axis
    for at, words in axis.ticks():
        drawing.parts.append(f'<path class="axis" d="M{point(at, floor)}v4"/>')
        drawing.parts.append(text(at, floor + 15, words, anchor="middle"))
    if axis.zero is not None:
        # The axis is broken between 0 and the first step of the logarithm.
        middle = (axis.zero + axis.scale.start) / 2
        drawing.parts.append(f'<path class="axis" d="M{point(middle - 4, floor + 3)}l4 -6M{point(middle, floor + 3)}l4 -6"/>')
    words = "step, log scale" if axis.scale.log else "step"
    drawing.parts.append(text(axis.scale.end, floor + 29, words, role="name", anchor="end"))
    return wrap("".join(drawing.parts), label=label, size=f'viewBox="0 0 {WIDTH:.0f} {floor + _FLOOR:.0f}"')


def spoken(steps: Sequence[int], line: Line) -> str:
    """What a screen reader says of a line."""
    known = [spot for piece in runs(steps, line.values) for spot in piece]
    (first, start), (last, end) = known[0], known[-1]
    at, top = max(known, key=lambda spot: spot[1])
    return f"{line.name}: {start:.3f} at step {first:,}, at most {top:.3f} at step {at:,}, {end:.3f} at step {last:,}"


def _level_words(drawing: Drawing, panel: Panel, level: float, words: str, y: Scale) -> str:
    """The words of a level, at the end of the axis where fewer points of lines are in the way."""
    axis, row, wide = drawing.axis, y(level) - 3, LETTER * len(words)
    spots = [(axis(s), y(value)) for line in panel.lines for piece in runs(drawing.steps, line.values) for s, value in piece]
    near = [x for x, at in spots if row - _LABEL_GAP <= at <= row + 3]
    before = sum(x <= axis.start + wide for x in near)
    if before < sum(x >= axis.scale.end - wide for x in near):
        return text(axis.start + 2, row, words, role="name")
    return text(axis.scale.end - 2, row, words, role="name", anchor="end")


def _band_parts(drawing: Drawing, line: Line, y: Scale) -> list[str]:
    tops = dict(zip(drawing.steps, drawable(line.high), strict=False))
    parts = []
    for piece in runs(drawing.steps, line.low, gaps=drawing.gaps):
        lower = [point(drawing.axis(step), y(value)) for step, value in piece]
        upper = [point(drawing.axis(step), y(high)) for step, _ in piece if (high := tops[step]) is not None]
        if len(piece) == 1:
            parts.append(f'<path class="line {line.tone}" opacity=".3" d="M{lower[0]}L{upper[0]}"/>')
        else:
            parts.append(f'<path class="mean {line.tone}" opacity=".16" d="M{"L".join([*lower, *reversed(upper)])}Z"/>')
    return parts


def _line_parts(drawing: Drawing, line: Line, y: Scale) -> list[str]:
    parts = []
    title = f"<title>{escape(clean(line.name))}</title>"
    for piece in runs(drawing.steps, line.values, gaps=drawing.gaps):
        spots = [(drawing.axis(step), y(value)) for step, value in piece]
        if len(piece) > 1:
            path = "L".join(point(*spot) for spot in spots)
            parts.append(f'<path class="line {line.tone}"{line.style} d="M{path}">{title}</path>')
        if len(piece) == 1 or len(drawing.steps) <= _DOTTED:
            parts.extend(
                f'<circle class="mean {line.tone}" cx="{x:.1f}" cy="{at:.1f}" r="1.8">'
                f"<title>{escape(clean(line.name))}, step {step:,}: {value:.3f}</title></circle>"
                for (x, at), (step, value) in zip(spots, piece, strict=True)
            )
    return parts


def _end_labels(drawing: Drawing, lines: Sequence[Line], y: Scale) -> list[str]:
    """What a line is, right of its last value, pushed apart so that each can be read; of more lines than fit the first ones."""
    ends = [(y(piece[-1][1]), line) for line in lines if line.end and (piece := [p for r in runs(drawing.steps, line.values) for p in r])]
    placed = sorted(ends[: int((y.start - y.end) / _LABEL_GAP) + 1], key=lambda end: end[0])
    rows = [at for at, _ in placed]
    for i in range(1, len(rows)):
        rows[i] = max(rows[i], rows[i - 1] + _LABEL_GAP)
    limit = y.start
    for i in reversed(range(len(rows))):
        rows[i] = min(rows[i], limit)
        limit = rows[i] - _LABEL_GAP
    right = drawing.axis.scale.end + 5
    return [text(right, row + 4, line.end, role=f"end {line.tone}") for row, (_, line) in zip(rows, placed, strict=True)]
