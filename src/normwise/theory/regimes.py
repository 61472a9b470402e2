"""Which way a norm leans, and why: the statements that hold in each training regime, and the border between signal and noise.

A sign without its regime is no statement. Split G = signal + noise / B_i: the squared mean gradient, and the trace of the covariance
over the B_i positives that one step averages. Signal makes confident concepts long; noise makes broad concepts long.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.core.shapes import Float
from normwise.theory.quantities import Quantity, Result, Span, quantities

Sign = Literal[-1, 0, 1]
Optimizer = Literal["sgd", "adam", "static"]
Decay = Literal["none", "dense", "lazy"]
Regime = Literal["noise", "signal", "adam", "static"]


class Statement(Record):
    """What norms follow in one regime. A sign is that of d log r / d factor, all else equal; None means that the law does not say.

    Attributes:
        name: the regime in words.
        regime: what moves the norm; "static" is the optimum of a dot-product softmax, not a dynamics.
        optimizer: "adam" without decay is Adam, with decay AdamW.
        decay: none, dense (every step) or lazy (at visits only).
        lazy_updates: whether the optimizer's state moves at visits only (sparse Adam); always False for SGD.
        frequency: sign for the visit rate f.
        frequency_exponent: of r ~ f^exponent, where the law is a power.
        frequency_below_knee: the sign for f holds only for f below about 1 - beta2.
        dispersion: sign for 1 / kappa: breadth, ambiguity, human disagreement. Specificity has the opposite sign.
        temperature: sign for tau at given residuals.
        temperature_exponent: of r ~ tau^exponent, where the law is a power.
    """

    name: str
    regime: Regime
    optimizer: Optimizer
    decay: Decay
    lazy_updates: bool = False
    frequency: Sign | None
    frequency_exponent: float | None = None
    frequency_below_knee: bool = False
    dispersion: Sign | None
    temperature: Sign | None
    temperature_exponent: float | None = None


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        name="SGD, no decay, noise-dominated",
        regime="noise",
        optimizer="sgd",
        decay="none",
        frequency=1,
        frequency_exponent=0.25,
        dispersion=1,
        temperature=-1,
        temperature_exponent=-0.5,
    ),
    Statement(
        name="SGD, no decay, signal-dominated", regime="signal", optimizer="sgd", decay="none", frequency=1, dispersion=-1, temperature=-1
    ),
    Statement(
        name="SGD, dense decay, equilibrium",
        regime="noise",
        optimizer="sgd",
        decay="dense",
        frequency=1,
        frequency_exponent=0.25,
        dispersion=1,
        temperature=-1,
    ),
    Statement(
        name="SGD, lazy decay, equilibrium", regime="noise", optimizer="sgd", decay="lazy", frequency=0, dispersion=1, temperature=-1
    ),
    Statement(
        name="Adam, dense updates",
        regime="adam",
        optimizer="adam",
        decay="none",
        frequency=1,
        frequency_below_knee=True,
        dispersion=0,
        temperature=0,
    ),
    Statement(
        name="AdamW, dense updates, equilibrium",
        regime="adam",
        optimizer="adam",
        decay="dense",
        frequency=1,
        frequency_below_knee=True,
        dispersion=0,
        temperature=0,
    ),
    Statement(
        name="Adam, lazy updates",
        regime="adam",
        optimizer="adam",
        decay="none",
        lazy_updates=True,
        frequency=1,
        frequency_exponent=0.5,
        dispersion=0,
        temperature=0,
    ),
    Statement(
        name="AdamW, lazy updates, equilibrium",
        regime="adam",
        optimizer="adam",
        decay="lazy",
        lazy_updates=True,
        frequency=0,
        dispersion=0,
        temperature=0,
    ),
    Statement(
        name="dot-product softmax, static optimum",
        regime="static",
        optimizer="static",
        decay="none",
        frequency=None,
        dispersion=-1,
        temperature=None,
    ),
)
"""The whole table; every sign and exponent is tested against the formulas. Dot-product norms and cosine norms are never read alike."""


def statement_for(*, regime: str, decay: str = "none", lazy_updates: bool = False) -> Statement:
    """Return the one statement that holds in a regime.

    Args:
        regime: noise, signal, adam or static.
        decay: none, dense or lazy.
        lazy_updates: whether Adam's state moves at visits only.

    Returns:
        The row of `STATEMENTS`.

    Raises:
        InputError: the table has no such row.

    Example:
        >>> statement_for(regime="noise", decay="dense").dispersion, statement_for(regime="signal").dispersion
        (1, -1)
    """
    for statement in STATEMENTS:
        if (statement.regime, statement.decay, statement.lazy_updates) == (regime, decay, lazy_updates):
            return statement
    known = "; ".join(f"{s.regime}, {s.decay}, {s.lazy_updates}" for s in STATEMENTS)
    came = f"{regime}, {decay}, {lazy_updates}"
    raise InputError(f"no statement for regime, decay, lazy_updates = {came}; expected one of: {known}")


class SecondMoment(Record):
    """The two parts of an item's gradient second moment, for one positive per step.

    Attributes:
        signal: estimate of ||E g||^2, unbiased: slightly negative values happen where there is none.
        noise: unbiased estimate of tr Cov(g) >= 0.
        draws: number of gradients behind them.
    """

    signal: float
    noise: float
    draws: int

    def per_step(self, positives: Quantity) -> Result:
        """Return G where a step averages B_i positives: max(signal, 0) + noise / B_i.

        Example:
            >>> float(SecondMoment(signal=1.0, noise=8.0, draws=10).per_step(4))
            3.0
        """
        (count,) = quantities(positives=(positives, Span.COUNT))
        return (max(self.signal, 0.0) + self.noise / count)[()]

    @property
    def signal_share(self) -> float:
        """||E g||^2 / (||E g||^2 + tr Cov g), in 0..1; NaN where all gradients are 0."""
        signal = max(self.signal, 0.0)
        total = signal + self.noise
        return signal / total if total > 0.0 else float("nan")


def split_second_moment(gradients: Float[np.ndarray, "N D"]) -> SecondMoment:
    """Return signal and noise of an item from its tangential gradients at (nearly) one position.

    Equations: noise = sum_n ||g_n - mean g||^2 / (N - 1);  signal = ||mean g||^2 - noise / N. Their sum is mean ||g||^2 exactly.

    Args:
        gradients: (N, D) independent gradients, N >= 2, one positive each.

    Returns:
        Both parts, unbiased.

    Raises:
        InputError: fewer than two gradients, or values that are not finite.

    Reference: our derivation.

    Example:
        >>> found = split_second_moment(np.array([[1.0, 1.0], [1.0, -1.0]]))
        >>> found.signal, found.noise
        (0.0, 2.0)
    """
    count = gradients.shape[0]
    if count < 2:
        raise InputError(f"gradients hold {count} draws; expected at least 2 to tell signal from noise")
    g = gradients.astype(np.float64)
    if not np.isfinite(g).all():
        raise InputError(f"gradients: row {np.argwhere(~np.isfinite(g))[0][0]} is not finite; expected finite values: drop that row")
    mean = g.mean(axis=0)
    noise = float(((g - mean) ** 2).sum() / (count - 1))
    return SecondMoment(signal=float(mean @ mean) - noise / count, noise=noise, draws=count)


def signal_norm(r0: Quantity, loss_drop: Quantity, *, learning_rate: Quantity, loss_weight: Quantity = 1.0) -> Result:
    """Return the norm that SGD without decay reaches while gradients are mostly signal: it pays for the loss that was removed.

    Equation: r_T^2 = r_0^2 + eta f_i Delta L_i: a step adds eta^2 ||g||^2 / r^2 to r^2 and takes eta ||g||^2 / r^2 off the loss. The limit
    of small steps; finite steps and noise add to it (by factors of 1.3 to 3.8 in simulated runs). It bounds the growth from below.

    Args:
        r0: norm before the first step, >= 0.
        loss_drop: Delta L_i >= 0, how far the item's loss fell.
        learning_rate: eta >= 0.
        loss_weight: f_i >= 0, the weight of the item in the loss.

    Returns:
        r_T.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(signal_norm(3.0, 1.6, learning_rate=10.0))
        5.0
    """
    r0_, drop, eta, weight = quantities(
        r0=(r0, Span.NONNEGATIVE),
        loss_drop=(loss_drop, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        loss_weight=(loss_weight, Span.NONNEGATIVE),
    )
    return np.hypot(r0_, np.sqrt(eta * weight * drop))[()]


def crossover_steps(r: Quantity, loss_drop: Quantity, noise: Quantity, *, learning_rate: Quantity, positives: Quantity = 1) -> Result:
    """Return the steps after which noise has added as much to r^4 as the whole signal did: the sign of specificity turns about there.

    Equation: T* = r^2 Delta L / (eta tr Cov(g) / B_i), where 2 eta^2 T (tr Cov / B_i) meets 2 r^2 eta Delta L.

    Args:
        r: norm > 0.
        loss_drop: Delta L_i >= 0, how far the item's loss can fall.
        noise: tr Cov(g) >= 0 for one positive.
        learning_rate: eta > 0.
        positives: B_i >= 1, positives of the item that one step averages.

    Returns:
        T*; infinite where there is no noise.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> crossover_steps(1.0, 2.0, 10.0, learning_rate=0.1, positives=[1, 256]).tolist()
        [2.0, 512.0]
    """
    r_, drop, noise_, eta, count = quantities(
        r=(r, Span.POSITIVE),
        loss_drop=(loss_drop, Span.NONNEGATIVE),
        noise=(noise, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.POSITIVE),
        positives=(positives, Span.COUNT),
    )
    none = noise_ == 0.0
    return np.where(none, np.inf, (r_ / np.sqrt(np.where(none, 1.0, noise_))) ** 2 * drop / eta * count)[()]
