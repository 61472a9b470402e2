"""Results: frozen values with names that round-trip through JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

METRICS = ("p@1", "mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100")
GEOMETRY = (
    "e1_pearson",
    "e2_spearman",
    "e3_affine",
    "e3_ellipsoid",
    "e3_knn",
    "e3_ridge",
    "radial_freedom",
    "e4_moran",
    "e5_distance_correlation",
    "a1_random_cosine",
    "a2_mean_direction",
    "a3_effective_rank",
    "a3_isoscore",
    "a4_hubness",
    "a5_uniformity",
    "a5_alignment",
    "hub_share_cosine",
    "hub_share_dot",
    "norm_mean_queries",
    "norm_cv_queries",
    "norm_mean_candidates",
    "norm_cv_candidates",
)
Outcome = Literal["reproduced", "not reproduced", "undecided at this size"]


class Record(BaseModel):
    """A frozen result value."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")

    def to_json(self) -> str:
        """Serialize to one JSON object; NaN becomes null."""
        return self.model_dump_json(by_alias=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what `to_json` wrote."""
        return cls.model_validate_json(text)


class Interval(Record):
    """A mean with its percentile bootstrap interval; None where it is undefined."""

    mean: float | None
    ci_low: float | None
    ci_high: float | None


MetricTable = Mapping[str, Interval]


class Decision(Record):
    """Which similarity (and run) to use, decided on `split`, and why, in words."""

    similarity: str
    reason: str
    run: str | None = None
    split: str = "dev"


class Evaluation(Record):
    """What `normwise evaluate` found on one split of one data set.

    `similarities` weighs queries alike, as in use; where queries share relevant candidates, `one_query_per_candidate` weighs
    those candidates alike, and is empty elsewhere. `by_task` holds, for a set that mixes tasks, task -> cosine or dot ->
    metrics; each task's queries search the candidates of their task.
    """

    model: str
    data: str
    split: str = "test"
    queries: int
    candidates: int
    clusters: int
    similarities: Mapping[str, MetricTable]
    one_query_per_candidate: Mapping[str, MetricTable] = Field(default_factory=dict)
    geometry: Mapping[str, float | None] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decision: Decision | None = None
    by_task: Mapping[str, Mapping[str, MetricTable]] = Field(default_factory=dict)


class Comparison(Record):
    """A paired difference `candidate - baseline` of one metric on one split, with its corrected interval."""

    candidate: str
    baseline: str
    metric: str
    split: str
    difference: Interval
    level: float
    words: str


class GateReport(Record):
    """What was checked between two stages."""

    name: str
    passed: bool
    words: str
    figures: Mapping[str, float | None] = Field(default_factory=dict)


class StageResult(Record):
    """One trained stage: its settings, its curve (one row per logged step) and its gates."""

    name: str
    similarity: str
    trainable: str
    steps: int
    temperature: float
    seconds: float
    curve: tuple[Mapping[str, float | None], ...] = ()
    gates: tuple[GateReport, ...] = ()
    notes: tuple[str, ...] = ()

    def series(self, key: str) -> Iterator[tuple[float, float]]:
        """The (step, value) points of one logged quantity, steps where it is missing left out."""
        for row in self.curve:
            step, value = row.get("step"), row.get(key)
            if step is not None and value is not None:
                yield step, value


class RunResult(Record):
    """One arm under one ranking, over its seeds: metrics on test and dev, and each seed's mean on test (`by_seed`).

    `one_query_per_candidate` and `by_task` (of this ranking) are as in `Evaluation`, on test.
    """

    name: str
    similarity: str
    metrics: MetricTable
    dev: MetricTable
    one_query_per_candidate: MetricTable = Field(default_factory=dict)
    seeds: tuple[int, ...]
    by_seed: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    stages: tuple[StageResult, ...] = ()
    geometry: Mapping[str, float | None] = Field(default_factory=dict)
    by_task: Mapping[str, MetricTable] = Field(default_factory=dict)


class ReportFigures(Record):
    """The points that the page draws of the chosen model: kept small, no text of the data in it."""

    norms_queries: tuple[float, ...] = ()
    norms_candidates: tuple[float, ...] = ()
    directions: tuple[tuple[float, float], ...] = ()
    direction_norm_percentiles: tuple[float, ...] = ()
    random_pair_similarities: tuple[float, ...] = ()


class NearHit(Record):
    """One hit of a query as a search would show it. `probability` None: nobody knows. `picture` is a thumbnail as a data URI."""

    id: str
    words: str
    picture: str | None = None
    score: float
    probability: float | None
    abstain: bool
    right: bool


class NearHits(Record):
    """A test query with its nearest hits, best first; `answerable` says whether anything in the corpus is relevant to it.

    `first_right` is the place of the first right hit, counted from 1, where it is known; `task` is that of the query in a set that mixes
    tasks.
    """

    query: str
    picture: str | None = None
    answerable: bool
    hits: tuple[NearHit, ...]
    first_right: int | None = None
    task: str = ""


class NearestHits(Record):
    """Some test queries with their nearest hits by one model, for the page: drawn by `seed` out of `queries`, whatever they found.

    `ranking` is what the scores are, `depth` how far the search for a first right hit went, and `left_out` how many pictures have
    no thumbnail, for want of room or because they cannot be opened.
    """

    ranking: str
    seed: int
    queries: int
    depth: int
    shown: tuple[NearHits, ...]
    left_out: int = 0


class TrainResult(Record):
    """What `normwise train` and `normwise demo` print and save; `warnings` are what a reader must know before the verdict.

    `nearest` are hits of the saved model on a set with pictures, and None for a set of texts, none of which a result keeps.
    """

    runs: tuple[RunResult, ...]
    decision: Decision
    comparisons: tuple[Comparison, ...] = ()
    claims: Mapping[str, Outcome] = Field(default_factory=dict)
    data: str
    data_notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hygiene: Mapping[str, Any] = Field(default_factory=dict)
    settings: Mapping[str, Any] = Field(default_factory=dict)
    figures: ReportFigures = ReportFigures()
    nearest: NearestHits | None = None
    command: str = ""
    versions: Mapping[str, str] = Field(default_factory=dict)
    model: str
    report: str | None
    seconds: float
