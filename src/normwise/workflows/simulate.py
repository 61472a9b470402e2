"""Simulate a table of free vectors and compare the norms it ends with to those that the dynamics laws predict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.core.norm_records import TrainingEvidence
from normwise.core.records import Record
from normwise.data.opening import check_new_place
from normwise.theory.adaptive import relaxation_steps_adam
from normwise.theory.entanglement import spearman
from normwise.theory.equilibria import relaxation_steps
from normwise.theory.radial import r_squared
from normwise.theory.simulated_gradients import InfoNce, PureNoise
from normwise.theory.simulated_table import LARGEST_TURN, SimulatedTable, angular_steps, predicted_norms
from normwise.theory.simulated_updates import UpdateRule
from normwise.theory.simulator import simulate_table, start_vectors
from normwise.theory.tracked_norms import FEWEST_ITEMS
from normwise.theory.training_stage import MEMORIES, memory_words
from normwise.theory.vmf_draws import uniform_directions, zipf_rates
from normwise.workflows.simulate_config import SimulationConfig

_DECADE_SLACK = 1e-9
# What the laws leave out is of this size (`LARGEST_TURN` alone costs 3%): norms that differ by less cannot test their order.
_CLOSE = 0.05
_READ_AS_SHARE = 0.3


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

    `error_log_norm` is sqrt(mean (log r - log predicted)^2) over items, nothing fitted: .02 is 2% of the norm.
    `r2_log_norm` is 1 - sum (log r - log predicted)^2 / sum (log r - mean log r)^2 over items, nothing fitted: below 0 where
    the mean is closer, as where norms hardly differ. `spearman` is the rank correlation of predicted and measured norms.
    `beyond_law` counts the items whose gradients turned them too far for the laws, which are made for small angular steps.
    """

    settings: Mapping[str, Any]
    items: tuple[SimulatedItem, ...]
    groups: tuple[SimulatedGroup, ...]
    error_log_norm: float | None = None
    r2_log_norm: float | None
    spearman: float | None
    beyond_law: int = 0
    notes: tuple[str, ...] = ()

    @property
    def error_words(self) -> str:
        """How far the law is from the norms, in words.

        Example:
            >>> NormSimulation(settings={}, items=(), groups=(), error_log_norm=0.013, r2_log_norm=None, spearman=None).error_words
            'the law is within 1.3% (root mean square of log norm over items)'
        """
        error = self.error_log_norm
        if error is None:
            return "the law's error is not known"
        # As a share of the norm a difference of logs can be read only while it is small.
        if error < _READ_AS_SHARE:
            return f"the law is within {100.0 * error:.2g}% (root mean square of log norm over items)"
        return f"the law misses log norms by {error:.3g} (root mean square over items)"


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
    turns = angular_steps(table, rule, steps=parsed.steps)
    result = NormSimulation(
        settings=parsed.model_dump(mode="json"),
        items=tuple(_items(parsed, table, predicted, rates)),
        groups=tuple(_groups(parsed, table, predicted, rates)),
        error_log_norm=_defined(_error(table, predicted)),
        r2_log_norm=_defined(r_squared(np.log(table.norms), np.log(predicted))),
        spearman=_defined(spearman(predicted, table.norms)),
        beyond_law=int((turns > LARGEST_TURN).sum()),
        notes=(*_outside(parsed, rule, table, predicted, turns), *_notes(parsed, rule, table, rates)),
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


def _outside(config: SimulationConfig, rule: UpdateRule, table: SimulatedTable, predicted: np.ndarray, turns: np.ndarray) -> Iterator[str]:
    """Where the laws are not for these settings, or these items not enough to judge them."""
    beyond = turns > LARGEST_TURN
    if beyond.any():
        yield (
            f"{int(beyond.sum())} of {config.items} items are beyond the laws, which hold for small angular steps: a gradient turned them "
            f"by up to {turns.max():.3g} (tangent), where {LARGEST_TURN:g} costs 3% of the norm: lower learning_rate or raise start_norm"
        )
    if rule.is_adam:
        early = memory_words(TrainingEvidence(optimizer="adamw", beta2=rule.beta2, lazy=rule.lazy, steps=config.steps))
        if early:
            yield early
    if config.items < FEWEST_ITEMS:
        yield f"{config.items} items are too few to judge a law by R2 or rank correlation: take at least {FEWEST_ITEMS}"
    logs = np.log(table.norms)
    spread, missed = float(logs.std()), _error(table, predicted)
    if max(spread, missed) <= _CLOSE:
        yield f"log norms differ by {spread:.2g} only (standard deviation): R2 and rank correlation say little here, read the law's error"
    elif missed > spread > 0.0:
        yield f"R2 is below 0: log norms differ by {spread:.2g} (standard deviation), and the law misses them by {missed:.2g}"


def _notes(config: SimulationConfig, rule: UpdateRule, table: SimulatedTable, rates: np.ndarray) -> Iterator[str]:
    if rule.is_adam:
        yield "the law takes each item's start and visits; Adam divides the size of gradients out, so that it takes nothing else of an item"
    else:
        yield (
            "the law takes each item's start, visits and gradients as measured in this run, and not its norm: it is no forecast from "
            "settings alone"
        )
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
        had = config.steps * (float(rates.min()) if rule.lazy else 1.0)
        if had < MEMORIES * steps:
            yield (
                f"too short for equilibrium, which takes about {MEMORIES} times {steps:.0f} {'visits' if rule.lazy else 'steps'}: "
                f"{'the rarest item' if rule.lazy else 'the run'} has {had:.0f}; the law counts that in"
            )
    unvisited = int((table.visits == 0).sum())
    if unvisited:
        yield f"{unvisited} of {config.items} items were never visited: they have no second moment"


def _error(table: SimulatedTable, predicted: np.ndarray) -> float:
    """Root mean square of log r - log predicted."""
    return float(np.sqrt(np.mean((np.log(table.norms) - np.log(predicted)) ** 2)))


def _mean(values: np.ndarray) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _defined(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
