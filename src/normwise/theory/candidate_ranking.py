"""Ranking inside given candidate sets: where the right answer stands, what ties are worth, and means over tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.shapes import Float, Int
from normwise.theory.directions import exact_norms, normalize

RANKINGS = ("cosine", "dot")
_BLOCK_VALUES = 1 << 21
_SMALLEST_NORM, _LARGEST_NORM = 1e-32, 1e36
_UNIT_ROUNDING = 2.0**-24


@dataclass(frozen=True)
class Places:
    """Where the right answer of each of B queries stands in its own set.

    Args:
        above: (B,) int64, how many candidates score higher.
        tied: (B,) int64, how many others score the same.
    """

    above: np.ndarray
    tied: np.ndarray

    def precision_at_1(self) -> Float[np.ndarray, " B"]:
        """Return the chance that the right answer comes first when ties are put in random order.

        Equation: P@1 = [above = 0] / (1 + tied).

        Example:
            >>> Places(np.array([0, 0, 2]), np.array([0, 3, 0])).precision_at_1().tolist()
            [1.0, 0.25, 0.0]
        """
        return np.where(self.above == 0, 1.0 / (1.0 + self.tied), 0.0)

    def reciprocal_rank(self) -> Float[np.ndarray, " B"]:
        """Return the mean of 1 / rank of the right answer over all orders of its ties, with no cut-off.

        Equation: MRR = (H(above + tied + 1) - H(above)) / (tied + 1), H(n) = 1 + 1/2 + ... + 1/n.

        Example:
            >>> Places(np.array([0, 1]), np.array([1, 0])).reciprocal_rank().tolist()
            [0.75, 0.5]
        """
        last = self.above + self.tied + 1
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(last.max(initial=1)) + 1))])
        # Without ties the difference of two sums would lose digits that 1 / rank has.
        return np.where(self.tied == 0, 1.0 / (self.above + 1.0), (harmonic[last] - harmonic[self.above]) / (self.tied + 1.0))


def answer_places(
    queries: Float[np.ndarray, "B D"], candidates: Float[np.ndarray, "N _"], sets: Sequence[Sequence[int]], answers: Int[np.ndarray, " _"]
) -> dict[str, Places]:
    """Return where each query's right answer stands among the candidates of its own set, by cosine and by dot product.

    Equation: `dot` ranks by hat q . c (a query's own norm never changes its order), `cosine` by hat q . hat c; a key is
    computed in float64 and rounded to float32, and **keys that are then equal are tied**, as in `exact_top_k`. There a tie
    goes to the lower row; here it is kept as a tie, since published sets name the right answer first and an encoder that
    gives all candidates one vector would otherwise be right everywhere. The order of a set means nothing.

    How: queries that share a set share one float32 product, others have their own; what lies within the worst rounding
    error of the right answer's key is scored again in float64, in a way that does not depend on its place. Memory is that
    of one set and of a block of scores, never B x N.

    Args:
        queries: (B, D) vectors.
        candidates: (N, D) vectors.
        sets: for each query distinct rows of `candidates`, its answer among them.
        answers: (B,) row of the right answer.

    Returns:
        The places for "cosine" and "dot". A zero vector scores 0.

    Raises:
        InputError: shapes or rows do not fit, a set repeats a row or lacks its answer, a value is NaN or infinite, or a
            norm leaves 1e-32..1e36.

    Example:
        >>> q, c = np.array([[1.0, 0.0]]), np.array([[0.9, 0.1], [3.0, 3.0], [0.1, 0.9]])
        >>> found = answer_places(q, c, [(0, 1, 2)], np.array([0]))
        >>> found["cosine"].above.tolist(), found["dot"].above.tolist()
        ([0], [1])
    """
    _check(queries, candidates, sets, answers)
    vectors = _Vectors.of(queries, candidates)
    above = {name: np.zeros(len(sets), dtype=np.int64) for name in RANKINGS}
    tied = {name: np.zeros(len(sets), dtype=np.int64) for name in RANKINGS}
    for rows, members in _groups(sets):
        shared = candidates[members].astype(np.float32, copy=False)
        step = max(1, _BLOCK_VALUES // members.size)
        for start in range(0, rows.size, step):
            block = rows[start : start + step]
            for name, (higher, equal) in vectors.compared(block, members, shared, answers[block]).items():
                above[name][block], tied[name][block] = higher, equal
    return {name: Places(above[name], tied[name]) for name in RANKINGS}


@dataclass(frozen=True)
class _Vectors:
    candidates: np.ndarray
    directions: np.ndarray
    norms: np.ndarray

    @classmethod
    def of(cls, queries: np.ndarray, candidates: np.ndarray) -> _Vectors:
        norms = _usable_norms(candidates, "candidates")
        _usable_norms(queries, "queries")
        return cls(candidates, normalize(queries.astype(np.float64)), norms)

    def compared(
        self, block: np.ndarray, members: np.ndarray, shared: np.ndarray, answers: np.ndarray
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """For queries that share a set: how many candidates lie above the answer and at it, per ranking."""
        products = self.directions[block].astype(np.float32) @ shared.T
        # Rounding of the vectors, of D products and sums, and of the key.
        slack = (self.directions.shape[1] + 32) * _UNIT_ROUNDING
        place = np.searchsorted(members, answers)
        own = self._keys(block, answers)
        gaps, unsure = {}, np.zeros(products.shape, dtype=bool)
        for name, scale in _scales(self.norms[members]).items():
            errors = slack * self.norms[members] * scale
            gaps[name] = products * scale - own[name][:, None]
            unsure |= np.abs(gaps[name]) <= errors + errors[place][:, None]
        query, member = np.nonzero(unsure)
        higher = {name: ((gaps[name] > 0.0) & ~unsure).sum(axis=1) for name in RANKINGS}
        equal = {name: np.zeros(block.size, dtype=np.int64) for name in RANKINGS}
        for some in np.array_split(np.arange(query.size), max(1, query.size * self.candidates.shape[1] // _BLOCK_VALUES)):
            exact = self._keys(block[query[some]], members[member[some]])
            for name in RANKINGS:
                answer = own[name][query[some]]
                higher[name] += np.bincount(query[some][exact[name] > answer], minlength=block.size)
                equal[name] += np.bincount(query[some][exact[name] == answer], minlength=block.size)
        return {name: (higher[name], equal[name] - 1) for name in RANKINGS}

    def _keys(self, queries: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Keys of pairs: sums along a contiguous last axis depend on that pair's values only, never on its place."""
        products = self.candidates[rows].astype(np.float64)
        products *= self.directions[queries]
        dot, norms = np.add.reduce(products, axis=1), self.norms[rows]
        cosine = np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0.0)
        return {"cosine": cosine.astype(np.float32), "dot": dot.astype(np.float32)}


