"""The settings of the free table: its items, their gradients and the optimizer, checked against each other."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from normwise.core.strict import Number, StrictConfig, Switch, Whole
from normwise.theory.simulated_gradients import NegativeKind
from normwise.theory.simulated_updates import Optimizer, UpdateRule
from normwise.theory.simulator import Start
from normwise.theory.vmf_draws import SMALLEST_WIDTH

_LARGEST_SEED = 2**32 - 1
_INFONCE_ONLY = ("kappa", "temperature", "negatives", "negative_kind", "positives_per_item")

Kappa = Annotated[Number, Field(ge=0)]
Moment = Annotated[Number, Field(gt=0)]


class SimulationConfig(StrictConfig):
    """A free table, its gradients and its optimizer.

    `kappa` (or `second_moment`, which replaces InfoNCE by pure tangential noise of that mean square) is dealt out to the
    items in turn, and visit rates fall after each round of it, so that every group gets the same rates. Item i of rank
    k = 1 + floor(i / groups) is visited at a step with probability visit_rate k^(-zipf).

    Example:
        >>> SimulationConfig(items=10, second_moment=(1.0,)).temperature
        0.2
    """

    items: Whole = Field(default=1000, ge=1)
    steps: Whole = Field(default=1000, ge=1)
    width: Whole = Field(default=32, ge=SMALLEST_WIDTH)
    kappa: tuple[Kappa, ...] = Field(default=(5.0, 20.0, 80.0, 320.0, 1280.0), min_length=1)
    temperature: Number = Field(default=0.2, gt=0)
    negatives: Whole = Field(default=16, ge=1)
    negative_kind: NegativeKind = NegativeKind.UNIFORM
    positives_per_item: Whole = Field(default=1, ge=1)
    second_moment: tuple[Moment, ...] | None = Field(default=None, min_length=1)
    visit_rate: Number = Field(default=1.0, gt=0, le=1)
    zipf: Number = Field(default=0.0, ge=0)
    start: Start = Start.RANDOM
    start_norm: Number = Field(default=1.0, gt=0)
    optimizer: Optimizer = Optimizer.SGD
    learning_rate: Number = Field(default=0.1, gt=0)
    weight_decay: Number = Field(default=0.0, ge=0)
    momentum: Number | None = Field(default=None, gt=0, lt=1)
    coupled: Switch = False
    beta1: Number | None = Field(default=None, ge=0, lt=1)
    beta2: Number | None = Field(default=None, gt=0, lt=1)
    lazy: Switch = False
    seed: Whole = Field(default=0, ge=0, le=_LARGEST_SEED)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.second_moment is not None:
            given = [name for name in _INFONCE_ONLY if name in self.model_fields_set]
            if given:
                raise ValueError(f"second_moment asks for pure noise, which has no {', '.join(given)}: leave one or the other out")
            if self.start is not Start.RANDOM:
                raise ValueError(f"start {self.start} is told from mean directions, and pure noise has none: leave start out")
        if self.negative_kind is NegativeKind.ITEM_MEANS and self.items < 2:
            raise ValueError("negative_kind item_means takes other items' means, and there is one item: add items")
        adam = self.optimizer in (Optimizer.ADAM, Optimizer.ADAMW)
        if not adam and not (self.beta1 is None and self.beta2 is None):
            raise ValueError(f"beta1 and beta2 belong to adam and adamw, not to {self.optimizer}: leave them out")
        if self.momentum is not None and self.optimizer is not Optimizer.MOMENTUM:
            raise ValueError(f"momentum belongs to the optimizer momentum, not to {self.optimizer}: leave it out")
        self.rule()
        return self

    def rule(self) -> UpdateRule:
        """The optimizer, with its usual values where none were given."""
        return UpdateRule(
            self.optimizer,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=(self.momentum or 0.9) if self.optimizer is Optimizer.MOMENTUM else 0.0,
            coupled=self.coupled,
            beta1=0.9 if self.beta1 is None else self.beta1,
            beta2=0.999 if self.beta2 is None else self.beta2,
            lazy=self.lazy,
        )

    @property
    def group_values(self) -> tuple[float, ...]:
        """What is dealt out to the items: kappas, or second moments."""
        return self.kappa if self.second_moment is None else self.second_moment
