"""`normwise demo`: the main job on the code of the user's own environment, small enough for a coffee break."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path

from normwise.core.config import (
    ClaimConfig,
    DataConfig,
    FocalConfig,
    ModelConfig,
    NegativesConfig,
    PaceConfig,
    RadialHeadConfig,
    StageConfig,
)
from normwise.core.records import TrainResult
from normwise.core.similarity import Similarity
from normwise.workflows.train import train

COSINE_TEMPERATURE = 0.05


def claims() -> tuple[ClaimConfig, ...]:
    """The claims of PACE that the four arms can speak about, as written down before any run.

    Reference:
        PACE (arXiv 2609.15152): overall gain of the dot stage, focal gain, staged against direct; entanglement and
        anisotropy of direct dot training.
    """
    cosine, dot = Similarity.COSINE, Similarity.DOT
    return (
        ClaimConfig(name="PACE, ranked by dot, beats the cosine baseline (nDCG@10)", higher=("pace", dot), lower=("cosine", cosine)),
        ClaimConfig(name="PACE beats direct dot training (nDCG@10)", higher=("pace", dot), lower=("dot", dot)),
        ClaimConfig(name="the focal loss adds to PACE (nDCG@10)", higher=("pace-focal", dot), lower=("pace", dot)),
        ClaimConfig(
            name="direct dot ties the norm to the direction more than PACE (E3)", higher=("dot", dot), lower=("pace", dot), figure="e3_knn"
        ),
        ClaimConfig(
            name="direct dot is more anisotropic than cosine (A1)", higher=("dot", dot), lower=("cosine", cosine), figure="a1_random_cosine"
        ),
    )


def arms(
    *, steps: int, batch_size: int, learning_rate: float, negatives: NegativesConfig | None = None
) -> dict[str, tuple[StageConfig, ...]]:
    """The four arms of the demo, all with the same number of steps; the staged ones share their first stage.

    Args:
        steps: of each arm in all; staged arms split them in half.
        batch_size: pairs per step.
        learning_rate: of full training; LoRA takes ten times as much, as adapters usually need.
        negatives: where negatives come from; None is in-batch.

    Returns:
        `cosine` (the baseline: full training), `dot` (direct), `pace` (cosine with LoRA, then dot with full training),
        and `pace-focal` (the same with focal weights in the second stage).
    """
    source = negatives or NegativesConfig()
    first = steps // 2

    def stage(name: str, **settings: object) -> StageConfig:
        return StageConfig.model_validate({"name": name, "batch_size": batch_size, "negatives": source, **settings})

    fair_dot = {"mode": "match", "value": COSINE_TEMPERATURE}
    angular = stage(
        "angular", similarity="cosine", trainable="lora", temperature=COSINE_TEMPERATURE, steps=first, learning_rate=10 * learning_rate
    )
    radial = {"similarity": "dot", "trainable": "full", "temperature": "match", "steps": steps - first, "learning_rate": learning_rate}
    return {
        "cosine": (
            stage(
                "cosine", similarity="cosine", trainable="full", temperature=COSINE_TEMPERATURE, steps=steps, learning_rate=learning_rate
            ),
        ),
        "dot": (stage("dot", similarity="dot", trainable="full", temperature=fair_dot, steps=steps, learning_rate=learning_rate),),
        "pace": (angular, stage("radial", **radial)),
        "pace-focal": (angular, stage("radial-focal", focal=FocalConfig(), **radial)),
    }


def demo_config(*, quick: bool, data: str = "python-docs") -> PaceConfig:
    """The settings of the demo.

    Args:
        quick: a smoke run of the whole path: the standard library only, a few steps, a few hundred candidates; its
            figures mean nothing.
        data: a built-in set.
    """
    if quick:
        # The standard library alone is read in seconds; all packages take a minute the first time.
        library = sysconfig.get_paths()["stdlib"]
        source = DataConfig(name=data, roots=(library,), limit_train=512, limit_queries=60, limit_candidates=200)
    else:
        source = DataConfig(name=data, limit_train=20_000, limit_queries=400, limit_candidates=1_500)
    return PaceConfig(
        data=source,
        model=ModelConfig(layers=2, max_tokens=16 if quick else 32, head=RadialHeadConfig(dimensions=256)),
        arms=arms(steps=6 if quick else 76, batch_size=16 if quick else 64, learning_rate=1e-4),
        claims=claims(),
    )


def demo(
    out: Path,
    *,
    quick: bool = False,
    data: str = "python-docs",
    resume: bool = False,
    overwrite: bool = False,
    command: str = "normwise demo",
    progress: bool = False,
    log: Callable[[str], None] | None = None,
) -> TrainResult:
    """Train the four arms on real text, compare them honestly, save the one that dev chose, and draw the page.

    Args:
        out: folder for the run.
        quick: the smoke run; see `demo_config`.
        data: `python-docs` or `python-calls`.
        resume: go on with an unfinished run in `out`.
        overwrite: replace a run in `out`.
        command: what the page shows as the command to reproduce.
        progress: draw progress bars.
        log: receives one line of words per event.

    Returns:
        What `normwise train` returns.

    Raises:
        InputError: `out` holds something else; the data set is not available.
        WorkError: training or saving failed; a later call with `resume` goes on.
    """
    config = demo_config(quick=quick, data=data)
    smoke = ("Smoke run: a few steps on a few hundred candidates, to see that everything works. Its figures mean nothing.",)
    return train(
        config, out, resume=resume, overwrite=overwrite, command=command, progress=progress, log=log, warnings=smoke if quick else ()
    )
