"""What the page of a staircase says in words: verdict, prediction, integrity, thresholds, and what its terms mean."""

from __future__ import annotations

import math
import re
from typing import Any

from normwise.core.staircase_records import StaircaseReport, StairRecord, TrackReport
from normwise.report import words
from normwise.report.calibration_words import capital
from normwise.report.inspect_words import settle

Report = StaircaseReport | TrackReport

NONE = "none"
UNDEFINED = "undefined"

RULES = {
    "pearson": "Order 0 is the correlation (Pearson) of cosines of embeddings with those of signatures, over pairs of tokens.",
    "one minus mse": "All signatures of order 0 are equal here, with nothing to correlate: its figure is 1 − mean (1 − cosine)², "
    "whether all embeddings point one way, and its null is what the init shows.",
    "undefined": "The figure of order 0 is undefined here.",
}

GLOSSARY = (
    (
        "Signature",
        "What a token tells of what is to be predicted: the law of the label, or of the next token, given that the token occurs.",
    ),
    (
        "Order",
        "How many other tokens the law is given besides: order 0 is P(y | a), of the token a alone; order 1 is P(y | a, b), with one other "
        "token b, for every b; and so on.",
    ),
    ("Alignment", "How well similarities of embeddings follow similarities of signatures of one order, over pairs of tokens. 1 is best."),
    ("Null", "The same figure where no token has its own signature (they are permuted), or at the init. What chance alone makes."),
    ("Stair", "A rise above the null that stays. The onset is its first checkpoint, the peak the highest figure from there on."),
)


def figure(value: float | None, *, signed: bool = False) -> str:
    """A figure of 0 to 1 with three decimals.

    Example:
        >>> figure(0.5), figure(-0.0123), figure(None), figure(-0.0001), figure(0.25, signed=True)
        ('0.500', '−0.012', 'undefined', '0.000', '+0.250')
    """
    if value is None or not math.isfinite(value):
        return UNDEFINED
    form = ".3f" if abs(value) < 1e6 else ".3g"
    # Nothing is minus zero.
    value = round(value, 3) + 0.0 if form == ".3f" else value
    return f"{value:{'+' if signed else ''}{form}}".replace("-", "−")


def step(value: int | None) -> str:
    """A step, or that there is none.

    Example:
        >>> step(1200), step(None)
        ('1,200', 'none')
    """
    return NONE if value is None else f"{value:,}"


def span(low: int | None, high: int | None) -> str:
    """A range of steps, one step where its ends are the same, "" where there is none.

    Example:
        >>> span(30, 1200), span(30, 30), span(None, None)
        ('30 to 1,200', '30', '')
    """
    if low is None or high is None:
        return ""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def verdict_words(text: str) -> tuple[str, str]:
    """The headline, what a verdict says before its first colon or full stop, and the rest in sentences.

    Example:
        >>> verdict_words("The staircase is there: order 0 rises at .5 -> 1. It is so.")
        ('The staircase is there.', 'Order 0 rises at .5 → 1. It is so.')
        >>> verdict_words("No stair."), verdict_words("")
        (('No stair.', ''), ('No verdict.', ''))
    """
    plain = re.sub(r"(?<![\w.])-(?=\.?\d)", "−", text).replace(" -> ", " → ").replace("R^2", "R²").strip()
    if not plain:
        return "No verdict.", ""
    first, _, rest = plain.partition(": ")
    if ". " in first or not rest:
        first, _, rest = plain.partition(". ")
    return f"{capital(first.rstrip('.'))}.", capital(rest.strip())


def unseen_rise(stair: StairRecord) -> bool:
    """Whether a stair has an onset only because its series begins with it: the note of such a stair says so, others have none."""
    return stair.onset is not None and bool(stair.note)


def stair_words(stair: StairRecord | None) -> str:
    """What one order does along the training, in a line."""
    if stair is None:
        return "no stair was asked for"
    if stair.onset is None:
        most = f", at most {figure(stair.peak)} above its null" if stair.peak is not None else ""
        return f"does not rise{most}"
    said = "is above its null from the first checkpoint on" if unseen_rise(stair) else f"rises at step {step(stair.onset)}"
    if stair.peak is not None and stair.peak_step is not None:
        said += f", highest at step {step(stair.peak_step)} with {figure(stair.peak)} above its null"
    if stair.decay is not None:
        said += f", {figure(stair.decay)} lower at the end" if round(stair.decay, 3) > 0 else ", and stays"
    return said


def stair_row(stair: StairRecord, *, seeds: int) -> dict[str, Any]:
    """A row of the table of stairs; `seeds` is 0 where there are none to count."""
    found = stair.onset is not None
    at = "" if stair.peak_step is None else f"step {stair.peak_step:,}"
    return {
        "order": f"{stair.order}",
        "onset": step(stair.onset),
        "peak": figure(stair.peak),
        "at": at if found or not at else f"{at}, no stair",
        "decay": figure(stair.decay) if stair.decay is not None else NONE,
        "seeds": f"{stair.seeds} of {seeds}",
        "range": span(stair.earliest, stair.latest),
        "note": settle(stair.note),
        "none": not found,
    }


