"""What the page of an evaluation shows, as plain values for its template."""

from __future__ import annotations

from typing import Any

from normwise.core.records import Evaluation
from normwise.report import words
from normwise.report.cells import MAIN_METRIC, candidate_table, cells, geometry_view, markup, note_view
from normwise.report.forest import ForestRow, forest


def evaluation_view(evaluation: Evaluation) -> dict[str, Any]:
    """Every value that `evaluation.html` reads."""
    metrics = words.metric_order(list(evaluation.similarities.values()))
    tables = list(evaluation.similarities.values())
    chosen = evaluation.decision.similarity if evaluation.decision else None
    rows = [
        {
            "name": name,
            "words": words.score_words(name),
            "chosen": name == chosen,
            "cells": cells(tables, index, metrics),
        }
        for index, name in enumerate(evaluation.similarities)
    ]
    rows_drawn = [
        ForestRow(name=name, interval=table[MAIN_METRIC], mark="chosen" if name == chosen else "")
        for name, table in evaluation.similarities.items()
        if MAIN_METRIC in table
    ]
    title = f"{words.metric_name(MAIN_METRIC)} on {evaluation.split}"
    svg = forest(rows_drawn, title=title)
    return {
        "title": f"normwise: {evaluation.model} on {evaluation.data}",
        "data": evaluation.data,
        "split": evaluation.split,
        "headline": words.evaluation_headline(evaluation),
        "length_words": words.length_words(chosen) if chosen else "",
        "reason": evaluation.decision.reason
        if evaluation.decision
        else f"{evaluation.model} on {evaluation.data}: the record holds no decision between the similarities.",
        "facts": [
            {"name": "Model", "value": evaluation.model, "detail": ""},
            {
                "name": f"Queries ({evaluation.split})",
                "value": f"{evaluation.queries:,}",
                "detail": f"in {words.counted(evaluation.clusters, 'cluster')}",
            },
            {"name": "Candidates", "value": f"{evaluation.candidates:,}", "detail": "searched exactly"},
        ],
        "metrics": [words.metric_name(metric) for metric in metrics],
        "rows": rows,
        "forests": [{"svg": markup(svg), "title": title, "caption": "Dot: mean. Bar: interval."}] if svg else [],
        "by_candidate": candidate_table(
            "Similarity",
            evaluation.split,
            [(name, words.score_words(name), table) for name, table in evaluation.one_query_per_candidate.items()],
        ),
        "geometry": geometry_view([({"number": 0}, evaluation.geometry)]),
        "notes": [note_view(note) for note in evaluation.notes],
    }
