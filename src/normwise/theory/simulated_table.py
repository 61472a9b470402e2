"""What a simulated table has seen of every item, and the norms that the dynamics laws predict from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float
from normwise.theory.adaptive import predicted_norm_adam
from normwise.theory.dynamics import predicted_norm_sgd
from normwise.theory.simulated_updates import UpdateRule


@dataclass(frozen=True)
class SimulatedTable:
    """What a simulation saw of every item; all arrays are (N,) float64 but `vectors` (N, D) and `visits` (whole numbers).

    Attributes:
        vectors: the final rows.
        initial_norms: r_0.
        norms: r_T.
        visits: the steps that visited the item.
        square_sums: sum over visits of ||g||^2.
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


def predicted_norms(table: SimulatedTable, rule: UpdateRule, *, steps: int) -> Float[np.ndarray, " N"]:
    """Return the norms that the dynamics laws predict from what was measured of each item: its start, visits and gradients.

    Equations: `predicted_norm_sgd` for sgd and momentum, with f_i = visits / T and the measured G_i; `predicted_norm_adam`
    for adam and adamw, which see no G_i. Nothing is fitted.

    Args:
        table: of a run with `rule`.
        rule: the optimizer.
        steps: T of the run.

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
        predicted = predicted_norm_sgd(
            table.initial_norms,
            steps=steps,
            visit_rate=rates,
            second_moment=np.where(table.visits > 0, table.second_moments, 0.0),
            learning_rate=rule.learning_rate,
            weight_decay=rule.weight_decay,
            lazy_decay=rule.lazy,
            momentum=rule.momentum,
            coupled=rule.coupled,
        )
    return np.asarray(predicted, dtype=np.float64)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
