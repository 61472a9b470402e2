"""`normwise train`: data -> arms -> decision on dev -> test, once -> saved model -> page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import UNTRAINED, PaceConfig
from normwise.core.config_file import read_config_file
from normwise.core.errors import NormwiseError
from normwise.core.files import RunFolder, read_json, write_json, write_text
from normwise.core.records import Decision, RunResult, StageResult, TrainResult
from normwise.core.similarity import Similarity
from normwise.data.sets import Judged
from normwise.engine.processes import current_processes
from normwise.engine.sync import barrier, join_launch
from normwise.theory.decision import decide
from normwise.theory.popularity import one_query_per_candidate_weights
from normwise.training.recipe import Node
from normwise.workflows.comparison import (
    RANKINGS,
    Scores,
    cached_scores,
    judge_claims,
    mean_geometry,
    means_by_seed,
    metric_table,
    report_figures,
    score_split,
    split_vectors,
    stack,
    tables_by_task,
)
from normwise.workflows.job import Job, fingerprint, prepare_job
from normwise.workflows.nearest_hits import nearest_hits
from normwise.workflows.publish import publish_model, publish_page


@dataclass(frozen=True)
class Trained:
    """What a run has trained: for each arm and seed its finished stages, and the encoder they started from."""

    job: Job
    nodes: dict[str, dict[int, tuple[Node, ...]]]
    base: Node

    def last(self, arm: str, seed: int) -> Node:
        """The node whose model an arm ends with."""
        return self.base if arm == UNTRAINED else self.nodes[arm][seed][-1]

    def stages(self, arm: str) -> tuple[StageResult, ...]:
        """The stages of the arm's first seed, whose curves the page draws."""
        nodes = () if arm == UNTRAINED else self.nodes[arm][self.job.config.seeds[0]]
        return tuple(node.result for node in nodes if node.result is not None)


def train(
    config: PaceConfig | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "normwise train",
    progress: bool = False,
    log: Callable[[str], None] | None = None,
    warnings: tuple[str, ...] = (),
) -> TrainResult:
    """Train every arm of a config, decide on dev, report on test, save the chosen model, and draw the page.

    Under torchrun every process calls this; one of them writes, and all return the same.

    Args:
        config: data, encoder, arms, claims, seeds; or the same as plain values, or the path of a .toml, .json or .yaml file.
        out: the run's folder: `model/`, `report.html`, `result.json`; unfinished work stands in `work/`.
        resume: go on with an unfinished run of the same settings (finished stages are never trained again).
        overwrite: replace a run in `out`.
        command: what the page shows as the command to reproduce.
        progress: draw progress bars.
        log: receives one line of words per event.
        warnings: what a reader of the result must know first; more are added by the data check.

    Returns:
        Runs, decision, claims and where the model and the page are; the same stands in `result.json`.

    Raises:
        InputError: the data are refused, or `out` may not be used; nothing was made or deleted.
        WorkError: training or saving failed; finished stages stay, and `resume` goes on from there.
    """
    started = time.monotonic()
    config, out = read_config(config), Path(out)
    join_launch()
    main = current_processes().is_main
    say = log if log is not None and main else _silent
    folder = RunFolder.open(out, fingerprint=fingerprint(config), resume=resume, overwrite=overwrite)
    if folder.complete:
        if main:
            shutil.rmtree(out / "work", ignore_errors=True)
        say(f"{out} is complete: nothing to do (data that have changed since are not looked at; overwrite trains anew)")
        return TrainResult.model_validate(read_json(out / "result.json"))
    job = prepare_job(config, log=say, progress=progress)
    barrier()
    if main:
        folder.start()
    barrier()
    trained = _train_arms(job, out / "work")
    if main:
        _conclude(trained, out, command=command, started=started, warnings=warnings)
        folder.close()
        shutil.rmtree(out / "work", ignore_errors=True)
    barrier()
    return TrainResult.model_validate(read_json(out / "result.json"))


def read_config(config: PaceConfig | Mapping[str, Any] | str | Path) -> PaceConfig:
    """The settings of a run from any of the forms that `train` takes.

    Raises:
        InputError: names the file and every bad key.
    """
    if isinstance(config, PaceConfig):
        return config
    if isinstance(config, str | Path):
        return PaceConfig.read(read_config_file(Path(config)), source=str(config))
    return PaceConfig.read(config)


def _silent(line: str) -> None:
    """Say nothing: no listener, or another process speaks."""


def _train_arms(job: Job, work: Path) -> Trained:
    nodes: dict[str, dict[int, tuple[Node, ...]]] = {arm: {} for arm in job.config.arms}
    base = job.recipe(job.config.seeds[0], work).base()
    for seed in job.config.seeds:
        recipe = job.recipe(seed, work)
        for arm, stages in job.config.arms.items():
            job.log(f"arm {arm!r}")
            nodes[arm][seed] = recipe.arm(stages)
    return Trained(job=job, nodes=nodes, base=base)