def _scales(norms: np.ndarray) -> dict[str, np.ndarray]:
    """What turns hat q . c into the key of each ranking."""
    return {"cosine": np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0), "dot": np.ones_like(norms)}


def _groups(sets: Sequence[Sequence[int]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Queries by their set: (rows of the queries, the set in ascending order)."""
    numbers: dict[tuple[int, ...], list[int]] = {}
    for query, members in enumerate(sets):
        numbers.setdefault(tuple(members), []).append(query)
    for members, queries in numbers.items():
        yield np.asarray(queries, dtype=np.int64), np.sort(np.asarray(members, dtype=np.int64))


def _usable_norms(vectors: np.ndarray, name: str) -> np.ndarray:
    lengths = exact_norms(vectors, name=name).astype(np.float64)
    bad = np.flatnonzero((lengths > 0.0) & ((lengths < _SMALLEST_NORM) | (lengths > _LARGEST_NORM)))
    if bad.size:
        came = f"{name}: row {bad[0]} has norm {lengths[bad[0]]:.3g}"
        raise InputError(f"{came}; expected 0 or {_SMALLEST_NORM}..{_LARGEST_NORM}: rescale the vectors")
    return lengths


def _check(queries: np.ndarray, candidates: np.ndarray, sets: Sequence[Sequence[int]], answers: np.ndarray) -> None:
    if queries.shape[1] != candidates.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions, candidates {candidates.shape[1]}: expected vectors of one encoder")
    if not queries.shape[0] == len(sets) == answers.shape[0]:
        came = f"{queries.shape[0]} queries, {len(sets)} sets and {answers.shape[0]} answers"
        raise InputError(f"{came}: expected one set and one answer per query")
    known: dict[int, frozenset[int]] = {}
    for query, (members, answer) in enumerate(zip(sets, answers.tolist(), strict=True)):
        # Readers give queries that share a set the same tuple: it is looked at once.
        held = known.get(id(members))
        if held is None:
            held = known.setdefault(id(members), frozenset(members))
            if len(held) != len(members):
                raise InputError(f"sets: the set of query {query} repeats a row; expected distinct rows")
            outside = [row for row in (min(held, default=0), max(held, default=0)) if not 0 <= row < candidates.shape[0]]
            if outside:
                raise InputError(f"sets: query {query} names candidate row {outside[0]}; expected 0 to {candidates.shape[0] - 1}")
        if answer not in held:
            raise InputError(f"answers: query {query} has row {answer}, which is not in its set: add it")


def task_mean_draws(
    values: Sequence[Float[np.ndarray, "V _"]], clusters: Sequence[Int[np.ndarray, " _"]], *, seed: int, samples: int
) -> Float[np.ndarray, "V R T"]:
    """Return bootstrap draws of the mean of each of T tasks, clusters drawn across all tasks at once.

    Equation: mean*_vt = sum_c m_c s_vtc / sum_c m_c n_tc, with s_vtc and n_tc the sum of value v and the number of queries
    of task t in cluster c, and m ~ Multinomial(C, 1/C) over the clusters of all tasks together. What holds one picture in
    two tasks therefore moves both in one draw, and a mean over tasks of the draws has the right width.

    Args:
        values: for each task (V, B_t): V values per query, finite.
        clusters: for each task (B_t,), numbered across tasks.
        seed: of the draws; equal seeds and clusters give equal draws, whatever the values.
        samples: R.

    Returns:
        (V, R, T) means; NaN where a draw holds no query of a task, and everywhere for a task of one cluster, of which
        nothing can be resampled.

    Raises:
        InputError: lengths differ.

    Example:
        >>> task_mean_draws([np.ones((1, 2))], [np.array([0, 1])], seed=0, samples=3).tolist()
        [[[1.0], [1.0], [1.0]]]
    """
    for task, (numbers, groups) in enumerate(zip(values, clusters, strict=True)):
        if numbers.shape[1] != groups.shape[0]:
            raise InputError(f"task {task}: {numbers.shape[1]} values and {groups.shape[0]} clusters; expected one cluster per query")
    _, cluster = np.unique(np.concatenate(clusters), return_inverse=True)
    parts = np.split(cluster, np.cumsum([len(groups) for groups in clusters])[:-1])
    count = int(cluster.max()) + 1
    sizes = np.stack([np.bincount(part, minlength=count) for part in parts]).astype(np.float64)
    sums = np.stack(
        [[np.bincount(part, weights=row, minlength=count) for row in numbers] for part, numbers in zip(parts, values, strict=True)], axis=1
    )
    rng = np.random.default_rng(seed)
    draws = np.full((sums.shape[0], samples, len(parts)), np.nan)
    step = max(1, _BLOCK_VALUES // count)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picks = rng.integers(count, size=(rows, count)) + np.arange(rows)[:, None] * count
        drawn = np.bincount(picks.reshape(-1), minlength=rows * count).reshape(rows, count).astype(np.float64)
        held = drawn @ sizes.T
        np.divide(drawn @ sums.transpose(0, 2, 1), held, out=draws[:, start : start + rows], where=held > 0.0)
    draws[..., (sizes > 0.0).sum(axis=1) < 2] = np.nan
    return draws


def drawn_interval(mean: float, draws: Float[np.ndarray, "R T"], *, level: float) -> Interval:
    """Return the percentile interval of a mean over T tasks, each weighed alike, from draws of their means.

    Args:
        mean: of the sample itself.
        draws: (R, T), as `task_mean_draws` gives them for one value; a draw with a NaN is left out.
        level: coverage in 0..1.

    Returns:
        The interval; None around the mean where no draw is whole.

    Example:
        >>> drawn_interval(0.5, np.array([[0.0, 0.5], [0.5, 1.0]]), level=1.0)
        Interval(mean=0.5, ci_low=0.25, ci_high=0.75)
    """
    means = draws.mean(axis=1)
    means = means[~np.isnan(means)]
    if not means.size:
        return Interval(mean=mean, ci_low=None, ci_high=None)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(mean=mean, ci_low=float(low), ci_high=float(high))


def chance_rate(sets: Sequence[Sequence[int]]) -> float:
    """Return P@1 of an encoder that knows nothing: the mean of 1 / size of a query's set.

    Example:
        >>> chance_rate([(0, 1), (0, 1, 2, 3)])
        0.375
    """
    return float(np.mean([1.0 / len(members) for members in sets]))
