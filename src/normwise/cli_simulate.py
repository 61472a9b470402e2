"""`normwise simulate`: the free table, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_tables, cli_work
from normwise.core.errors import InputError

if TYPE_CHECKING:
    from normwise.core.records import Record

simulate_app = typer.Typer(
    help="Simulate what norms become in training, and check the laws that predict them.",
    epilog="Example: normwise simulate norms --weight-decay 0.02",
    no_args_is_help=True,
)


@simulate_app.callback()
def _simulate() -> None:
    """Simulate what norms become in training, and check the laws that predict them."""


@simulate_app.command("norms", epilog="Example: normwise simulate norms --kappa 5,20,80 --zipf 0.5 --weight-decay 0.02")
def norms(
    context: typer.Context,
    items: Annotated[int | None, typer.Option("--items", help="Vectors of the table (1000).")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Optimizer steps (1000).")] = None,
    width: Annotated[int | None, typer.Option("--width", help="Dimensions (32).")] = None,
    optimizer: Annotated[str | None, typer.Option("--optimizer", help="sgd (the default), momentum, adam or adamw.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="0.1 unless given.")] = None,
    weight_decay: Annotated[float | None, typer.Option("--weight-decay", help="Decoupled decay; none unless given.")] = None,
    lazy: Annotated[bool, typer.Option("--lazy", help="Rows that a step does not visit stay as they are, decay included.")] = False,
    positives_per_item: Annotated[
        int | None, typer.Option("--positives-per-item", help="Positives of an item that one step averages over (1).")
    ] = None,
    kappa: Annotated[str | None, typer.Option("--kappa", help="Specificities, dealt out in turn (5,20,80,320,1280).")] = None,
    second_moment: Annotated[
        str | None, typer.Option("--second-moment", help="In place of InfoNCE, pure noise of these mean squares, dealt out in turn.")
    ] = None,
    visit_rate: Annotated[
        float | None, typer.Option("--visit-rate", help="Share of steps that visit the most frequent item (1.0).")
    ] = None,
    zipf: Annotated[float | None, typer.Option("--zipf", help="Visit rates fall as rank^-ZIPF (0: all alike).")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Temperature of InfoNCE (0.2).")] = None,
    negatives: Annotated[int | None, typer.Option("--negatives", help="Negatives of each positive (16).")] = None,
    start: Annotated[str | None, typer.Option("--start", help="random (the default), orthogonal or aligned.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of everything that is drawn (0).")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings: a .toml, .json or .yaml file; options go before it.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, as in momentum=0.95; repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.json", help="Also write the result to a file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Train a table of free vectors on InfoNCE, and compare each norm with what its optimizer's law makes of its measured gradients."""
    given = {
        "items": items,
        "steps": steps,
        "width": width,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "lazy": lazy or None,
        "positives_per_item": positives_per_item,
        "visit_rate": visit_rate,
        "zipf": zipf,
        "temperature": temperature,
        "negatives": negatives,
        "start": start,
        "seed": seed,
    }

    def work() -> Record:
        from normwise.cli_options import built, option_names
        from normwise.core.config_file import apply_overrides, read_config_file
        from normwise.workflows.simulate import SimulationConfig, simulate_norms

        said = {name: value for name, value in given.items() if value is not None}
        for option, text in (("kappa", kappa), ("second_moment", second_moment)):
            if text is not None:
                said[option] = _numbers(option, text)
        values = apply_overrides({} if config is None else read_config_file(config), settings or []) | said
        source = "simulate norms" if config is None else str(config)
        parsed = built(SimulationConfig, values, options=option_names(said), source=source)
        return simulate_norms(parsed, out=out, log=cli_work.LOG.info)

    cli_work.do(context, work, _show, as_json=as_json)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{option.replace('_', '-')} {text!r}: expected numbers with commas between them, as in 5,20,80") from None


def _show(result: Any) -> None:
    rows = [
        {
            name: value
            for name, value in group.model_dump(mode="json").items()
            if any(getattr(other, name) is not None for other in result.groups)
        }
        for group in result.groups
    ]
    cli_tables.show_rows("Norms, measured and predicted", rows)
    console = cli_tables.stdout_console()
    console.print(result.error_words)
    for words, value in (("R2 of log norm", result.r2_log_norm), ("Spearman", result.spearman)):
        console.print(f"{words}, predicted against measured over items: {'undefined' if value is None else f'{value:.3f}'}")
    if result.beyond_law:
        console.print(f"{result.beyond_law} of {len(result.items)} items are outside what the law is for: see the notes")
    for note in result.notes:
        console.print(f"note: {note}")