def _conclude(trained: Trained, out: Path, *, command: str, started: float, warnings: tuple[str, ...]) -> None:
    """Decide on dev, then look at test once, save the chosen model, and report."""
    job = trained.job
    config, log = job.config, job.log
    log("scoring every arm on dev")
    dev_scores = _scores(trained, "dev", job.dev)
    table = {
        (arm, ranking): stack(scores, ranking, "ndcg@10") for arm, scores in dev_scores.items() for ranking in RANKINGS if arm != UNTRAINED
    }
    decision, comparisons = decide(table, job.dev.clusters, samples=config.bootstrap, seed=0)
    log(f"decision: {decision.run} ranked by {decision.similarity}: {decision.reason}")
    node, seed_words = _chosen_node(trained, decision, dev_scores)
    model = _open(node, config)
    log("scoring every arm on test, once")
    test_scores = _scores(trained, "test", job.test)
    outcomes, claimed = judge_claims(config.claims, test_scores, job.test.clusters, samples=config.bootstrap, seed=0)
    runs = _runs(trained, dev_scores, test_scores)
    vectors = split_vectors(model, job.test, batch_size=config.evaluation_batch, progress=False, features=job.features)
    model_folder = publish_model(model, out / "model", job=job, decision=decision, runs=runs, vectors=vectors)
    result = TrainResult(
        runs=runs,
        decision=decision.model_copy(update={"reason": decision.reason + seed_words}),
        comparisons=(*comparisons, *claimed),
        claims=outcomes,
        data=job.data.name,
        data_notes=job.data.notes,
        warnings=(*warnings, *job.warnings),
        hygiene=job.hygiene.model_dump(mode="json"),
        settings=config.model_dump(mode="json"),
        figures=report_figures(*vectors, seed=0),
        nearest=nearest_hits(*vectors, job.test, ranking=Similarity(decision.similarity).ranking.value, seed=0),
        command=command,
        versions=versions(),
        model=str(model_folder),
        report=None,
        seconds=time.monotonic() - started,
    )
    write_json(out / "result.json", result.model_dump(mode="json"))
    _draw(result, out, log)


def _open(node: Node, config: PaceConfig) -> SentenceTransformer:
    return SentenceTransformer(str(node.model), local_files_only=True, trust_remote_code=config.model.trust_remote_code)


def _draw(result: TrainResult, out: Path, log: Callable[[str], None]) -> None:
    """Draw the page; when that fails, the model and the result are already safe, and the failure is said."""
    page = out / "report.html"
    result = result.model_copy(update={"report": str(page)})
    try:
        write_text(page, publish_page(result))
    except (NormwiseError, ImportError, OSError, ValueError) as error:
        log(f"the page could not be drawn ({error}); the model and result.json are saved")
        return
    write_json(out / "result.json", result.model_dump(mode="json"))


def _scores(trained: Trained, split: str, judged: Judged) -> dict[str, list[Scores]]:
    """Scores by arm and seed; the untrained encoder stands among the arms."""
    batch = trained.job.config.evaluation_batch

    def score(node: Node) -> Scores:
        model = _open(node, trained.job.config)
        vectors = split_vectors(model, judged, batch_size=batch, progress=False, features=trained.job.features)
        return score_split(*vectors, judged, seed=0)

    scores: dict[str, list[Scores]] = {}
    for arm in (UNTRAINED, *trained.job.config.arms):
        for seed in trained.job.config.seeds:
            node = trained.last(arm, seed)
            scores.setdefault(arm, []).append(cached_scores(node.folder, split, lambda node=node: score(node)))
    return scores


def _chosen_node(trained: Trained, decision: Decision, scores: dict[str, list[Scores]]) -> tuple[Node, str]:
    """The model to save, the chosen arm's best seed on dev, and a sentence that says so."""
    seeds = trained.job.config.seeds
    arm = decision.run or next(iter(trained.job.config.arms))
    ranking = Similarity(decision.similarity).ranking.value
    means = [float(np.nanmean(one.metrics[ranking]["ndcg@10"])) for one in scores[arm]]
    seed = seeds[int(np.argmax(means))]
    words = f". Of its {len(seeds)} seeds, the saved model is seed {seed}, the best on dev." if len(seeds) > 1 else ""
    return trained.last(arm, seed), words


def _runs(trained: Trained, dev: dict[str, list[Scores]], test: dict[str, list[Scores]]) -> tuple[RunResult, ...]:
    job, samples = trained.job, trained.job.config.bootstrap
    clusters, weights = job.test.clusters, one_query_per_candidate_weights(job.test.relevance)
    return tuple(
        RunResult(
            name=arm,
            similarity=ranking,
            metrics=metric_table(test[arm], ranking, clusters, samples=samples),
            dev=metric_table(dev[arm], ranking, job.dev.clusters, samples=samples),
            one_query_per_candidate={} if weights is None else metric_table(test[arm], ranking, clusters, samples=samples, weights=weights),
            seeds=job.config.seeds if arm != UNTRAINED else (),
            by_seed=means_by_seed(test[arm], ranking) if arm != UNTRAINED else {},
            stages=trained.stages(arm),
            geometry=mean_geometry(test[arm]),
            by_task=tables_by_task(test[arm], ranking, job.test, samples=samples),
        )
        for arm in (UNTRAINED, *job.config.arms)
        for ranking in RANKINGS
    )


def versions() -> dict[str, str]:
    """The versions that decide a result."""
    found = {}
    for name in ("normwise", "torch", "transformers", "sentence-transformers", "peft", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
