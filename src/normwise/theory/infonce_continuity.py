"""By how much the InfoNCE loss of one tuple changes when its embeddings move: the exact slope, and bounds that average over negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.signals import check_temperature

# Constants of the steps of anchor, positive and negatives; ours, and those of Whiteley's proposition 4.
OURS, PUBLISHED = (2.0, 1.0, 1.0), (4.0, 1.0, 3.0)
# What float32 rounding may add to a norm of 1; a longer vector is an error, one within it counts as it is.
_ROUNDING = 1e-5
_MOST_EXPONENTS = 400
_PIECES = 32


@dataclass(frozen=True)
class EmbeddedTuple:
    """One training tuple as an encoder gives it.

    Args:
        anchor: (D,) finite.
        positive: (D,)
        negatives: (k, D), k >= 1.

    Raises:
        InputError: shapes do not fit, or a value is not finite.
    """

    anchor: np.ndarray
    positive: np.ndarray
    negatives: np.ndarray

    def __post_init__(self) -> None:
        shapes = self.anchor.shape, self.positive.shape, self.negatives.shape
        if self.anchor.ndim != 1 or shapes[1] != shapes[0] or self.negatives.ndim != 2 or shapes[2][1:] != shapes[0] or not shapes[2][0]:
            raise InputError(f"anchor, positive and negatives have shapes {shapes}; expected (D,), (D,) and (k, D), k at least 1")
        for name in ("anchor", "positive", "negatives"):
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} holds a value that is not finite; check the encoder's output")

    @property
    def rows(self) -> Float[np.ndarray, "rows D"]:
        """(2 + k, D) in float64: the anchor, the positive, the negatives."""
        return np.concatenate([self.anchor[None], self.positive[None], self.negatives]).astype(np.float64)


@dataclass(frozen=True)
class ContinuityBound:
    """Bounds on |l(end) - l(start)|, in nats.

    Args:
        change: |l(end) - l(start)| itself.
        bound: the least that is proven: constants (2, 1, 1), with `residual` and `spread`.
        beta: the exponent in 1..inf that gave it; inf is the longest step of a negative.
        residual: an upper bound of 1 - p_+ anywhere between the two, p_+ the softmax share of the positive.
        spread: an upper bound of the largest less the smallest score of a negative anywhere between the two.
        uniform: as `bound` for tuples of which nothing is known but their steps: residual 1, spread 2c.
        published: the same with the constants (4, 1, 3).
    """

    change: float
    bound: float
    beta: float
    residual: float
    spread: float
    uniform: float
    published: float


def loss_slope(start: EmbeddedTuple, end: EmbeddedTuple, temperature: float, *, at: float = 0.0) -> float:
    """Return the exact slope of the loss on the way from one embedding to another.

    Equation: dl(phi_t)/dt = (rho_t / tau) [<eta_a, G(phi_t) - phi_t(z+)> + <phi_t(z_a), G(eta) - eta_+>], phi_t = start + t eta,
    eta = end - start, G(h) = sum_j p_j h(z_j) with p the softmax of the negatives' scores, rho_t = 1 - p_+ the residual.

    Args:
        start: phi_0.
        end: phi_1, of the same shape.
        temperature: tau > 0.
        at: t, usually 0..1.

    Returns:
        Nats per unit of t.

    Raises:
        InputError: shapes differ, or a temperature that is not finite and above 0.

    Reference: Whiteley (2026), lemma 6 and equation 42.

    Example:
        >>> ones = np.ones(1)
        >>> start, end = EmbeddedTuple(ones, ones, np.ones((1, 1))), EmbeddedTuple(ones, -ones, np.ones((1, 1)))
        >>> loss_slope(start, end, 0.5)
        2.0
    """
    first, step = _way(start, end, temperature)
    anchor, positive, negatives = _parts(first + at * step)
    moved_anchor, moved_positive, moved = _parts(step)
    scores = negatives @ anchor / temperature
    shares = np.exp(scores - np.asarray(logsumexp(scores)))
    inner = moved_anchor @ (shares @ negatives - positive) + anchor @ (shares @ moved - moved_positive)
    return float(_residual(scores, float(anchor @ positive) / temperature) / temperature * inner)


def continuity_bound(
    start: EmbeddedTuple, end: EmbeddedTuple, temperature: float, *, largest_norm: float = 1.0, pieces: int = _PIECES
) -> ContinuityBound:
    """Bound the change of one tuple's loss by the steps of its embeddings.

    Equation: |l(end) - l(start)| <= (b rho / tau) [2 |eta_a| + |eta_+| + e^{Delta / beta} ((1/k) sum_j |eta_j|^beta)^{1/beta}], b the
    largest norm, for every beta >= 1: the least over 1, 2, ..., 4c (c = b^2 / tau; at most 400 of them) and the limit, the longest step.
    rho and Delta bound the residual and the spread between start and end. Confident tuples, whose residual is small, are insensitive.

    Args:
        start: one embedding of the tuple; no vector longer than `largest_norm`.
        end: another, of the same shape.
        temperature: tau > 0, that divides the inner products.
        largest_norm: b > 0; 1 for cosine.
        pieces: >= 1, into which the way is cut to bound residual and spread; more of them are sharper.

    Returns:
        The bounds. What leaves float64 is infinite.

    Raises:
        InputError: as `loss_slope`, a vector is longer than `largest_norm`, or that or `pieces` is out of range.

    Reference: Whiteley (2026), proposition 4, has (4, 1, 3), residual 1 and spread 2 / tau. Ours takes the inner products of
        `loss_slope` as they are, where the paper adds and subtracts a step.

    Example:
        >>> start = EmbeddedTuple(np.eye(2)[0], np.eye(2)[0], np.eye(2)[1:])
        >>> end = EmbeddedTuple(np.eye(2)[0], np.eye(2)[1], np.eye(2)[1:])
        >>> found = continuity_bound(start, end, 0.5)
        >>> round(found.change, 3), round(found.bound, 3), round(found.published, 3)
        (0.566, 1.414, 2.828)
    """
    first, step = _way(start, end, temperature)
    longest = _longest(first, first + step, largest_norm)
    steps = np.linalg.norm(step, axis=1)
    top = longest**2 / temperature
    rho = residual_bound(start, end, temperature, pieces=pieces)
    spread = min(spread_bound(start, end, temperature, pieces=pieces), 2.0 * top)
    near, beta = mean_step(steps[2:], spread, largest_exponent=4.0 * top)
    far, _ = mean_step(steps[2:], 2.0 * top, largest_exponent=4.0 * top)

    def weighed(constants: tuple[float, float, float], moved: float) -> float:
        return float(longest / temperature * np.dot(constants, (steps[0], steps[1], moved)))

    return ContinuityBound(
        change=abs(_excess(first + step, temperature) - _excess(first, temperature)),
        bound=rho * weighed(OURS, near),
        beta=beta,
        residual=rho,
        spread=spread,
        uniform=weighed(OURS, far),
        published=weighed(PUBLISHED, far),
    )


def residual_bound(start: EmbeddedTuple, end: EmbeddedTuple, temperature: float, *, pieces: int = _PIECES) -> float:
    """Bound the residual 1 - p_+ everywhere between two embeddings.

    Equation: rho_t = 1 / (1 + 1 / sum_j e^{g_j(t)}), g_j the score of negative j less the positive's. Each g_j is a quadratic of t, so that
    its maximum on a piece is known; rho <= the largest over pieces of 1 / (1 + 1 / sum_j e^{max g_j}). It is no sample of t.

    Args:
        start: phi_0.
        end: phi_1.
        temperature: tau > 0.
        pieces: >= 1, of 0..1.

    Returns:
        0..1.

    Raises:
        InputError: as `loss_slope`.

    Example:
        >>> one = EmbeddedTuple(np.ones(1), np.ones(1), np.ones((3, 1)))
        >>> round(residual_bound(one, one, 0.5), 6)
        0.75
    """
    first, step = _way(start, end, temperature)
    curves = _score_curves(first, step, temperature)
    _, high = _ranges(curves[:, 1:] - curves[:, :1], pieces)
    return float(expit(np.asarray(logsumexp(high, axis=1)).max()))


def spread_bound(start: EmbeddedTuple, end: EmbeddedTuple, temperature: float, *, pieces: int = _PIECES) -> float:
    """Bound the largest less the smallest score of a negative everywhere between two embeddings.

    Equation: sup_t (max_j s_j(t) - min_j s_j(t)) <= max over pieces of (max_j max s_j - min_j min s_j), each s_j a quadratic of t.

    Args:
        start: phi_0.
        end: phi_1.
        temperature: tau > 0.
        pieces: >= 1, of 0..1.

    Returns:
        At least 0; e to it bounds k p_j, p the softmax of the negatives' scores.

    Raises:
        InputError: as `loss_slope`.

    Example:
        >>> one = EmbeddedTuple(np.ones(1), np.ones(1), np.array([[1.0], [-1.0]]))
        >>> spread_bound(one, one, 0.5)
        4.0
    """
    first, step = _way(start, end, temperature)
    low, high = _ranges(_score_curves(first, step, temperature)[:, 1:], pieces)
    return float((high.max(axis=1) - low.min(axis=1)).max())


def mean_step(steps: Float[np.ndarray, " k"], spread: float, *, largest_exponent: float) -> tuple[float, float]:
    """Return the least e^{spread / beta} M_beta(steps) over exponents beta, and the beta that gave it.

    Equation: M_beta = ((1/k) sum_j |eta_j|^beta)^{1/beta}; it bounds the mean step under any softmax whose scores lie within `spread`.

    Args:
        steps: (k,) lengths, at least 0.
        spread: Delta >= 0.
        largest_exponent: beta goes over 1, 2, ... up to it, thinned out to 400, and infinity, where M is the largest step.

    Returns:
        The bound, and beta.

    Example:
        >>> mean_step(np.array([0.0, 1.0]), 0.0, largest_exponent=4.0)
        (0.5, 1.0)
        >>> mean_step(np.array([0.0, 1.0]), 100.0, largest_exponent=4.0)
        (1.0, inf)
    """
    top = max(1.0, np.ceil(largest_exponent))
    exponents = np.unique(np.rint(np.geomspace(1.0, top, _MOST_EXPONENTS))) if top > _MOST_EXPONENTS else np.arange(1.0, top + 1.0)
    logs = np.append(spread / exponents, 0.0) + log_power_means(steps, np.append(exponents, np.inf))
    least = int(np.argmin(logs))
    with np.errstate(over="ignore"):
        return float(np.exp(logs[least])), float(np.append(exponents, np.inf)[least])


def log_power_means(values: Float[np.ndarray, ...], exponents: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
    """Return the logarithms of the power means of values of at least 0, whatever their exponents.

    Equation: log M_p = (1/p) log((1/N) sum x^p); log of the largest for p infinite; minus infinity where all are 0.

    Args:
        values: (N,) at least 0.
        exponents: (G,) above 0.

    Returns:
        (G,)

    Example:
        >>> log_power_means(np.array([3.0, 4.0]), np.array([2.0, np.inf])).round(4).tolist()
        [1.2629, 1.3863]
    """
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    largest = logs.max()
    if largest == -np.inf:
        return np.full(exponents.shape, -np.inf)
    found = np.full(exponents.shape, largest)
    finite = np.isfinite(exponents)
    # Below the largest nothing overflows, and it alone is never lost.
    inner = np.asarray(logsumexp(exponents[finite, None] * (logs - largest), axis=1)) - np.log(logs.size)
    found[finite] += inner / exponents[finite]
    return found


def _way(start: EmbeddedTuple, end: EmbeddedTuple, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows at the start, and their steps."""
    check_temperature(temperature)
    if start.negatives.shape != end.negatives.shape:
        raise InputError(
            f"start has negatives of shape {start.negatives.shape}, end {end.negatives.shape}; expected one tuple, embedded twice"
        )
    first = start.rows
    return first, end.rows - first


