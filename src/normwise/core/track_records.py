"""What the norm tracker saw of chosen items in a training run: frozen, and the same after a trip through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from normwise.core.norm_records import TrainingEvidence
from normwise.core.records import Record


class OptimizerSettings(Record):
    """What the laws need to know of an optimizer, as it was set.

    Attributes:
        name: sgd, adam or adamw; None for any other, for which there is no law.
        learning_rate: the mean over the steps.
        weight_decay: of the parameters that make the items.
        momentum: of SGD.
        coupled: the decay enters as an L2 gradient (torch's SGD and Adam); AdamW's does not.
        beta2: of Adam.
        lazy: an item's state moves only when it is visited (sparse gradients).
    """

    name: Literal["sgd", "adam", "adamw"] | None
    learning_rate: float = Field(ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    coupled: bool = False
    beta2: float | None = Field(default=None, ge=0, lt=1)
    lazy: bool = False


class TrackedItem(Record):
    """One item; a figure that it does not have (too few visits, no law) is None.

    Attributes:
        name: the text, or the number of the table's row.
        visits: optimizer steps whose gradient reached it.
        visit_rate: visits / steps.
        initial_norm: ||z|| before the first step.
        norm: ||z|| after the last.
        predicted_norm: what the free vector's law gives for it; under SGD from the gradients that its norm has not yet forgotten.
        driving_moment: G as SGD's law weighs it (`DrivingMoment`): each visit by what decay has left of it; None for other optimizers.
        second_moment: G = mean ||g||^2 over its visits, g the tangential gradient (on the unit sphere) of the loss as it was trained.
        signal: ||E g||^2, unbiased, so that it may fall below 0.
        noise: tr Cov(g).
        agreement: mean <g, g of the visit before>: the signal as neighboring visits show it, where the mean direction of g turns.
        length: its number of tokens.
    """

    name: str
    visits: int = Field(ge=0)
    visit_rate: float = Field(ge=0, le=1)
    initial_norm: float
    norm: float
    predicted_norm: float | None = None
    driving_moment: float | None = None
    second_moment: float | None = None
    signal: float | None = None
    noise: float | None = None
    agreement: float | None = None
    length: float | None = None


class NormFit(Record):
    """How well one quantity gives log r, over the items that have both.

    Attributes:
        items: how many they are.
        r2: 1 - sum (log r - prediction)^2 / sum (log r - mean log r)^2. For the law nothing is fitted, and it may fall far below 0; for a
            baseline the prediction is out of fold.
        spearman: rank correlation; for a baseline, with the factor itself.
        r2_fitted: squared correlation of logs: what r2 would be at best with an offset and a slope fitted in sample.
        error_log_norm: of the law: sqrt(mean (log r - log predicted)^2); .02 is 2% of the norm.
    """

    items: int
    r2: float | None
    spearman: float | None
    r2_fitted: float | None = None
    error_log_norm: float | None = None


class NormTrack(Record):
    """What the tracker measured, what the law predicts from it, and how the two compare.

    Attributes:
        steps: optimizer steps.
        width: d of the items' vectors.
        optimizer: its settings.
        items: the chosen items, in the order given.
        law: predicted against real norms.
        baselines: "frequency" (visits) and "length" (tokens) alone.
        signal_share: median over items of ||E g||^2 / (||E g||^2 + tr Cov g).
        radial_share: the part of the squared gradient that points along z: 0 for a loss that sees directions only, which the laws are for.
        clipped_share: steps whose gradient was clipped.
        notes: what a reader must know.
    """

    steps: int
    width: int
    optimizer: OptimizerSettings
    items: tuple[TrackedItem, ...]
    law: NormFit
    baselines: Mapping[str, NormFit] = Field(default_factory=dict)
    signal_share: float | None = None
    radial_share: float | None = None
    clipped_share: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What came out, in a few lines: how near the law is, what frequency and length alone give, and the notes.

        Example:
            >>> sgd = OptimizerSettings(name="sgd", learning_rate=0.1)
            >>> law = NormFit(items=40, r2=0.97, spearman=0.98, error_log_norm=0.02)
            >>> few = NormFit(items=40, r2=0.5, spearman=0.7)
            >>> track = NormTrack(steps=5, width=8, optimizer=sgd, items=(), law=law, baselines={"frequency": few})
            >>> print(track.words)
            law (40 items): error of log norm 0.02, R2 0.97, rank correlation 0.98
            frequency alone (40 items): R2 0.5 out of fold, rank correlation 0.7
        """
        error = "" if self.law.error_log_norm is None else f"error of log norm {_figure(self.law.error_log_norm)}, "
        lines = [
            f"law ({self.law.items} items): {error}R2 {_figure(self.law.r2)}, rank correlation {_figure(self.law.spearman)}",
            *(
                f"{name} alone ({fit.items} items): R2 {_figure(fit.r2)} out of fold, rank correlation {_figure(fit.spearman)}"
                for name, fit in self.baselines.items()
            ),
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def training_evidence(self) -> TrainingEvidence:
        """What `normwise inspect` can use of it to name the regime.

        Example:
            >>> sgd = OptimizerSettings(name="sgd", learning_rate=0.1)
            >>> law = NormFit(items=0, r2=None, spearman=None)
            >>> NormTrack(steps=5, width=8, optimizer=sgd, items=(), law=law, signal_share=0.2).training_evidence().signal_share
            0.2
        """
        return TrainingEvidence(
            optimizer=self.optimizer.name,
            learning_rate=self.optimizer.learning_rate or None,
            weight_decay=self.optimizer.weight_decay,
            lazy=self.optimizer.lazy,
            beta2=self.optimizer.beta2,
            steps=self.steps or None,
            signal_share=self.signal_share,
            predicted_spearman=self.law.spearman,
            predicted_r2=self.law.r2,
        )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3g}"
