"""Does the norm tell right top hits from wrong ones? Logistic models with and without it, judged on held-out clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from normwise.core.errors import InputError
from normwise.core.records import Interval, Outcome
from normwise.core.shapes import Bool, Float, Int
from normwise.core.usefulness_records import Confidence, ConfidenceModel
from normwise.theory.bootstrap import SAMPLES, paired_difference_interval
from normwise.theory.calibration_rows import paired_gain
from normwise.theory.claims import LEVEL, claim_outcome, span
from normwise.theory.folds import cluster_folds
from normwise.theory.rank_design import numeric_columns
from normwise.theory.risk_coverage import aurc, auroc, excess_aurc, log_losses
from normwise.theory.tied_answers import Answers

# Written down before any run. Fewer right or wrong answers than this leave a fold of the cross-validation almost without one
# kind; the published control lowers E-AURC by a tenth, and half of that is the least that would change a threshold.
LEAST_ANSWERS = 30
LEAST_CLUSTERS = 10
LEAST_SHARE = 0.05
FOLDS, INNER_FOLDS = 5, 4
# Inverse strengths of the penalty on standardized columns; the inner folds choose.
PENALTIES = (0.01, 0.1, 1.0)
_TAIL_DRAWS = 20
_EQUAL = 1e-9
_CERTAIN = 1e-12
NORMS = ("log norm of the query", "log norm of the top hit")


@dataclass(frozen=True)
class TopHits:
    """The first place of each query under cosine: its score, its lead over the second, whether it is right, both norms.

    All (B,): `score` and `margin` cosines, `right` bool, `query_norms` and `hit_norms` > 0, `clusters` whole numbers.
    """

    score: np.ndarray
    margin: np.ndarray
    right: np.ndarray
    query_norms: np.ndarray
    hit_norms: np.ndarray
    clusters: np.ndarray

    def __post_init__(self) -> None:
        shapes = {name: values.shape for name, values in vars(self).items()}
        if len(set(shapes.values())) > 1 or self.score.ndim != 1:
            raise InputError(f"TopHits: shapes are {shapes}; expected one value of each per query")
        for name in ("score", "margin", "query_norms", "hit_norms"):
            values = getattr(self, name)
            bad = np.flatnonzero(~np.isfinite(values) | (name.endswith("norms") & (values <= 0.0)))
            if bad.size:
                raise InputError(f"TopHits: {name} of query {bad[0]} is {values[bad[0]]}; expected finite values, norms above 0")


@dataclass(frozen=True)
class _Pairs:
    """Held-out confidences of every model in the same answers, to be compared in pairs."""

    held_out: Mapping[str, np.ndarray]
    right: np.ndarray
    clusters: np.ndarray
    seed: int
    samples: int

    def gains(self, old: str, new: str) -> dict[str, Interval]:
        first, second = self.held_out[old], self.held_out[new]
        losses = log_losses(first, self.right), log_losses(second, self.right)
        how = {"seed": self.seed, "level": LEVEL, "samples": self.samples}
        return {
            "nll": paired_difference_interval(*losses, self.clusters, **how),
            "e_aurc": excess_aurc_gain(first, second, self.right, self.clusters, **how),
        }


def norm_confidence(
    hits: TopHits,
    *,
    controls: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Confidence:
    """Say whether the log norms of query and top hit improve a confidence that a top hit is right.

    Four logistic models: score and margin, linear; the same with both log norms; cubic curves in the rank of score, margin
    and every control beside the linear terms; those with both log norms. Each is fitted on four fifths of the clusters, its
    penalty chosen by the log likelihood of inner folds, and judged on the last fifth, in turn. Curves, because where the
    truth is a bent function of length, a norm that follows length would else mend the bend and be praised for it.

    The claim is "reproduced" if adding the norms to all controls lowers NLL and E-AURC with both 97.5% intervals above 0,
    "not reproduced" if the gain in E-AURC certainly stays below 5% of E-AURC or that in NLL below 0, else "undecided at this
    size". Intervals resample clusters with the held-out confidences given.

    Args:
        hits: B queries.
        controls: (B,) finite numbers by name, such as token counts of the query and of the hit; length must be among them
            for a text encoder, and the caller says so.
        seed: of folds and the bootstrap.
        samples: least number of bootstrap draws.

    Returns:
        All figures. With fewer than 30 right or wrong answers or 10 clusters there are none, and the words say so.

    Raises:
        InputError: a control that does not fit.

    Reference: E3 of norm calibration as a logistic with and without log norm; the controls, nesting and rule are ours.

    Example:
        >>> few = np.ones(4)
        >>> norm_confidence(TopHits(few, few, few > 0, few, few, np.arange(4))).outcome
        'undecided at this size'
    """
    named = dict(controls or {})
    right = hits.right.astype(bool)
    designs = _designs(hits, named)
    found = Confidence(
        queries=right.size,
        right=int(right.sum()),
        clusters=np.unique(hits.clusters).size,
        level=LEVEL,
        controls=tuple(named),
        outcome="undecided at this size",
        words="",
    )
    if (problem := _problem(found)) is not None:
        return found.model_copy(update={"words": problem})
    held_out = {name: held_out_confidence(columns, right, hits.clusters, seed=seed) for name, (_, columns) in designs.items()}
    pairs = _Pairs(held_out, right, hits.clusters, seed, samples)
    plain, with_norm, held, held_with_norm = designs
    beyond = pairs.gains(held, held_with_norm)
    models = {name: _judged(features, held_out[name], right) for name, (features, _) in designs.items()}
    outcome = confidence_outcome(beyond, models[held].e_aurc)
    update = {
        "models": models,
        "gains": pairs.gains(plain, with_norm),
        "gains_beyond": beyond,
        "coefficients": _coefficients(designs[held_with_norm][1], right, hits.clusters, seed=seed),
        "outcome": outcome,
        "words": f"{outcome}: beside curves of {', '.join(['score', 'margin', *named])}, the log norms lower E-AURC "
        f"{models[held].e_aurc:.4f} by {span(beyond['e_aurc'])} and NLL {models[held].nll:.4f} by {span(beyond['nll'])}",
    }
    return found.model_copy(update=update)


def confidence_outcome(gains: Mapping[str, Interval], e_aurc: float) -> Outcome:
    """Return what gains in "e_aurc" and "nll" allow one to say: both must lie above 0; see `norm_confidence` for the rule.

    Example:
        >>> up, down = Interval(mean=0.02, ci_low=0.01, ci_high=0.03), Interval(mean=-0.02, ci_low=-0.03, ci_high=-0.01)
        >>> confidence_outcome({"e_aurc": up, "nll": up}, 0.1), confidence_outcome({"e_aurc": up, "nll": down}, 0.1)
        ('reproduced', 'not reproduced')
    """
    return claim_outcome([(gains["e_aurc"], LEAST_SHARE * e_aurc), (gains["nll"], 0.0)])


def held_out_confidence(
    columns: Float[np.ndarray, "B C"], right: Bool[np.ndarray, " B"], clusters: Int[np.ndarray, " B"], *, seed: int
) -> Float[np.ndarray, " B"]:
    """Return for each answer its probability of being right, by a logistic model that saw no query of its cluster.

    Args:
        columns: (B, C) standardized features.
        right: (B,) the answers.
        clusters: (B,) at least two clusters.
        seed: of the folds, outer and inner.

    Returns:
        (B,) probabilities strictly inside 0..1.
    """
    folds = cluster_folds(clusters, folds=FOLDS, seed=seed)
    result = np.empty(right.size)
    for fold in range(int(folds.max()) + 1):
        rest, used = folds != fold, folds == fold
        penalty = _best_penalty(columns[rest], right[rest], clusters[rest], seed=seed + 1 + fold)
        result[used] = _probabilities(columns[rest], right[rest], columns[used], penalty)
    return result


def excess_aurc_gain(
    baseline: Float[np.ndarray, " B"],
    candidate: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " B"],
    clusters: Int[np.ndarray, " B"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int = SAMPLES,
) -> Interval:
    """Return how much lower the candidate's E-AURC is than the baseline's, with its paired cluster bootstrap interval.

    Equation: E-AURC(baseline) - E-AURC(candidate), recomputed on every draw of C clusters with replacement; a query drawn
    twice counts twice.

    Args:
        baseline: (B,) confidences of the one.
        candidate: (B,) confidences of the other in the same answers.
        right: (B,) the answers.
        clusters: (B,) the cluster of each query.
        seed: of the draws.
        level: coverage in 0..1.
        samples: least number of draws; more are taken so that at least 20 lie in each tail.

    Returns:
        The interval, positive = the candidate is better; None around the mean with a single cluster.

    Example:
        >>> right, good, bad = np.array([True, False] * 9), np.array([0.9, 0.1] * 9), np.array([0.1, 0.9] * 9)
        >>> excess_aurc_gain(bad, good, right, np.arange(18), seed=0).ci_low > 0
        True
    """
    draws = max(samples, math.ceil(2.0 * _TAIL_DRAWS / (1.0 - level)))
    old, new = Answers(baseline, right), Answers(candidate, right)
    return paired_gain("e_aurc", old, new, clusters, seed=seed, level=level, samples=draws)


def _designs(hits: TopHits, controls: Mapping[str, np.ndarray]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The four models: their features' names and their standardized columns. No column knows the answers."""
    for name, values in controls.items():
        if values.shape != hits.score.shape or not np.isfinite(values).all():
            raise InputError(f"control {name!r}: expected {hits.score.size} finite numbers, one per query, got shape {values.shape}")
    plain = {"score": hits.score, "margin": hits.margin}
    linear = np.stack([_standardized(values) for values in plain.values()], axis=1)
    norms = np.stack([_standardized(np.log(values)) for values in (hits.query_norms, hits.hit_norms)], axis=1)
    held = {**plain, **controls}
    curves = [numeric_columns(values).shape for values in held.values() if np.ptp(values) > _EQUAL]
    bent = np.concatenate([linear, *curves], axis=1)
    names = tuple(f"curve of {name}" for name in held)
    return {
        "score and margin": (tuple(plain), linear),
        "score, margin and norms": ((*plain, *NORMS), np.concatenate([linear, norms], axis=1)),
        "controls": ((*plain, *names), bent),
        "controls and norms": ((*plain, *names, *NORMS), np.concatenate([bent, norms], axis=1)),
    }


