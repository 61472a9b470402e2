"""What `normwise negatives` found: risks at each number of negatives, their limit, and what to change."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from normwise.core.records import Record


class Span(Record):
    """An estimate with its interval; None where it is undefined."""

    estimate: float | None
    ci_low: float | None
    ci_high: float | None


class CrossEntropy(Span):
    """H, the limit of the risk as k goes to infinity, in nats; `method` is "jackknife", or "none" where the pool is too small to tell."""

    method: str


class RiskStep(Record):
    """By how much the risk changes from k negatives to another number of them."""

    k: int
    to: int
    change: float | None
    ci_low: float | None
    ci_high: float | None


class Spread(Record):
    """Of e^score over the negatives: cv2 = variance / mean^2, over queries."""

    median: float
    p90: float
    mean: float


class RegimeRecord(Record):
    """Where 1/k starts: `start` for InfoNCE, `decoupled_start` for its limit; `constant` is C_1, k (H - R_k) for large k."""

    positive_weight: float | None
    decoupled_start: float | None
    start: float | None
    reached: bool
    extrapolates: bool
    constant: float | None


class FitRecord(Record):
    """R_k = limit - constant / k over the k of the curve from the start of that regime; None where fewer than three lie there."""

    limit: float | None
    constant: float | None
    points: int


class BoundsRecord(Record):
    """Proven bounds on H - R_k at `k`, in nats: `low` and `high`, the least of `published`, `uniform` and `scores`.

    `vacuous` says that `high` is hardly better than the range of the scores. `instance` is what the spread of the scores at hand would
    bound it by: no proof, since that spread is estimated.
    """

    k: int
    largest_score: float
    low: float
    high: float
    published: float | None
    uniform: float | None
    scores: float
    instance: float | None
    vacuous: bool


class TemperatureRow(Record):
    """What a temperature makes of the same vectors, at the largest k of the sweep.

    `change` is the cross-entropy less that at the temperature that was given, of the same queries and negatives, and `change_ci` is as
    wide as the errors of both limits make it; `residuals` are
    quantiles .1, .5, .9 of 1 - p_+; `effective_negatives` the median of 1 / sum w^2.
    """

    temperature: float
    risk: float
    risk_ci: tuple[float | None, float | None]
    cross_entropy: float | None
    cross_entropy_ci: tuple[float | None, float | None]
    change: float | None
    change_ci: tuple[float | None, float | None]
    recall_at_1: float = Field(serialization_alias="recall@1", validation_alias=AliasChoices("recall@1", "recall_at_1"))
    residuals: tuple[float, ...]
    effective_negatives: float
    loss_floor: float | None


class FalseNegativeRecord(Record):
    """How many negatives may be positives in truth: at most so large a share, by their scores; `above_own` score above the positive."""

    at_most: float | None
    ci_high: float | None
    above_own: float
    expected_at_k: float | None


class PoolRecord(Record):
    """The negatives: `kind` "positives of other queries" or "pool"; `masked` pairs are a query's own positive among them, or a copy.

    `collision` is the share of queries that meet their own positive, or a copy, among `at` others of their batch, where an epoch goes
    through these queries' rows in a shuffled order: 0 where all positives are distinct. `shift` the Kolmogorov-Smirnov distance between
    scores with the pool and with positives of other queries.
    """

    kind: str
    size: int
    masked: int
    collision: float | None
    shift: float | None


class NegativesReport(Record):
    """What `normwise negatives` found.

    All risks are InfoNCE less log k, in nats: those of different k compare. `risk_ci` are 95% intervals over queries and pool; `decoupled`
    is the risk of DCL. `effective_negatives` are medians over 200 queries at most of the mean of 1 / sum w^2 over sets of k negatives, at
    each k: 1 to k. `at` is the number of
    negatives that the advice is about, `search` the risk of a search over `candidates`, where they were asked for. `sweep_pool` is the
    pool of the sweep of temperatures, `sweep_k` the fewest negatives that any query has of it.
    """

    advice: str
    k: tuple[int, ...]
    risk: tuple[float, ...]
    risk_ci: tuple[tuple[float | None, float | None], ...]
    decoupled: tuple[float, ...]
    decoupled_ci: tuple[tuple[float | None, float | None], ...]
    steps: tuple[RiskStep, ...]
    cross_entropy: CrossEntropy
    cv2: Spread
    regime: RegimeRecord
    fit: FitRecord
    effective_negatives: tuple[float, ...]
    bounds: BoundsRecord
    temperatures: tuple[TemperatureRow, ...]
    false_negatives: FalseNegativeRecord
    pool: PoolRecord
    at: int
    loss_floor: float | None
    candidates: int | None = None
    search: Span | None = None
    similarity: str
    temperature: float
    queries: int
    sweep_queries: int
    sweep_pool: int
    sweep_k: int
    source: str
    notes: tuple[str, ...] = ()
    report: str | None = None
    seconds: float = 0.0
