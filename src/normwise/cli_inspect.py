"""`normwise inspect`: its arguments, its one workflow call, and what a person sees of the result on a terminal."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_record, show_rows, stdout_console
from normwise.core.errors import InputError

if TYPE_CHECKING:
    from normwise.core.inspect_records import InspectReport, RecoveryResult
    from normwise.core.norm_records import FactorAssociation, TrainingEvidence
    from normwise.core.records import Record

_EXAMPLE = (
    "Names of factors say what they are read as: tokens, n_words, doc_length (length); frequency, freq, count, popularity, views, "
    "clicks, num_visits, rating_count (frequency); specificity, idf, depth, hyponyms, senses (specificity); uncertainty, entropy, "
    "perplexity, ratings_sd, residual, correct (uncertainty). Whole words count, log_ before them does not.\n\n"
    "Example: normwise inspect vectors.npy --factors factors.csv"
)
_TRAINING = {
    "optimizer": "--optimizer",
    "similarity": "--trained-with",
    "learning_rate": "--learning-rate",
    "weight_decay": "--weight-decay",
    "beta2": "--beta2",
    "lazy": "--lazy/--dense",
    "steps": "--steps",
}
_QUANTILES = ("0", "0.01", "0.25", "0.5", "0.75", "0.99", "1")
_GEOMETRY = ("mean_cosine", "effective_rank", "hubness", "norm_hubs_dot", "norm_hubs_cosine", "hub_share_dot", "hub_share_cosine")


def mount(app: typer.Typer) -> None:
    """Add the command `inspect` to an app."""
    app.command("inspect", epilog=_EXAMPLE)(inspect_norms)


def inspect_norms(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="A model (folder or hub id), a .npy or .parquet file of vectors, or a .safetensors checkpoint.")
    ],
    texts: Annotated[
        Path | None, typer.Option("--texts", help="Texts of the vectors (or for the model): one per line, or jsonl, csv, parquet.")
    ] = None,
    text_column: Annotated[str | None, typer.Option("--text-column", help="Which column of --texts.")] = None,
    factors: Annotated[
        Path | None, typer.Option("--factors", help="A csv of named columns, one row per vector: what the norm may follow.")
    ] = None,
    column: Annotated[str | None, typer.Option("--column", help="Which column of a parquet file holds the vectors.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME|auto", help="Inspect a checkpoint's embedding table in place of texts.")
    ] = None,
    language: Annotated[str, typer.Option("--language", help="Whose word frequencies.")] = "en",
    limit: Annotated[int, typer.Option("--limit", min=2, help="At most so many texts are encoded.")] = 4_000,
    optimizer: Annotated[str | None, typer.Option("--optimizer", help="What trained the model: sgd, adam or adamw.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="Of that training.")] = None,
    weight_decay: Annotated[float | None, typer.Option("--weight-decay", help="Of that training.")] = None,
    beta2: Annotated[float | None, typer.Option("--beta2", help="Of Adam.")] = None,
    lazy: Annotated[bool | None, typer.Option("--lazy/--dense", help="Whether decay and moments moved visited rows only.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Of that training.")] = None,
    trained_with: Annotated[str | None, typer.Option("--trained-with", help="cosine or dot: the similarity in its loss.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Judged queries for a model: do its norms help to rank, or to trust a hit? With pictures: norms of each modality.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="Vectors of another modality by the same model: gap, ellipsoids, norms of both."),
    ] = None,
    against_factors: Annotated[Path | None, typer.Option("--against-factors", help="As --factors, of the rows of --against.")] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Row i of both files belongs together.")] = False,
    limit_queries: Annotated[int | None, typer.Option("--limit-queries", min=2, help="At most so many queries of --data.")] = None,
    limit_candidates: Annotated[int | None, typer.Option("--limit-candidates", min=2, help="At most so many candidates of --data.")] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Also write a page.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model: read it first.")
    ] = False,
    recover_norms: Annotated[
        str | None,
        typer.Option("--recover-norms", metavar="MODEL", help="Give the raw norms of unit vectors back, by the model that made them."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="NORMS.npy", help="Where --recover-norms writes.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands at --report or --out.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every sample and of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Say what the norms of vectors follow and whether they can be trusted, "no" included; or give lost norms back."""
    trained = {
        "optimizer": optimizer,
        "similarity": trained_with,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "beta2": beta2,
        "lazy": lazy,
        "steps": steps,
    }
    settings = {
        "--texts": texts,
        "--text-column": text_column,
        "--factors": factors,
        "--table": table,
        **{_TRAINING[name]: value for name, value in trained.items()},
        "--data": data,
        "--against": against,
        "--against-factors": against_factors,
        "--paired": paired or None,
        "--report": report,
    }

    def work() -> Record:
        if recover_norms is not None:
            return _recovered(source, recover_norms, out, settings, column=column, overwrite=overwrite, trust_remote_code=trust_remote_code)
        if out is not None:
            raise InputError("--out belongs to --recover-norms MODEL: give a model, or leave it out")
        if overwrite and report is None:
            raise InputError("--overwrite replaces what stands at --report or --out: give one of them, or leave it out")
        training = training_evidence(**trained)
        from normwise.workflows.inspect import inspect as run

        return run(
            source,
            texts=texts,
            factors=factors,
            column=column,
            table=table,
            text_column=text_column,
            training=training,
            data=data,
            against=against,
            against_factors=against_factors,
            paired=paired,
            limit_queries=limit_queries,
            limit_candidates=limit_candidates,
            language=language,
            limit=limit,
            progress=sys.stderr.isatty(),
            seed=seed,
            trust_remote_code=trust_remote_code,
            report=report,
            overwrite=overwrite,
            command=shlex.join(["normwise", *sys.argv[1:]]),
        )

    cli_work.do(context, work, show_recovery if recover_norms is not None else show_inspection, as_json=as_json)


