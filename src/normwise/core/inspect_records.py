"""What `normwise inspect` returns: the report of the norms with the points that its page draws, and what a recovery wrote."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from normwise.core.modality_records import AcrossModalities, NormExamples
from normwise.core.norm_records import NormDistribution, NormReport
from normwise.core.records import Record
from normwise.core.usefulness_records import UsefulnessReport


class NormPictures(Record):
    """The points that the page draws, kept small; no text of the data is among them.

    The histogram's bins lie between the 0.1% and the 99.9% quantile, `below` and `above` count what lies outside.
    `scatter_norms` and each list of `scatter_factors` belong to the same seeded rows, at most 2,000. `plane` are the first
    two principal coordinates of at most 1,000 directions, `plane_percentiles` the percentile of each one's norm (its color).
    """

    histogram_edges: tuple[float, ...] = ()
    histogram_counts: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    scatter_norms: tuple[float, ...] = ()
    scatter_factors: Mapping[str, tuple[float, ...] | tuple[str, ...]] = Field(default_factory=dict)
    plane: tuple[tuple[float, float], ...] = ()
    plane_percentiles: tuple[float, ...] = ()


class InspectReport(NormReport):
    """A norm report with what is known of the vectors' storage, and its pictures.

    `stored` is the type the vectors are stored in, `part` the column or tensor that was read. `skew_log` is that of log r;
    `tail_low` = median / 1% quantile, `tail_high` = 99% quantile / median. `raw_norms` says in words how to get raw
    norms, where the vectors came normalized. `usefulness` is what judged data said, None where none were given.
    `modality` names what the vectors are of, where there are several kinds; `parts` are then the reports of each kind (or of the
    vectors that were set against these), and `across` is what lies between the first two. `examples` are contents of a set with
    pictures, and None where there are no pictures or several kinds: then each part has its own.
    """

    stored: str = ""
    part: str | None = None
    skew_log: float | None = None
    tail_low: float | None = None
    tail_high: float | None = None
    nan_rows: int = 0
    infinite_rows: int = 0
    factor_rows: int = 0
    raw_norms: tuple[str, ...] = ()
    usefulness: UsefulnessReport | None = None
    figures: NormPictures = NormPictures()
    modality: str = ""
    parts: tuple[InspectReport, ...] = ()
    across: AcrossModalities | None = None
    examples: NormExamples | None = None


class RecoveryResult(Record):
    """What `normwise inspect UNIT.npy --recover-norms MODEL --out NORMS.npy` wrote.

    `bound` and `bound_median` are relative errors that rounding to `stored` can have caused; `model_error` is how exactly
    the model's own float32 vectors meet the equation.
    """

    source: str
    model: str
    out: str
    n: int
    d: int
    stored: str
    bound: float
    bound_median: float
    model_error: float
    norm: NormDistribution
    text: str
