"""nAUC: what abstaining by a confidence gains in a retrieval metric, on a scale from nothing to the best possible."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.resamples import once
from normwise.theory.tied_answers import RankedResamples, finite_values, first_totals, rank

# As MTEB computes them: three tenths is .30000000000000004, and .3 would abstain on another number of 15 queries.
_RATES = np.linspace(0.0, 1.0, 11)[:-1]


def abstention_nauc(confidence: Float[np.ndarray, " B"], metric: Float[np.ndarray, " _"]) -> float | None:
    """Return the normalized area under the abstention curve of MTEB.

    Equation: nAUC = (A(confidence) - A_flat) / (A(metric) - A_flat). A(s) is the area, by trapezoids over the rates 0, .1, ...,
    .9, under the mean metric of the queries that stay when one abstains on the round(rate B) with the lowest s (half to even;
    at least one stays); equal s count as their mean. A_flat is that of a curve that stays at the mean of all.

    Args:
        confidence: (B,) finite numbers of any sign; only their order counts.
        metric: (B,) the metric of each query, such as nDCG@10; a query without an answer in the corpus has 0.

    Returns:
        1 for the best order, 0 on average for a random one, negative for a misleading one; None where the metric is the same
        for all queries (MTEB: NaN, or a quotient of rounding errors).

    Raises:
        InputError: no query, lengths differ, or a value is not finite.

    Reference: Gisserot-Boukhlef et al. (2024), arXiv 2402.12997, section 4.3; rates, rounding and ties as in mteb 2.26.

    Example:
        >>> abstention_nauc(np.array([0.1, 0.4, 0.9]), np.array([0.0, 0.5, 1.0]))
        1.0
        >>> abstention_nauc(np.array([0.1, 0.4]), np.array([0.5, 0.5])) is None
        True
    """
    if not confidence.size:
        raise InputError("confidence holds no query: expected at least one")
    metric = checked_metric(metric, confidence)
    whole = once(metric.size)
    ranked = RankedResamples(rank(finite_values(confidence, "confidence")), whole)
    found = float(naucs(ranked, RankedResamples(rank(metric), whole), metric)[0])
    return None if np.isnan(found) else found


def naucs(confidence: RankedResamples, oracle: RankedResamples, metric: Float[np.ndarray, " B"]) -> Float[np.ndarray, " R"]:
    """Return the `abstention_nauc` of each resample; NaN where its metric is the same throughout.

    Args:
        confidence: the queries ranked by confidence.
        oracle: the same resamples ranked by the metric itself.
        metric: (B,) the metric, in the order of the queries.
    """
    size = confidence.held[:, -1:]
    firsts = size - np.minimum(np.rint(_RATES * size), size - 1.0)
    found, best = (first_totals(by.held, np.cumsum(by.totals(metric), axis=1), firsts) / firsts for by in (confidence, oracle))
    flat = best[:, 0] * (_RATES[-1] - _RATES[0])
    gain, most = (np.trapezoid(curve, _RATES, axis=1) - flat for curve in (found, best))
    # Where one group of equal values holds the first query and the last, `most` is rounding.
    varied = np.array([np.searchsorted(row, 1.0) < np.searchsorted(row, row[-1]) for row in oracle.held])
    return np.divide(gain, most, out=np.full(gain.shape, np.nan), where=varied & (most > 0.0))


def checked_metric(metric: Float[np.ndarray, " B"], confidence: Float[np.ndarray, " _"]) -> Float[np.ndarray, " B"]:
    """Return the metric as float64, or raise InputError where it is not one finite number per confidence.

    Example:
        >>> checked_metric(np.array([1.0]), np.array([0.5])).tolist()
        [1.0]
    """
    if metric.shape != confidence.shape:
        raise InputError(f"metric has shape {metric.shape} for {confidence.size} confidences; expected one value for each query")
    bad = np.flatnonzero(~np.isfinite(metric))
    if bad.size:
        came = f"metric of query {bad[0]} is {metric[bad[0]]}"
        raise InputError(f"{came}; expected a finite number, 0 for a query that has no answer in the corpus")
    return metric.astype(np.float64)
