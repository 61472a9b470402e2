"""Answers in the order of their confidence, equal confidences joined, in many resamples at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.resamples import Resamples, once


@dataclass(frozen=True)
class Answers:
    """B first hits: with which confidence each was given, and whether it was right.

    Args:
        confidence: (B,) finite numbers, higher = more sure; probabilities where a figure reads more than their order.
        right: (B,) bool.

    Raises:
        InputError: no answer, lengths differ, `right` is not bool, or a confidence is not finite; the message names the query.

    Example:
        >>> Answers(np.array([0.9, 0.5]), np.array([True, False])).share_right
        0.5
    """

    confidence: np.ndarray
    right: np.ndarray

    def __post_init__(self) -> None:
        if self.confidence.ndim != 1 or self.confidence.shape != self.right.shape:
            came = f"confidence has shape {self.confidence.shape}, right {self.right.shape}"
            raise InputError(f"{came}: expected one number and one truth value for each query")
        if not self.confidence.size:
            raise InputError("confidence holds no answer: expected at least one query")
        if self.right.dtype != np.bool_:
            raise InputError(f"right is of type {self.right.dtype}; expected bool, True where the first hit is relevant")
        object.__setattr__(self, "confidence", finite_values(self.confidence, "confidence"))

    def __len__(self) -> int:
        return self.right.size

    @property
    def share_right(self) -> float:
        """The mean of `right`."""
        return float(self.right.mean())

    def as_probabilities(self) -> Answers:
        """Return the same answers, or raise InputError where a confidence lies outside 0..1."""
        outside = np.flatnonzero((self.confidence < 0.0) | (self.confidence > 1.0))
        if outside.size:
            came = self.confidence[outside[0]]
            raise InputError(f"confidence of query {outside[0]} is {came:g}; expected a probability, 0 to 1: calibrate the score first")
        return self


@dataclass(frozen=True)
class Ranking:
    """B values in descending order, equal ones in G groups.

    Args:
        order: (B,) the places of the values, highest first.
        starts: (G,) where each group starts in that order.
        values: (G,) the value of each group, strictly descending.
    """

    order: np.ndarray
    starts: np.ndarray
    values: np.ndarray

    def joined(self, ranked: Float[np.ndarray, "R B"]) -> Float[np.ndarray, "R G"]:
        """The sums over each group of values that stand in this order."""
        return ranked if self.starts.size == self.order.size else np.add.reduceat(ranked, self.starts, axis=1)


def rank(values: Float[np.ndarray, " B"]) -> Ranking:
    """Return finite values in descending order, equal ones joined.

    Example:
        >>> rank(np.array([0.2, 0.7, 0.2])).starts.tolist()
        [0, 1]
    """
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    return Ranking(order, starts, ranked[starts])


@dataclass(frozen=True)
class RankedResamples:
    """One ranking in R resamples: how many queries each group holds, and how many stand above. Nothing is computed twice.

    Args:
        ranking: G groups of B queries.
        resamples: how often each query counts.
    """

    ranking: Ranking
    resamples: Resamples

    @cached_property
    def times(self) -> np.ndarray:
        """(R, B) how often each query counts, the highest first."""
        return self.resamples.times(self.ranking.order)

    @cached_property
    def counts(self) -> np.ndarray:
        """(R, G) queries in each group."""
        return self.ranking.joined(self.times)

    @cached_property
    def held(self) -> np.ndarray:
        """(R, G) queries from the highest group down to this one."""
        return np.cumsum(self.counts, axis=1)

    def totals(self, values: np.ndarray) -> np.ndarray:
        """(R, G) sums over each group of one value per query, given in the order of the queries."""
        return self.ranking.joined(self.times * values[self.ranking.order].astype(np.float64))


@dataclass(frozen=True)
class TiedAnswers:
    """Answers ranked by confidence in R resamples: what the figures of this family are functions of.

    Running sums go from the most confident group down and include the group itself.

    Args:
        ranked: by confidence.
        right: (B,) bool, in the order of the queries.
    """

    ranked: RankedResamples
    right: np.ndarray

    @property
    def confidence(self) -> np.ndarray:
        """(G,) the confidence of each group, strictly descending."""
        return self.ranked.ranking.values

    @property
    def counts(self) -> np.ndarray:
        """(R, G) answers in each group."""
        return self.ranked.counts

    @property
    def held(self) -> np.ndarray:
        """(R, G) answers so far."""
        return self.ranked.held

    @cached_property
    def right_counts(self) -> np.ndarray:
        """(R, G) right answers in each group."""
        return self.ranked.totals(self.right)

    @cached_property
    def wrong_counts(self) -> np.ndarray:
        """(R, G) wrong answers in each group."""
        return self.counts - self.right_counts

    @cached_property
    def held_right(self) -> np.ndarray:
        """(R, G) right answers so far."""
        return np.cumsum(self.right_counts, axis=1)

    @cached_property
    def held_gap(self) -> np.ndarray:
        """(R, G) sum of confidences so far, less the right answers so far."""
        gaps = self.counts * self.confidence
        gaps -= self.right_counts
        return np.cumsum(gaps, axis=1, out=gaps)

    @cached_property
    def held_risks(self) -> np.ndarray:
        """(R, G) share of wrong answers so far; 0 before the first answer."""
        risks = self.held - self.held_right
        risks /= np.maximum(self.held, 1.0)
        return risks

    @property
    def size(self) -> np.ndarray:
        """(R,) answers in all."""
        return self.held[:, -1]

    @property
    def wrong(self) -> np.ndarray:
        """(R,) wrong answers in all."""
        return self.held[:, -1] - self.held_right[:, -1]


def tied_answers(answers: Answers, resamples: Resamples | None = None) -> TiedAnswers:
    """Return the answers by confidence, each counted once where no resamples are given.

    Example:
        >>> tied_answers(Answers(np.array([0.5, 0.9, 0.5]), np.array([True, True, False]))).held.tolist()
        [[1.0, 3.0]]
    """
    return TiedAnswers(RankedResamples(rank(answers.confidence), resamples or once(len(answers))), answers.right)


def first_totals(
    held: Float[np.ndarray, "R G"], running: Float[np.ndarray, "R G"], firsts: Float[np.ndarray, "R Q"]
) -> Float[np.ndarray, "R Q"]:
    """Return the sum over the first k answers of each resample, a group that is cut giving its mean to each of its answers.

    Equation: S(k) = S_before + (k - K_before) s / m, with K_before answers of sum S_before before the group that holds the
    k-th, which has m answers of sum s.

    Args:
        held: (R, G) answers so far.
        running: (R, G) sum so far.
        firsts: (R, Q) k, 1 to the number of answers.

    Returns:
        (R, Q) the sums.

    Example:
        >>> first_totals(np.array([[1.0, 3.0]]), np.array([[1.0, 2.0]]), np.array([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 1.5, 2.0]]
    """
    group = np.stack([np.searchsorted(row, wanted) for row, wanted in zip(held, firsts, strict=True)])
    upper, lower = np.take_along_axis(held, group, axis=1), sums_before(held, group)
    before = sums_before(running, group)
    share = (firsts - lower) / np.maximum(upper - lower, 1.0)
    return before + share * (np.take_along_axis(running, group, axis=1) - before)


def sums_before(running: Float[np.ndarray, "R G"], group: Int[np.ndarray, "R Q"]) -> Float[np.ndarray, "R Q"]:
    """Return running sums just before each of some groups, 0..G; before the first it is 0.

    Example:
        >>> sums_before(np.array([[1.0, 3.0]]), np.array([[0, 1, 2]])).tolist()
        [[0.0, 1.0, 3.0]]
    """
    return np.where(group > 0, np.take_along_axis(running, np.maximum(group - 1, 0), axis=1), 0.0)


def finite_values(values: Float[np.ndarray, " B"], name: str) -> Float[np.ndarray, " B"]:
    """Return values as float64, or raise InputError that names the first one that is not finite.

    Example:
        >>> finite_values(np.array([1.0]), "ndcg").tolist()
        [1.0]
    """
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InputError(f"{name} of query {bad[0]} is {values[bad[0]]}; expected a finite number")
    return values.astype(np.float64)


def checked_clusters(clusters: Int[np.ndarray, " B"], right: Bool[np.ndarray, " _"]) -> Int[np.ndarray, " B"]:
    """Return the clusters, or raise InputError where they are not one per answer.

    Example:
        >>> checked_clusters(np.array([4]), np.array([True])).tolist()
        [4]
    """
    if clusters.shape != right.shape:
        raise InputError(f"clusters have shape {clusters.shape} for {right.size} answers; expected one cluster for each query")
    return clusters
