"""The modality gap: how far the vectors of two modalities lie apart, in direction and in norm, and what chance alone gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.modality_records import ModalityGap
from normwise.core.records import Interval
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.bootstrap import cluster_mean_interval
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.folds import cluster_folds
from normwise.theory.set_intervals import auc_interval, mean_difference_interval

RELABELINGS, FOLDS = 199, 5


@dataclass(frozen=True)
class TwoModalities:
    """Raw vectors of two modalities with the units that are drawn together.

    Args:
        x: (N, D) of the first, none of them zero.
        y: (M, D) of the second.
        clusters: (N + M,) the unit of each row, those of `x` first; a caption and its picture share one. None: each row its own.
        pairs: (P, 2) rows of `x` and of `y` that belong together.

    Raises:
        InputError: widths or lengths differ, fewer than two rows or units, or a zero or non-finite vector.
    """

    x: np.ndarray
    y: np.ndarray
    clusters: np.ndarray | None = None
    pairs: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or self.y.ndim != 2 or self.x.shape[1] != self.y.shape[1]:
            raise InputError(f"the two sets have shapes {self.x.shape} and {self.y.shape}: expected vectors of one width")
        if min(len(self.x), len(self.y)) < 2:
            raise InputError(f"the two sets have {len(self.x)} and {len(self.y)} vectors: expected at least two of each")
        for name, vectors in (("first", self.x), ("second", self.y)):
            zero = np.flatnonzero(exact_norms(vectors, name=name) == 0.0)
            if zero.size:
                raise InputError(f"{name}: row {zero[0]} is zero and has no direction: leave zero vectors out")
        rows = len(self.x) + len(self.y)
        if self.clusters is not None and self.clusters.shape != (rows,):
            raise InputError(f"clusters have shape {self.clusters.shape}: expected ({rows},), one for each row of both sets")
        if self.clusters is not None and np.unique(self.clusters).size < 2:
            raise InputError("clusters: all rows are of one: expected at least two that can be drawn apart")
        if self.pairs is not None and (self.pairs.ndim != 2 or self.pairs.shape[1] != 2 or not len(self.pairs)):
            raise InputError(f"pairs have shape {self.pairs.shape}: expected (P, 2), a row of the first and one of the second")
        if self.pairs is not None and (self.pairs.min() < 0 or np.any(self.pairs.max(axis=0) >= (len(self.x), len(self.y)))):
            raise InputError(f"pairs name rows outside 0..{len(self.x) - 1} of the first or 0..{len(self.y) - 1} of the second")

    @property
    def units(self) -> Int[np.ndarray, " N"]:
        """The unit of every row, those of `x` first."""
        return np.arange(len(self.x) + len(self.y)) if self.clusters is None else self.clusters

    @property
    def is_first(self) -> Bool[np.ndarray, " N"]:
        """Which rows are of the first set."""
        return np.arange(len(self.x) + len(self.y)) < len(self.x)


def centroid_distance(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "M D"]) -> float:
    """Return ||mean x - mean y||. Of unit vectors this is the modality gap: 0 where the means are equal, 2 at most.

    Reference: Liang et al. 2022, "Mind the gap", arXiv 2203.02053.

    Example:
        >>> centroid_distance(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) ** 2
        2.0000000000000004
    """
    return float(np.linalg.norm(x.mean(axis=0) - y.mean(axis=0)))


def mean_cosines(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "M D"]) -> tuple[float, float, float]:
    """Return the mean inner product within x, within y (a vector with itself left out) and across.

    Equation: within = (||sum x||^2 - sum ||x||^2) / (N (N - 1)), cross = <mean x, mean y>; for unit vectors these are cosines, and
    within_x + within_y - 2 cross is unbiased for the squared gap.

    Example:
        >>> mean_cosines(np.eye(2), np.eye(2))
        (0.0, 0.0, 0.5)
    """
    return _within(x), _within(y), float(x.mean(axis=0) @ y.mean(axis=0))


def explained_share(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "M D"]) -> float:
    """Return the share of the spread of unit vectors that their modality explains, both modalities weighed alike.

    Equation: (gap^2 / 4) / (1 - ||(mean x + mean y) / 2||^2): 0 without a gap, 1 where each modality is one direction (and 0 where
    all vectors are one).

    Example:
        >>> explained_share(np.array([[1.0, 0.0]] * 2), np.array([[0.0, 1.0]] * 2)), explained_share(np.eye(2), np.eye(2))
        (1.0, 0.0)
    """
    center = (x.mean(axis=0) + y.mean(axis=0)) / 2.0
    total = 1.0 - float(center @ center)
    return 0.0 if total <= 1e-12 else float(np.clip(centroid_distance(x, y) ** 2 / 4.0 / total, 0.0, 1.0))


def length_and_angle(a: Float[np.ndarray, " D"], b: Float[np.ndarray, " D"]) -> tuple[float, float]:
    """Return the two parts of ||a - b||^2: what the lengths differ by, and what the angle does.

    Equation: ||a - b||^2 = (||a|| - ||b||)^2 + 2 ||a|| ||b|| (1 - cos(a, b)), both >= 0.

    Example:
        >>> length_and_angle(np.array([3.0, 0.0]), np.array([0.0, 1.0]))
        (4.0, 6.0)
    """
    first, second = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    return (first - second) ** 2, max(0.0, 2.0 * (first * second - float(a @ b)))


def relabelings(clusters: Int[np.ndarray, " N"], is_first: Bool[np.ndarray, " N"], *, seed: int, draws: int) -> Bool[np.ndarray, "R N"]:
    """Return which rows are of the first set when labels are dealt anew, as often as if modality meant nothing.

    A unit with rows of both sets swaps them with probability 1/2; units of one set only have their labels shuffled among each
    other. Without shared units this is the permutation test, with pairs alone the swap test.

    Args:
        clusters: (N,) the unit of each row.
        is_first: (N,) the true labels.
        seed: of the draws.
        draws: R.

    Example:
        >>> relabelings(np.array([0, 0]), np.array([True, False]), seed=0, draws=50).sum(axis=1).tolist() == [1] * 50
        True
    """
    _, unit = np.unique(clusters, return_inverse=True)
    firsts, rows = np.bincount(unit, weights=is_first), np.bincount(unit)
    both = (firsts > 0) & (firsts < rows)
    alone = np.flatnonzero(~both)
    labels = firsts[alone] > 0
    rng = np.random.default_rng(seed)
    result = np.empty((draws, is_first.size), dtype=bool)
    for draw in range(draws):
        flips = (rng.random(rows.size) < 0.5) & both
        dealt = np.zeros(rows.size, dtype=bool)
        dealt[alone] = rng.permutation(labels)
        result[draw] = np.where(both[unit], is_first ^ flips[unit], dealt[unit])
    return result


def comparable_rows(clusters: Int[np.ndarray, " N"], is_first: Bool[np.ndarray, " _"]) -> Bool[np.ndarray, " N"]:
    """Return the rows that a relabeling can compare: all, or those of units with both sets where all other units are of one set.

    Example:
        >>> comparable_rows(np.array([0, 0, 1, 1, 2]), np.array([True, False, True, False, False])).tolist()
        [True, True, True, True, False]
    """
    _, unit = np.unique(clusters, return_inverse=True)
    firsts, rows = np.bincount(unit, weights=is_first), np.bincount(unit)
    both = (firsts > 0) & (firsts < rows)
    alone = firsts[~both] > 0
    return both[unit] if both.sum() > 1 and alone.size and (alone.all() or not alone.any()) else np.ones(is_first.size, dtype=bool)


def relabeled_gaps(
    unit: Float[np.ndarray, "N D"], clusters: Int[np.ndarray, " N"], is_first: Bool[np.ndarray, " N"], *, seed: int
) -> tuple[float, Float[np.ndarray, " R"]]:
    """Return the gap of unit vectors and those of 199 relabelings (see `relabelings`)."""
    labels = np.vstack([is_first, relabelings(clusters, is_first, seed=seed, draws=RELABELINGS)]).astype(np.float64)
    means = labels @ unit / labels.sum(axis=1, keepdims=True) - (1.0 - labels) @ unit / (1.0 - labels).sum(axis=1, keepdims=True)
    lengths = np.linalg.norm(means, axis=1)
    return float(lengths[0]), lengths[1:]


def separating_scores(given: TwoModalities, *, seed: int, folds: int = FOLDS) -> Float[np.ndarray, " N"]:
    """Return where each row lies along the gap that the other folds show: (hat x - midpoint) . (unit difference of the means).

    No unit is in two folds, so a score owes nothing to its own row. Without a gap scores of both sets are alike.

    Args:
        given: the vectors.
        seed: of the folds.
        folds: how many, where there are as many units.

    Returns:
        (N + M,) scores, those of the first set first.
    """
    unit, labels = _unit_rows(given), given.is_first
    fold = cluster_folds(given.units, folds=folds, seed=seed)
    scores = np.zeros(labels.size)
    for number in range(int(fold.max()) + 1):
        known, held = fold != number, fold == number
        if not labels[known].any() or labels[known].all():
            continue
        first, second = unit[known & labels].mean(axis=0), unit[known & ~labels].mean(axis=0)
        length = float(np.linalg.norm(first - second))
        if length > 0.0:
            scores[held] = (unit[held] - (first + second) / 2.0) @ ((first - second) / length)
    return scores


def matched_minus_random(given: TwoModalities, *, seed: int) -> tuple[float, float, Interval] | None:
    """Return the mean cosine of pairs that belong together, that of pairs that do not, and the difference with its interval.

    A random pair is made of the first of one pair and the second of another, of another unit. The interval draws units.

    Returns:
        None without pairs, or where all are of one unit.
    """
    if given.pairs is None:
        return None
    left, right = given.pairs[:, 0], len(given.x) + given.pairs[:, 1]
    unit = _unit_rows(given)
    _, group = np.unique(given.units[left], return_inverse=True)
    if group.max() == 0:
        return None
    a, b = unit[left], unit[right]
    matched = np.einsum("pd,pd->p", a, b)
    others = len(a) - np.bincount(group)[group]
    sums = [np.stack([np.bincount(group, weights=column) for column in side.T], axis=1)[group] for side in (a, b)]
    random = (np.einsum("pd,pd->p", a, b.sum(axis=0) - sums[1]) + np.einsum("pd,pd->p", b, a.sum(axis=0) - sums[0])) / (2.0 * others)
    return float(matched.mean()), float(random.mean()), cluster_mean_interval(matched - random, group, seed=seed)


def modality_gap(given: TwoModalities, *, seed: int) -> ModalityGap:
    """Measure the gap between two modalities: see `ModalityGap` for each figure and what it is without a gap.

    Where some units have rows of both sets, and all others are of one set, only the former are relabeled and compared: the others
    have nothing to swap with, and may lie elsewhere for what they are of, not for their modality.

    Args:
        given: the vectors, with units and pairs where they are known.
        seed: of relabelings, folds and the bootstrap.

    Reference: the gap is that of Liang et al. 2022 (arXiv 2203.02053), means of unit vectors; relabeling by units, the held-out
    gap and the parts of the raw gap are ours.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 8)), rng.normal(size=(60, 8)) + 3.0
        >>> found = modality_gap(TwoModalities(x, y), seed=0)
        >>> found.p_value, found.direction_auc.mean > 0.95
        (0.005, True)
    """
    labels, units = given.is_first, given.units
    unit = _unit_rows(given)
    x, y = unit[labels], unit[~labels]
    gap = centroid_distance(x, y)
    tested = comparable_rows(units, labels)
    found, chance = relabeled_gaps(unit[tested], units[tested], labels[tested], seed=seed)
    within_x, within_y, cross = mean_cosines(x, y)
    scores = separating_scores(given, seed=seed)
    logs = np.log(np.concatenate([exact_norms(given.x, name="first"), exact_norms(given.y, name="second")]))
    centers = given.x.astype(np.float64).mean(axis=0), given.y.astype(np.float64).mean(axis=0)
    length, angle = length_and_angle(*centers)
    matched = matched_minus_random(given, seed=seed)
    return ModalityGap(
        first_rows=len(x),
        second_rows=len(y),
        gap=gap,
        gap_by_chance=float(chance.mean()),
        # A relabeling that swaps all is the sample itself: rounding must not make it smaller.
        p_value=float(1 + (chance >= found * (1.0 - 1e-9)).sum()) / (1 + RELABELINGS),
        relabelings=RELABELINGS,
        tested_rows=int(tested.sum()),
        held_out=mean_difference_interval(scores, labels, units, seed=seed),
        squared_gap=within_x + within_y - 2.0 * cross,
        variance_share=explained_share(x, y),
        within_first=within_x,
        within_second=within_y,
        cross=cross,
        direction_auc=auc_interval(scores, labels, units, seed=seed),
        norm_auc=auc_interval(logs, labels, units, seed=seed),
        log_norm_first=float(logs[labels].mean()),
        log_norm_second=float(logs[~labels].mean()),
        log_norm_difference=mean_difference_interval(logs, labels, units, seed=seed),
        raw_gap=float(np.linalg.norm(centers[0] - centers[1])),
        raw_gap_norm_share=length / (length + angle) if length + angle > 0.0 else None,
        pairs=0 if given.pairs is None else len(given.pairs),
        matched_cosine=matched[0] if matched else None,
        random_cosine=matched[1] if matched else None,
        matched=matched[2] if matched else None,
    )


def _within(x: np.ndarray) -> float:
    rows = len(x)
    total = x.sum(axis=0)
    return float((total @ total - (x**2).sum()) / (rows * (rows - 1)))


def _unit_rows(given: TwoModalities) -> np.ndarray:
    return np.concatenate([normalize(given.x.astype(np.float64)), normalize(given.y.astype(np.float64))])
