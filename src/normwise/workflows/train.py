"""`normwise train`: data -> arms -> decision on dev -> test, once -> saved model -> page."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import NegativeSource, PaceConfig, StageConfig
from normwise.core.errors import InputError, NormwiseError, near_names
from normwise.core.files import RunFolder, read_json, write_json, write_text
from normwise.core.records import GEOMETRY, METRICS, Decision, RunResult, StageResult, TrainResult
from normwise.core.similarity import Similarity
from normwise.data.batches import BatchPlan, choose_plan
from normwise.data.hygiene import HygieneReport, check_data
from normwise.data.load import load_data
from normwise.data.sets import Judged, RetrievalData, TrainingPairs
from normwise.engine.processes import current_processes
from normwise.engine.sync import barrier, join_launch
from normwise.models.loading import load_base
from normwise.theory.decision import decide
from normwise.training.recipe import Node, Recipe
from normwise.workflows.comparison import (
    RANKINGS,
    Scores,
    cached_scores,
    dev_cosine_ndcg,
    embed,
    judge_claims,
    mean_geometry,
    metric_table,
    report_figures,
    score_split,
    split_vectors,
    stack,
)
from normwise.workflows.dry_run import token_counter
from normwise.workflows.publish import publish_model, publish_page

BASE = "untrained"


@dataclass(frozen=True)
class Trained:
    """All trained nodes of a run: arm -> seed -> its stages."""

    config: PaceConfig
    data: RetrievalData
    nodes: dict[str, dict[int, tuple[Node, ...]]]
    base: Node

    def last(self, arm: str, seed: int) -> Node:
        """The node whose model an arm ends with."""
        return self.base if arm == BASE else self.nodes[arm][seed][-1]


def train(
    config: PaceConfig,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "normwise train",
    progress: bool = False,
    log: Callable[[str], None] | None = None,
) -> TrainResult:
    """Train every arm of a config, decide on dev, report on test, save the chosen model, and draw the page.

    Args:
        config: data, encoder, arms, claims, seeds.
        out: the run's folder: `model/`, `report.html`, `result.json`; unfinished work stands in `work/`.
        resume: go on with an unfinished run of the same settings (finished stages are never trained again).
        overwrite: replace a run in `out`.
        command: what the page shows as the command to reproduce.
        progress: draw progress bars.
        log: receives one line of words per event.

    Returns:
        Runs, decision, claims and where the model and the page are; the same stands in `result.json`.

    Raises:
        InputError: the data are refused, or `out` may not be used.
        WorkError: training or saving failed; finished stages stay, and `resume` goes on from there.
    """
    started = time.monotonic()
    say = log or (lambda line: None)
    join_launch()
    main = current_processes().is_main
    check_claims(config)
    folder = _open(out, config, resume=resume, overwrite=overwrite)
    if folder.complete:
        say(f"{out} is complete: nothing to do")
        return TrainResult.model_validate(read_json(out / "result.json"))
    data, hygiene = _checked_data(config, say)
    barrier()
    if main:
        folder.start()
    barrier()
    trained = _train_arms(config, data, out / "work", progress=progress, log=say)
    if main:
        _conclude(trained, hygiene, out, command=command, started=started, log=say)
        folder.close()
        shutil.rmtree(out / "work", ignore_errors=True)
    barrier()
    return TrainResult.model_validate(read_json(out / "result.json"))


def check_claims(config: PaceConfig) -> None:
    """Refuse a claim about a figure that nobody measures, before anything is trained.

    Raises:
        InputError: names the claim, and figures with near names.
    """
    known = (*METRICS, *GEOMETRY)
    for claim in config.claims:
        if claim.figure not in known:
            raise InputError(f"claim {claim.name!r}: figure {claim.figure!r} is unknown: {near_names(claim.figure, known)}")


def _open(out: Path, config: PaceConfig, *, resume: bool, overwrite: bool) -> RunFolder:
    fingerprint = hashlib.sha256(config.model_dump_json().encode()).hexdigest()
    return RunFolder.open(out, fingerprint=fingerprint, resume=resume, overwrite=overwrite)


def _checked_data(config: PaceConfig, log: Callable[[str], None]) -> tuple[RetrievalData, HygieneReport]:
    """Load the data and refuse what would spoil the run, before anything is trained."""
    log(f"data: {config.data.name}")
    data = load_data(config.data, seed=0)
    if data.train is None or len(data.train.queries) < 2:
        raise InputError(f"data {config.data.name!r} has fewer than two training pairs: nothing can be a negative")
    if data.dev is None or data.test is None:
        raise InputError(
            f"data {config.data.name!r} needs a dev split (to decide) and a test split (to report): name them with data.dev and data.test"
        )
    encoder = load_base(config.model)
    report = check_data(data, token_counter=token_counter(encoder), max_tokens=encoder.max_seq_length)
    report.require_ok()
    for warning in report.warnings:
        log(f"data: {warning}")
    log(
        f"{len(data.train.queries)} pairs to train on; dev {len(data.dev.queries)}, test {len(data.test.queries)} queries "
        f"over {len(data.test.corpus.texts)} candidates"
    )
    return data, report


def _train_arms(config: PaceConfig, data: RetrievalData, work: Path, *, progress: bool, log: Callable[[str], None]) -> Trained:
    assert_data = _splits(data)
    nodes: dict[str, dict[int, tuple[Node, ...]]] = {arm: {} for arm in config.arms}
    base: Node | None = None
    for seed in config.seeds:
        recipe = _recipe(config, data, assert_data[0], work, seed, progress=progress, log=log)
        base = recipe.base()
        for arm, stages in config.arms.items():
            log(f"arm {arm!r}")
            nodes[arm][seed] = recipe.arm(stages)
    if base is None:
        raise InputError("seeds must not be empty")
    return Trained(config=config, data=data, nodes=nodes, base=base)


def _recipe(
    config: PaceConfig, data: RetrievalData, dev: Judged, work: Path, seed: int, *, progress: bool, log: Callable[[str], None]
) -> Recipe:
    pairs = data.train
    if pairs is None:
        raise InputError(f"data {config.data.name!r} has no training pairs")

    def plan(stage: StageConfig, batches: int, plan_seed: int) -> Sequence[np.ndarray]:
        return batch_plan(pairs, stage, batches=batches, seed=plan_seed).batches

    return Recipe(
        config=config,
        pairs=pairs,
        plan=plan,
        seed=seed,
        work=work,
        data_fingerprint=data_fingerprint(data),
        embed=lambda model, texts, prompt: embed(model, texts, prompt, batch_size=config.evaluation_batch),
        dev_cosine=dev_cosine_ndcg(dev, batch_size=config.evaluation_batch),
        log=log,
        progress=progress,
    )


def batch_plan(pairs: TrainingPairs, stage: StageConfig, *, batches: int, seed: int) -> BatchPlan:
    """The batches of a stage; explicit negatives count only as far as the stage uses them."""
    negatives = tuple(own[: stage.hard_negatives] for own in pairs.negatives)
    elsewhere = stage.negatives.source is NegativeSource.UNIFORM or all(negatives)
    used = replace(pairs, negatives=negatives)
    return choose_plan(used, batch_size=stage.batch_size, steps=batches, seed=seed, other_negatives=elsewhere)


def data_fingerprint(data: RetrievalData) -> str:
    """A hash of everything trained or judged on."""
    digest = hashlib.sha256()
    for part in (data.train, data.dev, data.test):
        if part is None:
            continue
        for text in (*part.queries, *part.corpus.texts):
            digest.update(text.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
    if data.train is not None:
        digest.update(np.ascontiguousarray(data.train.positives).tobytes())
        digest.update(json.dumps(data.train.negatives).encode())
    return digest.hexdigest()


def _splits(data: RetrievalData) -> tuple[Judged, Judged]:
    if data.dev is None or data.test is None:
        raise InputError(f"data {data.name!r} needs a dev and a test split")
    return data.dev, data.test


def _scores(trained: Trained, split: str, judged: Judged) -> dict[str, list[Scores]]:
    """Arm -> scores by seed; the untrained encoder stands among the arms."""
    config = trained.config
    scores: dict[str, list[Scores]] = {}
    for arm in (BASE, *config.arms):
        for seed in config.seeds:
            node = trained.last(arm, seed)

            def compute(node: Node = node) -> Scores:
                model = SentenceTransformer(str(node.model), local_files_only=True)
                queries, candidates = split_vectors(model, judged, batch_size=config.evaluation_batch, progress=False)
                return score_split(queries, candidates, judged, seed=0)

            scores.setdefault(arm, []).append(cached_scores(node.folder, split, compute))
    return scores


def _conclude(trained: Trained, hygiene: HygieneReport, out: Path, *, command: str, started: float, log: Callable[[str], None]) -> None:
    """Decide on dev, then look at test once, save the chosen model, and report."""
    config, data = trained.config, trained.data
    dev, test = _splits(data)
    log("scoring every arm on dev")
    dev_scores = _scores(trained, "dev", dev)
    table = {(arm, ranking): stack(scores, ranking, "ndcg@10") for arm, scores in dev_scores.items() for ranking in RANKINGS if arm != BASE}
    decision, comparisons = decide(table, dev.clusters, samples=config.bootstrap, seed=0)
    log(f"decision: {decision.run} ranked by {decision.similarity}: {decision.reason}")
    chosen, seed = _chosen_node(trained, decision, dev_scores)
    model = SentenceTransformer(str(chosen.model), local_files_only=True)
    log("scoring every arm on test, once")
    test_scores = _scores(trained, "test", test)
    outcomes, claimed = judge_claims(config.claims, test_scores, test.clusters, samples=config.bootstrap, seed=0)
    runs = _runs(trained, dev_scores, test_scores)
    queries, candidates = split_vectors(model, test, batch_size=config.evaluation_batch, progress=False)
    model_folder = publish_model(
        model, out / "model", config=config, decision=decision, runs=runs, vectors=(queries, candidates), notes=data.notes
    )
    result = TrainResult(
        runs=runs,
        decision=decision.model_copy(update={"reason": decision.reason + _seed_words(config, seed)}),
        comparisons=(*comparisons, *claimed),
        claims=outcomes,
        data=data.name,
        data_notes=data.notes,
        hygiene=hygiene.model_dump(mode="json"),
        settings=config.model_dump(mode="json"),
        figures=report_figures(queries, candidates, seed=0),
        command=command,
        versions=versions(),
        model=str(model_folder),
        report=None,
        seconds=time.monotonic() - started,
    )
    write_json(out / "result.json", result.model_dump(mode="json"))
    _draw(result, out, log)


def _draw(result: TrainResult, out: Path, log: Callable[[str], None]) -> None:
    """Draw the page; when that fails, the model and the result are already safe, and the failure is said."""
    page = out / "report.html"
    result = result.model_copy(update={"report": str(page)})
    try:
        write_text(page, publish_page(result))
    except (NormwiseError, ImportError, OSError, ValueError) as error:
        log(f"the page could not be drawn ({error}); the model and result.json are saved")
        result = result.model_copy(update={"report": None})
    write_json(out / "result.json", result.model_dump(mode="json"))


def _chosen_node(trained: Trained, decision: Decision, scores: dict[str, list[Scores]]) -> tuple[Node, int]:
    """The model to save: the chosen arm's best seed on dev."""
    arm = decision.run or next(iter(trained.config.arms))
    ranking = Similarity(decision.similarity).ranking.value
    means = [float(np.nanmean(one.metrics[ranking]["ndcg@10"])) for one in scores[arm]]
    seed = trained.config.seeds[int(np.argmax(means))]
    return trained.last(arm, seed), seed


