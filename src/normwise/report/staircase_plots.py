"""The staircase plot: alignment of each order less its null along training, with loss and accuracy beneath on the same axis."""

from __future__ import annotations

from collections.abc import Sequence

from normwise.core.staircase_records import StaircaseReport, StairRecord, TrackReport
from normwise.report.staircase_axis import Values, drawable, less_null, step_axis
from normwise.report.staircase_panels import LETTER, Drawing, Line, Panel, draw_panel, finish, spoken
from normwise.report.svg import LEFT, RIGHT, WIDTH, Scale, finite, point, shorten, text
from normwise.report.words import number

Report = StaircaseReport | TrackReport

SERIES = 6
# One a series: lines differ by dash, too, so that no color is needed.
DASHES = ("", "6 3", "1.5 3", "9 3 1.5 3", "3.5 2", "12 4")
_HIGH, _LOW, _BETWEEN = 176.0, 58.0, 20.0
_LABEL_ROW, _LABEL_ROWS = 12.0, 2
# Room for the seeds' own onsets below all lines, and for the prediction above them, in shares of what is drawn.
_FOOT, _HEAD = 0.14, 0.14
_MOST_BARS = 6


def series_style(place: int) -> tuple[str, str]:
    """The CSS class of series `place` (from 0), and its attribute for the dash: 36 pairs before one comes again.

    Example:
        >>> series_style(0), series_style(1)
        (('s1', ''), ('s2', ' stroke-dasharray="6 3"'))
    """
    dash = DASHES[(place + place // SERIES) % SERIES]
    return f"s{place % SERIES + 1}", f' stroke-dasharray="{dash}"' if dash else ""


def orders(report: Report) -> list[str]:
    """The orders that the report has a series of, lowest first."""
    return sorted(report.alignment, key=lambda key: (not _numbered(key), int(key) if _numbered(key) else 0, key))


def order_style(report: Report, order: str) -> tuple[str, str]:
    """Class and dash of an order's line, the same whichever other orders there are."""
    return series_style(int(order) if _numbered(order) else orders(report).index(order))


def order_line(report: Report, order: str) -> Line:
    """Alignment less null of an order; its band is one standard deviation over seeds, or, around 0, what chance makes of the null."""
    tone, style = order_style(report, order)
    values = less_null(report.alignment[order], report.null.get(order, ()))
    low, high = _band(report, order, values)
    label = shorten(order, limit=3)
    return Line(name=f"order {shorten(order, limit=20)}", end=label, style=style, tone=tone, values=values, low=low, high=high)


def staircase_figure(report: Report) -> str:
    """All orders' alignment less null over the step, and, each in a panel of its own beneath, loss and accuracy as far as they are known.

    A triangle marks an onset and a ring a peak of the mean series; an upright line carries the onset through all panels. Bars at the foot
    are the range of the seeds' own onsets; a bracket is when order 0 was predicted. Lines end where values or checkpoints are missing.

    Returns:
        An SVG element, or "" where nothing is known.
    """
    panels = _panels(report)
    if not panels or not report.steps:
        return ""
    drawing = Drawing(steps=report.steps, gaps=report.integrity.gaps, axis=step_axis(report.steps, start=LEFT, end=WIDTH - RIGHT))
    top = first = 4.0 + _LABEL_ROW * (_LABEL_ROWS if any(drawing.axis.holds(stair.onset) for stair in report.stairs) else 1)
    floor = first + sum(panel.height for panel in panels) + _BETWEEN * (len(panels) - 1)
    _spans(drawing, report, top=first, floor=floor)
    scales = []
    for panel in panels:
        scales.append(draw_panel(drawing, panel, top=top))
        top += panel.height + _BETWEEN
    if panels[0].name == "alignment less null":
        _stairs(drawing, report, panels[0].lines, y=scales[0], floor=floor)
        _predicted(drawing, report, y=scales[0])
    if panels[-1].name == "accuracy":
        tasks = [row.task for row in report.stairs_by_seed if row.task is not None]
        if tasks:
            _bar(drawing, min(tasks), max(tasks), at=scales[-1].start - 4, tone="ink", words="the task is learned, over seeds")
    said = "; ".join(spoken(report.steps, line) for panel in panels for line in panel.lines)
    return finish(drawing, floor=floor, label=f"Alignment less null of each order against the training step. {said}.")


def line_figure(report: TrackReport, values: Values, *, name: str) -> str:
    """One series over the step; "" where nothing of it is known."""
    if not finite(drawable(values)) or not report.steps:
        return ""
    drawing = Drawing(steps=report.steps, gaps=report.integrity.gaps, axis=step_axis(report.steps, start=LEFT, end=WIDTH - RIGHT))
    line = Line(name=name, end="", style="", tone="s1", values=values)
    top, height = 16.0, 120.0
    _spans(drawing, report, top=top, floor=top + height)
    draw_panel(drawing, Panel(name=name, lines=[line], height=height, levels=[(0.0, "")]), top=top)
    return finish(drawing, floor=top + height, label=f"{name} against the training step. {spoken(report.steps, line)}.")


def _panels(report: Report) -> list[Panel]:
    lines = [line for order in orders(report) if finite((line := order_line(report, order)).values)]
    panels = []
    if lines:
        bars = any(row.earliest is not None for row in report.stairs)
        predicted = report.predicted.steps is not None
        levels = [(0.0, ""), (report.thresholds.rise, f"a rise: {number(report.thresholds.rise)}")]
        panels.append(
            Panel(
                name="alignment less null",
                lines=lines,
                height=_HIGH,
                levels=levels,
                head=_HEAD * predicted,
                foot=_FOOT * bars,
            )
        )
    learned = report.thresholds.learned if isinstance(report, StaircaseReport) else None
    for name, values in (("loss", report.loss), ("accuracy", report.accuracy)):
        if finite(drawable(values)):
            low, high = _around(values, report.spread.get(name, ()))
            line = Line(name=name, end="", style="", tone="ink", values=values, low=low, high=high)
            marked = name == "accuracy" and learned is not None
            panels.append(Panel(name=name, lines=[line], height=_LOW, levels=[(learned, "")] if marked and learned is not None else []))
    return panels


def _band(report: Report, order: str, values: Values) -> tuple[Values, Values]:
    if isinstance(report, StaircaseReport):
        return _around(values, report.spread.get(f"alignment_{order}", ()))
    return _around([0.0] * len(values), [None if s is None else report.thresholds.spreads * s for s in report.spread.get(order, ())])


def _around(values: Values, spread: Values) -> tuple[Values, Values]:
    pairs = list(zip(drawable(values), drawable(spread), strict=False))
    low, high = ([None if v is None or s is None else v + sign * s for v, s in pairs] for sign in (-1.0, 1.0))
    return low, high


def _numbered(order: str) -> bool:
    return order.isascii() and order.isdecimal() and len(order) < 4


def _stairs(drawing: Drawing, report: Report, lines: Sequence[Line], *, y: Scale, floor: float) -> None:
    """Onsets and peaks at the lines they are of, and the range of the seeds' own onsets at the foot."""
    shown = {line.name: line for line in lines}
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_LABEL_ROWS)]
    # The name of the panel stands in the lower row.
    taken[0].append((0.0, drawing.axis.start + LETTER * 19))
    bars = 0
    for stair in report.stairs:
        line = shown.get(f"order {stair.order}")
        if line is None:
            continue
        values = dict(zip(drawing.steps, line.values, strict=False))
        if stair.onset is not None and drawing.axis.holds(stair.onset):
            x = drawing.axis(stair.onset)
            way = f"M{point(x, y.end)}V{floor:.1f}"
            drawing.parts.append(f'<path class="line {line.tone} upright" opacity=".55" stroke-dasharray="2 3" d="{way}"/>')
            if (value := values.get(stair.onset)) is not None:
                drawing.parts.append(_triangle(x, y(value), stair, tone=line.tone))
            drawing.parts.extend(_onset_label(x, stair, taken, tone=line.tone, top=y.end))
        top = None if stair.peak_step is None else values.get(stair.peak_step)
        if stair.onset is not None and stair.peak_step is not None and top is not None:
            title = f"<title>order {stair.order}, highest: step {stair.peak_step:,}</title>"
            at = f'cx="{drawing.axis(stair.peak_step):.1f}" cy="{y(top):.1f}"'
            drawing.parts.append(f'<circle class="switch {line.tone}" {at} r="3.6">{title}</circle>')
        if stair.earliest is not None and stair.latest is not None and bars < _MOST_BARS:
            words = f"order {stair.order} rises, over seeds"
            _bar(drawing, stair.earliest, stair.latest, at=y.start - 4 - 5 * bars, tone=line.tone, words=words)
            bars += 1


