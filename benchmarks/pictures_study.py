"""A dual encoder trained on real pictures: the demo's arms over five seeds, written to docs/pictures_results.md.

Run: python benchmarks/pictures_study.py [--only emoji-captions ...] [--seeds 5] [--steps 150] [--rate 5e-4] [--roots FOLDER]
A stopped run goes on where it stood; `--table` only rewrites the page from docs/results/pictures-*.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from study import STUDIES, section

from normwise.core.config import DataConfig, ModelConfig, PaceConfig, VisionConfig
from normwise.core.records import TrainResult
from normwise.workflows.demo import arms, claims
from normwise.workflows.train import train

SETS = ("emoji-captions", "emoji-pictures")
STUDIES.update({name: (name, "in_batch") for name in SETS})
HEAD = """# Pictures: results

`python benchmarks/pictures_study.py` trains a dual encoder on real drawings (OpenMoji) over five seeds: all-MiniLM-L6-v2 cut to two
layers for texts, EfficientNet-Lite0 (ImageNet weights, frozen, 96 pixels) for pictures, and a linear head of 256 dimensions for each, which
start at random: `untrained` is that start. The arms and claims are those of [the study on texts](results.md), all with the same number of
steps; the learning rate was chosen among three by nDCG@10 of the cosine arm on dev with a seed that is not used here, and is the same for
all arms, which favors cosine. Concepts of test and their variants are in no other split. Intervals are 95% hierarchical bootstrap
intervals (seeds, then clusters of queries), those of claims corrected by Holm's method.

The set is small and drawn in one style, and the vision tower is not trained. The figures say what happens at this size, and no more.
"""


def study_config(name: str, options: argparse.Namespace) -> PaceConfig:
    return PaceConfig(
        data=DataConfig(
            name=name, roots=None if options.roots is None else (str(options.roots),), limit_queries=600, limit_candidates=2_000
        ),
        model=ModelConfig(layers=2, max_tokens=16, vision=VisionConfig(dimensions=256)),
        arms=arms(steps=options.steps, batch_size=64, learning_rate=options.rate),
        claims=claims(),
        seeds=tuple(range(options.seeds)),
        observe_every=20,
    )


def write_page(docs: Path) -> None:
    found = {name: docs / "results" / f"pictures-{name}.json" for name in SETS}
    parts = [section(name, TrainResult.model_validate_json(path.read_text())) for name, path in found.items() if path.is_file()]
    (docs / "pictures_results.md").write_text("\n\n".join([HEAD.rstrip(), *parts]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--roots", type=Path, default=None, help="folder that holds node_modules")
    parser.add_argument("--work", type=Path, default=Path("out/pictures"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--table", action="store_true", help="only rewrite docs/pictures_results.md")
    options = parser.parse_args()
    for name in [] if options.table else options.only:
        config = study_config(name, options)
        result = train(
            config,
            options.work / name,
            resume=True,
            command="python benchmarks/pictures_study.py",
            log=lambda line: print(line, flush=True),
        )
        runs = tuple(one.model_copy(update={"stages": ()}) for one in result.runs)
        settings = {**result.settings, "data": {**result.settings["data"], "roots": None}}
        small = result.model_copy(
            update={"runs": runs, "figures": type(result.figures)(), "model": "", "report": None, "settings": settings}
        )
        target = options.docs / "results" / f"pictures-{name}.json"
        target.write_text(json.dumps(small.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        print(f"{target} written", flush=True)
    write_page(options.docs)


if __name__ == "__main__":
    main()
