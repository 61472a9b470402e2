"""How far the InfoNCE risk may lie above the mean loss of n independent tuples: for a class of encoders, and for one fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.infonce_continuity import log_power_means
from normwise.theory.signals import check_temperature

_ROUNDING = 1e-6


@dataclass(frozen=True)
class EncoderClass:
    """Encoders onto the unit sphere, |phi_theta(z) - phi_theta'(z)| <= C |z| |theta - theta'|, theta in a ball.

    Args:
        parameters: d, the length of theta, >= 1.
        radius: R_0 >= 0 of the ball around where training starts.
        lipschitz: C >= 0.

    Raises:
        InputError: a value is out of range.

    Reference: Whiteley (2026), assumption C. A perceptron without biases has such a C, from the spectral norms of its weights.
    """

    parameters: int
    radius: float
    lipschitz: float

    def __post_init__(self) -> None:
        if self.parameters < 1:
            raise InputError(f"parameters is {self.parameters}; expected at least 1")
        for name in ("radius", "lipschitz"):
            _check_size(name, getattr(self, name))


@dataclass(frozen=True)
class GapBound:
    """What the risk may exceed the mean loss by, with probability 1 - delta for all encoders of a class at once; in nats.

    Args:
        complexity: 2 times the bound on the empirical Rademacher complexity; falls as 1 / sqrt(n).
        variability: what chance adds, which does the same.
        range: what the loss can range over; no gap is larger.
        tuples: n, that it was made for.
    """

    complexity: float
    variability: float
    range: float
    tuples: int

    @property
    def total(self) -> float:
        """The bound."""
        return self.complexity + self.variability

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than that the loss is bounded; for networks of today's size it does not."""
        return self.total >= self.range

    @property
    def tuples_needed(self) -> float:
        """The n above which the bound would say something, all else equal."""
        return self.tuples * (self.total / self.range) ** 2


def loss_range(k: int, largest_score: float) -> tuple[float, float]:
    """Return the least and the largest loss of a tuple.

    Equation: log(1/k + e^{-2c}) and log(1/k + e^{2c}); they lie at most 4c apart, and less the more negatives there are.

    Args:
        k: negatives, >= 1.
        largest_score: c >= 0: 1 / temperature for cosine, b^2 / temperature for dot products of vectors no longer than b.

    Returns:
        Both ends, in nats, less log k as in `infonce_losses`.

    Raises:
        InputError: k < 1, or c negative or not finite.

    Reference: Whiteley (2026), lemma 5.

    Example:
        >>> loss_range(1, 0.0)
        (0.6931471805599453, 0.6931471805599453)
    """
    _check_count("k", k)
    _check_size("largest_score", largest_score)
    low, high = np.logaddexp(-np.log(k), (-2.0 * largest_score, 2.0 * largest_score))
    return float(low), float(high)


def input_scale(
    anchors: Float[np.ndarray, " n"], positives: Float[np.ndarray, " n"], negatives: Float[np.ndarray, "n k"], temperature: float
) -> float:
    """Return B_tau, the size of the inputs that the complexity of a class goes with.

    Equation: B = (mean |z_a|^2)^{1/2} + (mean |z_+|^2)^{1/2} + (mean_ij |z_ij|^{2/m})^{m/2}, m = min(1, tau). It is a mean over negatives,
    so that it settles as k grows; the lower the temperature, the nearer it is to the longest of them.

    Args:
        anchors: (n,) norms of the inputs, not of their embeddings.
        positives: (n,)
        negatives: (n, k)
        temperature: tau > 0.

    Returns:
        At least 0.

    Raises:
        InputError: shapes do not fit, a norm is negative or not finite, or the temperature is not finite and above 0.

    Reference: Whiteley (2026), lemma 1.

    Example:
        >>> input_scale(np.ones(2), np.ones(2), np.ones((2, 3)), 0.01)
        3.0
    """
    check_temperature(temperature)
    n = len(anchors)
    if not n or positives.shape != (n,) or negatives.ndim != 2 or len(negatives) != n or not negatives.shape[1]:
        shapes = anchors.shape, positives.shape, negatives.shape
        raise InputError(f"anchors, positives and negatives have shapes {shapes}; expected (n,), (n,) and (n, k), both at least 1")
    for name, norms in (("anchors", anchors), ("positives", positives), ("negatives", negatives)):
        if not (np.isfinite(norms) & (norms >= 0.0)).all():
            raise InputError(f"{name} hold a norm that is negative or not finite; expected the lengths of the inputs")
    exponents = np.array([2.0, 2.0 / min(1.0, temperature)])
    logs = [
        log_power_means(values.ravel(), exponents[each : each + 1])[0] for values, each in ((anchors, 0), (positives, 0), (negatives, 1))
    ]
    return float(np.exp(logs).sum())


