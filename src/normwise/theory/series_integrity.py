"""Whether checkpoints of one training stand in their order: what the distances between their tables say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int

# Two tables are exchanged where the other order makes the way through them and their neighbors that much shorter. For two neighbors
# on a straight line it becomes 3/5 of what it was, on a random walk .78.
_SHORTER = 0.9
# An end has one neighbor, and noise around an optimum that ends in the optimum itself, since the learning rate fell to 0, looks like two
# exchanged tables of a random walk: (1 + 1) / (1 + 2^.5) = .83 for both. Only what is shorter than that is told from it, unless the three
# tables beside them move on: over one they are then 1.2 times as far apart as neighbors or more, and noise is as far (so much drift
# beside the noise brings the .83 to 1).
_SHORTER_AT_END = 0.8
_MOVES_ON = 1.2
# One is out of place where the way through it is that many times the way past it. Between equally far tables, as those around an optimum
# are, it is twice, and on a random walk 1.4 times. As many times the usual distance over one, too: in noise of few dimensions two
# tables are near each other by chance.
_DETOUR = 3.0
# A series has an order where its way is that much shorter than a way through the same tables at random: 4 tables of a random walk have
# .79, 10 have .55, and noise around an optimum has 1, of which chance takes some tenths where the noise has few dimensions.
_IN_ORDER = 0.8
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
        doubtful: (a, b), the first or the last two, whose order cannot be told: exchanged, or a learning rate that fell.
    """

    swapped: tuple[tuple[int, int], ...]
    outliers: tuple[int, ...]
    breaks: tuple[tuple[int, int], ...]
    doubtful: tuple[tuple[int, int], ...] = ()


def find_disorder(steps: Int[np.ndarray, " T"], neighbors: Float[np.ndarray, " _"], over_one: Float[np.ndarray, " _"]) -> SeriesFindings:
    """Tell from distances which tables of a series are not where their steps say.

    Equation: with d the distance, tables i and i + 1 are swapped where d(i-1, i+1) + d(i, i+1) + d(i, i+2) is below .9 of
    d(i-1, i) + d(i, i+1) + d(i+1, i+2), at an end without the missing part, and there only doubtful above .8 of it where
    d(j, j+2) is below 1.2 times the mean of d(j, j+1) and d(j+1, j+2) for the three tables beside; i is an outlier
    where d(i-1, i) + d(i, i+1) is above 3 d(i-1, i+1) and 3 times the median of these; a break is a d(i, i+1) per step above 10
    times those before and after it.

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
    swapped, doubtful = _swapped(neighbors, over_one)
    inside = {place for pair in swapped for place in pair}
    through = neighbors[:-1] + neighbors[1:]
    usual = float(np.median(over_one)) if over_one.size else 0.0
    outliers = [at + 1 for at in range(over_one.size) if through[at] > _DETOUR * max(over_one[at], usual) and at + 1 not in inside]
    speed = neighbors / np.diff(steps)
    breaks = [(at, at + 1) for at in range(1, speed.size - 1) if speed[at] > _BREAK * max(speed[at - 1], speed[at + 1])]
    return SeriesFindings(swapped, tuple(outliers), tuple(breaks), doubtful)


def _swapped(neighbors: np.ndarray, over_one: np.ndarray) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Pairs whose exchange shortens the way clearly, the one that shortens it most first where two share a table; and those in doubt."""
    if not over_one.size:
        return (), ()
    own = np.concatenate([[0.0], neighbors[:-1]]) + np.concatenate([neighbors[1:], [0.0]])
    other = np.concatenate([[0.0], over_one]) + np.concatenate([over_one, [0.0]])
    way = neighbors + own
    ratio = np.divide(neighbors + other, way, out=np.ones_like(way), where=way > 0.0)
    moves_on = _moving_on(neighbors, over_one)
    taken: set[int] = set()
    found, doubtful = [], []
    for at in np.argsort(ratio, kind="stable").tolist():
        if ratio[at] < _SHORTER and not {at, at + 1} & taken:
            taken |= {at, at + 1}
            clear = ratio[at] < _limit(at, at + 1, moves_on)
            (found if clear else doubtful).append((at, at + 1))
    return tuple(sorted(found)), tuple(sorted(doubtful))


def _limit(first: int, second: int, moves_on: np.ndarray) -> float:
    """How short the way must be after an exchange; moves_on (T - 2,) is that of three tables in a row, by the first of them."""
    count = moves_on.size + 2
    if first > 0 and second < count - 1:
        return _SHORTER
    beside = [at for at in range(moves_on.size) if not {at, at + 1, at + 2} & {first, second}]
    if not beside:
        return _SHORTER_AT_END
    ends = ([beside[0]] if first == 0 else []) + ([beside[-1]] if second == count - 1 else [])
    return _SHORTER if all(moves_on[at] for at in ends) else _SHORTER_AT_END


def _moving_on(neighbors: np.ndarray, over_one: np.ndarray) -> np.ndarray:
    return over_one >= _MOVES_ON * (neighbors[:-1] + neighbors[1:]) / 2.0


