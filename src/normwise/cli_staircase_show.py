"""What the commands of `normwise staircase` show on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normwise.cli_tables import show_rows, stdout_console

if TYPE_CHECKING:
    from normwise.core.staircase_records import PredictedStair, StaircaseReport, StairForecast, StairsReport, TrackReport

_ROWS = 13


def show_forecast(forecast: StairForecast) -> None:
    """Show the sentence, and the first directions."""
    console = stdout_console()
    console.print(forecast.text)
    console.print(
        f"{forecast.source}: {forecast.corpus_tokens:,} tokens; init scale {forecast.init_scale:g}, rate {forecast.learning_rate:g}"
    )
    show_rows(
        "directions of order 0, fastest first",
        [
            {"direction": str(place), "growth rate": f"{rate:.4g}", "grown to 1 by step": "never" if step is None else f"{step:,.0f}"}
            for place, (rate, step) in enumerate(zip(forecast.growth_rates, forecast.steps, strict=True), start=1)
        ],
    )


def show_track(report: TrackReport) -> None:
    """Show the verdict first, then the series, what orders add, and neighbors."""
    console = stdout_console()
    console.print(f"{report.verdict.label}: {report.verdict.text}")
    own = report.settings
    console.print(
        f"{report.source}; {own.table}; {own.tokens:,} tokens of {own.vocabulary:,}, {own.corpus_tokens:,} tokens of text; "
        f"predicted: {_predicted_words(report.predicted)}"
    )
    show_rows("alignment of cosines with signatures, over pairs of tokens; null 0", [_track_row(report, at) for at in _shown(report)])
    show_rows(
        f"stairs: {report.thresholds.rise:g} and {report.thresholds.spreads:g} standard deviations of the null above it, at "
        f"{report.thresholds.stays} checkpoints in a row",
        [
            {
                "order": str(stair.order),
                "onset": "none" if stair.onset is None else f"{stair.onset:,}",
                "peak": "undefined" if stair.peak is None else f"{stair.peak:.3f} at step {stair.peak_step:,}",
                "fallen since": _figure(stair.decay) if stair.onset is not None else "",
                "note": stair.note,
            }
            for stair in report.stairs
        ],
    )
    if report.gains:
        show_rows(
            "what each adds to those before it: R^2 on held-out tokens",
            [
                {
                    "step": f"{row.step:,}",
                    "what": "frequency" if row.order < 0 else f"order {row.order}",
                    "R^2 so far": _figure(row.r2),
                    "gain": _figure(row.gain),
                    "its null": _figure(row.null),
                }
                for row in report.gains
                if row.step in _ends(report)
            ],
        )
    if report.neighbors:
        show_rows(
            "nearest tokens",
            [
                {
                    "token": _safe(row.token),
                    "by signature": _safe(" ".join(row.by_signature[:5])),
                    "by embedding": _safe(" ".join(row.by_embedding[:5])),
                }
                for row in report.neighbors
            ],
        )
    if any((report.integrity.gaps, report.integrity.jumps)):
        console.print(f"integrity: {report.integrity.to_json()}")
    if report.report is not None:
        console.print(f"page: {report.report}")


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
    if report.report is not None:
        console.print(f"page: {report.report}")


def _ends(report: TrackReport) -> set[int]:
    """First, middle and last step of those that gains were asked for."""
    steps = sorted({row.step for row in report.gains})
    return {steps[0], steps[len(steps) // 2], steps[-1]}


def _track_row(report: TrackReport, at: int) -> dict[str, Any]:
    row = {"step": f"{report.steps[at]:,}"}
    if any(value is not None for value in report.loss):
        row["loss"] = _figure(report.loss[at])
    for order, series in report.alignment.items():
        row[f"order {order}"] = f"{_figure(series[at])} (null sd {_figure(report.spread[order][at])})"
    row["length and frequency"] = _figure(report.norm_frequency[at])
    return row


def _shown(report: StairsReport) -> list[int]:
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
    return "undefined" if value is None else f"{round(value, 3) + 0.0:.3f}"


def _predicted_words(predicted: PredictedStair) -> str:
    if not predicted.exists:
        return f"no stair of order 0, since {predicted.reason}"
    if predicted.steps is None and predicted.growth_rate is not None:
        return f"a stair of order 0, growth rate {predicted.growth_rate:.4g}, {predicted.reason}"
    if predicted.steps is None or predicted.growth_rate is None or predicted.steps_at_slope_1 is None:
        return f"a stair of order 0; {predicted.reason}"
    return (
        f"a stair of order 0, grown to 1 by step {predicted.steps_at_slope_1:.0f} to {predicted.steps:.0f} (growth rate "
        f"{predicted.growth_rate:.4f} at a ReLU's mean slope of 1/2, twice that in its active half); {predicted.reason}"
    )


def _safe(text: str) -> str:
    """Names of tokens without what would move a terminal's cursor, color it or turn its lines around."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
