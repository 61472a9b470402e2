"""Where weight decay meets growth under SGD: the norm after any number of steps, its equilibrium, and how long that takes.

The loss sees only the direction of the vector, and the names are those of `dynamics`: eta = learning_rate, lambda = weight_decay
(decoupled unless coupled), f = visit_rate, G = second_moment = E[||g||^2 | visit], b = momentum.
Every argument may be a number or an array; arrays broadcast, and the result is float64.
"""

from __future__ import annotations

import numpy as np

from normwise.theory.dynamics import fourth_root_of_sum
from normwise.theory.quantities import Quantity, Result, Span, check_decay, decay_weighted_steps, quantities


def predicted_norm_sgd(
    r0: Quantity,
    *,
    steps: Quantity,
    visit_rate: Quantity,
    second_moment: Quantity,
    learning_rate: Quantity,
    weight_decay: Quantity = 0.0,
    lazy_decay: bool = False,
    momentum: Quantity = 0.0,
    coupled: bool = False,
) -> Result:
    """Return the mean-field norm after T steps of SGD: growth, relaxation and equilibrium in one formula.

    Equation: r_T^4 = (1 - x)^(4T) r_0^4 + (1 - (1 - x)^(4T)) r_eq^4, with r_eq of `equilibrium_norm_sgd` and x the share of r that
    decay takes per step (eta lambda; eta lambda / (1 - b) to first order for coupled momentum). Limits: lambda -> 0 gives
    r_0^4 + 2 (eta / (1 - b))^2 f T G, hence r ~ (f T G)^(1/4); T -> infinity gives r_eq. Lazy decay: T becomes the f T visits, f becomes 1.
    Mean field: ||g||^2 is replaced by f G. It is low where the angular step at a visit is not small (4% at eta = .1, lambda = .02,
    f = .03), and it leaves out the 1 / (1 - b) steps in which a momentum buffer fills.

    Args:
        r0: norm before the first step, >= 0.
        steps: T >= 0.
        visit_rate: f in 0..1, the share of steps whose gradient reaches the item.
        second_moment: G = E[||g||^2 | visit] >= 0; for a mean over anchors see `mean_loss_moment`.
        learning_rate: eta >= 0.
        weight_decay: lambda >= 0, with eta lambda < 1.
        lazy_decay: the item decays (and its momentum buffer moves) at its visits only; else at every step.
        momentum: b in 0..1, below 1, heavy ball (buffer = b buffer + gradient), for gradients that are mostly noise.
        coupled: the decay enters the buffer as an L2 gradient; else it is applied to the vector itself. The same where b = 0.

    Returns:
        r_T.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation; the coupled equilibrium agrees with spherical motion dynamics (Wan et al., 2020) and rotational
    equilibrium (Kosson et al., 2305.17212).

    Example:
        >>> float(predicted_norm_sgd(1.0, steps=1000, visit_rate=0.3, second_moment=0.25, learning_rate=0.1).round(6))
        1.257433
    """
    r0_, steps_, visits, moment, eta, decay, b = quantities(
        r0=(r0, Span.NONNEGATIVE),
        steps=(steps, Span.NONNEGATIVE),
        visit_rate=(visit_rate, Span.SHARE),
        second_moment=(second_moment, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
        momentum=(momentum, Span.BELOW_ONE),
    )
    if lazy_decay:
        steps_, visits = steps_ * visits, np.ones_like(visits)
    shrink, gain = _rates(eta, decay, b, coupled=coupled)
    # (1 - x)^4 = 1 - rate, written so that a tiny x keeps its digits.
    rate = -np.expm1(4.0 * np.log1p(-shrink))
    kept = np.exp(steps_ * np.log1p(-shrink)) * r0_
    per_step = np.divide(rate, shrink, out=np.full(np.shape(shrink), 4.0), where=shrink > 1e-150)
    heat = np.sqrt(eta) * (visits * gain * per_step) ** 0.25 * moment**0.25 * decay_weighted_steps(steps_, rate) ** 0.25
    return fourth_root_of_sum(kept, heat)[()]


def equilibrium_norm_sgd(
    *,
    visit_rate: Quantity,
    second_moment: Quantity,
    learning_rate: Quantity,
    weight_decay: Quantity,
    lazy_decay: bool = False,
    momentum: Quantity = 0.0,
    coupled: bool = False,
) -> Result:
    """Return the norm at which decay balances the growth from gradients that are mostly noise.

    Equations, with a = 1 - eta lambda:

        dense, b = 0     r^4 = eta^2 f G / (1 - a^2)                                    ~ eta f G / (2 lambda)
        lazy             the same with f = 1: the frequency drops out
        coupled, b       r^4 = eta f G / (lambda (1 - b) (2 - eta lambda / (1 + b)))    ~ eta f G / (2 lambda (1 - b))
        decoupled, b     r^4 = eta^2 f G (1 + a b) / ((1 - a b)(1 - a^2)(1 - b^2))      ~ eta f G / (2 lambda (1 - b)^2)

    The momentum forms are the stationary variances of the two AR(2) processes at constant r; at b = 0 they are the first line.
    Training must have lasted several `relaxation_steps`; otherwise use `predicted_norm_sgd`.

    Args:
        visit_rate: f in 0..1.
        second_moment: G = E[||g||^2 | visit] >= 0.
        learning_rate: eta > 0.
        weight_decay: lambda >= 0, with eta lambda < 1.
        lazy_decay: the item decays at its visits only.
        momentum: b in 0..1, below 1.
        coupled: the decay enters the momentum buffer as an L2 gradient.

    Returns:
        The norm; 0 where decay meets no gradient; infinite where lambda = 0 and there is a gradient; NaN where there is neither, or
        where lazy decay never happens (f = 0): such an item keeps the norm it had.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation; coupled: see `predicted_norm_sgd`.

    Example:
        >>> rates = dict(second_moment=2.44, learning_rate=0.1, weight_decay=0.02)
        >>> equilibrium_norm_sgd(visit_rate=[1.0, 0.1], **rates).round(3).tolist()
        [1.572, 0.884]
    """
    visits, moment, eta, decay, b = quantities(
        visit_rate=(visit_rate, Span.SHARE),
        second_moment=(second_moment, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.POSITIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
        momentum=(momentum, Span.BELOW_ONE),
    )
    shrink, gain = _rates(eta, decay, b, coupled=coupled)
    rate = np.ones_like(visits) if lazy_decay else visits
    heat = np.sqrt(eta) * (rate * gain) ** 0.25 * moment**0.25
    return balance(heat, shrink**0.25, undefined=(visits == 0.0) & lazy_decay)[()]


def equilibrium_angular_step(*, learning_rate: Quantity, weight_decay: Quantity) -> Result:
    """Return the angular step of plain SGD at the dense-decay equilibrium of an item visited every step: no gradient enters.

    Equation: eta sqrt(G) / r_eq^2 = sqrt(1 - (1 - eta lambda)^2) ~ sqrt(2 eta lambda).

    Args:
        learning_rate: eta >= 0.
        weight_decay: lambda >= 0, with eta lambda < 1.

    Returns:
        The step, in the units of `angular_step`.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(equilibrium_angular_step(learning_rate=0.1, weight_decay=0.02).round(4))
        0.0632
    """
    eta, decay = quantities(learning_rate=(learning_rate, Span.NONNEGATIVE), weight_decay=(weight_decay, Span.NONNEGATIVE))
    share = check_decay(eta, decay)
    return np.sqrt(share * (2.0 - share))[()]


def relaxation_steps(*, learning_rate: Quantity, weight_decay: Quantity, momentum: Quantity = 0.0, coupled: bool = False) -> Result:
    """Return the steps in which the distance of r^4 from its equilibrium falls by the factor e.

    Equation: -1 / (4 log(1 - x)) ~ 1 / (4 eta lambda), with x as in `predicted_norm_sgd`. Training that is shorter than a few of
    these is growth, not equilibrium. Under lazy decay the result counts visits: divide by f for steps.

    Args:
        learning_rate: eta >= 0.
        weight_decay: lambda >= 0, with eta lambda < 1.
        momentum: b in 0..1, below 1; without effect unless `coupled`.
        coupled: the decay enters the momentum buffer.

    Returns:
        The number of steps; infinite without decay.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(relaxation_steps(learning_rate=0.1, weight_decay=0.02).round(1))
        124.9
    """
    eta, decay, b = quantities(
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
        momentum=(momentum, Span.BELOW_ONE),
    )
    return e_folding_steps(_rates(eta, decay, b, coupled=coupled)[0], power=4)


def e_folding_steps(lost: Quantity, *, power: int) -> Result:
    """Return -1 / (power log(1 - x)): the steps in which r^power, shrunk as (1 - x)^power a step, falls by e; inf where x = 0."""
    speed = np.asarray(-power * np.log1p(-np.asarray(lost)))
    return np.divide(1.0, speed, out=np.full(speed.shape, np.inf), where=speed > 1e-300)[()]


def balance(heat: Quantity, cooling: Quantity, *, undefined: Quantity) -> Result:
    """Return heat / cooling as an equilibrium norm: infinite where nothing cools, NaN where nothing happens at all.

    Args:
        heat: >= 0, what the gradients give.
        cooling: >= 0, what the decay takes.
        undefined: where the item never moves whatever the two say.

    Returns:
        The broadcast quotient.

    Example:
        >>> balance(np.array([1.0, 1.0, 0.0]), np.array([2.0, 0.0, 0.0]), undefined=False).tolist()
        [0.5, inf, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, np.divide(heat, cooling))


def _rates(eta: np.ndarray, decay: np.ndarray, b: np.ndarray, *, coupled: bool) -> tuple[Result, Result]:
    """Return x, the share of r that decay takes per step, and c with r_eq^4 = eta^2 f G c / x; both finite at lambda = 0."""
    share, b = np.broadcast_arrays(check_decay(eta, decay), b)
    if not coupled:
        keep = 1.0 - share
        return share, (1.0 + keep * b) / ((1.0 - keep * b) * (2.0 - share) * (1.0 - b) * (1.0 + b))
    # The slow root z of z^2 - (1 + b - share) z + b: its distance from 1 is share / (1 - the other root), free of cancellation.
    # Beyond share = (1 - sqrt b)^2 the two are complex and the vector decays as their modulus, sqrt b.
    discriminant = (1.0 + b - share) ** 2 - 4.0 * b
    other = 0.5 * (1.0 - b + share + np.sqrt(np.maximum(discriminant, 0.0)))
    shrink = np.where(discriminant >= 0.0, share / other, 1.0 - np.sqrt(b))
    per_share = np.where(discriminant >= 0.0, 1.0 / other, shrink / np.where(share > 0.0, share, 1.0))
    return shrink, per_share / ((1.0 - b) * (2.0 - share / (1.0 + b)))
