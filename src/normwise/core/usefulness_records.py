"""What the norm is worth on judged data: re-ranking by its powers, and telling right top hits from wrong ones."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from normwise.core.norm_records import Usefulness
from normwise.core.records import Interval, Outcome, Record


class PowerRow(Record):
    """One exponent of one prior: score = cos(q, d) * w_d^beta.

    `strength` = beta * std(log w): by how much one standard deviation of log w changes the log of a score. `chosen_on` is
    the mean of the metric on the queries that choose beta, `reported` that on the reported ones, `difference` to cosine.
    """

    beta: float
    strength: float
    chosen_on: float | None
    reported: float | None
    difference: Interval


class PriorReranking(Record):
    """One prior on candidates (norm, length, ...) under its grid of exponents and with the one that was chosen.

    `spread` is the standard deviation of log w. `chosen_betas` holds one exponent where dev queries chose it, one per fold
    under cross-validation. `reported` is the metric at the chosen exponent, `difference` its paired difference to cosine.
    """

    prior: str
    spread: float
    chosen_betas: tuple[float, ...]
    reported: Interval
    difference: Interval
    table: tuple[PowerRow, ...] = ()


class Reranking(Record):
    """What a power of the norm does to a ranking, beside what length does; figures are of `metric` on the reported queries.

    `chosen_on` is "dev", or "cross-validation" over clusters of the reported queries. `level` is the coverage of every
    interval. `norm_minus` maps each control (`length`, `popularity`, `permuted norm`) to the paired difference of the norm
    at its exponent to that control at its own. `dot_minus_cosine` is beta = 1 without any choice. `outcome` is of the claim
    that the norm helps, `claimed_size` of the claim that it adds at least `claimed_gain` times cosine's figure.
    """

    metric: str
    queries: int
    candidates: int
    clusters: int
    level: float
    chosen_on: str
    cosine: Interval
    dot_minus_cosine: Interval
    priors: Mapping[str, PriorReranking]
    norm_minus: Mapping[str, Interval] = Field(default_factory=dict)
    claimed_gain: float
    outcome: Outcome
    claimed_size: Outcome
    words: str


class ConfidenceModel(Record):
    """One logistic model of "the top hit is right", judged on queries that it was not fitted on.

    `e_aurc` = `aurc` minus that of a perfect order; lower is better for all three. `auroc` is higher for better.
    """

    features: tuple[str, ...]
    nll: float
    aurc: float
    e_aurc: float
    auroc: float | None


class Confidence(Record):
    """What the norm tells of right and wrong top hits, beyond what score, margin and length tell.

    `gains` are those of adding the norm to score and margin; `gains_beyond` those of adding it to curves of all controls;
    each maps "nll" and "e_aurc" to what the figure falls by (positive = better). `coefficients` are those of the
    standardized log norms of query and top candidate beside the controls. Without enough right and wrong answers the
    figures are None and `words` say so.
    """

    queries: int
    right: int
    clusters: int
    level: float
    controls: tuple[str, ...]
    models: Mapping[str, ConfidenceModel] = Field(default_factory=dict)
    gains: Mapping[str, Interval] = Field(default_factory=dict)
    gains_beyond: Mapping[str, Interval] = Field(default_factory=dict)
    coefficients: Mapping[str, float] = Field(default_factory=dict)
    outcome: Outcome
    words: str


class UsefulnessReport(Record):
    """What was measured on judged queries of one data set; `summary` is what a verdict reads."""

    model: str
    data: str
    split: str
    reranking: Reranking
    confidence: Confidence
    summary: Usefulness
    notes: tuple[str, ...] = ()
