"""Re-ranking by a weight of the candidate, as a power or as a prior, with a probability for the hit that then stands first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from pydantic import field_validator

from normwise.core.calibration_records import LARGEST, Number, Positive, Weight
from normwise.core.errors import InputError, near_names
from normwise.core.records import Record
from normwise.core.shapes import Float, Int
from normwise.theory.first_place import log_odds, probability, rivals
from normwise.theory.fit_rows import check_rivals, chosen_right, fit_rows, thinned
from normwise.theory.hit_lists import PRIORS, HitLists, JudgedHits
from normwise.theory.listwise_prior import fit_listwise
from normwise.theory.norm_reranking import STRENGTHS
from normwise.theory.softmax_calibrators import check_scores, checked_bounds
from normwise.theory.softmax_fit import InverseFit, fit_inverse

Priors = Mapping[str, np.ndarray]
RerankingKind = Literal["norm_reranking", "length_reranking", "frequency_reranking", "permuted_norm_reranking"]
PriorKind = Literal["norm_prior", "length_prior", "frequency_prior", "permuted_norm_prior"]
_RERANKINGS: Mapping[str, RerankingKind] = dict(zip(PRIORS, get_args(RerankingKind), strict=True))
_PRIORS: Mapping[str, PriorKind] = dict(zip(PRIORS, get_args(PriorKind), strict=True))
_LARGEST_LOG = 1e100
# e^60 is beyond any sensible weight; past it a product of scores would overflow.
_WIDEST = 60.0
_EQUAL = 1e-9
_TIE = 1e-12
_BLOCK_VALUES = 1 << 15


def log_weights(hits: HitLists, prior: str, priors: Priors | None) -> Float[np.ndarray, "B K"]:
    """Return the log weights of a prior: from the hits themselves where they know them, else as given.

    Equation: "norm" log ||d||; "length" log(1 + tokens) and "frequency" log(1 + count) of the hits, or `priors` where the hits
    do not know them; "permuted norm" always from `priors`. A zero vector has 0 here and is never ranked first by it.

    Raises:
        InputError: the prior is unknown, what it needs is missing, or its shape is not that of the scores.
    """
    if _known(prior) == "norm":
        return np.log(np.where(hits.hit_norms > 0.0, hits.hit_norms, 1.0))
    counts = {"length": hits.hit_lengths, "frequency": hits.hit_frequency}.get(prior)
    if counts is not None:
        return np.log1p(counts)
    given = (priors or {}).get(prior)
    if given is None:
        raise InputError(f"prior {prior!r}: these hits do not know it; expected its log weights in `priors`, one for each hit")
    if given.shape != hits.scores.shape or not (np.abs(given) <= _LARGEST_LOG).all():
        raise InputError(f"prior {prior!r} has shape {given.shape}; expected finite log weights of shape {hits.scores.shape}")
    return given


class RanksAnew:
    """What calibrators share that put the hit of their highest key first."""

    inverse_temperature: float

    def keys(self, hits: HitLists, *, priors: Priors | None = None) -> Float[np.ndarray, "B K"]:
        """Return what the hits are ranked by."""
        raise NotImplementedError

    def predict(self, hits: HitLists, *, priors: Priors | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each hit put first is right; 0 where a vector is zero."""
        return _probabilities(hits, self.keys(hits, priors=priors), self.inverse_temperature)

    def order(self, hits: HitLists, *, priors: Priors | None = None) -> Int[np.ndarray, " B"]:
        """Return (B,) the place of the hit that is put first."""
        return self.keys(hits, priors=priors).argmax(axis=1)

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted; of two weights the scale is also that of the temperature."""
        return 2

    @property
    def depth(self) -> int | None:
        """How many hits per query it reads; None = the whole row."""
        return None


class RerankingCalibrator(RanksAnew, Record):
    """E5: scores times a power of a weight rank anew; a softmax of them is the probability.

    Equation: key = s * (w / w_0)^beta, w_0 the fitted queries' geometric mean weight (it changes no order); the hit of highest
    key stands first, the better-scored one of equals; p = 1 / sum_j exp(b (key_j - key_first)). beta is the exponent with the
    most right first hits, then the highest mean reciprocal rank in the row, then the smallest |beta|, of strength / std(log w)
    with the grid `STRENGTHS`, 0 among it; b is then fitted as in `TemperatureCalibrator`.

    s is the score under the model's own similarity, so beta = 0 leaves the order alone. A negative score times a larger weight
    falls: that is what the equation says, and under scores of both signs a power prior means little. Only the K hits found are
    re-ranked; a candidate outside the row cannot come in.

    Args:
        beta: the exponent.
        center: log w_0.
        inverse_temperature: b.
        bounds: the range that b was sought in.

    Reference: cos(q, d) * ||d||^beta of the norm's use in retrieval; grid, ties and probability are ours.
    """

    kind: RerankingKind
    beta: Number
    center: Number
    inverse_temperature: Positive
    bounds: tuple[Positive, Positive]

    _check_bounds = field_validator("bounds")(checked_bounds)

    @classmethod
    def fit(cls, judged: JudgedHits, *, prior: str = "norm") -> RerankingCalibrator:
        """Choose beta, then fit b; log weights come from the hits or from `judged.priors`.

        Raises:
            InputError: one hit per row, fewer than two right or wrong first hits, or as `log_weights`.
        """
        name = _RERANKINGS[_known(prior)]
        part, logs = _prepared(judged, prior, name=name)
        racing = logs[part.hits.hit_norms > 0.0]
        center, spread = float(racing.mean()), float(racing.std())
        betas = [strength / spread if spread > _EQUAL else 0.0 for strength in STRENGTHS]
        beta = _best_beta(part, logs - center, betas)
        keys = power_keys(part.hits.scores, logs - center, beta)
        found = _temperature(part, keys, name=name)
        return cls(kind=name, beta=beta, center=center, inverse_temperature=found.inverse, bounds=found.bounds)

    @property
    def prior(self) -> str:
        """Which weight it uses, one of `PRIORS`."""
        return self.kind.removesuffix("_reranking").replace("_", " ")

    def keys(self, hits: HitLists, *, priors: Priors | None = None) -> Float[np.ndarray, "B K"]:
        """Return what the hits are ranked by."""
        return power_keys(_held(hits.scores), log_weights(hits, self.prior, priors) - self.center, self.beta)

    @property
    def words(self) -> str:
        """One line for a reader."""
        return f"hits re-ranked by score times {self.prior}^{self.beta:.3g}, then a softmax at a fitted temperature"


class PriorCalibrator(RanksAnew, Record):
    """E6: a log-linear prior on candidates ranks anew; a softmax of the same sums is the probability.

    Equation: key = beta s + alpha log w with beta >= 0 and alpha of highest listwise likelihood, the mean over queries with a
    relevant hit of the mean of log softmax(key) over their relevant hits; the hit of highest key stands first, the better-scored
    one of equals; p = 1 / sum_j exp(b (key_j - key_first)), b fitted on all queries as in `TemperatureCalibrator`: unanswerable
    ones teach doubt, not order. A zero vector is never put first.

    Args:
        score_weight: beta.
        prior_weight: alpha.
        inverse_temperature: b; 1 where the likelihood of lists is calibrated as it stands.
        bounds: the range that b was sought in.

    Reference: the conditional logit of McFadden (1974), with the log prior as one more attribute.
    """

    kind: PriorKind
    score_weight: Weight
    prior_weight: Number
    inverse_temperature: Positive
    bounds: tuple[Positive, Positive]

    _check_bounds = field_validator("bounds")(checked_bounds)

    @classmethod
    def fit(cls, judged: JudgedHits, *, prior: str = "norm") -> PriorCalibrator:
        """Fit both weights, then b; log weights come from the hits or from `judged.priors`.

        Raises:
            InputError: one hit per row, fewer than two right or wrong first hits, or as `log_weights`.
        """
        name = _PRIORS[_known(prior)]
        part, logs = _prepared(judged, prior, name=name)
        racing = part.hits.hit_norms > 0.0
        score_weight, prior_weight = fit_listwise(part.hits.scores, logs, part.relevant & racing, racing)
        keys = prior_keys(part.hits, logs, score_weight, prior_weight)
        # A hit without a racing rival is certain at any temperature.
        rivaled = racing.sum(axis=1) > 1
        found = _temperature(part.subset(rivaled), keys[rivaled], name=name)
        return cls(
            kind=name,
            score_weight=score_weight,
            prior_weight=prior_weight,
            inverse_temperature=found.inverse,
            bounds=found.bounds,
        )

    @property
    def prior(self) -> str:
        """Which weight it uses, one of `PRIORS`."""
        return self.kind.removesuffix("_prior").replace("_", " ")

    def keys(self, hits: HitLists, *, priors: Priors | None = None) -> Float[np.ndarray, "B K"]:
        """Return what the hits are ranked by; -inf for a zero vector."""
        return prior_keys(hits, log_weights(hits, self.prior, priors), self.score_weight, self.prior_weight)

    @property
    def words(self) -> str:
        """One line for a reader."""
        return (
            f"hits re-ranked by {self.score_weight:.3g} score {self.prior_weight:+.3g} log {self.prior}, "
            "then a softmax at a fitted temperature"
        )


def power_keys(scores: Float[np.ndarray, "B K"], logs: Float[np.ndarray, "B K"], beta: float) -> Float[np.ndarray, "B K"]:
    """Return s * w^beta, the exponent of e held within +-60.

    Example:
        >>> power_keys(np.array([[0.5, -0.5]]), np.log(np.array([[2.0, 2.0]])), 2.0).round(12).tolist()
        [[2.0, -2.0]]
    """
    if beta == 0.0:
        return scores
    return scores * np.exp(np.clip(beta * logs, -_WIDEST, _WIDEST))


def prior_keys(hits: HitLists, logs: Float[np.ndarray, "B K"], score_weight: float, prior_weight: float) -> Float[np.ndarray, "B K"]:
    """Return beta s + alpha log w, -inf for a zero vector."""
    return np.where(hits.hit_norms > 0.0, score_weight * _held(hits.scores) + prior_weight * logs, -np.inf)


def _held(scores: np.ndarray) -> np.ndarray:
    """Absurd scores come back as large ones, so that no key leaves float64."""
    return np.clip(scores, -LARGEST, LARGEST)


def _known(prior: str) -> str:
    if prior not in PRIORS:
        raise InputError(f"prior {prior!r} is unknown: {near_names(prior, list(PRIORS))}")
    return prior


def _prepared(judged: JudgedHits, prior: str, *, name: str) -> tuple[JudgedHits, np.ndarray]:
    rows = thinned(fit_rows(judged, name=name))
    check_rivals(judged, name=name)
    check_scores(judged.hits, name=name)
    part = judged.subset(rows)
    return part, log_weights(part.hits, prior, part.priors)


def _best_beta(judged: JudgedHits, logs: np.ndarray, betas: list[float]) -> float:
    """Most right first hits; among equals the highest mean reciprocal rank; among those the smallest |beta|, then the lower."""
    scores, relevant = judged.hits.scores, judged.relevant
    right = np.zeros(len(betas))
    step = max(1, _BLOCK_VALUES // scores.shape[1])
    for start in range(0, len(judged), step):
        part = slice(start, start + step)
        for place, beta in enumerate(betas):
            first = power_keys(scores[part], logs[part], beta).argmax(axis=1)
            right[place] += np.count_nonzero(relevant[part][np.arange(first.size), first])
    best = [beta for beta, count in zip(betas, right, strict=True) if count == right.max()]
    if len(set(best)) == 1:
        return best[0]
    ranks = [mean_reciprocal_rank(power_keys(scores, logs, beta), relevant) for beta in best]
    equal = [beta for beta, rank in zip(best, ranks, strict=True) if rank >= max(ranks) - _TIE]
    return min(equal, key=lambda beta: (abs(beta), beta))


def mean_reciprocal_rank(keys: Float[np.ndarray, "B K"], relevant: np.ndarray) -> float:
    """Return the mean of 1 / rank of the first relevant hit, 0 for a row without one; of equal keys the earlier place leads.

    Example:
        >>> mean_reciprocal_rank(np.array([[0.1, 0.5, 0.5]]), np.array([[False, False, True]]))
        0.5
    """
    best = np.where(relevant, keys, -np.inf)
    place = best.argmax(axis=1)
    key = best[np.arange(place.size), place][:, None]
    ahead = (keys > key) | ((keys == key) & (np.arange(keys.shape[1]) < place[:, None]))
    return float(np.mean(np.where(relevant.any(axis=1), 1.0 / (1.0 + ahead.sum(axis=1)), 0.0)))


def _temperature(judged: JudgedHits, keys: np.ndarray, *, name: str) -> InverseFit:
    places = keys.argmax(axis=1)
    return fit_inverse(rivals(keys, places, dtype=np.float32), chosen_right(judged, places), name=name)


def _probabilities(hits: HitLists, keys: np.ndarray, inverse: float) -> np.ndarray:
    usable = hits.usable
    if hits.depth < 2:
        raise InputError("one hit per query; a softmax over one hit is always 1: search for at least 2 hits per query")
    # Rows without a direction have no key to speak of: their own scores keep the arithmetic finite.
    keys = np.where(usable[:, None], keys, hits.scores)
    with np.errstate(over="ignore"):
        return probability(log_odds(rivals(keys, keys.argmax(axis=1)), np.full(len(hits), inverse)), usable)