def _seed_words(config: PaceConfig, seed: int) -> str:
    if len(config.seeds) == 1:
        return ""
    return f" Of its {len(config.seeds)} seeds, the saved model is seed {seed}, the best on dev."


def _runs(trained: Trained, dev: dict[str, list[Scores]], test: dict[str, list[Scores]]) -> tuple[RunResult, ...]:
    config = trained.config
    dev_split, test_split = _splits(trained.data)
    runs = []
    for arm in (BASE, *config.arms):
        for ranking in RANKINGS:
            runs.append(
                RunResult(
                    name=arm,
                    similarity=ranking,
                    metrics=metric_table(test[arm], ranking, test_split.clusters, samples=config.bootstrap, seed=0),
                    dev=metric_table(dev[arm], ranking, dev_split.clusters, samples=config.bootstrap, seed=0),
                    seeds=config.seeds if arm != BASE else (),
                    stages=_stage_results(trained, arm),
                    geometry=mean_geometry(test[arm]),
                )
            )
    return tuple(runs)


def _stage_results(trained: Trained, arm: str) -> tuple[StageResult, ...]:
    """The stages of the arm's first seed, whose curves the page draws."""
    if arm == BASE:
        return ()
    nodes = trained.nodes[arm][trained.config.seeds[0]]
    return tuple(node.result for node in nodes if node.result is not None)


def versions() -> dict[str, str]:
    """The versions that decide a result."""
    found = {}
    for name in ("normwise", "torch", "transformers", "sentence-transformers", "peft", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
