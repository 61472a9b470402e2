"""A probe of first-order signatures whose similarities are those of the embedding themselves, by least squares."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from normwise.core.shapes import Float, Int
from normwise.theory.signature_probes import probe_cosines

_MOST_STEPS = 300


def probe_error(
    probe: Float[np.ndarray, " V"], signature: Float[np.ndarray, "A Y V"], cosines: Float[np.ndarray, " P"], pairs: Int[np.ndarray, "2 P"]
) -> tuple[float, Float[np.ndarray, " V"]]:
    """Return the mean squared difference of a probe's similarities from given ones, and its gradient with respect to the probe.

    Equations: s_ab = cos(phi_a v, phi_b v), MSE = mean over pairs of (s - t)^2, d MSE / d s = 2 (s - t) / P; the gradient in v is that
    of `signature_probes.probe_cosines`, orthogonal to v. The same similarities on another level, or in another unit, are an error here
    and none to `probe_correlation`.

    Args:
        probe: (V,) v, one number per context token.
        signature: (A, Y, V) phi_a^{y;1}.
        cosines: (P,) t, similarities of the embeddings of the pairs, in [-1, 1].
        pairs: (2, P) tokens of each pair, each pair once.

    Returns:
        (MSE in 0..4, gradient).

    Example:
        >>> phi = np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
        >>> probe_error(np.array([1.0, -1.0]), phi, np.array([0.5]), np.array([[0], [1]]))[0]
        2.25
    """
    found, gradient = probe_cosines(probe, signature, pairs)
    apart = found - cosines
    return float(apart @ apart) / apart.size, gradient(2.0 * apart / apart.size)


def fit_probe_mse(
    signature: Float[np.ndarray, "A Y V"],
    cosines: Float[np.ndarray, " P"],
    pairs: Int[np.ndarray, "2 P"],
    *,
    start: Float[np.ndarray, " V"],
) -> Float[np.ndarray, " V"]:
    """Return the probe that L-BFGS reaches from a start, of length 1: a local minimum of `probe_error`, in at most 300 steps.

    Where labels are fewer than contexts, a probe can bring heads phi_a v to 0, and the minimum may lie there: the gradient at what is found
    is then not 0, and the directions of these heads mean nothing.

    For `FittedProbe(.., fit=fit_probe_mse)`, whose figure stays the correlation over pairs of held-out tokens, and which of its starts
    keeps the one of highest correlation on the training tokens.

    Args:
        signature: (A, Y, V).
        cosines: (P,) similarities to be met.
        pairs: (2, P).
        start: (V,) not zero; its length changes nothing.

    Returns:
        (V,) a unit vector.

    Reference: Yao, Hang and Xu (2026), arXiv 2608.30315, who train probes of language models by it; L-BFGS is ours.
    """
    # The usual bounds end at cosines that are 1e-4 off; a few more steps tell an exact fit from a close one.
    options = {"maxiter": _MOST_STEPS, "ftol": 1e-12, "gtol": 1e-9}
    found = minimize(probe_error, start / np.linalg.norm(start), (signature, cosines, pairs), jac=True, method="L-BFGS-B", options=options)
    return found.x / np.linalg.norm(found.x)
