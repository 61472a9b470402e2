"""One self-contained HTML file from a saved result: no script, no external address, every text escaped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from normwise.core.errors import MissingExtraError
from normwise.core.records import Comparison, Evaluation, Interval, MetricTable, RunResult, TrainResult
from normwise.core.similarity import Similarity
from normwise.report import plots, words
from normwise.report.plots import ForestRow
from normwise.report.svg import clean, finite

_MAIN_METRIC = "ndcg@10"


def render_page(result: TrainResult) -> str:
    """Draw the page of a training run from its saved result.

    Only what the record holds is shown; what it lacks is called not measured.

    Args:
        result: any `TrainResult`, also one without curves, figures, intervals or comparisons.

    Returns:
        A complete HTML document that loads nothing and runs nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("train.html", _train_view(result))


def render_evaluation(evaluation: Evaluation) -> str:
    """Draw the page of an evaluation from its saved result.

    Args:
        evaluation: any `Evaluation`, also one without geometry, intervals or a decision.

    Returns:
        A complete HTML document that loads nothing and runs nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("evaluation.html", _evaluation_view(evaluation))


def _render(template: str, view: Mapping[str, Any]) -> str:
    if find_spec("jinja2") is None:
        raise MissingExtraError("jinja2", extra="report")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("normwise.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return clean(environment.get_template(template).render(page=view)).strip() + "\n"


def _markup(svg: str) -> Any:
    """Mark a figure as HTML: `plots` has escaped every text in it."""
    from markupsafe import Markup

    return Markup(svg)


def _train_view(result: TrainResult) -> dict[str, Any]:
    chosen = words.chosen_run(result)
    runs = _run_views(result, chosen)
    figures = result.figures
    gates = _gates(result.runs)
    return {
        "title": f"normwise: {result.decision.run or result.decision.similarity} on {result.data}",
        "data": result.data,
        "headline": words.headline(result.decision),
        "reason": result.decision.reason or "The record gives no reason.",
        "split": result.decision.split,
        "facts": _facts(result, chosen),
        "claims": [{"text": text, "outcome": outcome, "tone": outcome.split()[0]} for text, outcome in result.claims.items()],
        "claims_summary": words.claims_summary(result.claims),
        "runs": runs,
        "comparison_lead": _comparison_lead(result),
        "dev_metrics": [words.metric_name(m) for m in _dev_metrics(result.runs)],
        "test_metrics": [words.metric_name(m) for m in words.metric_order([run.metrics for run in result.runs])],
        "forests": _run_forests(result, chosen),
        "comparisons": [_comparison_view(row) for row in result.comparisons],
        "difference_plot": _differences(result),
        "curves": _curves(result.runs, main=True),
        "more_curves": _curves(result.runs, main=False),
        **_vector_views(result, chosen),
        "has_norms": bool(finite(figures.norms_candidates) or finite(figures.norms_queries)),
        "has_directions": bool(figures.directions) and len(figures.direction_norm_percentiles) == len(figures.directions),
        "geometry": _geometry([(view, run.geometry) for view, run in zip(runs, result.runs, strict=True)]),
        "gates": gates,
        "stage_notes": list(dict.fromkeys(note for run in result.runs for stage in run.stages for note in stage.notes)),
        "data_notes": [_note(note) for note in result.data_notes],
        "hygiene": [(words.plain_name(key), value) for key, value in words.flat(result.hygiene)],
        "stages": _stages(result.runs, runs),
        "settings": _as_json(result.settings) if result.settings else "",
        "command": result.command,
        "load": _load_code(result.model),
        "load_words": _load_words(result),
        "versions": list(result.versions.items()),
    }


def _facts(result: TrainResult, chosen: RunResult | None) -> list[dict[str, str]]:
    metric = words.metric_name(_MAIN_METRIC)
    dev = (chosen.dev if chosen else {}).get(_MAIN_METRIC)
    test = (chosen.metrics if chosen else {}).get(_MAIN_METRIC)
    return [
        _interval_fact(f"{metric} on {result.decision.split}, which decided", dev),
        _interval_fact(f"{metric} on test, for the report", test),
        {"name": "Compared", "value": words.counted(len(result.runs), "run"), "detail": words.seeds_words(result)},
        {"name": "Time in all", "value": words.duration(result.seconds), "detail": "training and evaluation"},
    ]


def _interval_fact(name: str, interval: Interval | None) -> dict[str, str]:
    cell = _cell(interval)
    return {"name": name, "value": cell["mean"], "detail": cell["range"]}


def _cell(interval: Interval | None, *, best: bool = False) -> dict[str, Any]:
    """A metric as a table cell: the mean, its interval beneath, and a word where it is the highest of its column."""
    if interval is None or interval.mean is None or not math.isfinite(interval.mean):
        return {"missing": True, "mean": words.NOT_MEASURED, "range": "", "best": False}
    mean, _, rest = plots.interval_words(interval).partition(" ")
    return {"missing": False, "mean": mean, "range": rest.strip("[]").replace(", ", " to "), "best": best}


def _dev_metrics(runs: Sequence[RunResult]) -> list[str]:
    """The dev column is the metric that decides; without it, whatever dev holds first."""
    present = words.metric_order([run.dev for run in runs])
    return [_MAIN_METRIC] if _MAIN_METRIC in present else present[:1]


def _best(tables: Sequence[MetricTable], metric: str) -> float | None:
    """The highest mean of a column; None with fewer than two means, since then nothing is compared."""
    means = finite(table[metric].mean for table in tables if metric in table)
    return max(means) if len(means) > 1 else None


def _cells(tables: Sequence[MetricTable], index: int, metrics: Sequence[str]) -> list[dict[str, Any]]:
    row = tables[index]
    out = []
    for metric in metrics:
        interval = row.get(metric)
        best = _best(tables, metric)
        out.append(_cell(interval, best=interval is not None and best is not None and interval.mean == best))
    return out


def _tone(number: int) -> str:
    return f"c{(number - 1) % plots.SERIES + 1}"


def _run_views(result: TrainResult, chosen: RunResult | None) -> list[dict[str, Any]]:
    dev_tables = [run.dev for run in result.runs]
    test_tables = [run.metrics for run in result.runs]
    test_metrics = words.metric_order(test_tables)
    return [
        {
            "number": number,
            "name": run.name,
            "tone": _tone(number),
            "dashed": "dash" in plots.series_class(number),
            "similarity": words.SIMILARITY_NAMES.get(run.similarity, run.similarity),
            "how": " → ".join(dict.fromkeys(f"{stage.similarity} ({stage.trainable})" for stage in run.stages)),
            "chosen": run is chosen,
            "dev": _cells(dev_tables, number - 1, _dev_metrics(result.runs)),
            "test": _cells(test_tables, number - 1, test_metrics),
        }
        for number, run in enumerate(result.runs, start=1)
    ]


def _comparison_lead(result: TrainResult) -> str:
    return (
        f"Means with their intervals beneath. The choice was made on {result.decision.split}; the test columns report. "
        "Intervals resample clusters of queries that share a target or a source file; overlapping ones need the paired comparison below. "
        f"{words.seeds_words(result)}."
    )


def _run_forests(result: TrainResult, chosen: RunResult | None) -> list[dict[str, Any]]:
    out = []
    for split, tables in ((result.decision.split, [run.dev for run in result.runs]), ("test", [run.metrics for run in result.runs])):
        rows = [
            ForestRow(name=run.name, interval=table[_MAIN_METRIC], number=number, mark="chosen" if run is chosen else "")
            for number, (run, table) in enumerate(zip(result.runs, tables, strict=True), start=1)
            if _MAIN_METRIC in table
        ]
        title = f"{words.metric_name(_MAIN_METRIC)} on {split}"
        if svg := plots.forest(rows, title=title):
            out.append({"svg": _markup(svg), "title": title, "caption": "Dot: mean. Bar: interval."})
    return out


def _differences(result: TrainResult) -> Any:
    rows = [
        ForestRow(name=f"{row.candidate} − {row.baseline}" + ("" if row.metric == _MAIN_METRIC else f" ({words.metric_name(row.metric)})"), interval=row.difference)
        for row in result.comparisons
        if row.split == result.decision.split
    ]
    return _markup(plots.forest(rows, title="Paired differences", zero=True))


def _comparison_view(row: Comparison) -> dict[str, str]:
    mean, _, rest = plots.interval_words(row.difference, signed=True).partition(" ")
    measured = row.difference.mean is not None and math.isfinite(row.difference.mean)
    return {
        "candidate": row.candidate,
        "baseline": row.baseline,
        "metric": words.metric_name(row.metric),
        "split": row.split,
        "mean": mean if measured else words.NOT_MEASURED,
        "range": rest.strip("[]").replace(", ", " to ") if measured else "",
        "level": words.level_words(row.level),
        "words": row.words,
    }


def _curves(runs: Sequence[RunResult], *, main: bool) -> list[dict[str, Any]]:
    out = []
    for key in words.curve_order(plots.curve_keys(runs)):
        title, caption = words.curve_words(key)
        if words.is_main_curve(key) is main and (svg := plots.curve_figure(runs, key, title=title)):
            out.append({"svg": _markup(svg), "title": title, "caption": caption})
    return out


def _vector_views(result: TrainResult, chosen: RunResult | None) -> dict[str, Any]:
    figures = result.figures
    drawn = (
        ("Norms", "Lengths of the raw vectors of queries and candidates, as a share of each.", plots.norm_histogram(figures)),
        ("Directions", "Unit vectors on their first two principal components, colored by the percentile of the norm.", plots.direction_scatter(figures)),
        ("Random pairs", "Cosine of random query-candidate pairs. Far right of 0, all directions crowd together.", plots.pair_histogram(figures)),
    )
    who = f"The vectors of “{chosen.name}”, the run that is saved." if chosen else "The vectors of the saved model."
    return {
        "vectors": [{"title": title, "caption": caption, "svg": _markup(svg)} for title, caption, svg in drawn if svg],
        "vectors_missing": [title for title, _, svg in drawn if not svg],
        "vectors_lead": f"{who} Norms are read before any normalization.",
    }


def _geometry(columns: Sequence[tuple[Mapping[str, Any], Mapping[str, float | None]]]) -> dict[str, Any]:
    shown = [(view, values) for view, values in columns if values]
    keys = sorted({key for _, values in shown for key in values})
    rows = [{"key": key, "figures": [words.number(values.get(key)) for _, values in shown], "words": words.geometry_words(key)} for key in keys]
    return {"columns": [view for view, _ in shown], "rows": rows}


def _gates(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Gates in order of appearance; one that several runs share (a common first stage) is listed once."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for stage in run.stages:
            for gate in stage.gates:
                figures = ", ".join(f"{words.plain_name(key).lower()} {words.number(value)}" for key, value in gate.figures.items())
                view = {"title": words.gate_title(gate.name), "passed": gate.passed, "words": gate.words, "figures": figures, "stage": stage.name, "runs": []}
                entry = found.setdefault(f"{stage.name}\0{gate.model_dump_json()}", view)
                if run.name not in entry["runs"]:
                    entry["runs"].append(run.name)
    return [{**view, "where": f"stage “{view['stage']}” of {', '.join(view['runs'])}"} for view in found.values()]


def _stages(runs: Sequence[RunResult], views: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": view,
            "name": stage.name,
            "similarity": words.SIMILARITY_NAMES.get(stage.similarity, stage.similarity),
            "trainable": stage.trainable,
            "temperature": words.number(stage.temperature),
            "steps": f"{stage.steps:,}",
            "time": words.duration(stage.seconds),
        }
        for run, view in zip(runs, views, strict=True)
        for stage in run.stages
    ]


def _note(text: str) -> dict[str, Any]:
    return {"text": text, "warn": "possibly seen" in text.lower() or "leak" in text.lower()}


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), indent=2, ensure_ascii=False, default=str)


def _load_code(model: str) -> str:
    path = json.dumps(model, ensure_ascii=False)
    return f"from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer({path})"


def _load_words(result: TrainResult) -> str:
    similarity = words.known_similarity(result.decision.similarity)
    if similarity is None:
        return ""
    plain = similarity.ranking.value
    if similarity in (Similarity.COSINE, Similarity.DOT):
        return f"Plain sentence-transformers scores this model with {words.SIMILARITY_NAMES[plain]}, as decided above."
    return (
        f"The decision is {words.SIMILARITY_NAMES[similarity.value]}; plain sentence-transformers has no such name and scores with "
        f"{words.SIMILARITY_NAMES[plain]}, which ranks the candidates of every query the same way."
    )


def _evaluation_view(evaluation: Evaluation) -> dict[str, Any]:
    metrics = words.metric_order(list(evaluation.similarities.values()))
    tables = list(evaluation.similarities.values())
    chosen = evaluation.decision.similarity if evaluation.decision else None
    rows = [
        {
            "name": words.SIMILARITY_NAMES.get(name, name),
            "words": words.ranking_words(name),
            "chosen": name == chosen,
            "cells": _cells(tables, index, metrics),
        }
        for index, name in enumerate(evaluation.similarities)
    ]
    forest = [
        ForestRow(name=words.SIMILARITY_NAMES.get(name, name), interval=table[_MAIN_METRIC], mark="chosen" if name == chosen else "")
        for name, table in evaluation.similarities.items()
        if _MAIN_METRIC in table
    ]
    title = f"{words.metric_name(_MAIN_METRIC)} on {evaluation.split}"
    svg = plots.forest(forest, title=title)
    return {
        "title": f"normwise: {evaluation.model} on {evaluation.data}",
        "data": evaluation.data,
        "split": evaluation.split,
        "headline": words.evaluation_headline(evaluation),
        "reason": evaluation.decision.reason if evaluation.decision else f"{evaluation.model} on {evaluation.data}: the record holds no decision between the similarities.",
        "facts": [
            {"name": "Model", "value": evaluation.model, "detail": ""},
            {"name": f"Queries ({evaluation.split})", "value": f"{evaluation.queries:,}", "detail": f"in {words.counted(evaluation.clusters, 'cluster')}"},
            {"name": "Candidates", "value": f"{evaluation.candidates:,}", "detail": "searched exactly"},
        ],
        "metrics": [words.metric_name(metric) for metric in metrics],
        "rows": rows,
        "forests": [{"svg": _markup(svg), "title": title, "caption": "Dot: mean. Bar: interval."}] if svg else [],
        "geometry": _geometry([({"number": 0}, evaluation.geometry)]),
        "notes": [_note(note) for note in evaluation.notes],
    }
