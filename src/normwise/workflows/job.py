"""What a training run starts from: data that were checked, an encoder that was opened, batches that were planned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from normwise.core.config import NegativeSource, PaceConfig, StageConfig, Weighting
from normwise.core.errors import InputError, near_names
from normwise.core.records import GEOMETRY, METRICS
from normwise.core.similarity import Similarity
from normwise.data.backgrounds import set_on_background
from normwise.data.batches import BatchPlan, choose_plan, choose_plan_by_task
from normwise.data.contents import content_digest
from normwise.data.hygiene import HygieneReport, check_data
from normwise.data.load import load_data
from normwise.data.picture_columns import parse_color
from normwise.data.sets import Judged, RetrievalData, TrainingPairs
from normwise.models.freedom import norm_freedom
from normwise.models.inputs import reads
from normwise.models.loading import load_base
from normwise.models.origin import base_background
from normwise.models.structure import token_limit
from normwise.models.tokens import token_counter
from normwise.models.trainable import check_stage
from normwise.training.picture_features import PictureFeatures
from normwise.training.recipe import Recipe, confidence_temperature
from normwise.training.trackers import check_trackers
from normwise.workflows.comparison import dev_cosine_ndcg, embed

Log = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A run that may start: everything was read and found good.

    Attributes:
        config: the whole run.
        data: what was loaded, with its notes.
        pairs: the training pairs.
        dev: judged queries that decide.
        test: judged queries that are reported on, once.
        hygiene: what the data check found.
        encoder: the encoder before any training.
        warnings: what a reader of the result must know first.
        log: receives one line of words per event.
        progress: draw progress bars.
    """

    config: PaceConfig
    data: RetrievalData
    pairs: TrainingPairs
    dev: Judged
    test: Judged
    hygiene: HygieneReport
    encoder: SentenceTransformer
    warnings: tuple[str, ...]
    log: Log
    progress: bool

    @cached_property
    def data_hash(self) -> str:
        """See `data_fingerprint`; read once, whatever the number of seeds."""
        return data_fingerprint(self.data)

    @cached_property
    def features(self) -> PictureFeatures:
        """What frozen vision towers said of pictures, shared by all arms and seeds."""
        return PictureFeatures()

    def recipe(self, seed: int, work: Path) -> Recipe:
        """The recipe that trains the arms for one seed."""
        batch = self.config.evaluation_batch
        return Recipe(
            config=self.config,
            encoder=lambda: self.encoder,
            pairs=self.pairs,
            plan=self._plan,
            seed=seed,
            work=work,
            data_fingerprint=self.data_hash,
            embed=lambda model, contents, prompt: embed(model, contents, prompt, batch_size=batch, features=self.features),
            dev_cosine=dev_cosine_ndcg(self.dev, batch_size=batch, features=self.features),
            log=self.log,
            progress=self.progress,
            logs=work.parent / "logs",
            features=self.features,
        )

    def _plan(self, stage: StageConfig, batches: int, seed: int) -> Sequence[np.ndarray]:
        plan = batch_plan(self.pairs, stage, batches=batches, seed=seed)
        self.log(f"stage {stage.name!r}: {plan.words}")
        return plan.batches


def prepare_job(config: PaceConfig, *, log: Log, progress: bool) -> Job:
    """Load data and encoder, and refuse what would spoil the run, before anything is trained.

    Raises:
        InputError: data without training pairs, dev or test, or whose queries have no relevant candidate; texts that
            cannot be trained on; an encoder that cannot be opened; a stage that would train nothing or leave a query
            without a negative; a claim or a tracker that is unknown.
    """
    check_claims(config)
    check_trackers(config.report_to)
    if config.precision == "fp16" and not torch.cuda.is_available():
        raise InputError("precision fp16 needs a GPU, and none was found: use fp32 (or bf16, slow on most CPUs)")
    log(f"data: {config.data.name}")
    data = load_data(config.data, seed=0)
    _splits(config, data)
    encoder = load_base(config.model)
    # Readers left open what nobody stated: the model that training starts from goes on as it was trained, a new one sees white.
    data = set_on_background(data, parse_color(background_of(config, encoder) or "white"))
    pairs, dev, test = _splits(config, data)
    for split, judged in (("dev", dev), ("test", test)):
        if not any(judged.relevance):
            raise InputError(
                f"data {config.data.name!r}: no {split} query has a relevant candidate, so nothing can be measured: mend its judgements"
            )
    _check_stages(config, pairs, encoder)
    hygiene = check_data(data, token_counter=token_counter(encoder), max_tokens=token_limit(encoder))
    hygiene.require_ok()
    warnings = (*_norm_warning(config, encoder), *_negatives_warning(config, pairs), *hygiene.warnings)
    for warning in warnings:
        log(f"warning: {warning}")
    log(f"{len(pairs)} pairs to train on; dev {len(dev)}, test {len(test)} queries over {len(test.corpus)} candidates")
    return Job(
        config=config,
        data=data,
        pairs=pairs,
        dev=dev,
        test=test,
        hygiene=hygiene,
        encoder=encoder,
        warnings=warnings,
        log=log,
        progress=progress,
    )