def loss_lipschitz(temperature: float, *, scale: float, lipschitz: float) -> float:
    """Return L, by which the losses of n tuples change at most, in root mean square, per unit of the parameters.

    Equation: (mean_i (l_i(theta) - l_i(theta'))^2)^{1/2} <= L |theta - theta'|, L = (e / tau) B_tau C.

    Args:
        temperature: tau > 0.
        scale: B_tau of `input_scale`, of the same temperature.
        lipschitz: C of the class.

    Returns:
        At least 0.

    Raises:
        InputError: a value is out of range.

    Reference: Whiteley (2026), lemma 1, which has 4 e; the constants (2, 1, 1) of `continuity_bound` give e, since 2 < e.

    Example:
        >>> round(loss_lipschitz(0.5, scale=1.0, lipschitz=1.0), 4)
        5.4366
    """
    check_temperature(temperature)
    _check_size("scale", scale)
    _check_size("lipschitz", lipschitz)
    return float(np.e / temperature * scale * lipschitz)


def complexity_bound(n: int, parameters: int, *, reach: float, diameter: float) -> float:
    """Bound the empirical Rademacher complexity of the losses of a class with d parameters.

    Equation: 24 D sqrt(d/n) min{a sqrt(1 + log 3), sqrt(1 + log(1 + 2a))}, a = reach / D.

    Args:
        n: tuples, >= 1.
        parameters: d >= 1.
        reach: L R_0 >= 0, the farthest that losses get from those at the center of the ball, in root mean square.
        diameter: D > 0, the farthest that two losses are apart, whatever the parameters: 4 / temperature for cosine.

    Returns:
        Nats, at least 0.

    Raises:
        InputError: a value is out of range.

    Reference: Whiteley (2026), proposition 5. Its proof takes `reach` for the diameter of the ball's image, which may be twice that;
        the result stands, as chaining from the center needs 12 times the entropy integral up to half of min(reach, D) only.

    Example:
        >>> round(complexity_bound(10_000, 1, reach=1.0, diameter=1.0), 4)
        0.3477
    """
    _check_count("n", n)
    _check_count("parameters", parameters)
    _check_size("reach", reach)
    if not (np.isfinite(diameter) and diameter > 0.0):
        raise InputError(f"diameter is {diameter}; expected a finite number above 0")
    a = reach / diameter
    return float(24.0 * diameter * np.sqrt(parameters / n) * min(a * np.sqrt(1.0 + np.log(3.0)), np.sqrt(1.0 + np.log1p(2.0 * a))))


def gap_bound(n: int, k: int, temperature: float, encoders: EncoderClass, *, scale: float, delta: float) -> GapBound:
    """Bound what training on n tuples can hide, for every encoder of a class by cosine.

    Equation: R - Rhat <= 2 Rad + 3 (hi - lo) sqrt(log(2/delta) / (2n)) with probability 1 - delta, Rad of `complexity_bound` at
    D = 4 / tau and a = (e/4) R_0 B_tau C, (lo, hi) of `loss_range`.

    Args:
        n: tuples, >= 1, that must be independent of each other: not those of a batch that are each other's negatives, nor those
            that share a pool.
        k: negatives of each, >= 1.
        temperature: tau > 0.
        encoders: the class, laid down before the tuples were seen.
        scale: B_tau of their inputs.
        delta: 0..1, ends excluded.

    Returns:
        The bound, which says whether it is vacuous.

    Raises:
        InputError: a value is out of range.

    Reference: Whiteley (2026), propositions 3 and 5; their a is 4 times ours.

    Example:
        >>> found = gap_bound(10_000, 16, 0.1, EncoderClass(1_000_000, 1.0, 1.0), scale=3.0, delta=0.05)
        >>> found.vacuous, f"{found.tuples_needed:.0e}"
        (True, '2e+10')
    """
    _check_count("n", n)
    _check_delta(delta)
    reach = loss_lipschitz(temperature, scale=scale, lipschitz=encoders.lipschitz) * encoders.radius
    low, high = loss_range(k, 1.0 / temperature)
    return GapBound(
        complexity=2.0 * complexity_bound(n, encoders.parameters, reach=reach, diameter=4.0 / temperature),
        variability=float(3.0 * (high - low) * np.sqrt(np.log(2.0 / delta) / (2.0 * n))),
        range=high - low,
        tuples=n,
    )


