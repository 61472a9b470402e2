"""The founding experiment at full size, and the page that is made of its saved result.

Run: python benchmarks/concepts.py [--out runs/concepts] [--resume]     trains and judges, then writes result and page
     python benchmarks/concepts.py --page                               writes the page again from benchmarks/results/concepts.json
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path

from normwise.core.concept_records import FIGURES, ConceptCell, ConceptClaim, ConceptResult
from normwise.core.files import write_text
from normwise.theory import concept_claims
from normwise.workflows.concepts import simulate_concepts

HERE = Path(__file__).parent
RESULT = HERE / "results" / "concepts.json"
PAGE = HERE.parent / "docs" / "norm_experiment.md"
TITLES = {
    "table": "A free table of concepts",
    "human-table": "Words with ten human labels each, on a free table",
    "deep": "A small deep encoder, from scratch",
    "wordnet": "The packaged encoder (two layers and a radial head), fine-tuned on WordNet concept → definition pairs",
    "human-encoder": "Human disagreement and the packaged encoder's norms",
}
SHOWN = (
    "law_r2",
    "law_spearman",
    "law_rmse",
    "spread",
    "frequency_r2",
    "start_r2",
    "length_r2",
    "dispersion",
    "frequency",
    "signal_share",
    "held_out_items_r2",
    "base_r2",
    "radial_r2_free",
    "radial_r2_drift",
    "radial_r2_displacement",
    "path_r2_drift",
    "path_r2_displacement",
    "dispersion_of_change",
    "spread_of_ratings",
)


def page(result: ConceptResult) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: ConceptResult) -> Iterator[str]:
    yield "# The founding experiment, rebuilt"
    yield ""
    yield "<!-- made by benchmarks/concepts.py from its saved result; do not edit -->"
    yield ""
    yield (
        "Do norms that a cosine loss discards follow concepts as the law of the optimizer says? General concepts have many unlike "
        "positives, specific ones few and alike; visit rates are dealt out independently of that. Every run is compared with the norm that "
        "the free vector's law predicts from the measured gradients, nothing fitted. `sgd-decay` is SGD with dense weight decay."
    )
    yield ""
    yield f"Command: `{result.command}`. " + ", ".join(f"{name} {found}" for name, found in result.versions.items()) + "."
    yield ""
    yield from (f"- {note}" for note in result.notes)
    yield ""
    yield "## How claims are judged"
    yield ""
    limits = ", ".join(f"{value:g} ({part})" for part, value in concept_claims.LAW_R2.items())
    yield (
        f"Thresholds stand in `theory/concept_claims.py` and were fixed before the runs: R² of the law {limits}; "
        f"held-out items {concept_claims.HELD_OUT_R2:g}; changed settings {concept_claims.SETTINGS_R2:g}; a sign counts from a partial "
        f"correlation of {concept_claims.SMALLEST_EFFECT:g}, and none is present below {concept_claims.LARGEST_ZERO:g}; under Adam the "
        f"error of log norm is at most {concept_claims.LAW_RMSE:g}; shares of radial changes {concept_claims.DRIFT_SHARE:g}. *Reproduced*: "
        f"the whole 95% bootstrap interval over at least {concept_claims.FEWEST_SEEDS} seeds lies above the threshold; *not reproduced*: "
        "below it; else *undecided at this size*."
    )
    yield ""
    for part, title in TITLES.items():
        cells = [cell for cell in result.cells if cell.part == part]
        if cells:
            yield from _part(title, cells, [claim for claim in result.claims if claim.part == part])
    yield "## What the figures are"
    yield ""
    yield from (f"- `{name}`: {words}" for name, words in FIGURES.items())


def _part(title: str, cells: list[ConceptCell], claims: list[ConceptClaim]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| optimizer | setting | claim | figure > threshold | mean (95% interval) | outcome |"
    yield "|---|---|---|---|---|---|"
    for claim in claims:
        low, high = claim.interval.ci_low, claim.interval.ci_high
        between = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
        yield (
            f"| {claim.optimizer} | {claim.variant} | {claim.name} | {claim.figure.replace('|', chr(92) + '|')} > {claim.threshold:g} "
            f"| {claim.interval.mean:.3f}{between} | {claim.outcome} |"
        )
    yield ""
    groups: dict[tuple[str, str], list[ConceptCell]] = {}
    for cell in cells:
        groups.setdefault((cell.optimizer, cell.variant), []).append(cell)
    names = [name for name in SHOWN if any(cell.figures.get(name) is not None for cell in cells)]
    yield "Means over seeds:"
    yield ""
    yield "| optimizer | setting | regime | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---|---|---|" + "---|" * len(names)
    for (optimizer, variant), mine in groups.items():
        regimes = sorted({cell.regime for cell in mine if cell.regime})
        yield f"| {optimizer} | {variant} | {'; '.join(regimes)} | " + " | ".join(_mean(mine, name) for name in names) + " |"
    yield ""


def _mean(cells: list[ConceptCell], name: str) -> str:
    values = [value for cell in cells if (value := cell.figures.get(name)) is not None]
    return f"{sum(values) / len(values):.3f}" if values else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/concepts"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        command = f"normwise simulate concepts --seeds {options.seeds}"
        result = simulate_concepts(
            {"seeds": options.seeds}, out=options.out, resume=options.resume, command=command, log=logging.getLogger("normwise").info
        )
        write_text(RESULT, result.to_json() + "\n")
    write_text(PAGE, page(ConceptResult.from_json(RESULT.read_bytes())))


if __name__ == "__main__":
    main()
