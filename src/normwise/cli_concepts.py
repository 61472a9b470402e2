"""`normwise simulate concepts`: the founding experiment, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_tables, cli_work
from normwise.core.errors import InputError, near_names

if TYPE_CHECKING:
    from normwise.core.records import Record

_ENCODERS = ("table", "deep", "both")
_OPTIONS = {"parts": "--part", "optimizers": "--optimizer", "seeds": "--seeds", "quick": "--quick"}


def mount(app: typer.Typer) -> None:
    """Add the command to `normwise simulate`."""
    app.command("concepts", epilog="Example: normwise simulate concepts --quick --encoder table")(concepts)


def concepts(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of every part; its figures mean nothing.")] = False,
    encoder: Annotated[str, typer.Option("--encoder", help="table (free vectors), deep (encoders) or both.")] = "both",
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="table, human-table, deep, wordnet or human-encoder; repeatable, in place of --encoder."),
    ] = None,
    optimizer: Annotated[list[str] | None, typer.Option("--optimizer", help="sgd, sgd-decay or adamw; repeatable (all three).")] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Seeds of each run (5; with --quick 1). Fewer than 5 decide nothing.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Keep runs as they are done, and result.json.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Test whether norms follow concepts as the dynamics law says: general or specific, frequent or rare, agreed on or not."""

    def work() -> Record:
        from normwise.cli_options import built
        from normwise.workflows.concept_cells import DEEP_PARTS, TABLE_PARTS, ConceptConfig
        from normwise.workflows.concepts import simulate_concepts

        if encoder not in _ENCODERS:
            raise InputError(f"--encoder {encoder!r} is unknown: {near_names(encoder, _ENCODERS)}")
        by_encoder = {"table": TABLE_PARTS, "deep": DEEP_PARTS, "both": (*TABLE_PARTS, *DEEP_PARTS)}
        values: dict[str, Any] = {"parts": tuple(part) if part else by_encoder[encoder], "quick": quick}
        if optimizer:
            values["optimizers"] = tuple(optimizer)
        values["seeds"] = seeds if seeds is not None else (1 if quick else 5)
        return simulate_concepts(
            built(ConceptConfig, values, options=_OPTIONS, source="simulate concepts"),
            out=out,
            resume=resume,
            overwrite=overwrite,
            command=cli_work.command_line("simulate", "concepts", *_arguments(values, encoder if not part else None)),
            log=cli_work.LOG.info,
        )

    cli_work.do(context, work, _show, as_json=as_json)


def _arguments(values: dict[str, Any], encoder: str | None) -> list[str]:
    found = ["--quick"] if values["quick"] else []
    found += ["--encoder", encoder] if encoder else [word for name in values["parts"] for word in ("--part", name)]
    found += [word for name in values.get("optimizers", ()) for word in ("--optimizer", name)]
    return [*found, "--seeds", str(values["seeds"])]


def _show(result: Any) -> None:
    rows = [
        {
            "part": claim.part,
            "optimizer": claim.optimizer,
            "setting": claim.variant,
            "claim": claim.name,
            "figure": f"{claim.figure} > {claim.threshold:g}",
            "mean": claim.interval.mean,
            "low": claim.interval.ci_low,
            "high": claim.interval.ci_high,
            "outcome": claim.outcome,
        }
        for claim in result.claims
    ]
    cli_tables.show_rows("Claims, over seeds", rows)
    for note in result.notes:
        cli_tables.stdout_console().print(f"note: {note}")
