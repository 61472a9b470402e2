"""Maps of tokens at chosen checkpoints: the first two principal components of their embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normwise.core.errors import InputError
from normwise.core.staircase_records import TokenMap

# Entries that differ by less are equally large, whatever rounding made of them.
_EQUAL = 1e-9


def token_maps(steps: np.ndarray, embedding: np.ndarray, names: Sequence[str], places: Sequence[int]) -> tuple[TokenMap, ...]:
    """Return the tokens' principal components at some checkpoints, each step with components of its own.

    Equation: X - mean = U S V^T; points are the first two columns of U S, shares s_i^2 / sum_j s_j^2. The sign of a column is that which
    makes its largest entry in absolute value positive, the first of equally large ones.

    Args:
        steps: (T,) of the checkpoints.
        embedding: (T, A, D) finite copies of the rows of A >= 1 tokens.
        names: (A,) of the tokens.
        places: of the checkpoints to draw, 0..T-1.

    Returns:
        One map a place, in their order. Rows that are all equal have all points at 0 and shares of 0, and so has a component that the rows
        do not reach. Where two components have equal shares their rotation is arbitrary.

    Raises:
        InputError: shapes that do not fit, no token, a place that is none, an entry that is not finite.

    Example:
        >>> rows = np.array([[[3.0, 0.0], [1.0, 0.0], [-4.0, 0.0]]])
        >>> found, = token_maps(np.array([7]), rows, ["a", "b", "c"], [0])
        >>> found.step, [round(x, 6) for x, _ in found.points], [round(share, 6) for share in found.shares]
        (7, [-3.0, -1.0, 4.0], [1.0, 0.0])
    """
    if embedding.ndim != 3 or embedding.shape[0] != len(steps) or not embedding.shape[1] == len(names) > 0 or not embedding.shape[2]:
        raise InputError(
            f"embedding has shape {embedding.shape}; expected (T, A, D) with T = {len(steps)} steps, A = {len(names)} names, both above 0, "
            "and D above 0"
        )
    wrong = [place for place in places if not 0 <= place < len(steps)]
    if wrong:
        raise InputError(f"places hold {wrong[0]}; expected places of checkpoints, 0 to {len(steps) - 1}")
    found = []
    for place in places:
        rows = embedding[place].astype(np.float64)
        if not np.isfinite(rows).all():
            raise InputError(f"embedding at step {int(steps[place])} holds an entry that is not finite; leave that checkpoint out")
        points, shares = two_components(rows)
        found.append(
            TokenMap(
                step=int(steps[place]),
                names=tuple(names),
                points=tuple((float(x), float(y)) for x, y in points),
                shares=(float(shares[0]), float(shares[1])),
            )
        )
    return tuple(found)


def two_components(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (A, 2) scores on the first two principal components of finite (A, D) rows, and their (2,) shares of the variance."""
    scale = float(np.abs(rows).max())
    scaled = rows / (scale or 1.0)
    centered = scaled - scaled.mean(axis=0)
    left, size, _ = np.linalg.svd(centered, full_matrices=False)
    # Below what rounding of the mean leaves there is no component.
    size = np.where(size > np.finfo(np.float64).eps * max(rows.shape) * 4.0, size, 0.0)
    points, shares = np.zeros((len(rows), 2)), np.zeros(2)
    for axis in range(min(2, int(np.count_nonzero(size)))):
        column = left[:, axis] * size[axis]
        largest = np.abs(column) >= np.abs(column).max() * (1.0 - _EQUAL)
        points[:, axis] = column * np.sign(column[int(np.argmax(largest))]) * scale
        shares[axis] = size[axis] ** 2 / (size**2).sum()
    shares[1] = min(shares[1], 1.0 - shares[0])
    return points + 0.0, shares
