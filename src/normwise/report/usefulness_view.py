"""What the page of a norm report shows of judged queries, as plain values for its template."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from normwise.core.records import Interval
from normwise.core.usefulness_records import Confidence, PowerRow, PriorReranking, Reranking, UsefulnessReport
from normwise.report import words
from normwise.report.cells import markup
from normwise.report.inspect_words import settle
from normwise.report.power_plot import power_figure, power_range

_BLANK = {"missing": False, "mean": "", "range": "", "best": False}
_PRIORS = {
    "norm": "w = ‖d‖",
    "length": "w = the candidate’s token count",
    "popularity": "w = its count in training + 1",
    "norm without length": "w = ‖d‖ with a curve of the length taken out",
    "permuted norm": "w = ‖d‖ of other candidates, dealt at random: the null",
}
# What every re-ranking is compared with; where it was not given, the page says so.
_CONTROLS = ("length", "popularity")
_FIGURES = ("nll", "e_aurc")


def usefulness_view(report: UsefulnessReport | None) -> dict[str, Any] | None:
    """Every value of the section on judged queries; None where nothing was measured."""
    if report is None:
        return None
    reranking, confidence = report.reranking, report.confidence
    return {
        "lead": _lead(report),
        "claims": _claims(report),
        "metric": settle(words.metric_name(reranking.metric)),
        "rerank_lead": _rerank_lead(reranking),
        "rerank_words": settle(reranking.words),
        "baselines": _baselines(reranking),
        "level": words.level_words(reranking.level),
        "priors": _priors(reranking),
        "curves": _curves(reranking),
        "curve_words": _curve_words(reranking),
        "powers": [_power_view(prior.prior, row) for prior in reranking.priors.values() for row in prior.table],
        "confidence_lead": _confidence_lead(confidence),
        "confidence_words": settle(confidence.words),
        "confidence_level": words.level_words(confidence.level),
        "gains": _gains(confidence),
        "models": _models(confidence),
        "coefficients": [(settle(name), signed_four(value)) for name, value in confidence.coefficients.items()],
        "notes": [settle(note) for note in report.notes],
    }


def four(value: float | None) -> str:
    """A figure with four decimals, so that columns line up.

    Example:
        >>> four(0.07543), four(None)
        ('0.0754', 'not measured')
    """
    return words.NOT_MEASURED if value is None or not math.isfinite(value) else f"{value:.4f}".replace("-", "−")


def signed_four(value: float | None) -> str:
    """A difference with its sign, which stays where rounding leaves nothing else of it.

    Example:
        >>> signed_four(0.0123), signed_four(-1e-6), signed_four(0.0)
        ('+0.0123', '−0.0000', '0.0000')
    """
    if value is None or not math.isfinite(value) or value == 0.0:
        return four(value)
    return f"{value:+.4f}".replace("-", "−")


def chosen_words(betas: Sequence[float]) -> str:
    """Chosen exponents, each once and with how often it was chosen.

    Example:
        >>> chosen_words((0.0,)), chosen_words((0.5, -0.25, 0.5)), chosen_words(())
        ('0', '−0.25, +0.5 (2×)', 'not measured')
    """
    counts = sorted(Counter(betas).items())
    said = [_beta(beta) + (f" ({count}×)" if count > 1 and len(counts) > 1 else "") for beta, count in counts]
    return ", ".join(said) or words.NOT_MEASURED


def _beta(beta: float) -> str:
    return f"{beta:+.3g}".replace("-", "−") if beta else "0"


def _cell(interval: Interval | None, *, signs: bool = True) -> dict[str, Any]:
    """A table cell with four decimals: differences here can be smaller than three show."""
    if interval is None or interval.mean is None or not math.isfinite(interval.mean):
        return {"missing": True, "mean": words.NOT_MEASURED, "range": "", "best": False}
    number = signed_four if signs else four
    ends = [end for end in (interval.ci_low, interval.ci_high) if end is not None and math.isfinite(end)]
    span = " to ".join(number(end) for end in ends) if len(ends) == 2 else "no interval"
    return {"missing": False, "mean": number(interval.mean), "range": span, "best": False}


def _lead(report: UsefulnessReport) -> str:
    found = report.reranking
    who = " on ".join(settle(name) for name in (report.model, report.data) if name)
    queries, candidates = words.counted(found.queries, "query"), words.counted(found.candidates, "candidate")
    size = f"{queries} in {words.counted(found.clusters, 'cluster')}, {candidates}, split “{settle(report.split)}”"
    return f"{who}: {size}." if who else f"{size[:1].upper()}{size[1:]}."


def _claims(report: UsefulnessReport) -> list[dict[str, str]]:
    reranking, confidence = report.reranking, report.confidence
    metric = settle(words.metric_name(reranking.metric))
    said = (
        (reranking.outcome, "A power of the norm helps to rank, and more than a power of the length does."),
        (reranking.claimed_size, f"It adds at least {100 * reranking.claimed_gain:.4g}% of cosine’s {metric}."),
        (confidence.outcome, f"The norm helps to tell right top hits from wrong ones, beyond {_held(confidence)}."),
    )
    return [{"outcome": outcome, "tone": outcome.split()[0], "text": text} for outcome, text in said]


def _held(confidence: Confidence) -> str:
    names = ["score", "margin", *(settle(name) for name in confidence.controls)]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _rerank_lead(found: Reranking) -> str:
    chosen = {"dev": "on dev queries", "cross-validation": "by cross-validation over clusters of the same queries"}
    how = chosen.get(found.chosen_on, f"on {settle(found.chosen_on)}")
    return (
        f"Score = cosine · w^β for each prior w on the candidates. Each β was chosen {how}, β = 0 (cosine) among the choices. Length "
        f"is the control: a gain that a power of the token count brings as well is not the norm’s. Intervals are "
        f"{words.level_words(found.level)}."
    )


def _baselines(found: Reranking) -> list[tuple[str, str]]:
    cosine, dot = _cell(found.cosine, signs=False), _cell(found.dot_minus_cosine)
    named = ((f"{settle(words.metric_name(found.metric))} of cosine", cosine), ("Dot product minus cosine (β = 1, nothing chosen)", dot))
    return [(name, f"{cell['mean']} [{cell['range']}]" if cell["range"] else cell["mean"]) for name, cell in named]


def _priors(found: Reranking) -> list[dict[str, Any]]:
    names = list(dict.fromkeys([*found.priors, *found.norm_minus, *_CONTROLS]))
    return [_prior_view(name, found.priors.get(name), found) for name in names]


def _prior_view(name: str, prior: PriorReranking | None, found: Reranking) -> dict[str, Any]:
    against = found.norm_minus.get(name)
    is_control = against is not None or name in _CONTROLS
    same = "the same for all candidates: ranks as cosine does" if against is not None else "no counts were given"
    return {
        "name": settle(name),
        "what": _PRIORS.get(name, "") if prior else same,
        "spread": "" if prior is None else f"std of log w: {words.number(prior.spread, digits=3)}",
        "betas": words.NOT_MEASURED if prior is None else chosen_words(prior.chosen_betas),
        "reported": _cell(prior.reported if prior else None, signs=False),
        "difference": _cell(prior.difference if prior else None),
        "against": _cell(against) if is_control else _BLANK,
    }


def _curves(found: Reranking) -> list[dict[str, Any]]:
    priors = list(found.priors.values())
    cosine, metric = found.cosine.mean, words.metric_name(found.metric)
    bounds = power_range(priors, cosine)
    if bounds is None:
        return []
    drawn = [(prior, power_figure(prior, cosine=cosine, metric=metric, bounds=bounds)) for prior in priors]
    return [
        {"svg": markup(svg), "title": settle(prior.prior), "caption": f"Chosen β: {chosen_words(prior.chosen_betas)}."}
        for prior, svg in drawn
        if svg
    ]


def _curve_words(found: Reranking) -> str:
    other = "" if found.chosen_on == "cross-validation" else " Dashed curve: the queries that chose β."
    return (
        f"Line: the reported queries under each β, with {words.level_words(found.level)} of the difference to cosine, which is the dashed "
        f"horizontal.{other} Rings: chosen β. One strength moves the log of a score alike under every prior."
    )


def _power_view(name: str, row: PowerRow) -> dict[str, Any]:
    return {
        "name": settle(name),
        "strength": f"{row.strength:+g}".replace("-", "−") if row.strength else "0",
        "beta": _beta(row.beta),
        "chosen_on": four(row.chosen_on),
        "reported": four(row.reported),
        "difference": _cell(row.difference),
    }


def _confidence_lead(found: Confidence) -> str:
    return (
        f"{words.counted(found.queries, 'query')} in {words.counted(found.clusters, 'cluster')}; the top hit under cosine is right for "
        f"{found.right:,}. Logistic models of “the top hit is right”, each judged on clusters that it was not fitted on. A gain is what a "
        f"figure falls by: above 0 is better. Held: {_held(found)}."
    )


def _gains(found: Confidence) -> list[dict[str, Any]]:
    named = (("Norms added to score and margin", found.gains), ("Norms added to curves of all that is held", found.gains_beyond))
    return [{"name": name, "cells": [_cell(gains.get(key)) for key in _FIGURES]} for name, gains in named if gains]


def _models(found: Confidence) -> list[dict[str, Any]]:
    return [
        {
            "name": settle(name),
            "figures": [four(value) for value in (model.nll, model.e_aurc, model.aurc, model.auroc)],
            "features": settle(", ".join(model.features)),
        }
        for name, model in found.models.items()
    ]
