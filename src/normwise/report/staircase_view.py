"""What the page of a staircase shows, as plain values for its template."""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from typing import Any

from normwise.core.staircase_records import StaircaseReport, StairRecord, TokenGroup, TokenMap, TokenNeighbors, TrackReport
from normwise.report import words
from normwise.report.cells import markup, note_view
from normwise.report.inspect_words import settle
from normwise.report.staircase_axis import drawable, less_null
from normwise.report.staircase_facts import (
    GLOSSARY,
    NONE,
    UNDEFINED,
    figure,
    integrity_words,
    no_gains_words,
    order_words,
    predicted_rows,
    rule_words,
    settings_rows,
    span,
    stair_row,
    stair_words,
    step,
    threshold_words,
    unseen_rise,
    verdict_words,
)
from normwise.report.staircase_plots import line_figure, order_style, orders, staircase_figure
from normwise.report.svg import finite, shorten
from normwise.report.token_map_plots import map_figure
from normwise.report.token_words import token_words

Report = StaircaseReport | TrackReport

# Rows and orders of the table of all figures: of a long series every so many checkpoints, the last one always.
_MOST_ROWS, _MOST_ORDERS = 60, 8


def staircase_view(report: Report) -> dict[str, Any]:
    """Every value that `staircase.html` reads."""
    headline, reason = verdict_words(report.verdict.text)
    source = settle(report.source)
    drawn = staircase_figure(report)
    seeds = len(report.settings.seeds) if isinstance(report, StaircaseReport) else 0
    return {
        "title": f"normwise: staircase of {source}" if source else "normwise: staircase",
        "source": source,
        "label": settle(report.verdict.label),
        "headline": settle(headline),
        "reason": settle(reason),
        "facts": _facts(report),
        "figure": markup(drawn) if drawn else "",
        "legend": [_legend_row(report, order) for order in orders(report)],
        "reading": _reading(report),
        "rule": rule_words(report.rule) if isinstance(report, StaircaseReport) else "",
        "seeds": seeds,
        "stairs": [stair_row(stair, seeds=seeds) for stair in report.stairs],
        "notes_of_stairs": any(stair.note for stair in report.stairs),
        "by_seed": _seed_rows(report),
        "task": _has_task(report),
        "in_order": _in_order_words(report),
        "gains": _gain_rows(report),
        "no_gains": no_gains_words(report),
        "maps": [_map(found) for found in report.maps],
        "neighbors": [_neighbors(row) for row in report.neighbors],
        "groups": [_group(row) for row in report.tokens] if isinstance(report, StaircaseReport) else [],
        "frequency": _frequency(report),
        "predicted": predicted_rows(report),
        "integrity": integrity_words(report),
        "sound": not any((report.integrity.duplicates, report.integrity.gaps, report.integrity.jumps)),
        "thresholds": threshold_words(report),
        "settings": settings_rows(report),
        "series": _series(report),
        "glossary": [{"name": name, "value": value, "detail": ""} for name, value in GLOSSARY],
        "notes": [note_view(settle(note)) for note in report.notes],
        "took": words.duration(report.seconds),
        "version": version("normwise"),
    }


def _facts(report: Report) -> list[dict[str, str]]:
    facts = [_fact(f"Order {stair.order} rises", *_onset_words(report, stair)) for stair in report.stairs[:4]]
    if isinstance(report, StaircaseReport) and report.stairs_by_seed:
        seeds = len(report.stairs_by_seed)
        if _has_task(report):
            tasks = [row.task for row in report.stairs_by_seed if row.task is not None]
            learned = span(min(tasks), max(tasks)) if tasks else NONE
            facts.append(_fact("Task learned", learned, f"{len(tasks)} of {seeds} seeds; the step at which they learn it"))
        in_order = sum(row.in_order for row in report.stairs_by_seed)
        facts.append(_fact("In order", f"{in_order} of {seeds}", f"seeds: {_in_order_words(report)}"))
    elif isinstance(report, TrackReport):
        facts.append(_fact("Corpus", f"{report.settings.corpus_tokens:,}", "tokens that signatures were counted on"))
        facts.append(_fact("Tokens compared", f"{report.settings.tokens:,}", f"of a vocabulary of {report.settings.vocabulary:,}"))
    where = f"steps {span(report.steps[0], report.steps[-1])}" if report.steps else ""
    facts.append(_fact("Checkpoints", f"{len(report.steps):,}", where))
    return facts


