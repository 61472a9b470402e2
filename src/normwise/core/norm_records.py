"""What `normwise inspect` found about the norms of a set of vectors: frozen, and the same after a trip through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from normwise.core.records import Interval, Record

Regime = Literal["signal", "noise", "adam", "ellipsoid-bound", "plane-bound", "length-bound", "undetermined"]
Strength = Literal["weak", "medium", "strong"]
Use = Literal["ranking", "confidence"]
NextStep = Literal["cosine", "dot", "one-sided", "calibrate", "evaluate", "recover", "more data"]
LABELS = ("frequency", "specificity", "uncertainty", "length", "direction", "mixed", "uninformative", "degenerate", "undetermined")


class FactorAssociation(Record):
    """How the norm goes with one factor; every figure that could not be had is None, and `note` says why.

    `spearman` is the rank correlation with log r, `partial_spearman` the same after both sides lost what the `controls`
    explain, `ci_low` and `ci_high` its 95% bootstrap interval, `p_adjusted` its p-value after Holm's correction over the
    factors. A categorical factor has no sign: its four figures are correlation ratios (0 to 1) of the ranks.
    `kind` is the label that a verdict gives to a norm that follows this factor: `frequency`, `length`, ... or its name.
    """

    name: str
    kind: str
    categorical: bool = False
    rows: int = Field(ge=0, description="rows behind the figures: all, or a seeded sample")
    controls: tuple[str, ...] = ()
    spearman: float | None = None
    partial_spearman: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    curve: float | None = Field(default=None, description="correlation ratio of a cubic in the factor's rank: sees what is not monotone")
    curve_p: float | None = None
    curve_p_adjusted: float | None = None
    alone: float | None = Field(
        default=None, description="share of the norm's rank variance that a cubic in this factor's rank explains alone"
    )
    log_spread: float | None = Field(default=None, description="standard deviation of log r once the controls have lost what they explain")
    own_share: float | None = Field(default=None, description="share of the factor's rank variance that the controls leave")
    collinear_with: tuple[str, ...] = ()
    shared: Interval | None = Field(default=None, description="partial Spearman of a collinear group on the factors outside it")
    exponent: Interval | None = Field(default=None, description="slope of log r on the log of the factor, the controls held")
    note: str = ""


class NormDistribution(Record):
    """The distribution of the raw norms; counts are of rows. `quantiles` maps "0.5" and its like to a norm."""

    mean: float | None
    cv: float | None
    quantiles: Mapping[str, float] = Field(default_factory=dict)
    std: float | None = None
    std_log: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    tail_ratio: float | None = None
    zero: int = 0
    nonfinite: int = 0
    duplicates: int | None = None
    usable: int | None = Field(default=None, description="rows with a positive, finite norm")


class RadialEvidence(Record):
    """Is the norm a function of the direction? `freedom` = 1 - best held-out R2, `test` the one that decided.

    `closed_form` is what the checkpoint's last norm layer says, where there is a checkpoint; it is `test` too, and `freedom` what it leaves
    of the norms of the probe texts, where the sample has too few rows to show the form by itself.
    """

    freedom: float | None
    test: str | None = None
    closed_form: Literal["plane-bound", "ellipsoid-bound"] | None = None
    upper_bound: bool = Field(default=False, description="too few rows for the closed-form tests: freedom may be lower")


class TrainingEvidence(Record):
    """What is known of the training: the optimizer's settings, and what the tracker measured.

    `signal_share` is the median over items of ||E g||^2 / (||E g||^2 + tr Cov g), 0 to 1. `predicted_spearman` and
    `predicted_r2` compare each item's norm with the one that the law gives for it.
    """

    optimizer: Literal["sgd", "adam", "adamw"] | None = None
    similarity: Literal["cosine", "dot"] = "cosine"
    learning_rate: float | None = Field(default=None, gt=0)
    weight_decay: float | None = Field(default=None, ge=0)
    lazy: bool | None = None
    beta2: float | None = Field(default=None, ge=0, lt=1)
    steps: int | None = Field(default=None, ge=1)
    signal_share: float | None = Field(default=None, ge=0, le=1)
    predicted_spearman: float | None = None
    predicted_r2: float | None = None


class Usefulness(Record):
    """What was measured on relevance judgements; None where nothing was.

    `ranking` is nDCG@10 of dot minus cosine, `confidence` the gain that the norm brings as a feature in telling right
    top hits from wrong ones (positive = better), each with its interval. `beyond_length` is nDCG@10 of re-ranking by a power of the norm
    minus by a power of the token count: without it, or where it is not above 0, a gain in ranking may be the length's.
    """

    ranking: Interval | None = None
    beyond_length: Interval | None = None
    confidence: Interval | None = None


class RegimeEvidence(Record):
    """The regime that explains the norms and the evidence for it, in words; `limit` is where its law ends for frequency, if it does."""

    regime: Regime
    evidence: tuple[str, ...]
    limit: str = ""


class NormVerdict(Record):
    """What the norm follows, what it may be used for and what to do next.

    `label` is one of `LABELS`, or the name of a given factor. `follows` names the factors that passed, strongest first, `effect` is the
    strength of the first (partial Spearman without its sign, or correlation ratio; 0 to 1), `strength` the word for it (weak below 0.3,
    strong from 0.5 on), `usable_for` holds only what is backed.
    """

    label: str
    usable_for: tuple[Use, ...] = ()
    text: str
    next_step: NextStep
    follows: tuple[str, ...] = ()
    effect: float | None = None
    strength: Strength | None = None


class NormReport(Record):
    """What `normwise inspect` prints and saves."""

    source: str = ""
    n: int
    d: int
    norm: NormDistribution
    normalized_input: bool
    norm_after_normalize: NormDistribution | None = None
    radial_freedom: float | None
    radial: RadialEvidence | None = None
    factors: tuple[FactorAssociation, ...] = ()
    regime: Regime
    evidence: tuple[str, ...] = ()
    verdict: NormVerdict
    geometry: Mapping[str, float | None] = Field(default_factory=dict)
    sample_rows: int | None = Field(default=None, description="rows of the seeded sample behind the geometry")
    seed: int = 0
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = Field(default_factory=dict)
    command: str = ""
    seconds: float | None = None
