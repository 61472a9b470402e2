"""How the norm of a free vector moves under Adam and AdamW on a loss that sees only its direction.

Adam divides the gradient by its own running scale, so the second moment G leaves the laws to leading order: what is left is the visit
rate f = visit_rate, the width d, eta = learning_rate, lambda = weight_decay (decoupled) and beta2. The gradients are taken to be mostly
noise, and of one size in all coordinates. The laws use eta itself also where the loss is a mean over anchors.
Every argument may be a number or an array; arrays broadcast, and the result is float64.
"""

from __future__ import annotations

import numpy as np

from normwise.theory.equilibria import balance, e_folding_steps
from normwise.theory.quantities import Quantity, Result, Span, check_decay, decay_weighted_steps, quantities


def visit_factor(visit_rate: Quantity, *, beta2: Quantity = 0.999) -> Result:
    """Return the share of an always visited item's growth that dense Adam gives to an item visited at rate f.

    Equation: f / (f + 1 - beta2). A visit meets v ~ (f + 1 - beta2) E g^2, since v decays between visits, and every gradient finally
    moves each coordinate by eta g / sqrt(v). Above the knee, f >> 1 - beta2, all items grow alike; below it growth ~ f / (1 - beta2).
    E[g^2 / v] is replaced by a ratio of means: right where many visits share the memory of v; at the knee the truth is .46 for Gaussian
    coordinates and .56 for coordinates of constant size, against one half.

    Args:
        visit_rate: f in 0..1.
        beta2: decay of the second moment, >= 0 and < 1.

    Returns:
        The factor in 0..1; one half at f = 1 - beta2.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> visit_factor([1.0, 0.01, 0.001, 0.0]).round(3).tolist()
        [0.999, 0.909, 0.5, 0.0]
    """
    visits, beta = quantities(visit_rate=(visit_rate, Span.SHARE), beta2=(beta2, Span.BELOW_ONE))
    return (visits / (visits + (1.0 - beta)))[()]


def predicted_norm_adam(
    r0: Quantity,
    *,
    steps: Quantity,
    visit_rate: Quantity,
    width: Quantity,
    learning_rate: Quantity,
    beta2: Quantity = 0.999,
    weight_decay: Quantity = 0.0,
    lazy: bool = False,
) -> Result:
    """Return the norm after T steps of Adam, or of AdamW where weight_decay > 0: growth, relaxation and equilibrium in one formula.

    Equation, with a = 1 - eta lambda and F = `visit_factor`:

        dense    r_T^2 = a^(2T) r_0^2 + eta^2 d F (1 - a^(2T)) / (1 - a^2);    lambda -> 0: r_0^2 + eta^2 d T F
        lazy     r_T^2 = the same with F = 1 and the f T visits in place of T;  lambda -> 0: r_0^2 + eta^2 d f T

    Hence r ~ T^(1/2), and f enters only below the knee (dense) or as f^(1/2) (lazy, no decay). Good to some per cent of the growth
    above the knee while the vector turns little within the memory of beta1; an over-estimate by up to 17% at the rarest visit rates.

    Args:
        r0: norm before the first step, >= 0.
        steps: T >= 0.
        visit_rate: f in 0..1.
        width: d >= 1, whole.
        learning_rate: eta >= 0.
        beta2: decay of the second moment, >= 0 and < 1; without effect when `lazy`.
        weight_decay: lambda >= 0 of AdamW, with eta lambda < 1.
        lazy: moments, steps and decay happen at visits only (sparse Adam); else at every step.

    Returns:
        r_T.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> predicted_norm_adam(0.0, steps=10_000, visit_rate=[1.0, 0.001], width=64, learning_rate=1e-3).round(3).tolist()
        [0.8, 0.566]
    """
    r0_, steps_, visits, width_, eta, beta, decay = quantities(
        r0=(r0, Span.NONNEGATIVE),
        steps=(steps, Span.NONNEGATIVE),
        visit_rate=(visit_rate, Span.SHARE),
        width=(width, Span.COUNT),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        beta2=(beta2, Span.BELOW_ONE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
    )
    share = check_decay(eta, decay)
    if lazy:
        steps_, factor = steps_ * visits, np.ones_like(visits)
    else:
        factor = visits / (visits + (1.0 - beta))
    kept = np.exp(steps_ * np.log1p(-share)) * r0_
    heat = eta * np.sqrt(width_ * factor * decay_weighted_steps(steps_, share * (2.0 - share)))
    return np.hypot(kept, heat)[()]


def equilibrium_norm_adam(
    *,
    visit_rate: Quantity,
    width: Quantity,
    learning_rate: Quantity,
    weight_decay: Quantity,
    beta2: Quantity = 0.999,
    lazy: bool = False,
) -> Result:
    """Return the norm at which AdamW's decay balances its steps.

    Equation: r^2 = eta^2 d F / (1 - (1 - eta lambda)^2) ~ (eta d / (2 lambda)) F, with F = `visit_factor` for dense updates and F = 1,
    no frequency, for lazy ones. Training must have lasted several `relaxation_steps_adam`.

    Args:
        visit_rate: f in 0..1.
        width: d >= 1, whole.
        learning_rate: eta > 0.
        weight_decay: lambda >= 0, with eta lambda < 1.
        beta2: decay of the second moment, >= 0 and < 1; without effect when `lazy`.
        lazy: moments, steps and decay happen at visits only.

    Returns:
        The norm; 0 for an item that only decays; infinite where lambda = 0; NaN for an item that never moves (f = 0, with lazy updates
        or without decay), which keeps the norm it had.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> equilibrium_norm_adam(visit_rate=[1.0, 0.01, 0.001], width=32, learning_rate=1e-3, weight_decay=0.5).round(3).tolist()
        [0.179, 0.171, 0.127]
    """
    visits, width_, eta, decay, beta = quantities(
        visit_rate=(visit_rate, Span.SHARE),
        width=(width, Span.COUNT),
        learning_rate=(learning_rate, Span.POSITIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
        beta2=(beta2, Span.BELOW_ONE),
    )
    share = check_decay(eta, decay)
    factor = np.ones_like(visits) if lazy else visits / (visits + (1.0 - beta))
    return balance(eta * np.sqrt(width_ * factor), np.sqrt(share * (2.0 - share)), undefined=(visits == 0.0) & lazy)[()]


def relaxation_steps_adam(*, learning_rate: Quantity, weight_decay: Quantity) -> Result:
    """Return the steps in which the distance of r^2 from AdamW's equilibrium falls by the factor e.

    Equation: -1 / (2 log(1 - eta lambda)) ~ 1 / (2 eta lambda). For lazy updates the result counts visits.

    Args:
        learning_rate: eta >= 0.
        weight_decay: lambda >= 0, with eta lambda < 1.

    Returns:
        The number of steps; infinite without decay.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(relaxation_steps_adam(learning_rate=1e-3, weight_decay=0.5).round(1))
        999.7
    """
    eta, decay = quantities(learning_rate=(learning_rate, Span.NONNEGATIVE), weight_decay=(weight_decay, Span.NONNEGATIVE))
    return e_folding_steps(check_decay(eta, decay), power=2)
