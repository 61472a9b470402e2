"""The lowest probability at which precision is certain enough, found without a scan; and what it decides.

Why no scan: the threshold with the largest coverage whose bound passes was chosen by the labels, so that its bound no longer
holds. Here every threshold is a hypothesis ("precision is below the target"), the order in which they are tested is laid down
before a label is seen, and the levels at which they are tested add up to 1 - confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from normwise.core.calibration_records import MOST_CONFIDENCE, ThresholdRecord
from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.clustered_errors import effective_sizes, error_tail, risk_bound
from normwise.theory.threshold_words import apart, inert

STARTS = 5


def certified_threshold(
    confidence: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " _"],
    *,
    target: float,
    confidence_level: float,
    grid: Float[np.ndarray, " G"] | None = None,
    clusters: Int[np.ndarray, " _"] | None = None,
    starts: int = STARTS,
) -> ThresholdRecord | None:
    """Return the lowest threshold that fixed-sequence testing passes: "precision at least `target`, this certain".

    The rule: thresholds are walked from the most confident down. The walk enters with nothing; at each of `starts` places
    (the first query, and the B / 2^j most confident for j = starts - 1 .. 1) it gets delta / starts, delta = 1 -
    confidence_level. A threshold passes where the Clopper-Pearson upper bound at the level in hand, of the risk among the n
    queries answered, is at most alpha = 1 - target. Whoever passes hands the level on; the first failure loses it, and the
    walk goes on with what the next starts bring (Bonferroni over starts, so that one early error does not end everything).
    As long as no query was wrong the level is kept: so short a prefix cannot pass, whatever its labels. With starts=1 this is
    plain fixed-sequence testing from the smallest prefix that could pass, `least_without_error` queries. Places, levels and
    order come from the confidences and B alone, never from labels; a laxer target or confidence never answers less.

    What holds, with chance confidence_level or more, over draws of the test queries:

    * given the confidences, the mean risk of the queries answered is at most alpha: always (errors are then independent with
      unequal chances, whose lower tail a binomial bounds: Hoeffding 1956; for confidence_level >= 0.75);
    * the risk of the *population* above the threshold is at most alpha: exactly, where that risk nowhere falls as the
      threshold is lowered, flat risk included (the queries above the first bad threshold are then draws from risk alpha or
      more). It holds for a fixed `grid`, and for the confidences of the sample themselves, where the query on the threshold
      is at least as risky as those above;
    * where the risk falls somewhere, as when the most confident are the worst, starts that count queries can land on either
      side by the luck of the draw, and the second is approximate.

    The guarantee is `target`; `precision_low` is the bound of this one threshold, which was chosen, and so only describes.

    Args:
        confidence: (B,) probabilities of test queries, 0..1; nothing that read `right` may have made them.
        right: (B,) whether the first hit is relevant.
        target: precision, 0..1, ends excluded.
        confidence_level: above 0.5, at most 0.9999.
        grid: (G,) thresholds in 0..1 that were fixed without these queries, such as quantiles of the held-out probabilities
            of the queries that fitted; None takes the probabilities that occur. A probability of 0 is never answered.
        clusters: (B,) queries of one cluster are not independent: bounds are taken at the effective size of
            `effective_sizes`, and are then approximate.
        starts: how many; laid down beforehand, never tuned on the same labels.

    Returns:
        The threshold, its coverage and precision; of several thresholds that answer the same queries, the highest. None where
        nothing passes.

    Raises:
        InputError: lengths differ, a value is out of its range, or there is no query.

    Reference: fixed sequences with several starts: Angelopoulos et al. (2021), Learn then test, arXiv 2110.01052, section 2;
        handing levels on past later starts is the fallback test of Wiens (2003), Pharmaceutical Statistics 2, 211-215;
        the level that waits for the first error, and what holds for a population, are ours.

    Example:
        >>> confidence = np.linspace(0.99, 0.01, 400)
        >>> found = certified_threshold(confidence, confidence > 0.5, target=0.95, confidence_level=0.9)
        >>> round(found.probability, 2), found.answered, round(found.precision, 2), found.precision_low >= 0.95
        (0.49, 205, 0.98, True)
    """
    check_claim(confidence, right, target=target, confidence_level=confidence_level)
    if starts < 1:
        raise InputError(f"starts is {starts}; expected at least 1")
    if clusters is not None and clusters.shape != confidence.shape:
        raise InputError(f"clusters has {clusters.shape[0]} queries, confidence {confidence.shape[0]}: expected one cluster per query")
    confidence = confidence.astype(np.float64)
    order = np.argsort(-confidence, kind="stable")
    thresholds, counts = candidates(confidence, grid)
    if not counts.size:
        return None
    wrong = ~right[order]
    errors = np.cumsum(wrong)[counts - 1].astype(np.float64)
    grouped = None if clusters is None else clusters[order]

    def sizes(level: float) -> np.ndarray:
        return counts.astype(np.float64) if grouped is None else effective_sizes(wrong, grouped, counts, level=level)

    share = (1.0 - confidence_level) / starts
    place, shares = _walk(counts, errors, sizes, risk=1.0 - target, share=share, entries=_entries(confidence.size, starts))
    if place is None:
        return None
    size = float(sizes(share * shares)[place])
    low = 1.0 - risk_bound(errors[place] / counts[place] * size, size, level=share * shares)
    return threshold_record(confidence, right, thresholds[place], low=low, target=target, confidence_level=confidence_level)


def least_without_error(target: float, confidence_level: float) -> int:
    """Return how many answered queries, all of them right, it takes before any threshold can pass.

    Equation: the smallest n with target^n <= 1 - confidence_level. With several starts it takes more until all have entered.

    Example:
        >>> least_without_error(0.95, 0.9)
        45
    """
    return math.ceil(math.log(1.0 - confidence_level) / math.log(target))


def candidates(confidence: np.ndarray, grid: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the thresholds that a walk looks at, descending, and how many queries each answers (1..B, ascending).

    Of thresholds that answer the same queries the highest stays; those of 0, or that answer nobody, go.

    Raises:
        InputError: a threshold of the grid is no probability.

    Example:
        >>> candidates(np.array([0.9, 0.4, 0.4]), np.array([0.3, 0.5, 0.8, 0.95]))
        (array([0.8, 0.3]), array([1, 3]))
    """
    thresholds = checked_grid(confidence if grid is None else grid)
    counts = np.searchsorted(np.sort(-confidence), -thresholds, side="right")
    counts, first = np.unique(counts, return_index=True)
    return thresholds[first][counts > 0], counts[counts > 0].astype(np.int64)


