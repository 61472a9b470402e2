"""What the second moment G of a cosine-InfoNCE gradient is made of: hardness, chord, and the specificity of the concept.

Positives of a concept are modeled as von Mises-Fisher draws around its direction: a large concentration kappa is a specific concept,
a small one a broad or ambiguous concept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.quantities import Quantity, Result, Span, quantities

# Perron's fraction is exact to rounding by 80 terms over d = 1 to 100,000 and kappa = 0 to 1e6 (d <= 2 near kappa = 10 needs most).
_TERMS = 128
# Unit vectors stored in float32 or float16 keep their length within this; raw vectors do not.
_UNIT_TOLERANCE = 1e-3


def bessel_ratio(width: Quantity, kappa: Quantity) -> Result:
    """Return the mean cosine of von Mises-Fisher draws with their mean direction.

    Equation: A_d(kappa) = I_{d/2}(kappa) / I_{d/2 - 1}(kappa), by Perron's continued fraction from its tail, whose denominators are
    positive and lose no digits. Neither Bessel function is formed, so none overflows or underflows. A ~ kappa / d for kappa << d and
    A ~ 1 - (d - 1) / (2 kappa) for kappa >> d^2.

    Args:
        width: d >= 1, whole.
        kappa: concentration >= 0.

    Returns:
        A in 0..1, increasing in kappa; 0 at kappa = 0. Relative error about 1e-15 up to kappa = 1e6 and beyond.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: Gautschi and Slavik (1978), Perron's fraction; Amos (1974) for the bounds that the tests use.

    Example:
        >>> bessel_ratio(3, [0.0, 1.0, 1e6]).round(6).tolist()
        [0.0, 0.313035, 0.999999]
    """
    width_, kappa_ = quantities(width=(width, Span.COUNT), kappa=(kappa, Span.NONNEGATIVE))
    return np.minimum(_ratio_over_kappa(width_, kappa_) * kappa_, 1.0)[()]


def vmf_chord_moment(width: Quantity, kappa: Quantity) -> Result:
    """Return the mean squared distance of von Mises-Fisher draws from the axis of their mean direction: the dispersion of a concept.

    Equation: E[1 - s^2] = (d - 1) A_d(kappa) / kappa, s the cosine with the mean direction: exact for every kappa; 1 - 1/d at
    kappa = 0, ~ (d - 1) / kappa for kappa >> d.

    Args:
        width: d >= 1, whole.
        kappa: concentration >= 0.

    Returns:
        The moment in 0..1, decreasing in kappa.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: standard for the von Mises-Fisher law (Mardia and Jupp); from A' = 1 - A^2 - (d - 1) A / kappa.

    Example:
        >>> vmf_chord_moment(32, [0.0, 5.0, 1280.0]).round(4).tolist()
        [0.9688, 0.9474, 0.0239]
    """
    width_, kappa_ = quantities(width=(width, Span.COUNT), kappa=(kappa, Span.NONNEGATIVE))
    return ((width_ - 1.0) * _ratio_over_kappa(width_, kappa_))[()]


def guide_second_moment(mean_square_residual: Quantity, width: Quantity, kappa: Quantity, *, temperature: Quantity) -> Result:
    """Return the product of mean hardness and mean chord, a guide to G for a concept at its stationary direction.

    Equation: E[rho^2] (d - 1) A_d(kappa) / (kappa tau^2). Only a guide: residual and chord are correlated and negatives add noise, so
    for specific concepts it falls far below the true G (.013 against .071 at kappa = 1280, d = 32, tau = .2, 16 negatives). Predict norms
    from a measured or simulated G instead. With mean_square_residual = 1 it is the tangential variance alone, over tau^2.

    Args:
        mean_square_residual: E[rho^2] in 0..1.
        width: d >= 1, whole.
        kappa: concentration >= 0.
        temperature: tau > 0.

    Returns:
        The product.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: our derivation.

    Example:
        >>> guide_second_moment(1.0, 32, [5.0, 80.0, 1280.0], temperature=0.2).round(1).tolist()
        [23.7, 8.0, 0.6]
    """
    square, _, _, tau = quantities(
        mean_square_residual=(mean_square_residual, Span.SHARE),
        width=(width, Span.COUNT),
        kappa=(kappa, Span.NONNEGATIVE),
        temperature=(temperature, Span.POSITIVE),
    )
    return (square * vmf_chord_moment(width, kappa) / tau / tau)[()]


@dataclass(frozen=True)
class GradientFactors:
    """The factors of ||g||^2 = (residual / tau)^2 chord^2, one value per draw.

    Attributes:
        residual: rho = 1 - p_plus, in 0..1; exact also where p_plus rounds to 1.
        chord: ||P_u (c_+ - mean negative)||, in 0..2; negatives averaged by their softmax probabilities among themselves.
        temperature: tau.
    """

    residual: Float[np.ndarray, "*B"]
    chord: Float[np.ndarray, "*B"]
    temperature: float

    @property
    def squares(self) -> Float[np.ndarray, "*B"]:
        """||g||^2 of each draw."""
        return np.asarray((self.residual * self.chord / self.temperature) ** 2)

    @property
    def second_moment(self) -> float:
        """G = E[rho^2 chord^2] / tau^2 over all draws."""
        return float(self.squares.mean())

    @property
    def hardness(self) -> float:
        """E[rho^2] over all draws."""
        return float((self.residual**2).mean())

    @property
    def mean_square_chord(self) -> float:
        """E[chord^2] over all draws."""
        return float((self.chord**2).mean())


def infonce_tangential_gradient(
    anchor: Float[np.ndarray, "*#B D"],
    positive: Float[np.ndarray, "*#B D"],
    negatives: Float[np.ndarray, "*#B N D"],
    *,
    temperature: float,
) -> Float[np.ndarray, "*_ D"]:
    """Return the tangential gradient of the cosine-InfoNCE loss of each anchor with respect to its direction.

    Equation: g = -(rho / tau) P_u (c_+ - cbar_-), with p = softmax(s / tau) over the positive and the negatives, rho = 1 - p_plus,
    cbar_- = sum over negatives of p_j c_j / rho, P_u = I - u u^T. The gradient of the raw vector of norm r is g / r.

    Args:
        anchor: (..., D) unit vectors u; leading axes broadcast with those of the others.
        positive: (..., D) unit vectors c_+.
        negatives: (..., N, D) unit vectors, N >= 1.
        temperature: tau > 0.

    Returns:
        (..., D) float64 gradients, orthogonal to their anchors.

    Raises:
        InputError: rows that are not unit vectors, no negative, shapes that do not fit, or a temperature <= 0.

    Reference: our derivation.

    Example:
        >>> u, c = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        >>> infonce_tangential_gradient(u, c, -c[None], temperature=0.5).round(3).tolist()
        [-0.0, -2.0]
    """
    u, pull, residual, tau = _pull(anchor, positive, negatives, temperature)
    return -(residual / tau)[..., None] * _tangential(pull, u)


def infonce_gradient_factors(
    anchor: Float[np.ndarray, "*#B D"],
    positive: Float[np.ndarray, "*#B D"],
    negatives: Float[np.ndarray, "*#B N D"],
    *,
    temperature: float,
) -> GradientFactors:
    """Return hardness and chord of each draw, and through them the second moment G.

    Equation: G = tau^-2 E[rho^2 ||P_u (c_+ - cbar_-)||^2]. With near-orthogonal negatives the squared chord is ~ 1 - s_+^2.

    Args:
        anchor: (..., D) unit vectors; leading axes broadcast with those of the others.
        positive: (..., D) unit vectors.
        negatives: (..., N, D) unit vectors, N >= 1.
        temperature: tau > 0.

    Returns:
        The factors, whose squares are those of `infonce_tangential_gradient`.

    Raises:
        InputError: as `infonce_tangential_gradient`.

    Reference: our derivation.

    Example:
        >>> u, c = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        >>> found = infonce_gradient_factors(u, c, -c[None], temperature=1.0)
        >>> float(found.residual), float(found.chord), found.second_moment
        (0.5, 2.0, 1.0)
    """
    u, pull, residual, tau = _pull(anchor, positive, negatives, temperature)
    return GradientFactors(residual=residual, chord=np.asarray(np.linalg.norm(_tangential(pull, u), axis=-1)), temperature=tau)


def infonce_candidate_gradients(
    anchors: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "N D"],
    positives: Int[np.ndarray, " B"],
    *,
    temperature: float,
) -> Float[np.ndarray, "N D"]:
    """Return the tangential gradient of the summed cosine-InfoNCE loss with respect to every candidate's direction.

    Equation: g_j = (1 / tau) sum_i (p_ij - y_ij) P_{c_j} u_i. A frequent hard negative collects gradient too: hubs gain norm.

    Args:
        anchors: (B, D) unit vectors u_i.
        candidates: (N, D) unit vectors c_j, N >= 2.
        positives: (B,) row of each anchor's positive, in 0..N-1.
        temperature: tau > 0.

    Returns:
        (N, D) float64 gradients, orthogonal to their candidates; divide by B for a mean loss.

    Raises:
        InputError: rows that are not unit vectors, a positive that is not a row, or a temperature <= 0.

    Reference: our derivation.

    Example:
        >>> u, c = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])
        >>> infonce_candidate_gradients(u, c, np.array([0]), temperature=1.0).tolist()
        [[-0.5, 0.0], [0.5, 0.0]]
    """
    u, c, tau = _unit(anchors, "anchors"), _unit(candidates, "candidates"), _temperature(temperature)
    bad = np.flatnonzero((positives < 0) | (positives >= len(c)))
    if bad.size:
        raise InputError(f"positives[{bad[0]}] is {positives[bad[0]]}; expected a row of candidates, 0 to {len(c) - 1}")
    logits = u @ c.T / tau
    rows = np.arange(len(u))
    excess = np.exp(logits - np.asarray(logsumexp(logits, axis=1, keepdims=True))) if len(u) else logits
    # p - 1 at the positive is minus the residual: summed over the others, it keeps its digits where p rounds to 1.
    excess[rows, positives] = 0.0
    excess[rows, positives] = -excess.sum(axis=1)
    return _tangential(excess.T @ u / tau, c)


def _pull(
    anchor: np.ndarray, positive: np.ndarray, negatives: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return u, c_+ - cbar_-, rho and tau."""
    tau = _temperature(temperature)
    u, plus, minus = _unit(anchor, "anchor"), _unit(positive, "positive"), _unit(negatives, "negatives")
    if minus.ndim < 2 or minus.shape[-2] == 0:
        raise InputError(f"negatives have shape {minus.shape}; expected (..., N, D) with at least one negative")
    try:
        np.broadcast_shapes(u.shape, plus.shape, (*minus.shape[:-2], minus.shape[-1]))
    except ValueError:
        raise InputError(
            f"anchor {u.shape}, positive {plus.shape} and negatives {minus.shape} do not fit; expected (..., D), (..., D), (..., N, D)"
        ) from None
    score = (u * plus).sum(axis=-1) / tau
    scores = (minus @ u[..., None])[..., 0] / tau
    among = np.asarray(logsumexp(scores, axis=-1, keepdims=True))
    mean_negative = (np.exp(scores - among)[..., None] * minus).sum(axis=-2)
    return u, plus - mean_negative, np.asarray(expit(among[..., 0] - score)), tau


