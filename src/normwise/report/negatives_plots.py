"""Figures of negatives: risk over their number with its limit, and over the temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.negatives_records import NegativesReport
from normwise.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, Scale, finite, point, text, value_range

_FIT_POINTS = 48
# Room of the axis left of the first point, where lines have their numbers, and right of the last, in shares of its logarithm.
_BEFORE, _AFTER = 0.06, 0.04
# Above all that is drawn, for what the axis and an upright mark are called.
_HEADROOM = 0.18
# A letter is about so wide, at the larger of the sizes that pages draw figures at.
_LETTER = 5.8
_ROW = 12.0
_LABEL_GAP = 11.0
# What differs by less looks level: nobody acts on less than a hundredth of a nat.
_LEAST_NATS = 0.02

Span = tuple[float | None, float | None]
Spot = tuple[float, float, Span]


def curve_figure(report: NegativesReport) -> str:
    """The risk with k negatives over log k, numbered 1 for InfoNCE and 2 for DCL, with its limit, numbered 3, as a band.

    A dashed line is the fitted 1/k, from where that starts, which an upright line marks; a spot is the risk of a search over as many
    candidates as were asked about.

    Returns:
        An SVG element, or "" where no risk is known.
    """
    risk = _spots(report.k, report.risk, report.risk_ci)
    if not risk:
        return ""
    plain = _spots(report.k, report.decoupled, report.decoupled_ci)
    limit = finite([report.cross_entropy.estimate])
    band = _known(report.cross_entropy.ci_low, report.cross_entropy.ci_high)
    search = _search_spot(report)
    fitted = fit_points(report, top=max(4.0 * risk[-1][0], *(spot[0] for spot in search), 1.0))
    ends = [*(spot[0] for spot in (*risk, *plain, *search)), *(k for k, _ in fitted)]
    values = [*_values((*risk, *plain, *search)), *(value for _, value in fitted), *limit, *band]
    frame = _frame(ends, values, label="negatives k, log scale")
    if band:
        left, right = frame.x.start, frame.x.end
        outline = f"M{point(left, frame.y(band[0]))}H{right:.1f}V{frame.y(band[1]):.1f}H{left:.1f}Z"
        frame.parts.append(f'<path class="mean s3" opacity=".2" d="{outline}"><title>limit, 95% interval</title></path>')
    for value in limit:
        frame.parts.append(f'<path class="line s3" d="M{point(frame.x.start, frame.y(value))}H{frame.x.end:.1f}"/>')
        frame.parts.append(text(frame.x.end + 6, frame.y(value) + 3.5, "3", role="end s3"))
    if starts_inside(report):
        _mark(frame, start_of(report), f"1/k from {start_of(report):,.0f}")
    frame.parts.extend(_line(frame, plain, tone="s2", unit="k = {:,.0f}"))
    frame.parts.extend(_line(frame, risk, tone="s1 strong", unit="k = {:,.0f}"))
    if fitted:
        frame.parts.append(f'<path class="line s4 dash" d="M{"L".join(point(frame.x(k), frame.y(value)) for k, value in fitted)}"/>')
    frame.parts.extend(_line(frame, search, tone="s5", unit="search over {:,.0f}", radius=3.6))
    frame.parts.extend(_numbers(frame, {1: risk, 2: plain}))
    said = f"; limit {limit[0]:.3f}" if limit else "; the limit cannot be told"
    return _plainer(frame.draw(label=f"InfoNCE risk less log k, in nats, by the number of negatives: {_spoken(risk)}{said}."))


def sweep_figure(report: NegativesReport) -> str:
    """The risk with all of the pool (1) and its limit (3) over log temperature; an upright line marks the temperature that was given.

    Returns:
        An SVG element, or "" where no temperature has a risk.
    """
    rows = sorted(report.temperatures, key=lambda row: row.temperature)
    taus = [row.temperature for row in rows]
    risk = _spots(taus, [row.risk for row in rows], [row.risk_ci for row in rows])
    limit = _spots(taus, [row.cross_entropy for row in rows], [row.cross_entropy_ci for row in rows])
    if not risk:
        return ""
    frame = _frame([*(spot[0] for spot in (*risk, *limit)), report.temperature], _values((*risk, *limit)), label="temperature, log scale")
    _mark(frame, report.temperature, f"yours: {report.temperature:.4g}")
    frame.parts.extend(_line(frame, risk, tone="s1", unit="temperature {:.4g}"))
    frame.parts.extend(_line(frame, limit, tone="s3 strong", unit="temperature {:.4g}"))
    frame.parts.extend(_numbers(frame, {1: risk, 3: limit} if limit[:1] and limit[0][0] == risk[0][0] else {1: risk}))
    if limit and limit[0][0] != risk[0][0]:
        # Left of its first spot runs the line of the risk.
        lowest = min(frame.y(limit[0][1]) + _ROW, frame.y.start - 2)
        frame.parts.append(text(frame.x(limit[0][0]) + 4, lowest, "3", role="end s3"))
    said = f" Its limit: {_spoken(limit)}." if limit else " Its limit cannot be told."
    return frame.draw(label=f"InfoNCE risk less log k, in nats, by temperature: {_spoken(risk)}.{said}")


def start_of(report: NegativesReport) -> float:
    """The number of negatives from which 1/k leads; infinite where a float does not hold it."""
    return math.inf if report.regime.start is None else report.regime.start


def starts_inside(report: NegativesReport) -> bool:
    """Whether 1/k starts at a number of negatives between the first of the curve and the last."""
    return bool(report.k) and report.k[0] <= start_of(report) <= report.k[-1]


def fit_points(report: NegativesReport, *, top: float) -> list[tuple[float, float]]:
    """The fitted 1/k from where it starts to `top`; none where nothing was fitted."""
    known = finite([report.fit.limit, report.fit.constant])
    if len(known) < 2 or not report.k or not math.isfinite(start_of(report)):
        return []
    low = max(start_of(report), float(report.k[0]))
    if not low < top:
        return []
    ks = [low * (top / low) ** (step / (_FIT_POINTS - 1)) for step in range(_FIT_POINTS)]
    return [(k, known[0] - known[1] / k) for k in ks]


def _spots(at: Sequence[float], values: Sequence[float | None], spans: Sequence[Span]) -> list[Spot]:
    rows = zip(at, values, spans, strict=False)
    return [(float(x), float(y), span) for x, y, span in rows if y is not None and math.isfinite(y) and math.isfinite(x) and x > 0.0]


def _search_spot(report: NegativesReport) -> list[Spot]:
    if report.search is None or report.candidates is None:
        return []
    return _spots([report.candidates], [report.search.estimate], [(report.search.ci_low, report.search.ci_high)])


def _known(*ends: float | None) -> list[float]:
    """Both ends of an interval, or none."""
    known = finite(ends)
    return known if len(known) == 2 else []


def _values(spots: Sequence[Spot]) -> list[float]:
    return [value for _, y, span in spots for value in (y, *_known(*span))]


def _frame(at: Sequence[float], values: Sequence[float], *, label: str) -> Frame:
    low, high = value_range(values)
    if high - low < _LEAST_NATS:
        low, high = (low + high - _LEAST_NATS) / 2, (low + high + _LEAST_NATS) / 2
    first = min(at)
    # An axis that is too short for ticks at 1 and 2 would have them at fractions, of which negatives have none.
    span = math.log(max(max(at), 4.0 * first) / first)
    return Frame(
        x=Scale(
            low=first * math.exp(-_BEFORE * span),
            high=first * math.exp((1.0 + _AFTER) * span),
            start=LEFT,
            end=WIDTH - RIGHT,
            log=True,
        ),
        y=Scale(low=low, high=high + _HEADROOM * (high - low), start=HEIGHT - BOTTOM, end=TOP),
        x_label=label,
        y_label="nats",
    )


def _mark(frame: Frame, at: float, words: str) -> None:
    """An upright line with its words beside its upper end, a row lower where the name of the axis stands in the way."""
    x = frame.x(at)
    frame.parts.append(f'<path class="zero" d="M{point(x, frame.y.start)}V{frame.y.end:.1f}"/>')
    turned = x + _LETTER * len(words) > frame.x.end
    taken = frame.x.start + 6 + _LETTER * (len(frame.y_label) + 1)
    begins = x - 4 - _LETTER * len(words) if turned else x + 4
    row = frame.y.end + 6 + (_ROW if begins < taken else 0.0)
    frame.parts.append(text(x - 4 if turned else x + 4, row, words, role="name", anchor="end" if turned else "start"))


def _plainer(drawn: str) -> str:
    """An axis that reaches millions has all its ticks as powers of ten: the first of them are read sooner as they are."""
    for power, plain in (("1e0", "1"), ("1e1", "10"), ("1e2", "100"), ("1e3", "1,000")):
        drawn = drawn.replace(f">{power}</text>", f">{plain}</text>")
    return drawn


def _line(frame: Frame, spots: Sequence[Spot], *, tone: str, unit: str, radius: float = 2.4) -> list[str]:
    """A line through spots, each with its interval and a name to point at."""
    color = tone.split()[0]
    parts = []
    for x, _, span in spots:
        if ends := _known(*span):
            parts.append(f'<path class="line {color}" opacity=".45" d="M{point(frame.x(x), frame.y(ends[0]))}V{frame.y(ends[1]):.1f}"/>')
    if len(spots) > 1:
        parts.append(f'<path class="line {tone}" d="M{"L".join(point(frame.x(x), frame.y(y)) for x, y, _ in spots)}"/>')
    for x, y, _ in spots:
        title = f"<title>{unit.format(x)}: {y:.4f}</title>"
        parts.append(f'<circle class="mean {color}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="{radius}">{title}</circle>')
    return parts


def _numbers(frame: Frame, lines: dict[int, list[Spot]]) -> list[str]:
    """The number of each line left of its first spot; where two lines start beside each other, the upper is above."""
    placed = sorted((frame.y(spots[0][1]), frame.x(spots[0][0]), number) for number, spots in lines.items() if spots)
    rows = [y for y, _, _ in placed]
    if len(rows) == 2 and rows[1] - rows[0] < _LABEL_GAP and abs(placed[0][1] - placed[1][1]) < _LABEL_GAP:
        middle = min(max((rows[0] + rows[1]) / 2, frame.y.end + _LABEL_GAP), frame.y.start - _LABEL_GAP)
        rows = [middle - _LABEL_GAP / 2, middle + _LABEL_GAP / 2]
    found = zip(rows, placed, strict=True)
    return [text(x - 6, row + 3.5, str(number), role=f"end s{number}", anchor="end") for row, (_, x, number) in found]


def _spoken(spots: Sequence[Spot]) -> str:
    return ", ".join(
        f"{y:.3f} at {x:,.0f}" if x >= 1000.0 else f"{y:.3f} at {x:.4g}"
        for x, y, _ in (spots[:1] if len(spots) == 1 else (spots[0], spots[-1]))
    )
