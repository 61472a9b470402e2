"""How probable it is that a hit after the first is relevant: one logistic over places, fitted once for a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, field_validator
from scipy.special import expit, logit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from normwise.core.calibration_records import LARGEST, Count, Number
from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.core.shapes import Float, Int
from normwise.theory.hit_lists import HitLists, JudgedHits

# Written down before any run. Places behind the tenth are few in use and empty in most judgements; four columns and a
# constant are told apart by some dozens of both kinds.
DEPTH = 10
LEAST_HITS = 30
COLUMNS = ("score", "score minus that of the first", "log place", "logit of the first hit's probability")
_PENALTY = 1.0
_CERTAIN = 1e-12
_EQUAL = 1e-12
# Squares of larger scores leave float64.
_LARGEST_SCORE = 1e100


class LowerHits(Record):
    """A logistic for the hits after the first.

    Equation: p_j = sigmoid(w_0 + w . [s_j, s_j - s_1, log j, logit p_1]) for the hit shown at place j = 2, 3, ...; s_1 and
    p_1 are score and probability of the hit shown first. It is fitted on places 2 to 10; behind them log j extrapolates.

    Its probabilities are calibrated on average over all hits it was fitted on; no threshold was certified for them.
    """

    intercept: Number
    weights: tuple[Number, ...] = Field(min_length=len(COLUMNS), max_length=len(COLUMNS))
    hits: Count = 0
    relevant: Count = 0

    @field_validator("relevant")
    @classmethod
    def _check_relevant(cls, relevant: int, known: Any) -> int:
        if relevant > known.data.get("hits", relevant):
            raise ValueError(f"expected no more relevant hits than hits, and {relevant} of {known.data['hits']} came")
        return relevant

    @classmethod
    def fit(cls, judged: JudgedHits, first: Float[np.ndarray, " B"], *, places: Int[np.ndarray, " _"] | None = None) -> LowerHits | None:
        """Fit on hits 2 to 10 of the queries that have a direction.

        Args:
            judged: B queries.
            first: (B,) probabilities that the hit shown first is relevant, best from a calibrator that did not see the query.
            places: (B,) the place of the hit that is shown first; None is place 0 everywhere.

        Returns:
            The fit; None where fewer than 30 of these hits are relevant or fewer than 30 are not: then nobody knows.

        Raises:
            InputError: `first` or `places` does not fit the queries, or a score lies beyond 1e100.

        Example:
            >>> from normwise.core.similarity import Similarity
            >>> few = HitLists(np.array([[0.9, 0.2]]), np.ones(1), np.ones((1, 2)), Similarity.COSINE)
            >>> judged = JudgedHits(few, np.array([[True, False]]), np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool))
            >>> LowerHits.fit(judged, np.array([0.5])) is None
            True
        """
        shown = shown_first(judged.hits, places)
        columns, used = _columns(judged.hits, first, shown, depth=DEPTH)
        used &= judged.hits.usable[:, None] & (judged.hits.hit_norms[:, :DEPTH] > 0.0)
        relevant, columns = judged.relevant[:, :DEPTH][used], columns[used]
        count = int(relevant.sum())
        if min(count, relevant.size - count) < LEAST_HITS:
            return None
        largest = float(np.abs(columns[:, :2]).max())
        if largest > _LARGEST_SCORE:
            raise InputError(f"scores reach {largest:.3g}; expected magnitudes up to {_LARGEST_SCORE:g}: check scores and norms")
        center, scale = columns.mean(axis=0), columns.std(axis=0)
        scale = np.where(scale > _EQUAL * (1.0 + np.abs(center)), scale, np.inf)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            model = LogisticRegression(C=_PENALTY, solver="newton-cholesky").fit((columns - center) / scale, relevant)
        weights = np.ravel(model.coef_) / scale
        intercept = float(np.ravel(model.intercept_)[0] - weights @ center)
        return cls(intercept=intercept, weights=tuple(weights.tolist()), hits=relevant.size, relevant=count)

    def predict(
        self, hits: HitLists, first: Float[np.ndarray, " B"], *, places: Int[np.ndarray, " _"] | None = None
    ) -> Float[np.ndarray, "B K"]:
        """Return the probability of every hit.

        Args:
            hits: B queries, K hits each.
            first: (B,) probabilities that the hit shown first is relevant, 0..1.
            places: (B,) the place of the hit that is shown first; None is place 0 everywhere.

        Returns:
            (B, K) by the places of `hits`: `first` at the place that is shown first, this model's strictly inside 0..1 elsewhere.

        Raises:
            InputError: `first` or `places` does not fit the queries.

        Example:
            >>> model = LowerHits(intercept=0.0, weights=(1.0, 0.0, 0.0, 0.0))
            >>> from normwise.core.similarity import Similarity
            >>> hits = HitLists(np.array([[0.9, 0.0]]), np.ones(1), np.ones((1, 2)), Similarity.COSINE)
            >>> model.predict(hits, np.array([0.7])).tolist()
            [[0.7, 0.5]]
        """
        shown = shown_first(hits, places)
        columns, _ = _columns(hits, first, shown, depth=hits.depth)
        result = np.clip(expit(columns @ np.array(self.weights) + self.intercept), _CERTAIN, 1.0 - _CERTAIN)
        result[np.arange(len(hits)), shown] = first
        return result


def shown_first(hits: HitLists, places: Int[np.ndarray, " _"] | None) -> Int[np.ndarray, " B"]:
    """Return the place in its row of the hit that each query shows first.

    Example:
        >>> from normwise.core.similarity import Similarity
        >>> shown_first(HitLists(np.zeros((2, 3)), np.ones(2), np.ones((2, 3)), Similarity.DOT), None).tolist()
        [0, 0]
    """
    if places is None:
        return np.zeros(len(hits), dtype=np.int64)
    if places.shape != (len(hits),) or ((places < 0) | (places >= hits.depth)).any():
        raise InputError(f"places have shape {places.shape} for {len(hits)} queries; expected one each, from 0 to {hits.depth - 1}")
    return places


def _columns(hits: HitLists, first: np.ndarray, shown: np.ndarray, *, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, depth, 4) what the model reads of each place, and (B, depth) which hits are not the one shown first."""
    if first.shape != (len(hits),) or not ((first >= 0.0) & (first <= 1.0)).all():
        raise InputError(f"first has shape {first.shape} for {len(hits)} queries; expected one probability each, 0 to 1")
    scores = hits.scores[:, :depth]
    places = np.arange(scores.shape[1])
    # Those in front of the hit that moved to the first place are shown one place later.
    rank = places + 1.0 + (places < shown[:, None])
    ahead = hits.scores[np.arange(len(hits)), shown][:, None]
    # Absurd scores come back as large ones, so that every sum is finite.
    with np.errstate(over="ignore"):
        behind = np.clip(scores - ahead, -LARGEST, LARGEST)
    odds = np.broadcast_to(logit(np.clip(first, _CERTAIN, 1.0 - _CERTAIN))[:, None], scores.shape)
    held = np.clip(scores, -LARGEST, LARGEST)
    return np.stack([held, behind, np.log(rank), odds], axis=-1), places != shown[:, None]
