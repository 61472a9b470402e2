"""What a norm means after dot-product training: the static optimum of a softmax over contexts, where squared norm = 2 KL."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float

_SUM_TOLERANCE = 1e-6
# phi(t) = t e^t - (e^t - 1) = sum_{n >= 2} t^n (n - 1) / n!: with 18 terms exact to rounding for |t| <= 1/2.
_SERIES_BELOW = 0.5
_SERIES_TERMS = 18


def information_gain(
    words: Float[np.ndarray, "B D"], contexts: Float[np.ndarray, "N _"], prior: Float[np.ndarray, " _"]
) -> Float[np.ndarray, " B"]:
    """Return what each word tells about its context beyond the prior: exact KL divergence, in nats.

    Equation: p(c|w) = p(c) exp<u_w, v_c> / Z_w;  KL(p(.|w) || p) = <u_w, E_w v> - log Z_w. Computed as a sum of terms that are all
    >= 0, so that a tiny gain keeps its digits. Adding one vector to all contexts changes nothing.

    Args:
        words: (B, D) raw word vectors u_w.
        contexts: (N, D) raw context vectors v_c.
        prior: (N,) probabilities p(c) >= 0 that sum to 1; contexts of probability 0 are left out.

    Returns:
        (B,) float64 gains, from 0 to -log of the smallest positive p(c).

    Raises:
        InputError: values that are not finite, or a prior that is no distribution.

    Reference: Oyama et al. (2212.09663) for the relation to norms; the form is ours.

    Example:
        >>> float(information_gain(np.array([[100.0]]), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))[0].round(6))
        0.693147
    """
    p, logits = _centered_logits(words, contexts, prior)
    log_p = np.log(p)
    # A large logit is taken off before it swallows log p; a small one must stay, or its square would be lost beside 1.
    largest = logits.max(axis=1, keepdims=True)
    logits = logits - np.where(largest > 1.0, largest, 0.0)
    t = logits - logsumexp(logits + log_p, axis=1, keepdims=True)
    small = np.abs(t) <= _SERIES_BELOW
    near = np.where(small, t, 0.0)
    # Horner's rule on t^2 (1/2 + t (2/3! + t (3/4! + ...))).
    series = np.zeros_like(t)
    for n in range(_SERIES_TERMS, 1, -1):
        series = (series * near / (n + 1)) + (n - 1)
    series = series * near**2 / 2.0
    posterior = np.exp(np.minimum(log_p + t, 0.0))
    far = posterior * t - posterior + p
    return np.where(small, p * series, far).sum(axis=1)


def half_squared_norm(
    words: Float[np.ndarray, "B D"], contexts: Float[np.ndarray, "N _"], prior: Float[np.ndarray, " _"]
) -> Float[np.ndarray, " B"]:
    """Return the quadratic form that `information_gain` approaches for short words: squared norm = 2 KL.

    Equation: KL ~ 1/2 u^T Cov_p(v) u = 1/2 ||u||^2 in the metric of the contexts' covariance under the prior; the error is of third order
    in <u, v>. So after dot-product training a long word is a specific one, which says nothing about norms after cosine training.

    Args:
        words: (B, D) raw word vectors u_w.
        contexts: (N, D) raw context vectors v_c; they are centered under the prior.
        prior: (N,) probabilities p(c) >= 0 that sum to 1.

    Returns:
        (B,) float64 values >= 0, in nats.

    Raises:
        InputError: values that are not finite, or a prior that is no distribution.

    Reference: Oyama et al. (2212.09663); the proof is one line of ours: log Z is the cumulant function of <u, v> under p.

    Example:
        >>> half_squared_norm(np.array([[0.1]]), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5])).round(6).tolist()
        [0.005]
    """
    p, logits = _centered_logits(words, contexts, prior)
    return 0.5 * (p * logits**2).sum(axis=1)


def _centered_logits(words: np.ndarray, contexts: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positive part of the prior, and the (B, N) logits of its contexts, centered under it."""
    for name, values in (("words", words), ("contexts", contexts), ("prior", prior)):
        if not np.isfinite(values).all():
            place = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"{name}[{', '.join(map(str, place))}] is {values[tuple(place)]}; expected finite values: drop or repair that row"
            )
    p = prior.astype(np.float64)
    if p.size == 0 or np.any(p < 0.0) or abs(p.sum() - 1.0) > _SUM_TOLERANCE:
        raise InputError(
            f"prior sums to {p.sum():.9g} with least value {p.min(initial=0.0):.3g}; expected probabilities: divide counts by their sum"
        )
    if words.shape[1] != contexts.shape[1] or len(contexts) != len(p):
        raise InputError(f"words {words.shape}, contexts {contexts.shape} and prior {p.shape} do not fit; expected (B, D), (N, D), (N,)")
    seen = p > 0.0
    p, v = p[seen] / p.sum(), contexts[seen].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        logits = words.astype(np.float64) @ (v - p @ v).T
    if not np.isfinite(logits).all():
        raise InputError("words and contexts have inner products beyond float64; expected finite ones: rescale the vectors")
    return p, logits
