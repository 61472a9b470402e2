"""What people see of a result on a terminal: tables of rich, one function per kind of result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from normwise.core.records import Evaluation, Interval, MetricTable, Record, TrainResult

_PLAIN_WIDTH = 160
_NO_LIMIT = 10**6


def stdout_console() -> Console:
    """A console on stdout that takes every text literally; wide where nobody's terminal sets the width."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, emoji=False, width=_PLAIN_WIDTH)


def show_evaluation(result: Evaluation) -> None:
    """Show the metrics under every similarity with their intervals, the geometry, the notes and the decision."""
    console = stdout_console()
    console.print(f"{result.model} on {result.data} ({result.split})")
    console.print(f"{result.queries} queries in {result.clusters} clusters, {result.candidates} candidates")
    _show_metrics(console, "similarity", list(result.similarities.items()))
    if result.one_query_per_candidate:
        _show_metrics(console, "one query per candidate", list(result.one_query_per_candidate.items()))
    if result.geometry:
        _show_pairs(console, "geometry", result.geometry)
    for note in result.notes:
        console.print(f"note: {note}")
    if result.decision is not None:
        console.print(f"decision: {result.decision.similarity}. {result.decision.reason}")


def show_training(result: TrainResult) -> None:
    """Show every run with its intervals, the paired comparisons, the claims, the decision and where things are."""
    console = stdout_console()
    console.print(f"data: {result.data}")
    for warning in result.warnings:
        console.print(f"WARNING: {warning}")
    for note in result.data_notes:
        console.print(f"note: {note}")
    _show_metrics(console, "run", [(f"{run.name} ({run.similarity})", run.metrics) for run in result.runs])
    alike = [(f"{run.name} ({run.similarity})", run.one_query_per_candidate) for run in result.runs if run.one_query_per_candidate]
    if alike:
        _show_metrics(console, "one query per candidate", alike)
    for comparison in result.comparisons:
        console.print(
            f"{comparison.candidate} against {comparison.baseline}, {comparison.metric} on {comparison.split}: "
            f"{_interval(comparison.difference)} at level {comparison.level:.3g}: {comparison.words}"
        )
    for claim, outcome in result.claims.items():
        console.print(f"claim {claim}: {outcome}")
    decision = result.decision
    console.print(f"decision (on {decision.split}): {decision.run or 'the run'} with {decision.similarity}. {decision.reason}")
    console.print(f"model:  {result.model}")
    console.print(f"report: {result.report or 'not written'}")
    console.print(f"{result.seconds:.0f} seconds")


def show_record(title: str, record: Record) -> None:
    """Show any record: names and values, nested ones by dotted name, and a list of records as a table of its own."""
    values = record.model_dump(mode="json", by_alias=True)
    tables = {
        name: rows for name, rows in values.items() if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows)
    }
    pairs = dict(_flat({name: value for name, value in values.items() if name not in tables}))
    _show_pairs(stdout_console(), title, {name: _named_text(name, value) for name, value in pairs.items()})
    for name, rows in tables.items():
        show_rows(name, rows)


def show_rows(title: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Show rows that share their keys as one table."""
    from rich.table import Table

    rows = list(rows)
    table = Table(title=title, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_named_text(name, value) for name, value in row.items()))
    stdout_console().print(table)


def _show_metrics(console: Console, first_column: str, rows: list[tuple[str, MetricTable]]) -> None:
    """One row per run and one column per metric where that fits, else one row per figure: no name and no figure is cut."""
    metrics = list(dict.fromkeys(metric for _, table in rows for metric in table))
    wide = _whole_cells(first_column, *metrics)
    for name, values in rows:
        wide.add_row(name, *(_interval(values[metric]) if metric in values else "" for metric in metrics))
    if _needed(console, wide) <= console.width or not console.is_terminal:
        _print_whole(console, wide)
        return
    long = _whole_cells(first_column, "metric", "figure")
    for name, values in rows:
        for metric, value in values.items():
            long.add_row(name, metric, _interval(value))
    _print_whole(console, long)


def _whole_cells(*columns: str) -> Table:
    from rich.table import Table

    table = Table(caption="mean [95% interval over clusters]", caption_justify="left")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _needed(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update_width(_NO_LIMIT)).maximum


def _print_whole(console: Console, table: Table) -> None:
    """Print a table at the width it needs, on however narrow a console."""
    console.width = max(console.width, _needed(console, table))
    console.print(table)


def _show_pairs(console: Console, title: str, pairs: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, _text(value))
    console.print(table)


def _flat(value: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


def _interval(value: Interval) -> str:
    if value.mean is None:
        return "undefined"
    if value.ci_low is None or value.ci_high is None:
        return f"{value.mean:.3f}"
    return f"{value.mean:.3f} [{value.ci_low:.3f}, {value.ci_high:.3f}]"


def _named_text(name: str, value: Any) -> str:
    """A value as text; a number of bytes, known by its name, in the unit that people read."""
    if not name.endswith("_bytes") or not isinstance(value, int):
        return _text(value)
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def _text(value: Any) -> str:
    if value is None:
        return "undefined"
    if value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ("\n" if any(isinstance(item, str) and " " in item for item in value) else ", ").join(_text(item) for item in value)
    return str(value)