def _parts(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rows[0], rows[1], rows[2:]


def _longest(first: np.ndarray, last: np.ndarray, largest_norm: float) -> float:
    if not (np.isfinite(largest_norm) and largest_norm > 0.0):
        raise InputError(f"largest_norm is {largest_norm}; expected a finite number above 0, such as 1 for cosine")
    found = float(np.linalg.norm(np.concatenate([first, last]), axis=1).max())
    if found > largest_norm * (1.0 + _ROUNDING):
        raise InputError(f"a vector has norm {found:.6g}; expected at most largest_norm = {largest_norm:g}: normalize, or raise it")
    return max(found, largest_norm)


def _residual(scores: np.ndarray, positive: float) -> float:
    return float(expit(np.asarray(logsumexp(scores)) - positive))


def _excess(rows: np.ndarray, temperature: float) -> float:
    """The loss plus log k, log(1 + sum_j e^{s_j - s_+}), which keeps its digits where it is next to 0."""
    scores = rows[1:] @ rows[0] / temperature
    return float(np.logaddexp(0.0, logsumexp(scores[1:]) - scores[0]))


def _score_curves(first: np.ndarray, step: np.ndarray, temperature: float) -> np.ndarray:
    """(3, 1 + k) coefficients of 1, t, t^2 of the scores of positive and negatives."""
    constant = first[1:] @ first[0]
    linear = first[1:] @ step[0] + step[1:] @ first[0]
    return np.stack([constant, linear, step[1:] @ step[0]]) / temperature


def _ranges(curves: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """(P, k) least and largest value of each quadratic on each piece of 0..1: at an end, or where its slope is 0."""
    if pieces < 1:
        raise InputError(f"pieces is {pieces}; expected at least 1")
    constant, linear, square = curves
    edges = np.linspace(0.0, 1.0, pieces + 1)[:, None]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        flat = np.where(square != 0.0, -linear / (2.0 * square), 0.0)
    places = np.stack(
        [
            np.broadcast_to(edges[:-1], (pieces, constant.size)),
            np.broadcast_to(edges[1:], (pieces, constant.size)),
            np.clip(flat, edges[:-1], edges[1:]),
        ]
    )
    values = constant + places * (linear + places * square)
    return values.min(axis=0), values.max(axis=0)