def find_exchanges(distances: Float[np.ndarray, "T T"]) -> tuple[tuple[int, int], ...]:
    """Tell which two tables of a series, neighbors or not, stand in each other's place.

    Equation: the sum of the distances of i and j to the tables before and after them is compared with what it is where the two are
    exchanged. Below .9 of it they look exchanged; below .8 where one of them is the first or last, and three in a row beside are less
    than 1.2 times as far apart over one as neighbors; not where one is then at an end, 3 times as far from the next as that from the one
    after it. The exchange that shortens most is made first, then others of tables not yet moved.
    Nothing is told of a series whose mean distance of neighbors, after the first exchange, is not below .8 of that of all pairs.

    Args:
        distances: (T, T) symmetric.

    Returns:
        Pairs of places, from 0 on.

    Raises:
        InputError: not square, or a distance that is negative or not finite.

    Example:
        >>> place = np.array([0.0, 5.0, 2.0, 3.0, 4.0, 1.0, 6.0])
        >>> find_exchanges(np.abs(place[:, None] - place))
        ((1, 5),)
    """
    count = len(distances)
    if distances.shape != (count, count) or not np.isfinite(distances).all() or (distances < 0.0).any():
        raise InputError(f"distances of shape {distances.shape} are not square, or one is negative or not finite")
    if count < 3:
        return ()
    moves_on = _moving_on(np.diagonal(distances, 1), np.diagonal(distances, 2))
    order, left = list(range(count)), set(range(count))
    found: list[tuple[int, int]] = []
    while True:
        ways = [(*_exchanged(distances, order, i, j), i, j) for i in sorted(left) for j in sorted(left) if i < j]
        ways = [each for each in ways if each[0] < _SHORTER and each[0] < _limit(each[2], each[3], moves_on)]
        if not ways:
            return tuple(sorted(found))
        # The most in length, not in proportion: a series with one pair exchanged is nearly a reversed one with others. Where both are the
        # same way, backward and forward, the two that are nearer to each other.
        most = max(saved for _, saved, _, _ in ways)
        _, i, j = min((j - i, i, j) for _, saved, i, j in ways if saved >= (1.0 - 1e-6) * most)
        order[i], order[j] = order[j], order[i]
        if not found and not _in_order(distances, order):
            return ()
        left -= {i, j}
        found.append((i, j))


def _in_order(distances: np.ndarray, order: list[int]) -> bool:
    usual = distances[np.triu_indices(len(order), 1)].mean()
    return bool(distances[order[:-1], order[1:]].mean() < _IN_ORDER * usual)


def _exchanged(distances: np.ndarray, order: list[int], i: int, j: int) -> tuple[float, float]:
    """The way through the places i and j and their neighbors after an exchange over that before, and what it saves.

    Where one of the two then ends the series, far from all others, 1 and 0.
    """
    changed = list(order)
    changed[i], changed[j] = changed[j], changed[i]
    links = sorted({k for at in (i, j) for k in (at - 1, at) if 0 <= k < len(order) - 1})
    before, after = (sum(float(distances[each[k], each[k + 1]]) for k in links) for each in (order, changed))
    # A table from elsewhere has one neighbor at an end, so that the way is shorter: it would be as far from that one.
    ends = ([changed[:3]] if i == 0 else []) + ([changed[:-4:-1]] if j == len(order) - 1 else [])
    if before == 0.0 or any(distances[end[0], end[1]] > _DETOUR * distances[end[1], end[2]] for end in ends):
        return 1.0, 0.0
    return after / before, before - after


@dataclass(frozen=True)
class SharedCoordinates:
    """Whether two tables have the same coordinates.

    Args:
        score: standard deviations above what random coordinates give; about standard normal where they are of two trainings.
        reach: the score that the smaller table would have if it were a part of the other; where it is low, nothing can be told.
    """

    score: float
    reach: float


def shared_coordinates(first: Float[np.ndarray, "V D"], second: Float[np.ndarray, "W E"]) -> SharedCoordinates:
    """Tell from two tables whether one may have come from the other by training.

    Nothing in a training prefers one of the D coordinates to another but the numbers it began with, so that those of another seed stand in
    an order of their own: its table with columns in any order is as likely.

    Equation: C = A_c^T B_c, with A_c and B_c less each row's mean; score = tr C / sqrt(sum C^2 / (D - 1)), the denominator being the
    exact standard deviation of sum_d C[d, p(d)] over all orders p of the columns; reach is the same with min(|A_c|^2, |B_c|^2) for tr C.

    Args:
        first: (V, D), D >= 2.
        second: (V, D) the same tokens.

    Raises:
        InputError: shapes that differ, fewer than 2 columns, a value that is not finite.

    Reference: the variance is that of Hoeffding (1951), "A combinatorial central limit theorem"; its use here is ours.

    Example:
        >>> random = np.random.default_rng(0)
        >>> table, other = random.normal(size=(2, 100, 20))
        >>> round(shared_coordinates(table, table + other).score), round(shared_coordinates(table, other).score)
        (16, -1)
    """
    if first.shape != second.shape or first.shape[1] < 2:
        raise InputError(f"tables have shapes {first.shape} and {second.shape}; expected one shape with at least 2 columns")
    a, b = (each.astype(np.float64) - each.mean(axis=1, keepdims=True, dtype=np.float64) for each in (first, second))
    # Only ratios count: no square leaves float64.
    sizes = [float(np.abs(each).max(initial=0.0)) for each in (a, b)]
    if not np.isfinite(sizes).all():
        raise InputError("a table holds a value that is not finite")
    if min(sizes) == 0.0:
        return SharedCoordinates(0.0, 0.0)
    a, b = a / sizes[0], b / sizes[1]
    cross = a.T @ b
    spread = float(np.sqrt((cross**2).sum() / (first.shape[1] - 1)))
    if spread == 0.0:
        return SharedCoordinates(0.0, 0.0)
    ratio = sizes[0] / sizes[1]
    reach = min(float((a**2).sum()) * ratio, float((b**2).sum()) / ratio) / spread
    return SharedCoordinates(float(np.trace(cross)) / spread, reach)


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
