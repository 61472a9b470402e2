"""From judged hits to a calibration with its evidence: bake-off on one part of the queries, every figure on the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Integral, Real

import numpy as np

from normwise.core.calibration_records import CalibrationReport, CalibratorRow, QueryCounts, SignalRow, ThresholdRecord
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.contents import Content
from normwise.data.texts import printable
from normwise.data.thumbnails import ThumbnailBudget
from normwise.report.hits_view import DirectionReport
from normwise.theory.applied_calibration import Applied
from normwise.theory.bake_off import BakeOff, Candidate, bake_off
from normwise.theory.calibration import Calibration
from normwise.theory.calibration_rows import calibrator_row, signal_row
from normwise.theory.calibrators import chosen_right
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.in_threads import in_threads
from normwise.theory.lower_hits import LowerHits
from normwise.theory.norm_gain import norm_gains
from normwise.theory.ranking import metrics_per_query
from normwise.theory.selective_threshold import certified_threshold, check_level, decide
from normwise.theory.selective_verdict import few_answers, passing_target, verdict
from normwise.theory.signals import SIGNALS, signals
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.calibrate_figures import Answers, figures, shown_pictures
from normwise.workflows.calibrate_hits import with_density
from normwise.workflows.calibrate_material import Material
from normwise.workflows.calibrate_split import split_queries

_PACKAGES = ("normwise", "numpy", "scipy", "scikit-learn")
_TEN = 10
_MOST_PRECISION = 0.999999
_THREADS_FROM = 5_000
# Thresholds that may be tested: quantiles of what held-out queries of the fit were given, so that no test label has a say.
_THRESHOLDS = 200


@dataclass(frozen=True)
class Goal:
    """What is asked of a calibration: precision and the confidence in it, which signals, and the seed of every draw."""

    precision: float = 0.95
    confidence: float = 0.9
    signals: str | tuple[str, ...] = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("precision", "confidence"):
            if not _is_number(value := getattr(self, name)):
                raise InputError(f"{name} is {value!r}; expected a number, such as {getattr(Goal, name)}")
            # Numbers of other libraries stand in no calibration file.
            object.__setattr__(self, name, float(value))
        if not 0.0 < self.precision <= _MOST_PRECISION:
            raise InputError(
                f"precision is {self.precision}; expected a share above 0, at most {_MOST_PRECISION}, such as 0.95: no finite data show 1"
            )
        check_level("confidence", self.confidence)
        if not (_is_number(self.seed) and isinstance(self.seed, Integral) and self.seed >= 0):
            raise InputError(f"seed is {self.seed!r}; expected a whole number, 0 or above")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def fit_calibration(
    material: Material, asked: Asked, goal: Goal, *, model_name: str, data_name: str, thumbnails: ThumbnailBudget | None = None
) -> tuple[CalibrationReport, Calibration]:
    """Choose and fit a confidence on one part of the queries, and judge it, its threshold and the norms on the other.

    Args:
        material: judged hits of all queries.
        asked: the queries, for their contents.
        goal: what is asked for.
        model_name: how `normwise calibrate` would name the model again.
        data_name: likewise the data.
        thumbnails: what the page has room for, where there are pictures: the report is then a
            `DirectionReport`.

    Returns:
        The report, without what is written where, and the calibration.

    Raises:
        InputError: too few queries of one kind, or signals that do not exist.
    """
    split = split_queries(material.judged, asked.from_dev, seed=goal.seed)
    judged = material.judged
    if material.vectors is not None:
        judged = with_density(judged, material.found, *material.vectors, split.fit, seed=goal.seed)
    kept = split.test[judged.hits.usable[split.test]]
    fit, test = judged.subset(split.fit), judged.subset(kept)
    found = bake_off(
        fit, temperature=material.temperature, seed=goal.seed, signals=goal.signals, lengths_at_search=material.lengths_at_search
    )
    winner, chosen = found.winner, found.chosen
    probability, place = chosen.predict(test.hits, priors=test.priors), chosen.order(test.hits, priors=test.priors)
    right = chosen_right(test, place)
    rows = _calibrator_rows(found, test, kept, material, asked, seed=goal.seed)
    threshold = certified_threshold(
        probability,
        right,
        target=goal.precision,
        confidence_level=goal.confidence,
        grid=np.unique(np.quantile(winner.held_out[fit.hits.usable], np.linspace(0.0, 1.0, _THRESHOLDS + 1))),
        clusters=_grouped(test),
    )
    own = next(row for row in rows if row.name == chosen.kind)
    judgement = verdict(
        own.intervals["auroc"],
        threshold,
        target=goal.precision,
        confidence_level=goal.confidence,
        queries=len(test),
        right=int(right.sum()),
        passing=_passing(fit, winner, goal) if threshold is None else None,
    )
    if judgement.label != "usable":
        threshold = None
    abstain, _ = decide(probability, threshold)
    gains = norm_gains(found, test, seed=goal.seed)

    def describe(row: int, at: int) -> tuple[Content, str, Content]:
        return asked.judged.queries[int(kept[row])], *material.describe(int(kept[row]), at)

    answers = Answers(probability, place, right, abstain)
    report = CalibrationReport(
        queries=_counts(judged, split.fit, split.test),
        signals=_signal_rows(test, material, seed=goal.seed),
        calibrators=rows,
        chosen=chosen.kind,
        norm_gain=gains[0],
        norm_gains=gains,
        threshold=threshold,
        verdict=judgement,
        precision_target=goal.precision,
        model=material.name,
        data=asked.name,
        similarity=material.similarity.value,
        temperature=material.temperature,
        fingerprint=material.fingerprint,
        figures=figures(test, answers, describe),
        notes=(
            *asked.notes,
            *material.notes,
            *split.notes,
            *_zero_notes(judged, split.test, kept),
            *_choice_notes(found),
            *_few_notes(threshold),
        ),
    )
    calibration = Calibration(
        fingerprint=material.fingerprint,
        calibrator=chosen,
        lower_hits=LowerHits.fit(fit, winner.held_out, places=winner.held_order),
        threshold=threshold,
        verdict=judgement,
        target=goal.precision,
        confidence_level=goal.confidence,
        evidence={name: getattr(own, name) for name in ("ece", "brier", "nll", "auroc", "aurc", "e_aurc", "nauc")},
        model_name=printable(model_name),
        data_name=printable(data_name),
        created=datetime.now(UTC).date().isoformat(),
        versions={name: version(name) for name in _PACKAGES},
    )
    if thumbnails is not None:

        def applied(rows: np.ndarray) -> Applied:
            return calibration.apply(test.subset(rows).hits)

        pictures = shown_pictures(test, answers, describe, applied=applied, budget=thumbnails)
        report = DirectionReport(**{name: getattr(report, name) for name in CalibrationReport.model_fields}, shown=pictures)
    return report, calibration


def ndcg(rows: np.ndarray, places: np.ndarray, relevance: Sequence[Mapping[int, float]], *, size: int) -> np.ndarray:
    """Return nDCG@10 of each query when the hit at `places` is shown first and the others follow as they came; 0 without an answer.

    Args:
        rows: (B, K) rows of the corpus, -1 for candidates that it does not hold.
        places: (B,) which hit is shown first.
        relevance: for each query, row -> gain.
        size: N, how many rows the corpus has.

    Returns:
        (B,) values in 0..1.

    Example:
        >>> ndcg(np.array([[4, 7]]), np.array([1]), [{7: 1.0}], size=9).tolist()
        [1.0]
    """
    # A place of its own for each unknown candidate: no row stands twice in a ranking.
    known = np.where(rows >= 0, rows, size + np.arange(rows.shape[1]))
    ahead = np.take_along_axis(known, places[:, None], axis=1)
    others = np.argsort(np.arange(known.shape[1]) == places[:, None], axis=1, kind="stable")[:, : _TEN - 1]
    others = others[:, : known.shape[1] - 1]
    ranked = np.concatenate([ahead, np.take_along_axis(known, others, axis=1)], axis=1)
    return np.nan_to_num(metrics_per_query(ranked, relevance)["ndcg@10"], nan=0.0)


def _calibrator_rows(
    found: BakeOff, test: JudgedHits, kept: np.ndarray, material: Material, asked: Asked, *, seed: int
) -> tuple[CalibratorRow, ...]:
    hidden = asked.hidden[kept]
    relevance = [{} if hidden[row] else asked.judged.relevance[query] for row, query in enumerate(kept.tolist())]
    searched, size = material.found.rows[kept], len(asked.judged.corpus)
    plain = ndcg(searched, np.zeros(kept.size, dtype=np.int64), relevance, size=size)

    def row(each: Candidate) -> CalibratorRow:
        fitted = found.fitted[each.name]
        order = fitted.order(test.hits, priors=test.priors)
        gains, moved = plain, np.flatnonzero(order)
        if moved.size:
            gains = plain.copy()
            gains[moved] = ndcg(searched[moved], order[moved], [relevance[row] for row in moved.tolist()], size=size)
        return calibrator_row(
            each.name,
            fitted.predict(test.hits, priors=test.priors),
            chosen_right(test, order),
            test.clusters,
            seed=seed,
            ndcg=gains,
            parameters=each.parameters,
            cv_nll=each.cv_nll,
            cv_se=each.cv_se,
            eligible=each.eligible,
            words=each.words,
        )

    return tuple(in_threads(row, found.candidates, size=len(test), least=_THREADS_FROM))


def _signal_rows(test: JudgedHits, material: Material, *, seed: int) -> tuple[SignalRow, ...]:
    read = signals(test.hits, temperature=material.temperature)
    under = {f"score under {each.value}": each.value for each in Similarity} | {"score": material.similarity.value}

    def row(name: str) -> SignalRow:
        return signal_row(
            name,
            read[name],
            test.right,
            test.clusters,
            orientation=SIGNALS[name].orientation,
            seed=seed,
            similarity=under.get(name),
            words=SIGNALS[name].words,
        )

    return tuple(in_threads(row, read, size=len(test), least=_THREADS_FROM))


def _counts(judged: JudgedHits, fit: np.ndarray, test: np.ndarray) -> QueryCounts:
    used = np.concatenate([fit, test])
    return QueryCounts(
        fit=fit.size,
        test=test.size,
        unanswerable=int(np.count_nonzero(~judged.answerable[used])),
        fit_right=int(judged.right[fit].sum()),
        test_right=int(judged.right[test].sum()),
        fit_clusters=np.unique(judged.clusters[fit]).size,
        test_clusters=np.unique(judged.clusters[test]).size,
    )


def _passing(fit: JudgedHits, winner: Candidate, goal: Goal) -> float | None:
    """The target that the queries of the fit would have passed, by their held-out probabilities."""
    usable = fit.hits.usable
    judged = fit.subset(usable)
    return passing_target(
        winner.held_out[usable],
        chosen_right(judged, winner.held_order[usable]),
        target=goal.precision,
        confidence_level=goal.confidence,
        clusters=_grouped(judged),
    )


def _grouped(judged: JudgedHits) -> np.ndarray | None:
    """Clusters, where any holds more than one query."""
    return judged.clusters if np.unique(judged.clusters).size < len(judged) else None


def _few_notes(threshold: ThresholdRecord | None) -> list[str]:
    words = None if threshold is None else few_answers(threshold)
    return [] if words is None else [words]


def _zero_notes(judged: JudgedHits, test: np.ndarray, kept: np.ndarray) -> list[str]:
    zero = int(np.count_nonzero(~judged.hits.usable))
    if not zero:
        return []
    return [
        f"{zero:,} queries are zero vectors, or their first hit is one: their probability is 0 and one abstains on them; "
        f"{test.size - kept.size:,} of them are test queries, and no figure counts them"
    ]


def _choice_notes(found: BakeOff) -> list[str]:
    """What was chosen, and who took no part: those with the same reason together, as it is as often one of the data as of their own."""
    alike: dict[str, list[str]] = {}
    for name, reason in found.left_out.items():
        alike.setdefault(reason, []).append(name)
    missing = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in alike.items())
    return [f"the bake-off chose {found.words}", *([f"left out of the bake-off: {missing}"] if missing else [])]
