"""`normwise calibrate`: its arguments, its one workflow call, and what a person sees of the result on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_rows, stdout_console
from normwise.cli_two_files import TwoFilesCommand
from normwise.core.errors import InputError

if TYPE_CHECKING:
    from normwise.core.calibration_records import CalibrationReport, CalibratorRow, SignalRow
    from normwise.core.records import Record
    from normwise.report.hits_view import DirectionsReport

_EXAMPLE = (
    "Example: normwise calibrate --model runs/demo/model --data my-beir-folder --precision 0.95\n\n"
    "Of an index: normwise calibrate --model runs/demo/model --data my-beir-folder --index my-index --out my-index/calibration.json\n\n"
    "Queries without a relevant candidate take part as unanswerable: an empty relevance, or no_answer in queries.jsonl."
)
_METRICS = ("ece", "brier", "nll", "auroc", "aurc", "e_aurc", "nauc")


def mount(app: typer.Typer) -> None:
    """Add the command `calibrate` to an app."""
    app.command("calibrate", cls=TwoFilesCommand, epilog=_EXAMPLE)(calibrate)


def calibrate(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Judged queries: a built-in set, a BEIR folder, a file of named columns or a training config."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="A saved model, a sentence-transformers folder or a hub id.")] = None,
    vectors: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--vectors", metavar="Q.npy D.npy", help="Bare vectors in place of a model: rows of queries.jsonl and corpus.jsonl."),
    ] = None,
    similarity: Annotated[str | None, typer.Option("--similarity", help="Of --vectors; a model brings its own.")] = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", help="Of the training loss, for a model that does not say it.", show_default="the model's own"),
    ] = None,
    precision: Annotated[float, typer.Option("--precision", help="What the threshold is to guarantee.")] = 0.95,
    confidence: Annotated[float, typer.Option("--confidence", help="How certain the guarantee is to be.")] = 0.9,
    signals: Annotated[str, typer.Option("--signals", help="auto runs the bake-off; or names of signals, separated by commas.")] = "auto",
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", min=1, help="How many hits per query a calibrator may read.", show_default="all of 1,000 or fewer, else 100"
        ),
    ] = None,
    unanswerable: Annotated[
        float | None,
        typer.Option("--unanswerable", metavar="SHARE", help="Hide their answers from this share of the queries.", show_default="none"),
    ] = None,
    index: Annotated[
        Path | None, typer.Option("--index", help="Calibrate on what this index returns.", show_default="exact search")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Address of the server of --index, where it has a password.", show_default="as built")
    ] = None,
    limit_queries: Annotated[
        int | None, typer.Option("--limit-queries", min=2, help="At most so many queries of each split.", show_default="all")
    ] = None,
    limit_candidates: Annotated[
        int | None,
        typer.Option(
            "--limit-candidates", min=2, help="At most so many candidates: a trial, which no whole index matches.", show_default="all"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.json", help="Where the calibration goes.", show_default="beside a model folder, else in --index"
        ),
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Write no calibration and touch no model card.")] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Also write a page.", show_default="none")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier page at --report.")] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model: read it first.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Say which score is good enough: fit a probability, find the threshold for a precision, or say that none exists.

    Of a set with pictures each direction, such as text -> image, gets a calibration of its own.
    """
    shared: dict[str, Any] = {
        "temperature": temperature,
        "precision": precision,
        "confidence": confidence,
        "depth": depth,
        "signals": signals,
        "unanswerable": unanswerable,
        "limit_queries": limit_queries,
        "limit_candidates": limit_candidates,
        "index": index,
        "url": url,
        "seed": seed,
        "out": out,
        "save": not no_save,
        "report": report,
        "overwrite": overwrite,
    }

    def work() -> Record:
        if overwrite and report is None:
            raise InputError("--overwrite replaces an earlier page at --report: give one, or leave it out")
        if data is None:
            raise InputError("calibrate needs --data with judged queries: a built-in set, a BEIR folder or a file of named columns")
        if vectors is None:
            found = _of_model(model, data, similarity, shared | {"trust_remote_code": trust_remote_code})
        elif model is not None:
            raise InputError("--vectors calibrates bare vectors: leave --model out, or leave --vectors out")
        else:
            found = _of_vectors(vectors, data, similarity, shared)
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_calibration, as_json=as_json)


