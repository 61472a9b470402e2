"""A probe of first-order signatures: the context vector whose contraction is most like the embedding, judged on held-out tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np
from scipy.optimize import minimize

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.alignment import Figure, check_rows, cosine_gram, seen_tokens
from normwise.theory.fourier_probes import directed_gram, permuted_pairs
from normwise.theory.token_pairs import EQUAL_WITHIN, TokenFold, token_folds, token_pairs, within_fold_correlation

_MOST_STEPS = 300


@runtime_checkable
class FitProbe(Protocol):
    """Finds a probe from a start: `fit_probe`, `fit_probe_adam` or `mse_probe.fit_probe_mse`."""

    def __call__(
        self,
        signature: Float[np.ndarray, "A Y V"],
        cosines: Float[np.ndarray, " P"],
        pairs: Int[np.ndarray, "2 P"],
        *,
        start: Float[np.ndarray, " V"],
    ) -> Float[np.ndarray, " V"]:
        """Return the probe."""
        ...


def probe_cosines(
    probe: Float[np.ndarray, " V"], signature: Float[np.ndarray, "A Y V"], pairs: Int[np.ndarray, "2 P"]
) -> tuple[Float[np.ndarray, " P"], Callable[[Float[np.ndarray, " P"]], Float[np.ndarray, " V"]]]:
    """Return a probe's similarities of pairs, and what turns the slopes of a loss in them into its gradient in the probe.

    Equations: h_a = phi_a v, u_a = h_a / ||h_a||, s_ab = <u_a, u_b>; with D_ab = d loss / d s_ab, symmetric over pairs,

        d loss / d v = sum_a phi_a^T (I - u_a u_a^T) (sum_b D_ab u_b) / ||h_a||,

    which is orthogonal to v, whose length changes nothing.

    Args:
        probe: (V,) v, one number per context token.
        signature: (A, Y, V) phi_a^{y;1}.
        pairs: (2, P) tokens of each pair, each pair once.

    Returns:
        (P,) s, 0 where a head is 0; (P,) slopes -> (V,) gradient.

    Example:
        >>> phi = np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
        >>> probe_cosines(np.array([1.0, -1.0]), phi, np.array([[0], [1]]))[0].tolist()
        [-1.0]
    """
    heads = signature @ probe
    sizes = np.linalg.norm(heads, axis=1)
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    unit = heads * inverse[:, None]

    def gradient(slopes: np.ndarray) -> np.ndarray:
        each = np.zeros((heads.shape[0], heads.shape[0]))
        each[pairs[0], pairs[1]] = slopes
        turned = (each + each.T) @ unit
        turned = (turned - unit * (turned * unit).sum(axis=1)[:, None]) * inverse[:, None]
        return turned.ravel() @ signature.reshape(-1, signature.shape[2])

    return (unit @ unit.T)[pairs[0], pairs[1]], gradient


def probe_correlation(
    probe: Float[np.ndarray, " V"], signature: Float[np.ndarray, "A Y V"], cosines: Float[np.ndarray, " P"], pairs: Int[np.ndarray, "2 P"]
) -> tuple[float, Float[np.ndarray, " V"]]:
    """Return the correlation of a probe's similarities with given ones, and its gradient with respect to the probe.

    Equations: s as in `probe_cosines`, rho = corr(s, t) over the pairs. With s', t' centered and of length |s'|, |t'|:

        d rho / d s = (t' / |t'| - rho s' / |s'|) / |s'|.

    Args:
        probe: (V,) v, one number per context token.
        signature: (A, Y, V) phi_a^{y;1}.
        cosines: (P,) t, similarities of the embeddings of the pairs.
        pairs: (2, P) tokens of each pair, each pair once.

    Returns:
        (rho, gradient); (0, 0) where s or t does not vary, as s for a constant v on a task with equal order-0 rows.

    Reference: the context staircase paper (arXiv 2608.30315) for the probe; the gradient is ours.

    Example:
        >>> phi, pairs = np.random.default_rng(0).random((5, 3, 4)), token_pairs(np.arange(5))
        >>> probe = np.array([1.0, -2.0, 0.5, 1.0])
        >>> planted = cosine_gram(phi @ probe)[pairs[0], pairs[1]]
        >>> round(probe_correlation(7.0 * probe, phi, planted, pairs)[0], 6)
        1.0
    """
    found, gradient = probe_cosines(probe, signature, pairs)
    own, other = found - found.mean(), cosines - cosines.mean()
    if min(np.abs(own).max(), np.abs(other).max()) <= EQUAL_WITHIN:
        return 0.0, np.zeros_like(probe)
    length = float(np.linalg.norm(own))
    own, other = own / length, other / np.linalg.norm(other)
    value = float(own @ other)
    return value, gradient((other - value * own) / length)


def fit_probe(
    signature: Float[np.ndarray, "A Y V"],
    cosines: Float[np.ndarray, " P"],
    pairs: Int[np.ndarray, "2 P"],
    *,
    start: Float[np.ndarray, " V"],
) -> Float[np.ndarray, " V"]:
    """Return the probe that L-BFGS reaches from a start, of length 1: a local maximum of `probe_correlation`, in at most 300 steps.

    Args:
        signature: (A, Y, V).
        cosines: (P,) similarities to be met.
        pairs: (2, P).
        start: (V,) not zero.

    Returns:
        (V,) a unit vector.
    """

    def loss(probe: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = probe_correlation(probe, signature, cosines, pairs)
        return -value, -slope

    found = minimize(loss, start / np.linalg.norm(start), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS})
    return found.x / np.linalg.norm(found.x)


def fit_probe_adam(
    signature: Float[np.ndarray, "A Y V"],
    cosines: Float[np.ndarray, " P"],
    pairs: Int[np.ndarray, "2 P"],
    *,
    start: Float[np.ndarray, " V"],
) -> Float[np.ndarray, " V"]:
    """Return the probe after 300 steps of Adam at rate .01 (beta .9, .999), as in the paper; of length 1. See `fit_probe`.

    Reference: the context staircase paper (arXiv 2608.30315); Kingma and Ba (2015).
    """
    probe = start.astype(np.float64)
    mean, square = np.zeros_like(probe), np.zeros_like(probe)
    for step in range(1, 301):
        slope = -probe_correlation(probe, signature, cosines, pairs)[1]
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope * slope
        probe = probe - 0.01 * (mean / (1.0 - 0.9**step)) / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-8)
    return probe / np.linalg.norm(probe)


@dataclass(frozen=True)
class ProbeAlignment:
    """What a fitted probe says of an embedding.

    `figure` is the held-out correlation, `train` its mean over folds on training tokens, `probes` (F, V) the probe of each fold.
    """

    figure: Figure
    train: float
    probes: np.ndarray


@final
class FittedProbe:
    """Signatures, folds and permutations, made once for a corpus; `at` fits a probe to an embedding and judges it on held-out tokens.

    Equation: v maximizes corr(cos(phi_a v, phi_b v), S_emb(a, b)) over pairs of training tokens (`probe_correlation`); the figure is that
    correlation over pairs of held-out tokens, each fold on its own level (`within_fold_correlation`). The null is the mean of the same
    fit over permuted rows of the signature, with the same folds and starts. On y = x_1 + x_2 + c mod p the probe's Gram is
    sum_k |v_k|^2 G_k / sum_k |v_k|^2 over the frequencies k >= 0 of the cycle: `FourierProbe`, which has one maximum, is then to be
    preferred.

    Args:
        signature: (A, Y, V) first-order label signatures.
        tokens: rows to use; None = all. Those whose signature is zero (never seen) are left out.
        folds: over those tokens, numbered from 0; None = one partition into 5 of seed 0, by `token_folds`.
        permutations: of the null, at least 2; each costs as much as the fit.
        starts: Gaussian starts N(0, 1 / sqrt(V)); the one that fits the training tokens best is kept.
        seed: of starts and permutations.
        fit: how a probe is found.

    Raises:
        InputError: see `token_folds`; fewer than two permutations or one start.

    Reference: the context staircase paper (arXiv 2608.30315) for the probe; held-out tokens and nulls are ours.
    """

    def __init__(
        self,
        signature: Float[np.ndarray, "A Y V"],
        *,
        tokens: Int[np.ndarray, " T"] | None = None,
        folds: Sequence[TokenFold] | None = None,
        permutations: int = 3,
        starts: int = 3,
        seed: int = 0,
        fit: FitProbe = fit_probe,
    ) -> None:
        if permutations < 2 or starts < 1:
            raise InputError(f"permutations is {permutations} and starts {starts}; expected at least 2 and 1")
        self.tokens = seen_tokens(signature, np.arange(signature.shape[0]) if tokens is None else tokens)
        self._rows, self._initial, self._fit = signature.shape[0], None, fit
        self._signature = signature[self.tokens].astype(np.float64)
        self._folds = tuple(folds or token_folds(self.tokens.size))
        self._pairs = token_pairs(np.arange(self.tokens.size))
        self._orders = permuted_pairs(self.tokens.size, self._pairs, permutations=permutations, seed=seed)
        width = signature.shape[2]
        self._starts = np.random.default_rng([seed, 1]).normal(size=(starts, width)) * width**-0.25

    def with_initial(self, embedding: Float[np.ndarray, "A D"]) -> FittedProbe:
        """Return the same with an initial embedding to set beside the figure: the same fit to that."""
        found = copy.copy(self)
        found._initial = self.at(embedding).figure.value
        return found

    def at(self, embedding: Float[np.ndarray, "A D"]) -> ProbeAlignment:
        """Fit probes to an embedding and judge them.

        Args:
            embedding: (A, D) rows of the same tokens as those of the signature.

        Raises:
            InputError: another number of rows, a value that is not finite, or a row of zeros.
        """
        check_rows(embedding, self._rows)
        cosines = directed_gram(embedding, self.tokens).ravel()[self._orders]
        predicted, observed, probes, train = [], [], [], []
        for fold in self._folds:
            inside, outside = (np.flatnonzero(np.isin(self._pairs, side).all(axis=0)) for side in (fold.train, fold.held))
            fits = [self._best(fold.train, target) for target in cosines[inside].T]
            held = np.stack([self._similarities(probe, fold.held) for _, probe in fits], axis=1)
            predicted.append(held)
            observed.append(cosines[outside])
            train.append(fits[0][0])
            probes.append(fits[0][1])
        found = within_fold_correlation(predicted, observed)
        figure = Figure.of_fits(found, self._initial)
        return ProbeAlignment(figure, float(np.mean(train)), np.stack(probes))

    def _best(self, train: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
        signature, pairs = self._signature[train], token_pairs(np.arange(train.size))
        probes = [self._fit(signature, target, pairs, start=start) for start in self._starts]
        values = [probe_correlation(probe, signature, target, pairs)[0] for probe in probes]
        best = int(np.argmax(values))
        return values[best], probes[best]

    def _similarities(self, probe: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        pairs = token_pairs(np.arange(tokens.size))
        return cosine_gram(self._signature[tokens] @ probe)[pairs[0], pairs[1]]
