"""The long profile: the demo's arms over five seeds on both Python sets, written to docs/results.md as they come out.

Run: python benchmarks/study.py [--sets python-docs python-calls] [--seeds 5] [--steps 76] [--work out/study] [--docs docs]
A stopped run goes on where it stood.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from normwise.core.config import DataConfig, ModelConfig, NegativesConfig, PaceConfig, RadialHeadConfig
from normwise.core.records import TrainResult
from normwise.workflows.demo import arms, claims
from normwise.workflows.train import train

NEGATIVES = {"python-docs": ("in_batch",), "python-calls": ("in_batch", "corrected")}


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


def run(data: str, source: str, options: argparse.Namespace) -> TrainResult:
    config = study_config(data, source=source, seeds=options.seeds, steps=options.steps)
    out = options.work / f"{data}-{source}"
    if not (out / "state.json").is_file():
        return train(config, out, command="make study", log=print)
    return train(config, out, resume=True, command="make study", log=print)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(NEGATIVES), choices=list(NEGATIVES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=76)
    parser.add_argument("--work", type=Path, default=Path("out/study"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    for data in options.sets:
        for source in NEGATIVES[data]:
            result = run(data, source, options)
            target = options.docs / "results" / f"{data}-{source}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            small = result.model_copy(update={"figures": type(result.figures)(), "model": "", "report": None})
            target.write_text(json.dumps(small.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
            print(f"{target} written")


if __name__ == "__main__":
    main()
