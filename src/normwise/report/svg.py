"""Small drawing primitives: linear and log axes, a plot frame, text that is always escaped.

Figures are written by hand rather than by a plotting library so that they take their colors from the page
(light, dark, print), stay sharp at any size and are the same bytes on every machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

SERIES = 6
WIDTH = 360.0
HEIGHT = 224.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 20.0, 12.0, 34.0

# What neither HTML nor XML can carry: lone surrogates, control characters, non-characters.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """Replace what UTF-8 or HTML cannot carry (lone surrogates, control characters) by U+FFFD.

    Example:
        >>> clean("a" + chr(0xD800) + "b")
        'a\ufffdb'
    """
    return _UNWRITABLE.sub("\ufffd", text)


def shorten(text: str, *, limit: int) -> str:
    """Cut a label to at most `limit` characters, with an ellipsis where something is left out.

    Example:
        >>> shorten("cosine then dot", limit=8)
        'cosine …'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def series_class(number: int) -> str:
    """The CSS class of run `number` (from 1): six colors, then the same six dashed."""
    return f"s{(number - 1) % SERIES + 1}" + (" dash" if (number - 1) // SERIES % 2 else "")


def finite(values: Iterable[float | None]) -> list[float]:
    """Keep the numbers that can be drawn."""
    return [float(v) for v in values if v is not None and math.isfinite(v)]


def nice_ticks(low: float, high: float, *, count: int = 4) -> list[float]:
    """Round positions in [low, high], about `count` of them, at steps of 1, 2 or 5 times a power of ten.

    Example:
        >>> nice_ticks(0.0, 1.0)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next((m * power for m in (1.0, 2.0, 5.0) if span / (m * power) <= count + 1), 10.0 * power)
    digits = max(0, 2 - math.floor(math.log10(step)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Short numbers for an axis, with as many decimals as their steps need and no more.

    Example:
        >>> tick_labels([0.0, 0.25, 0.5])
        ['0.00', '0.25', '0.50']
        >>> tick_labels([-2000.0, 0.0]), tick_labels([1e-9, 1e-6])
        (['−2,000', '0'], ['1e−9', '1e−6'])
    """
    largest = max((abs(v) for v in values), default=0.0)
    gaps = [abs(b - a) for a, b in zip(values, values[1:], strict=False) if b != a]
    if largest >= 1e6 or (largest > 0 and min(gaps, default=largest) < 1e-4):
        return [_scientific(value) for value in values]
    decimals = next((d for d in range(5) if all(abs(v - round(v, d)) < 1e-9 for v in values)), 4)
    return [f"{value:,.{decimals}f}".replace("-", "−") for value in values]


def _scientific(value: float) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}".replace("-", "−")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps a value in [low, high] to a position in [start, end], linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of `value`; a degenerate range sits in the middle."""
        low, high = self._bounds()
        if high == low:
            return (self.start + self.end) / 2
        at = (math.log10(value) if self.log else value) - low
        return self.start + (self.end - self.start) * at / (high - low)

    def ticks(self, *, count: int = 4) -> list[float]:
        """Round values inside the range."""
        low, high = self._bounds()
        if not self.log:
            return nice_ticks(low, high, count=count)
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        if last - first < 1:
            return _short_log_ticks(self.low, self.high, count=count)
        return [10.0**e for e in range(first, last + 1, max(1, (last - first) // count))]

    def _bounds(self) -> tuple[float, float]:
        return (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)


def _short_log_ticks(low: float, high: float, *, count: int) -> list[float]:
    """Round values on a log axis that holds fewer than two powers of ten: 1, 2 and 5 times them, or even steps on a short one."""
    if high < 4.0 * low:
        return nice_ticks(low, high, count=count)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    places = [m * 10.0**e for e in range(first, last + 1) for m in (1.0, 2.0, 5.0)]
    return [place for place in places if low * (1.0 - 1e-9) <= place <= high * (1.0 + 1e-9)]


def value_range(values: Sequence[float], *, pad: float = 0.06) -> tuple[float, float]:
    """The range to show for finite values, with a margin; a single value gets room around it."""
    low, high = min(values), max(values)
    margin = pad * (high - low) if high > low else pad * max(abs(low), 1.0)
    return low - margin, high + margin


def point(x: float, y: float) -> str:
    """A coordinate pair with one decimal, the same text on every machine."""
    return f"{x + 0.0:.1f} {y + 0.0:.1f}"


def text(x: float | str, y: float, content: str, *, role: str = "tick", anchor: str = "start") -> str:
    """A text element; `content` is escaped here."""
    at = x if isinstance(x, str) else f"{x:.1f}"
    return f'<text class="{role}" x="{at}" y="{y:.1f}" text-anchor="{anchor}">{escape(clean(content))}</text>'


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A plot area with its two axes and what is drawn in it."""

    x: Scale
    y: Scale
    x_label: str
    y_label: str = ""
    y_unit: str = ""
    parts: list[str] = field(default_factory=list)

    def draw(self, *, label: str) -> str:
        """The finished SVG element; `label` is what a screen reader says."""
        body = "".join([*self._axes(), *self.parts])
        return wrap(body, label=label, size=f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}"')

    def _axes(self) -> list[str]:
        out: list[str] = []
        left, right, floor = self.x.start, self.x.end, self.y.start
        ticks = self.y.ticks()
        for value, label in zip(ticks, tick_labels(ticks), strict=True):
            at = self.y(value)
            out.append(f'<path class="grid" d="M{point(left, at)}H{right:.1f}"/>')
            out.append(text(left - 6, at + 3.5, label + self.y_unit, anchor="end"))
        if self.y_label:
            out.append(text(left + 6, self.y.end + 6, self.y_label, role="name"))
        out.append(f'<path class="axis" d="M{point(left, floor)}H{right:.1f}"/>')
        ticks = self.x.ticks(count=5)
        for value, label in zip(ticks, tick_labels(ticks), strict=True):
            at = self.x(value)
            out.append(f'<path class="axis" d="M{point(at, floor)}v4"/>')
            out.append(text(at, floor + 15, label, anchor="middle"))
        out.append(text(right, floor + 29, self.x_label, role="name", anchor="end"))
        return out


def plot_area(x: tuple[float, float], y: tuple[float, float], *, labels: tuple[str, str], log_y: bool = False, y_unit: str = "") -> Frame:
    """A frame of the standard size over the given ranges; `labels` name the x and the y axis ("" for none)."""
    return Frame(
        x=Scale(low=x[0], high=x[1], start=LEFT, end=WIDTH - RIGHT),
        y=Scale(low=y[0], high=y[1], start=HEIGHT - BOTTOM, end=TOP, log=log_y),
        x_label=labels[0],
        y_label=labels[1],
        y_unit=y_unit,
    )


def wrap(body: str, *, label: str, size: str) -> str:
    """Put drawn parts into an SVG element with its text alternative."""
    return f'<svg class="plot" {size} role="img" aria-label="{escape(clean(label), quote=True)}">{body}</svg>'
