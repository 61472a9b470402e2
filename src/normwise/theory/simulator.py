"""The free table under a scale-invariant loss: N vectors, each pulled by its own gradients, simulated step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.simulated_gradients import GradientSource
from normwise.theory.simulated_table import SimulatedTable, kept_of_fourth_power
from normwise.theory.simulated_updates import Rows, UpdateRule, start_rows
from normwise.theory.vmf_draws import orthogonal_directions, uniform_directions

PROBE_EVERY = 8
_ALL_PROBED = 32
_BLOCK_ROWS = 640
_VISIT_VALUES = 1 << 24
_LOSS_DRAWS = 64


class Start(StrEnum):
    """Where rows begin: a `random` direction, one `orthogonal` to the item's mean direction, or that mean (`aligned`)."""

    RANDOM = "random"
    ORTHOGONAL = "orthogonal"
    ALIGNED = "aligned"


def start_vectors(
    count: int, random: np.random.Generator, *, width: int, norm: float = 1.0, start: Start = Start.RANDOM, means: np.ndarray | None = None
) -> Float[np.ndarray, "N D"]:
    """Return the first rows of a table.

    Args:
        count: N.
        random: source of the directions.
        width: D.
        norm: r_0 > 0, the length of every row.
        start: see `Start`.
        means: (N, D) unit mean directions; needed unless the start is random.

    Returns:
        (N, D) rows, float64.

    Raises:
        InputError: a norm that is not positive, or no means where the start needs them.

    Example:
        >>> rows = start_vectors(2, np.random.default_rng(0), width=4, norm=3.0)
        >>> np.linalg.norm(rows, axis=1).round(12).tolist()
        [3.0, 3.0]
    """
    if not (np.isfinite(norm) and norm > 0):
        raise InputError(f"norm is {norm}; expected a finite number > 0")
    if start is Start.RANDOM:
        return norm * uniform_directions(random, count, width)
    if means is None:
        raise InputError(f"start {start} is told from mean directions, and pure noise has none: start at random")
    if means.shape != (count, width):
        raise InputError(f"means have shape {means.shape}; expected ({count}, {width})")
    return norm * (means if start is Start.ALIGNED else orthogonal_directions(random, means))


