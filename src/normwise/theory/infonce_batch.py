"""What one batch's scores say of InfoNCE: loss less log k, its limit by the jackknife, residual and effective negatives of each query."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import expit, logsumexp

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.infonce_estimates import Estimate
from normwise.theory.infonce_regime import FAR_ABOVE, Regime

# Rows are worked on in blocks of so many scores: a few copies of them in float64 stay small whatever the batch.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class QueryReadings:
    """Figures of each of B queries; risks are in nats and less log k, so that they compare over k.

    Args:
        negatives: (B,) k, the query's negatives that are not masked.
        risk: (B,) InfoNCE loss less log k.
        decoupled: (B,) DCL loss less log k.
        limit: (B,) jackknife estimate of what both go to as k goes to infinity.
        residual: (B,) 1 - p_+, p_+ the softmax probability of the positive; in [0, 1].
        cv2: (B,) squared coefficient of variation of e^s over the negatives, these taken as the population; in [0, k - 1].
    """

    negatives: Int[np.ndarray, " B"]
    risk: Float[np.ndarray, " B"]
    decoupled: Float[np.ndarray, " B"]
    limit: Float[np.ndarray, " B"]
    residual: Float[np.ndarray, " B"]
    cv2: Float[np.ndarray, " B"]

    @property
    def effective_negatives(self) -> Float[np.ndarray, " B"]:
        """(B,) k / (1 + cv2), which is 1 / sum w^2, w the softmax weights among the negatives; in [1, k]."""
        return self.negatives / (1.0 + self.cv2)


def read_scores(positive: Float[np.ndarray, " B"], negatives: Float[np.ndarray, "B N"]) -> QueryReadings:
    """Read the scores of a batch, in float64 and the log domain, at O(N) for each query.

    Equations, with L = log sum_j e^{s_j} over the k negatives and w_j = e^{s_j - L}:

        risk = log(1 + e^{L - s_+}) - log k,    DCL = L - s_+ - log k,    1 - p_+ = 1 / (1 + e^{s_+ - L}),    1 + cv2 = k sum_j w_j^2,
        limit = DCL - (k - 1) (log(k / (k - 1)) + mean_j log(1 - w_j))

    the last of which is k log mu - (k - 1) mean_j log mu^(-j) - s_+, mu the mean of e^s and mu^(-j) that without the j-th. Of the largest
    weight, 1 - w is summed from the others, so that a single negative that outweighs them all costs no digits.

    Args:
        positive: (B,) scores of the positives, similarity / temperature, of any sign and size.
        negatives: (B, N) scores of the negatives; -inf where a column is none of the row's (its positive, a duplicate, padding).

    Returns:
        The readings. With one negative the limit is the DCL loss.

    Raises:
        InputError: shapes do not fit, a row without a negative, or a score that is NaN or +inf; the message names the query.

    Reference: Whiteley (2026), section 2, for the losses; Quenouille (1956) for the jackknife, whose use here is ours.

    Example:
        >>> found = read_scores(np.zeros(1), np.array([[0.0, 0.0, -np.inf]]))
        >>> found.negatives.tolist(), found.risk.round(4).tolist(), found.limit.tolist(), found.effective_negatives.tolist()
        ([2], [0.4055], [0.0], [2.0])
    """
    if positive.ndim != 1 or negatives.ndim != 2 or negatives.shape[0] != positive.size or not negatives.size:
        raise InputError(f"positive has shape {positive.shape}, negatives {negatives.shape}; expected (B,) and (B, N), N at least 1")
    rows = max(1, _BLOCK // negatives.shape[1])
    parts = [_read_block(positive, negatives, low, low + rows) for low in range(0, positive.size, rows)]
    return join_readings(parts)


def join_readings(parts: list[QueryReadings]) -> QueryReadings:
    """Return the readings of all parts, one after the other; of at least one part.

    Example:
        >>> one = read_scores(np.zeros(1), np.zeros((1, 2)))
        >>> join_readings([one, one]).negatives.tolist()
        [2, 2]
    """
    return QueryReadings(**{each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(QueryReadings)})


def mean_over_steps(means: Float[np.ndarray, " S"], queries: Int[np.ndarray, " S"]) -> Estimate:
    """Estimate a mean over queries from its means over steps, with an error that takes a step as one draw.

    Equation: m = sum_s n_s m_s / n, error^2 = S / (S - 1) sum_s (n_s / n)^2 (m_s - m)^2. Queries of one batch share their negatives, so
    that their own spread would promise too much; what moves from step to step, training itself included, counts as spread.

    Args:
        means: (S,) means of each step.
        queries: (S,) n_s >= 1 queries of each.

    Returns:
        The estimate; its error is NaN for a single step.

    Example:
        >>> mean_over_steps(np.array([1.0, 3.0]), np.array([8, 8]))
        Estimate(value=2.0, error=1.0)
    """
    share = queries / queries.sum()
    value = float(share @ means)
    count = means.size
    error = float(np.sqrt(count / (count - 1.0) * (share**2 @ (means - value) ** 2))) if count > 1 else float("nan")
    return Estimate(value, error)


def regime_of_readings(readings: QueryReadings) -> Regime:
    """Find where 1/k starts, from the readings of one or more batches; the pool is the smallest k among them.

    A batch shows no cv2 above k - 1, so that one of few negatives is told to be too small rather than taken at its word.

    Example:
        >>> regime_of_readings(read_scores(np.zeros(2), np.zeros((2, 64)))).extrapolates
        True
    """
    mean = float(readings.cv2.mean())
    with np.errstate(over="ignore"):
        weight = float(np.exp(-readings.decoupled).mean())
    return Regime(
        cv2_median=float(np.median(readings.cv2)),
        cv2_p90=float(np.quantile(readings.cv2, 0.9)),
        cv2_mean=mean,
        positive_weight=weight,
        decoupled_start=FAR_ABOVE * mean,
        start=FAR_ABOVE * max(mean, weight),
        pool=int(readings.negatives.min()),
    )


def _read_block(positive: np.ndarray, negatives: np.ndarray, low: int, high: int) -> QueryReadings:
    own, scores = positive[low:high].astype(np.float64), negatives[low:high].astype(np.float64)
    bad = ~np.isfinite(own) | np.isnan(scores).any(axis=1) | (scores == np.inf).any(axis=1)
    if bad.any():
        raise InputError(f"scores of query {low + int(bad.argmax())} are not all finite; check the vectors, and the temperature")
    k = (scores > -np.inf).sum(axis=1)
    if not k.all():
        raise InputError(
            f"query {low + int((k == 0).argmax())} has no negative: every column is masked; leave it out, or give more columns"
        )
    log_sum = np.asarray(logsumexp(scores, axis=1))
    margin, log_k = log_sum - own, np.log(k)
    squares, left_out = _squares_and_left_out(scores, log_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = (k - 1.0) * (-np.log1p(-1.0 / k) + left_out / k)
    return QueryReadings(
        negatives=k,
        risk=np.logaddexp(0.0, margin) - log_k,
        decoupled=margin - log_k,
        limit=margin - log_k - np.where(k > 1, fall, 0.0),
        residual=expit(margin),
        cv2=np.maximum(0.0, k * squares - 1.0),
    )


def _squares_and_left_out(scores: np.ndarray, log_sum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B,) sum of w^2, and (B,) sum of log(1 - w); the latter is -inf where there is one negative only."""
    rows, top = np.arange(len(scores)), scores.argmax(axis=1)
    others = scores.copy()
    others[rows, top] = -np.inf
    weights = np.exp(others - log_sum[:, None])
    squares = np.vecdot(weights, weights) + np.exp(2.0 * (scores[rows, top] - log_sum))
    # No weight but the largest can be above 1/2.
    return squares, np.log1p(-weights).sum(axis=1) + (np.asarray(logsumexp(others, axis=1)) - log_sum)