def _has_task(report: Report) -> bool:
    """Whether there is a point at which a task is learned, which running text has not."""
    return isinstance(report, StaircaseReport) and report.thresholds.learned is not None


def _in_order_words(report: Report) -> str:
    return "order 0, then order 1" + (", not after the task" if _has_task(report) else "")


def _onset_words(report: Report, stair: StairRecord) -> tuple[str, str]:
    said = "no stair" if stair.onset is None else f"step {stair.onset:,}"
    if isinstance(report, StaircaseReport):
        return said, f"in the mean over seeds; {stair.seeds} of {len(report.settings.seeds)} seeds have one"
    if unseen_rise(stair):
        return "before", "above its null from the first checkpoint on: the rise was not seen"
    return said, "its onset: the first checkpoint of the rise" if stair.onset is not None else ""


def _fact(name: str, value: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _legend_row(report: Report, order: str) -> dict[str, Any]:
    tone, style = order_style(report, order)
    stair = next((row for row in report.stairs if str(row.order) == order), None)
    known = finite(less_null(report.alignment[order], report.null.get(order, ())))
    swatch = (
        f'<svg class="plot" aria-hidden="true" style="width:30px;height:10px;vertical-align:0" viewBox="0 0 30 10">'
        f'<path class="line strong {tone}"{style} d="M1 5H29"/></svg>'
    )
    return {
        "swatch": markup(swatch),
        "tone": f"c{tone[1:]}",
        "order": settle(shorten(order, limit=20)),
        "words": stair_words(stair) if known else "no figure is known",
    }


def _reading(report: Report) -> list[str]:
    """How to read what the staircase plot holds, and nothing that it does not hold."""
    said = []
    if any(stair.onset is not None for stair in report.stairs):
        said.append("▲\u00a0marks where an order rises, with the step above; ○\u00a0is its highest figure.")
    if isinstance(report, StaircaseReport):
        if finite(value for values in report.spread.values() for value in drawable(values)):
            said.append("Bands are one standard deviation over seeds, on either side of their mean.")
        if any(stair.earliest is not None for stair in report.stairs):
            said.append(
                "Thick bars: from the first seed’s onset to the last one’s"
                + ("; below the accuracy, where seeds learn the task." if _has_task(report) else ".")
            )
    elif finite(value for values in report.spread.values() for value in drawable(values)):
        said.append(f"Bands around 0 are chance: {words.number(report.thresholds.spreads)} standard deviations of the null.")
    if (when := finite(drawable([report.predicted.steps, report.predicted.steps_at_slope_1]))) and report.steps:
        seen = report.steps[0] <= min(when) <= report.steps[-1]
        bracket = "The bracket is when order 0 was predicted, before training, to have grown."
        said.append(bracket if seen else f"Order 0 was predicted to have grown by step {min(when):,.0f}, which is not in the plot.")
    if report.integrity.gaps:
        said.append("Shaded with dashed edges: checkpoints are missing, and no line is drawn across.")
    if report.integrity.jumps:
        said.append("Shaded with full edges: the embedding moved out of proportion.")
    unknown = [name for name, values in (("loss", report.loss), ("accuracy", report.accuracy)) if not finite(drawable(values))]
    if unknown:
        said.append(f"Not told by the training: {' and '.join(unknown)}.")
    return said


def _seed_rows(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "seed": str(row.seed),
            "onsets": [step(value) for value in (row.order_0, row.order_1, *([row.task] if _has_task(report) else []))],
            "in_order": "yes" if row.in_order else "no",
        }
        for row in report.stairs_by_seed
    ]


