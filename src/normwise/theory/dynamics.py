"""How the norm of a free vector moves under SGD on a loss that sees only its direction.

Throughout: r = ||u||, g = P_u grad of the loss at hat u (tangential, independent of r), so that grad_u = g / r; eta = learning_rate,
lambda = weight_decay (decoupled: each step keeps the share 1 - eta lambda), f = visit_rate, G = second_moment = E[||g||^2 | visit].
Every argument may be a number or an array; arrays broadcast, and the result is float64.
"""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.quantities import Quantity, Result, Span, check_decay, decay_weighted_steps, quantities


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
    return _fourth_root_of_sum(r0_, (2.0**0.25) * np.sqrt(eta) * total**0.25, eta * quartic**0.25)[()]


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
    return _fourth_root_of_sum(kept, heat)[()]


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


def _fourth_root_of_sum(*parts: Quantity) -> Result:
    """Return (sum of part^4)^(1/4), scaled so that no fourth power leaves float64."""
    largest = np.maximum.reduce(np.broadcast_arrays(*parts))
    scale = np.where(largest > 0.0, largest, 1.0)
    return largest * sum((part / scale) ** 4 for part in parts) ** 0.25
