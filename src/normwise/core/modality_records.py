"""What `normwise inspect` found between two modalities: the gap, the ellipsoids, conformity, signs, and whose norms a score follows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from normwise.core.norm_records import FactorAssociation
from normwise.core.records import GateReport, Interval, Record

Holds = Literal["holds", "does not hold", "undecided"]
Dominance = Literal["by the norm", "by the direction", "undecided"]
Agreement = Literal["same sign", "opposite signs", "in one only", "in neither"]


class ModalityGap(Record):
    """How far two modalities, first and second, lie apart; what each figure is 0 (or, for `auc`, 0.5) at.

    `gap` is the distance of the mean unit vectors, 0 where these are equal; chance alone gives about `gap_by_chance`, and `p_value`
    is that of random relabeling, both on `tested_rows` rows (see `modality_gap`). `held_out` is the same distance along a direction
    that other rows chose: 0 on average without a gap. `squared_gap` has no excess: within_first + within_second - 2 cross.
    `variance_share` is the share of the spread of directions that the modality explains, 0 without a gap, 1 where each modality is
    one direction. `direction_auc` says how well the held-out direction tells the modalities apart, `norm_auc` how well the norm does
    (above 0.5: the first is longer). `log_norm_difference` is the mean log norm of the first minus that of the second. `raw_gap` is
    the distance of the mean raw vectors and `raw_gap_norm_share` the part of its square that is the difference of their lengths
    (0: all angle, 1: all length). `matched` is the mean cosine of pairs that belong together minus that of pairs that do not, None
    without pairs.
    """

    first_rows: int
    second_rows: int
    gap: float
    gap_by_chance: float
    p_value: float
    relabelings: int
    tested_rows: int
    held_out: Interval
    squared_gap: float
    variance_share: float
    within_first: float
    within_second: float
    cross: float
    direction_auc: Interval
    norm_auc: Interval
    log_norm_first: float
    log_norm_second: float
    log_norm_difference: Interval
    raw_gap: float
    raw_gap_norm_share: float | None
    pairs: int = 0
    matched_cosine: float | None = None
    random_cosine: float | None = None
    matched: Interval | None = None


class EllipsoidProperty(Record):
    """One property of the picture: its figure, the threshold stated before, and whether the whole interval lies beyond it.

    `above` says on which side of the threshold the property holds. `p_value` is that of the property's null, where it has one.
    """

    figure: Interval
    threshold: float
    above: bool = True
    outcome: Holds
    p_value: float | None = None


class Ellipsoid(Record):
    """One modality's cloud: thin shell or not, how far off the origin, how tilted against the axes.

    `shell`: spread of the Mahalanobis distance over its mean, on rows that did not fit the covariance; `gaussian_shell` is what a
    Gaussian of as many effective dimensions has, and `shell_ratio` the observed variance of the squared distance over that
    Gaussian's (1: as thin; above: thicker). `offset`: squared length of the mean over the mean squared length, 0 for a cloud
    around the origin. `tilt`: share of the squared correlations between coordinates that is off the diagonal beyond chance.
    """

    rows: int
    shell: EllipsoidProperty
    gaussian_shell: float | None
    shell_ratio: float | None
    effective_dimensions: float | None
    offset: EllipsoidProperty
    tilt: EllipsoidProperty
    outcome: Holds
    note: str = ""


class DoubleEllipsoid(Record):
    """Do both modalities lie each on an own, shifted and tilted ellipsoid? `separability` is the held-out AUC between them."""

    first: Ellipsoid
    second: Ellipsoid
    separability: EllipsoidProperty
    outcome: Holds
    words: str


class ConformityReport(Record):
    """Mean cosine of each vector to all others of its modality, and what it goes with.

    `mean_length` is the length of the mean unit vector: conformity is the cosine to the mean direction times it, up to a vector's
    own share. `norm` is its relation with the norm, raw and with the factors held; `factors` are its relations with the factors.
    """

    rows: int
    mean: float
    std: float
    mean_length: float
    norm: FactorAssociation
    factors: tuple[FactorAssociation, ...] = ()


class NormShare(Record):
    """Whose work a dot product across modalities is: the candidate's norm's or the direction's.

    `share` is the mean over queries of Cov(log s, log ||d||) / Var(log s) over the candidates whose score s is above 0: 0 where
    norms play no part, 1 where directions do not; the rest, to 1, is that of the log cosine. `top_share` is the same among the tenth of the
    candidates with the highest cosine, where first places are decided, and `outcome` is by it. `positive` is the share of scores above 0,
    `same_first` that of queries whose first candidate is the same under cosine.
    """

    queries: str
    candidates: str
    query_rows: int
    candidate_rows: int
    share: Interval
    top_share: Interval
    positive: float
    same_first: float
    outcome: Dominance


class SignComparison(Record):
    """One factor in both modalities: its partial Spearman with the norm in each; `agreement` counts intervals that leave 0 out."""

    factor: str
    first: Interval
    second: Interval
    agreement: Agreement


class AcrossModalities(Record):
    """What two modalities look like beside each other; figures that could not be had are None, and `notes` say why."""

    first: str
    second: str
    gap: ModalityGap | None = None
    ellipsoids: DoubleEllipsoid | None = None
    conformity_first: ConformityReport | None = None
    conformity_second: ConformityReport | None = None
    shares: tuple[NormShare, ...] = ()
    signs: tuple[SignComparison, ...] = ()
    sign_words: str = ""
    freedom_first: GateReport | None = None
    freedom_second: GateReport | None = None
    clusters: int = Field(default=0, description="units that were resampled and relabeled")
    notes: tuple[str, ...] = ()


class NormExample(Record):
    """One content with its norm: in words, with a thumbnail (a data URI) where it has a picture and the page has room.

    `beside` is a content that was judged to belong to it, such as the caption of a picture; its picture is kept only where the
    content has none of its own.
    """

    norm: float
    words: str
    picture: str | None = None
    beside: str = ""
    beside_picture: str | None = None


class NormExamples(Record):
    """Contents of one modality by their norm: the shortest, shortest first; those around the median; the longest, longest first.

    `left_out` counts pictures without a thumbnail, for want of room or because they cannot be opened.
    """

    lowest: tuple[NormExample, ...]
    middle: tuple[NormExample, ...]
    highest: tuple[NormExample, ...]
    left_out: int = 0
