"""What the page of negatives shows, as plain values for its template."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from normwise.core.negatives_records import NegativesReport, TemperatureRow
from normwise.report import words
from normwise.report.calibration_words import capital
from normwise.report.cells import markup, note_view
from normwise.report.inspect_words import settle
from normwise.report.negatives_facts import (
    bounds_lead,
    bounds_rows,
    cell,
    joined,
    limit_rows,
    many,
    nats,
    pool_rows,
    scale,
    share,
    span,
    wrong_rows,
)
from normwise.report.negatives_plots import curve_figure, start_of, starts_inside, sweep_figure

# How advice on a larger number of negatives is built: what changes, by how much, and what follows.
_CHANGE = re.compile(
    r"(?P<what>.*going from [\d,]+ to [\d,]+ negatives) (?P<change>changes the risk by [^:]*): (?P<verdict>.*)", re.IGNORECASE
)
# A clause ends at a semicolon that stands in no brackets.
_CLAUSE = re.compile(r"; (?![^()]*\))")


def negatives_view(report: NegativesReport) -> dict[str, Any]:
    """Every value that `negatives.html` reads."""
    headline, reason = advice_words(report.advice)
    source = settle(report.source)
    curve, sweep = curve_figure(report), sweep_figure(report)
    return {
        "title": f"normwise: negatives of {source}" if source else "normwise: negatives",
        "source": source,
        "headline": settle(headline),
        "reason": settle(reason),
        "facts": _facts(report),
        "curve": markup(curve) if curve else "",
        "curve_words": _curve_words(report),
        "sweep": markup(sweep) if sweep else "",
        "legend": _legend(report),
        "asked": f"{report.at:,}",
        "off_curve": report.at not in report.k,
        "rows": [_curve_row(report, at) for at in range(len(report.k))],
        "temperatures": [_sweep_row(row, own=row.temperature == report.temperature) for row in report.temperatures],
        "floors": any(row.loss_floor is not None for row in report.temperatures),
        "sweep_lead": _sweep_lead(report),
        "limit": limit_rows(report),
        "bounds_lead": bounds_lead(report.bounds),
        "bounds": bounds_rows(report.bounds),
        "wrong": wrong_rows(report),
        "pool": pool_rows(report),
        "notes": [note_view(settle(note)) for note in report.notes],
        "took": words.duration(report.seconds),
        "version": version("normwise"),
    }


def advice_words(advice: str) -> tuple[str, str]:
    """The headline, what the first clause comes to, and the rest of an advice in sentences.

    Example:
        >>> advice_words("Going from 8 to 32 negatives changes the risk by -0.2 nats: not worth it; temperature 1 -> 2 is worse.")
        ('Going from 8 to 32 negatives: not worth it.', 'It changes the risk by −0.2 nats. Temperature 1 → 2 is worse.')
        >>> advice_words("Give a larger pool.")
        ('Give a larger pool.', '')
    """
    text = (
        re.sub(r"(?<![\w.])-(?=\d)|(?<=e)-(?=\d)", "−", advice).replace(" -> ", " → ").replace(" >> ", " ≫ ").replace(" - ", " − ").strip()
    )
    first, *rest = _CLAUSE.split(text.removesuffix("."))
    if found := _CHANGE.fullmatch(first):
        rest = [f"It {found['change']}", *rest]
        first = f"{found['what']}: {found['verdict']}"
    return f"{capital(first)}.", " ".join(f"{capital(part)}." for part in rest)


def _facts(report: NegativesReport) -> list[dict[str, str]]:
    limit = report.cross_entropy
    told = "cross-entropy of a softmax search" if limit.estimate is not None else "1/k has not begun within this pool"
    facts = [
        _fact(
            "Similarity, temperature",
            f"{settle(report.similarity)}, {words.number(report.temperature)}",
            joined(words.score_words(report.similarity), f"scale {scale(report.temperature)}"),
        ),
        _fact("Queries", f"{report.queries:,}", "each with its positive"),
        _fact("Pool", f"{report.pool.size:,}", "candidates as negatives" if report.pool.kind == "pool" else settle(report.pool.kind)),
        _fact("Negatives k", f"{report.at:,}", "per query in training: what the advice is about"),
        _fact("Limit H, k → ∞", nats(limit.estimate), joined(span(limit.ci_low, limit.ci_high), told)),
    ]
    if report.candidates is not None and report.search is not None:
        found = report.search
        detail = joined(span(found.ci_low, found.ci_high), f"of a search over {report.candidates:,} candidates")
        facts.append(_fact("Risk of a search", nats(found.estimate), detail))
    return facts


def _fact(name: str, value: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _curve_words(report: NegativesReport) -> str:
    start = start_of(report)
    if report.k and start > report.k[-1]:
        said = f"1/k leads from about k = {many(start)} on, beyond this pool, so no line is fitted."
        if report.cross_entropy.estimate is not None:
            said += f" The limit comes from DCL, whose 1/k starts sooner: at {many(report.regime.decoupled_start)}."
    else:
        fitted = "the dashed line is what was fitted there" if report.fit.limit is not None else "too few k lie there to fit a line"
        where = f"Right of the upright line, k = {many(start)}," if starts_inside(report) else "From the first k on"
        said = f"{where} 1/k leads, and {fitted}."
    if report.cross_entropy.estimate is None:
        return f"{said} The limit cannot be told from this pool: no band is drawn."
    return f"{said} The band is the 95% interval of the limit."


def _legend(report: NegativesReport) -> list[dict[str, Any]]:
    lines: list[tuple[str, str, bool, str]] = [("1", "c1", False, "InfoNCE risk"), ("2", "c2", False, "DCL risk")]
    if report.cross_entropy.estimate is not None or any(row.cross_entropy is not None for row in report.temperatures):
        lines.append(("3", "c3", False, "limit H, k → ∞"))
    if report.fit.limit is not None:
        lines.append(("", "c4", True, "fitted limit − constant / k"))
    if report.search is not None and report.search.estimate is not None:
        lines.append(("", "c5", False, f"risk of a search over {report.candidates:,} candidates (the spot)"))
    return [{"number": number, "tone": tone, "dashed": dashed, "name": name} for number, tone, dashed, name in lines]


def _curve_row(report: NegativesReport, at: int) -> dict[str, Any]:
    k = report.k[at]
    step = next((each for each in report.steps if each.k == k), None)
    change = cell(None, (None, None)) if step is None else cell(step.change, (step.ci_low, step.ci_high), signed=True)
    if step is None and at == len(report.k) - 1:
        change = {"value": "—", "range": "the last", "none": True}
    if step is not None and step.to != 2 * k:
        # What would look like a doubling that changes little.
        change["range"] = joined(change["range"], f"to {step.to:,}")
    return {
        "k": f"{k:,}",
        "asked": k == report.at,
        "risk": cell(report.risk[at], report.risk_ci[at]),
        "change": change,
        "decoupled": cell(report.decoupled[at], report.decoupled_ci[at]),
        "effective": words.number(report.effective_negatives[at]),
    }


def _sweep_row(row: TemperatureRow, *, own: bool) -> dict[str, Any]:
    low, middle, high = (row.residuals[0], row.residuals[len(row.residuals) // 2], row.residuals[-1]) if row.residuals else (None,) * 3
    change = {"value": "—", "range": "", "none": True} if own else cell(row.change, row.change_ci, signed=True)
    return {
        "temperature": words.number(row.temperature),
        "scale": scale(row.temperature),
        "own": own,
        "risk": cell(row.risk, row.risk_ci),
        "limit": cell(row.cross_entropy, row.cross_entropy_ci),
        "change": change,
        "residual": {"value": words.number(middle), "range": f"{words.number(low)} to {words.number(high)}", "none": False},
        "effective": words.number(row.effective_negatives),
        "floor": cell(row.loss_floor, (None, None)),
    }


def _sweep_lead(report: NegativesReport) -> str:
    if not report.temperatures:
        return ""
    asked, pool = report.sweep_queries, report.sweep_pool
    queries = f"{asked:,} of {report.queries:,} queries" if asked != report.queries else f"all {asked:,} queries"
    negatives = f"{pool:,} of the {report.pool.size:,} in the pool" if pool != report.pool.size else f"all {pool:,} in the pool"
    less = f", less what is a query’s own positive: {report.sweep_k:,} for each, or more" if report.sweep_k < pool else ""
    return (
        f"The same vectors at other temperatures: {queries}, with {negatives} as negatives{less}. Recall@1 is "
        f"{share(report.temperatures[0].recall_at_1)} at each: a temperature changes what there is to learn, not the order of candidates. "
        "Vectors trained at another temperature would be others: a sweep says what suits these."
    )