def _triangle(x: float, y: float, stair: StairRecord, *, tone: str) -> str:
    title = f"<title>order {stair.order}, onset: step {stair.onset:,}</title>"
    return f'<path class="mean {tone} onset" d="M{point(x, y - 5)}L{point(x + 5, y + 4)}L{point(x - 5, y + 4)}Z">{title}</path>'


def _onset_label(x: float, stair: StairRecord, taken: list[list[tuple[float, float]]], *, tone: str, top: float) -> list[str]:
    """The step of an onset above the panel, over its line or right of that, in the first row where it has room; none where it has none."""
    words = f"{stair.order} ▲ {stair.onset:,}"
    half = LETTER * len(words) / 2 + 2
    for middle in (x, x + half, x + 2 * half):
        middle = min(max(middle, half), WIDTH - half)
        for row, spans in enumerate(taken):
            if all(middle + half <= left or middle - half >= right for left, right in spans):
                spans.append((middle - half, middle + half))
                return [text(middle, top - 5 - _LABEL_ROW * row, words, role=f"end {tone}", anchor="middle")]
    return []


def _bar(drawing: Drawing, low: int, high: int, *, at: float, tone: str, words: str) -> None:
    title = f"<title>{words}: step {low:,} to {high:,}</title>"
    left, right = drawing.axis(low), drawing.axis(high)
    drawing.parts.append(f'<path class="bar {tone}" d="M{point(left, at)}H{max(right, left + 0.1):.1f}">{title}</path>')


