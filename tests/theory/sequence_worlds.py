"""Laws of sequences, their signatures as sums over every position, and streams of documents."""

import itertools
import math

import numpy as np

from normwise.theory.sequence_law import SequenceLaw
from normwise.theory.stream_signatures import TokenStream


def a_law(seed, *, sequences=7, length=4, vocabulary=5, labels=3):
    """Rows drawn with position-dependent laws, which are not exchangeable; token V - 1 is never seen, some rows weigh nothing."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(vocabulary - 1, p=rng.dirichlet(np.ones(vocabulary - 1)), size=sequences) for _ in range(length)]
    weights = rng.gamma(0.5, size=sequences) * (rng.random(sequences) < 0.8)
    weights[0] = 1.0
    tokens = np.stack(columns, axis=1)
    return SequenceLaw(tokens, rng.integers(0, labels, sequences), vocabulary=vocabulary, label_count=labels, weights=weights)


def slow_signature(law, order, *, labeled):
    """P(y, x_J1.. | x_I = a), every sequence, position and tuple of other positions in turn."""
    joint = np.zeros((law.vocabulary, law.labels_known, *[law.vocabulary] * order))
    single = np.zeros(law.vocabulary)
    total = math.fsum(law.weights)
    for tokens, label, weight in zip(law.tokens.tolist(), law.labels.tolist(), law.weights.tolist(), strict=True):
        for i in range(law.length):
            chance = weight / total / law.length
            single[tokens[i]] += chance
            tuples = list(itertools.permutations([j for j in range(law.length) if j != i], order))
            for places in tuples:
                joint[(tokens[i], label, *[tokens[j] for j in places])] += chance / len(tuples)
    found = np.zeros_like(joint)
    for a in range(law.vocabulary):
        if single[a] > 0.0:
            found[a] = joint[a] / single[a]
    return found if labeled else found.sum(axis=1)


def additive(modulus, *, length=2, vocabulary=None):
    """All sequences of numbers, y = (x_1 + .. + x_L + 1) mod N, uniform."""
    tokens = np.array(list(itertools.product(range(modulus), repeat=length)))
    return SequenceLaw(tokens, (tokens.sum(axis=1) + 1) % modulus, vocabulary=vocabulary or modulus)


def a_stream(seed, *, documents=6, longest=9, vocabulary=5):
    """Documents of 1 to `longest` tokens, the longest among them, without token V - 1; also as lists."""
    rng = np.random.default_rng(seed)
    lengths = [longest, *rng.integers(1, longest + 1, documents - 1).tolist()]
    texts = [rng.integers(0, vocabulary - 1, size).tolist() for size in lengths]
    starts = np.cumsum([0, *lengths[:-1]])
    return TokenStream(np.array(sum(texts, [])), vocabulary=vocabulary, starts=starts), texts
