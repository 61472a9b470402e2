"""Whether checkpoints of one training stand in their order: what the distances between their tables say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int

# Two neighbors stand in the wrong order where the other one makes the way through them and their neighbors that much shorter. On a
# straight line it becomes 3/5 of what it was, on a random walk .78.
_SHORTER = 0.9
# One is out of place where the way through it is that many times the way past it. Between equally far tables, as those around an optimum
# are, it is twice, and on a random walk 1.4 times.
_DETOUR = 3.0
# A break is a step so many times faster than both beside it.
_BREAK = 10.0
_GAP = 1.9


@dataclass(frozen=True)
class SeriesFindings:
    """Places in a series of T tables, from 0 on.

    Args:
        swapped: (a, b), neighbors in the wrong order.
        outliers: tables that do not lie between their neighbors.
        breaks: (a, b), neighbors far apart beside the steps before and after.
    """

    swapped: tuple[tuple[int, int], ...]
    outliers: tuple[int, ...]
    breaks: tuple[tuple[int, int], ...]


def find_disorder(steps: Int[np.ndarray, " T"], neighbors: Float[np.ndarray, " _"], over_one: Float[np.ndarray, " _"]) -> SeriesFindings:
    """Tell from distances which tables of a series are not where their steps say.

    Equation: with d the distance, tables i and i + 1 are swapped where d(i-1, i+1) + d(i, i+1) + d(i, i+2) is below .9 of
    d(i-1, i) + d(i, i+1) + d(i+1, i+2), at an end without the missing part; i is an outlier where d(i-1, i) + d(i, i+1) is above
    3 d(i-1, i+1); a break is a d(i, i+1) per step above 10 times those before and after it.

    Args:
        steps: (T,) ascending.
        neighbors: (T - 1,) distances of each table to the next.
        over_one: (T - 2,) to the one after it.

    Raises:
        InputError: lengths that do not fit, steps that do not ascend, a distance that is negative or not finite.

    Example:
        >>> place = np.array([0.0, 2.0, 1.0, 3.0, 4.0])
        >>> found = find_disorder(np.arange(5), np.abs(np.diff(place)), np.abs(place[2:] - place[:-2]))
        >>> found.swapped, found.outliers, found.breaks
        (((1, 2),), (), ())
    """
    count = steps.size
    if neighbors.size != max(0, count - 1) or over_one.size != max(0, count - 2):
        raise InputError(f"{count} steps have {neighbors.size} and {over_one.size} distances; expected {count - 1} and {count - 2}")
    if (np.diff(steps) <= 0).any():
        raise InputError("steps do not ascend; expected each once, in order")
    if not all(np.isfinite(each).all() and (each >= 0.0).all() for each in (neighbors, over_one)):
        raise InputError("a distance is negative or not finite; expected those of finite tables")
    swapped = _swapped(neighbors, over_one)
    inside = {place for pair in swapped for place in pair}
    through = neighbors[:-1] + neighbors[1:]
    outliers = [at + 1 for at in range(over_one.size) if through[at] > _DETOUR * over_one[at] and at + 1 not in inside]
    speed = neighbors / np.diff(steps)
    breaks = [(at, at + 1) for at in range(1, speed.size - 1) if speed[at] > _BREAK * max(speed[at - 1], speed[at + 1])]
    return SeriesFindings(swapped, tuple(outliers), tuple(breaks))


def _swapped(neighbors: np.ndarray, over_one: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Pairs whose exchange shortens the way, the one that shortens it most first where two share a table."""
    if not over_one.size:
        return ()
    own = np.concatenate([[0.0], neighbors[:-1]]) + np.concatenate([neighbors[1:], [0.0]])
    other = np.concatenate([[0.0], over_one]) + np.concatenate([over_one, [0.0]])
    way = neighbors + own
    ratio = np.divide(neighbors + other, way, out=np.ones_like(way), where=way > 0.0)
    taken: set[int] = set()
    found = []
    for at in np.argsort(ratio, kind="stable").tolist():
        if ratio[at] < _SHORTER and not {at, at + 1} & taken:
            taken |= {at, at + 1}
            found.append((at, at + 1))
    return tuple(sorted(found))


def find_gaps(steps: Int[np.ndarray, " T"]) -> tuple[tuple[int, int], ...]:
    """Return pairs of neighboring steps between which others are missing, by the distances of steps beside them.

    A distance is a gap where it is 1.9 times both beside it or more, at the end of the series the two before it, which are equal.
    Distances that grow, as those of steps 1, 2, 4, 8, are none.

    Example:
        >>> find_gaps(np.array([100, 200, 300, 500, 600])), find_gaps(np.array([1, 2, 4, 8, 16, 32]))
        (((300, 500),), ())
    """
    apart = np.diff(steps)
    found = []
    for at in range(1, apart.size):
        last = at == apart.size - 1
        if last and (at < 2 or apart[at - 1] != apart[at - 2]):
            continue
        beside = apart[at - 1] if last else max(apart[at - 1], apart[at + 1])
        if apart[at] >= _GAP * beside:
            found.append((int(steps[at]), int(steps[at + 1])))
    return tuple(found)
