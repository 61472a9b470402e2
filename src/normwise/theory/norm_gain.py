"""What the norms add to a confidence on queries that fitted nothing, all else held, and what shuffled norms add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.stats import norm as normal

from normwise.core.calibration_records import NormGain
from normwise.core.records import Interval
from normwise.core.shapes import Bool, Float
from normwise.theory.bake_off_entrants import Setting, known_controls, norms_vary
from normwise.theory.bake_off_training import Training, clipped_log_losses, nearest_hits, tuned_penalty
from normwise.theory.bootstrap import SAMPLES, cluster_mean_interval
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.norm_confidence import LEAST_SHARE, excess_aurc_gain
from normwise.theory.risk_coverage import excess_aurc
from normwise.theory.standard_error import standard_error

METRICS = ("e_aurc", "nll", "brier")
NULL = "e_aurc of shuffled norms"
# From here on a bootstrap of the area costs seconds, and what its linear part leaves out is less than a thousandth of it.
LINEAR_FROM = 5_000
_WORDS = {"e_aurc": "E-AURC", "nll": "NLL", "brier": "the Brier score", NULL: "E-AURC"}


@dataclass(frozen=True)
class NormPair:
    """Two logistics, fitted on the same queries, that differ by the log norms of query and hit alone.

    Args:
        without: the one without norms.
        with_norm: the one with them; `without` itself where all norms are equal.
        shuffled: as `with_norm`, fitted with norms shuffled among queries; None where all norms are equal.
        controls: the signals that all of them hold, as curves.
    """

    without: LogisticCalibrator
    with_norm: LogisticCalibrator
    shuffled: LogisticCalibrator | None
    controls: tuple[str, ...]


@runtime_checkable
class _Fitted(Protocol):
    """A bake-off, or whatever else fitted such a pair."""

    @property
    def norm_pair(self) -> NormPair: ...


def fit_norm_pair(training: Training, setting: Setting) -> NormPair:
    """Fit both logistics, and the one on shuffled norms, with the penalty that is best without norms.

    All that is held enters as curves, since a norm must not be praised for mending the bend of a line. One penalty serves all
    three, so that a difference is of the norms and not of two choices; it is the best of the one without them.

    Args:
        training: usable judged queries.
        setting: the training temperature, if it is known.

    Returns:
        The pair; score, margin, entropy where the temperature is known, and lengths and frequencies where known are held.
    """
    held = (*setting.score_signals, *known_controls(training.near.hits))
    how = {"signals": (), "controls": held, "temperature": setting.temperature}
    how["penalty"] = tuned_penalty(training, kind="logistic_controls", **how)
    near = training.near
    without = LogisticCalibrator.fit(near, kind="logistic_controls", **how)
    if not norms_vary(near.hits):
        return NormPair(without, without, None, held)
    with_norm = LogisticCalibrator.fit(near, kind="logistic_controls_norm", **how)
    mixed = replace(near, hits=shuffled_norms(near.hits, seed=training.seed))
    return NormPair(without, with_norm, LogisticCalibrator.fit(mixed, kind="logistic_controls_norm", **how), held)


def norm_gains(fitted: _Fitted, test: JudgedHits, *, seed: int, level: float = 0.95, samples: int = SAMPLES) -> tuple[NormGain, ...]:
    """Say by how much each figure falls on test queries when norms join a confidence that holds all else.

    Equation: delta = figure(without norms) - figure(with norms), of two logistics fitted on the same other queries. Both read
    score, margin and, where a temperature is known, entropy, and curves of lengths and frequencies where those are known; one
    reads the log norms of query and hit as well. Intervals are of a paired bootstrap over clusters, the fits given; from
    5,000 queries on they are normal, from the linear part of the same difference.

    The words say "helped" where the interval lies above 0; "did not help" where it lies below 0, or, for E-AURC, certainly below 5%
    of the figure without norms; else that it cannot be told at this size.

    The first is "e_aurc", then "nll" and "brier". The last is a check: the gain in E-AURC of norms that were shuffled among
    queries before the fit and before the test. They know nothing, so its interval should hold 0, or lie a little below it: what
    fitting noise costs.

    Args:
        fitted: a `BakeOff` on other queries.
        test: queries that fitted nothing; those without a direction are left out.
        seed: of the draws and of the shuffle.
        level: coverage in 0..1.
        samples: least number of bootstrap draws.

    Returns:
        The gains, positive = the norms help. With no query left all figures are None; with one cluster the intervals are.

    Raises:
        InputError: the test queries lack lengths or frequencies that the fit had.

    Reference: E3 of norm calibration with and without its columns of norms; what is held and the words are ours.
    """
    test = nearest_hits(test)
    if not test.hits.usable.all():
        test = test.subset(test.hits.usable)
    models = fitted.norm_pair
    controls, idle = models.controls, models.shuffled is None
    if not len(test):
        nothing = Interval(mean=None, ci_low=None, ci_high=None)
        return tuple(_gain(metric, nothing, controls, idle=idle, least=0.0) for metric in METRICS)
    base = models.without.predict(test.hits)
    how = {"seed": seed, "level": level, "samples": samples}
    pair = _Pair(base, models.with_norm.predict(test.hits), test.right.astype(bool), test.clusters, **how)
    gains = {"e_aurc": pair.area(), "nll": pair.mean(*pair.log_losses), "brier": pair.mean(*pair.squares)}
    if models.shuffled is not None:
        confidence = models.shuffled.predict(shuffled_norms(test.hits, seed=seed))
        gains[NULL] = _Pair(base, confidence, pair.right, test.clusters, **how).area()
    least = {"e_aurc": LEAST_SHARE * excess_aurc(base, pair.right)}
    return tuple(_gain(metric, interval, controls, idle=idle, least=least.get(metric, 0.0)) for metric, interval in gains.items())


def shuffled_norms(hits: HitLists, *, seed: int) -> HitLists:
    """Return the same lists with the norms of query and hits, together, drawn from another query; scores stay as they are.

    Example:
        >>> from normwise.core.similarity import Similarity
        >>> hits = HitLists(np.zeros((2, 1)), np.array([1.0, 2.0]), np.array([[3.0], [4.0]]), Similarity.COSINE)
        >>> sorted(shuffled_norms(hits, seed=0).query_norms.tolist())
        [1.0, 2.0]
    """
    order = np.random.default_rng(seed).permutation(len(hits))
    return replace(hits, query_norms=hits.query_norms[order], hit_norms=hits.hit_norms[order])


def aurc_influence(confidence: Float[np.ndarray, " B"], correct: Bool[np.ndarray, " _"]) -> Float[np.ndarray, " B"]:
    """Return by how much each answer pulls the area under risk and coverage: B times its derivative by the answer's weight.

    Equation: let K_g and E_g be number and errors of the answers before group g of equal confidences, m and n its own. The area
    is A = (1/B) sum_g f_g, f = n + (E - n K / m) log((K + m) / K), and the influence of an answer of error e in group g is
    e df_g/dn + df_g/dm + sum_{h > g} (e df_h/dE + df_h/dK) - A. It sums to 0.

    Args:
        confidence: (B,) finite numbers; only their order counts.
        correct: (B,) whether an answer is right.

    Returns:
        (B,) values; the mean over a resample, added to the area, is the resample's area to first order.

    Reference: our derivation, from the sum of `areas` with logarithms for harmonic numbers.

    Example:
        >>> bool(abs(aurc_influence(np.array([0.9, 0.5, 0.1]), np.array([True, False, True])).sum()) < 1e-12)
        True
    """
    _, group = np.unique(-confidence, return_inverse=True)
    wrong = (~correct).astype(np.float64)
    m = np.bincount(group).astype(np.float64)
    n = np.bincount(group, weights=wrong)
    before, errors = np.cumsum(m) - m, np.cumsum(n) - n
    inverse = np.divide(1.0, before, out=np.zeros_like(m), where=before > 0.0)
    log, bent = np.log1p(m * inverse), errors - n / m * before
    area = float((n + bent * log).sum())
    own_error = 1.0 - before / m * log
    own_weight = before * n / m**2 * log + bent / (before + m)
    by_weight = -n / m * log + bent * (1.0 / (before + m) - inverse)
    later = np.cumsum(np.stack([log, by_weight])[:, ::-1], axis=1)[:, ::-1]
    later_error, later_weight = np.append(later[:, 1:], np.zeros((2, 1)), axis=1)
    return wrong * (own_error + later_error)[group] + (own_weight + later_weight)[group] - area / wrong.size


@dataclass(frozen=True)
class _Pair:
    """Two confidences (B,) in the same answers, and how their difference is judged."""

    without: np.ndarray
    with_norm: np.ndarray
    right: np.ndarray
    clusters: np.ndarray
    seed: int
    level: float
    samples: int

    @property
    def log_losses(self) -> tuple[np.ndarray, np.ndarray]:
        return clipped_log_losses(self.without, self.right), clipped_log_losses(self.with_norm, self.right)

    @property
    def squares(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.without - self.right) ** 2, (self.with_norm - self.right) ** 2

    def area(self) -> Interval:
        if self.right.size < LINEAR_FROM:
            how = {"seed": self.seed, "level": self.level, "samples": self.samples}
            return excess_aurc_gain(self.without, self.with_norm, self.right, self.clusters, **how)
        # The best order of the same answers is the same for both, and drops out of the difference.
        gain = excess_aurc(self.without, self.right) - excess_aurc(self.with_norm, self.right)
        return self._normal(gain, aurc_influence(self.without, self.right) - aurc_influence(self.with_norm, self.right))

    def mean(self, without: np.ndarray, with_norm: np.ndarray) -> Interval:
        gains = without - with_norm
        if self.right.size < LINEAR_FROM:
            return cluster_mean_interval(gains, self.clusters, seed=self.seed, level=self.level, samples=self.samples)
        return self._normal(float(gains.mean()), gains)

    def _normal(self, mean: float, values: np.ndarray) -> Interval:
        error = standard_error(values, self.clusters)
        if error is None:
            return Interval(mean=mean, ci_low=None, ci_high=None)
        half = float(normal.ppf((1.0 + self.level) / 2.0)) * error
        return Interval(mean=mean, ci_low=mean - half, ci_high=mean + half)


def _gain(metric: str, found: Interval, controls: tuple[str, ...], *, idle: bool, least: float) -> NormGain:
    words = _null_words(found) if metric == NULL else _said(_WORDS[metric], found, controls, idle=idle, least=least)
    return NormGain(metric=metric, delta=found.mean, ci_low=found.ci_low, ci_high=found.ci_high, controls=controls, words=words)


def _said(name: str, found: Interval, controls: tuple[str, ...], *, idle: bool, least: float) -> str:
    """Whether the norm helped, in words; a gain that certainly stays below `least` is none."""
    if idle:
        return f"the norm did not help: all norms are equal, so that they cannot change {name}"
    if found.mean is None:
        return "whether the norm helps cannot be told: no test query has a direction"
    held = f", beyond what curves of {', '.join(controls)} tell"
    if not any("length" in control for control in controls):
        held += "; lengths are not known, so length is not controlled"
    moved = f"it {_moved(found, 'lowers', 'raises', name)}{held}"
    if found.ci_low is None or found.ci_high is None:
        return f"whether the norm helps cannot be told, since all test queries are one cluster: {moved}"
    if found.ci_low > 0.0:
        return f"the norm helped: {moved}"
    if found.ci_high < 0.0:
        return f"the norm did not help, it made things worse: {moved}"
    if found.ci_low == found.ci_high:
        return f"the norm did not help: it leaves {name} as it was{held}"
    if found.ci_high < least:
        return f"the norm did not help by as much as {LEAST_SHARE:.0%} of {name}: {moved}"
    return f"whether the norm helps cannot be told at this size: {moved}"


def _null_words(found: Interval) -> str:
    shuffled = f"a check: shuffled norms, which know nothing, {_moved(found, 'lower', 'raise', _WORDS[NULL])}"
    if found.ci_low is None or found.ci_high is None or found.ci_low <= 0.0:
        return shuffled
    return f"{shuffled}, more than chance should allow; distrust a gain of this size"


def _moved(found: Interval, lowers: str, raises: str, name: str) -> str:
    """By how much a figure falls or rises: the amount is never negative, and an end of the interval below 0 is the other way."""
    if found.mean is None:
        return f"{lowers} {name} by an undefined amount"
    verb, sign = (raises, -1.0) if found.mean < 0.0 else (lowers, 1.0)
    text = f"{verb} {name} by {abs(found.mean):.4f}"
    if found.ci_low is None or found.ci_high is None:
        return text
    # Adding 0 takes the sign off a zero.
    low, high = sorted(round(sign * end, 4) + 0.0 for end in (found.ci_low, found.ci_high))
    return f"{text}, interval {low:.4f} to {high:.4f}"
