"""Figures of a saved result: pure functions from records to SVG text; an empty string where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from normwise.core.records import ReportFigures, RunResult, StageResult
from normwise.report.svg import WIDTH, Scale, clean, finite, plot_area, point, series_class, text, value_range
from normwise.report.words import arm_numbers

MAX_POINTS = 1500
MAX_CURVE = 300
PERCENTILE_BINS = 6
_BINS = 32


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One line of a curve figure: a run (by its number on the page) and its stages' points, one list a stage."""

    number: int
    name: str
    segments: tuple[tuple[tuple[float, float], ...], ...]


def curve_keys(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """The quantities with at least one finite logged value, in order of first appearance; `step` and `epoch` are axes."""
    seen: dict[str, None] = {}
    for run in runs:
        for stage in run.stages:
            for row in stage.curve:
                for key, value in row.items():
                    if key not in ("step", "epoch") and value is not None and math.isfinite(value):
                        seen.setdefault(key)
    return tuple(seen)


def traces(runs: Sequence[RunResult], key: str) -> list[Trace]:
    """The lines of one logged quantity.

    The steps of a later stage go on where the stage before ended, unless they were logged that way already. A stage
    whose name was seen before starts another line of the same run: that is another seed. Runs of one name share a number.
    """
    lines: list[Trace] = []
    numbers = arm_numbers(runs)
    for run in runs:
        number = numbers[run.name]
        for stages in _sequences(run.stages):
            segments = []
            before = 0
            for stage in stages:
                points = [(s, v) for s, v in stage.series(key) if math.isfinite(s) and math.isfinite(v)]
                shift = 0 if points and points[0][0] > before else before
                segments.append(tuple((s + shift, v) for s, v in thin_curve(points)))
                before += stage.steps
            if any(segments):
                lines.append(Trace(number=number, name=run.name, segments=tuple(segments)))
    return lines


def _sequences(stages: Sequence[StageResult]) -> Iterator[list[StageResult]]:
    current: list[StageResult] = []
    for stage in stages:
        if any(stage.name == other.name for other in current):
            yield current
            current = []
        current.append(stage)
    yield current


def thin_curve(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MAX_CURVE` points; of each bucket the lowest and the highest stay, so that no spike is lost."""
    if len(points) <= MAX_CURVE:
        return list(points)
    buckets = MAX_CURVE // 2 - 1
    kept = {0, len(points) - 1}
    for b in range(buckets):
        rows = range(b * len(points) // buckets, (b + 1) * len(points) // buckets)
        kept.add(min(rows, key=lambda i: points[i][1]))
        kept.add(max(rows, key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]


def curve_figure(runs: Sequence[RunResult], key: str, *, title: str) -> str:
    """All runs' curves of one logged quantity; each line ends in its run's number.

    Positive values that span more than two decades are drawn on a log axis. A ring marks where a later stage starts.

    Args:
        runs: the runs, numbered from 1 in this order.
        key: the logged quantity, as in the rows of `StageResult.curve`.
        title: what the figure shows, for the text alternative.

    Returns:
        An SVG element, or "" where nothing was logged.
    """
    lines = traces(runs, key)
    values = [v for line in lines for segment in line.segments for _, v in segment]
    if not values:
        return ""
    steps = [s for line in lines for segment in line.segments for s, _ in segment]
    log = min(values) > 0 and max(values) / min(values) > 100
    y = (min(values) / 1.15, max(values) * 1.15) if log else value_range(values)
    if min(values) >= 0 and not log:
        y = (max(0.0, y[0]), y[1])
    x = (min(0.0, min(steps)), max(steps)) if max(steps) > 0 else value_range(steps)
    frame = plot_area(x, y, labels=("step", ""), log_y=log)
    ends: list[tuple[float, float, int]] = []
    for line in lines:
        frame.parts.append(_line(line, frame.x, frame.y))
        last = [p for segment in line.segments for p in segment][-1]
        ends.append((frame.x(last[0]), frame.y(last[1]), line.number))
    frame.parts.extend(_end_labels(ends, top=frame.y.end, floor=frame.y.start))
    scale = " (log scale)" if log else ""
    return frame.draw(label=f"{title} against training step{scale}. {_spoken(lines)}")


def _line(line: Trace, x: Scale, y: Scale) -> str:
    name = f"<title>{escape(clean(f'{line.number} {line.name}'))}</title>"
    out = []
    for order, segment in enumerate(line.segments):
        if not segment:
            continue
        spots = [point(x(s), y(v)) for s, v in segment]
        path = "M" + "L".join(spots) if len(spots) > 1 else f"M{spots[0]}h0"
        out.append(f'<path class="line {series_class(line.number)}" d="{path}">{name}</path>')
        if order > 0:
            out.append(
                f'<circle class="switch {series_class(line.number)}" cx="{x(segment[0][0]):.1f}" cy="{y(segment[0][1]):.1f}" r="3"/>'
            )
    return "".join(out)


def _end_labels(ends: Sequence[tuple[float, float, int]], *, top: float, floor: float) -> list[str]:
    """Run numbers at the right ends of the lines, pushed apart so that each can be read."""
    unique = {number: (x, y) for x, y, number in reversed(ends)}
    placed: list[list[float]] = [[y, x, number] for number, (x, y) in unique.items()]
    placed.sort()
    gap = min(11.0, (floor - top) / max(1, len(placed)))
    for i in range(1, len(placed)):
        placed[i][0] = max(placed[i][0], placed[i - 1][0] + gap)
    limit = floor
    for row in reversed(placed):
        row[0] = min(row[0], limit)
        limit = row[0] - gap
    return [text(x + 6, y + 3.5, str(int(number)), role=f"end {series_class(int(number))}") for y, x, number in placed]


def _spoken(lines: Sequence[Trace]) -> str:
    said = []
    for line in lines:
        points = [p for segment in line.segments for p in segment]
        said.append(f"{line.name}: {points[0][1]:.4g} at step {points[0][0]:.0f}, {points[-1][1]:.4g} at step {points[-1][0]:.0f}")
    return "; ".join(said) + "."


def histogram(series: Mapping[str, Sequence[float]], *, x_label: str, reference: float | None = None) -> str:
    """Shares of one or two samples over common bins; a tick under the axis marks each median.

    Args:
        series: name -> values; empty samples and values that are not finite are left out.
        x_label: the quantity on the axis.
        reference: a value to mark with a dashed line, shown when it lies in the range.

    Returns:
        An SVG element, or "" where there is no value.
    """
    samples = {name: kept for name, values in series.items() if (kept := finite(values))}
    if not samples:
        return ""
    everything = [v for kept in samples.values() for v in kept]
    low, high = min(everything), max(everything)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-30):
        low, high = value_range([low, high], pad=0.05)
    shares = {name: _shares(kept, low, high) for name, kept in samples.items()}
    top = max(max(share) for share in shares.values())
    frame = plot_area((low, high), (0.0, top * 1.1), labels=(x_label, ""), y_unit="%")
    if reference is not None and low < reference < high:
        frame.parts.append(f'<path class="zero" d="M{point(frame.x(reference), frame.y.start)}V{frame.y.end:.1f}"/>')
    width = (high - low) / _BINS
    for order, (name, share) in enumerate(shares.items()):
        outline = f"M{point(frame.x(low), frame.y(0.0))}" + "".join(
            f"V{frame.y(value):.1f}H{frame.x(low + (i + 1) * width):.1f}" for i, value in enumerate(share)
        )
        outline += f"V{frame.y(0.0):.1f}"
        frame.parts.append(f'<path class="bars {"ab"[order % 2]}" d="{outline}"><title>{escape(clean(name))}</title></path>')
        middle = frame.x(_median(samples[name]))
        frame.parts.append(f'<path class="median {"ab"[order % 2]}" d="M{point(middle, frame.y.start)}V{frame.y.end:.1f}"/>')
    said = "; ".join(
        f"{name}: {len(kept):,} values from {min(kept):.4g} to {max(kept):.4g}, median {_median(kept):.4g}"
        for name, kept in samples.items()
    )
    return frame.draw(label=f"Histogram of {x_label}. {said}.")


def _shares(values: Sequence[float], low: float, high: float) -> list[float]:
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, max(0, int((value - low) / (high - low) * _BINS)))] += 1
    return [100.0 * count / len(values) for count in counts]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def norm_histogram(figures: ReportFigures) -> str:
    """Norms of candidates and of queries before any normalization."""
    return histogram({"candidates": figures.norms_candidates, "queries": figures.norms_queries}, x_label="norm")


def pair_histogram(figures: ReportFigures) -> str:
    """Cosine of random query-candidate pairs; the dashed line is 0, where unrelated texts would be orthogonal."""
    return histogram({"random pairs": figures.random_pair_similarities}, x_label="cosine of random pairs", reference=0.0)


def direction_scatter(figures: ReportFigures) -> str:
    """The first two principal components of the directions, at most 1,500 points, colored by norm percentile.

    Percentiles may be given as shares (0..1) or in percent (0..100). Without one percentile for each direction the
    points are drawn in one color.
    """
    colored = len(figures.direction_norm_percentiles) == len(figures.directions)
    ranks = figures.direction_norm_percentiles if colored else (math.nan,) * len(figures.directions)
    rows = [(x, y, r) for (x, y), r in zip(figures.directions, ranks, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not rows:
        return ""
    scale = 1.0 if max(finite(ranks), default=0.0) <= 1.0 else 100.0
    rows = [rows[i * len(rows) // min(len(rows), MAX_POINTS)] for i in range(min(len(rows), MAX_POINTS))]
    bins: dict[str, list[tuple[float, float]]] = {}
    for x, y, rank in rows:
        name = f"q{min(PERCENTILE_BINS - 1, max(0, int(rank / scale * PERCENTILE_BINS)))}" if math.isfinite(rank) else "plain"
        bins.setdefault(name, []).append((x, y))
    frame = plot_area(value_range([r[0] for r in rows]), value_range([r[1] for r in rows]), labels=("component 1", "component 2"))
    for name in sorted(bins):
        path = "".join(f"M{point(frame.x(x), frame.y(y))}h0" for x, y in bins[name])
        frame.parts.append(f'<path class="dots {name}" d="{path}"/>')
    how = "colored by norm percentile" if colored else "norm percentiles not recorded"
    return frame.draw(label=f"Scatter of {len(rows):,} directions on their first two principal components, {how}.")


def standalone(svg: str, *, width: int = int(WIDTH)) -> str:
    """A figure as a file of its own: the same drawing with its namespace and its colors, light and dark.

    Args:
        svg: what a function of this module returned.
        width: in pixels; only figures without a width of their own in the drawing (forest plots) need another one.
    """
    style = (files("normwise.report") / "templates" / "plot.css").read_text(encoding="utf-8")
    opening, rest = svg.split(">", 1)
    opening = opening.replace('width="100%"', f'width="{width}"').replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{opening}><style>{style}</style>{rest}"