def _of_vectors(
    vectors: tuple[Path, Path], data: str, similarity: str | None, shared: dict[str, Any]
) -> CalibrationReport | DirectionsReport:
    if similarity is None:
        raise InputError("--vectors needs --similarity: cosine, dot, query_normalized or candidate_normalized, as they are to be scored")
    from normwise.workflows.calibrate import calibrate_vectors

    return calibrate_vectors(*vectors, data, similarity=similarity, **shared)


def _of_model(model: str | None, data: str, similarity: str | None, settings: dict[str, Any]) -> CalibrationReport | DirectionsReport:
    if model is None:
        raise InputError("calibrate needs --model, or --vectors QUERIES.npy CANDIDATES.npy with --similarity")
    if similarity is not None:
        raise InputError("--similarity belongs to --vectors: a model brings its own; leave it out")
    from normwise.workflows.calibrate import calibrate

    return calibrate(model, data, progress=sys.stderr.isatty(), **settings)


def show_calibration(report: CalibrationReport | DirectionsReport) -> None:
    """Show the verdict first, then threshold, what the norm added, the bake-off and the signals; of each direction by itself."""
    from normwise.report.hits_view import DirectionReport, DirectionsReport

    console = stdout_console()
    if isinstance(report, DirectionsReport):
        for name, each in report.directions.items():
            _show_part(each, name=name)
        for name, why in report.refused.items():
            console.print(f"{name}: no calibration: {why}")
    else:
        _show_part(report, name=report.name if isinstance(report, DirectionReport) else "")
    if report.calibration is not None:
        console.print(f"calibration: {report.calibration}")
    if report.report is not None:
        console.print(f"report: {report.report}")


def _show_part(report: CalibrationReport, *, name: str) -> None:
    console = stdout_console()
    told = f", {name}" if name else ""
    console.print(f"{report.model} on {report.data}{told}: {report.verdict.label.replace('-', ' ')}")
    console.print(report.verdict.text)
    if (found := report.threshold) is not None:
        inert = f"; inert: it {found.inert}" if found.inert else ""
        console.print(f"threshold: probability {found.probability:.4g}, which answers {found.coverage:.1%} of test queries{inert}")
    console.print(f"what the norm added: {report.norm_gain.words}")
    counts = report.queries
    console.print(
        f"queries: {counts.fit:,} fit ({counts.fit_right:,} right), {counts.test:,} test ({counts.test_right:,} right), "
        f"{counts.unanswerable:,} of all unanswerable; scores by {report.similarity}"
    )
    show_rows(
        f"bake-off on test queries: * {report.chosen} is chosen, - cannot be; high auroc and nauc are good, all else should be low",
        [_calibrator(row, chosen=row.name == report.chosen) for row in report.calibrators],
    )
    show_rows("signals alone: AUROC, 0.5 tells nothing", [_signal(row) for row in report.signals])


def _calibrator(row: CalibratorRow, *, chosen: bool) -> dict[str, Any]:
    # Two figures with their intervals: with those of all, no terminal holds a row in one line.
    spans = ("auroc", "e_aurc")
    return {
        "": "*" if chosen else "" if row.eligible else "-",
        "calibrator": row.name,
        **{metric: _span(row, metric) if metric in spans else _figure(getattr(row, metric)) for metric in _METRICS},
    }


def _span(row: CalibratorRow, metric: str) -> str:
    ends = row.intervals.get(metric)
    return _interval(getattr(row, metric), *((None, None) if ends is None else (ends.ci_low, ends.ci_high)))


def _signal(row: SignalRow) -> dict[str, Any]:
    return {"signal": row.name, "auroc [95%]": _interval(row.auroc, row.ci_low, row.ci_high)}


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    return _figure(value) if value is None or low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
