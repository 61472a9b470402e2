"""`normwise staircase`: which orders of signatures embeddings learn, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_rows, stdout_console

if TYPE_CHECKING:
    from normwise.core.records import Record
    from normwise.core.staircase_records import PredictedStair, StaircaseReport

_ROWS = 13
_EXAMPLE = "Example: normwise staircase demo --task mod --modulus 20 --vocabulary 20"

staircase_app = typer.Typer(
    help="See token embeddings learn statistics order by order.",
    epilog=_EXAMPLE,
    no_args_is_help=True,
)


@staircase_app.callback()
def _staircase() -> None:
    """See token embeddings learn statistics order by order."""


@staircase_app.command("demo", epilog=_EXAMPLE)
def demo(
    context: typer.Context,
    task: Annotated[str, typer.Option("--task", help="mod, add or parity.")] = "mod",
    modulus: Annotated[
        int | None, typer.Option("--modulus", metavar="N", help="Of mod; of add, how many values there are.", show_default="20")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", metavar="V", help="Ids that there are.", show_default="81, parity 61")
    ] = None,
    gamma: Annotated[float, typer.Option("--gamma", help="Entries at init have standard deviation 128^-GAMMA.")] = 0.8,
    seeds: Annotated[int, typer.Option("--seeds", help="Networks, one seed each; a verdict needs 8 of 10.")] = 10,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Updates on the whole law.", show_default="600; parity with adam 200")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Of the optimizer.", show_default="1 with sgd, 0.001 with adam")
    ] = None,
    optimizer: Annotated[str | None, typer.Option("--optimizer", help="sgd or adam.", show_default="sgd, parity adam")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")] = False,
) -> None:
    """Train small networks on a task whose signatures are known, and say which orders their embeddings learn, and when."""

    def work() -> Record:
        from normwise.workflows.staircase_demo import staircase_demo

        found = staircase_demo(
            task,
            modulus=modulus,
            vocabulary=vocabulary,
            gamma=gamma,
            seeds=seeds,
            steps=steps,
            learning_rate=learning_rate,
            optimizer=optimizer,
        )
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_staircase, as_json=as_json)


def show_staircase(report: StaircaseReport) -> None:
    """Show the verdict first, then the series at some steps, the stairs and what was predicted."""
    console = stdout_console()
    console.print(f"{report.verdict.label}: {report.verdict.text}")
    own = report.settings
    console.print(
        f"{report.source}; gamma {own.gamma:g}, {own.optimizer} at rate {own.learning_rate:g}, {own.steps:,} steps, {len(own.seeds)} seeds"
    )
    console.print(f"predicted before training: {_predicted_words(report.predicted)}")
    show_rows(f"means over {len(own.seeds)} seeds, and their spread; order 0 is {report.rule}", [_row(report, at) for at in _shown(report)])
    show_rows(
        f"stairs: {report.thresholds.rise:g} above the null at {report.thresholds.stays} checkpoints in a row",
        [
            {
                "order": str(stair.order),
                "onset of the mean": "none" if stair.onset is None else f"{stair.onset:,}",
                "peak": "undefined" if stair.peak is None else f"{stair.peak:.3f} at step {stair.peak_step:,}",
                "seeds": f"{stair.seeds} of {len(own.seeds)}",
                "their onsets": "" if stair.earliest is None else f"{stair.earliest:,} to {stair.latest:,}",
            }
            for stair in report.stairs
        ],
    )
    if report.beyond_order_0:
        show_rows(
            "what order 1 adds to order 0, R^2 on held-out tokens",
            [
                {
                    "step": f"{row.step:,}",
                    "order 0 alone": _figure(row.r2_order_0),
                    "gain by order 1": _figure(row.gain),
                    "its null": _figure(row.null),
                }
                for row in report.beyond_order_0
            ],
        )
    if any((report.integrity.duplicates, report.integrity.gaps, report.integrity.jumps)):
        console.print(f"integrity: {report.integrity.to_json()}")


def mount(app: typer.Typer) -> None:
    """Add the commands of `staircase` to an app."""
    app.add_typer(staircase_app, name="staircase")


def _shown(report: StaircaseReport) -> list[int]:
    last = len(report.steps) - 1
    return sorted({round(last * at / (_ROWS - 1)) for at in range(_ROWS)})


def _row(report: StaircaseReport, at: int) -> dict[str, Any]:
    one, null = report.alignment["1"][at], report.null["1"][at]
    row = {
        "step": f"{report.steps[at]:,}",
        "loss": _figure(report.loss[at]),
        "accuracy": f"{_figure(report.accuracy[at])} ± {_figure(report.spread['accuracy'][at])}",
        "order 0": f"{_figure(report.alignment['0'][at])} ± {_figure(report.spread['alignment_0'][at])}",
        "order 1 less null": _figure(None if one is None or null is None else one - null),
    }
    for group in report.tokens:
        row[f"{group.name}: length"] = _figure(group.norm[at])
        row[f"{group.name}: attention"] = _figure(group.attention[at])
    return row


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _predicted_words(predicted: PredictedStair) -> str:
    if not predicted.exists:
        return f"no stair of order 0, since {predicted.reason}"
    if predicted.steps is None or predicted.growth_rate is None or predicted.steps_at_slope_1 is None:
        return f"a stair of order 0; {predicted.reason}"
    return (
        f"a stair of order 0, grown to 1 by step {predicted.steps_at_slope_1:.0f} to {predicted.steps:.0f} (growth rate "
        f"{predicted.growth_rate:.4f} at a ReLU's mean slope of 1/2, twice that in its active half); {predicted.reason}"
    )
