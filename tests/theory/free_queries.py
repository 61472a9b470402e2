"""A small world in which norms are learned: free query vectors under a cosine loss, with the truth behind every answer.

Queries of different ambiguity (kappa of a von Mises-Fisher choice among fixed documents) are trained by SGD with dense
weight decay at Zipf-distributed rates. In that regime the norm grows with ambiguity and with frequency.
"""

from dataclasses import dataclass

import numpy as np

QUERIES, DOCUMENTS, WIDTH = 600, 300, 24


@dataclass(frozen=True)
class FreeQueries:
    """Trained vectors (Q, D), documents (N, D), kappa and visit rate per query, and the true chance of every document."""

    vectors: np.ndarray
    documents: np.ndarray
    kappa: np.ndarray
    rates: np.ndarray
    chances: np.ndarray


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def train(*, seed, steps=1500, visits=32, learning_rate=0.1, decay=0.02, temperature=0.2):
    """Softmax cross entropy of cosine / temperature over all documents; each visit draws its positive from the truth.

    About `visits` queries are visited per step, each at most once, with rates of Zipf's law of exponent .7.
    """
    rng = np.random.default_rng(seed)
    documents, means = unit(rng.normal(size=(DOCUMENTS, WIDTH))), unit(rng.normal(size=(QUERIES, WIDTH)))
    kappa = np.exp(rng.uniform(np.log(2.0), np.log(60.0), size=QUERIES))
    zipf = rng.permutation(np.arange(1, QUERIES + 1) ** -0.7)
    rates = 1.0 - np.exp(-visits * zipf / zipf.sum())
    logits = kappa[:, None] * (means @ documents.T)
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(chances, axis=1)
    vectors = unit(rng.normal(size=(QUERIES, WIDTH)))
    for _ in range(steps):
        seen = np.flatnonzero(rng.random(QUERIES) < rates)
        positive = np.minimum((cumulative[seen] < rng.random(seen.size)[:, None]).sum(axis=1), DOCUMENTS - 1)
        lengths = np.linalg.norm(vectors[seen], axis=1, keepdims=True)
        directions = vectors[seen] / lengths
        scores = directions @ documents.T / temperature
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        pull = (weights @ documents - documents[positive]) / temperature
        tangent = pull - (pull * directions).sum(axis=1, keepdims=True) * directions
        vectors *= 1.0 - learning_rate * decay
        vectors[seen] -= learning_rate * tangent / lengths
    return FreeQueries(vectors, documents, kappa, rates, chances)


def draw_answers(world, *, per_query, seed):
    """The relevant document of each of `per_query` askings of each query, (Q, per_query)."""
    draws = np.random.default_rng(seed).random((QUERIES, per_query))
    cumulative = np.cumsum(world.chances, axis=1)
    return np.minimum(np.stack([np.searchsorted(row, some) for row, some in zip(cumulative, draws, strict=True)]), DOCUMENTS - 1)