def integrity_words(report: Report) -> str:
    """Whether the checkpoints are what they seem: how many, copies, gaps, jumps.

    Returns:
        A sentence such as "61 checkpoints, steps 0 to 600: no copies, no gap, no jump."
    """
    found = report.integrity
    kinds = (
        ("copy", "copies", found.duplicates, "equal byte by byte:"),
        ("gap", "gap", found.gaps, "checkpoints are missing between"),
        ("jump", "jump", found.jumps, "moved out of proportion between"),
    )
    told = []
    for one, none, pairs, how in kinds:
        if not pairs:
            told.append(f"no {none}")
            continue
        listed = ", ".join(f"{before:,} and {after:,}" for before, after in pairs[:10])
        more = f", and {len(pairs) - 10} more" if len(pairs) > 10 else ""
        told.append(f"{words.counted(len(pairs), one)} ({how} {listed}{more})")
    where = f", steps {span(report.steps[0], report.steps[-1])}" if report.steps else ""
    return f"{words.counted(len(report.steps), 'checkpoint')}{where}: {', '.join(told)}."


def predicted_rows(report: Report) -> list[dict[str, str]]:
    """What was predicted of order 0 before training, and what came."""
    asked = report.predicted
    found = next((stair for stair in report.stairs if stair.order == 0), None)
    rows = [_row("A stair of order 0", "yes" if asked.exists else "no", capital(settle(asked.reason)))]
    if asked.growth_rate is not None:
        rows.append(_row("Growth rate σ₁", words.number(asked.growth_rate), "at a ReLU’s mean slope of 1/2; twice that in its active half"))
    if asked.steps is not None:
        ends = sorted(round(value) for value in (asked.steps, asked.steps_at_slope_1) if value is not None and math.isfinite(value))
        detail = "when the fastest direction has grown from the init to 1; directions agree earlier, so the onset lies before"
        rows.append(_row("Grown by step", span(ends[0], ends[-1]) if ends else UNDEFINED, detail))
    if found is not None:
        rows.append(_row("Found", step(found.onset), "the onset of order 0" if found.onset is not None else "no onset of order 0"))
    return rows


def threshold_words(report: Report) -> list[str]:
    """What counts as a rise, a peak and a verdict, and when that was set."""
    stays = words.counted(report.thresholds.stays, "checkpoint")
    if isinstance(report, StaircaseReport):
        own = report.thresholds
        rise, share, gain = (words.number(value) for value in (own.rise, 100 * own.share, own.own))
        learned = f" the task is learned at an accuracy of {words.number(own.learned)};" if own.learned is not None else ""
        return [
            f"Set before any run: a rise is more than {rise} above the null at {stays} in a row;{learned} a verdict needs {share}% of the "
            "seeds.",
            f"Set after addition had been seen, whose order 1 adds less: order 1 is one of its own where it adds {gain} of R² to order 0.",
        ]
    asked = report.thresholds
    rise, spreads, falls = (words.number(value) for value in (asked.rise, asked.spreads, asked.falls))
    return [
        f"Set before any checkpoint was seen: a rise is more than {rise} above the null, and more than {spreads} standard deviations of "
        f"the null, at {stays} in a row; a peak is followed by a decay where the last figure is lower by {falls} or more."
    ]


def rule_words(rule: str) -> str:
    """What the figure of order 0 is."""
    return RULES.get(rule, f"The figure of order 0 is: {settle(rule)}.")


def order_words(order: int) -> str:
    """An order of signatures; -1 is how often tokens occur, which comes before every order.

    Example:
        >>> order_words(2), order_words(-1)
        ('2', 'frequency')
    """
    return "frequency" if order == -1 else f"{order}"


def no_gains_words(report: Report) -> str:
    """Why there is nothing to say of what higher orders add."""
    if isinstance(report, StaircaseReport) and report.rule == "one minus mse":
        return "nothing to add to, since signatures of order 0 are all equal and tell no two tokens apart"
    return words.NOT_MEASURED


def settings_rows(report: Report) -> list[dict[str, str]]:
    """What was trained, or counted and compared."""
    if isinstance(report, StaircaseReport):
        own = report.settings
        modulus = [_row("Modulus" if own.task == "mod" else "Values", f"{own.modulus:,}")] if own.modulus is not None else []
        seeds = ", ".join(str(seed) for seed in own.seeds[:12]) + (", …" if len(own.seeds) > 12 else "")
        return [
            _row("Task", settle(own.task)),
            *modulus,
            _row("Ids", f"{own.vocabulary:,}", f"{own.labels:,} outputs"),
            _row(
                "Model", settle(own.model), f"width {own.width:,}; entries at init are N(0, {own.width}^(−2 · {words.number(own.gamma)}))"
            ),
            _row("Optimizer", settle(own.optimizer), f"rate {words.number(own.learning_rate)}, {own.steps:,} steps"),
            _row("Seeds", f"{len(own.seeds):,}", seeds),
        ]
    asked = report.settings
    before = "all of the document" if asked.window is None else words.counted(asked.window, "token")
    sketched = f"{asked.sketches:,} random probes" if asked.sketches is not None else "all counted exactly"
    return [
        _row("Orders", ", ".join(str(order) for order in asked.orders) or NONE, sketched),
        _row("Corpus", f"{asked.corpus_tokens:,} tokens", f"vocabulary of {asked.vocabulary:,}"),
        _row("Tokens compared", f"{asked.tokens:,}", f"by their laws over {asked.next_tokens:,} next tokens"),
        _row("Context tokens", "all" if asked.contexts is None else f"{asked.contexts:,}", f"from {before} before a position"),
        _row("Embedding", settle(asked.table) or "of the training itself", "the table that was read"),
        _row("Counted by", settle(asked.engine), f"seed {asked.seed} of permutations and probes"),
    ]


def _row(name: str, value: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}
