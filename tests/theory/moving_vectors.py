"""Vectors that really move under SGD with noise gradients: the slow loop behind the tests of the laws."""

import numpy as np


def tangential_noise(rng, u, second_moment):
    """Gaussian noise orthogonal to each row, of the given mean square."""
    unit = u / np.linalg.norm(u, axis=1, keepdims=True)
    x = rng.normal(size=u.shape) * np.sqrt(np.broadcast_to(second_moment, u.shape[0]) / (u.shape[1] - 1))[:, None]
    return x - (x * unit).sum(axis=1, keepdims=True) * unit


def moved_norms(*, items, width, steps, second_moment, eta, rate=1.0, decay=0.0, lazy=False, b=0.0, coupled=False, keep=1, seed=0):
    """Vectors under SGD with noise gradients, step by step from its definition; the norms averaged over the last `keep` steps."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(items, width))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    buffer, total = np.zeros_like(u), np.zeros(items)
    for t in range(steps):
        visited = (rng.random(items) < rate)[:, None]
        gradient = visited * tangential_noise(rng, u, second_moment) / np.linalg.norm(u, axis=1, keepdims=True)
        shrink = decay * visited if lazy else decay
        buffer = b * buffer + gradient + (shrink * u if coupled else 0.0)
        u = u - eta * buffer - (0.0 if coupled else eta * shrink * u)
        if t >= steps - keep:
            total += np.linalg.norm(u, axis=1)
    return total / keep
