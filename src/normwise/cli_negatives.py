"""`normwise negatives`: how many negatives, which temperature."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_rows, stdout_console
from normwise.core.errors import InputError

if TYPE_CHECKING:
    from normwise.core.negatives_records import NegativesReport
    from normwise.core.records import Record

_EXAMPLE = (
    "Example: normwise negatives queries.npy positives.npy --pool corpus.npy --similarity cosine --temperature 0.05\n\n"
    "Of a model: normwise negatives --model runs/demo/model --data my-beir-folder --candidates 1000000"
)


def mount(app: typer.Typer) -> None:
    """Add the command `negatives` to an app."""
    app.command("negatives", epilog=_EXAMPLE)(negatives)


def negatives(
    context: typer.Context,
    queries: Annotated[Path | None, typer.Argument(metavar="QUERIES.npy", help="Vectors of queries.", show_default=False)] = None,
    positives: Annotated[
        Path | None, typer.Argument(metavar="POSITIVES.npy", help="Row i is the positive of query i.", show_default=False)
    ] = None,
    pool: Annotated[
        Path | None,
        typer.Option("--pool", metavar="N.npy", help="What negatives are drawn from.", show_default="other queries' positives"),
    ] = None,
    similarity: Annotated[
        str | None, typer.Option("--similarity", help="How vectors are scored; a model brings its own.", show_default="asked for")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Of the training loss: 1 / scale.", show_default="a model's own, else asked for")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Negatives per query in training, which the advice is about.", show_default="256, or the pool")
    ] = None,
    candidates: Annotated[
        int | None, typer.Option("--candidates", metavar="M", help="Also the risk of a search over so many.", show_default="none")
    ] = None,
    temperatures: Annotated[
        str | None,
        typer.Option("--temperatures", metavar="T,T,...", help="To compare.", show_default="nine, a quarter to four times --temperature"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="In place of vectors: a saved model, a folder or a hub id.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Of --model: judged queries or pairs; their corpus is the pool.", show_default="none")
    ] = None,
    limit_queries: Annotated[int, typer.Option("--limit-queries", help="At most so many queries.")] = 10_000,
    limit_pool: Annotated[int, typer.Option("--limit-pool", help="At most so many of the pool.")] = 200_000,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Also write a page.", show_default="none")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier page at --report.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Say what more negatives and another temperature would do to the InfoNCE loss of your own vectors."""

    def work() -> Record:
        if overwrite and report is None:
            raise InputError("--overwrite replaces an earlier page at --report: give one, or leave it out")
        if model is None and data is not None:
            raise InputError("--data belongs to --model: bare vectors are QUERIES.npy POSITIVES.npy and --pool")
        asked = _numbers(temperatures)
        from normwise.workflows.negatives import advise_negatives

        found = advise_negatives(
            queries,
            positives,
            pool=pool,
            model=model,
            data=data,
            similarity=similarity,
            temperature=temperature,
            k=k,
            candidates=candidates,
            temperatures=asked,
            limit_queries=limit_queries,
            limit_pool=limit_pool,
            seed=seed,
            progress=sys.stderr.isatty(),
            report=report,
            overwrite=overwrite,
        )
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_negatives, as_json=as_json)


def show_negatives(report: NegativesReport) -> None:
    """Show the advice first, then the curve, the limit and the sweep."""
    console = stdout_console()
    console.print(report.advice)
    console.print(f"{report.source}: {report.queries:,} queries, {report.pool.size:,} in the pool ({report.pool.kind}), {_setting(report)}")
    show_rows("InfoNCE risk less log k, in nats: those of different k compare", [_curve_row(report, at) for at in range(len(report.k))])
    found = report.cross_entropy
    if found.estimate is not None:
        console.print(f"limit for k -> infinity (cross-entropy of a search): {_interval(found.estimate, (found.ci_low, found.ci_high))}")
    if report.search is not None and report.candidates is not None:
        words = "cannot be told"
        if report.search.estimate is not None:
            words = _interval(report.search.estimate, (report.search.ci_low, report.search.ci_high))
        console.print(f"risk of a search over {report.candidates:,} candidates: {words}")
    rows = [_sweep_row(row, own=row.temperature == report.temperature) for row in report.temperatures]
    recall = report.temperatures[0].recall_at_1
    title = f"temperatures (* yours), k = {report.sweep_k:,}, {report.sweep_queries:,} queries; recall@1 {recall:.3f} at each of them"
    show_rows(title, rows)
    bounds = report.bounds
    told = "they say nothing here (hardly better than the range of the scores)" if bounds.vacuous else "they hold for any vectors"
    console.print(f"proven bounds on limit less risk at k = {bounds.k:,}: {bounds.low:.4g} to {bounds.high:.4g}; {told}")
    wrong = report.false_negatives
    most = "cannot be bounded with so few queries" if wrong.at_most is None else f"{wrong.at_most:.2%} of negatives at most"
    console.print(f"positives among the negatives, by their scores: {most}; {wrong.above_own:.2%} score above the query's own positive")
    if report.report is not None:
        console.print(f"report: {report.report}")


def _setting(report: NegativesReport) -> str:
    return f"{report.similarity}, temperature {report.temperature:g} (scale {1.0 / report.temperature:.4g})"


def _curve_row(report: NegativesReport, at: int) -> dict[str, Any]:
    step = report.steps[at] if at < len(report.steps) else None
    return {
        "k": f"{report.k[at]:,}",
        "risk [95%]": _interval(report.risk[at], report.risk_ci[at]),
        "to the next k": "" if step is None or step.change is None else _interval(step.change, (step.ci_low, step.ci_high)),
        "effective negatives": f"{report.effective_negatives[at]:.4g}",
    }


def _sweep_row(row: Any, *, own: bool) -> dict[str, Any]:
    return {
        "": "*" if own else "",
        "temperature": f"{row.temperature:.4g}",
        "risk": f"{row.risk:.4f}",
        "limit [95%]": "cannot be told" if row.cross_entropy is None else _interval(row.cross_entropy, row.cross_entropy_ci),
        "against yours": "" if own or row.change is None else _interval(row.change, row.change_ci),
        "residual 10 50 90%": " ".join(f"{value:.2g}" for value in row.residuals),
        "effective negatives": f"{row.effective_negatives:.4g}",
    }


def _interval(value: float, span: tuple[float | None, float | None]) -> str:
    low, high = span
    return f"{value:.4f}" if low is None or high is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--temperatures {text!r}: expected numbers with commas between them, as in 0.02,0.05,0.1") from None
