"""What the founding experiment found: one cell per part, optimizer, settings and seed, and the claims judged over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from normwise.core.records import Interval, Outcome, Record

Part = Literal["table", "deep", "wordnet", "human-table", "human-encoder"]

FIGURES: Mapping[str, str] = {
    "law_r2": "R2 of log norm by the free vector's law with each item's measured G; nothing fitted",
    "law_spearman": "rank correlation of predicted and real norms",
    "law_r2_fitted": "squared correlation of predicted and real log norms (what an offset and a slope would reach)",
    "law_rmse": "root mean square error of predicted log norm",
    "spread": "standard deviation of log norm over items",
    "frequency_r2": "R2 by a cubic of log visits alone, out of fold",
    "length_r2": "R2 by a cubic of log tokens alone, out of fold",
    "gain": "law_r2 - frequency_r2",
    "start_r2": "R2 of log norm by the norm at the start: nothing changes",
    "gain_over_start": "law_r2 - start_r2",
    "dispersion": "partial Spearman of log norm and dispersion, frequency (and length) controlled; minus the sign of specificity",
    "dispersion_of_change": "partial Spearman of the change of log norm in training and dispersion, frequency and length controlled",
    "frequency": "partial Spearman of log norm and visits, dispersion (and length) controlled",
    "signal_share": "median over items of ||E g||^2 / (||E g||^2 + tr Cov g)",
    "held_out_items_r2": "R2 on items whose own gradients were not looked at",
    "held_out_items_spearman": "rank correlation on items whose own gradients were not looked at",
    "base_r2": "R2 where G comes from the run with the base settings, the law's other inputs from the settings at hand",
    "base_spearman": "rank correlation of the same",
    "radial_r2_free": "share of the real one-step radial changes that the free vector's law explains",
    "radial_r2_drift": "share of them that the kernel drift explains",
    "radial_r2_both": "share of them that the sum of the two explains",
    "radial_r2_displacement": "share of them that the vectors' first-order displacement explains: the drift, and the heat of all gradients",
    "path_r2_drift": "R2 of log norm by the start and the sum of the kernel drifts of all steps",
    "path_r2_displacement": "R2 of log norm by the start and the sum of the displacements' radial changes of all steps",
    "radial_share": "part of the squared gradient along the vectors (0 for a loss that sees directions only)",
    "loss_drop": "mean loss at the start less that at the end",
    "spread_of_ratings": "partial Spearman of log norm and the spread of ten human ratings; |mean rating|, length, frequency controlled",
}


class ConceptItem(Record):
    """One item of a cell."""

    name: str
    visits: int
    dispersion: float
    length: float | None = None
    norm: float
    predicted_norm: float | None
    second_moment: float | None


class ConceptCell(Record):
    """One training run and what it showed; `figures` are explained in `FIGURES`, None where undefined.

    `variant` is "base", or the setting that was changed. `regime` names the row of the statement table that applies, and
    `expected_dispersion` its sign for dispersion (None: the table has no row for it). `items` are kept for the first seed only.
    """

    part: Part
    optimizer: str
    variant: str = "base"
    seed: int
    settings: Mapping[str, Any] = Field(default_factory=dict)
    regime: str | None = None
    expected_dispersion: Literal[-1, 0, 1] | None = None
    figures: Mapping[str, float | None] = Field(default_factory=dict)
    items: tuple[ConceptItem, ...] = ()
    notes: tuple[str, ...] = ()


class ConceptClaim(Record):
    """One claim over the seeds: reproduced when the whole interval is above the threshold, not reproduced when it is below."""

    part: Part
    optimizer: str
    variant: str = "base"
    name: str
    figure: str
    threshold: float
    interval: Interval
    by_seed: tuple[float, ...]
    outcome: Outcome


class ConceptResult(Record):
    """What `normwise simulate concepts` found."""

    settings: Mapping[str, Any]
    cells: tuple[ConceptCell, ...]
    claims: tuple[ConceptClaim, ...]
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = Field(default_factory=dict)
    command: str = ""
    seconds: float | None = None