def checked_grid(grid: np.ndarray) -> np.ndarray:
    """Return the thresholds of a grid above 0, each once, descending, as float64.

    Raises:
        InputError: a threshold is no probability.
    """
    bad = np.flatnonzero(~((grid >= 0.0) & (grid <= 1.0)))
    if bad.size:
        raise InputError(f"grid holds {grid[bad[0]]} at place {bad[0]}; expected thresholds that are probabilities, 0 to 1")
    thresholds = np.unique(grid.astype(np.float64))[::-1]
    return thresholds[thresholds > 0.0]


def threshold_record(
    confidence: np.ndarray,
    right: np.ndarray,
    probability: float,
    *,
    low: float,
    target: float,
    confidence_level: float,
    method: str = "fixed-sequence",
) -> ThresholdRecord:
    """Return the record of a threshold that passed: what it answers on these queries, and how right that was."""
    answered = confidence.astype(np.float64) >= probability
    return ThresholdRecord(
        precision_target=target,
        confidence=confidence_level,
        probability=float(probability),
        coverage=float(answered.mean()),
        answered=int(answered.sum()),
        precision=float(right[answered].mean()),
        precision_low=low,
        method=method,
        inert=inert(probability, confidence),
    )


def decide(probability: Float[np.ndarray, " B"], threshold: ThresholdRecord | None) -> tuple[Bool[np.ndarray, " _"], list[str]]:
    """Return for each query whether to abstain, and why, in words.

    Without a threshold the answer is always to abstain: on the data that were there nobody could say at which probability
    answers are right often enough, and a system that answers then claims to know. The hits stay with whoever asked; only the
    advice is "I don't know". A probability of 0 (a zero vector has it) is never answered.

    Args:
        probability: (B,) that the first hit is relevant, 0..1.
        threshold: what `certified_threshold` returned, and the verdict let stand.

    Returns:
        (B,) whether to abstain; B reasons.

    Raises:
        InputError: a probability outside 0..1, or NaN.

    Example:
        >>> decide(np.array([0.9]), None)
        (array([ True]), ['no usable threshold exists on the queries this was calibrated on: 0.9 does not say whether the hit is right'])
    """
    _check_probabilities("probability", probability)
    if threshold is None:
        words = "no usable threshold exists on the queries this was calibrated on: {} does not say whether the hit is right"
        return np.ones(probability.shape, dtype=bool), [words.format(f"{value:.3g}") for value in probability.tolist()]
    least = threshold.probability
    probability = probability.astype(np.float64)
    abstain = (probability < least) | (probability == 0.0)
    aim = f"precision {threshold.precision_target:g} with {100.0 * threshold.confidence:.4g}% confidence"
    passing = f"{least:.3g}, the threshold for {aim}"
    reasons = []
    for value, low in zip(probability.tolist(), abstain.tolist(), strict=True):
        came, limit = apart(value, least)
        reasons.append(f"probability {came} is below {limit}, the threshold for {aim}" if low else f"probability {came} reaches {passing}")
    return abstain, reasons


