"""Judged hit lists whose truth is known: what a first hit's chance of being right depends on, and what it does not."""

import numpy as np

from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists, JudgedHits


def judged(*, seed, count=400, depth=12, by_score=6.0, by_norm=0.0, by_length=0.0, lengths=True, frequency=False, per_cluster=2):
    """First hits right by their score and, as asked, by the query's norm or a bent function of the hit's length.

    Later hits are relevant the less, the lower they stand. `by_score` 0 makes a first hit right with chance .6 whatever there is.
    """
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.beta(2.0, 5.0, size=(count, depth)), axis=1)[:, ::-1].copy()
    scores[:, 0] += rng.exponential(0.05, count)
    query_logs, hit_logs = 0.2 * rng.normal(size=count), 0.2 * rng.normal(size=(count, depth))
    hit_lengths = np.round(rng.lognormal(3.0, 0.7, (count, depth))) + 2.0
    z = (np.log(hit_lengths[:, 0]) - 3.0) / 0.7
    margin = scores[:, 0] - scores[:, min(1, depth - 1)]
    odds = by_score * (scores[:, 0] - 0.6) + 2.0 * by_score * (margin - 0.08)
    odds += by_norm * query_logs / 0.2 + by_length * (np.exp(-z) - 1.0) + (0.4 if by_score == 0.0 else 0.0)
    relevant = rng.random((count, depth)) < 0.4 / np.arange(1, depth + 1)
    relevant[:, 0] = rng.random(count) < 1.0 / (1.0 + np.exp(-odds))
    hits = HitLists(
        scores,
        np.exp(query_logs),
        np.exp(hit_logs),
        Similarity.COSINE,
        query_lengths=np.round(rng.lognormal(2.0, 0.5, count)) + 1.0 if lengths else None,
        hit_lengths=hit_lengths if lengths else None,
        query_frequency=rng.poisson(3.0, count).astype(float) if frequency else None,
        hit_frequency=rng.poisson(3.0, (count, depth)).astype(float) if frequency else None,
    )
    priors = {"permuted norm": rng.permuted(hit_logs, axis=1)}
    return JudgedHits(hits, relevant, np.arange(count) // per_cluster, relevant.any(axis=1), priors)
