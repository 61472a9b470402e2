"""The figure of a re-ranking: a metric under the powers of one prior, from the rows of a record."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.usefulness_records import PowerRow, PriorReranking
from normwise.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, finite, point, text, tick_labels, value_range, wrap

_TICK_ROOM = 30.0
_SIZE = f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}"'


def power_range(priors: Sequence[PriorReranking], cosine: float | None) -> tuple[float, float] | None:
    """The range of the metric over all priors, so that their figures can be compared; None where there is nothing to draw."""
    values = finite(v for prior in priors for row in _drawable(prior.table) for v in (row.reported, row.chosen_on, *_ends(row)))
    return value_range([*values, *finite([cosine])]) if values else None


def power_figure(prior: PriorReranking, *, cosine: float | None, metric: str, bounds: tuple[float, float]) -> str:
    """The metric against the strength of the exponent, on an axis of signed square roots, since small strengths lie close.

    Bars are the interval of the difference to cosine, placed at the metric; rings mark chosen exponents; a dashed curve is
    that of the queries that chose them, where it is another.

    Args:
        prior: with its table of exponents.
        cosine: the metric of cosine, marked by a horizontal line.
        metric: its name.
        bounds: range of the vertical axis.

    Returns:
        An SVG element, or "" where fewer than two exponents have a figure.
    """
    rows = _drawable(prior.table)
    reach = max((abs(row.strength) for row in rows), default=0.0)
    if len(rows) < 2 or reach == 0.0:
        return ""
    x = Scale(low=-math.sqrt(reach), high=math.sqrt(reach), start=LEFT + 8, end=WIDTH - RIGHT)
    y = Scale(low=bounds[0], high=bounds[1], start=HEIGHT - BOTTOM, end=TOP)
    spots = [(x(root(row.strength)), row) for row in rows]
    parts = _axes(x, y, [row.strength for row in rows], metric=metric)
    if cosine is not None and math.isfinite(cosine):
        parts.append(f'<path class="zero" d="M{point(LEFT, y(cosine))}H{x.end:.1f}"><title>cosine</title></path>')
    for at, row in spots:
        if ends := _ends(row):
            parts.append(f'<path class="line s1" opacity=".45" d="M{point(at, y(ends[0]))}V{y(ends[1]):.1f}"/>')
    choosing = [(at, row.chosen_on) for at, row in spots if row.chosen_on is not None and math.isfinite(row.chosen_on)]
    if any(row.chosen_on != row.reported for row in rows) and len(choosing) > 1:
        parts.append(f'<path class="line s2 dash" d="M{"L".join(point(at, y(value)) for at, value in choosing)}"/>')
    parts.append(f'<path class="line s1 strong" d="M{"L".join(point(at, y(row.reported or 0.0)) for at, row in spots)}"/>')
    chosen = [(at, row) for at, row in spots if row.beta in prior.chosen_betas]
    parts += [f'<circle class="switch s1" cx="{at:.1f}" cy="{y(row.reported or 0.0):.1f}" r="4"/>' for at, row in chosen]
    return wrap("".join(parts), label=_spoken(rows, chosen=[row for _, row in chosen], metric=metric, name=prior.prior), size=_SIZE)


def root(strength: float) -> float:
    """The signed square root.

    Example:
        >>> root(-0.25), root(0.0), root(0.04)
        (-0.5, 0.0, 0.2)
    """
    return math.copysign(math.sqrt(abs(strength)), strength)


def _drawable(table: Sequence[PowerRow]) -> list[PowerRow]:
    """Rows with a figure, by strength."""
    kept = [row for row in table if row.reported is not None and math.isfinite(row.reported) and math.isfinite(row.strength)]
    return sorted(kept, key=lambda row: row.strength)


def _ends(row: PowerRow) -> tuple[float, ...]:
    """The ends of the interval of the difference, moved to where the metric lies; none where one is missing."""
    known = finite([row.reported, row.difference.mean, row.difference.ci_low, row.difference.ci_high])
    if len(known) < 4:
        return ()
    reported, mean, low, high = known
    return (reported + low - mean, reported + high - mean)


def _axes(x: Scale, y: Scale, strengths: Sequence[float], *, metric: str) -> list[str]:
    out = []
    ticks = y.ticks()
    for value, label in zip(ticks, tick_labels(ticks), strict=True):
        out.append(f'<path class="grid" d="M{point(LEFT, y(value))}H{x.end:.1f}"/>')
        out.append(text(LEFT - 6, y(value) + 3.5, label, anchor="end"))
    out.append(f'<path class="axis" d="M{point(LEFT, y.start)}H{x.end:.1f}"/>')
    placed: list[float] = []
    # Zero first, then the ends: what lies between gets a number where there is room.
    for strength in sorted(strengths, key=lambda value: (value != 0.0, -abs(value))):
        at = x(root(strength))
        out.append(f'<path class="axis" d="M{point(at, y.start)}v4"/>')
        if all(abs(at - other) >= _TICK_ROOM for other in placed):
            placed.append(at)
            out.append(text(at, y.start + 15, f"{strength:+g}".replace("-", "−") if strength else "0", anchor="middle"))
    # Extreme powers rank badly, so the middle of the floor is free where the corners are not.
    out.append(text((x.start + x.end) / 2, y.start - 7, metric, role="name", anchor="middle"))
    return [*out, text(x.end, y.start + 29, "strength = β · std(log w), square-root scale", role="name", anchor="end")]


def _spoken(rows: Sequence[PowerRow], *, chosen: Sequence[PowerRow], metric: str, name: str) -> str:
    def said(row: PowerRow) -> str:
        return f"{row.reported:.3f} at {row.strength:+g}"

    best = f" Chosen: {'; '.join(said(row) for row in chosen)}." if chosen else ""
    return f"{metric} by the strength of {name}: {said(rows[0])}, {said(rows[-1])}.{best}".replace("-", "−")
