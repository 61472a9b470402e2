"""Figures of the norms and of what they go with: pure functions from a report's points to SVG text, "" where there are none."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from normwise.core.inspect_records import NormPictures
from normwise.core.records import ReportFigures
from normwise.report.plots import direction_scatter
from normwise.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Frame,
    Scale,
    point,
    shorten,
    text,
    tick_labels,
    value_range,
    wrap,
)

MAX_DOTS = 800
MAX_CATEGORIES = 7
# In the order in which they get their place where there is not enough for all.
MARKED = {"0.5": "median", "0.01": "1%", "0.99": "99%", "0.25": "25%", "0.75": "75%"}
# Norms nearer to each other than this differ by rounding, which is nothing to draw.
_EQUAL = 1e-5
_LOG_HISTOGRAM = 8.0
_LEAST_BARS = 10
_LOG_FACTOR = 20.0
_LONG_TAILS = 4.0
# As many rows as a correlation takes; a line through fewer would say what the table refuses to.
LEAST_FOR_LINE, _MANY = 30, 150
_MEDIAN_BINS, _LEAST_IN_BIN = 12, 5
Axis = Literal["linear", "log", "rank"]


def norm_histogram(figures: NormPictures, quantiles: Mapping[str, float], *, after: float | None = None) -> str:
    """The shares of the norms in the bins of the record, with quantiles marked; a log axis where they span a factor of 8.

    Args:
        figures: the bins.
        quantiles: level ("0.5") -> norm; five of them are marked.
        after: the norm behind a Normalize module, marked where it lies on the axis.

    Returns:
        An SVG element, or "" where no vector has a usable norm or all are equal up to rounding.
    """
    edges, counts = figures.histogram_edges, figures.histogram_counts
    total = sum(counts) + figures.below + figures.above
    if len(edges) != len(counts) + 1 or len(edges) < 2 or total <= 0 or not edges[-1] > edges[0] * (1.0 + _EQUAL) > 0.0:
        return ""
    log = edges[-1] / edges[0] > _LOG_HISTOGRAM
    edges, heights = bars(edges, counts, total=total, log=log)
    x = Scale(low=edges[0], high=edges[-1], start=LEFT, end=WIDTH - RIGHT, log=log)
    y = Scale(low=0.0, high=max(heights) * 1.05, start=HEIGHT - BOTTOM, end=TOP)
    frame = Frame(x=x, y=y, x_label="norm (log scale)" if log else "norm", y_unit="%")
    floor = frame.y.start
    outline = f"M{point(frame.x(edges[0]), floor)}" + "".join(
        f"V{frame.y(height):.1f}H{frame.x(edge):.1f}" for height, edge in zip(heights, edges[1:], strict=False)
    )
    frame.parts.append(f'<path class="bars a" d="{outline}V{floor:.1f}"/>')
    frame.parts.extend(_quantile_marks(frame, quantiles))
    if after is not None and edges[0] < after < edges[-1]:
        frame.parts.append(f'<path class="zero" d="M{point(frame.x(after), floor)}V{frame.y.end:.1f}"/>')
        frame.parts.append(text(frame.x(after) + 4, floor - 6, "after Normalize", role="name"))
    said = ", ".join(f"{words} {quantiles[level]:.4g}" for level, words in sorted(MARKED.items()) if level in quantiles)
    return frame.draw(label=f"Histogram of {total:,} norms. {said}.")


def bars(edges: Sequence[float], counts: Sequence[int], *, total: int, log: bool) -> tuple[list[float], list[float]]:
    """Edges and heights in percent; neighbors are joined until each is as wide as the number of norms can fill.

    A bar's height is the share of the norms for its width (on the log axis, of its logarithm), times the width that each
    bar would have if all were alike: areas are shares.

    Example:
        >>> bars([1.0, 2.0, 3.0], [3, 1], total=4, log=False)
        ([1.0, 2.0, 3.0], [75.0, 25.0])
    """
    place = math.log if log else float
    even = (place(edges[-1]) - place(edges[0])) / min(len(counts), max(_LEAST_BARS, round(math.sqrt(total))))
    kept, held = [edges[0]], [0]
    for edge, count in zip(edges[1:], counts, strict=True):
        held[-1] += count
        if place(edge) - place(kept[-1]) >= even * (1.0 - 1e-6):
            kept.append(edge)
            held.append(0)
    # What is left at the end is a bar of its own if it is wide enough, else it joins the one before.
    if kept[-1] == edges[-1] or (len(kept) > 1 and place(edges[-1]) - place(kept[-1]) < even / 2.0):
        kept.pop()
        held[-2:] = [sum(held[-2:])]
    kept.append(edges[-1])
    widths = [place(b) - place(a) for a, b in zip(kept, kept[1:], strict=False)]
    return kept, [100.0 * count / total * even / width for count, width in zip(held, widths, strict=True)]


def _quantile_marks(frame: Frame, quantiles: Mapping[str, float]) -> list[str]:
    """Dotted lines at the quantiles; a name is left out where it would lie on another, the median's never."""
    marks: list[str] = []
    taken: list[tuple[float, float]] = []
    for level, words in MARKED.items():
        value = quantiles.get(level)
        if value is None or not frame.x.low <= value <= frame.x.high:
            continue
        at = frame.x(value)
        marks.append(f'<path class="median a" d="M{point(at, frame.y.start)}V{frame.y.end:.1f}"><title>{words}: {value:.4g}</title></path>')
        half = 3.2 * len(words) + 2.0
        middle = min(max(at, frame.x.start + half), frame.x.end - half)
        if all(middle + half < low or middle - half > high for low, high in taken):
            taken.append((middle - half, middle + half))
            marks.append(text(middle, frame.y.end - 3, words, role="name", anchor="middle"))
    return marks


