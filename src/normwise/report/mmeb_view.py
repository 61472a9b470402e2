"""What the page of an evaluation in MMEB's protocol shows, or of two of them compared, as plain values for its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from normwise.core.mmeb_records import OVERALL, MmebBoth, MmebComparison, MmebDifference, MmebEvaluation, MmebMean, MmebTask
from normwise.core.records import Interval
from normwise.report import words
from normwise.report.cells import cell, interval_fact, markup, note_view
from normwise.report.forest import ForestRow, forest, interval_words
from normwise.report.hits_view import nearest_hits_view
from normwise.report.inspect_words import settle
from normwise.report.thumbnails import inlined_words

_RANKED = {"cosine": "by cosine", "dot": "by dot product"}
_TONES = {"better": "passed", "worse": "failed"}
_OPEN_ROWS = 12


def mmeb_view(found: MmebEvaluation | MmebComparison) -> dict[str, Any]:
    """Every value that `mmeb.html` reads."""
    compared = isinstance(found, MmebComparison)
    view = _comparison_view(found) if compared else _evaluation_view(found)
    whose = "the trained model" if compared else "the model"
    nearest = nearest_hits_view(found.nearest, queries="query", model=f"{whose} among its own candidates")
    left_out = found.nearest.left_out if found.nearest else 0
    return {**view, "nearest": nearest, "inlined": inlined_words(nearest, left_out=left_out)}


def _evaluation_view(found: MmebEvaluation) -> dict[str, Any]:
    model, data = settle(found.model), settle(found.data)
    overall = found.means.get(OVERALL)
    known = {task.name: task for task in found.tasks}
    return {
        "title": f"normwise: {model} on {data}, MMEB’s protocol",
        "kind": "Evaluation in MMEB’s protocol",
        "data": data,
        "headline": _headline(overall, len(found.tasks)),
        "reason": "" if overall is None else _overall_words("Dot product against cosine", overall.dot_minus_cosine),
        "facts": [
            {"name": "Model", "value": model, "detail": ""},
            _counts(len(found.tasks), sum(task.queries for task in found.tasks)),
            *(interval_fact(f"Mean P@1 {_RANKED[name]}", overall.p_at_1.get(name)) for name in _RANKED if overall),
        ],
        "columns": ["Cosine", "Dot product"],
        "difference": "Dot − cosine",
        "means": [_mean_row(name, mean, [known[task] for task in mean.tasks if task in known]) for name, mean in found.means.items()],
        "tasks": [_task_row(task) for task in found.tasks],
        "forests": _forests({name: _both_rankings(mean.p_at_1) for name, mean in found.means.items()}, ("cosine", "dot")),
        **_task_forest({task.name: task.dot_minus_cosine for task in found.tasks}, "Dot − cosine"),
        "more": [_more(task) for task in found.tasks],
        "notes": [
            note_view(settle(note)) for note in (*found.notes, *(f"{task.name}: {note}" for task in found.tasks for note in task.notes))
        ],
    }


def _comparison_view(found: MmebComparison) -> dict[str, Any]:
    base, trained = settle(found.base), settle(found.trained)
    both = found.mean_p_at_1.get(OVERALL)
    means = {**found.means, OVERALL: found.overall}
    verdict = found.overall.verdict
    other = "the other model" if base == trained else f"“{base}”"
    said = f"“{trained}” is {verdict} than {other}" if verdict in _TONES else f"Whether “{trained}” is better than {other} is undecided"
    return {
        "title": f"normwise: {trained} against {base}, MMEB’s protocol",
        "kind": "Comparison in MMEB’s protocol",
        "data": settle(found.data),
        "headline": f"{said} over these {words.counted(len(found.tasks), 'task')}.",
        "reason": settle(found.words) + ".",
        "facts": [
            {"name": "Difference of mean P@1", **_difference(found.overall)},
            interval_fact(f"Base, {_RANKED.get(found.base_ranking, settle(found.base_ranking))}", None if both is None else both.base),
            interval_fact(
                f"Trained, {_RANKED.get(found.trained_ranking, settle(found.trained_ranking))}", None if both is None else both.trained
            ),
            _counts(len(found.tasks), None if both is None else both.queries),
        ],
        "columns": [f"Base ({settle(found.base_ranking)})", f"Trained ({settle(found.trained_ranking)})"],
        "difference": "Trained − base",
        "means": [_both_row(name, found.mean_p_at_1.get(name), each) for name, each in means.items()],
        "tasks": [_both_row(name, found.p_at_1.get(name), each) for name, each in found.tasks.items()],
        "forests": _forests({name: (each.base, each.trained) for name, each in found.mean_p_at_1.items()}, ("base", "trained")),
        **_task_forest(found.tasks, "Trained − base"),
        "more": [],
        "notes": [note_view(settle(note)) for note in found.notes],
    }


def _headline(overall: MmebMean | None, tasks: int) -> str:
    said = [] if overall is None else [(name, overall.p_at_1.get(name)) for name in _RANKED]
    figures = [f"{each.mean:.3f} {_RANKED[name]}" for name, each in said if each is not None and each.mean is not None]
    return f"Mean P@1 {' and '.join(figures)}, over {words.counted(tasks, 'task')}." if figures else "Nothing was measured."


def _overall_words(who: str, found: MmebDifference) -> str:
    return f"{who}, over all tasks: {found.verdict}, {interval_words(found.difference, signed=True)} at {words.level_words(found.level)}."


def _counts(tasks: int, queries: int | None) -> dict[str, str]:
    return {"name": "Tasks", "value": f"{tasks:,}", "detail": "" if queries is None else f"{words.counted(queries, 'query')} in all"}


def _mean_row(name: str, mean: MmebMean, tasks: list[MmebTask]) -> dict[str, Any]:
    return {
        **_row(name, words.counted(len(mean.tasks), "task"), mean.dot_minus_cosine),
        "queries": f"{sum(task.queries for task in tasks):,}",
        "candidates": f"{sum(task.candidates for task in tasks):,}",
        "chance": f"{sum(task.chance for task in tasks) / len(tasks):.3f}" if tasks else words.NOT_MEASURED,
        "cells": [cell(each) for each in _both_rankings(mean.p_at_1)],
    }


def _task_row(task: MmebTask) -> dict[str, Any]:
    domain = "" if task.in_domain is None else ", in-domain" if task.in_domain else ", out-of-domain"
    return {
        **_row(task.name, f"{task.meta}{domain}", task.dot_minus_cosine),
        "queries": f"{task.queries:,}",
        "candidates": f"{task.candidates:,}",
        "chance": f"{task.chance:.3f}",
        "cells": [cell(each) for each in _both_rankings(task.p_at_1)],
    }


def _both_row(name: str, both: MmebBoth | None, found: MmebDifference) -> dict[str, Any]:
    if both is None:
        missing = dict.fromkeys(("queries", "candidates", "chance"), words.NOT_MEASURED)
        return {**_row(name, "", found), **missing, "cells": [cell(None), cell(None)]}
    return {
        **_row(name, both.meta or words.counted(both.tasks, "task"), found),
        "queries": f"{both.queries:,}",
        "candidates": f"{both.candidates:,}",
        "chance": f"{both.chance:.3f}",
        "cells": [cell(both.base), cell(both.trained)],
    }


def _row(name: str, detail: str, found: MmebDifference) -> dict[str, Any]:
    return {
        "name": settle(name),
        "overall": name == OVERALL,
        "detail": settle(detail),
        "difference": _difference(found),
        "level": words.level_words(found.level),
        "verdict": found.verdict,
        "tone": _TONES.get(found.verdict, "undecided"),
    }


def _difference(found: MmebDifference) -> dict[str, str]:
    mean, _, rest = interval_words(found.difference, signed=True).partition(" ")
    if found.difference.mean is None:
        return {"value": words.NOT_MEASURED, "detail": ""}
    return {"value": mean, "detail": rest.strip("[]").replace(", ", " to ")}


def _both_rankings(table: Mapping[str, Interval]) -> tuple[Interval | None, Interval | None]:
    return table.get("cosine"), table.get("dot")


def _forests(rows: Mapping[str, tuple[Interval | None, Interval | None]], marks: tuple[str, str]) -> list[dict[str, Any]]:
    """Means of both columns under each other."""
    drawn = [
        ForestRow(name=settle(name), interval=interval, number=number, mark=mark)
        for name, pair in rows.items()
        for number, (mark, interval) in enumerate(zip(marks, pair, strict=True), start=1)
        if interval is not None
    ]
    title = "Mean P@1"
    svg = forest(drawn, title=title)
    caption = f"1: {marks[0]}. 2: {marks[1]}. Dot: mean over tasks. Bar: 95% interval."
    return [{"svg": markup(svg), "title": title, "caption": caption}] if svg else []


def _task_forest(differences: Mapping[str, MmebDifference], title: str) -> dict[str, Any]:
    rows = [ForestRow(name=settle(name), interval=each.difference) for name, each in differences.items()]
    svg = forest(rows, title=f"{title}, each task", zero=True)
    caption = "Difference of P@1. Right of the dashed line the first is better. Intervals are corrected for the number of tasks."
    drawn = [{"svg": markup(svg), "title": title, "caption": caption}] if svg else []
    return {"task_forests": drawn, "tasks_open": len(rows) <= _OPEN_ROWS}


def _more(task: MmebTask) -> dict[str, Any]:
    clusters = len(set(task.clusters))
    figures = [words.number(task.mrr.get(name), digits=3) for name in _RANKED]
    return {"name": settle(task.name), "figures": [*figures, f"{clusters:,}" if clusters else words.NOT_MEASURED]}
