"""The recipe: stages one after the other, with merges, gates and shared beginnings, each kept when it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from normwise.core.config import PaceConfig, StageConfig, Trainable
from normwise.core.errors import InputError
from normwise.core.files import read_json, whole_folder, write_json
from normwise.core.records import GateReport, StageResult
from normwise.core.similarity import Similarity
from normwise.data.contents import Content
from normwise.data.sets import TrainingPairs
from normwise.data.vectors import write_array
from normwise.engine.processes import current_processes
from normwise.engine.sync import barrier
from normwise.models.freedom import norm_freedom
from normwise.models.lora import merge_lora
from normwise.models.probe import PROBE_TEXTS
from normwise.models.saving import save_plain
from normwise.objectives.temperature import matched_temperature
from normwise.theory.directions import norms
from normwise.training.gates import angular_gate, logit_gate
from normwise.training.picture_features import PictureFeatures
from normwise.training.stage import Plan, StageRun, prepare, prune_checkpoints, train_stage
from normwise.training.trainer import TEMPERATURE, complete_checkpoints, load_checkpoint

Embed = Callable[[SentenceTransformer, Sequence[Content], str | None], np.ndarray]
CALIBRATION_PAIRS = 64


def confidence_temperature(stages: Sequence[StageConfig]) -> float | None:
    """tau_w of focal weights that give none: the temperature of the arm's first cosine stage, if it has a number.

    Example:
        >>> confidence_temperature([StageConfig(name="angular", temperature=0.1), StageConfig(name="b", temperature=0.2)])
        0.1
    """
    for stage in stages:
        if stage.similarity is Similarity.COSINE and stage.temperature.value is not None:
            return stage.temperature.value
    return None


@dataclass(frozen=True)
class Node:
    """One finished stage: its place on disk and what is known of it.

    Attributes:
        key: names everything that decided this stage's weights.
        folder: holds `model/` (plain sentence-transformers, adapters merged), `stage.json` and `dev_cosine.npy`.
        result: curve, gates, final temperature.
    """

    key: str
    folder: Path
    result: StageResult | None

    @property
    def model(self) -> Path:
        """The folder that plain sentence-transformers loads."""
        return self.folder / "model"


@dataclass(frozen=True)
class Start:
    """What a stage starts from.

    Attributes:
        model: the folder of the model.
        dev_cosine: file of its nDCG@10 under cosine of each dev query.
        temperature: what divided the scores there; None before any training.
    """

    model: Path
    dev_cosine: Path
    temperature: float | None


@dataclass(frozen=True)
class Recipe:
    """Runs arms of a config for one seed.

    Attributes:
        config: the whole run.
        encoder: opens the encoder before any training, as `config.model` describes it.
        pairs: the training pairs.
        plan: see `StageRun.plan`.
        seed: of this repetition.
        work: folder for stages; what is finished there is never trained again.
        data_fingerprint: a hash of the training data.
        embed: (model, contents, prompt) -> (B, D) raw vectors, for gates and matching.
        dev_cosine: model -> (B,) nDCG@10 under cosine of each dev query, or None without a dev set.
        log: receives one line of words per event.
        progress: draw progress bars.
        observers: log norms and residuals in training.
        logs: folder for TensorBoard's events.
        features: what frozen vision towers said of pictures, shared by stages, arms and seeds.
    """

    config: PaceConfig
    encoder: Callable[[], SentenceTransformer]
    pairs: TrainingPairs
    plan: Plan
    seed: int
    work: Path
    data_fingerprint: str
    embed: Embed
    dev_cosine: Callable[[SentenceTransformer], np.ndarray] | None
    log: Callable[[str], None]
    progress: bool = False
    observers: bool = True
    logs: Path | None = None
    features: PictureFeatures = field(default_factory=PictureFeatures)

    def base(self) -> Node:
        """The encoder before any training, as a finished node."""
        node = self._node(())
        if not (node.folder / "stage.json").is_file():
            self._keep(node, self.encoder(), None)
        return node

    def arm(self, stages: Sequence[StageConfig]) -> tuple[Node, ...]:
        """Train the stages of an arm; beginnings that another arm has trained are taken over.

        Returns:
            One finished node per stage.
        """
        nodes: list[Node] = []
        before = self.base()
        for index in range(len(stages)):
            before = self._stage(tuple(stages[: index + 1]), before)
            nodes.append(before)
        return tuple(nodes)

    def _node(self, stages: Sequence[StageConfig]) -> Node:
        decided = {
            "model": self.config.model.model_dump(mode="json"),
            "data": self.data_fingerprint,
            "seed": self.seed if stages else None,
            "precision": self.config.precision,
            "stages": [stage.model_dump(mode="json") for stage in stages],
            "confidence_temperature": confidence_temperature(stages),
        }
        digest = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:12]
        name = "base" if not stages else f"seed{self.seed}-{'-'.join(stage.name for stage in stages)}"
        folder = self.work / f"{name}-{digest}"
        marker = folder / "stage.json"
        result = None
        if marker.is_file():
            saved = read_json(marker)["result"]
            result = None if saved is None else StageResult.model_validate(saved)
        return Node(key=digest, folder=folder, result=result)

    def _open(self, folder: Path) -> SentenceTransformer:
        return SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=self.config.model.trust_remote_code)

    def _stage(self, stages: tuple[StageConfig, ...], before: Node) -> Node:
        node, stage = self._node(stages), stages[-1]
        if node.result is not None:
            self.log(f"stage {stage.name!r} (seed {self.seed}) is done already: taken over")
            return node
        self.log(
            f"stage {stage.name!r} (seed {self.seed}): {stage.similarity}, {stage.trainable}, {stage.steps} steps of {stage.batch_size}"
        )
        start = self._start(stage, stages[:-1], before)
        model = self._open(start.model)
        temperature, gates = self._switch_once(node, model, stages, start)
        run = self._run(node, stages, self._keep_steps(stages))
        if done := max(complete_checkpoints(node.folder / "checkpoints"), default=0):
            self.log(f"stage {stage.name!r} goes on from step {done}")
        result = train_stage(model, stage, run, node.folder / "checkpoints", temperature=temperature)
        if stage.trainable is Trainable.LORA:
            gates.append(merge_lora(model, PROBE_TEXTS, tolerance=self.config.merge_tolerance))
        node = replace(node, result=result.model_copy(update={"gates": tuple(gates)}))
        node = self._keep(node, model, before)
        prune_checkpoints(node.folder / "checkpoints", run.keep_steps)
        return node

    def _run(self, node: Node, stages: tuple[StageConfig, ...], keep_steps: tuple[int, ...]) -> StageRun:
        return StageRun(
            pairs=self.pairs,
            plan=self.plan,
            seed=self.seed,
            confidence_temperature=confidence_temperature(stages),
            observe_every=self.config.observe_every if self.observers else None,
            precision=self.config.precision,
            report_to=self.config.report_to,
            logs=None if self.logs is None else self.logs / node.folder.name,
            progress=self.progress,
            keep_steps=keep_steps,
            say=None if self.progress else self.log,
            features=self.features,
        )

    def _keep_steps(self, stages: tuple[StageConfig, ...]) -> tuple[int, ...]:
        """Checkpoints of this stage that a later stage of any arm starts from."""
        steps = set()
        for arm in self.config.arms.values():
            if len(arm) > len(stages) and arm[: len(stages)] == stages:
                start = arm[len(stages)].start_step
                if start is not None and start < stages[-1].steps:
                    steps.add(start)
        return tuple(sorted(steps))

    def _start(self, stage: StageConfig, before_stages: tuple[StageConfig, ...], before: Node) -> Start:
        """Where a stage starts: the end of the stage before, or its checkpoint, merged and exported."""
        if before.result is None or stage.start_step is None or stage.start_step >= before_stages[-1].steps:
            return Start(before.model, before.folder / "dev_cosine.npy", None if before.result is None else before.result.temperature)
        export = before.folder / f"model-{stage.start_step}"
        cosine, temperature = before.folder / f"dev_cosine-{stage.start_step}.npy", before.folder / f"start-{stage.start_step}.json"
        if not temperature.is_file():
            if current_processes().is_main:
                self._export_checkpoint(stage, before_stages, before, export, cosine, temperature)
            barrier()
        return Start(export, cosine, float(read_json(temperature)["temperature"]))

    def _export_checkpoint(
        self, stage: StageConfig, before_stages: tuple[StageConfig, ...], before: Node, export: Path, cosine: Path, temperature: Path
    ) -> None:
        checkpoint = complete_checkpoints(before.folder / "checkpoints").get(stage.start_step or 0)
        if checkpoint is None:
            raise InputError(
                f"stage {stage.name!r}: checkpoint {stage.start_step} of stage {before_stages[-1].name!r} is gone: "
                "pass --overwrite to train again"
            )
        parent = self._node(before_stages[:-1])
        model = self._open(parent.model)
        prepare(model, before_stages[-1], seed=self.seed)
        load_checkpoint(model, checkpoint)
        if before_stages[-1].trainable is Trainable.LORA:
            merge_lora(model, PROBE_TEXTS, tolerance=self.config.merge_tolerance)
        self._export(model, export)
        if self.dev_cosine is not None:
            write_array(cosine, self.dev_cosine(model))
        write_json(temperature, {"temperature": read_json(checkpoint / TEMPERATURE)["temperature"]})

    def _switch_once(
        self, node: Node, model: SentenceTransformer, stages: tuple[StageConfig, ...], start: Start
    ) -> tuple[float | None, list[GateReport]]:
        """The switch as it was measured first: a resumed stage must not start from another temperature."""
        path = node.folder / "switch.json"
        if not path.is_file():
            temperature, gates = self._switch(model, stages, start)
            if current_processes().is_main:
                write_json(path, {"temperature": temperature, "gates": [gate.model_dump(mode="json") for gate in gates]})
        barrier()
        saved = read_json(path)
        return saved["temperature"], [GateReport.model_validate(gate) for gate in saved["gates"]]

    def _switch(self, model: SentenceTransformer, stages: tuple[StageConfig, ...], start: Start) -> tuple[float | None, list[GateReport]]:
        """Measure what the switch to this stage needs, and report its gates."""
        gates = [norm_freedom(model)]
        stage, settings = stages[-1], stages[-1].temperature
        reference = (stages[-2].similarity, start.temperature) if len(stages) > 1 and start.temperature is not None else None
        matches_cosine = settings.mode == "match" and settings.value is not None
        to_match = (Similarity.COSINE, settings.value) if matches_cosine else reference
        if to_match is None or to_match[1] is None:
            return None, gates
        queries, candidates = self._calibration_vectors(model)
        lengths = torch.from_numpy(norms(queries)), torch.from_numpy(norms(candidates))
        measured = matched_temperature(to_match[1], *lengths, previous=to_match[0], following=stage.similarity)
        if reference is not None:
            temperature = measured if settings.mode == "match" else float(settings.value or measured)
            gates.append(logit_gate(queries, candidates, before=reference, after=(stage.similarity, temperature)))
            if self.dev_cosine is not None:
                gates.append(angular_gate(np.load(self._node(stages[:-2]).folder / "dev_cosine.npy"), np.load(start.dev_cosine)))
        return measured, gates

    def _calibration_vectors(self, model: SentenceTransformer) -> tuple[np.ndarray, np.ndarray]:
        """Raw vectors of some training pairs, on which norms at the switch are measured."""
        rows = np.random.default_rng(self.seed).permutation(len(self.pairs.queries))[:CALIBRATION_PAIRS]
        prompts = model.prompts or {}
        queries = self.embed(model, [self.pairs.queries[row] for row in rows], prompts.get("query") or None)
        positives = [self.pairs.corpus.contents[self.pairs.positives[row]] for row in rows]
        return queries, self.embed(model, positives, prompts.get("document") or None)

    def _keep(self, node: Node, model: SentenceTransformer, before: Node | None) -> Node:
        """Write a finished stage: the model first, the marker last."""
        if current_processes().is_main:
            node.folder.mkdir(parents=True, exist_ok=True)
            self._export(model, node.model)
            if self.dev_cosine is not None:
                write_array(node.folder / "dev_cosine.npy", self.dev_cosine(model))
            result: Any = None if node.result is None else node.result.model_dump(mode="json")
            write_json(node.folder / "stage.json", {"key": node.key, "after": before.key if before else None, "result": result})
        barrier()
        return node

    def _export(self, model: SentenceTransformer, folder: Path) -> None:
        with whole_folder(folder, overwrite=True) as work:
            save_plain(model, work)
