"""Random laws of labelled sequences that are not exchangeable, and their signatures by the loop of the definition."""

import itertools

import numpy as np


def random_law(rng, *, vocabulary, labels, length, sequences=12):
    """Tokens (N, L), labels (N,), probabilities (N,): earlier positions hold other tokens than later ones, the last id never occurs."""
    places = rng.dirichlet(np.full(vocabulary - 1, 0.5), size=length)
    tokens = np.stack([rng.choice(vocabulary - 1, size=sequences, p=row) for row in places], axis=1)
    return tokens, rng.integers(labels, size=sequences), rng.dirichlet(np.ones(sequences))


def frequencies(tokens, weights, vocabulary):
    found = np.zeros(vocabulary)
    np.add.at(found, tokens, np.repeat(weights[:, None], tokens.shape[1], axis=1) / tokens.shape[1])
    return found


def label_signature(tokens, labels, weights, *, order, vocabulary, outputs):
    """phi_a^{y;m} (V, Y, V, .., V), one sequence, position and ordered tuple of other positions at a time."""
    found = np.zeros((vocabulary, outputs) + (vocabulary,) * order)
    for row, label, weight in zip(tokens, labels, weights, strict=True):
        for place in range(len(row)):
            others = [other for other in range(len(row)) if other != place]
            tuples = list(itertools.permutations(others, order))
            for chosen in tuples:
                found[(row[place], label, *row[list(chosen)])] += weight / len(row) / len(tuples)
    sums = found.reshape(vocabulary, -1).sum(axis=1).reshape((-1,) + (1,) * (order + 1))
    return np.divide(found, sums, out=np.zeros_like(found), where=sums > 0.0)


def additions(tokens, *, modulus=None):
    """All pairs of tokens with their sum, or with (sum + 1) mod a modulus, as labels."""
    pairs = np.array(list(itertools.product(range(tokens), repeat=2)))
    sums = pairs.sum(axis=1)
    return pairs, sums if modulus is None else (sums + 1) % modulus
