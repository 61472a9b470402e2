"""What `normwise calibrate` found: which confidence to trust, how far, and whether a threshold exists at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from normwise.core.records import Interval, Record
from normwise.core.similarity import parse_similarity

Verdict = Literal["usable", "no-usable-threshold"]
# A chance of error below 1 in 10,000 is smaller than what a few wrong judgements or dependent queries do to it.
MOST_CONFIDENCE = 0.9999
# No number of a calibration is larger: the product of two such, and any sum of such products, stays inside float64.
LARGEST = 1e150
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=1.0 / LARGEST, le=LARGEST, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Confidence = Annotated[float, Field(gt=0.5, le=MOST_CONFIDENCE, allow_inf_nan=False)]
Target = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Fingerprint(Record):
    """What a calibration was fitted on; it holds for nothing else.

    `model` is a hash of the model's weights and prompts, or of nothing ("vectors") where bare vectors came. `search` is the
    kind of search: "exact" for every exhaustive one, else kind and storage of the index ("faiss-hnsw", "exact+int8").
    `corpus_texts` and `corpus_vectors` are order-free hashes of all (id, text) and (id, vector) pairs, where they are known;
    two corpora are one where either agrees. `depth` is how many hits per query a confidence reads.
    """

    model: str
    similarity: str
    search: str
    candidates: Count
    corpus_texts: str | None = None
    corpus_vectors: str | None = None
    depth: int = Field(ge=1)

    @field_validator("similarity")
    @classmethod
    def _check_similarity(cls, name: str) -> str:
        return parse_similarity(name).value


class QueryCounts(Record):
    """How many queries fitted, how many tested, and how many of both have no answer in the corpus."""

    fit: Count
    test: Count
    unanswerable: Count
    fit_right: Count = 0
    test_right: Count = 0
    fit_clusters: Count = 0
    test_clusters: Count = 0


class SignalRow(Record):
    """One signal alone: how well its order tells right first hits from wrong ones on test queries (.5 = not at all).

    Below .5 the signal's order is the wrong way round. `similarity` says under which similarity a score is read.
    """

    name: str
    auroc: float | None
    ci_low: float | None
    ci_high: float | None
    similarity: str | None = None
    words: str = ""


class CalibratorRow(Record):
    """One calibrator on test queries. `intervals` has an interval for each metric; `cv_nll` and `cv_se` are of the fit queries.

    `ece` is with 15 bins of equal width, `ece_mass` of equal mass, `ece_debiased` the square root of the debiased squared
    error. `brier` = `reliability` - `resolution` + `uncertainty`. `nauc` is MTEB's abstention figure of nDCG@10.
    `parameters` counts free numbers, `beats` says whether a re-ranking may be chosen.
    """

    name: str
    ece: float
    brier: float
    nll: float | None
    auroc: float | None
    aurc: float
    e_aurc: float
    nauc: float | None
    ece_mass: float | None = None
    ece_debiased: float | None = None
    ks: float | None = None
    reliability: float | None = None
    resolution: float | None = None
    uncertainty: float | None = None
    precision: float | None = None
    coverage_at_risk: Mapping[str, float] = Field(default_factory=dict)
    risk_at_coverage: Mapping[str, float] = Field(default_factory=dict)
    intervals: Mapping[str, Interval] = Field(default_factory=dict)
    parameters: int = 0
    cv_nll: float | None = None
    cv_se: float | None = None
    eligible: bool = True
    words: str = ""


class NormGain(Record):
    """By how much `metric` falls on test queries when norms join score, margin and every control (positive = better)."""

    metric: str
    delta: float | None
    ci_low: float | None
    ci_high: float | None
    controls: tuple[str, ...] = ()
    words: str = ""


class ThresholdRecord(Record):
    """Answer when the probability is at least `probability`: then, with `confidence`, precision is at least the target.

    `coverage` is the share of test queries that are answered, `precision` what they showed, `precision_low` the lower bound
    that the test gives. `method` names the test. A probability of 0 is never answered, so no threshold is 0.
    """

    precision_target: Target
    confidence: Confidence
    probability: float = Field(gt=0.0, le=1.0, allow_inf_nan=False)
    coverage: Share
    answered: Count
    precision: Share
    precision_low: Share
    method: str = "fixed-sequence"
    inert: Literal["rejects nothing", "rejects everything"] | None = None


class VerdictRecord(Record):
    """Whether a usable threshold exists on these data, and why, in words."""

    label: Verdict
    text: str


class ReliabilityBin(Record):
    """One bin of the reliability diagram: mean probability, share right with its Wilson interval, how many queries."""

    low: float
    high: float
    queries: int
    probability: float
    right: float
    ci_low: float
    ci_high: float


class ExampleHit(Record):
    """One query with its first hit, for the page: a confident error or a good abstention. Texts may be cut."""

    query: str
    hit_id: str
    hit: str
    probability: float
    score: float
    norm: float
    right: bool
    answerable: bool


class CalibrationFigures(Record):
    """What the page draws: bins, curves of risk over coverage by name (chosen, score alone, oracle), examples."""

    bins: tuple[ReliabilityBin, ...] = ()
    coverage: tuple[float, ...] = ()
    risk: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    confident_errors: tuple[ExampleHit, ...] = ()
    good_abstentions: tuple[ExampleHit, ...] = ()


class CalibrationReport(Record):
    """The answer of `normwise calibrate`; `calibration` is where the file was written, if it was."""

    queries: QueryCounts
    signals: tuple[SignalRow, ...]
    calibrators: tuple[CalibratorRow, ...]
    chosen: str
    norm_gain: NormGain
    norm_gains: tuple[NormGain, ...] = ()
    threshold: ThresholdRecord | None
    verdict: VerdictRecord
    precision_target: float | None = None
    model: str = ""
    data: str = ""
    similarity: str = ""
    temperature: float | None = None
    level: float = 0.95
    fingerprint: Fingerprint | None = None
    figures: CalibrationFigures = CalibrationFigures()
    notes: tuple[str, ...] = ()
    calibration: str | None = None
    report: str | None = None
    seconds: float | None = None
