"""Whose work a dot product is: how much of the spread of its logarithm the candidates' norms make."""

from __future__ import annotations

import math

import numpy as np

from normwise.core.errors import InputError
from normwise.core.modality_records import Dominance, NormShare
from normwise.core.records import Interval
from normwise.core.shapes import Float, Int
from normwise.theory.bootstrap import cluster_mean_interval
from normwise.theory.directions import norms

HALF = 0.5
# First places are decided among the candidates of the highest cosine.
TOP = 0.1
_LEAST, _EQUAL = 10, 1e-18


def log_score_shares(
    scores: Float[np.ndarray, "B N"], norms_of_candidates: Float[np.ndarray, " N"], *, top: float = 1.0
) -> Float[np.ndarray, " B"]:
    """Return for each query the share of the variance of its log scores that goes with the candidates' log norms.

    Equation: Cov(log s, log r) / Var(log s) over the candidates with s > 0, where log s = log ||q|| + log r + log cos; the same with
    log cos in the place of log r is the rest, to 1. It may leave 0..1, where norm and cosine work against each other.

    Args:
        scores: (B, N) dot products.
        norms_of_candidates: (N,) positive.
        top: only this share of the candidates, those of the highest cosine. Choosing by the score itself would pit norm and cosine
            against each other.

    Returns:
        (B,); NaN where fewer than 10 scores are left, or all of these are equal.

    Example:
        >>> r = np.arange(1.0, 13.0)
        >>> log_score_shares(np.stack([r, np.full(12, 2.0)]), r).tolist()
        [1.0, nan]
    """
    log_norms = np.log(norms_of_candidates)
    size = max(_LEAST, math.ceil(top * norms_of_candidates.size))
    shares = np.full(len(scores), np.nan)
    for row, score in enumerate(scores):
        kept = np.argsort(-score / norms_of_candidates, kind="stable")[:size]
        kept = kept[score[kept] > 0.0]
        if kept.size < _LEAST:
            continue
        logs, length = np.log(score[kept]), log_norms[kept]
        logs, length = logs - logs.mean(), length - length.mean()
        spread = float(logs @ logs)
        if spread > _EQUAL:
            shares[row] = float(logs @ length) / spread
    return shares


def norm_share(
    queries: Float[np.ndarray, "B D"],
    candidates: Float[np.ndarray, "N D"],
    clusters: Int[np.ndarray, " B"],
    *,
    names: tuple[str, str],
    seed: int,
) -> NormShare:
    """Tell whether the candidates' norms or the directions decide the dot products of queries with candidates.

    Dominated by the norm: the whole interval of the share lies above 1/2, among the tenth of the candidates with the highest cosine;
    by the direction: below it. Over all candidates scores near 0 make most of the variance of a logarithm, and decide no first place.

    Args:
        queries: (B, D) raw vectors.
        candidates: (N, D) raw vectors, none zero.
        clusters: (B,) units of queries that are drawn whole.
        names: what queries and candidates are called.
        seed: of the bootstrap.

    Raises:
        InputError: a candidate is the zero vector.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> c = np.abs(rng.normal(size=(40, 4))) * np.exp(3 * rng.normal(size=(40, 1)))
        >>> norm_share(np.ones((30, 4)), c, np.arange(30), names=("texts", "pictures"), seed=0).outcome
        'by the norm'
    """  # fmt: skip
    lengths = norms(candidates.astype(np.float64))
    if np.any(lengths == 0.0):
        raise InputError(f"candidates: row {int(np.argmin(lengths))} is zero and has no logarithm: leave zero vectors out")
    scores = queries.astype(np.float64) @ candidates.astype(np.float64).T
    share, top = (cluster_mean_interval(log_score_shares(scores, lengths, top=part), clusters, seed=seed) for part in (1.0, TOP))
    # A query's own norm changes no ranking, so only the candidates' is divided out.
    cosine = scores / lengths
    return NormShare(
        queries=names[0],
        candidates=names[1],
        query_rows=len(queries),
        candidate_rows=len(candidates),
        share=share,
        top_share=top,
        positive=float((scores > 0.0).mean()),
        same_first=float((scores.argmax(axis=1) == cosine.argmax(axis=1)).mean()),
        outcome=_outcome(top),
    )


def _outcome(share: Interval) -> Dominance:
    if share.ci_low is not None and share.ci_low > HALF:
        return "by the norm"
    return "by the direction" if share.ci_high is not None and share.ci_high < HALF else "undecided"
