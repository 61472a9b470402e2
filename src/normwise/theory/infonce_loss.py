"""The InfoNCE loss with k negatives, less log k, of arrays of scores; what it cannot fall below, and how negatives collide."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, xlog1py

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.signals import check_temperature

_SUM = 1e-6


def infonce_losses(positive: Float[np.ndarray, " B"], negatives: Float[np.ndarray, "_ k"]) -> Float[np.ndarray, " B"]:
    """Return the log(k)-normalized InfoNCE loss of each query.

    Equation: l = log(1/k + (1/k) sum_j exp(s_j - s_+)), the usual loss less log k, so that losses of different k compare.

    Args:
        positive: (B,) scores of the positives, similarity / temperature, of any sign and size.
        negatives: (B, k) scores of k >= 1 negatives.

    Returns:
        (B,) losses in nats, at least -log k.

    Raises:
        InputError: shapes do not fit, no negative, or a score that is not finite; the message names the query.

    Reference: Whiteley (2026), section 2.

    Example:
        >>> infonce_losses(np.array([400.0]), np.array([[400.0, 400.0]])).round(6).tolist()
        [0.405465]
    """
    k = _checked(positive, negatives)
    return np.logaddexp(0.0, _log_sums(negatives) - positive) - np.log(k)


def decoupled_losses(positive: Float[np.ndarray, " B"], negatives: Float[np.ndarray, "_ k"]) -> Float[np.ndarray, " B"]:
    """Return the decoupled (DCL) loss: as `infonce_losses`, without the positive in the denominator.

    Equation: log((1/k) sum_j exp(s_j - s_+)); unlike InfoNCE it has no floor of its own.

    Args:
        positive: (B,) scores of the positives.
        negatives: (B, k) scores of k >= 1 negatives.

    Returns:
        (B,) losses in nats, of any sign.

    Raises:
        InputError: as `infonce_losses`.

    Reference: Yeh et al. (2022); less log k as in Whiteley (2026).

    Example:
        >>> decoupled_losses(np.array([1.0]), np.array([[1.0, 1.0]])).round(6).tolist()
        [0.0]
    """
    k = _checked(positive, negatives)
    return _log_sums(negatives) - positive - np.log(k)


def loss_floor(k: int, temperature: float, *, in_batch: bool = False, normalized: bool = True) -> float:
    """Return what InfoNCE by cosine cannot fall below, since a cosine is bounded.

    Equation: log(1 + k e^{-g}) - log k. The gap g is 2 / tau where every negative may be opposite to the query, and
    (1 + 1/k) / tau for the mean loss of a batch of k + 1 pairs whose positives are each other's negatives.

    Args:
        k: negatives of each query, >= 1.
        temperature: tau > 0.
        in_batch: whether the negatives are the positives of the other k queries, and no others. The floor is then that of the
            batch's mean; one query may lie below it.
        normalized: whether log k is taken off; training libraries report the loss with it.

    Returns:
        Nats. In a batch it is reached by a regular simplex only, which needs vectors of width k at least.

    Raises:
        InputError: k < 1, or a temperature that is not finite and above 0.

    Reference: ours: by Jensen's inequality the batch's mean loss is at least that of the mean gap, (1/k) sum_i <q_i, d_i - mean d> / tau,
        and that is at most (1 + 1/k) / tau. Graf et al. (2021) find the simplex for supervised contrastive losses.

    Example:
        >>> round(loss_floor(255, 1.0, normalized=False), 3)
        3.57
    """
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1 negative")
    check_temperature(temperature)
    gap = (1.0 + 1.0 / k if in_batch else 2.0) / float(temperature)
    floor = float(np.logaddexp(0.0, np.log(k) - gap))
    return floor - float(np.log(k)) if normalized else floor


def collision_share(shares: Float[np.ndarray, " N"], k: int) -> float:
    """Return the share of queries of which at least one of k in-batch negatives is the query's own positive, in draws from a law.

    Equation: sum_i p_i (1 - (1 - p_i)^k), p_i the share of training pairs whose positive is i, rows drawn independently.

    Args:
        shares: (N,) shares p_i >= 0 of sum 1.
        k: negatives, >= 0.

    Returns:
        The expected share, 0..1. A shuffled epoch draws without replacement and has less of it (`epoch_collision_share`), and a batch
        plan that keeps equal positives apart has none.

    Raises:
        InputError: shares are no law, or k is below 0.

    Reference: ours. Ash et al. (2021) study what such collisions cost.

    Example:
        >>> round(collision_share(np.full(4, 0.25), 1), 6)
        0.25
    """
    if not shares.size or not (shares >= 0.0).all() or not abs(shares.sum() - 1.0) <= _SUM:
        least = f", their least value is {shares.min():.6g}" if shares.size else ""
        raise InputError(
            f"{shares.size} shares sum to {shares.sum():.9g}{least}; expected values of at least 0 of sum 1: divide counts by their sum"
        )
    if k < 0:
        raise InputError(f"k is {k}; expected at least 0 negatives")
    # log1p and expm1 keep the digits of rare positives; xlog1py has 0 log 0 = 0.
    return float(shares @ -np.expm1(xlog1py(float(k), -np.minimum(shares, 1.0))))


def epoch_collision_share(counts: Int[np.ndarray, " P"], k: int) -> float:
    """Return the share of queries of which at least one of k in-batch negatives is the query's own positive, in a shuffled epoch.

    Equation: sum_i (c_i / N) (1 - C(N - c_i, k) / C(N - 1, k)), c_i the training rows whose positive is i and N all of them: the k others
    of a batch are drawn without replacement from the other N - 1 rows. The ratio is the product over m = 0, ..., c_i - 2 of
    1 - k / (N - 1 - m). `collision_share` is that of rows drawn independently from a law.

    Args:
        counts: (P,) rows c_i >= 1 of each of the P distinct positives.
        k: negatives, >= 0; above N - 1 all other rows.

    Returns:
        The expected share, 0..1; exactly 0 where all positives are distinct. Of rows drawn without replacement from more it is an unbiased
        estimate of that of all.

    Raises:
        InputError: no count, one below 1, or k below 0.

    Reference: ours.

    Example:
        >>> epoch_collision_share(np.ones(500, dtype=np.int64), 256), round(epoch_collision_share(np.array([2, 1, 1]), 1), 6)
        (0.0, 0.166667)
    """
    if not counts.size or counts.min() < 1:
        least = f", the least is {counts.min()}" if counts.size else ""
        raise InputError(f"{counts.size} counts{least}; expected the rows of each positive, 1 or more")
    if k < 0:
        raise InputError(f"k is {k}; expected at least 0 negatives")
    rows = int(counts.sum())
    others = rows - 1.0 - np.arange(int(counts.max()) - 1)
    with np.errstate(divide="ignore"):
        # log1p and expm1 keep the digits of rare collisions, which differences of log-gammas lose.
        logs = np.log1p(-np.minimum(k / others, 1.0))
    missed = np.concatenate([[0.0], np.cumsum(logs)])[counts - 1]
    return float((counts / rows) @ -np.expm1(missed))


def _log_sums(negatives: np.ndarray) -> np.ndarray:
    return np.asarray(logsumexp(negatives, axis=1))


def _checked(positive: np.ndarray, negatives: np.ndarray) -> int:
    if positive.ndim != 1 or negatives.ndim != 2 or negatives.shape[0] != positive.size or not negatives.shape[1]:
        raise InputError(f"positive has shape {positive.shape}, negatives {negatives.shape}; expected (B,) and (B, k), k at least 1")
    bad = np.flatnonzero(~np.isfinite(positive) | ~np.isfinite(negatives).all(axis=1))
    if bad.size:
        raise InputError(f"scores of query {bad[0]} are not all finite; check the vectors, and the temperature")
    return negatives.shape[1]
