"""Maps of tokens: where their embeddings lie on the first two principal components, with names where they fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from normwise.core.staircase_records import TokenMap
from normwise.report.svg import Scale, clean, point, text, tick_labels, wrap
from normwise.report.token_words import letters_wide, token_words

# Both axes are as long: 270.
_SIZE, _LEFT, _RIGHT, _TOP, _BOTTOM = 322.0, 40.0, 12.0, 16.0, 36.0
_LETTER, _HEIGHT, _RADIUS = 6.4, 11.0, 2.6
_NAME = 14
_MOST_POINTS = 1_000
# Room around the points for names, in shares of their range.
_PAD = 0.14
# What is larger or closer than this is no embedding, and its differences may be beyond what a float holds.
_DRAWABLE, _LEAST = 1e100, 1e-100

Box = tuple[float, float, float, float]


def map_figure(found: TokenMap) -> tuple[str, str]:
    """Tokens at one step: both axes have one scale, and names stand beside points, as many as fit without touching.

    Returns:
        An SVG element, "" where there is no point; and how many points and names it has, in words.
    """
    rows = [
        (token_words(name, limit=_NAME), x, y)
        for name, (x, y) in zip(found.names, found.points, strict=False)
        if all(math.isfinite(v) and abs(v) < _DRAWABLE for v in (x, y))
    ]
    if not rows:
        return "", "no token"
    count = len(rows)
    drawn = min(count, _MOST_POINTS)
    rows = [rows[i * count // drawn] for i in range(drawn)]
    x_axis, y_axis = _equal_axes(rows)
    spots = [(name, x_axis(x), y_axis(y)) for name, x, y in rows]
    labels = place_names(spots)
    parts = _frame(found, x_axis, y_axis)
    parts += [
        f'<circle class="mean s1" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"><title>{escape(clean(name))}</title></circle>'
        for name, x, y in spots
    ]
    parts += [text(left, floor - 2.5, name, role="name") for name, (left, _, _, floor) in labels]
    words = f"{drawn:,} of {count:,} tokens" if drawn < count else f"{count:,} token{'s' if count > 1 else ''}"
    words += ", each with its name" if len(labels) == drawn else f", {len(labels):,} with their names"
    label = f"Tokens at step {found.step:,} on the first two principal components of their embeddings: {words}."
    return wrap("".join(parts), label=label, size=f'viewBox="0 0 {_SIZE:.0f} {_SIZE:.0f}"'), words


def place_names(spots: Sequence[tuple[str, float, float]]) -> list[tuple[str, Box]]:
    """Boxes (left, top, right, floor) for the names of points, the first of eight places that touches no point, name or edge.

    Names come in the order of the points; one that has no such place is left out.
    """
    points: list[Box] = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for _, x, y in spots]
    placed: list[tuple[str, Box]] = []
    for own, (name, x, y) in enumerate(spots):
        wide = _LETTER * letters_wide(name)
        for box in _places(x, y, wide):
            inside = _LEFT <= box[0] and box[2] <= _SIZE - 1 and _TOP <= box[1] and box[3] <= _SIZE - _BOTTOM
            others = (other for at, other in enumerate(points) if at != own)
            if inside and not any(_touch(box, other) for other in others) and not any(_touch(box, other) for _, other in placed):
                placed.append((name, box))
                break
    return placed


def _places(x: float, y: float, wide: float) -> list[Box]:
    """Right, left, above, below, then the corners."""
    off = _RADIUS + 1.5
    corners = [
        (x + off, y - _HEIGHT / 2),
        (x - off - wide, y - _HEIGHT / 2),
        (x - wide / 2, y - off - _HEIGHT),
        (x - wide / 2, y + off),
        (x + off, y - off - _HEIGHT),
        (x + off, y + off),
        (x - off - wide, y - off - _HEIGHT),
        (x - off - wide, y + off),
    ]
    return [(left, top, left + wide, top + _HEIGHT) for left, top in corners]


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _equal_axes(rows: Sequence[tuple[str, float, float]]) -> tuple[Scale, Scale]:
    """One unit is as long across as up; the points lie in the middle."""
    spans = [(min(values), max(values)) for values in ([x for _, x, _ in rows], [y for _, _, y in rows])]
    half = max(high - low for low, high in spans) * (0.5 + _PAD)
    if not half > _LEAST:
        half = 1.0
    (left, right), (low, high) = ((sum(span) / 2 - half, sum(span) / 2 + half) for span in spans)
    x = Scale(low=left, high=right, start=_LEFT, end=_SIZE - _RIGHT)
    return x, Scale(low=low, high=high, start=_SIZE - _BOTTOM, end=_TOP)


def _frame(found: TokenMap, x: Scale, y: Scale) -> list[str]:
    parts = []
    ticks = y.ticks(count=3)
    for value, label in zip(ticks, tick_labels(ticks), strict=True):
        parts.append(f'<path class="grid" d="M{point(x.start, y(value))}H{x.end:.1f}"/>')
        parts.append(text(x.start - 5, y(value) + 3.5, label, anchor="end"))
    ticks = x.ticks(count=3)
    for value, label in zip(ticks, tick_labels(ticks), strict=True):
        parts.append(f'<path class="grid" d="M{point(x(value), y.start)}V{y.end:.1f}"/>')
        parts.append(text(x(value), y.start + 14, label, anchor="middle"))
    first, second = (f"{100.0 * share:.3g}%" if math.isfinite(share) else "share unknown" for share in found.shares)
    parts.append(text(x.end, y.start + 29, f"component 1: {first} of the variance", role="name", anchor="end"))
    parts.append(text(x.start, y.end - 4, f"component 2: {second}", role="name"))
    return parts
