"""Which confidence to trust: every calibrator judged on queries that it did not see, the simplest of the best chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool
from normwise.theory.bake_off_choice import HeldOut, barred, choose
from normwise.theory.bake_off_entrants import Entrant, Setting, check_signals, entrants
from normwise.theory.bake_off_training import Training, predicted
from normwise.theory.calibrators import AnyCalibrator, chosen_right
from normwise.theory.folds import cluster_folds
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.in_threads import in_threads
from normwise.theory.norm_gain import NormPair, fit_norm_pair
from normwise.theory.standard_error import standard_error

# Written down before any run. With fewer right or wrong first hits than 30 a fold of the cross-validation is left with a handful
# of one kind, and with fewer clusters than 10 a fold of five holds only one: its figures would be those of single topics.
LEAST_ANSWERS = 30
LEAST_CLUSTERS = 10
# The fewest of either kind that the queries outside a fold must hold.
LEAST_OUTSIDE = 5
FOLDS = 5
# From so many queries on, folds run two at a time: a fold holds copies of its hits.
THREADS_FROM = 5_000
# Whole rows that a model of at most four numbers is fitted on: more would move a held-out NLL by less than 1e-3.
MOST_ROWS = 10_000


@dataclass(frozen=True)
class Candidate:
    """One calibrator on the queries of the fit, each judged by a fit that saw no query of its cluster.

    Args:
        name: of the calibrator.
        parameters: free numbers of the fit on all queries.
        cv_nll: mean negative log likelihood of its held-out probabilities, held inside [1e-6, 1 - 1e-6].
        cv_se: cluster-robust standard error of that mean.
        behind: paired mean difference to the eligible candidate of least NLL; 0 for that one.
        behind_se: cluster-robust standard error of the paired difference.
        accuracy: share of right first hits, after re-ranking where it does.
        eligible: whether it may be chosen.
        words: why not, or how near to the best.
        held_out: (B,) held-out probabilities of all queries of the fit, 0 for those without a direction.
        held_order: (B,) the place that it puts first, by the same fits.
    """

    name: str
    parameters: int
    cv_nll: float
    cv_se: float
    behind: float
    behind_se: float
    accuracy: float
    eligible: bool
    words: str
    held_out: np.ndarray = field(repr=False)
    held_order: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class BakeOff:
    """What the bake-off found.

    Args:
        candidates: from the plainest on.
        chosen: the fit of the chosen one on all queries.
        fitted: that of every candidate, by name.
        left_out: calibrators that the data do not allow, with the reason.
        words: what was chosen and why.
        norm_pair: two logistics that differ by the log norms alone, for `norm_gains`.
    """

    candidates: tuple[Candidate, ...]
    chosen: AnyCalibrator
    fitted: Mapping[str, AnyCalibrator]
    left_out: Mapping[str, str]
    words: str
    norm_pair: NormPair

    @property
    def winner(self) -> Candidate:
        """The row of the chosen calibrator."""
        return next(each for each in self.candidates if each.name == self.chosen.kind)


def bake_off(
    fit: JudgedHits, *, temperature: float | None, seed: int, signals: str | Sequence[str] = "auto", lengths_at_search: bool
) -> BakeOff:
    """Fit every calibrator that the data allow, judge each on held-out clusters, and choose the simplest of the best.

    Five outer folds keep clusters whole and give every query a probability by a fit that saw no query of its cluster; inside each
    of them, four inner folds choose what a fit has to choose (the penalty of a logistic, the base of isotonic or beta).
    From 5,000 queries on there is no choice of penalty, and AIC chooses the base; models of at most four numbers that read whole rows
    are fitted on at most 10,000 queries, at even steps.

    The rule: among eligible calibrators take the least mean held-out NLL, every probability held inside [1e-6, 1 - 1e-6]; then,
    of all whose paired mean difference to it is at most one standard error of that difference (cluster-robust), the one of fewest
    parameters; of equals the one that comes first in the list from softmax on. The paired error is smaller than that of either
    mean, so this asks more of the simpler one than the rule of one standard error of the best mean does.

    Eligible is what a search can compute: no calibrator with frequencies or with a prior other than the norm, none with lengths
    unless `lengths_at_search`. A re-ranking by the norm is eligible only if the hits that it puts first are relevant more often,
    on held-out queries, than those of the plain ranking and those of the same re-ranking by length, both paired 95% intervals
    above 0; its NLL is of its own first hits.

    Args:
        fit: judged queries; those without a direction are left out of fit and figures. At least 30 right and 30 wrong first hits
            and 10 clusters.
        temperature: tau of the training loss, > 0; None leaves softmax and entropy out.
        seed: of folds and the bootstrap.
        signals: "auto", or names of signals: then the logistic reads exactly these and is the one chosen.
        lengths_at_search: whether a later search knows the lengths of query and hits.

    Returns:
        All figures and all fits.

    Raises:
        InputError: too few right or wrong first hits or clusters, one kind only, no usable query, signals that do not exist or
            that a search lacks.

    Reference: E0 to E6 of norm calibration; the rule of one standard error is Breiman et al. (1984), in pairs; gates are ours.
    """
    usable = fit.hits.usable
    judged = fit if usable.all() else fit.subset(usable)
    _check(judged, queries=len(fit))
    setting = Setting(temperature, lengths_at_search)
    if signals != "auto":
        setting = replace(setting, signals=check_signals(signals, judged.hits, setting))
    folds = _folds(judged, seed=seed)
    field_of, left_out = entrants(judged, setting)
    whole = Training(judged, seed, most=MOST_ROWS)
    runs, fitted, problems = _fitted(judged, field_of, folds, whole)
    runs = {name: runs[name] for name in fitted}
    if not any(run.open for run in runs.values()):
        raise InputError(f"no calibrator can be fitted to these queries: {'; '.join(f'{n}: {why}' for n, why in problems.items())}")
    candidates, chosen, words = _judged(runs, fitted, judged, usable, seed=seed, forced="logistic" if setting.signals else None)
    return BakeOff(candidates, fitted[chosen], fitted, left_out | problems, words, fit_norm_pair(whole, setting))


def _check(judged: JudgedHits, *, queries: int) -> None:
    """Refuse what no fold can learn from, before work starts."""
    if not len(judged):
        raise InputError(f"for each of {queries} queries, the query or its first hit is a zero vector: check the model")
    right, clusters = int(judged.right.sum()), np.unique(judged.clusters).size
    wrong = len(judged) - right
    if min(right, wrong) == 0:
        kind = "right" if right else "wrong"
        raise InputError(
            f"all {len(judged)} first hits are {kind}: nothing tells right from wrong; give queries of both kinds, "
            "such as harder ones, some without an answer, or check the judgements"
        )
    if min(right, wrong) < LEAST_ANSWERS:
        raise InputError(
            f"{right} first hits are right and {wrong} wrong; expected at least {LEAST_ANSWERS} of both: give more judged queries"
        )
    if clusters < LEAST_CLUSTERS:
        raise InputError(
            f"{len(judged)} queries form {clusters} clusters (equal texts and shared documents stay together); "
            f"expected at least {LEAST_CLUSTERS}: give queries on other documents"
        )


def _folds(judged: JudgedHits, *, seed: int) -> np.ndarray:
    folds = cluster_folds(judged.clusters, folds=FOLDS, seed=seed)
    for fold in range(int(folds.max()) + 1):
        outside = judged.right[folds != fold]
        right = int(outside.sum())
        if min(right, outside.size - right) < LEAST_OUTSIDE:
            raise InputError(
                f"without one fifth of the clusters {right} first hits are right and {outside.size - right} wrong; expected at "
                f"least {LEAST_OUTSIDE} of both: nearly all of one kind lie in one cluster; give queries on other documents"
            )
    return folds


def _fitted(
    judged: JudgedHits, field_of: Sequence[Entrant], folds: np.ndarray, whole: Training
) -> tuple[dict[str, HeldOut], dict[str, AnyCalibrator], dict[str, str]]:
    """What every entrant says of each fold when fitted on the others, its fit on all, and why some could not be fitted."""
    confidence = {each.name: np.zeros(len(judged)) for each in field_of}
    order = {each.name: np.zeros(len(judged), dtype=np.int64) for each in field_of}
    problems: dict[str, str] = {}

    def run(fold: int | None) -> dict[str, Any]:
        if fold is None:
            return {each.name: _attempt(each, whole) for each in field_of}
        inside = folds == fold
        training = Training(judged, whole.seed + 1 + fold, most=MOST_ROWS, used=np.flatnonzero(~inside))
        held = Training(judged, whole.seed, used=np.flatnonzero(inside))
        return {each.name: _held_out(each, training, held) for each in field_of}

    # The largest first, so that no thread is left with it alone.
    fits, *parts = in_threads(run, [None, *range(int(folds.max()) + 1)], size=len(judged), least=THREADS_FROM, most=2)
    for fold, results in enumerate(parts):
        used = folds == fold
        for name, result in results.items():
            if isinstance(result, str):
                problems.setdefault(name, result)
                continue
            confidence[name][used] = result[0]
            if result[1] is not None:
                order[name][used] = result[1]
    runs = {
        each.name: HeldOut(each, confidence[each.name], order[each.name], chosen_right(judged, order[each.name]))
        for each in field_of
        if each.name not in problems
    }
    problems |= {name: fit for name, fit in fits.items() if name in runs and isinstance(fit, str)}
    return runs, {name: fits[name] for name in runs if name not in problems}, problems


def _held_out(each: Entrant, training: Training, held: Training) -> tuple[np.ndarray, np.ndarray | None] | str:
    """Its held-out probabilities, and which hit it puts first where it re-ranks; or why it could not be fitted."""
    fitted = _attempt(each, training)
    if isinstance(fitted, str):
        return fitted
    order = fitted.order(held.judged.hits, priors=held.judged.priors) if each.reranks_by is not None else None
    return predicted(fitted, held), order


def _attempt(each: Entrant, training: Training) -> AnyCalibrator | str:
    """Its fit on these queries, or why there is none."""
    try:
        return each.fitted(training)
    except InputError as problem:
        return str(problem)


def _judged(
    runs: Mapping[str, HeldOut],
    fitted: Mapping[str, AnyCalibrator],
    judged: JudgedHits,
    usable: Bool[np.ndarray, " _"],
    *,
    seed: int,
    forced: str | None,
) -> tuple[tuple[Candidate, ...], str, str]:
    bars = {name: barred(run, runs, judged, seed=seed) for name, run in runs.items()}
    losses = {name: run.losses for name, run in runs.items()}
    chosen, best = choose(
        {name: losses[name] for name in runs if not bars[name]}, {name: fitted[name].parameters for name in runs}, judged.clusters
    )
    words = (
        f"{chosen}: the simplest within one standard error of the best, and itself the best: the least held-out NLL "
        f"({losses[chosen].mean():.4f}) of {len(runs)} calibrators"
    )
    if chosen != best:
        words = (
            f"{chosen}: the simplest within one standard error of {best}, the best of {len(runs)} calibrators on held-out queries "
            f"(NLL {losses[chosen].mean():.4f} and {losses[best].mean():.4f})"
        )
    if forced is not None:
        if forced not in runs:
            raise InputError("signals: the logistic on the named signals could not be fitted")
        chosen, words = forced, f"{forced}: on the signals that were asked for (best of all on held-out queries: {best})"
    rows = []
    for name, run in runs.items():
        behind = losses[name] - losses[best]
        error = standard_error(behind, judged.clusters)
        rows.append(
            Candidate(
                name=name,
                parameters=fitted[name].parameters,
                cv_nll=float(losses[name].mean()),
                cv_se=standard_error(losses[name], judged.clusters) or 0.0,
                behind=float(behind.mean()),
                behind_se=error or 0.0,
                accuracy=float(run.right.mean()),
                eligible=not bars[name],
                words=bars[name] or ("the best" if name == best else f"behind the best by {behind.mean():.4f} ± {error or 0.0:.4f}"),
                held_out=_spread(run.confidence, usable),
                held_order=_spread(run.order, usable),
            )
        )
    return tuple(rows), chosen, words


def _spread(values: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Values of the usable queries at their places among all, 0 at the others."""
    result = np.zeros(usable.size, dtype=values.dtype)
    result[usable] = values
    return result
