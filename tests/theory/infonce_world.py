"""Queries on a circle, whose positives are turned by a von Mises angle: every expectation is a sum over the circle."""

import numpy as np
from scipy.special import ive


def circle(random, *, queries, pool, temperature, kappa=3.0, lean=0.0):
    """Vectors of queries / temperature, positives and pool, and the scores of the positives."""

    def drawn(count):
        return random.vonmises(0.0, lean, count) if lean else random.uniform(-np.pi, np.pi, count)

    def points(angles):
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    angle = drawn(queries)
    turned = angle + random.vonmises(0.0, kappa, queries)
    return points(angle) / temperature, points(turned), points(drawn(pool)), np.cos(angle - turned) / temperature


def circle_limit(*, temperature, kappa=3.0, lean=0.0):
    """H of that world."""
    grid = np.linspace(-np.pi, np.pi, 2000, endpoint=False)
    law = np.exp(lean * np.cos(grid))
    law /= law.sum()
    means = np.array([law @ np.exp(np.cos(grid - angle) / temperature) for angle in grid])
    return float(law @ np.log(means) - ive(1, kappa) / ive(0, kappa) / temperature)