def check_claim(confidence: np.ndarray, right: np.ndarray, *, target: float, confidence_level: float) -> None:
    """Refuse what no test can read.

    Raises:
        InputError: lengths differ, there is no query, or a value is out of its range.
    """
    if confidence.shape != right.shape:
        raise InputError(f"confidence has {confidence.shape[0]} queries, right {right.shape[0]}: expected one of both for each")
    if not confidence.size:
        raise InputError("confidence holds no query: expected at least one")
    _check_probabilities("confidence", confidence)
    if not 0.0 < target < 1.0:
        raise InputError(f"target is {target}; expected a precision between 0 and 1, such as 0.95: no finite data can show 1")
    check_level("confidence_level", confidence_level)


def check_level(name: str, level: float) -> None:
    """Refuse a confidence that no test, or no honest one, can have.

    Raises:
        InputError: 0.5 or below, or above 0.9999.
    """
    if not 0.5 < level < 1.0:
        raise InputError(f"{name} is {level}; expected more than 0.5 and less than 1, such as 0.9")
    if level > MOST_CONFIDENCE:
        raise InputError(
            f"{name} is {level}; expected at most {MOST_CONFIDENCE}: a smaller chance of error than 1 in 10,000 would be that of the "
            "arithmetic, since a few wrong judgements or dependent queries weigh more"
        )


def _check_probabilities(name: str, values: np.ndarray) -> None:
    bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if bad.size:
        came = f"{name} of query {bad[0]} is {values[bad[0]]}"
        raise InputError(f"{came}; expected a probability, 0 to 1: turn scores into probabilities with a calibrator first")


def _entries(queries: int, starts: int) -> np.ndarray:
    """How many queries the walk has seen where it gets each share of the level."""
    return np.array([1] + [math.ceil(queries / 2**j) for j in range(starts - 1, 0, -1)])


def _walk(
    counts: np.ndarray,
    errors: np.ndarray,
    sizes: Callable[[float], np.ndarray],
    *,
    risk: float,
    share: float,
    entries: np.ndarray,
) -> tuple[int | None, int]:
    """The last place that passes, and the shares of the level that were in hand there.

    Why a level may wait for the first error: let D be what has entered up to the first bad threshold that could pass with
    all of it in hand. That one passes wrongly with chance D at most. If it fails, a query was wrong, and no later threshold
    gets anything of D again; a later bad one is reached only with what entered after the bad one before it. Together: delta.
    """
    entering = np.bincount(np.searchsorted(counts, entries), minlength=counts.size)
    tails: dict[int, np.ndarray] = {}
    shares, last, held = 0, None, 0
    for place in range(counts.size):
        shares += int(entering[place])
        if not shares:
            continue
        if shares not in tails:
            size = sizes(share * shares)
            tails[shares] = error_tail(errors / counts * size, size, risk=risk)
        if tails[shares][place] <= share * shares:
            last, held = place, shares
        elif errors[place] > 0.0:
            shares = 0
    return last, held
