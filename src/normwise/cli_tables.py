"""What people see of a result on a terminal: tables of rich, one function per kind of result."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from normwise.core.records import Evaluation, Interval, MetricTable, Record, TrainResult
    from normwise.core.search_records import Hit
    from normwise.workflows.search_result import SearchResult

_PLAIN_WIDTH = 160
_NO_LIMIT = 10**6
_SHOWN = 80
# More queries than these share one head line: a frame around each is more frame than hits.
_FEW_QUERIES = 5
# Longer cells do not make a column wide for all; a text that has less room than this gets a line of its own.
_WIDEST, _LEAST_TEXT, _MARGIN = 32, 24, "  "
# Of format characters those that letters and emoji are joined with; the others turn the direction of text, or hide.
_JOINERS = frozenset({"\u200c", "\u200d"})


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
    for task, tables in result.by_task.items():
        _show_metrics(console, f"task {task or '(none)'}", list(tables.items()))
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
    for task in result.runs[0].by_task if result.runs else ():
        _show_metrics(console, f"task {task or '(none)'}", [(f"{run.name} ({run.similarity})", run.by_task[task]) for run in result.runs])
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


def show_hits(result: SearchResult) -> None:
    """Show the hits of each query, and what holds for all queries once, at the end."""
    if len(result) <= _FEW_QUERIES:
        _show_in_tables(result)
    else:
        _show_in_lines(result)
    if result.verdict and len(result):
        stdout_console().print(f"verdict: {result.verdict}")


def verdict_line(hits: Sequence[Hit], *, once: str = "") -> str:
    """What the first hit of a query comes to: an answer, none, or hits that nobody has calibrated.

    Args:
        hits: of one query.
        once: what is told elsewhere, for all queries, and left out here.

    Example:
        >>> verdict_line([])
        "I don't know: nothing was found"
    """
    if not hits:
        return "I don't know: nothing was found"
    first = hits[0]
    known = "" if first.probability is None else f" (probability {first.probability:.3g})"
    reason = _without(first.reason, once)
    if first.abstain:
        return f"I don't know{known}: {reason}"
    return f"answer{known}: {reason}" if known else reason


def _show_in_tables(result: SearchResult) -> None:
    """A table per query, and what its first hit comes to above it."""
    console = stdout_console()
    for row in range(len(result)):
        hits = result.hits(row)
        console.print(_query_line(result, row))
        console.print(verdict_line(hits, once=result.why_not_calibrated))
        if hits:
            show_rows("", _hit_rows(hits))


def _show_in_lines(result: SearchResult) -> None:
    """One head line, then a line per query and per hit, and each reason once: for many queries."""
    console, hits = stdout_console(), result.all_hits()
    rows = _hit_rows(hits)
    cells = [[_named_text(name, value) for name, value in row.items()] for row in rows]
    head = list(rows[0]) if rows else []
    lines = iter(_aligned([head, *cells], with_text="text" in head, width=console.width))
    shown = [next(lines)] if rows else []
    for row in range(len(result)):
        shown.append(_query_line(result, row))
        shown += islice(lines, int(result.counts[row])) if result.counts[row] else [verdict_line([])]
    trust = [each[head.index("trust")] for each in cells]
    reasons = dict.fromkeys((word, _without(hit.reason, result.why_not_calibrated)) for word, hit in zip(trust, hits, strict=True))
    for line in (*shown, *(f"trust {word}: {reason}" for word, reason in reasons)):
        console.print(line, soft_wrap=True)


def _aligned(rows: Sequence[Sequence[str]], *, with_text: bool, width: int) -> list[str]:
    """Rows as lines whose cells stand below each other; a text at the end gets what room is left, or a line of its own."""
    from rich.cells import cell_len

    fixed = [row[:-1] if with_text else row for row in rows]
    widths = [min(_WIDEST, max(map(cell_len, column))) for column in zip(*fixed, strict=True)]
    room = width - len(_MARGIN) - sum(widths) - 2 * len(widths)
    lines = []
    for row, cells in zip(rows, fixed, strict=True):
        line = _MARGIN + "  ".join(cell + " " * (size - cell_len(cell)) for cell, size in zip(cells, widths, strict=True))
        if with_text:
            line += f"  {_cut(row[-1], room)}" if room >= _LEAST_TEXT else f"\n{2 * _MARGIN}{_cut(row[-1], width - 2 * len(_MARGIN))}"
        lines.append("\n".join(each.rstrip() for each in line.splitlines()))
    return lines


def _cut(text: str, room: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= room else f"{set_cell_size(text, max(room - 3, 0)).rstrip()}..."


def _query_line(result: SearchResult, row: int) -> str:
    asked = result.query(row)
    return f"query: {_plain(asked)}" if isinstance(asked, str) else f"query {asked}"


def _without(reason: str, once: str) -> str:
    """A reason without what is told once elsewhere."""
    return reason.removesuffix(f": {once}") if once else reason


def _hit_rows(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """The cells of hits, the same columns for all of them: the first row of a table names its columns."""
    with_text = any(hit.text is not None for hit in hits)
    return [_hit_row(hit, with_text=with_text) for hit in hits]


def _hit_row(hit: Hit, *, with_text: bool) -> dict[str, Any]:
    unknown = hit.probability is None
    row: dict[str, Any] = {"rank": hit.rank, "id": _plain(hit.id), "score": hit.score, "norm": hit.norm}
    row["probability"] = "–" if unknown else hit.probability
    row["trust"] = "unknown" if unknown and not hit.abstain else not hit.abstain
    if with_text:
        line = _plain(hit.text or "")
        row["text"] = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
    return row


def _plain(text: str) -> str:
    """The text on one line, with U+FFFD for what a terminal would obey rather than show."""
    line = " ".join(text.split())
    return "".join("\ufffd" if unicodedata.category(letter) in ("Cc", "Cf") and letter not in _JOINERS else letter for letter in line)


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