def _splits(config: PaceConfig, data: RetrievalData) -> tuple[TrainingPairs, Judged, Judged]:
    """What is trained on, decided on and reported on."""
    if data.train is None or len(data.train) < 2:
        raise InputError(f"data {config.data.name!r} has fewer than two training pairs: nothing can be a negative")
    if data.dev is None or data.test is None:
        raise InputError(
            f"data {config.data.name!r} needs a dev split (to decide) and a test split (to report): name them with data.dev and data.test"
        )
    return data.train, data.dev, data.test


def background_of(config: PaceConfig, encoder: SentenceTransformer) -> str | None:
    """What shows in training where pictures are transparent: as data.background says, else the base model's, else white; None for texts."""
    return None if reads(encoder) == "texts" else config.data.background or base_background(encoder) or "white"


def _norm_warning(config: PaceConfig, encoder: SentenceTransformer) -> tuple[str, ...]:
    """Say it beforehand when stages under a similarity that reads norms meet an encoder whose norm is bound to its direction."""
    reads_norms = any(not stage.similarity.normalizes_candidate for stages in config.arms.values() for stage in stages)
    gate = norm_freedom(encoder)
    return (f"this encoder's norm cannot move on its own: {gate.words}",) if reads_norms and not gate.passed else ()


def _negatives_warning(config: PaceConfig, pairs: TrainingPairs) -> tuple[str, ...]:
    """Say it when explicit negatives stay unused; refuse settings that want some where there are none."""
    given = max((len(own) for own in pairs.negatives), default=0)
    wanted = [stage for stages in config.arms.values() for stage in stages if stage.hard_negatives]
    if wanted and not given:
        raise InputError(
            f"stage {wanted[0].name!r}: hard_negatives = {wanted[0].hard_negatives}, but the data have no column negative or negatives: "
            "set it to 0, or add them"
        )
    if given and not wanted:
        return (f"the data have explicit negatives (up to {given} per query), and no stage uses them: set hard_negatives",)
    return ()


def _check_stages(config: PaceConfig, pairs: TrainingPairs, encoder: SentenceTransformer) -> None:
    for arm, stages in config.arms.items():
        for stage in stages:
            check_stage(encoder, stage)
            _check_confidence(arm, stage, stages[: stages.index(stage) + 1])
            batch_plan(pairs, stage, batches=1, seed=0)


def _check_confidence(arm: str, stage: StageConfig, stages: tuple[StageConfig, ...]) -> None:
    """Focal weights need tau_w: their own, or the temperature of a cosine stage of the same arm."""
    focal = stage.focal
    if focal is None or focal.weighting not in (Weighting.FOCAL, Weighting.RANDOM) or focal.temperature is not None:
        return
    if stage.similarity is not Similarity.COSINE and confidence_temperature(stages) is None:
        raise InputError(
            f"arm {arm!r}, stage {stage.name!r}: focal.temperature (tau_w of the cosine confidence) is needed, since the arm has no "
            "cosine stage with a temperature to take it from"
        )


def check_claims(config: PaceConfig) -> None:
    """Refuse a claim about a figure that nobody measures, before anything is trained.

    Raises:
        InputError: names the claim, and figures with near names.
    """
    known = (*METRICS, *GEOMETRY)
    for claim in config.claims:
        if claim.figure not in known:
            raise InputError(f"claim {claim.name!r}: figure {claim.figure!r} is unknown: {near_names(claim.figure, known)}")


def batch_plan(pairs: TrainingPairs, stage: StageConfig, *, batches: int, seed: int) -> BatchPlan:
    """The batches of a stage; explicit negatives count only as far as the stage uses them."""
    negatives = tuple(own[: stage.hard_negatives] for own in pairs.negatives)
    elsewhere = stage.negatives.source is NegativeSource.UNIFORM or all(negatives)
    used = replace(pairs, negatives=negatives)
    plan = choose_plan_by_task if stage.batches == "by_task" else choose_plan
    return plan(used, batch_size=stage.batch_size, steps=batches, seed=seed, other_negatives=elsewhere)


def fingerprint(config: PaceConfig) -> str:
    """A hash of the settings that decide a result, by which a run folder knows its own.

    A merge's tolerance and the trackers do not: both may change when a run goes on.
    """
    return hashlib.sha256(config.model_dump_json(exclude={"merge_tolerance", "report_to"}).encode()).hexdigest()


def data_fingerprint(data: RetrievalData) -> str:
    """A hash of everything trained or judged on."""
    digest = hashlib.sha256()
    for part in (data.train, data.dev, data.test):
        if part is None:
            continue
        for content in (*part.queries, *part.corpus.contents):
            # Texts go in as they are: runs that began before there were pictures go on.
            digest.update(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content_digest(content))
            digest.update(b"\0")
        digest.update("\0".join(part.tasks).encode("utf-8", "surrogatepass"))
    for judged in (data.dev, data.test):
        if judged is not None:
            digest.update(repr((judged.query_ids, judged.corpus.ids, judged.relevance)).encode("utf-8", "surrogatepass"))
            digest.update(np.ascontiguousarray(judged.clusters).tobytes())
    if data.train is not None:
        digest.update(np.ascontiguousarray(data.train.positives).tobytes())
        digest.update(json.dumps(data.train.negatives).encode())
    return digest.hexdigest()