def _standardized(values: np.ndarray) -> np.ndarray:
    spread = values.std()
    return (values - values.mean()) / (spread if spread > _EQUAL else 1.0)


def _best_penalty(columns: np.ndarray, right: np.ndarray, clusters: np.ndarray, *, seed: int) -> float:
    folds = cluster_folds(clusters, folds=INNER_FOLDS, seed=seed)
    losses = dict.fromkeys(PENALTIES, 0.0)
    for fold in range(int(folds.max()) + 1):
        rest, used = folds != fold, folds == fold
        for penalty in PENALTIES:
            losses[penalty] += float(log_losses(_probabilities(columns[rest], right[rest], columns[used], penalty), right[used]).sum())
    return min(losses, key=lambda penalty: losses[penalty])


def _probabilities(columns: np.ndarray, right: np.ndarray, asked: np.ndarray, penalty: float) -> np.ndarray:
    if right.all() or not right.any():
        return np.full(asked.shape[0], (right.sum() + 0.5) / (right.size + 1.0))
    # A saturated 0 or 1 would make one wrong answer infinitely bad.
    model = _fitted(columns, right, penalty)
    return np.clip(expit(asked @ np.ravel(model.coef_) + np.ravel(model.intercept_)), _CERTAIN, 1.0 - _CERTAIN)


