"""How the InfoNCE risk comes near its limit as negatives are added: the constants of 1/k, exact on finite spaces and from samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.finite_space import FiniteSpace

LogOf = Literal["k", "k+1"]


@dataclass(frozen=True)
class LeadingConstants:
    """Limits of k times a gap as k grows, in nats.

    Args:
        risk: C_1 of H - R_k, R_k InfoNCE less log k; below 0 where the encoder is good, so that R_k is then above H.
        decoupled: C_D of H - Rt_k, Rt_k the decoupled (DCL) risk; never below 0.
        search: of H_k - Rt_k, H_k the cross-entropy of a softmax search over k candidates; of either sign.
    """

    risk: float
    decoupled: float
    search: float


def leading_constants(space: FiniteSpace) -> LeadingConstants:
    """Return the three constants of a finite space, exactly.

    Equation: C_D and C_1 of `decoupled_constant` and `risk_constant` with expectations in place of means;
    k (H_k - Rt_k) -> E_z Cov_{z+ ~ M(z, .)}(dM/dpi(z+), s(z, z+)). Where Q = M: C_D = chi2/2 and C_1 = -(1 + chi2/2).

    Args:
        space: the points. H_k itself is defined only where every positive has a probability above 0; its constant is a number anyway.

    Reference: ours; the delta method on the mean of k terms e^s.

    Example:
        >>> law = np.full(2, 0.5)
        >>> found = leading_constants(FiniteSpace.at_optimum(law, np.array([[0.75, 0.25], [0.25, 0.75]])))
        >>> round(found.risk, 6), round(found.decoupled, 6)
        (-1.125, 0.125)
    """
    spread = 0.5 * float(space.law @ space.cv2)
    ratio = space.positives / space.law
    mean = (space.positives * space.scores).sum(axis=1, keepdims=True)
    return LeadingConstants(
        risk=spread - float(space.law @ (space.positives * space.density).sum(axis=1)),
        decoupled=spread,
        search=float(space.law @ (space.positives * ratio * (space.scores - mean)).sum(axis=1)),
    )


def decoupled_constant(cv2: Float[np.ndarray, " B"]) -> float:
    """Return the estimate from queries of the limit of k (H - Rt_k), Rt_k the decoupled (DCL) risk.

    Equation: C_D = (1/2) E_z cv2(z), cv2(z) = Var_{z' ~ pi}(e^s) / mu(z)^2 and mu(z) = E_{z' ~ pi} e^s.

    Args:
        cv2: (B,) squared coefficient of variation of e^s over the law of the negatives, >= 0; may be infinite.

    Returns:
        Nats, >= 0; infinite where it leaves float64.

    Raises:
        InputError: no query, or a value that is below 0 or NaN.

    Reference: ours; the gap of Jensen's inequality to leading order.

    Example:
        >>> round(decoupled_constant(np.array([1.0, 3.0])), 6)
        1.0
    """
    with np.errstate(over="ignore"):
        return float(np.exp(_log_half_mean(cv2)))


def risk_constant(
    cv2: Float[np.ndarray, " B"],
    positive: Float[np.ndarray, " _"],
    log_mean: Float[np.ndarray, " _"],
    *,
    log_of: LogOf = "k",
) -> float:
    """Return the estimate from queries of the limit of k (H - R_k), R_k the InfoNCE risk.

    Equation: C_1 = (1/2) E_z cv2(z) - E_{z, z+}[e^{s(z, z+)} / mu(z)] for the usual loss less log k; 1 more for the loss less log(k + 1).

    How: both terms are kept as logs until the end, so that one that leaves float64 does not turn their difference into NaN.

    Args:
        cv2: (B,) as in `decoupled_constant`.
        positive: (B,) scores of the positives, of any sign and size.
        log_mean: (B,) log mu of the same queries.
        log_of: what the log that is taken off the loss counts: the negatives, or the positive too.

    Returns:
        Nats, of either sign; below 0 the risk lies above its limit. Infinite, never NaN, where it leaves float64, and +inf where a
        cv2 is infinite.

    Raises:
        InputError: shapes differ, no query, a cv2 below 0 or NaN, or a score that is not finite; the message names the query.

    Reference: ours; the positive in the denominator adds e^{s_+} / (k mu) to each loss, which is dQ/dpi(z+) / k.

    Example:
        >>> cv2, zeros = np.array([1.0, 5.0]), np.zeros(2)
        >>> round(risk_constant(cv2, zeros, zeros), 6), round(risk_constant(cv2, zeros, zeros, log_of="k+1"), 6)
        (0.5, 1.5)
    """
    if not cv2.shape == positive.shape == log_mean.shape:
        raise InputError(f"cv2 has shape {cv2.shape}, positive {positive.shape}, log_mean {log_mean.shape}; expected (B,) of each")
    bad = np.flatnonzero(~(np.isfinite(positive) & np.isfinite(log_mean)))
    if bad.size:
        raise InputError(
            f"scores of query {bad[0]} are not finite: positive {positive[bad[0]]}, log_mean {log_mean[bad[0]]}; check the vectors"
        )
    gained = _log_half_mean(cv2)
    lost = float(logsumexp(positive - log_mean) - np.log(positive.size))
    constant = _difference(gained, lost)
    return constant + 1.0 if log_of == "k+1" else constant


def _log_half_mean(cv2: np.ndarray) -> float:
    """Log of half the mean."""
    bad = np.flatnonzero(~(cv2 >= 0.0))
    if bad.size or not cv2.size:
        came = f"cv2 of query {bad[0]} is {cv2[bad[0]]}" if bad.size else "cv2 holds no query"
        raise InputError(f"{came}; expected (B,) values of at least 0, B at least 1: a variance over a squared mean")
    with np.errstate(divide="ignore"):
        return float(logsumexp(np.log(cv2)) - np.log(2.0 * cv2.size))


def _difference(one: float, other: float) -> float:
    """e^one - e^other without inf - inf."""
    if one == other:
        return 0.0
    with np.errstate(over="ignore"):
        size = float(np.exp(max(one, other) + np.log(-np.expm1(-abs(one - other)))))
    return size if one > other else -size