def _predicted(drawing: Drawing, report: Report, *, y: Scale) -> None:
    """A bracket over the steps at which order 0 was predicted to have grown, as far as the axis reaches."""
    known = finite(drawable([report.predicted.steps, report.predicted.steps_at_slope_1]))
    if not known or not drawing.axis.holds(min(known)):
        return
    left, right, at = drawing.axis(min(known)), drawing.axis(max(known)), y.end + 7
    title = f"<title>order 0, predicted: step {min(known):,.0f} to {max(known):,.0f}</title>"
    drawing.parts.append(f'<path class="line ink" d="M{point(left, at + 4)}v-4H{right:.1f}v4">{title}</path>')
    turned = right + LETTER * 10 > drawing.axis.scale.end
    drawing.parts.append(text(left - 4 if turned else right + 4, at + 3, "predicted", role="name", anchor="end" if turned else "start"))


def _spans(drawing: Drawing, report: Report, *, top: float, floor: float) -> None:
    """Where checkpoints are missing (dashed edges), and where the embedding moved out of proportion (full edges)."""
    taken: list[tuple[float, float]] = []
    for kind, pairs, edge in (("gap", report.integrity.gaps, "zero"), ("jump", report.integrity.jumps, "axis")):
        for before, after in pairs:
            left, right = drawing.axis(before), drawing.axis(after)
            title = f"<title>{kind}: step {before:,} to {after:,}</title>"
            outline = f"M{point(left, top)}H{right:.1f}V{floor:.1f}H{left:.1f}Z"
            drawing.parts.append(f'<path class="mean ink {kind}" opacity=".08" d="{outline}">{title}</path>')
            drawing.parts.append(f'<path class="{edge}" d="M{point(left, top)}V{floor:.1f}M{point(right, top)}V{floor:.1f}"/>')
            middle, half = (left + right) / 2, LETTER * len(kind) / 2
            if all(middle + half < low or middle - half > high for low, high in taken):
                taken.append((middle - half, middle + half))
                drawing.parts.append(text(middle, top + 9, kind, role="name", anchor="middle"))
