"""What the page of a calibration shows, as plain values for its template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from normwise.core.calibration_records import CalibrationReport, CalibratorRow, ExampleHit, NormGain, SignalRow
from normwise.core.records import Interval
from normwise.report import words
from normwise.report.calibration_plots import reliability_figure, risk_figure
from normwise.report.calibration_words import CALIBRATORS, GAINS, SIGNALS, calibrator_name, capital, without_headline
from normwise.report.cells import markup, note_view
from normwise.report.hits_view import DirectionReport, DirectionsReport, example_pictures, nearest_view, probability_words
from normwise.report.inspect_words import settle
from normwise.report.svg import series_class, shorten
from normwise.report.thumbnails import inlined_words
from normwise.report.usefulness_view import four, signed_four

_LONGEST_TEXT = 400
_METRICS = {
    "ece": "ECE",
    "brier": "Brier",
    "nll": "NLL",
    "auroc": "AUROC",
    "aurc": "AURC",
    "e_aurc": "E-AURC",
    "nauc": "nAUC",
}


def calibration_view(report: CalibrationReport | DirectionsReport) -> dict[str, Any]:
    """Every value that `calibration.html` reads: `parts` has one view for each direction, and one only where there are no others."""
    if isinstance(report, DirectionsReport):
        return _counting(_directions_view(report))
    part = _part_view(report)
    return _counting({**part, "parts": [part], "overview": []})


def _counting(view: dict[str, Any]) -> dict[str, Any]:
    """With what the thumbnails of all parts take together."""
    return {**view, "inlined": inlined_words(view["parts"])}


def _directions_view(report: DirectionsReport) -> dict[str, Any]:
    subject = " on ".join(settle(name) for name in (report.model, report.data) if name)
    usable = sum(each.threshold is not None for each in report.directions.values())
    count = len(report.directions)
    overview = [_overview(number, name, each) for number, (name, each) in enumerate(report.directions.items(), start=1)]
    none = {"anchor": "", "queries": "", "coverage": ""}
    overview += [{**none, "name": settle(name), "verdict": f"No calibration: {settle(why)}"} for name, why in report.refused.items()]
    return {
        "title": f"normwise: calibration of {settle(report.model)} on {settle(report.data)}",
        "subject": subject,
        "headline": f"{count} directions, each judged by itself: {usable} {'has' if usable == 1 else 'have'} a usable threshold.",
        "reason": "A score means another thing in each direction, so that no calibration of one serves another.",
        "facts": [],
        "direction": "",
        "overview": overview,
        "parts": [
            {**_part_view(each), "prefix": f"part{number}-", "name": settle(name), "direction": settle(each.direction)}
            for number, (name, each) in enumerate(report.directions.items(), start=1)
        ],
        "notes": [note_view(settle(note)) for note in report.notes],
        "kept": settle(report.calibration) if report.calibration else "",
    }


def _overview(number: int, name: str, report: DirectionReport) -> dict[str, Any]:
    threshold = report.threshold
    return {
        "anchor": f"part{number}-trust",
        "name": settle(name),
        "verdict": _headline(report),
        "queries": f"{report.queries.fit:,} fit, {report.queries.test:,} test",
        "coverage": words.NOT_MEASURED if threshold is None else _percent(threshold.coverage),
    }


def _part_view(report: CalibrationReport) -> dict[str, Any]:
    """Every value of one direction, or of a report without any."""
    threshold = report.threshold
    direction = settle(report.direction) if isinstance(report, DirectionReport) else ""
    subject = " on ".join(settle(name) for name in (report.model, report.data) if name)
    return {
        "prefix": "",
        "name": settle(report.name) if isinstance(report, DirectionReport) else "",
        "direction": direction,
        "title": f"normwise: calibration of {settle(report.model) or 'vectors'} on {settle(report.data) or 'judged queries'}",
        "subject": subject,
        "usable": report.verdict.label == "usable",
        "headline": _headline(report),
        "reason": settle(without_headline(report.verdict.text)),
        "facts": _facts(report),
        "decision": _decision(report),
        "reliability": _figure(reliability_figure(report.figures.bins)),
        "risk": _figure(risk_figure(report.figures.coverage, report.figures.risk, chosen_at=threshold.coverage if threshold else None)),
        "lines": [
            {"number": number, "tone": f"c{(number - 1) % 6 + 1}", "dashed": "dash" in series_class(number), "name": _line_name(name)}
            for number, name in enumerate(report.figures.risk, start=1)
        ],
        "metrics": list(_METRICS.values()),
        "level": words.level_words(report.level),
        "tables": [
            [
                _row(row, chosen=row.name == report.chosen)
                for row in report.calibrators
                if (row.eligible or row.name == report.chosen) == may
            ]
            for may in (True, False)
        ],
        "more": [_more(row) for row in report.calibrators],
        "coverages": sorted({key for row in report.calibrators for key in row.coverage_at_risk}, key=float),
        "risks": sorted({key for row in report.calibrators for key in row.risk_at_coverage}, key=float),
        "chosen": calibrator_name(report.chosen),
        "chosen_words": CALIBRATORS.get(report.chosen, ("", ""))[1],
        "gains": [_gain(gain) for gain in report.norm_gains or (report.norm_gain,)],
        "gain_words": capital(settle(report.norm_gain.words)),
        "controls": _listed([settle(name) for name in report.norm_gain.controls]),
        "signals": [_signal(row) for row in report.signals],
        "nearest": nearest_view(report),
        "errors": _examples(report, "errors"),
        "abstentions": _examples(report, "abstentions"),
        "notes": [note_view(settle(note)) for note in report.notes],
        "kept": settle(report.calibration) if report.calibration else "",
    }


def _headline(report: CalibrationReport) -> str:
    threshold = report.threshold
    if threshold is None:
        if report.precision_target is None or not _tells(report):
            return "No usable threshold exists on these data."
        return f"No usable threshold for a precision of {_percent(report.precision_target)} on these data."
    if threshold.inert == "rejects nothing":
        return f"Every query can be answered at a precision of {_percent(threshold.precision_target)}."
    return f"Answer from a probability of {probability_words(threshold.probability)} on; below it, say “I don’t know”."


def _facts(report: CalibrationReport) -> list[dict[str, str]]:
    counts, threshold = report.queries, report.threshold
    facts = [
        {"name": "Calibrator", "value": calibrator_name(report.chosen), "detail": _choice(report)},
        {
            "name": "Queries",
            "value": f"{counts.test:,}",
            "detail": f"to test; {counts.fit:,} others to fit; {counts.unanswerable:,} of all have no answer",
        },
    ]
    if threshold is not None:
        facts[:0] = [
            {
                "name": f"Precision, with {_percent(threshold.confidence)} confidence",
                "value": f"≥ {_percent(threshold.precision_target)}",
                "detail": f"seen {_percent(threshold.precision)} of {threshold.answered:,} answers, "
                f"lower bound {_percent(threshold.precision_low)}",
            },
            {"name": "Coverage", "value": _percent(threshold.coverage), "detail": "of the test queries are answered"},
        ]
    if report.similarity:
        scale = f", temperature {report.temperature:g}" if report.temperature is not None else ""
        facts.append({"name": "Score", "value": report.similarity, "detail": f"{words.score_words(report.similarity)}{scale}"})
    return facts


def _choice(report: CalibrationReport) -> str:
    """By which rule the chosen calibrator was chosen; it may be the best as well as the simplest."""
    losses = {row.name: row.cv_nll for row in report.calibrators if row.eligible and row.cv_nll is not None}
    also = "; also the best" if report.chosen in losses and losses[report.chosen] == min(losses.values()) else ""
    return f"the simplest within one standard error of the best{also}"


def _tells(report: CalibrationReport) -> bool:
    """Whether the chosen probability tells right first hits from wrong ones: its whole AUROC interval lies above one half."""
    own = next((row for row in report.calibrators if row.name == report.chosen), None)
    interval = None if own is None else own.intervals.get("auroc")
    return interval is not None and interval.ci_low is not None and interval.ci_low > 0.5


def _decision(report: CalibrationReport) -> str:
    threshold = report.threshold
    if threshold is None and _tells(report):
        return (
            "The probability tells right first hits from wrong ones, but at no coverage do the test queries guarantee the precision that "
            "was asked for. A number picked by eye would only seem to."
        )
    if threshold is None:
        return "Nothing here is known to tell right first hits from wrong ones. A number picked by eye would only seem to."
    return (
        f"The threshold comes from {settle(threshold.method)} testing on queries that fitted nothing: from the most confident on, "
        "answers are let in until the data no longer guarantee the target. The line in the second figure marks where that ends."
    )


def _figure(svg: str) -> Any:
    return markup(svg) if svg else ""


def _line_name(name: str) -> str:
    known = {
        "oracle": "A perfect order: every right answer before every wrong one",
        "score": "The score alone",
        "score only": "The score alone",
        "chosen": "The chosen calibrator",
    }
    return known.get(name, settle(name))


def _row(row: CalibratorRow, *, chosen: bool) -> dict[str, Any]:
    name, what = CALIBRATORS.get(row.name, (settle(row.name), ""))
    return {
        "name": name,
        "what": what,
        "chosen": chosen,
        "words": settle(row.words),
        "eligible": row.eligible,
        "cells": [_cell(getattr(row, metric), row.intervals.get(metric)) for metric in _METRICS],
        "cv": four(row.cv_nll) + (f" ± {row.cv_se:.4f}" if row.cv_se is not None else "") if row.cv_nll is not None else words.NOT_MEASURED,
        "parameters": row.parameters,
    }


def _more(row: CalibratorRow) -> dict[str, Any]:
    parts = (row.ece_mass, row.ece_debiased, row.ks, row.reliability, row.resolution, row.uncertainty, row.precision)
    return {
        "name": CALIBRATORS.get(row.name, (settle(row.name), ""))[0],
        "figures": [four(value) for value in parts],
        "coverage": dict(sorted(((key, _percent(value)) for key, value in row.coverage_at_risk.items()), key=lambda pair: float(pair[0]))),
        "risk": dict(sorted(((key, _percent(value)) for key, value in row.risk_at_coverage.items()), key=lambda pair: float(pair[0]))),
    }


def _cell(value: float | None, interval: Interval | None) -> dict[str, Any]:
    if value is None or not math.isfinite(value):
        return {"missing": True, "mean": words.NOT_MEASURED, "range": "", "best": False}
    ends = [interval.ci_low, interval.ci_high] if interval is not None else []
    known = [end for end in ends if end is not None and math.isfinite(end)]
    span = " to ".join(_three(end) for end in known) if len(known) == 2 else "no interval"
    return {"missing": False, "mean": _three(value), "range": span, "best": False}


def _gain(gain: NormGain) -> dict[str, Any]:
    interval = Interval(mean=gain.delta, ci_low=gain.ci_low, ci_high=gain.ci_high)
    missing = gain.delta is None or not math.isfinite(gain.delta)
    ends = [end for end in (interval.ci_low, interval.ci_high) if end is not None and math.isfinite(end)]
    return {
        "metric": GAINS.get(gain.metric, settle(gain.metric)),
        "cell": {
            "missing": missing,
            "mean": signed_four(gain.delta),
            "range": " to ".join(signed_four(end) for end in ends) if len(ends) == 2 else "no interval",
            "best": False,
        },
        "words": settle(gain.words),
    }


def _signal(row: SignalRow) -> dict[str, Any]:
    ends = [end for end in (row.ci_low, row.ci_high) if end is not None and math.isfinite(end)]
    tells = (
        "no interval"
        if len(ends) < 2
        else "tells nothing"
        if ends[0] <= 0.5 <= ends[1]
        else "the wrong way round"
        if ends[1] < 0.5
        else "tells"
    )
    return {
        "name": settle(row.name),
        "what": settle(row.words) or SIGNALS.get(row.name, ""),
        # A name that says it already need not say it twice.
        "similarity": "" if (row.similarity or "") in row.name else settle(row.similarity or ""),
        "cell": _cell(row.auroc, Interval(mean=row.auroc, ci_low=row.ci_low, ci_high=row.ci_high)),
        "tells": tells if row.auroc is not None else words.NOT_MEASURED,
    }


def _examples(report: CalibrationReport, kind: Literal["errors", "abstentions"]) -> list[dict[str, Any]]:
    examples = report.figures.confident_errors if kind == "errors" else report.figures.good_abstentions
    return [{**_example(hit), **pictures} for hit, pictures in zip(examples, example_pictures(report, kind), strict=True)]


def _example(hit: ExampleHit) -> dict[str, str]:
    outcome = "right" if hit.right else "wrong" if hit.answerable else "wrong: nothing in the corpus answers it"
    return {
        "query": shorten(settle(hit.query), limit=_LONGEST_TEXT),
        "hit": shorten(settle(hit.hit), limit=_LONGEST_TEXT),
        "id": shorten(settle(hit.hit_id), limit=80),
        "probability": probability_words(hit.probability),
        "score": _three(hit.score),
        "norm": f"{hit.norm:.3g}",
        "outcome": outcome,
    }


def _three(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _percent(value: float) -> str:
    """A share in percent, with a decimal where it is needed.

    Example:
        >>> _percent(0.95), _percent(0.954)
        ('95%', '95.4%')
    """
    return f"{100 * value:.1f}".removesuffix(".0") + "%"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
