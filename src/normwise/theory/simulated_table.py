"""What a simulated table has seen of every item, and the norms that the dynamics laws predict from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float
from normwise.theory.adaptive import predicted_norm_adam
from normwise.theory.driving_moment import acting_decay
from normwise.theory.equilibria import predicted_norm_sgd
from normwise.theory.simulated_updates import UpdateRule

# The quartic term that the law of SGD leaves out adds half this square to the growth of r^4, so a quarter of that, 3%, to r.
LARGEST_TURN = 0.5


@dataclass(frozen=True)
class SimulatedTable:
    """What a simulation saw of every item; all arrays are (N,) float64 but `vectors` (N, D) and `visits` (whole numbers).

    Attributes:
        vectors: the final rows.
        initial_norms: r_0.
        norms: r_T.
        visits: the steps that visited the item.
        square_sums: sum over visits of ||g||^2.
        driving_sums: sum over visits of ||g||^2, each times what decay has left of r^4 since (`driving_moments`).
        quartic_sums: sum over visits of ||g||^4 / r^4, which with `square_sums` makes the law of plain SGD exact.
        signal_sums: sum over probed visits of <g, g'>, with g' a second gradient at the same place that moves nothing:
            its expectation is ||E g||^2 exactly, whatever the number of positives. A probe stands for the visits around it.
        hardness_sums: sum over visits of rho^2, averaged over the step's positives.
        probes: how many visits the probes stand for.
        initial_losses: mean loss of the first rows; NaN where the source has none.
        final_losses: mean loss of the final rows.
    """

    vectors: np.ndarray
    initial_norms: np.ndarray
    norms: np.ndarray
    visits: np.ndarray
    square_sums: np.ndarray
    driving_sums: np.ndarray
    quartic_sums: np.ndarray
    signal_sums: np.ndarray
    hardness_sums: np.ndarray
    probes: np.ndarray
    initial_losses: np.ndarray
    final_losses: np.ndarray

    @property
    def second_moments(self) -> np.ndarray:
        """G = mean over visits of ||g||^2; NaN for an item without a visit."""
        return _ratio(self.square_sums, self.visits)

    @property
    def signals(self) -> np.ndarray:
        """||E g||^2, averaged over the visits; unbiased at each, so that it may fall below 0 by chance."""
        return _ratio(self.signal_sums, self.probes)

    @property
    def noises(self) -> np.ndarray:
        """Noise tr Cov g = G - ||E g||^2 of the gradient that moved the row (averaged over the step's positives)."""
        return self.second_moments - self.signals

    @property
    def hardness(self) -> np.ndarray:
        """Mean over visits of rho^2."""
        return _ratio(self.hardness_sums, self.visits)


def kept_of_fourth_power(rule: UpdateRule) -> float:
    """Return what one step of decay leaves of r^4: (1 - eta lambda)^4, with lambda / (1 - b) where it goes through the buffer."""
    decay = acting_decay(rule.weight_decay, momentum=rule.momentum, coupled=rule.coupled)
    return max(0.0, 1.0 - rule.learning_rate * decay) ** 4


def driving_moments(table: SimulatedTable, rule: UpdateRule, *, steps: int) -> Float[np.ndarray, " N"]:
    """Return the second moments as the law of SGD needs them: each visit weighted by what decay has left of it.

    Equation: with k = (1 - eta lambda)^4 and the item's visits at steps t_1 to t_n,

        G = sum_j k^(T - t_j) ||g_j||^2 / (f sum_(t <= T) k^(T - t)),   lazy: sum_j k^(n - j) ||g_j||^2 / sum_j k^(n - j)

    the plain mean without decay. See `DrivingMoment`, which is the same at learning rates that change.

    Args:
        table: of a run with `rule`.
        rule: the optimizer.
        steps: T of the run.

    Returns:
        (N,) G; NaN for an item without a visit.

    Reference: our derivation.

    Example:
        >>> one = np.ones(1)
        >>> table = SimulatedTable(np.ones((1, 4)), one, one, 2 * one, 17 * one, 2 * one, one, one, one, one, one, one)
        >>> from normwise.theory.simulated_updates import Optimizer
        >>> rule = UpdateRule(Optimizer.SGD, learning_rate=0.5, weight_decay=1.0)
        >>> driving_moments(table, rule, steps=2).round(4).tolist()
        [1.8824]
    """
    kept = kept_of_fourth_power(rule)
    counts = table.visits.astype(np.float64) if rule.lazy else np.full(table.visits.shape, float(steps))
    weights = counts if kept == 1.0 else (1.0 - kept**counts) / (1.0 - kept)
    shares = 1.0 if rule.lazy else table.visits / steps
    return _ratio(table.driving_sums, np.where(table.visits > 0, shares * weights, 0.0))


def predicted_norms(
    table: SimulatedTable, rule: UpdateRule, *, steps: int, second_moments: Float[np.ndarray, " N"] | None = None
) -> Float[np.ndarray, " N"]:
    """Return the norms that the dynamics laws predict from what was measured of each item: its start, visits and gradients.

    Equations: `predicted_norm_sgd` for sgd and momentum, with f_i = visits / T and the measured G_i; `predicted_norm_adam`
    for adam and adamw, which see no G_i. Nothing is fitted.

    Args:
        table: of a run with `rule`.
        rule: the optimizer.
        steps: T of the run.
        second_moments: (N,) G_i to take instead of the measured `driving_moments`; not read for an item without a visit.

    Returns:
        (N,) predicted r_T; r_0 for an item without a visit and without decay.

    Raises:
        InputError: a value outside the laws' range.

    Reference: mean-field laws, our derivation. They take gradients for independent noise: where the signal dominates, a
        momentum buffer adds up gradients that agree, and Adam's steps agree too, so that both move further.

    Example:
        >>> from normwise.theory.simulated_gradients import PureNoise
        >>> from normwise.theory.simulated_updates import Optimizer
        >>> from normwise.theory.simulator import simulate_table, start_vectors
        >>> rule = UpdateRule(Optimizer.SGD, learning_rate=0.1, weight_decay=0.02)
        >>> start = start_vectors(200, np.random.default_rng(0), width=8)
        >>> noise = PureNoise(np.full(200, 2.0), width=8)
        >>> table = simulate_table(noise, rule, start=start, visit_rates=np.ones(200), steps=500, seed=0)
        >>> bool(abs(predicted_norms(table, rule, steps=500).mean() / table.norms.mean() - 1) < 0.02)
        True
    """
    rates = table.visits / steps
    if rule.is_adam:
        predicted = predicted_norm_adam(
            table.initial_norms,
            steps=steps,
            visit_rate=rates,
            width=table.vectors.shape[1],
            learning_rate=rule.learning_rate,
            beta2=rule.beta2,
            weight_decay=rule.weight_decay,
            lazy=rule.lazy,
        )
    else:
        moments = driving_moments(table, rule, steps=steps) if second_moments is None else second_moments
        predicted = predicted_norm_sgd(
            table.initial_norms,
            steps=steps,
            visit_rate=rates,
            second_moment=np.where(table.visits > 0, moments, 0.0),
            learning_rate=rule.learning_rate,
            weight_decay=rule.weight_decay,
            lazy_decay=rule.lazy,
            momentum=rule.momentum,
            coupled=rule.coupled,
        )
    return np.asarray(predicted, dtype=np.float64)


def angular_steps(table: SimulatedTable, rule: UpdateRule, *, steps: int) -> Float[np.ndarray, " N"]:
    """Return by how much a gradient turned each row: the laws hold where this is well below 1 (see `LARGEST_TURN`).

    Equations, for a gradient's whole displacement and with n the gradients that a buffer moves by at once, n = max(1, f / (1 - b)) (f = 1
    where updates are lazy):

        sgd, momentum    eta / (1 - b) sqrt(n sum ||g||^4 / r^4 / sum ||g||^2): the root mean square of eta ||g|| / r^2, weighted by
                         what each visit adds to r^4. Its square is twice the relative size of the quartic term that the law leaves out
        adam, adamw      eta sqrt(n d / (f + 1 - beta2)) / r, with b = beta1; lazy: f + 1 - beta2 becomes 1. r is the smaller of r_0 and
                         r_T, or r_T once decay has forgotten the start (1% of r_0^2 left)

    Args:
        table: of a run with `rule`.
        rule: the optimizer.
        steps: T of the run.

    Returns:
        (N,) tangents of the angles; 0 for an item without a visit.

    Reference: our derivation.

    Example:
        >>> one, none = np.ones(1), np.zeros(1)
        >>> table = SimulatedTable(np.ones((1, 4)), one, 2 * one, one, 4 * one, 4 * one, 16 * one, none, none, none, none, none)
        >>> from normwise.theory.simulated_updates import Optimizer
        >>> angular_steps(table, UpdateRule(Optimizer.SGD, learning_rate=0.1), steps=1).tolist()
        [0.2]
    """
    seen = table.visits > 0
    rates = np.where(rule.lazy, 1.0, table.visits / steps)
    buffer = rule.beta1 if rule.is_adam else rule.momentum
    at_once = np.maximum(1.0, rates / (1.0 - buffer))
    if rule.is_adam:
        scale = 1.0 if rule.lazy else rates + 1.0 - rule.beta2
        forgotten = rule.shrink ** (2.0 * steps) < 0.01
        r = table.norms if forgotten else np.minimum(table.initial_norms, table.norms)
        turned = rule.learning_rate * np.sqrt(at_once * table.vectors.shape[1] / scale) / r
    else:
        squares = np.divide(table.quartic_sums, table.square_sums, out=np.zeros(seen.size), where=table.square_sums > 0.0)
        turned = rule.learning_rate / (1.0 - buffer) * np.sqrt(at_once * squares)
    return np.where(seen, turned, 0.0)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