def _tangential(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    return x - (x * u).sum(axis=-1, keepdims=True) * u


def _temperature(temperature: float) -> float:
    return float(quantities(temperature=(temperature, Span.POSITIVE))[0])


def _unit(x: np.ndarray, name: str) -> np.ndarray:
    values = x.astype(np.float64)
    lengths = np.linalg.norm(values, axis=-1)
    bad = np.argwhere(~(np.abs(lengths - 1.0) <= _UNIT_TOLERANCE))
    if bad.size or (lengths.ndim == 0 and not abs(float(lengths) - 1.0) <= _UNIT_TOLERANCE):
        place = tuple(int(i) for i in bad[0])
        at = f"{name}[{', '.join(map(str, place))}]" if place else name
        raise InputError(f"{at} has norm {lengths[place]:.6g}; expected unit vectors: pass normwise.theory.directions.normalize of them")
    return values


def _ratio_over_kappa(width: np.ndarray, kappa: np.ndarray) -> Result:
    """Return A_d(kappa) / kappa; 1 / d at kappa = 0."""
    # Beyond 1e300, where the fraction would overflow, A is 1 to rounding.
    huge = kappa > 1e300
    x = np.where(huge, 1.0, kappa)
    tail = width + _TERMS + 2.0 * x
    for term in range(_TERMS, 1, -1):
        tail = width + (term - 1) + 2.0 * x - (width + (2 * term - 1)) * (x / tail)
    return np.where(huge, 1.0 / np.where(huge, kappa, 1.0), 1.0 / (width + x - (width + 1.0) * (x / tail)))