def _fitted(columns: np.ndarray, right: np.ndarray, penalty: float) -> LogisticRegression:
    # Hundreds of small fits of columns that were checked once: the library's own checks would take most of the time.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=200).fit(columns, right)


def _judged(features: tuple[str, ...], confidence: np.ndarray, right: np.ndarray) -> ConfidenceModel:
    return ConfidenceModel(
        features=features,
        nll=float(log_losses(confidence, right).mean()),
        aurc=aurc(confidence, right),
        e_aurc=excess_aurc(confidence, right),
        auroc=auroc(confidence, right),
    )


def _coefficients(columns: np.ndarray, right: np.ndarray, clusters: np.ndarray, *, seed: int) -> dict[str, float]:
    """Those of the norms, whose columns stand last, in a fit on all queries."""
    model = _fitted(columns, right, _best_penalty(columns, right, clusters, seed=seed))
    return dict(zip(NORMS, model.coef_[0][-len(NORMS) :].tolist(), strict=True))


def _problem(found: Confidence) -> str | None:
    wrong = found.queries - found.right
    if min(found.right, wrong) >= LEAST_ANSWERS and found.clusters >= LEAST_CLUSTERS:
        return None
    return (
        f"undecided at this size: {found.right} right and {wrong} wrong top hits in {found.clusters} clusters; "
        f"expected at least {LEAST_ANSWERS} of both and {LEAST_CLUSTERS} clusters"
    )
