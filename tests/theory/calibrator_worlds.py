"""Hit lists drawn from the models that calibrators assume, so that a fit has a truth to find."""

import numpy as np
from free_queries import draw_answers

from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists, JudgedHits


def softmax_world(*, seed, count, depth=8, inverse=15.0, norm_power=0.0, prior_power=0.0, unanswerable=0.0):
    """The relevant hit is drawn from softmax(b_i s + prior_power log n), log b_i = log inverse + norm_power log r_i.

    Lengths and frequencies are noise. An unanswerable query has no relevant hit at all.
    """
    rng = np.random.default_rng(seed)
    scores = -np.sort(-rng.normal(0.3, 0.15, size=(count, depth)), axis=1)
    query_norms, hit_norms = rng.lognormal(0.0, 0.5, size=count), rng.lognormal(0.0, 0.5, size=(count, depth))
    logits = (inverse * query_norms**norm_power)[:, None] * scores + prior_power * np.log(hit_norms)
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    place = np.minimum((np.cumsum(chances, axis=1) < rng.random((count, 1))).sum(axis=1), depth - 1)
    answerable = rng.random(count) >= unanswerable
    relevant = (np.arange(depth) == place[:, None]) & answerable[:, None]
    hits = HitLists(
        scores,
        query_norms,
        hit_norms,
        Similarity.COSINE,
        query_lengths=rng.integers(2, 20, size=count).astype(np.float64),
        hit_lengths=rng.integers(5, 200, size=(count, depth)).astype(np.float64),
        query_frequency=rng.integers(0, 9, size=count).astype(np.float64),
        hit_frequency=rng.integers(0, 9, size=(count, depth)).astype(np.float64),
        hit_density=rng.uniform(0.1, 0.3, size=(count, depth)),
    )
    permuted = {"permuted norm": rng.permutation(np.log(hit_norms).reshape(-1)).reshape(count, depth)}
    return JudgedHits(hits, relevant, np.arange(count), answerable, permuted)


def control_world(world, *, per_query, seed, steps=1500):
    """Trained free queries, each asked several times, over the whole row of documents; a query is one cluster."""
    norms = np.linalg.norm(world.vectors, axis=1)
    scores = world.vectors / norms[:, None] @ world.documents.T
    order = np.argsort(-scores, axis=1, kind="stable")
    answers = draw_answers(world, per_query=per_query, seed=seed)
    rows = np.repeat(np.arange(norms.size), per_query)
    hits = HitLists(
        np.take_along_axis(scores, order, axis=1)[rows],
        norms[rows],
        np.ones((rows.size, scores.shape[1])),
        Similarity.COSINE,
        complete=True,
        query_frequency=steps * world.rates[rows],
    )
    return JudgedHits(hits, order[rows] == answers.reshape(-1, 1), rows, np.ones(rows.size, dtype=bool))


def loss(calibrator, judged):
    """Mean negative log likelihood of the hits that a calibrator puts first, by the plain formula."""
    p = calibrator.predict(judged.hits, priors=judged.priors)
    right = judged.relevant[np.arange(len(judged)), calibrator.order(judged.hits, priors=judged.priors)]
    return float(-np.mean(np.where(right, np.log(p), np.log1p(-p))))
