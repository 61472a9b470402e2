"""The long profile: the demo's arms over five seeds on both Python sets, written to docs/results.md as they come out.

Run: python benchmarks/study.py [--only python-docs-in_batch ...] [--seeds 5] [--steps 76] [--work out/study] [--docs docs]
A stopped run goes on where it stood; `--table` only rewrites docs/results.md from docs/results/*.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from normwise.core.config import DataConfig, ModelConfig, NegativesConfig, PaceConfig, RadialHeadConfig
from normwise.core.records import Comparison, Interval, RunResult, TrainResult
from normwise.workflows.demo import arms, claims
from normwise.workflows.train import train

STUDIES = {
    "python-docs-in_batch": ("python-docs", "in_batch"),
    "python-calls-corrected": ("python-calls", "corrected"),
    "python-calls-in_batch": ("python-calls", "in_batch"),
}
METRICS = ("ndcg@10", "p@1", "recall@100")
FIGURES = ("e1_pearson", "e3_knn", "e3_ridge", "radial_freedom", "a1_random_cosine", "norm_cv_candidates", "hub_share_dot")
HEAD = """# Results

`make study` trains the demo's arms over several seeds on both Python sets. The claims were written down before any run
([how a claim is judged](guide/evaluation.md)); nothing was tuned afterwards. Intervals are 95% hierarchical bootstrap
intervals (seeds, then clusters of queries), those of claims corrected by Holm's method. The data are "possibly seen in
pre-training".

These are small runs of a small encoder: all-MiniLM-L6-v2 cut to two layers, with a Dense head to 256 dimensions that
frees its norm. They say what happens at this size, and no more. The arms are whole recipes: LoRA stages learn at ten times
the rate of full ones, so a staged arm differs from a direct one in more than its similarity, and a gain of `pace` ranked by
cosine is not evidence about lengths.
"""


def study_config(data: str, *, source: str, seeds: int, steps: int) -> PaceConfig:
    """The demo's settings over several seeds; the data and the candidates are those of the demo."""
    negatives = NegativesConfig.model_validate({"source": source, **({"smoothing": 1.0} if source == "corrected" else {})})
    return PaceConfig(
        data=DataConfig(name=data, limit_train=20_000, limit_queries=400, limit_candidates=1_500),
        model=ModelConfig(layers=2, max_tokens=32, head=RadialHeadConfig(dimensions=256)),
        arms=arms(steps=steps, batch_size=64, learning_rate=1e-4, negatives=negatives),
        claims=claims(),
        seeds=tuple(range(seeds)),
    )


def interval(value: Interval | None, *, signed: bool = False) -> str:
    if value is None or value.mean is None:
        return "not measured"
    form = "{:+.3f}" if signed else "{:.3f}"
    if value.ci_low is None or value.ci_high is None:
        return form.format(value.mean)
    return f"{form.format(value.mean)} [{form.format(value.ci_low)}, {form.format(value.ci_high)}]"


def rows(header: list[str], body: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in body)])


def comparison_row(comparison: Comparison, outcome: str, name: str) -> list[str]:
    figure = f"{comparison.candidate} − {comparison.baseline}, {comparison.metric}"
    return [name, figure, interval(comparison.difference, signed=True), outcome]


def section(name: str, result: TrainResult) -> str:
    """One study as Markdown: decision, metrics, claims, geometry, seeds."""
    data, source = STUDIES.get(name, (result.data, ""))
    seeds = max(len(run.seeds) for run in result.runs)
    size = result.settings["data"]
    arm = next(iter(result.settings["arms"].values()))
    steps = sum(stage["steps"] for stage in arm)
    told = (
        f"{seeds} seeds; {steps} steps of {arm[0]['batch_size']} pairs per arm; {source.replace('_', '-')} negatives; at most "
        f"{size['limit_queries']} test queries over {size['limit_candidates']} candidates."
    )
    metrics = rows(
        ["run", "ranked by", *METRICS, "nDCG@10 by seed"],
        [[run.name, run.similarity, *(interval(run.metrics[m]) for m in METRICS), by_seed(run)] for run in result.runs],
    )
    alike = [run for run in result.runs if run.one_query_per_candidate]
    by_candidate = rows(
        ["run", "ranked by", *METRICS],
        [[run.name, run.similarity, *(interval(run.one_query_per_candidate[m]) for m in METRICS)] for run in alike],
    )
    told_alike = "Queries are drawn as in use above; with one query per candidate (every relevant candidate counts once):"
    claimed = [one for one in result.comparisons if one.split == "test"]
    verdicts = rows(
        ["claim", "difference", "corrected interval", "verdict"],
        [comparison_row(one, outcome, name) for one, (name, outcome) in zip(claimed, result.claims.items(), strict=True)],
    )
    first = [run for run in result.runs if run.similarity == "cosine"]
    geometry = rows(
        ["run", *FIGURES],
        [[run.name, *("not measured" if (v := run.geometry.get(key)) is None else f"{v:.3f}" for key in FIGURES)] for run in first],
    )
    decision = f"**Decision on dev: {result.decision.run}, ranked by {result.decision.similarity}.** {result.decision.reason}"
    notes = "\n".join(f"- {note}" for note in result.data_notes)
    parts = [
        f"## {data}, {source.replace('_', '-')} negatives",
        told,
        decision,
        metrics,
        *([told_alike, by_candidate] if alike else []),
        verdicts,
        "Geometry of the test vectors (means over seeds):",
        geometry,
        notes,
    ]
    return "\n\n".join(parts)


def by_seed(run: RunResult) -> str:
    return ", ".join(f"{value:.3f}" for value in run.by_seed.get("ndcg@10", ())) or "—"


def write_page(docs: Path) -> None:
    """Rewrite docs/results.md from the saved results."""
    found = {name: docs / "results" / f"{name}.json" for name in STUDIES}
    sections = [section(name, TrainResult.model_validate_json(path.read_text())) for name, path in found.items() if path.is_file()]
    (docs / "results.md").write_text("\n\n".join([HEAD.rstrip(), *sections]) + "\n", encoding="utf-8")


def run(name: str, options: argparse.Namespace) -> TrainResult:
    data, source = STUDIES[name]
    config = study_config(data, source=source, seeds=options.seeds, steps=options.steps)
    return train(config, options.work / name, resume=True, command="make study", log=lambda line: print(line, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=76)
    parser.add_argument("--work", type=Path, default=Path("out/study"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--table", action="store_true", help="only rewrite docs/results.md")
    options = parser.parse_args()
    for name in [] if options.table else options.only:
        result = run(name, options)
        runs = tuple(one.model_copy(update={"stages": ()}) for one in result.runs)
        small = result.model_copy(update={"runs": runs, "figures": type(result.figures)(), "model": "", "report": None})
        target = options.docs / "results" / f"{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(small.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        print(f"{target} written", flush=True)
    write_page(options.docs)


if __name__ == "__main__":
    main()
