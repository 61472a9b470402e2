"""How often the usefulness of norms is claimed where there is none, and how often where there is: the full run behind two tests.

Run: python benchmarks/usefulness_nulls.py [--runs 100] [--controls 5]
Nominal is 5%; up to 11 of 100 null runs are accepted. The worlds are those of tests/theory/usefulness_worlds.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "theory"))

from free_queries import train
from usefulness_worlds import hits, top_hits_of, world

from normwise.theory.norm_confidence import norm_confidence
from normwise.theory.norm_reranking import norm_reranking


def reranking(truth: str, *, by_dev: bool) -> Callable[[int], dict[str, bool]]:
    """One run: is the claim reproduced, and does the dot product certainly beat cosine?"""

    def run(seed: int) -> dict[str, bool]:
        candidates, test, dev, tokens = world(truth=truth, seed=seed)
        found = norm_reranking(candidates, test, choosing=dev if by_dev else None, tokens=tokens, seed=seed)
        gain = found.priors["norm"].difference.ci_low
        return {
            "reproduced": found.outcome == "reproduced",
            "not reproduced": found.outcome == "not reproduced",
            "norm above cosine": gain is not None and gain > 0.0,
            "dot above cosine": found.dot_minus_cosine.ci_low is not None and found.dot_minus_cosine.ci_low > 0.0,
        }

    return run


def confidence(**truth: float | bool) -> Callable[[int], dict[str, bool]]:
    """One run: is the claim reproduced, and does the interval that a verdict reads lie above 0?"""

    def run(seed: int) -> dict[str, bool]:
        found, controls = hits(seed=seed, **truth)
        result = norm_confidence(found, controls=controls, seed=seed)
        return {"reproduced": result.outcome == "reproduced", "not reproduced": result.outcome == "not reproduced"} | {
            f"{name} above 0": gain.ci_low is not None and gain.ci_low > 0.0 for name, gain in result.gains_beyond.items()
        }

    return run


def control(seed: int) -> dict[str, float | str]:
    """One learned world: E-AURC and NLL without and with the norm, and the outcome beside the frequency."""
    learned = train(seed=seed)
    result = norm_confidence(top_hits_of(learned, seed=seed + 1), controls={"visits": np.repeat(learned.rates, 4)}, seed=seed)
    figures = {f"{name}, {key}": round(getattr(model, key), 4) for name, model in result.models.items() for key in ("e_aurc", "nll")}
    return figures | {"outcome": result.outcome}


NULLS = {
    "re-ranking, norms of no meaning, dev": reranking("nothing", by_dev=True),
    "re-ranking, norms of no meaning, cross-validation": reranking("nothing", by_dev=False),
    "re-ranking, norms that are length": reranking("length", by_dev=True),
    "confidence, norms of no meaning": confidence(),
    "confidence, norms of no meaning, length matters": confidence(by_length=0.8),
    "confidence, norms that are length, length matters": confidence(by_length=0.8, norm_is_length=True),
}
TRUTHS = {"re-ranking, norms that matter": reranking("norm", by_dev=True), "confidence, norms that matter": confidence(by_norm=1.0)}


def main() -> None:
    """Print one JSON line per world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--controls", type=int, default=5)
    arguments = parser.parse_args()
    for seed in range(arguments.controls):
        print(json.dumps({"learned world": seed} | control(seed)), flush=True)
    for name, run in (TRUTHS | NULLS).items():
        runs = arguments.runs if name in NULLS else max(1, arguments.runs // 5)
        counted: Counter[str] = Counter()
        for seed in range(1000, 1000 + runs):
            counted.update({key: int(value) for key, value in run(seed).items()})
        print(json.dumps({"world": name, "runs": runs} | counted), flush=True)


if __name__ == "__main__":
    main()
