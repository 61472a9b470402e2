"""Simulate a table of free vectors and compare the norms it ends with to those that the dynamics laws predict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.core.records import Record
from normwise.core.strict import Number, StrictConfig, Switch, Whole
from normwise.data.opening import check_new_place
from normwise.theory.adaptive import relaxation_steps_adam
from normwise.theory.dynamics import relaxation_steps
from normwise.theory.entanglement import spearman
from normwise.theory.radial import r_squared
from normwise.theory.simulated_gradients import InfoNce, NegativeKind, PureNoise
from normwise.theory.simulated_table import SimulatedTable, predicted_norms
from normwise.theory.simulated_updates import Optimizer, UpdateRule
from normwise.theory.simulator import Start, simulate_table, start_vectors
from normwise.theory.vmf_draws import SMALLEST_WIDTH, uniform_directions, zipf_rates

_LARGEST_SEED = 2**32 - 1
_INFONCE_ONLY = ("kappa", "temperature", "negatives", "negative_kind", "positives_per_item")
_DECADE_SLACK = 1e-9

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


class SimulatedItem(Record):
    """One item; a figure that an item without a visit, or pure noise, does not have is None.

    `second_moment` = mean ||g||^2 over its visits, `signal` = ||E g||^2 (unbiased, so that it may fall below 0) and `noise`
    the rest. `loss_drop` is the mean loss at the start less that at the end.
    """

    kappa: float | None
    visit_rate: float
    initial_norm: float
    norm: float
    predicted_norm: float
    second_moment: float | None
    signal: float | None
    noise: float | None
    hardness: float | None
    loss_drop: float | None
    visits: int


class SimulatedGroup(Record):
    """Means over the items of one kappa (or given second moment) and one decade of visit rates."""

    kappa: float | None
    given_second_moment: float | None
    visit_rates: str
    items: int
    norm: float
    predicted_norm: float
    second_moment: float | None
    signal: float | None
    noise: float | None
    loss_drop: float | None


class NormSimulation(Record):
    """What `normwise simulate norms` found.

    `r2_log_norm` is 1 - sum (log r - log predicted)^2 / sum (log r - mean log r)^2 over items, nothing fitted: below 0 where
    the mean is closer, as where norms hardly differ. `spearman` is the rank correlation of predicted and measured norms.
    """

    settings: Mapping[str, Any]
    items: tuple[SimulatedItem, ...]
    groups: tuple[SimulatedGroup, ...]
    r2_log_norm: float | None
    spearman: float | None
    notes: tuple[str, ...] = ()


def simulate_norms(
    config: SimulationConfig | Mapping[str, Any], *, out: Path | None = None, log: Callable[[str], None] | None = None
) -> NormSimulation:
    """Simulate a table of free vectors under a loss that sees directions only.

    Args:
        config: the table, its gradients, its optimizer and the seed.
        out: a file for the result as JSON, which must not exist yet; None writes nothing.
        log: receives a line before the work starts.

    Returns:
        Every item with its measured and its predicted norm, and how well the two agree. Equal settings give equal results.

    Raises:
        InputError: bad settings, or a place that cannot be written to.

    Example:
        >>> found = simulate_norms({"items": 200, "steps": 300, "weight_decay": 0.02, "second_moment": (0.5, 5.0)})
        >>> found.r2_log_norm > 0.9
        True
    """
    parsed = config if isinstance(config, SimulationConfig) else SimulationConfig.read(config, source="settings")
    if out is not None:
        check_new_place(out)
        if out.exists():
            raise InputError(f"{out} exists already: choose another place for the result")
    rule, rates = parsed.rule(), _rates(parsed)
    if log is not None:
        visits = rates.sum() * parsed.steps
        log(f"simulating {parsed.items} items of width {parsed.width} for {parsed.steps} steps, about {visits:.3g} visits")
    draws, run_seed = (int(part.generate_state(1)[0]) for part in np.random.SeedSequence(parsed.seed).spawn(2))
    source, start = _table(parsed, np.random.default_rng(draws))
    table = simulate_table(source, rule, start=start, visit_rates=rates, steps=parsed.steps, seed=run_seed)
    predicted = predicted_norms(table, rule, steps=parsed.steps)
    result = NormSimulation(
        settings=parsed.model_dump(mode="json"),
        items=tuple(_items(parsed, table, predicted, rates)),
        groups=tuple(_groups(parsed, table, predicted, rates)),
        r2_log_norm=_defined(r_squared(np.log(table.norms), np.log(predicted))),
        spearman=_defined(spearman(predicted, table.norms)),
        notes=tuple(_notes(parsed, rule, table, rates)),
    )
    if out is not None:
        write_text(out, result.to_json() + "\n")
    return result


def _rates(config: SimulationConfig) -> np.ndarray:
    groups = len(config.group_values)
    by_rank = zipf_rates(-(-config.items // groups), exponent=config.zipf, largest=config.visit_rate)
    return np.repeat(by_rank, groups)[: config.items]


def _dealt(config: SimulationConfig) -> np.ndarray:
    return np.resize(np.asarray(config.group_values, dtype=np.float64), config.items)


def _table(config: SimulationConfig, random: np.random.Generator) -> tuple[InfoNce | PureNoise, np.ndarray]:
    if config.second_moment is not None:
        source: InfoNce | PureNoise = PureNoise(_dealt(config), config.width)
        means = None
    else:
        means = uniform_directions(random, config.items, config.width)
        source = InfoNce(means, _dealt(config), config.temperature, config.negatives)
        source = replace(source, kind=config.negative_kind, positives=config.positives_per_item)
    return source, start_vectors(config.items, random, width=config.width, norm=config.start_norm, start=config.start, means=means)


def _items(config: SimulationConfig, table: SimulatedTable, predicted: np.ndarray, rates: np.ndarray) -> Iterator[SimulatedItem]:
    moments, signals, noises, hardness = table.second_moments, table.signals, table.noises, table.hardness
    drops = table.initial_losses - table.final_losses
    for item, value in enumerate(_dealt(config)):
        yield SimulatedItem(
            kappa=float(value) if config.second_moment is None else None,
            visit_rate=float(rates[item]),
            initial_norm=float(table.initial_norms[item]),
            norm=float(table.norms[item]),
            predicted_norm=float(predicted[item]),
            second_moment=_defined(moments[item]),
            signal=_defined(signals[item]),
            noise=_defined(noises[item]),
            hardness=_defined(hardness[item]),
            loss_drop=_defined(drops[item]),
            visits=int(table.visits[item]),
        )


def _groups(config: SimulationConfig, table: SimulatedTable, predicted: np.ndarray, rates: np.ndarray) -> Iterator[SimulatedGroup]:
    dealt = _dealt(config)
    # A rate of exactly 0.1 opens the decade below 1 in spite of rounding.
    decades = np.floor(-np.log10(rates) + _DECADE_SLACK).astype(int)
    drops = table.initial_losses - table.final_losses
    for value in dict.fromkeys(config.group_values):
        for decade in np.unique(decades[dealt == value]):
            rows = (dealt == value) & (decades == decade)
            low, high = rates[rows].min(), rates[rows].max()
            yield SimulatedGroup(
                kappa=value if config.second_moment is None else None,
                given_second_moment=None if config.second_moment is None else value,
                visit_rates=f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}",
                items=int(rows.sum()),
                norm=float(table.norms[rows].mean()),
                predicted_norm=float(predicted[rows].mean()),
                second_moment=_mean(table.second_moments[rows]),
                signal=_mean(table.signals[rows]),
                noise=_mean(table.noises[rows]),
                loss_drop=_mean(drops[rows]),
            )


def _notes(config: SimulationConfig, rule: UpdateRule, table: SimulatedTable, rates: np.ndarray) -> Iterator[str]:
    seen = table.probes > 0
    if seen.any() and config.second_moment is None:
        signal, total = float(table.signals[seen].sum()), float(table.second_moments[seen].sum())
        yield f"signal ||E g||^2 is {signal / total:.0%} of the second moments; the laws of momentum and Adam take all of it for noise"
    if rule.weight_decay > 0:
        eta, decay = rule.learning_rate, rule.weight_decay
        if rule.is_adam:
            steps = float(relaxation_steps_adam(learning_rate=eta, weight_decay=decay))
        else:
            steps = float(relaxation_steps(learning_rate=eta, weight_decay=decay, momentum=rule.momentum, coupled=rule.coupled))
        had = f"the rarest item has {config.steps * rates.min():.0f}" if rule.lazy else f"the run has {config.steps}"
        yield f"equilibrium takes several times {steps:.0f} {'visits' if rule.lazy else 'steps'}; {had}"
        if not rule.is_adam and config.second_moment is None:
            yield "decay forgets early gradients, the measured second moment does not: where training shrank them, predictions are high"
    unvisited = int((table.visits == 0).sum())
    if unvisited:
        yield f"{unvisited} of {config.items} items were never visited: they have no second moment"


def _mean(values: np.ndarray) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _defined(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
