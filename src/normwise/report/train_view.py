"""What the page of a training run shows, as plain values for its template."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from normwise.core.records import METRICS, Comparison, RunResult, TrainResult
from normwise.core.similarity import Similarity
from normwise.report import glossary, plots, words
from normwise.report.cells import MAIN_METRIC, candidate_table, cells, geometry_view, interval_fact, markup, note_view
from normwise.report.forest import ForestRow, forest, interval_words
from normwise.report.hits_view import nearest_hits_view
from normwise.report.svg import SERIES, finite, series_class
from normwise.report.thumbnails import inlined_words


def train_view(result: TrainResult) -> dict[str, Any]:
    """Every value that `train.html` reads."""
    chosen = words.decided_run(result.runs, result.decision)
    runs = _run_views(result, chosen)
    figures = result.figures
    numbers = words.arm_numbers(result.runs)
    firsts = words.first_of_each(result.runs)
    arms = [_arm_view(run, numbers[run.name]) for run in firsts]
    nearest = nearest_hits_view(result.nearest, queries="test query", model="the saved model")
    return {
        "title": f"normwise: {result.decision.run or result.decision.similarity} on {result.data}",
        "data": result.data,
        "warnings": result.warnings,
        "headline": words.headline(result.decision),
        "reason": result.decision.reason or "The record gives no reason.",
        "length_words": words.length_words(result.decision.similarity),
        "split": result.decision.split,
        "facts": _facts(result, chosen),
        "claims": [{"text": text, "outcome": outcome, "tone": outcome.split()[0]} for text, outcome in result.claims.items()],
        "claims_summary": words.claims_summary(result.claims),
        "runs": runs,
        "arms": arms,
        "comparison_lead": _comparison_lead(result),
        "dev_metrics": [words.metric_name(m) for m in _dev_metrics(result.runs)],
        "test_metrics": [words.metric_name(m) for m in words.metric_order([run.metrics for run in result.runs])],
        "by_candidate": candidate_table(
            "Run", "test", [(run.name, f"ranked by {run.similarity}", run.one_query_per_candidate) for run in result.runs]
        ),
        "forests": _run_forests(result, chosen),
        "comparisons": _comparisons(result),
        "nearest": nearest,
        "inlined": inlined_words(nearest, left_out=result.nearest.left_out if result.nearest else 0),
        "curves": _curves(firsts, main=True),
        "shared_stages": _share_stages(firsts),
        "more_curves": _curves(firsts, main=False),
        **_vector_views(result, chosen),
        "has_norms": bool(finite(figures.norms_candidates) or finite(figures.norms_queries)),
        "has_directions": bool(figures.directions) and len(figures.direction_norm_percentiles) == len(figures.directions),
        "geometry": geometry_view([(view, run.geometry) for view, run in zip(arms, firsts, strict=True)]),
        "gates": _gates(firsts),
        "stage_notes": list(dict.fromkeys(note for run in result.runs for stage in run.stages for note in stage.notes)),
        "data_notes": [note_view(note) for note in result.data_notes],
        "hygiene": [(glossary.plain_name(key.replace(".", " · ")), value) for key, value in words.flat(result.hygiene)],
        "stages": _stages(firsts, arms),
        "settings": _as_json(result.settings) if result.settings else "",
        "command": result.command,
        "load": _load_code(result.model),
        "load_words": _load_words(result),
        "versions": list(result.versions.items()),
    }


def _facts(result: TrainResult, chosen: RunResult | None) -> list[dict[str, str]]:
    metric = words.metric_name(MAIN_METRIC)
    dev = (chosen.dev if chosen else {}).get(MAIN_METRIC)
    test = (chosen.metrics if chosen else {}).get(MAIN_METRIC)
    return [
        interval_fact(f"{metric} on {result.decision.split}, which decided", dev),
        interval_fact(f"{metric} on test, for the report", test),
        {"name": "Compared", "value": words.counted(len(words.arm_numbers(result.runs)), "run"), "detail": _compared(result)},
        {"name": "Time in all", "value": words.duration(result.seconds), "detail": "training and evaluation"},
    ]


def _dev_metrics(runs: Sequence[RunResult]) -> list[str]:
    """The dev column is the metric that decides; without it, whatever dev holds first."""
    present = words.metric_order([run.dev for run in runs])
    return [MAIN_METRIC] if MAIN_METRIC in present else present[:1]


def _tone(number: int) -> str:
    return f"c{(number - 1) % SERIES + 1}"


def _compared(result: TrainResult) -> str:
    rankings = list(dict.fromkeys(run.similarity for run in result.runs))
    each = (
        f"each ranked by {' and by '.join(rankings)}; "
        if len(rankings) > 1 and len(result.runs) > len(words.arm_numbers(result.runs))
        else ""
    )
    return each + words.seeds_words(result)


def _arm_view(run: RunResult, number: int) -> dict[str, Any]:
    how = " → ".join(dict.fromkeys(f"{stage.similarity} ({stage.trainable})" for stage in run.stages))
    return {
        "number": number,
        "name": run.name,
        "tone": _tone(number),
        "dashed": "dash" in series_class(number),
        "how": how,
        "curve": bool(run.stages),
    }


def _run_views(result: TrainResult, chosen: RunResult | None) -> list[dict[str, Any]]:
    numbers = words.arm_numbers(result.runs)
    dev_tables = [run.dev for run in result.runs]
    test_tables = [run.metrics for run in result.runs]
    test_metrics = words.metric_order(test_tables)
    return [
        {
            **_arm_view(run, numbers[run.name]),
            "similarity": run.similarity,
            "first": run.name not in {earlier.name for earlier in result.runs[:row]},
            "chosen": run is chosen,
            "dev": cells(dev_tables, row, _dev_metrics(result.runs)),
            "test": cells(test_tables, row, test_metrics),
        }
        for row, run in enumerate(result.runs)
    ]


def _comparison_lead(result: TrainResult) -> str:
    return (
        f"Means with their intervals beneath. The choice was made on {result.decision.split}; the test columns report. "
        "Intervals resample clusters of queries that share a target or a source file; overlapping ones need the paired comparison below."
    )


def _run_forests(result: TrainResult, chosen: RunResult | None) -> list[dict[str, Any]]:
    numbers = words.arm_numbers(result.runs)
    several = len(numbers) < len(result.runs)
    out = []
    for split, tables in ((result.decision.split, [run.dev for run in result.runs]), ("test", [run.metrics for run in result.runs])):
        rows = [
            ForestRow(
                name=f"{run.name} ({run.similarity})" if several else run.name,
                interval=table[MAIN_METRIC],
                number=numbers[run.name],
                mark="chosen" if run is chosen else "",
            )
            for run, table in zip(result.runs, tables, strict=True)
            if MAIN_METRIC in table
        ]
        title = f"{words.metric_name(MAIN_METRIC)} on {split}"
        if svg := forest(rows, title=title):
            out.append({"svg": markup(svg), "title": title, "caption": "Dot: mean. Bar: interval."})
    return out


def _comparisons(result: TrainResult) -> list[dict[str, Any]]:
    """Paired comparisons by split; the figure holds the ranking metrics, which share one scale."""
    groups = []
    for split in dict.fromkeys(row.split for row in result.comparisons):
        rows = [row for row in result.comparisons if row.split == split]
        drawn = [row for row in rows if row.metric in METRICS]
        baselines = {row.baseline for row in drawn}
        common = baselines.pop() if len(baselines) == 1 else None
        title = f"Paired differences on {split}" + (f" to {common}" if common else "")
        svg = forest([_difference_row(row, named=common is None) for row in drawn], title=title, zero=True)
        views = [_comparison_view(row) for row in rows]
        groups.append({"split": split, "decided": split == result.decision.split, "common": common, "svg": markup(svg), "rows": views})
    return groups


def _difference_row(row: Comparison, *, named: bool) -> ForestRow:
    name = f"{row.candidate} − {row.baseline}" if named else row.candidate
    return ForestRow(name=name, interval=row.difference, mark="" if row.metric == MAIN_METRIC else words.metric_name(row.metric))


def _comparison_view(row: Comparison) -> dict[str, str]:
    mean, _, rest = interval_words(row.difference, signed=True).partition(" ")
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
    for key in glossary.curve_order(plots.curve_keys(runs)):
        title, caption = glossary.curve_words(key)
        if glossary.is_main_curve(key) is main and (svg := plots.curve_figure(runs, key, title=title)):
            out.append({"svg": markup(svg), "title": title, "caption": caption})
    return out


def _vector_views(result: TrainResult, chosen: RunResult | None) -> dict[str, Any]:
    figures = result.figures
    drawn = (
        ("Norms", "Lengths of the raw vectors of queries and candidates, as a share of each.", plots.norm_histogram(figures)),
        (
            "Directions",
            "Unit vectors on their first two principal components, colored by the percentile of the norm.",
            plots.direction_scatter(figures),
        ),
        (
            "Random pairs",
            "Cosine of random query-candidate pairs. Far right of 0, all directions crowd together.",
            plots.pair_histogram(figures),
        ),
    )
    who = f"The vectors of “{chosen.name}”, the run that is saved." if chosen else "The vectors of the saved model."
    return {
        "vectors": [{"title": title, "caption": caption, "svg": markup(svg)} for title, caption, svg in drawn if svg],
        "vectors_missing": ", ".join(title for title, _, svg in drawn if not svg).capitalize(),
        "vectors_lead": f"{who} Norms are read before any normalization.",
    }


def _gates(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Gates in order of appearance; what was found alike in several places is listed once, with all of them."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for stage in run.stages:
            for gate in stage.gates:
                outcome, tone = glossary.gate_outcome(gate.name, passed=gate.passed)
                figures = ", ".join(f"{glossary.plain_name(key).lower()} {words.number(value)}" for key, value in gate.figures.items())
                view = {
                    "title": glossary.gate_title(gate.name),
                    "outcome": outcome,
                    "tone": tone,
                    "words": gate.words,
                    "figures": figures,
                    "where": {},
                }
                places = found.setdefault(gate.model_dump_json(), view)["where"]
                places.setdefault(stage.name, {})[run.name] = None
    for view in found.values():
        view["where"] = [f"{stage}: {', '.join(names)}" for stage, names in view["where"].items()]
    return list(found.values())


def _share_stages(runs: Sequence[RunResult]) -> bool:
    return any(a.curve and a in other.stages for i, run in enumerate(runs) for a in run.stages for other in runs[i + 1 :])


def _stages(runs: Sequence[RunResult], views: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": view,
            "name": stage.name,
            "similarity": stage.similarity,
            "trainable": stage.trainable,
            "temperature": words.number(stage.temperature),
            "steps": f"{stage.steps:,}",
            "time": words.duration(stage.seconds),
        }
        for run, view in zip(runs, views, strict=True)
        for stage in run.stages
    ]


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
        return f"Plain sentence-transformers scores this model with {plain}, as decided above."
    return (
        f"The decision is {similarity.value}; plain sentence-transformers has no such name and scores with {plain}, "
        "which ranks the candidates of every query the same way."
    )
