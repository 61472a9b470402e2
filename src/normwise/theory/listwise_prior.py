"""The weights of score and log prior under which the relevant hits of a list are likeliest."""

from __future__ import annotations

import numpy as np

from normwise.core.shapes import Bool, Float
from normwise.theory.bounded_newton import Objective, bounded_newton

# Per mean gap of the scores, and per standard deviation of the log prior: lists that the weights separate end at an edge.
MOST_SCORE, MOST_PRIOR = 1e4, 1e2
_EQUAL = 1e-9
_FAR = 1e6
_SAMPLE = 4096
_BLOCK_VALUES = 1 << 17


def fit_listwise(
    scores: Float[np.ndarray, "B K"],
    logs: Float[np.ndarray, "B K"],
    relevant: Bool[np.ndarray, "B K"],
    racing: Bool[np.ndarray, "B K"],
) -> tuple[float, float]:
    """Return (beta, alpha) of highest listwise likelihood; the problem is concave, so there is one answer.

    Equation: maximize mean_i (1/|R_i|) sum_{j in R_i} log softmax_j(beta s_ij + alpha log w_ij), beta in [0, 1e4 / mean gap],
    alpha within +-100 / std(log w), and alpha = 0 where log w is the same in all hits.

    Args:
        scores: (B, K) in descending order.
        logs: (B, K) log weights.
        relevant: (B, K), of racing hits; rows without one are left out.
        racing: (B, K) whether a hit takes part in the softmax.

    Example:
        >>> s, nothing = np.tile([1.0, 0.0], (4, 1)), np.zeros((4, 2))
        >>> three_of_four = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=bool)
        >>> [round(each, 4) for each in fit_listwise(s, nothing, three_of_four, np.ones((4, 2), dtype=bool))]
        [1.0986, 0.0]
    """
    kept = np.flatnonzero(relevant.any(axis=1))
    scores, logs, relevant, racing = scores[kept], logs[kept], relevant[kept], racing[kept]
    gaps = scores - scores[:, :1]
    unit = float(np.abs(gaps[:, 1:][racing[:, 1:]]).mean()) if racing[:, 1:].any() else 0.0
    unit = unit if unit > 0.0 else 1.0
    center, spread = (float(logs[racing].mean()), float(logs[racing].std())) if racing.any() else (0.0, 0.0)
    scale = spread if spread > _EQUAL else np.inf
    features = np.stack([np.where(racing, gaps / unit, 0.0), np.where(racing, (logs - center) / scale, 0.0)]).astype(np.float32)
    target = relevant / np.maximum(relevant.sum(axis=1, keepdims=True), 1)
    low, high = np.array([0.0, -MOST_PRIOR]), np.array([MOST_SCORE, MOST_PRIOR])
    sampled = np.arange(0, kept.size, max(1, -(-kept.size // _SAMPLE)))
    start, _ = bounded_newton(
        _loss(features[:, sampled], target[sampled], racing[sampled]), np.array([1.0, 0.0]), low=low, high=high, longest=MOST_PRIOR
    )
    point, _ = bounded_newton(_loss(features, target, racing), start, low=low, high=high, longest=MOST_PRIOR)
    return float(point[0] / unit), float(point[1] / scale)


def _loss(features: np.ndarray, target: np.ndarray, racing: np.ndarray) -> Objective:
    """Mean cross entropy between the even share of the relevant hits and the softmax, with gradient and Hessian."""
    wanted = np.einsum("fij,ij->f", features, target, dtype=np.float64) / target.shape[0]
    out = np.where(racing, 0.0, -_FAR).astype(np.float32)
    step = max(1, _BLOCK_VALUES // target.shape[1])

    def objective(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        total, mean, square = 0.0, np.zeros(2), np.zeros((2, 2))
        first, second = point.astype(np.float32)
        for start in range(0, target.shape[0], step):
            one, two = features[:, start : start + step]
            logits = one * first + two * second + out[start : start + step]
            top = logits.max(axis=1, keepdims=True)
            logits -= top
            np.exp(logits, out=logits)
            mass = logits.sum(axis=1)
            total += float(np.sum(np.log(mass) + top[:, 0], dtype=np.float64))
            logits /= mass[:, None]
            parts = logits * one, logits * two
            means = np.stack([each.sum(axis=1) for each in parts]).astype(np.float64)
            mean += means.sum(axis=1)
            square += [[float(np.vdot(part, other)) for other in (one, two)] for part in parts] - means @ means.T
        rows = target.shape[0]
        return total / rows - float(point @ wanted), mean / rows - wanted, square / rows

    return objective
