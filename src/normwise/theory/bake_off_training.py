"""The queries that a calibrator is fitted on within a bake-off, with the folds by which it chooses what a fit has to choose."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from normwise.theory.calibrators import AnyCalibrator
from normwise.theory.folds import cluster_folds
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.risk_coverage import log_losses
from normwise.theory.signals import NEAR_HITS

# A certain error costs 13.8 nats, not infinitely many: one query must not decide.
CLIP = 1e-6
INNER_FOLDS = 4
# Inverse strengths of the penalty on standardized columns; inner folds choose, the strongest of equals.
PENALTIES = (0.01, 0.1, 1.0)
# From here on inner folds have nothing to say: a penalty moves coefficients by less than they are known, and what a fit of a few
# dozen numbers flatters itself by is a hundredth of a nat, and counted.
INNER_BELOW = 5_000
# Whole rows that a model of at most four numbers is fitted on within an inner fold, where bases are only compared.
INNER_ROWS = 2_000


@dataclass(frozen=True)
class Training:
    """The queries that a calibrator is fitted on, with the folds that it may choose by; all entrants share them.

    Args:
        source: judged queries.
        seed: of the folds.
        tuned: whether a penalty is chosen; else the weakest is taken.
        most: how many queries a model of a few numbers reads that goes through whole rows of hits; None for all.
        used: rows of `source` that are fitted on; None for all. Whole rows of hits are copied only where something reads them.
        fits: what was fitted, by the entrant's name.
    """

    source: JudgedHits
    seed: int
    tuned: bool = True
    most: int | None = None
    used: np.ndarray | None = None
    fits: dict[str, AnyCalibrator] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source) if self.used is None else self.used.size

    @cached_property
    def judged(self) -> JudgedHits:
        """The queries with all their hits."""
        return self.source if self.used is None else self.source.subset(self.used)

    @cached_property
    def near(self) -> JudgedHits:
        """The same queries with the few hits that signals read."""
        near = nearest_hits(self.source)
        return near if self.used is None else near.subset(self.used)

    @cached_property
    def rows(self) -> JudgedHits:
        """The queries whose whole rows are read: all, or `most` of them at even steps."""
        size = len(self)
        if self.most is None or size <= self.most:
            return self.judged
        steps = np.arange(self.most) * size // self.most
        return self.source.subset(steps if self.used is None else self.used[steps])

    @cached_property
    def inner_near(self) -> tuple[tuple[JudgedHits, JudgedHits], ...]:
        """Inner folds of `near`, (fit, judge) each."""
        return tuple((self.near.subset(~used), self.near.subset(used)) for used in self._used())

    @cached_property
    def inner(self) -> tuple[tuple[np.ndarray, JudgedHits, Training], ...]:
        """Inner folds: which rows are judged, those that fit, those that are judged."""
        return tuple((used, self.judged.subset(~used), Training(self.judged.subset(used), self.seed)) for used in self._used())

    @property
    def many(self) -> bool:
        """Whether there are so many queries that inner folds have nothing to say."""
        return len(self) >= INNER_BELOW

    def _used(self) -> list[np.ndarray]:
        judged = self.judged
        if np.unique(judged.clusters).size < 2:
            return []
        folds = cluster_folds(judged.clusters, folds=INNER_FOLDS, seed=self.seed)
        masks = [folds == fold for fold in range(int(folds.max()) + 1)]
        # A part with one kind of answer fits nothing, so then there is no choice to make.
        return masks if all(0 < np.count_nonzero(judged.right[~used]) < np.count_nonzero(~used) for used in masks) else []


def predicted(fitted: AnyCalibrator, asked: Training) -> np.ndarray:
    """Return (B,) probabilities, from the first hits alone where the calibrator reads no more of them."""
    judged = asked.near if fitted.depth is not None and fitted.depth <= NEAR_HITS else asked.judged
    return fitted.predict(judged.hits, priors=judged.priors)


def clipped_log_losses(confidence: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return each answer's negative log likelihood with its probability held inside [1e-6, 1 - 1e-6].

    Example:
        >>> clipped_log_losses(np.array([1.0]), np.array([False])).round(1).tolist()
        [13.8]
    """
    return log_losses(np.clip(confidence, CLIP, 1.0 - CLIP), right)


def nearest_hits(judged: JudgedHits) -> JudgedHits:
    """Return the same queries with the first ten hits each, all that a signal of neighbors reads."""
    if judged.hits.depth <= NEAR_HITS:
        return judged
    hits = judged.hits
    cut = {
        name: getattr(hits, name)[:, :NEAR_HITS]
        for name in ("scores", "hit_norms", "hit_lengths", "hit_frequency", "hit_density")
        if getattr(hits, name) is not None
    }
    return JudgedHits(
        replace(hits, complete=False, **cut),
        judged.relevant[:, :NEAR_HITS],
        judged.clusters,
        judged.answerable,
        {name: values[:, :NEAR_HITS] for name, values in judged.priors.items()},
    )


def tuned_penalty(training: Training, **how: object) -> float:
    """Return the penalty of a logistic that inner folds like best."""
    if not training.tuned or training.many or not training.inner_near:
        return PENALTIES[-1]
    losses = dict.fromkeys(PENALTIES, 0.0)
    for rest, used in training.inner_near:
        for penalty in PENALTIES:
            fitted = LogisticCalibrator.fit(rest, penalty=penalty, **how)  # pyright: ignore[reportArgumentType]
            losses[penalty] += float(clipped_log_losses(fitted.predict(used.hits), used.right).sum())
    return min(losses, key=lambda penalty: losses[penalty])


def tuned_logistic(training: Training, **how: object) -> LogisticCalibrator:
    """Fit a logistic with the penalty that inner folds choose."""
    return LogisticCalibrator.fit(training.near, penalty=tuned_penalty(training, **how), **how)  # pyright: ignore[reportArgumentType]