def direction_plane(figures: NormPictures, *, colored: bool) -> str:
    """The directions on their first two principal components, colored by the percentile of the norm where norms vary."""
    ranks = figures.plane_percentiles if colored else ()
    return direction_scatter(ReportFigures(directions=figures.plane, direction_norm_percentiles=ranks))


def factor_figure(norms: Sequence[float], values: Sequence[float] | Sequence[str], *, name: str) -> str:
    """The norm, on a log axis, against one factor: dots with a line of medians, or one row of dots for each category.

    Args:
        norms: positive norms.
        values: the factor of the same vectors: all numbers, or all texts.
        name: of the factor.

    Returns:
        An SVG element, or "" where there are no points, the factor does not vary, or the two do not belong together.
    """
    if len(norms) != len(values) or not norms:
        return ""
    if any(isinstance(value, str) for value in values):
        return _category_rows(norms, [str(value) for value in values], name=name)
    pairs = [(float(v), r) for v, r in zip(values, norms, strict=True) if math.isfinite(float(v)) and math.isfinite(r) and r > 0]
    # A factor that does not vary has nothing to be seen against.
    return _scatter(pairs, name=name) if len({value for value, _ in pairs}) > 1 else ""


def axis_of(values: Sequence[float]) -> Axis:
    """Which axis lets the values be seen: log where positive ones span a factor of 20, rank where tails are long, else linear.

    Example:
        >>> axis_of([1.0, 2.0, 3.0]), axis_of([1.0, 10.0, 1000.0]), axis_of([*range(-50, 50), 1e6])
        ('linear', 'log', 'rank')
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if low > 0.0 and high / low > _LOG_FACTOR:
        return "log"
    inner = ordered[(19 * (len(ordered) - 1)) // 20] - ordered[(len(ordered) - 1) // 20]
    return "rank" if inner > 0.0 and high - low > _LONG_TAILS * inner else "linear"


def percentiles(values: Sequence[float]) -> list[float]:
    """The percentile of each value among them; equal ones share the middle of their ranks.

    Example:
        >>> percentiles([5.0, 1.0, 5.0, 9.0])
        [50.0, 12.5, 50.0, 87.5]
    """
    ordered = sorted(values)
    return [50.0 * (bisect_left(ordered, v) + bisect_right(ordered, v)) / len(ordered) for v in values]


def binned_medians(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Median of both coordinates in up to 12 bins of about equal counts along the first; equal values are never parted.

    Bins with fewer than 5 points join the one before.

    Example:
        >>> binned_medians([(float(i // 5), float(i)) for i in range(15)])
        [(0.0, 2.0), (1.0, 7.0), (2.0, 12.0)]
    """
    ordered = sorted(pairs)
    size = max(_LEAST_IN_BIN, math.ceil(len(ordered) / _MEDIAN_BINS))
    bins: list[list[tuple[float, float]]] = []
    for pair in ordered:
        if bins and (len(bins[-1]) < size or bins[-1][-1][0] == pair[0]):
            bins[-1].append(pair)
        else:
            bins.append([pair])
    if len(bins) > 1 and len(bins[-1]) < _LEAST_IN_BIN:
        rest = bins.pop()
        bins[-1] += rest
    return [(median(x for x, _ in found), median(y for _, y in found)) for found in bins if len(found) >= _LEAST_IN_BIN]


