"""The task y = x_1 + x_2 + c mod p: its signatures, embeddings on circles, and the task learned by a small network in numpy."""

import numpy as np


def cyclic_signature(p, *, vocabulary=None, shift=1):
    """phi_a^{y;1}(v, b) = 1 / p where v = a + b + shift mod p: (p, V, V)."""
    size = vocabulary or p
    signature = np.zeros((p, size, size))
    for a in range(p):
        for b in range(p):
            signature[a, (a + b + shift) % p, b] = 1.0 / p
    return signature


def circle_rows(p, frequency, *, noise=0.0, seed=0):
    angles = 2.0 * np.pi * frequency * np.arange(p) / p
    rows = np.column_stack([np.cos(angles), np.sin(angles)] + [np.zeros(p)] * 6)
    return rows + noise * np.random.default_rng(seed).normal(size=rows.shape)


def random_rows(p, *, width=16, seed=0):
    return np.random.default_rng(seed).normal(size=(p, width))


def rotation(width, *, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def trained(seed, *, modulus=20, vocabulary=81, width=128, epochs=600, every=20):
    """Full-batch gradient descent on f = U relu(e_1 + e_2), entries N(0, width^-1.6), rate 1: steps, accuracies, embeddings."""
    rng = np.random.default_rng(seed)
    table, heads = width**-0.8 * rng.normal(size=(2, vocabulary, width))
    first, second = (side.ravel() for side in np.indices((modulus, modulus)))
    labels, rows = (first + second + 1) % modulus, np.arange(first.size)
    steps, accuracy, tables = [], [], []
    for step in range(epochs + 1):
        inner = table[first] + table[second]
        hidden = np.maximum(inner, 0.0)
        scores = hidden @ heads.T
        if step % every == 0:
            steps.append(step)
            accuracy.append(float((scores.argmax(axis=1) == labels).mean()))
            tables.append(table[:modulus].copy())
        slope = np.exp(scores - scores.max(axis=1, keepdims=True))
        slope /= slope.sum(axis=1, keepdims=True)
        slope[rows, labels] -= 1.0
        slope /= first.size
        back = (slope @ heads) * (inner > 0.0)
        heads = heads - slope.T @ hidden
        for side in (first, second):
            np.subtract.at(table, side, back)
    return np.array(steps), np.array(accuracy), tables
