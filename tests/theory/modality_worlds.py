"""Test material: clouds of two modalities whose gap, shell, offset and tilt are known by construction."""

from __future__ import annotations

import numpy as np


def isotropic(rows: int, width: int, *, seed: int) -> np.ndarray:
    """A Gaussian around the origin: neither shifted nor tilted."""
    return np.random.default_rng(seed).normal(size=(rows, width))


def ellipsoid_shell(rows: int, width: int, *, seed: int, offset: float = 1.0, thickness: float = 0.05) -> np.ndarray:
    """A thin shell on a tilted ellipsoid, `offset` times its mean radius off the origin."""
    rng = np.random.default_rng(seed)
    sphere = rng.normal(size=(rows, width))
    sphere *= (1.0 + thickness * rng.normal(size=(rows, 1))) / np.linalg.norm(sphere, axis=1, keepdims=True)
    axes = np.exp(0.7 * rng.normal(size=width))
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    cloud = sphere * axes @ turn.T
    away = rng.normal(size=width)
    return cloud + offset * np.sqrt((cloud**2).sum(axis=1).mean()) * away / np.linalg.norm(away)
