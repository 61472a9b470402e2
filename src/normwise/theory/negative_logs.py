"""Sums of e^score in the log domain, for queries whose scores are too far apart for sums of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from normwise.core.shapes import Float

# Scores of so many pairs are held at once.
_HELD = 1 << 22


def pairwise_log_sums(logs: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B _"]:
    """Return log(e^a + e^b) of neighboring columns a and b, two and two; a last one alone is left out.

    Example:
        >>> pairwise_log_sums(np.log([[1.0, 2.0, 3.0, 4.0, 5.0]])).round(4).tolist(), np.log([3.0, 7.0]).round(4).tolist()
        ([[1.0986, 1.9459]], [1.0986, 1.9459])
    """
    # Two of -inf are -inf, and nothing to warn of.
    with np.errstate(invalid="ignore"):
        return np.asarray(np.logaddexp(logs[:, : logs.shape[1] - 1 : 2], logs[:, 1::2]))


def log_sums_of(
    rows: np.ndarray,
    upto: np.ndarray,
    scores: Callable[[np.ndarray, int], np.ndarray],
    take: Callable[[np.ndarray, int, np.ndarray], None],
) -> None:
    """Sum over sets of 1, 2, 4, ... neighboring negatives of some queries, in float64 and the log domain.

    Args:
        rows: (b,) the queries.
        upto: (b,) how many of the first negatives of each are asked for.
        scores: gives the (c, n) scores of c queries with their first n negatives, with -inf where there is none.
        take: is given queries, a k, and the (c, S) log sums over their sets of k, for k = 1, 2, 4, ... up to n.
    """
    order = np.argsort(upto, kind="stable")
    rows, upto = rows[order], upto[order]
    low = 0
    while low < rows.size:
        # Those that ask for most come last, so that those who ask for little are not held up by them.
        high = low + 1
        while high < rows.size and (high + 1 - low) * int(upto[high]) <= _HELD:
            high += 1
        logs, k = scores(rows[low:high], int(upto[high - 1])).astype(np.float64), 1
        while logs.shape[1]:
            take(rows[low:high], k, logs)
            logs, k = pairwise_log_sums(logs), 2 * k
        low = high
