"""Does a power of the norm help to rank? Cosine times ||d||^beta against the same with length, popularity and shuffled norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.records import Interval, Outcome
from normwise.core.shapes import Float
from normwise.core.usefulness_records import PowerRow, PriorReranking, Reranking
from normwise.theory.bootstrap import SAMPLES, cluster_mean_interval, paired_difference_interval
from normwise.theory.claims import LEVEL, claim_outcome, size_outcome, span
from normwise.theory.directions import exact_norms
from normwise.theory.folds import cluster_folds
from normwise.theory.partial_rank import residuals
from normwise.theory.rank_design import numeric_columns
from normwise.theory.ranking import metrics_per_query
from normwise.theory.weighted_search import weighted_top_k

METRIC = "ndcg@10"
# What one standard deviation of log w does to the log of a score. Priors differ a lot in spread (norms by some 5%, token counts
# by 100%), so one grid of exponents would be too coarse for one and too weak for the other: the control would lose unfairly.
STRENGTHS = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# Written down before any run.
CLAIMED_GAIN = 0.096
LEAST_GAIN = 0.01
PERMUTATIONS = 5
LEAST_CANDIDATES = 30
FOLDS = 5
_DEPTH = 10
_EQUAL = 1e-6
_NULL = "permuted norm"


@dataclass(frozen=True)
class JudgedVectors:
    """Query vectors (B, D), their judgements (candidate row -> gain) and their clusters (B,)."""

    vectors: np.ndarray
    relevance: Sequence[Mapping[int, float]]
    clusters: np.ndarray

    def __post_init__(self) -> None:
        lengths = {self.vectors.shape[0], len(self.relevance), self.clusters.shape[0]}
        if len(lengths) > 1:
            raise InputError(
                f"{self.vectors.shape[0]} query vectors, {len(self.relevance)} judgements, {self.clusters.shape[0]} clusters: "
                "expected one of each per query"
            )


@dataclass(frozen=True)
class _Prior:
    """A prior's log weights (C, N), C copies of it (permutations; else one), and its exponents, G of them, 0 among them."""

    name: str
    logs: np.ndarray
    betas: tuple[float, ...]

    @property
    def spread(self) -> float:
        return float(self.logs[0].std())


@dataclass(frozen=True)
class _Judged:
    """What a prior did: per copy, exponent and query the metric (C, G, B), and per query its value at the chosen exponents."""

    prior: _Prior
    choosing: np.ndarray
    reported: np.ndarray
    chosen_betas: tuple[float, ...]
    chosen: np.ndarray


@dataclass(frozen=True)
class _Intervals:
    """Cluster bootstrap intervals of the reported queries, all from the same draws."""

    clusters: np.ndarray
    seed: int
    samples: int

    def mean(self, values: np.ndarray) -> Interval:
        return cluster_mean_interval(values, self.clusters, seed=self.seed, level=LEVEL, samples=self.samples)

    def difference(self, values: np.ndarray, baseline: np.ndarray) -> Interval:
        return paired_difference_interval(values, baseline, self.clusters, seed=self.seed, level=LEVEL, samples=self.samples)


