"""Which vectors are copies of another up to rounding or a little noise: they are no further evidence, and no held-out rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from normwise.core.shapes import Bool, Float
from normwise.theory.directions import exact_norms, row_chunks

# Rows that differ by less than this share of what separates two rows of the set are one row, stored twice: half precision,
# another batch size or another machine move a vector by less, and no two texts that differ in a word come as near.
NEAR = 0.01
# Distances of chance pairs, of which the upper quartile is taken: copies make some of them vanish, giants some others huge.
_PAIRS, _QUANTILE = 2_000, 0.75
# An orthonormal shadow in so few dimensions keeps near rows near, and nearly no others: candidates are then measured in full.
_SHADOW = 8
_LARGEST = 1e100


def first_of_kind(vectors: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Return which rows are no near copy of an earlier row that is kept.

    Equation: in order, a row i that is kept leaves out every later j with ||x_i - x_j|| <= 0.01 min(s, ||x_i||), s the upper
    quartile of the distances of chance pairs. No chains are made: whatever is left out lies that near to a kept row.
    Measured against s, since the rows of an untrained encoder all lie within some percent of each other and are no copies.

    Args:
        vectors: (N, D) raw vectors, finite.

    Returns:
        (N,) whether the row is kept.

    Raises:
        InputError: a value is not finite.

    Reference: ours; the shadow is a projection, which lengthens no distance, so no copy is missed.

    Example:
        >>> x = np.eye(4)
        >>> first_of_kind(np.concatenate([x, x + 1e-4])).tolist()
        [True, True, True, True, False, False, False, False]
    """
    count, width = vectors.shape
    kept = np.ones(count, dtype=bool)
    lengths = exact_norms(vectors, name="vectors")
    unit = float(np.median(lengths)) if count else 0.0
    if count < 2 or unit == 0.0:
        return kept
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(width, min(_SHADOW, width))))[0]
    shadow = np.empty((count, axes.shape[1]))
    for rows in row_chunks(count, width):
        shadow[rows] = _scaled(vectors[rows], unit) @ axes
    reach = NEAR * np.minimum(_usual_distance(vectors, unit, rng), lengths / unit)
    tree = KDTree(shadow)
    # Rounding of the shadow must not hide a copy.
    wide = reach * (1.0 + 1e-9) + 1e-12
    nearest = tree.query(shadow, k=2, distance_upper_bound=float(wide.max()))[0][:, 1]
    for row in np.flatnonzero(nearest <= wide):
        if not kept[row]:
            continue
        near = np.array(tree.query_ball_point(shadow[row], wide[row]), dtype=np.intp)
        near = near[(near > row) & kept[near]]
        apart = np.linalg.norm(_scaled(vectors[near], unit) - _scaled(vectors[row], unit), axis=1)
        kept[near[apart <= reach[row]]] = False
    return kept


def _usual_distance(vectors: np.ndarray, unit: float, rng: np.random.Generator) -> float:
    order = rng.permutation(vectors.shape[0])[: _PAIRS + 1]
    drawn = _scaled(vectors[order], unit)
    return float(np.quantile(np.linalg.norm(drawn[1:] - drawn[:-1], axis=1), _QUANTILE))


def _scaled(rows: np.ndarray, unit: float) -> np.ndarray:
    """Rows in units of the median norm; giants are cut where their squares would leave float64."""
    with np.errstate(over="ignore"):
        return np.clip(rows.astype(np.float64) / unit, -_LARGEST, _LARGEST)
