"""Figures of a calibration: the reliability diagram, and risk over coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from normwise.core.calibration_records import ReliabilityBin
from normwise.report.plots import thin_curve
from normwise.report.svg import clean, plot_area, point, series_class, text

_LARGEST_SPOT = 7.0
_SMALLEST_SPOT = 2.0
_LABEL_GAP = 11.0


def reliability_figure(bins: Sequence[ReliabilityBin]) -> str:
    """The share of right answers against the probability that was said, one spot a bin with its interval.

    The area of a spot is the share of queries in its bin; the dashed line is what an honest probability keeps to.

    Returns:
        An SVG element, or "" where no bin holds a query.
    """
    drawn = [each for each in bins if each.queries > 0 and math.isfinite(each.probability) and math.isfinite(each.right)]
    if not drawn:
        return ""
    frame = plot_area((0.0, 1.0), (0.0, 1.0), labels=("probability that was said", "share that was right"))
    frame.parts.append(f'<path class="zero" d="M{point(frame.x(0.0), frame.y(0.0))}L{point(frame.x(1.0), frame.y(1.0))}"/>')
    most = max(each.queries for each in drawn)
    for each in drawn:
        at = frame.x(each.probability)
        if math.isfinite(each.ci_low) and math.isfinite(each.ci_high):
            frame.parts.append(f'<path class="line s1" opacity=".45" d="M{point(at, frame.y(each.ci_low))}V{frame.y(each.ci_high):.1f}"/>')
        radius = max(_SMALLEST_SPOT, _LARGEST_SPOT * math.sqrt(each.queries / most))
        said = f"said {each.probability:.2f}, right {each.right:.2f} of {each.queries:,}"
        frame.parts.append(
            f'<circle class="mean s1" cx="{at:.1f}" cy="{frame.y(each.right):.1f}" r="{radius:.1f}"><title>{said}</title></circle>'
        )
    spoken = "; ".join(f"said {each.probability:.2f}, right {each.right:.2f}" for each in drawn)
    return frame.draw(label=f"Reliability diagram, from the lowest bin to the highest: {spoken}.")


def risk_figure(coverage: Sequence[float], risk: Mapping[str, Sequence[float]], *, chosen_at: float | None = None) -> str:
    """The error rate among the most confident answers, over the share that is answered; lines are numbered in order.

    Args:
        coverage: shares 0..1, ascending.
        risk: name -> the error rate at each of them.
        chosen_at: the coverage of the threshold, marked by a line.

    Returns:
        An SVG element, or "" where nothing can be drawn.
    """
    lines = {name: _points(coverage, values) for name, values in risk.items()}
    lines = {name: points for name, points in lines.items() if len(points) > 1}
    if not lines:
        return ""
    highest = max(value for points in lines.values() for _, value in points)
    frame = plot_area((0.0, 1.0), (0.0, max(0.05, min(1.0, 1.08 * highest))), labels=("share of queries answered", "share wrong"))
    if chosen_at is not None and 0.0 <= chosen_at <= 1.0:
        frame.parts.append(f'<path class="zero" d="M{point(frame.x(chosen_at), frame.y.start)}V{frame.y.end:.1f}"/>')
    starts: list[tuple[float, int]] = []
    for number, (name, points) in enumerate(lines.items(), start=1):
        spots = "L".join(point(frame.x(at), frame.y(value)) for at, value in thin_curve(points))
        title = f"<title>{escape(clean(name))}</title>"
        frame.parts.append(f'<path class="line {series_class(number)}{" strong" if number == 1 else ""}" d="M{spots}">{title}</path>')
        starts.append((frame.y(_near_middle(points)), number))
    frame.parts.extend(_numbers(starts, x=frame.x(0.5), top=frame.y.end, floor=frame.y.start))
    spoken = "; ".join(
        f"{name}: {_near_middle(points):.3f} at half of the queries, {points[-1][1]:.3f} at all" for name, points in lines.items()
    )
    return frame.draw(label=f"Risk over coverage. {spoken}.")


def _points(coverage: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(coverage, values, strict=False) if math.isfinite(x) and math.isfinite(y)]


def _near_middle(points: Sequence[tuple[float, float]]) -> float:
    return min(points, key=lambda spot: abs(spot[0] - 0.5))[1]


def _numbers(places: Sequence[tuple[float, int]], *, x: float, top: float, floor: float) -> list[str]:
    """The number of each line at half of the coverage, pushed apart so that each can be read."""
    placed = [[y, float(number)] for y, number in sorted(places)]
    for i in range(1, len(placed)):
        placed[i][0] = max(placed[i][0], placed[i - 1][0] + _LABEL_GAP)
    limit = floor
    for row in reversed(placed):
        row[0] = max(top + _LABEL_GAP, min(row[0], limit))
        limit = row[0] - _LABEL_GAP
    return [text(x, y - 3.0, str(int(n)), role=f"end {series_class(int(n))}", anchor="middle") for y, n in placed]
