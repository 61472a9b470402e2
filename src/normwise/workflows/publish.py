"""Saving what a run chose: the model with its contract and card, then the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import LoraConfig, PaceConfig
from normwise.core.records import Decision, RunResult, StageResult, TrainResult
from normwise.core.similarity import Similarity
from normwise.models.contract import Contract, describe_encoder, norm_distribution
from normwise.models.freedom import norm_freedom
from normwise.models.loading import base_notes, base_source
from normwise.models.saving import save_encoder
from normwise.report.card import CardFacts, render_card, summarize_norms
from normwise.theory.directions import norms
from normwise.workflows.job import Job, background_of


def describe_chosen(
    model: SentenceTransformer, job: Job, decision: Decision, stage: StageResult | None, candidates: np.ndarray
) -> Contract:
    """The contract of the chosen model: how it was made and how it is to be scored.

    Args:
        model: the chosen model, adapters merged.
        job: the whole run.
        decision: run and similarity that dev chose.
        stage: the last stage of that run; None for the untrained encoder.
        candidates: (N, D) raw vectors of test candidates, whose norms are described.
    """
    source, revision = base_source(job.encoder)
    # A temperature divides the scores of the similarity it was trained with, and no others.
    trained_with = stage is not None and stage.similarity == decision.similarity
    contract = describe_encoder(
        model,
        similarity=Similarity(decision.similarity),
        temperature=stage.temperature if stage is not None and trained_with else None,
        lora=_lora(job.config, decision),
        norms=norm_distribution(norms(candidates), of="the candidates of the test split"),
        norm_freedom=norm_freedom(model).words,
        background=background_of(job.config, job.encoder),
    )
    return contract.model_copy(update={"base_model": source, "base_revision": revision, "base_notes": base_notes(job.encoder)})


def _lora(config: PaceConfig, decision: Decision) -> LoraConfig | None:
    stages = config.arms.get(decision.run or "", ())
    settings = [stage.lora_settings for stage in stages if stage.trainable == "lora"]
    return settings[-1] if settings else None


def publish_model(
    model: SentenceTransformer,
    out: Path,
    *,
    job: Job,
    decision: Decision,
    runs: tuple[RunResult, ...],
    vectors: tuple[np.ndarray, np.ndarray],
) -> Path:
    """Save the chosen model as a folder that plain sentence-transformers loads, checked by its probe vectors.

    Args:
        model: the chosen model.
        out: the folder; replaced when an interrupted run left one.
        job: the whole run.
        decision: run and similarity that dev chose.
        runs: for the card's table.
        vectors: raw vectors of test queries and candidates, for the norms on the card.

    Returns:
        `out`.

    Raises:
        WorkError: the disk refused, or the saved model answers differently; nothing then stands at `out`.
    """
    chosen = [run for run in runs if run.name == decision.run]
    stage = chosen[0].stages[-1] if chosen and chosen[0].stages else None
    queries, candidates = vectors
    contract = describe_chosen(model, job, decision, stage, candidates)
    card = render_card(
        CardFacts(
            name=f"{decision.run} on {job.config.data.name}",
            similarity=contract.similarity.value,
            load_from=str(out),
            temperature=contract.temperature,
            base_model=contract.base_model,
            dimensions=contract.dimensions,
            max_tokens=contract.max_tokens,
            query_prompt=contract.query_prompt or None,
            candidate_prompt=contract.candidate_prompt or None,
            data=job.config.data.name,
            data_notes=job.data.notes,
            runs=runs,
            stages=chosen[0].stages if chosen else (),
            decision=decision,
            query_norms=summarize_norms([float(value) for value in norms(queries)]),
            candidate_norms=summarize_norms([float(value) for value in norms(candidates)]),
            norm_freedom=contract.norm_freedom,
            versions=contract.versions,
        )
    )
    save_encoder(model, out, contract=contract, card_text=card, overwrite=True)
    return out


def publish_page(result: TrainResult) -> str:
    """The page of a run, from its saved result alone.

    Raises:
        MissingExtraError: what draws pages is not installed.
    """
    from normwise.report.page import render_page

    return render_page(result)