def thinned(count: int) -> list[int]:
    """At most 800 row numbers, evenly spread."""
    kept = min(count, MAX_DOTS)
    return [i * count // kept for i in range(kept)]


def _scatter(pairs: Sequence[tuple[float, float]], *, name: str) -> str:
    axis = axis_of([value for value, _ in pairs])
    if axis == "rank":
        pairs = list(zip(percentiles([value for value, _ in pairs]), [norm for _, norm in pairs], strict=True))
    values = [value for value, _ in pairs]
    low, high = _log_range(values) if axis == "log" else value_range(values, pad=0.03)
    x = Scale(low=low, high=high, start=LEFT, end=WIDTH - RIGHT, log=axis == "log")
    low, high = _log_range([norm for _, norm in pairs])
    y = Scale(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP, log=True)
    words = {"linear": "", "log": " (log scale)", "rank": " (percentile)"}[axis]
    frame = Frame(x=x, y=y, x_label=shorten(name, limit=46) + words, y_label="norm (log scale)")
    dots = "".join(f"M{point(frame.x(pairs[i][0]), frame.y(pairs[i][1]))}h0" for i in thinned(len(pairs)))
    frame.parts.append(f'<path class="{_dot_class(len(pairs))}" d="{dots}"/>')
    line = binned_medians(pairs) if len(pairs) >= LEAST_FOR_LINE else []
    if len(line) > 1:
        path = "L".join(point(frame.x(value), frame.y(norm)) for value, norm in line)
        frame.parts.append(f'<path class="line s2 strong" d="M{path}"><title>medians</title></path>')
    said = f" Median norm {line[0][1]:.4g} in the lowest bin, {line[-1][1]:.4g} in the highest." if len(line) > 1 else ""
    return frame.draw(label=f"Norm, on a log axis, against {name}{words}, {len(pairs):,} vectors.{said}")


def _category_rows(norms: Sequence[float], values: Sequence[str], *, name: str) -> str:
    """One row of dots for each of the most frequent categories, the rest together, ordered by median norm."""
    pairs = [(v, r) for v, r in zip(values, norms, strict=True) if math.isfinite(r) and r > 0]
    if not pairs:
        return ""
    common = [value for value, _ in Counter(value for value, _ in pairs).most_common()]
    kept = set(common if len(common) <= MAX_CATEGORIES + 1 else common[:MAX_CATEGORIES])
    groups: dict[str, list[float]] = {}
    rest = []
    for value, norm in pairs:
        (groups.setdefault(value, []) if value in kept else rest).append(norm)
    rows = [(shorten(value, limit=34), found) for value, found in sorted(groups.items(), key=lambda item: median(item[1]))]
    if rest:
        rows.append((f"{len(common) - len(kept)} other categories", rest))
    low, high = _log_range([norm for _, norm in pairs])
    scale = Scale(low=low, high=high, start=LEFT - 30, end=WIDTH - RIGHT, log=True)
    parts = _axis_below(scale, label="norm (log scale)")
    height = (HEIGHT - BOTTOM - TOP) / len(rows)
    shown = set(thinned(len(pairs)))
    order = 0
    for row, (label, found) in enumerate(rows):
        top = TOP + row * height
        dots = []
        for norm in found:
            if order in shown:
                # The golden ratio spreads the dots over the row, alike on every machine.
                dots.append(f"M{point(scale(norm), top + height * (0.55 + 0.36 * (order * 0.618034 % 1.0)))}h0")
            order += 1
        parts.append(f'<path class="{_dot_class(len(pairs))}" d="{"".join(dots)}"/>')
        middle = scale(median(found))
        parts.append(
            f'<path class="line s2 strong" d="M{point(middle, top + height * 0.46)}V{top + height:.1f}"><title>median</title></path>'
        )
        parts.append(text(scale.start, top + height * 0.36, f"{label} ({len(found):,})", role="name"))
    said = "; ".join(f"{label}: {median(found):.4g}" for label, found in rows)
    return wrap(
        "".join(parts), label=f"Norms by {name}, {len(pairs):,} vectors. Medians: {said}.", size=f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}"'
    )


def _dot_class(count: int) -> str:
    return "dots plain small" if count > _MANY else "dots plain"


def _axis_below(scale: Scale, *, label: str) -> list[str]:
    floor = HEIGHT - BOTTOM
    ticks = scale.ticks(count=5)
    out = [f'<path class="axis" d="M{point(scale.start, floor)}H{scale.end:.1f}"/>']
    for value, words in zip(ticks, tick_labels(ticks), strict=True):
        out.append(f'<path class="grid" d="M{point(scale(value), TOP)}V{floor:.1f}"/>')
        out.append(text(scale(value), floor + 15, words, anchor="middle"))
    return [*out, text(scale.end, floor + 29, label, role="name", anchor="end")]


def _log_range(values: Sequence[float]) -> tuple[float, float]:
    """A range with a margin of 4% of its logarithm; equal values get room around them."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.04, 1.02 if high <= low * 1.01 else 1.0)
    return low / margin, high * margin
