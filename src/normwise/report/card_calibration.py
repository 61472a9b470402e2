"""The calibration section of a model card: put in, or put anew, between two markers, and nothing else is touched."""

from __future__ import annotations

import re

from normwise.core.calibration_records import CalibrationReport, CalibratorRow
from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.report.calibration_words import calibrator_name
from normwise.report.forest import interval_words
from normwise.report.svg import clean

BEGIN, END = "<!-- normwise calibration: begin -->", "<!-- normwise calibration: end -->"
# The card of a model ends in its limits; a calibration belongs before them.
_BEFORE = "\n## Limits\n"
_METRICS = {"ece": "ECE", "brier": "Brier", "nll": "NLL", "auroc": "AUROC", "e_aurc": "E-AURC", "nauc": "nAUC"}


def calibration_section(report: CalibrationReport) -> str:
    """Write what a reader of the model card must know of its calibration, markers included.

    Args:
        report: a whole report; none of its example texts enters the card.

    Returns:
        Markdown between `BEGIN` and `END`, without a final line break.
    """
    counts = report.queries
    searched = ""
    if report.fingerprint is not None:
        searched = f", {_code(report.fingerprint.search)} search of {report.fingerprint.candidates:,} candidates"
    lead = f"**{'Usable' if report.verdict.label == 'usable' else 'No usable threshold'}.** {_inline(report.verdict.text)}"
    facts = [
        f"- Fitted on {_inline(report.data) or 'judged queries'}: {counts.fit:,} queries fit, {counts.test:,} others test; "
        f"{counts.unanswerable:,} of all have no answer",
        f"- Holds for scores by {_code(report.similarity)}{searched}; calibrate anew for another model, similarity, search or corpus",
        f"- {_threshold(report)}",
        f"- What norms add: {_inline(report.norm_gain.words)}",
    ]
    rows = [row for row in report.calibrators if row.name in {report.chosen, "softmax", "temperature", "logistic"}]
    return "\n\n".join([BEGIN, "## Calibration", lead, "\n".join(facts), _table(rows, report.chosen), END])


def with_calibration(card: str, section: str) -> str:
    """Return the card with the section in place of an earlier one, else before its limits, else at its end.

    Args:
        card: the text of a README.md.
        section: what `calibration_section` wrote.

    Raises:
        InputError: only one of the two markers is there, or they stand several times or the wrong way round.

    Example:
        >>> card = with_calibration("# demo", f"{BEGIN} 1 {END}")
        >>> with_calibration(card, f"{BEGIN} 2 {END}") == card.replace("1", "2")
        True
    """
    begins, ends = card.count(BEGIN), card.count(END)
    if (begins, ends) == (1, 1) and card.index(BEGIN) < card.index(END):
        head, _, rest = card.partition(BEGIN)
        return head + section + rest.partition(END)[2]
    if begins or ends:
        raise InputError(
            f"{begins} lines {BEGIN!r} and {ends} lines {END!r}; expected one of each, in this order: delete those that are left"
        )
    head, limits, rest = card.rpartition(_BEFORE)
    if limits:
        return f"{head.rstrip()}\n\n{section}\n{limits}{rest}"
    return f"{card.rstrip()}\n\n{section}\n".lstrip("\n")


def _threshold(report: CalibrationReport) -> str:
    found = report.threshold
    if found is None:
        return "No threshold: at no probability does the test guarantee the precision that was asked for"
    return (
        f"Answer from a probability of {found.probability:.4g} on: precision at least {found.precision_target:.4g} with confidence "
        f"{found.confidence:.4g}; {found.coverage:.1%} of the test queries are answered, {found.precision:.1%} of these rightly"
    )


def _table(rows: list[CalibratorRow], chosen: str) -> str:
    lines = ["| calibrator | " + " | ".join(_METRICS.values()) + " |", "|---|" + "---:|" * len(_METRICS)]
    for row in rows:
        name = f"**{_inline(calibrator_name(row.name))}** (chosen)" if row.name == chosen else _inline(calibrator_name(row.name))
        lines.append(f"| {name} | " + " | ".join(_cell(row, metric) for metric in _METRICS) + " |")
    return "\n".join(lines)


def _cell(row: CalibratorRow, metric: str) -> str:
    ends = row.intervals.get(metric)
    low, high = (None, None) if ends is None else (ends.ci_low, ends.ci_high)
    return interval_words(Interval(mean=getattr(row, metric), ci_low=low, ci_high=high))


def _inline(text: str) -> str:
    """Free text as one line of Markdown in which no markup takes effect; as in the rest of the card."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(clean(text).split()))


def _code(text: str) -> str:
    return "`" + " ".join(clean(text).split()).replace("`", "'") + "`"