def simulate_table(
    source: GradientSource,
    rule: UpdateRule,
    *,
    start: np.ndarray,
    visit_rates: np.ndarray,
    steps: int,
    seed: int,
    probe_every: int | None = PROBE_EVERY,
) -> SimulatedTable:
    """Simulate a table of free vectors whose loss sees directions only.

    Equations: item i is visited at each of T steps with probability f_i, independently; then the tangential gradient g
    is drawn at hat u and the rule moves u by q = g / r. Items do not touch each other, so that each runs from visit to
    visit, and the steps between are taken in closed form: exact for every rule (see `UpdateRule` for epsilon).

    Args:
        source: the law of the gradients.
        rule: the optimizer.
        start: (N, D) first rows, none of them zero; the dtype decides the arithmetic of rows and optimizer (float64, or
            float32 for speed), while gradients are drawn in float64. Left as it is.
        visit_rates: (N,) f_i in [0, 1].
        steps: T >= 1.
        seed: of everything that is drawn; results are bit-equal for equal arguments.
        probe_every: probe an item's first 32 visits and then one in so many for its signal, and draw its losses at both
            ends; None does neither. Probes have their own random stream: the rows are bit-equal with and without them.

    Returns:
        The final rows and what was seen of each item.

    Raises:
        InputError: an argument outside its range, or arrays that do not fit each other.

    Reference: free embedding under a scale-invariant loss, our derivation (u' = u - (eta / r) g, <g, u> = 0).

    Example:
        >>> from normwise.theory.simulated_gradients import PureNoise
        >>> from normwise.theory.simulated_updates import Optimizer
        >>> source = PureNoise(np.full(50, 2.0), width=8)
        >>> rule = UpdateRule(Optimizer.SGD, learning_rate=0.1)
        >>> start = start_vectors(50, np.random.default_rng(0), width=8)
        >>> table = simulate_table(source, rule, start=start, visit_rates=np.ones(50), steps=100, seed=0)
        >>> exact = table.initial_norms**4 + 2 * 0.1**2 * table.square_sums + 0.1**4 * table.quartic_sums
        >>> bool(np.allclose(table.norms**4, exact, rtol=1e-12))
        True
    """
    _check(source, start, visit_rates)
    for name, value in (("steps", steps), ("probe_every", 1 if probe_every is None else probe_every)):
        if value < 1:
            raise InputError(f"{name} is {value}; expected at least 1")
    count = source.items
    vectors = np.array(start, order="C")
    sums = _Sums(count)
    # Rows that are visited about equally often share a block: few of them then wait for the others.
    order = np.argsort(-visit_rates, kind="stable")
    rows_each = max(1, min(_BLOCK_ROWS, _VISIT_VALUES // steps))
    blocks = [order[first : first + rows_each] for first in range(0, count, rows_each)]
    visit_seeds, step_seeds, probe_seeds = (part.spawn(len(blocks)) for part in np.random.SeedSequence(seed).spawn(3))
    for block, visit_seed, step_seed, probe_seed in zip(blocks, visit_seeds, step_seeds, probe_seeds, strict=True):
        plan = _visits(visit_rates[block], steps, _fast(visit_seed))
        run = _Run(source, rule, steps, probe_every, _fast(step_seed), _fast(probe_seed), np.empty((block.size, source.width)))
        items = block[plan.order]
        vectors[items] = run.through(items, vectors[items], plan, sums)
    return SimulatedTable(
        vectors=vectors, initial_norms=_lengths(start), norms=_lengths(vectors), **{name: getattr(sums, name) for name in sums.__slots__}
    )


class _Sums:
    """What the blocks add up, item by item."""

    __slots__ = (
        "driving_sums",
        "final_losses",
        "hardness_sums",
        "initial_losses",
        "probes",
        "quartic_sums",
        "signal_sums",
        "square_sums",
        "visits",
    )

    def __init__(self, count: int) -> None:
        for name in ("driving_sums", "hardness_sums", "quartic_sums", "signal_sums", "square_sums"):
            setattr(self, name, np.zeros(count))
        self.visits, self.probes = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.initial_losses, self.final_losses = np.full(count, np.nan), np.full(count, np.nan)


@dataclass(frozen=True)
class _Visits:
    """When each row of a block is visited: rows in `order` have falling `counts`; row i's times start at `offsets[i]`."""

    order: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    times: np.ndarray

    def events(self) -> Iterator[np.ndarray]:
        """The times (1 to T) of the rows' first visits, second visits, ...: each covers the first rows only."""
        for event in range(int(self.counts[0]) if self.counts.size else 0):
            active = int(np.searchsorted(-self.counts, -event, side="left"))
            yield self.times[self.offsets[:active] + event]


def _visits(rates: Float[np.ndarray, " M"], steps: int, random: np.random.Generator) -> _Visits:
    row, time = np.nonzero(random.random((rates.size, steps), dtype=np.float32) < rates[:, None].astype(np.float32))
    counts = np.bincount(row, minlength=rates.size)
    order = np.argsort(-counts, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return _Visits(order, counts[order], offsets[order], (time + 1).astype(np.int32))


@dataclass(frozen=True)
class _Run:
    source: GradientSource
    rule: UpdateRule
    steps: int
    probe_every: int | None
    random: np.random.Generator
    probe_random: np.random.Generator
    scratch: np.ndarray

    def through(self, items: Int[np.ndarray, " M"], vectors: np.ndarray, plan: _Visits, sums: _Sums) -> np.ndarray:
        """Carry a block of rows, in the plan's order, through all steps."""
        rows = start_rows(self.rule, vectors, steps=self.steps)
        done = np.zeros(items.size, dtype=np.int64)
        visits = np.zeros(items.size, dtype=np.int64)
        sums.initial_losses[items] = self._losses(items, vectors)
        kept = kept_of_fourth_power(self.rule)
        for event, times in enumerate(plan.events()):
            active = times.size
            gaps = times - 1 - done[:active]
            if gaps.any():
                rows.rest(done[:active], gaps)
            visits[:active] += 1
            squares = self._visit(rows, items[:active], visits[:active] if self.rule.lazy else times, event, sums)
            ahead = plan.counts[:active] - visits[:active] if self.rule.lazy else self.steps - times
            sums.driving_sums[items[:active]] += squares * kept**ahead
            done[:active] = times
        rows.rest(done, self.steps - done)
        sums.visits[items] = visits
        sums.final_losses[items] = self._losses(items, rows.vectors)
        return rows.vectors

    def _visit(self, rows: Rows, items: np.ndarray, steps: np.ndarray, event: int, sums: _Sums) -> np.ndarray:
        """Move the rows, and return ||g||^2 of each."""
        here = rows.vectors[: items.size]
        lengths = np.sqrt(np.einsum("nd,nd->n", here, here))[:, None]
        directions = np.divide(here, lengths, out=self.scratch[: items.size])
        drawn = self.source.draw(items, directions, self.random)
        squares = np.einsum("nd,nd->n", drawn.values, drawn.values)
        sums.square_sums[items] += squares
        sums.quartic_sums[items] += (squares / lengths[:, 0].astype(np.float64) ** 2) ** 2
        sums.hardness_sums[items] += drawn.hardness
        weight = self._probe_weight(event)
        if weight:
            again = self.source.draw(items, directions, self.probe_random, positives=1)
            sums.signal_sums[items] += weight * np.einsum("nd,nd->n", drawn.values, again.values)
            sums.probes[items] += weight
        drawn.values[:] /= lengths
        rows.step(drawn.values.astype(here.dtype, copy=False), steps)
        return squares

    def _probe_weight(self, event: int) -> int:
        """How many visits a probe of this one stands for; 0 for no probe."""
        if self.probe_every is None:
            return 0
        if event < _ALL_PROBED:
            return 1
        return self.probe_every if (event - _ALL_PROBED) % self.probe_every == self.probe_every // 2 else 0

    def _losses(self, items: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        if self.probe_every is None or not self.source.has_loss:
            return np.full(items.size, np.nan)
        directions = vectors / _lengths(vectors)[:, None]
        return self.source.draw(items, directions, self.probe_random, positives=_LOSS_DRAWS).losses


def _fast(seed: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def _lengths(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64, copy=False)
    return np.sqrt(np.einsum("nd,nd->n", wide, wide))


def _check(source: GradientSource, start: np.ndarray, visit_rates: np.ndarray) -> None:
    if start.shape != (source.items, source.width):
        raise InputError(f"start has shape {start.shape}; expected ({source.items}, {source.width}) as the source has")
    if start.dtype not in (np.float64, np.float32):
        raise InputError(f"start has dtype {start.dtype}; expected float64 or float32")
    bad = np.flatnonzero(~(np.isfinite(start).all(axis=1) & (start != 0).any(axis=1)))
    if bad.size:
        raise InputError(f"start: row {bad[0]} is zero or not finite, and has no direction: start elsewhere")
    if visit_rates.shape != (source.items,):
        raise InputError(f"visit_rates have shape {visit_rates.shape}; expected one rate for each of {source.items} items")
    bad = np.flatnonzero(~((visit_rates >= 0) & (visit_rates <= 1)))
    if bad.size:
        raise InputError(f"visit_rates: item {bad[0]} has {visit_rates[bad[0]]}; expected a share of the steps in [0, 1]")
