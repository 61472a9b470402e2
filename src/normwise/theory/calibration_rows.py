"""A calibrator and a signal on test queries: every figure of confidence, each with its cluster bootstrap interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from normwise.core.calibration_records import CalibratorRow, SignalRow
from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.abstention_nauc import checked_metric, naucs
from normwise.theory.brier import brier_values
from normwise.theory.calibration_error import debiased_errors, ks_errors, mass_errors, width_errors
from normwise.theory.metric_intervals import centered_interval, drawn_figures, percentile_interval
from normwise.theory.resamples import Resamples, once
from normwise.theory.risk_coverage import aurc, auroc, excess_aurc, negative_log_likelihood
from normwise.theory.selective_metrics import areas, coverages_at, excess_areas, excess_of, pair_shares, risks
from normwise.theory.tied_answers import Answers, RankedResamples, TiedAnswers, checked_clusters, rank

RISKS = (0.01, 0.05, 0.1, 0.2)
COVERAGES = (0.5, 0.8, 0.9, 1.0)
CERTAIN_AND_WRONG = "an answer held for certain was wrong (or one held for impossible right): the negative log likelihood is infinite"

Metric = Literal["aurc", "e_aurc", "auroc", "brier", "nll", "ece", "ece_mass"]

# Figures that resampling pushes up, and the least they can be.
_PUSHED_UP = {"ece": 0.0, "ece_mass": 0.0, "ece_debiased": 0.0, "ks": 0.0, "reliability": 0.0, "resolution": -1.0}
_ALWAYS_DEFINED = (*_PUSHED_UP, "brier", "uncertainty", "aurc", "e_aurc", "precision")
_HIGHER_IS_BETTER = ("auroc",)


def calibrator_row(
    name: str,
    confidence: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " _"],
    clusters: Int[np.ndarray, " _"],
    *,
    seed: int,
    ndcg: Float[np.ndarray, " _"] | None = None,
    level: float = 0.95,
    samples: int | None = None,
    parameters: int = 0,
    cv_nll: float | None = None,
    cv_se: float | None = None,
    eligible: bool = True,
    words: str = "",
) -> CalibratorRow:
    """Return every figure of one calibrator on test queries, with intervals that resample whole clusters.

    Keys of `intervals`: the names of the figures, "precision" (share right), "coverage_at_risk@0.05" and
    "risk_at_coverage@0.8" for each level of `RISKS` and `COVERAGES`. Ends are percentiles (`percentile_interval`); those of
    calibration errors, reliability and resolution are centered (`centered_interval`). A figure that no draw can move, such as
    the AURC where all are right, has an interval of no width: the bootstrap cannot see errors that the sample lacks.

    Args:
        name: of the calibrator.
        confidence: (B,) probabilities that the first hit is right, 0 to 1.
        right: (B,) whether it is.
        clusters: (B,) queries of one cluster are drawn together.
        seed: of the draws; equal seeds and clusters give equal draws.
        ndcg: (B,) nDCG@10 of the ranking that the calibrator leads to, 0 for a query without an answer; None: no nAUC.
        level: coverage of the intervals in 0..1.
        samples: number of draws; None for `draws_for`: 1,000 up to 10,000 queries, 200 from 50,000.
        parameters: as in the record, as are `cv_nll`, `cv_se`, `eligible` and `words`.
        cv_nll: see `parameters`.
        cv_se: see `parameters`.
        eligible: see `parameters`.
        words: see `parameters`; a sentence on an infinite likelihood is added.

    Returns:
        The row. `nll` is None where it is infinite, `auroc` where all answers are right or all wrong, `nauc` where nDCG is the
        same throughout; intervals have no ends with fewer than two clusters.

    Raises:
        InputError: no answer, lengths differ, or a value that is not finite or no probability; it names calibrator and query.

    Example:
        >>> row = calibrator_row("softmax", np.array([0.9, 0.6]), np.array([True, False]), np.array([0, 1]), seed=0)
        >>> row.auroc, row.coverage_at_risk["0.05"], row.risk_at_coverage["1"]
        (1.0, 0.5, 0.5)
    """
    try:
        answers = Answers(confidence, right).as_probabilities()
        ranking = rank(answers.confidence)
        metric = None if ndcg is None else checked_metric(ndcg, answers.confidence)
        checked_clusters(clusters, right)
    except InputError as error:
        raise InputError(f"calibrator {name!r}: {error}") from None
    oracle = None if metric is None else rank(metric)
    certain_and_wrong = not np.isfinite(negative_log_likelihood(answers.confidence, right))

    def figures(resamples: Resamples) -> dict[str, np.ndarray]:
        ranked = RankedResamples(ranking, resamples)
        values = _figures(TiedAnswers(ranked, right), likelihood=not certain_and_wrong)
        if metric is None or oracle is None:
            return values
        return values | {"nauc": naucs(ranked, RankedResamples(oracle, resamples), metric)}

    plain = {key: float(value[0]) for key, value in figures(once(len(answers))).items()}
    # The published functions, so that one figure is one number wherever it is shown.
    plain |= {"aurc": aurc(answers.confidence, right), "e_aurc": excess_aurc(answers.confidence, right)}
    found = {key: _defined(value) for key, value in plain.items()}
    draws = drawn_figures(figures, clusters, seed=seed, level=level, samples=samples)
    return CalibratorRow(
        name=name,
        nll=found.get("nll"),
        auroc=found["auroc"],
        nauc=found.get("nauc"),
        **{key: plain[key] for key in _ALWAYS_DEFINED},
        coverage_at_risk={f"{risk:g}": plain[f"coverage_at_risk@{risk:g}"] for risk in RISKS},
        risk_at_coverage={f"{share:g}": plain[f"risk_at_coverage@{share:g}"] for share in COVERAGES},
        intervals={key: _interval(key, value, draws, level=level) for key, value in found.items()},
        parameters=parameters,
        cv_nll=cv_nll,
        cv_se=cv_se,
        eligible=eligible,
        words="; ".join(filter(None, (words, CERTAIN_AND_WRONG if certain_and_wrong else ""))),
    )


def signal_row(
    name: str,
    values: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " _"],
    clusters: Int[np.ndarray, " _"],
    *,
    orientation: int,
    seed: int,
    similarity: str | None = None,
    level: float = 0.95,
    samples: int | None = None,
    words: str = "",
) -> SignalRow:
    """Return how well one signal alone tells right first hits from wrong ones, with its cluster bootstrap interval.

    Args:
        name: of the signal.
        values: (B,) finite numbers of any scale.
        right: (B,) whether each first hit is right.
        clusters: (B,) queries of one cluster are drawn together.
        orientation: 1 where a higher value should mean more confidence, -1 where a lower one should.
        seed: of the draws.
        similarity: under which similarity a score is read.
        level: coverage of the interval in 0..1.
        samples: number of draws; None for `draws_for`.
        words: one line for the reader.

    Returns:
        The row, AUROC after orientation: below .5 the signal points the other way on these data. None where all answers are
        right or all are wrong.

    Raises:
        InputError: no answer, lengths differ, a value is not finite, or another orientation; it names signal and query.

    Example:
        >>> signal_row("entropy", np.array([0.1, 2.0]), np.array([True, False]), np.array([0, 1]), orientation=-1, seed=0).auroc
        1.0
    """
    if orientation not in (1, -1):
        raise InputError(f"signal {name!r}: orientation is {orientation}; expected 1 (higher = more confident) or -1")
    try:
        answers = Answers(values, right)
        checked_clusters(clusters, right)
    except InputError as error:
        raise InputError(f"signal {name!r}: {str(error).replace('confidence of', 'value of').replace('confidence', 'values')}") from None
    ranking = rank(orientation * answers.confidence)

    def figures(resamples: Resamples) -> dict[str, np.ndarray]:
        return {"auroc": pair_shares(TiedAnswers(RankedResamples(ranking, resamples), right))}

    draws = drawn_figures(figures, clusters, seed=seed, level=level, samples=samples)
    found = _interval("auroc", auroc(orientation * answers.confidence, right), draws, level=level)
    return SignalRow(name=name, auroc=found.mean, ci_low=found.ci_low, ci_high=found.ci_high, similarity=similarity, words=words)


def paired_gain(
    metric: Metric,
    old: Answers,
    new: Answers,
    clusters: Int[np.ndarray, " B"],
    *,
    seed: int,
    level: float = 0.95,
    samples: int | None = None,
) -> Interval:
    """Return by how much `new` is better than `old` in one figure of the same queries, with its paired bootstrap interval.

    Equation: metric(old) - metric(new), for AUROC the reverse, recomputed on every draw of whole clusters, the same draws for
    both. The two may judge different first hits, as before and after re-ranking: each has its own `right`, and E-AURC then
    its own best order.

    Args:
        metric: the figure.
        old: what is to be improved on.
        new: the other, of the same queries in the same order.
        clusters: (B,) queries of one cluster are drawn together.
        seed: of the draws.
        level: coverage in 0..1.
        samples: number of draws; None for `draws_for`.

    Returns:
        The interval, positive = the new one is better. The mean is None where the figure is undefined or infinite in either;
        no ends with fewer than two clusters.

    Raises:
        InputError: an unknown metric, lengths differ, or confidences that are no probabilities where the metric needs them.

    Example:
        >>> right = np.array([True, False] * 9)
        >>> good, bad = Answers(np.array([0.9, 0.1] * 9), right), Answers(np.array([0.1, 0.9] * 9), right)
        >>> paired_gain("e_aurc", bad, good, np.arange(18), seed=0).ci_low > 0
        True
    """
    if metric not in _METRICS:
        raise InputError(f"metric is {metric!r}; expected one of {', '.join(_METRICS)}")
    if len(old) != len(new):
        raise InputError(f"old has {len(old)} answers, new {len(new)}: a paired gain needs the same queries")
    checked_clusters(clusters, old.right)
    if metric not in _BY_ORDER:
        old.as_probabilities()
        new.as_probabilities()
    rankings = rank(old.confidence), rank(new.confidence)
    sign = -1.0 if metric in _HIGHER_IS_BETTER else 1.0

    def figures(resamples: Resamples) -> dict[str, np.ndarray]:
        before, after = (
            _METRICS[metric](TiedAnswers(RankedResamples(ranking, resamples), answers.right))
            for ranking, answers in zip(rankings, (old, new), strict=True)
        )
        # Two infinite likelihoods have no difference.
        finite = np.isfinite(before) & np.isfinite(after)
        return {"gain": sign * np.subtract(before, after, out=np.full(before.shape, np.nan), where=finite)}

    mean = _defined(figures(once(len(old)))["gain"][0])
    draws = {} if mean is None else drawn_figures(figures, clusters, seed=seed, level=level, samples=samples)
    return percentile_interval(mean, draws.get("gain"), level=level)


def likelihoods(tied: TiedAnswers) -> Float[np.ndarray, " R"]:
    """Return the `negative_log_likelihood` of each resample; infinite where it holds a wrong certainty."""
    p, right, wrong = tied.confidence, tied.right_counts, tied.wrong_counts
    none, all_of_it = p == 0.0, p == 1.0
    losses = -(right @ np.log(np.where(none, 1.0, p)) + wrong @ np.log1p(np.where(all_of_it, 0.0, -p))) / tied.size
    return np.where(right[:, none].any(axis=1) | wrong[:, all_of_it].any(axis=1), np.inf, losses)


def _figures(tied: TiedAnswers, *, likelihood: bool) -> dict[str, np.ndarray]:
    curve, area = risks(tied, np.array(COVERAGES)), areas(tied)
    return {
        "ece": width_errors(tied),
        "ece_mass": mass_errors(tied),
        "ece_debiased": debiased_errors(tied),
        "ks": ks_errors(tied),
        **brier_values(tied),
        **({"nll": likelihoods(tied)} if likelihood else {}),
        "auroc": pair_shares(tied),
        "aurc": area,
        "e_aurc": excess_of(area, tied),
        "precision": tied.held_right[:, -1] / tied.size,
        **{f"coverage_at_risk@{risk:g}": coverages_at(tied, risk) for risk in RISKS},
        **{f"risk_at_coverage@{share:g}": curve[:, place] for place, share in enumerate(COVERAGES)},
    }


def _interval(name: str, estimate: float | None, draws: Mapping[str, np.ndarray], *, level: float) -> Interval:
    if name in _PUSHED_UP:
        return centered_interval(estimate, draws.get(name), level=level, least=_PUSHED_UP[name])
    return percentile_interval(estimate, draws.get(name), level=level)


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


_METRICS = {
    "aurc": areas,
    "e_aurc": excess_areas,
    "auroc": pair_shares,
    "brier": lambda tied: brier_values(tied)["brier"],
    "nll": likelihoods,
    "ece": width_errors,
    "ece_mass": mass_errors,
}
_BY_ORDER = ("aurc", "e_aurc", "auroc")
