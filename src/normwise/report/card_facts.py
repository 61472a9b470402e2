"""What a model card is made of: facts that the caller hands over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from normwise.core.records import Comparison, Decision, RunResult, StageResult
from normwise.report.svg import finite
from normwise.report.words import decided_run

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class NormSummary:
    """The distribution of the norms of one kind of vector: how many, mean, CV = sd / mean, quantiles by level."""

    count: int
    mean: float
    cv: float
    quantiles: Mapping[float, float]


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What the card says; everything comes from the caller, and what is None or empty is called not measured.

    Attributes:
        name: the model's title.
        load_from: what `SentenceTransformer(...)` is given in the examples: the hub id or folder people load it from.
        similarity: the contract that was chosen.
        temperature: what divided the score at the end of training.
        base_model: hub id of the encoder it was trained from; a path is not put in the header.
        license: identifier for the hub, such as apache-2.0.
        data: name of the training set; no text of it enters the card.
        runs: evaluated runs for the table; `decision` names the saved one.
        query_norms: norms of queries before any normalization; `candidate_norms` likewise.
        norm_freedom: whether this encoder's norm can move at all, in words.
        limits: further limits, one sentence each.
    """

    name: str
    similarity: str
    load_from: str = "path/to/this/model"
    temperature: float | None = None
    base_model: str | None = None
    license: str | None = None
    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    dimensions: int | None = None
    max_tokens: int | None = None
    query_prompt: str | None = None
    candidate_prompt: str | None = None
    data: str | None = None
    data_notes: tuple[str, ...] = ()
    runs: tuple[RunResult, ...] = ()
    stages: tuple[StageResult, ...] = ()
    decision: Decision | None = None
    comparisons: tuple[Comparison, ...] = ()
    query_norms: NormSummary | None = None
    candidate_norms: NormSummary | None = None
    norm_freedom: str | None = None
    limits: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def summarize_norms(norms: Sequence[float]) -> NormSummary | None:
    """Mean, CV and quantiles (linear between order statistics) of norms; None for an empty sample.

    Args:
        norms: lengths of raw vectors; values that are not finite are left out.

    Returns:
        The summary, with CV 0 when the mean is 0.

    Example:
        >>> summarize_norms([1.0, 2.0, 3.0]).quantiles[0.5]
        2.0
    """
    kept = sorted(finite(norms))
    if not kept:
        return None
    mean = math.fsum(kept) / len(kept)
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in kept) / len(kept))
    quantiles = {}
    for level in QUANTILES:
        at = level * (len(kept) - 1)
        low = math.floor(at)
        quantiles[level] = kept[low] + (at - low) * (kept[min(low + 1, len(kept) - 1)] - kept[low])
    return NormSummary(count=len(kept), mean=mean, cv=sd / mean if mean > 0 else 0.0, quantiles=quantiles)


def saved_run(facts: CardFacts) -> RunResult | None:
    """The run that the decision names, or None."""
    return decided_run(facts.runs, facts.decision) if facts.decision else None