def _gain_rows(report: Report) -> list[dict[str, Any]]:
    """What an order adds to those below it; for the demo, order 1 to order 0."""
    if isinstance(report, StaircaseReport):
        rows = [(row.step, 1, row.r2_order_0, row.gain, row.null) for row in report.beyond_order_0]
    else:
        rows = [(row.step, row.order, row.r2, row.gain, row.null) for row in report.gains]
    return [
        {
            "step": step(at),
            "order": order_words(order),
            "figures": [figure(r2), figure(gain, signed=True), figure(null, signed=True), figure(_above(gain, null), signed=True)],
        }
        for at, order, r2, gain, null in rows
    ]


def _above(value: float | None, null: float | None) -> float | None:
    return less_null([value], [null])[0]


def _map(found: TokenMap) -> dict[str, Any]:
    svg, said = map_figure(found)
    return {"step": step(found.step), "svg": markup(svg) if svg else "", "words": said}


def _neighbors(row: TokenNeighbors) -> dict[str, Any]:
    shared = set(row.by_signature) & set(row.by_embedding)

    def told(names: tuple[str, ...]) -> list[dict[str, Any]]:
        return [{"name": token_words(name), "shared": name in shared} for name in names]

    most = max(len(row.by_signature), len(row.by_embedding))
    return {
        "token": token_words(row.token),
        "signature": told(row.by_signature),
        "embedding": told(row.by_embedding),
        "shared": f"{len(shared)} of {most}",
    }


def _group(row: TokenGroup) -> dict[str, Any]:
    ends = [[values[0], values[-1]] if values else [None, None] for values in (row.norm, row.attention)]
    return {"name": token_words(row.name), "figures": [figure(value) for pair in ends for value in pair]}


def _frequency(report: Report) -> dict[str, Any] | None:
    """How the length of embeddings follows the frequency of their tokens; None where that was not asked."""
    if not isinstance(report, TrackReport):
        return None
    known = [(at, value) for at, value in zip(report.steps, drawable(report.norm_frequency), strict=False) if value is not None]
    if not known:
        return None
    (first, start), (last, end) = known[0], known[-1]
    at, most = max(known, key=lambda pair: abs(pair[1]))
    said = f"{figure(start, signed=True)} at step {first:,}, {figure(end, signed=True)} at step {last:,}"
    said += f", strongest with {figure(most, signed=True)} at step {at:,}." if at not in (first, last) else "."
    return {"words": said, "svg": markup(line_figure(report, report.norm_frequency, name="length and frequency"))}


def _series(report: Report) -> dict[str, Any]:
    """The figures behind the plot, for as many checkpoints as fit a page."""
    shown = orders(report)[:_MOST_ORDERS]
    columns: list[tuple[str, str, list[float | None]]] = [("Loss", "", list(report.loss)), ("Accuracy", "", list(report.accuracy))]
    for order in shown:
        name = f"Order {settle(shorten(order, limit=12))}"
        columns.append((name, "alignment", list(report.alignment[order])))
        columns.append((name, "null", list(report.null.get(order, ()))))
        if isinstance(report, TrackReport) and order in report.spearman:
            columns.append((name, "by ranks", list(report.spearman[order])))
    if isinstance(report, TrackReport) and report.norm_frequency:
        columns.append(("Length", "and frequency", list(report.norm_frequency)))
    columns = [column for column in columns if finite(drawable(column[2]))]
    places = _thinned(len(report.steps))
    rows = [[step(report.steps[at]), *(_cell(values, at) for _, _, values in columns)] for at in places]
    left = len(report.alignment) - len(shown)
    missing = len(report.steps) - len(places)
    said = f"{len(places):,} of {len(report.steps):,} checkpoints" if missing else "All checkpoints"
    return {
        "columns": [{"name": name, "detail": detail} for name, detail, _ in columns],
        "rows": rows,
        "words": said + (f", {left} more orders are not listed." if left else "."),
        "none": UNDEFINED,
    }


def _cell(values: list[float | None], at: int) -> str:
    return figure(values[at]) if at < len(values) else UNDEFINED


def _thinned(count: int) -> list[int]:
    """Places of at most `_MOST_ROWS` checkpoints, evenly, first and last among them."""
    if count <= _MOST_ROWS + 1:
        return list(range(count))
    places = [round(i * (count - 1) / (_MOST_ROWS - 1)) for i in range(_MOST_ROWS)]
    return [places[0], *(after for before, after in pairwise(places) if after != before)]
