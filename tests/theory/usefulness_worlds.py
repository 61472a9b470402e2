"""Worlds whose truth is known: what makes a candidate relevant, and what makes a top hit right."""

import numpy as np
from free_queries import draw_answers

from normwise.theory.norm_confidence import TopHits
from normwise.theory.norm_reranking import JudgedVectors

WIDTH, CANDIDATES, QUERIES = 12, 240, 120


def world(*, truth, seed=0):
    """Twin candidates of nearly one direction; which of two is relevant is up to its norm, its length or a coin.

    Where length is the truth, the norm is a falling function of it and nothing else, as under mean pooling.
    """
    rng = np.random.default_rng(seed)
    directions = np.repeat(rng.normal(size=(CANDIDATES // 2, WIDTH)), 2, axis=0) + 0.02 * rng.normal(size=(CANDIDATES, WIDTH))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    tokens = np.round(rng.lognormal(3.0, 0.6, size=CANDIDATES)) + 2.0
    norms = tokens**-0.3 if truth == "length" else rng.lognormal(0.0, 0.2, size=CANDIDATES)
    value = {"norm": norms, "length": -tokens, "nothing": rng.normal(size=CANDIDATES)}[truth]
    candidates = directions * norms[:, None]

    def judged():
        pairs = rng.integers(CANDIDATES // 2, size=QUERIES)
        target = 2 * pairs + (value[2 * pairs + 1] > value[2 * pairs])
        vectors = directions[2 * pairs] + 0.03 * rng.normal(size=(QUERIES, WIDTH))
        return JudgedVectors(vectors, [{int(row): 1.0} for row in target], pairs)

    return candidates, judged(), judged(), tokens


def hits(*, seed, count=400, by_norm=0.0, by_length=0.0, norm_is_length=False):
    """Answers that are right by their score and, as asked, by their norm or by a bent function of length."""
    rng = np.random.default_rng(seed)
    score, margin = rng.uniform(0.2, 0.9, count), rng.exponential(0.05, count)
    length = np.round(rng.lognormal(3.0, 0.7, count)) + 2.0
    z = (np.log(length) - np.log(length).mean()) / np.log(length).std()
    logs = -0.3 * np.log(length) if norm_is_length else 0.2 * rng.normal(size=count)
    chance = 6.0 * (score - 0.55) + 8.0 * (margin - 0.05) + by_norm * logs / logs.std() + by_length * (np.exp(-z) - 1.0)
    right = rng.random(count) < 1.0 / (1.0 + np.exp(-chance))
    # Two queries of one cluster share a document, so their answers belong together.
    found = TopHits(score, margin, right, np.exp(0.2 * rng.normal(size=count)), np.exp(logs), np.arange(count) // 2)
    return found, {"tokens of the top hit": length}


def top_hits_of(world, *, per_query=4, seed):
    """The first places of free queries, each asked several times; a query is one cluster."""
    lengths = np.linalg.norm(world.vectors, axis=1)
    scores = world.vectors / lengths[:, None] @ world.documents.T
    ordered = np.sort(scores, axis=1)
    answers = draw_answers(world, per_query=per_query, seed=seed)
    rows = np.repeat(np.arange(lengths.size), per_query)
    return TopHits(
        score=ordered[rows, -1],
        margin=(ordered[:, -1] - ordered[:, -2])[rows],
        right=(answers == scores.argmax(axis=1)[:, None]).reshape(-1),
        query_norms=lengths[rows],
        hit_norms=np.ones(rows.size),
        clusters=rows,
    )