def norm_reranking(
    candidates: Float[np.ndarray, "N D"],
    reported: JudgedVectors,
    *,
    choosing: JudgedVectors | None = None,
    tokens: Float[np.ndarray, " _"] | None = None,
    popularity: Float[np.ndarray, " _"] | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Reranking:
    """Re-rank by powers of the norm and of its controls, and say whether the norm helps beyond what length does.

    Equation: score = cos(q, d) * w_d^beta. Priors w: the norm ||d||; `length`, the token count; `popularity`, training count
    + 1; `norm without length`, the norm after a spline of the length's rank was taken out of its log; and five permutations
    of the norms, the null. Every prior has the same grid of strengths, beta = strength / std(log w), cosine (0) among them.

    Each prior's beta is the one of highest mean nDCG@10 on `choosing`; without it, beta is chosen on four fifths of the
    clusters of `reported` and used on the last, in turn. Equal means: the smallest |beta|. Differences are paired by query;
    their intervals resample clusters, at 97.5% (two claims are looked at together), the chosen exponents held.

    The claim is "reproduced" if the norm lies above cosine and above the length prior, "not reproduced" if either interval
    ends below `LEAST_GAIN` = .01 nDCG, else "undecided at this size", as it is without token counts. That the gain reaches
    9.6% of cosine's figure, the smallest published, is judged by itself.

    Args:
        candidates: (N, D) raw vectors, N >= 30.
        reported: queries that the figures are of.
        choosing: queries over the same candidates that choose the exponents.
        tokens: (N,) token counts >= 1, as the encoder reads them.
        popularity: (N,) training counts >= 0.
        seed: of folds, permutations and the bootstrap.
        samples: least number of bootstrap draws.

    Returns:
        All figures. A prior that is the same for all candidates has no table, and as a control it is cosine.

    Raises:
        InputError: fewer than 30 candidates, no judged query, counts that do not fit, or as `weighted_top_k`.

    Reference: the score is that of arXiv 2606.30625 as described by others (its text could not be read); the controls, the
    choice of beta and the rule are ours.

    Example:
        >>> c = np.eye(40) * np.linspace(1.0, 2.0, 40)[:, None]
        >>> found = norm_reranking(c, JudgedVectors(c, [{row: 1.0} for row in range(40)], np.arange(40)), tokens=np.arange(1.0, 41.0))
        >>> found.priors["norm"].chosen_betas, found.cosine.mean, found.outcome
        ((0.0, 0.0, 0.0, 0.0, 0.0), 1.0, 'not reproduced')
    """
    priors = _priors(candidates, tokens=tokens, popularity=popularity, seed=seed)
    values, choosing_values, cosine, dot = _search(candidates, reported, choosing, priors)
    answered = ~np.isnan(cosine)
    if not answered.any():
        raise InputError("no reported query has a relevant candidate, so no metric is defined: check the judgements")
    folds = None
    if choosing_values is None:
        folds = cluster_folds(reported.clusters, folds=FOLDS, seed=seed)
    judged = {
        prior.name: _choose(prior, values[prior.name], None if choosing_values is None else choosing_values[prior.name], folds)
        for prior in priors
    }
    intervals = _Intervals(reported.clusters, seed, samples)
    norm = judged["norm"].chosen if "norm" in judged else cosine
    given = {"length": tokens is not None, "popularity": popularity is not None, _NULL: "norm" in judged}
    # A prior that is the same for all candidates ranks as cosine does.
    controls = {name: judged[name].chosen if name in judged else cosine for name, there in given.items() if there}
    against = {name: intervals.difference(norm, values) for name, values in controls.items()}
    gain = intervals.difference(norm, cosine)
    needed = [(each, LEAST_GAIN) for each in (gain, against.get("length")) if each is not None]
    outcome = claim_outcome(needed, complete=tokens is not None)
    return Reranking(
        metric=METRIC,
        queries=int(np.count_nonzero(answered)),
        candidates=candidates.shape[0],
        clusters=np.unique(reported.clusters[answered]).size,
        level=LEVEL,
        chosen_on="dev" if folds is None else "cross-validation",
        cosine=intervals.mean(cosine),
        dot_minus_cosine=intervals.difference(dot, cosine),
        priors={name: _record(each, cosine, intervals) for name, each in judged.items()},
        norm_minus=against,
        claimed_gain=CLAIMED_GAIN,
        outcome=outcome,
        claimed_size=size_outcome(intervals.difference(norm, (1.0 + CLAIMED_GAIN) * cosine)),
        words=_words(outcome, gain, against.get("length"), judged["norm"].chosen_betas if "norm" in judged else ()),
    )


def best_power(betas: Sequence[float], values: Float[np.ndarray, "G B"]) -> int:
    """Return the place of the exponent with the highest mean; equal means go to the smallest |beta|, then to the lower place.

    Args:
        betas: G exponents.
        values: (G, B) the metric of each query under each; NaN is left out.

    Example:
        >>> best_power((-1.0, 0.0, 1.0), np.array([[0.5, 0.1], [0.3, 0.3], [0.6, 0.0]]))
        1
    """
    means = np.nanmean(values, axis=1)
    # Means of equal rankings are equal bit for bit; the tolerance joins those that differ by the order of a sum.
    return min(np.flatnonzero(means >= means.max() - 1e-12).tolist(), key=lambda place: (abs(betas[place]), place))


def _priors(candidates: np.ndarray, *, tokens: np.ndarray | None, popularity: np.ndarray | None, seed: int) -> list[_Prior]:
    count = candidates.shape[0]
    if count < LEAST_CANDIDATES:
        raise InputError(f"{count} candidates; expected at least {LEAST_CANDIDATES}: with fewer there is nothing to re-rank")
    lengths = exact_norms(candidates, name="candidates")
    nonzero = lengths > 0.0
    # A zero vector scores 0 under every prior; the middle keeps it out of the spread.
    norm = np.log(np.where(nonzero, lengths, np.median(lengths[nonzero]) if nonzero.any() else 1.0))
    found = {"norm": norm[None]}
    if tokens is not None:
        found["length"] = np.log(_checked(tokens, "tokens", count, least=1.0))[None]
        if min(norm.std(), found["length"].std()) > _EQUAL:
            control = numeric_columns(found["length"][0]).control
            found["norm without length"] = residuals(norm[:, None], control).values.T
    if popularity is not None:
        found["popularity"] = np.log1p(_checked(popularity, "popularity", count, least=0.0))[None]
    random = np.random.default_rng(seed)
    found[_NULL] = np.stack([norm[random.permutation(count)] for _ in range(PERMUTATIONS)])
    kept = {name: logs for name, logs in found.items() if logs[0].std() > _EQUAL}
    return [_Prior(name, logs, tuple(strength / float(logs[0].std()) for strength in STRENGTHS)) for name, logs in kept.items()]


def _search(
    candidates: np.ndarray, reported: JudgedVectors, choosing: JudgedVectors | None, priors: Sequence[_Prior]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None, np.ndarray, np.ndarray]:
    """One search of all queries under all scorings; metrics per prior (C, G, B), those of cosine and of dot (B,)."""
    logs = np.concatenate([np.zeros((1, candidates.shape[0])), *(prior.logs for prior in priors)])
    # Row 0 is cosine; row 1, where norms differ, is the norm itself, whose first power is the dot product.
    scorings = [(0, 0.0), (1, 1.0) if priors and priors[0].name == "norm" else (0, 0.0)]
    places: dict[str, slice] = {}
    row = 1
    for prior in priors:
        start = len(scorings)
        scorings += [(row + copy, beta) for copy in range(len(prior.logs)) for beta in prior.betas]
        places[prior.name] = slice(start, len(scorings))
        row += len(prior.logs)
    asked = [reported] if choosing is None else [reported, choosing]
    top = weighted_top_k(np.concatenate([each.vectors for each in asked]), candidates, logs, scorings, k=_DEPTH)
    first = reported.vectors.shape[0]
    metric = np.stack([metrics_per_query(rows[:first], reported.relevance)[METRIC] for rows in top])
    values = {prior.name: _by_copy(metric[places[prior.name]], prior) for prior in priors}
    if choosing is None:
        return values, None, metric[0], metric[1]
    other = np.stack([metrics_per_query(rows[first:], choosing.relevance)[METRIC] for rows in top])
    chosen = None if np.isnan(other).all() else {prior.name: _by_copy(other[places[prior.name]], prior) for prior in priors}
    return values, chosen, metric[0], metric[1]


def _by_copy(values: np.ndarray, prior: _Prior) -> np.ndarray:
    return values.reshape(len(prior.logs), len(prior.betas), -1)


def _choose(prior: _Prior, reported: np.ndarray, choosing: np.ndarray | None, folds: np.ndarray | None) -> _Judged:
    """Choose each copy's exponent on other queries than those it is used on, and average what the copies do."""
    chosen = np.empty((reported.shape[0], reported.shape[2]))
    betas = []
    for copy, values in enumerate(reported):
        for fold in [None] if folds is None else range(int(folds.max()) + 1):
            used = np.ones(values.shape[1], dtype=bool) if folds is None else folds == fold
            place = best_power(prior.betas, values[:, ~used] if choosing is None else choosing[copy])
            betas.append(prior.betas[place])
            chosen[copy, used] = values[place, used]
    return _Judged(prior, reported if choosing is None else choosing, reported, tuple(betas), chosen.mean(axis=0))


def _record(judged: _Judged, cosine: np.ndarray, intervals: _Intervals) -> PriorReranking:
    prior, choosing, reported = judged.prior, judged.choosing.mean(axis=0), judged.reported.mean(axis=0)
    table = tuple(
        PowerRow(
            beta=beta,
            strength=strength,
            chosen_on=float(np.nanmean(choosing[place])),
            reported=float(np.nanmean(reported[place])),
            difference=intervals.difference(reported[place], cosine),
        )
        for place, (beta, strength) in enumerate(zip(prior.betas, STRENGTHS, strict=True))
    )
    return PriorReranking(
        prior=prior.name,
        spread=prior.spread,
        chosen_betas=judged.chosen_betas,
        reported=intervals.mean(judged.chosen),
        difference=intervals.difference(judged.chosen, cosine),
        table=table,
    )


def _words(outcome: Outcome, gain: Interval, beyond: Interval | None, betas: Sequence[float]) -> str:
    if not betas:
        return f"{outcome}: all norms are equal, so no power of them changes a ranking"
    if set(betas) == {0.0}:
        return f"{outcome}: of all powers of the norm the zeroth was best where beta is chosen, so plain cosine stays"
    powers = ", ".join(f"{beta:+.3g}" for beta in sorted(set(betas)))
    length = "no token counts came, so length is not controlled" if beyond is None else f"{span(beyond)} against the same with token counts"
    return f"{outcome}: cosine times norm^beta (beta {powers}) changes nDCG@10 by {span(gain)}, and by {length}"


def _checked(counts: np.ndarray, name: str, size: int, *, least: float) -> np.ndarray:
    if counts.shape != (size,):
        raise InputError(f"{name} have shape {counts.shape} for {size} candidates; expected one count each")
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= least)))
    if bad.size:
        raise InputError(f"{name}: candidate {bad[0]} has {counts[bad[0]]}; expected a finite count of {least:g} or more")
    return counts.astype(np.float64)
