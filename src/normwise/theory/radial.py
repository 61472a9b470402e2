"""Is the norm a function of the direction? Held-out tests from the strongest closed form to the weakest regression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.linear_model import RidgeCV

from normwise.core.shapes import Float, Int
from normwise.theory.neighbors import nearest_directions

NEIGHBORS = 10
TESTS: tuple[str, ...] = ("e3_affine", "e3_ellipsoid", "e3_knn", "e3_ridge")
_TRAIN_SHARE = 0.8
_ROWS_PER_DIMENSION = 4
_RIDGE_ALPHAS = np.logspace(-3.0, 3.0, 7)


def radial_tests(directions: Float[np.ndarray, "N D"], norms: Float[np.ndarray, " N"], *, seed: int) -> dict[str, float]:
    """Return held-out R2 of predicting norms from directions by four tests, and what they leave free.

    Equations, with hat u the direction, r the norm, fitted on 80% of the rows and judged on the rest:

        e3_affine     1/r = a + b . hat u              exact for LayerNorm with bias, then CLS or mean pooling
        e3_ellipsoid  1/r^2 = sum_i w_i hat u_i^2      exact for RMSNorm, then one token
        e3_knn        log r = mean over the 10 nearest directions (cosine)
        e3_ridge      log r = ridge on [hat u, hat u^2], standardized, its strength chosen on the training rows
        radial_freedom = 1 - max(0, best of these R2)
        R2 = 1 - sum (y - prediction)^2 / sum (y - mean of held-out y)^2, of the left-hand side y of each test

    Args:
        directions: (N, D) unit vectors (float64), without copies: one in the fit would give away its twin held out.
        norms: (N,) positive norms, not all equal.
        seed: of the split.

    Returns:
        The five figures; NaN where undefined. The two closed forms need 4 D training rows; below that they are NaN and
        `radial_freedom` rests on the weak tests only, so it is an upper bound.

    Reference: the double ellipsoid of Levi and Gilboa (2411.14517); the plane after mean pooling is our derivation.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(200, 3)); z[:, 2] = 1.0
        >>> r = np.linalg.norm(z, axis=1)
        >>> round(radial_tests(z / r[:, None], r, seed=0)["radial_freedom"], 6)
        0.0
    """
    count, width = directions.shape
    undefined: dict[str, float] = dict.fromkeys((*TESTS, "radial_freedom"), float("nan"))
    train_count = int(_TRAIN_SHARE * count)
    if train_count <= NEIGHBORS or count - train_count < 2:
        return undefined
    order = np.random.default_rng(seed).permutation(count)
    train, held = order[:train_count], order[train_count:]
    log_norms = np.log(norms)
    values = undefined | {
        "e3_knn": r_squared(log_norms[held], _knn(directions, log_norms, train, held)),
        "e3_ridge": r_squared(log_norms[held], _ridge(directions, log_norms, train, held)),
    }
    if train_count >= _ROWS_PER_DIMENSION * width:
        scale = np.exp(log_norms.mean())
        affine = np.column_stack([np.ones(count), directions])
        values["e3_affine"] = _least_squares(affine, scale / norms, train, held)
        values["e3_ellipsoid"] = _least_squares(directions**2, (scale / norms) ** 2, train, held)
    found = [values[name] for name in TESTS if not np.isnan(values[name])]
    return values | {"radial_freedom": 1.0 - max(0.0, *found) if found else float("nan")}


def deciding_test(figures: Mapping[str, float | None]) -> str | None:
    """Return the test of highest held-out R2, which decided `radial_freedom`; None where none is defined.

    Example:
        >>> deciding_test({"e3_knn": 0.2, "e3_affine": 0.9, "e3_ridge": None})
        'e3_affine'
    """
    defined = {name: value for name in TESTS if (value := figures.get(name)) is not None and not np.isnan(value)}
    return max(defined, key=defined.__getitem__) if defined else None


def r_squared(truth: Float[np.ndarray, " N"], predicted: Float[np.ndarray, " N"]) -> float:
    """Return the share of variance explained; NaN where the truth does not vary.

    Equation: 1 - sum (y_i - p_i)^2 / sum (y_i - mean y)^2; below 0 where the mean predicts better.

    Example:
        >>> r_squared(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))
        0.5
    """
    spread = float(((truth - truth.mean()) ** 2).sum())
    return 1.0 - float(((truth - predicted) ** 2).sum()) / spread if spread > 0.0 else float("nan")


def _knn(directions: np.ndarray, target: np.ndarray, train: Int[np.ndarray, " M"], held: Int[np.ndarray, " M2"]) -> np.ndarray:
    near = nearest_directions(directions[held], directions[train], k=NEIGHBORS)
    return target[train][near].mean(axis=1)


def _ridge(directions: np.ndarray, target: np.ndarray, train: Int[np.ndarray, " M"], held: Int[np.ndarray, " M2"]) -> np.ndarray:
    features = np.column_stack([directions, directions**2])
    mean, spread = features[train].mean(axis=0), features[train].std(axis=0)
    features = (features - mean) / np.where(spread > 0.0, spread, 1.0)
    return RidgeCV(alphas=_RIDGE_ALPHAS).fit(features[train], target[train]).predict(features[held])


def _least_squares(features: np.ndarray, target: np.ndarray, train: Int[np.ndarray, " M"], held: Int[np.ndarray, " M2"]) -> float:
    # Columns of tiny gain carry the closed form in tiny values: bring all to one scale before the rank is judged.
    spread = np.sqrt((features[train] ** 2).mean(axis=0))
    scaled = features / np.where(spread > 0.0, spread, 1.0)
    weights = np.linalg.lstsq(scaled[train], target[train], rcond=None)[0]
    return r_squared(target[held], scaled[held] @ weights)