def hoeffding_certificate(losses: Float[np.ndarray, " n"], k: int, largest_score: float, *, delta: float) -> float:
    """Return what the risk of one encoder is below with probability 1 - delta, from the range of the loss alone.

    Equation: mean l + (hi - lo) sqrt(log(1/delta) / (2n)), (lo, hi) of `loss_range`.

    The encoder must have been fixed before these tuples were seen, and the tuples be independent of each other, negatives included: it
    does not hold for in-batch negatives, nor for queries that share a pool. Of two certificates choose one beforehand; the lesser of
    both holds at delta where each was made at delta / 2.

    Args:
        losses: (n,) of `infonce_losses`, n >= 1.
        k: negatives of each, >= 1.
        largest_score: c, as in `loss_range`.
        delta: 0..1, ends excluded.

    Returns:
        Nats, less log k.

    Raises:
        InputError: a value is out of range, or a loss outside what it can range over.

    Reference: Hoeffding (1963), theorem 2.

    Example:
        >>> round(hoeffding_certificate(np.zeros(1000), 8, 2.0, delta=0.05), 3)
        0.23
    """
    low, high = _checked_losses(losses, k, largest_score, delta)
    return float(losses.mean() + (high - low) * np.sqrt(-np.log(delta) / (2.0 * losses.size)))


def bernstein_certificate(losses: Float[np.ndarray, " n"], k: int, largest_score: float, *, delta: float) -> float:
    """Return what the risk of one encoder is below with probability 1 - delta, from how little its losses vary.

    Equation: mean l + sqrt(2 V log(2/delta) / n) + 7 (hi - lo) log(2/delta) / (3 (n - 1)), V their sample variance.

    For an encoder fixed beforehand and independent tuples only, as `hoeffding_certificate`; for large n sharper than that wherever the
    standard deviation of the losses is below about 0.45 of their range.

    Args:
        losses: (n,) of `infonce_losses`, n >= 2.
        k: negatives of each, >= 1.
        largest_score: c, as in `loss_range`.
        delta: 0..1, ends excluded.

    Returns:
        Nats, less log k.

    Raises:
        InputError: as `hoeffding_certificate`, or fewer than two losses.

    Reference: Maurer and Pontil (2009), theorem 4, arXiv 0907.3740.

    Example:
        >>> round(bernstein_certificate(np.zeros(1000), 8, 2.0, delta=0.05), 3)
        0.051
    """
    low, high = _checked_losses(losses, k, largest_score, delta)
    n = losses.size
    if n < 2:
        raise InputError(f"losses has {n} value; expected at least 2, since their variance is needed: use hoeffding_certificate")
    log = np.log(2.0 / delta)
    return float(losses.mean() + np.sqrt(2.0 * losses.var(ddof=1) * log / n) + 7.0 * (high - low) * log / (3.0 * (n - 1)))


def _checked_losses(losses: np.ndarray, k: int, largest_score: float, delta: float) -> tuple[float, float]:
    _check_delta(delta)
    low, high = loss_range(k, largest_score)
    if not losses.size:
        raise InputError("losses is empty; expected at least 1 value")
    slack = _ROUNDING * (1.0 + largest_score)
    bad = np.flatnonzero(~((losses >= low - slack) & (losses <= high + slack)))
    if bad.size:
        raise InputError(
            f"the loss of tuple {bad[0]} is {losses[bad[0]]:.6g}; expected {low:.6g} to {high:.6g} for {k} negatives and scores of at most "
            f"{largest_score:g}: check k, the temperature, and that log k was taken off"
        )
    return low, high


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{name} is {value}; expected at least 1")


def _check_size(name: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0.0):
        raise InputError(f"{name} is {value}; expected a finite number of at least 0")


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta is {delta}; expected a probability of failure between 0 and 1, such as 0.05")
