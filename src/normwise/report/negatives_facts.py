"""What the page of negatives says of limit, bounds, false negatives and pool: rows of a name, a figure, and what it means."""

from __future__ import annotations

import math
from typing import Any

from normwise.core.negatives_records import BoundsRecord, FitRecord, NegativesReport
from normwise.report import words
from normwise.report.inspect_words import settle

UNTOLD = "cannot be told"
_LARGE = 1e6
_BEYOND = "beyond what a float holds"


def nats(value: float | None, *, signed: bool = False) -> str:
    """A risk with four decimals, so that columns line up; a huge one to four digits.

    Example:
        >>> nats(-0.6235), nats(None), nats(0.5, signed=True), nats(1.5e81)
        ('−0.6235', 'cannot be told', '+0.5000', '1.5e+81')
    """
    if value is None or not math.isfinite(value):
        return UNTOLD
    form = ",.4f" if abs(value) < _LARGE else ".4g"
    return f"{value:{'+' if signed and value != 0.0 else ''}{form}}".replace("-", "−")


def span(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """An interval; "" where one of its ends is missing.

    Example:
        >>> span(-1.0, 2.0), span(None, 2.0)
        ('−1.0000 to 2.0000', '')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{nats(low, signed=signed)} to {nats(high, signed=signed)}"


def cell(value: float | None, ends: tuple[float | None, float | None], *, signed: bool = False) -> dict[str, Any]:
    """A cell with its interval, or that it cannot be told."""
    if value is None or not math.isfinite(value):
        return {"value": UNTOLD, "range": "", "none": True}
    return {"value": nats(value, signed=signed), "range": span(*ends, signed=signed) or "no interval", "none": False}


def joined(*parts: str) -> str:
    """What there is of several details.

    Example:
        >>> joined("", "a", "b")
        'a; b'
    """
    return "; ".join(part for part in parts if part)


def many(value: float | None) -> str:
    """A number of negatives, which may be beyond all bounds: None.

    Example:
        >>> many(498.2), many(0.031), many(5.49e10), many(float("inf"))
        ('498', '0.031', '5.49e+10', 'beyond what a float holds')
    """
    if value is not None and math.isnan(value):
        return UNTOLD
    if value is None or not math.isfinite(value):
        return _BEYOND
    return f"{value:,.0f}" if 10.0 <= value < 1e9 else f"{value:.3g}".replace("-", "−")


def scale(temperature: float) -> str:
    """1 / tau, as training libraries have it.

    Example:
        >>> scale(0.05), scale(0.3)
        ('20', '3.333')
    """
    return words.number(1.0 / temperature)


def share(value: float | None) -> str:
    """A share in percent to three digits.

    Example:
        >>> share(0.9975), share(2e-7), share(0.0), share(None)
        ('99.8%', '2e−05%', '0%', 'cannot be told')
    """
    if value is None or not math.isfinite(value):
        return UNTOLD
    return f"{100.0 * value:.3g}%".replace("-", "−")


def limit_rows(report: NegativesReport) -> list[dict[str, str]]:
    """The limit, what was fitted, and where 1/k starts."""
    found, regime, fit = report.cross_entropy, report.regime, report.fit
    how = "by the jackknife over the pool" if found.method == "jackknife" else settle(found.method)
    why = "" if found.estimate is not None else "the pool is too small for the spread of its scores"
    reached = "within this pool" if regime.reached else "beyond this pool"
    rows = [
        _row("Limit H, k → ∞", nats(found.estimate), joined(span(found.ci_low, found.ci_high), why or how)),
        *_fit_rows(fit),
        _row("Leading constant", _signed_many(regime.constant), "what k (H − risk) comes to for large k, from the spread of the scores"),
        _row("1/k leads from", many(regime.start), f"negatives, for InfoNCE: {reached}"),
        _row(
            "For DCL from",
            many(regime.decoupled_start),
            "negatives: " + ("enough are here to extrapolate" if regime.extrapolates else "too few are here, so nothing is extrapolated"),
        ),
        _row(
            "Spread of e^score, cv²",
            words.number(report.cv2.median),
            f"median over queries; 90% quantile {words.number(report.cv2.p90)}, mean {words.number(report.cv2.mean)}; "
            "large: a few negatives make up the sum",
        ),
        _row("Weight of the positive", many(regime.positive_weight), "how many average negatives it weighs as much as, mean over queries"),
        _floor(report),
    ]
    if report.candidates is not None and report.search is not None:
        interval = span(report.search.ci_low, report.search.ci_high)
        what = "risk at that k: stands for the cross-entropy of the search, which pairs alone do not tell"
        rows.append(_row(f"Search over {report.candidates:,}", nats(report.search.estimate), joined(interval, what)))
    return rows


def _fit_rows(fit: FitRecord) -> list[dict[str, str]]:
    """What was fitted; no rows where nothing was, which the words of the curve say."""
    if fit.limit is None and fit.constant is None:
        return []
    how = f"of limit − constant / k, through {words.counted(fit.points, 'point')} of the curve"
    return [
        _row("Fitted limit", nats(fit.limit), how),
        _row("Fitted constant", UNTOLD if fit.constant is None else _signed_many(fit.constant), "likewise"),
    ]


def _floor(report: NegativesReport) -> dict[str, str]:
    name = f"Loss floor, k = {report.at:,}"
    if report.loss_floor is None:
        return _row(name, "none", "only a cosine is bounded whatever the vectors")
    return _row(name, nats(report.loss_floor), "less log k: the loss cannot fall lower at this temperature, however good the model")


def bounds_lead(bounds: BoundsRecord) -> str:
    """What proven bounds are worth here."""
    if bounds.vacuous:
        return (
            f"Vacuous here: at k = {bounds.k:,} they leave H − risk anything from {nats(bounds.low)} to {nats(bounds.high)}, hardly "
            f"less than the range of the scores, {nats(bounds.scores)}. That is the price of holding for any vectors: they grow with the "
            f"largest score, {words.number(bounds.largest_score)}."
        )
    part = f"the upper bound is {share(bounds.high / bounds.scores)} of the range of the scores"
    return f"Not vacuous: {part}. It holds for any vectors whose scores are no larger."


def bounds_rows(bounds: BoundsRecord) -> list[dict[str, str]]:
    """The bounds one by one, the least upper one marked; none where they are vacuous, of which the lead says all there is."""
    if bounds.vacuous:
        return []

    def upper(name: str, value: float | None, what: str) -> dict[str, str]:
        return _row(name, "too large to write" if value is None else nats(value), what, tag="least" if value == bounds.high else "")

    return [
        _row("H − risk at least", nats(bounds.low), f"at k = {bounds.k:,}: −log(1 + e²ᶜ / k)"),
        _row("H − risk at most", nats(bounds.high), "the least of those that hold for any vectors"),
        upper("For these scores", bounds.instance, "estimated from cv² in this pool and the least score that vectors could have: no proof"),
        upper("For any vectors", bounds.uniform, "(eᶜ − 1)² / 2k"),
        upper("As published", bounds.published, "(e²ᶜ − 1)² / 8k, by Whiteley (2026)"),
        upper("Range of the scores", bounds.scores, "2c, whatever k"),
        _row(
            "c, the largest score", words.number(bounds.largest_score), "similarity / temperature, that vectors of these lengths can have"
        ),
    ]


def wrong_rows(report: NegativesReport) -> list[dict[str, str]]:
    """Negatives that may be positives in truth."""
    found = report.false_negatives
    if found.at_most is None:
        most = _row("Positives among the negatives", UNTOLD, "too few queries for a bound")
    else:
        detail = f"95% interval up to {share(found.ci_high)}"
        if found.at_most == 0.0 and not found.ci_high:
            detail = "none was seen that scores as the best tenth of the positives do"
        most = _row("Positives among the negatives", f"≤ {share(found.at_most)}", detail)
    expected = "at most, by that share" if found.expected_at_k is not None else ""
    return [
        most,
        _row(f"Of k = {report.at:,}", words.number(found.expected_at_k) if found.expected_at_k is not None else UNTOLD, expected),
        _row(
            "Above the query’s own", share(found.above_own), "of negatives score above the positive: hard or false, scores cannot say which"
        ),
    ]


def pool_rows(report: NegativesReport) -> list[dict[str, str]]:
    """What negatives are drawn from."""
    pool = report.pool
    shift = "the largest difference, 0 to 1, between the laws of scores with this pool and with positives of other queries"
    return [
        _row("Kind", settle(pool.kind), "as a batch has them" if pool.kind != "pool" else "given, or the corpus of the data"),
        _row("Size", f"{pool.size:,}", "vectors"),
        _row("Masked", f"{pool.masked:,}", "pairs of a query and its own positive, or a copy of it, in the pool: no negatives"),
        _row(
            "Collision",
            share(pool.collision),
            f"of queries meet their own positive, or a copy, among {report.at:,} others of a batch, in a shuffled epoch over these rows",
        ),
        _row("Shift", words.number(pool.shift) if pool.shift is not None else "none", shift if pool.shift is not None else "no other pool"),
    ]


def _signed_many(value: float | None) -> str:
    if value is None or math.isnan(value):
        return UNTOLD
    if not math.isfinite(value):
        return "−∞" if value < 0.0 else "∞"
    return words.number(value) if abs(value) < _LARGE else f"{value:.3g}".replace("-", "−")


def _row(name: str, value: str, detail: str = "", *, tag: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail, "tag": tag}
