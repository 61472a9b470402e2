"""Calibrates a real encoder on real retrieval sets and writes what came out, whatever it is, to docs/calibration_results.md.

Each set is one call of `normwise.calibrate` with one setting for all, laid down before the first run: precision .9 with 90%
confidence, a fifth of the queries without an answer, at most 3,000 queries a split and 8,000 candidates.

Run: python benchmarks/calibration_study.py [SET ...] [--model all-MiniLM-L6-v2] [--page]; --page only writes the page again.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from normwise.core.calibration_records import CalibrationFigures, CalibrationReport
from normwise.core.errors import InputError
from normwise.core.files import read_json, write_json, write_text
from normwise.workflows.calibrate import calibrate

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "calibration_results.md"
SETS = ("python-docs", "python-calls", "wordnet-glosses", "wordnet-senses", "wordnet-examples")
SETTING = {"precision": 0.9, "confidence": 0.9, "unanswerable": 0.2, "limit_queries": 3000, "limit_candidates": 8000, "seed": 0}


def span(mean: float | None, low: float | None, high: float | None, *, signed: bool = False) -> str:
    if mean is None:
        return "undefined"
    number = "{:+.4f}" if signed else "{:.3f}"
    ends = "" if low is None or high is None else f" [{number.format(low)}, {number.format(high)}]"
    return f"{number.format(mean)}{ends}".replace("-", "−")


def read_reports() -> dict[str, CalibrationReport]:
    found = {}
    for name in SETS:
        file = RESULTS / f"calibration-{name}.json"
        if file.is_file():
            found[name] = CalibrationReport.model_validate(read_json(file)["report"])
    return found


def page(reports: dict[str, CalibrationReport]) -> str:
    lines = [
        "# Which score is good enough, on real sets",
        "",
        "<!-- written by benchmarks/calibration_study.py -->",
        "",
        "What `normwise calibrate` says of all-MiniLM-L6-v2 on the built-in sets. One setting for all, laid down before the first run: "
        "precision 90% with 90% confidence, a fifth of the queries without an answer in what they search, at most 3,000 queries a split "
        "and 8,000 candidates. Every figure is of test queries, which fitted nothing; intervals are 95% bootstrap intervals over clusters "
        "of queries. To run it again: `python benchmarks/calibration_study.py`.",
        "",
        "| set | queries: fit, test, without an answer | first hits right | chosen | AUROC | threshold | coverage | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        row = next(each for each in report.calibrators if each.name == report.chosen)
        auroc = row.intervals["auroc"]
        threshold = report.threshold
        lines.append(
            f"| {name} | {report.queries.fit:,}, {report.queries.test:,}, {report.queries.unanswerable:,} | {row.precision:.3f} | "
            f"`{report.chosen}` | {span(auroc.mean, auroc.ci_low, auroc.ci_high)} | "
            f"{'none' if threshold is None else f'{threshold.probability:.3f}'} | "
            f"{'none' if threshold is None else f'{100 * threshold.coverage:.1f}%'} | {report.verdict.label} |"
        )
    lines += [
        "",
        "## What the norm added",
        "",
        "By how much a figure falls when the log norms of query and hit join score, margin and every control that is known, all of them as "
        "curves; positive means that the norms helped. Shuffled norms are the check: they know nothing.",
        "",
        "| set | E-AURC | NLL | Brier | E-AURC, shuffled norms | in words |",
        "|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        cells = [span(gain.delta, gain.ci_low, gain.ci_high, signed=True) for gain in report.norm_gains[:4]]
        cells += ["not measured"] * (4 - len(cells))
        lines.append(f"| {name} | {' | '.join(cells)} | {report.norm_gain.words} |")
    for name, report in reports.items():
        lines += [
            "",
            f"## {name}",
            "",
            "| calibrator | ECE | Brier | NLL | AUROC | E-AURC | nAUC | may be chosen |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in report.calibrators:
            nll = "infinite" if row.nll is None else f"{row.nll:.3f}"
            nauc = "undefined" if row.nauc is None else f"{row.nauc:.3f}"
            auroc, area = row.intervals["auroc"], row.intervals["e_aurc"]
            lines.append(
                f"| {'**' if row.name == report.chosen else ''}`{row.name}`{'**' if row.name == report.chosen else ''} | {row.ece:.3f} | "
                f"{row.brier:.3f} | {nll} | {span(row.auroc, auroc.ci_low, auroc.ci_high)} | "
                f"{span(row.e_aurc, area.ci_low, area.ci_high)} | {nauc} | {'yes' if row.eligible else 'no'} |"
            )
        lines += ["", "Signals alone (AUROC):", ""]
        lines.append("; ".join(f"{row.name} {span(row.auroc, row.ci_low, row.ci_high)}" for row in report.signals) + ".")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    for name in () if options.page else options.sets:
        try:
            report = calibrate(options.model, name, save=False, **SETTING)
        except InputError as error:
            print(f"{name}: {error}", flush=True)
            continue
        # Texts of the sets stay where they came from.
        bare = report.figures.model_copy(update={"confident_errors": (), "good_abstentions": ()})
        kept = report.model_copy(update={"figures": CalibrationFigures.model_validate(bare.model_dump())})
        machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        write_json(RESULTS / f"calibration-{name}.json", {"machine": machine, "setting": SETTING, "report": kept.model_dump(mode="json")})
        print(f"{name}: {report.verdict.text}\n  {report.norm_gain.words}", flush=True)
    write_text(PAGE, page(read_reports()))


if __name__ == "__main__":
    main()