def training_evidence(**given: Any) -> TrainingEvidence | None:
    """The optimizer's settings as evidence; None where nothing was said.

    Args:
        given: fields of `TrainingEvidence` that an option sets (`_TRAINING`); None for what was not said.

    Raises:
        InputError: an unknown optimizer or similarity, a setting out of its range, or a setting without the optimizer it belongs to.

    Example:
        >>> training_evidence() is None
        True
    """
    from normwise.cli_options import built
    from normwise.core.norm_records import TrainingEvidence

    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        return None
    of_optimizer = [_TRAINING[name] for name in said if name not in ("optimizer", "similarity")]
    if "optimizer" not in said and of_optimizer:
        raise InputError(f"{', '.join(of_optimizer)} without --optimizer: name sgd, adam or adamw")
    if "beta2" in said and said.get("optimizer") == "sgd":
        raise InputError("--beta2 is of adam and adamw, and the optimizer is sgd: leave it out")
    for name, value in said.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{_TRAINING[name]} is {value}; expected a finite number")
    return built(TrainingEvidence, said, options=_TRAINING, source="inspect")


def show_inspection(report: InspectReport) -> None:
    """Show the verdict first, then distribution, factors, geometry, evidence, modalities and notes."""
    from normwise.report.modality_words import modality_lines

    console = stdout_console()
    what = f" ({report.modality})" if report.modality and report.modality != report.source else ""
    console.print(f"{report.source}{what}: {report.n:,} vectors of {report.d} dimensions, {report.stored}")
    console.print(f"verdict: {report.verdict.label}. {report.verdict.text}")
    console.print(f"regime: {report.regime} ({'; '.join(report.evidence)})")
    norm = report.norm
    if norm.mean is not None:
        quantiles = ", ".join(f"{float(level):.0%} {norm.quantiles[level]:.4g}" for level in _QUANTILES if level in norm.quantiles)
        console.print(f"norm: mean {norm.mean:.4g}, cv {norm.cv:.3g}, std of log {norm.std_log:.3g}; {quantiles}")
    if report.norm_after_normalize is not None and report.norm_after_normalize.mean is not None:
        console.print(f"norm after the model's Normalize module: {report.norm_after_normalize.mean:.4g} for all")
    if report.radial_freedom is not None:
        console.print(f"radial freedom: {report.radial_freedom:.3g} (share of the norm that the direction does not tell)")
    if report.factors:
        show_rows(f"factors, on {report.factor_rows:,} rows", [_factor_row(factor) for factor in report.factors])
    geometry = {name: report.geometry.get(name) for name in _GEOMETRY}
    shown = [_figure(name, value, report.geometry.get(f"{name}_error")) for name, value in geometry.items() if value is not None]
    if shown:
        console.print(f"on a sample of {report.sample_rows:,} rows (seed {report.seed}), with standard errors: {', '.join(shown)}")
    if (found := report.usefulness) is not None:
        console.print(f"judged queries ({found.data}, {found.split}): does the norm help to rank? {found.reranking.words}")
        console.print(
            f"judged queries ({found.data}, {found.split}): does it tell right top hits from wrong ones? {found.confidence.words}"
        )
    for line in modality_lines(report):
        console.print(line)
    for note in report.notes:
        console.print(f"note: {note}")
    for recipe in report.raw_norms:
        console.print(f"raw norms, {recipe}")


def show_recovery(result: RecoveryResult) -> None:
    """Show what was recovered, where it is and how exact it is."""
    show_record(f"Norms of {result.source}", result)


def _recovered(
    source: str,
    model: str,
    out: Path | None,
    settings: dict[str, Any],
    *,
    column: str | None,
    overwrite: bool,
    trust_remote_code: bool,
) -> RecoveryResult:
    idle = [name for name, value in settings.items() if value is not None]
    if idle:
        raise InputError(
            f"{', '.join(idle)} say nothing to --recover-norms, which only writes norms: leave them out, and inspect afterwards"
        )
    if out is None:
        raise InputError("--recover-norms needs --out NORMS.npy to write to")
    from normwise.workflows.inspect import recover

    return recover(source, model, out, column=column, overwrite=overwrite, trust_remote_code=trust_remote_code)


def _factor_row(factor: FactorAssociation) -> dict[str, Any]:
    partial = "undefined"
    if factor.partial_spearman is not None and factor.ci_low is not None and factor.ci_high is not None:
        partial = f"{factor.partial_spearman:+.3f} [{factor.ci_low:+.3f}, {factor.ci_high:+.3f}]"
    return {
        "factor": factor.name,
        "kind": factor.kind,
        "spearman": factor.spearman,
        "partial [95%]": partial,
        "p adjusted": factor.p_adjusted,
        "held": ", ".join(factor.controls) or "none",
        "note": factor.note,
    }


def _figure(name: str, value: float, error: float | None) -> str:
    return f"{name} {value:.3g}" + ("" if error is None else f" ± {error:.1g}")
