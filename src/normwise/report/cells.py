"""Pieces of a page view that both pages use: cells with intervals, geometry rows, notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from normwise.core.records import Interval, MetricTable
from normwise.report import glossary, words
from normwise.report.forest import interval_words
from normwise.report.svg import finite

MAIN_METRIC = "ndcg@10"


def markup(svg: str) -> Any:
    """Mark a figure as HTML: `plots` has escaped every text in it."""
    from markupsafe import Markup

    return Markup(svg)


def cell(interval: Interval | None, *, best: bool = False) -> dict[str, Any]:
    """A metric as a table cell: the mean, its interval beneath, and a word where it is the highest of its column."""
    if interval is None or interval.mean is None or not math.isfinite(interval.mean):
        return {"missing": True, "mean": words.NOT_MEASURED, "range": "", "best": False}
    mean, _, rest = interval_words(interval).partition(" ")
    return {"missing": False, "mean": mean, "range": rest.strip("[]").replace(", ", " to "), "best": best}


def interval_fact(name: str, interval: Interval | None) -> dict[str, str]:
    """A key figure with its interval beneath."""
    shown = cell(interval)
    return {"name": name, "value": shown["mean"], "detail": shown["range"]}


def best_mean(tables: Sequence[MetricTable], metric: str) -> float | None:
    """The highest mean of a column; None with fewer than two means, since then nothing is compared."""
    means = finite(table[metric].mean for table in tables if metric in table)
    return max(means) if len(means) > 1 else None


def cells(tables: Sequence[MetricTable], index: int, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """The cells of row `index`, one for each metric."""
    row = tables[index]
    out = []
    for metric in metrics:
        interval = row.get(metric)
        best = best_mean(tables, metric)
        out.append(cell(interval, best=interval is not None and best is not None and interval.mean == best))
    return out


def candidate_table(what: str, split: str, rows: Sequence[tuple[str, str, MetricTable]]) -> dict[str, Any]:
    """The table of metrics that count every relevant candidate once; it has no rows where they were not measured."""
    rows = [row for row in rows if row[2]]
    tables = [table for _, _, table in rows]
    metrics = words.metric_order(tables)
    return {
        "what": what,
        "split": split,
        "metrics": [words.metric_name(metric) for metric in metrics],
        "rows": [{"name": name, "detail": detail, "cells": cells(tables, index, metrics)} for index, (name, detail, _) in enumerate(rows)],
    }


def geometry_view(columns: Sequence[tuple[Mapping[str, Any], Mapping[str, float | None]]]) -> dict[str, Any]:
    """Rows of the geometry table; a run without figures has no column."""
    shown = [(view, values) for view, values in columns if values]
    keys = glossary.geometry_order({key for _, values in shown for key in values})
    rows = [
        {"key": key, "figures": [words.geometry_number(values.get(key)) for _, values in shown], "words": glossary.geometry_words(key)}
        for key in keys
    ]
    return {"columns": [view for view, _ in shown], "rows": rows}


def note_view(text: str) -> dict[str, Any]:
    """A note; what weakens the evidence is marked in words."""
    return {"text": text, "warn": "possibly seen" in text.lower() or "leak" in text.lower()}
