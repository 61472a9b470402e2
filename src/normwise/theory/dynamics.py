"""How the norm of a free vector moves under SGD on a loss that sees only its direction: step by step, and its growth without decay.

Where decay meets growth, see `equilibria`. Throughout: r = ||u||, g = P_u grad of the loss at hat u (tangential, independent of r), so
that grad_u = g / r; eta = learning_rate, lambda = weight_decay (decoupled: each step keeps the share 1 - eta lambda), f = visit_rate,
G = second_moment = E[||g||^2 | visit]. Every argument may be a number or an array; arrays broadcast, and the result is float64.
"""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.quantities import Quantity, Result, Span, quantities


def sgd_step_norm(r: Quantity, g2: Quantity, *, learning_rate: Quantity, weight_decay: Quantity = 0.0) -> Result:
    """Return the norm after one SGD step with decoupled weight decay: exact, since g is orthogonal to u.

    Equation: r'^2 = (1 - eta lambda)^2 r^2 + eta^2 ||g||^2 / r^2.

    Args:
        r: norm before the step, > 0 (the direction of a zero vector is undefined).
        g2: ||g||^2 >= 0 of the tangential gradient on the unit sphere; 0 where the vector was not visited.
        learning_rate: eta >= 0.
        weight_decay: lambda >= 0; set it to 0 on the steps that lazy decay skips.

    Returns:
        r', without overflow for any r and g2 whose result is in range.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation; the chain rule grad_u = g / r is that of cosine losses.

    Example:
        >>> float(sgd_step_norm(2.0, 36.0, learning_rate=0.5))
        2.5
    """
    r_, g2_, eta, decay = quantities(
        r=(r, Span.POSITIVE),
        g2=(g2, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
    )
    return np.hypot((1.0 - eta * decay) * r_, eta * np.sqrt(g2_) / r_)[()]


def sgd_norms(r0: Quantity, g2: Quantity, *, learning_rate: Quantity, weight_decay: Quantity = 0.0) -> Result:
    """Return the norms along a whole run by repeating `sgd_step_norm`: the exact path from recorded ||g_t||^2.

    Args:
        r0: norm before the first step, > 0; broadcasts with one step's values.
        g2: (T, ...) ||g_t||^2 >= 0 of each step, 0 where unvisited.
        learning_rate: eta >= 0; a number or (T, ...) for a schedule.
        weight_decay: lambda >= 0; a number, or (T, ...) with 0 on unvisited steps for lazy decay.

    Returns:
        (T + 1, ...) norms, the first of them r0.

    Raises:
        InputError: a value outside its range, g2 without a step axis, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> sgd_norms(1.0, [0.0, 36.0], learning_rate=0.5, weight_decay=0.4).round(3).tolist()
        [1.0, 0.8, 3.804]
    """
    r0_, g2_, eta, decay = quantities(
        r0=(r0, Span.POSITIVE),
        g2=(g2, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        weight_decay=(weight_decay, Span.NONNEGATIVE),
    )
    if g2_.ndim == 0:
        raise InputError("g2 is one number; expected an array whose first axis is the steps: wrap it as [g2]")
    shape = np.broadcast_shapes(g2_.shape, eta.shape, decay.shape)
    if shape[0] != g2_.shape[0] or shape[1:] != np.broadcast_shapes(shape[1:], r0_.shape):
        raise InputError(f"g2 {g2_.shape} and r0 {r0_.shape} give no path; expected g2 (steps, items) and r0 one number or (items,)")
    steps, etas, keeps = (np.broadcast_to(a, shape) for a in (g2_, eta, 1.0 - eta * decay))
    path = np.empty((shape[0] + 1, *shape[1:]))
    path[0] = r0_
    for t in range(shape[0]):
        path[t + 1] = np.hypot(keeps[t] * path[t], etas[t] * np.sqrt(steps[t]) / path[t])
    return path


def quartic_growth(r0: Quantity, g2_sum: Quantity, *, learning_rate: Quantity, quartic_sum: Quantity = 0.0) -> Result:
    """Return the norm after T steps without decay from the sum of squared tangential gradients.

    Equation: r_T^4 = r_0^4 + 2 eta^2 sum_t ||g_t||^2 + eta^4 sum_t ||g_t||^4 / r_t^4, with r_t the norm before step t. Exact with the
    last sum; without it the approximation for small angular steps (`angular_step` << 1), which is never too large.

    Args:
        r0: norm before the first step, >= 0.
        g2_sum: sum_t ||g_t||^2 >= 0.
        learning_rate: eta >= 0, constant over the sum.
        quartic_sum: sum_t ||g_t||^4 / r_t^4 >= 0.

    Returns:
        r_T.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation, the square of the recursion of `sgd_step_norm`.

    Example:
        >>> float(quartic_growth(2.0, 36.0, learning_rate=0.5, quartic_sum=36.0**2 / 2.0**4))
        2.5
    """
    r0_, total, eta, quartic = quantities(
        r0=(r0, Span.NONNEGATIVE),
        g2_sum=(g2_sum, Span.NONNEGATIVE),
        learning_rate=(learning_rate, Span.NONNEGATIVE),
        quartic_sum=(quartic_sum, Span.NONNEGATIVE),
    )
    return fourth_root_of_sum(r0_, (2.0**0.25) * np.sqrt(eta) * total**0.25, eta * quartic**0.25)[()]


def angular_step(r: Quantity, g2: Quantity, *, learning_rate: Quantity) -> Result:
    """Return the tangent of the angle that one SGD step turns the vector by (without decay).

    Equation: ||Delta u|| / r = eta ||g|| / r^2. The growth and equilibrium laws hold where it is well below 1.

    Args:
        r: norm > 0.
        g2: ||g||^2 >= 0.
        learning_rate: eta >= 0.

    Returns:
        The step in radians where it is small.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(angular_step(2.0, 16.0, learning_rate=0.1))
        0.1
    """
    r_, g2_, eta = quantities(r=(r, Span.POSITIVE), g2=(g2, Span.NONNEGATIVE), learning_rate=(learning_rate, Span.NONNEGATIVE))
    return (eta * np.sqrt(g2_) / r_ / r_)[()]


def mean_loss_moment(second_moment: Quantity, *, anchors: Quantity) -> Result:
    """Return the second moment that an item's gradient has when the loss is the mean, not the sum, over N anchors.

    Equation: G / N^2, for g / N. Without decay this is the same as eta / N in place of eta, in every formula here; with decay only
    this form is right, since the decay keeps its own eta. Adam's laws need neither: they do not see the scale of g.

    Args:
        second_moment: G >= 0 of the anchor's own term of the sum.
        anchors: N >= 1, whole.

    Returns:
        G / N^2.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> float(mean_loss_moment(32.0, anchors=4))
        2.0
    """
    moment, count = quantities(second_moment=(second_moment, Span.NONNEGATIVE), anchors=(anchors, Span.COUNT))
    return (moment / count / count)[()]


def fourth_root_of_sum(*parts: Quantity) -> Result:
    """Return (sum of part^4)^(1/4), scaled so that no fourth power leaves float64.

    Example:
        >>> float(fourth_root_of_sum(1e100, np.sqrt(np.sqrt(15.0)) * 1e100) / 1e100)
        2.0
    """
    largest = np.maximum.reduce(np.broadcast_arrays(*parts))
    scale = np.where(largest > 0.0, largest, 1.0)
    return largest * sum((part / scale) ** 4 for part in parts) ** 0.25
