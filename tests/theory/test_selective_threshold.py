"""Thresholds by fixed-sequence testing: they hold on populations of known risk, and a scan does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, expit
from scipy.stats import binom, binomtest

from normwise.core.errors import InputError
from normwise.theory.selective_threshold import certified_threshold, decide, least_without_error

TARGET, LEVEL = 0.9, 0.9
ALPHA = 1.0 - TARGET
DRAWS, QUERIES = 200, 400
MOST = int(binom.ppf(0.999, DRAWS, 1.0 - LEVEL))  # violations in 200 draws at the stated level, but once in 1,000 tests
GRID = np.linspace(0.02, 0.98, 49)


class Population:
    """Confidences with a known chance of error, and `risk`, the exact share of errors at or above a threshold."""

    def draw(self, rng, queries=QUERIES):
        confidence = rng.random(queries)
        return confidence, rng.random(queries) >= self.chance(confidence)


class Flat(Population):
    def chance(self, confidence):
        return np.full(confidence.shape, ALPHA + 0.005)

    def risk(self, threshold):
        return ALPHA + 0.005


class Falling(Population):
    """Risk 0.02 at full confidence, 0.32 at none: the truth crosses alpha at a threshold of 0.467."""

    def chance(self, confidence):
        return 0.02 + 0.3 * (1.0 - confidence)

    def risk(self, threshold):
        return 0.02 + 0.15 * (1.0 - threshold)


class Step(Population):
    """Just above the target at the top, far above it below."""

    def chance(self, confidence):
        return np.where(confidence >= 0.5, ALPHA + 0.005, 0.4)

    def risk(self, threshold):
        low = max(0.5 - threshold, 0.0)
        return ((ALPHA + 0.005) * (1.0 - threshold - low) + 0.4 * low) / (1.0 - threshold)


class WorstOnTop(Population):
    """The most confident 5% are the worst: risk falls with more coverage, and no coverage meets the target."""

    def chance(self, confidence):
        return np.where(confidence >= 0.95, 0.3, ALPHA - 0.005)

    def risk(self, threshold):
        high = min(0.05, 1.0 - threshold)
        return (0.3 * high + (ALPHA - 0.005) * (1.0 - threshold - high)) / (1.0 - threshold)


class Calibrated(Population):
    """Confidences from Beta(5, 1.5), each the chance of being right."""

    def draw(self, rng, queries=QUERIES):
        confidence = rng.beta(5.0, 1.5, queries)
        return confidence, rng.random(queries) < confidence

    def risk(self, threshold):
        return 1.0 - 5.0 / 6.5 * (1.0 - betainc(6.0, 1.5, threshold)) / (1.0 - betainc(5.0, 1.5, threshold))


class Ties(Population):
    """Five confidences, each with its own risk; the third brings the risk above the target."""

    values, risks = np.array([0.9, 0.8, 0.7, 0.5, 0.3]), np.array([0.05, 0.1, 0.17, 0.2, 0.3])

    def draw(self, rng, queries=QUERIES):
        group = rng.integers(5, size=queries)
        return self.values[group], rng.random(queries) >= self.risks[group]

    def risk(self, threshold):
        return self.risks[self.values >= threshold].mean()


POPULATIONS = [Flat(), Falling(), Step(), WorstOnTop(), Calibrated(), Ties()]


def violations(population, find, *, draws=DRAWS):
    """How often a threshold is found below which the population's risk is above alpha, and how often one is found."""
    false = found = 0
    for seed in range(draws):
        threshold = find(*population.draw(np.random.default_rng([7, seed])))
        found += threshold is not None
        false += threshold is not None and population.risk(threshold) > ALPHA
    return false, found


def certified(**settings):
    def find(confidence, right):
        found = certified_threshold(confidence, right, target=TARGET, confidence_level=LEVEL, **settings)
        return None if found is None else found.probability

    return find


def scan(confidence, right):
    """What must not be done: the largest set whose own bound passes."""
    order = np.argsort(-confidence)
    sizes = np.arange(1, confidence.size + 1)
    passing = np.flatnonzero(binom.cdf(np.cumsum(~right[order]), sizes, ALPHA) <= 1.0 - LEVEL)
    return confidence[order][passing[-1]] if passing.size else None


@pytest.mark.parametrize("settings", [{}, {"starts": 1}, {"grid": GRID}], ids=["sample", "one start", "grid"])
@pytest.mark.parametrize("population", POPULATIONS, ids=lambda population: type(population).__name__)
def test_the_promise_holds_on_populations_of_known_risk(population, settings):
    assert violations(population, certified(**settings))[0] <= MOST


def test_an_uncorrected_scan_breaks_the_same_promise():
    false, _ = violations(Flat(), scan)
    assert false > 0.25 * DRAWS > MOST


def test_one_start_on_flat_risk_errs_as_often_as_its_first_prefix_is_clean():
    first = least_without_error(TARGET, LEVEL)
    expected = (TARGET - 0.005) ** first
    false, _ = violations(Flat(), certified(starts=1), draws=400)
    assert binom.ppf(0.001, 400, expected) <= false <= binom.ppf(0.999, 400, expected)


def clustered(rng, *, queries=QUERIES):
    """Repeated queries: about four to a cluster, with one confidence, right or wrong together; risk alpha + .005."""
    clusters = np.repeat(np.arange(queries), rng.geometric(0.25, queries))[:queries]
    return rng.random(queries)[clusters], (rng.random(queries) >= ALPHA + 0.005)[clusters], clusters


def test_the_promise_holds_for_clusters_and_would_not_without_them():
    false = {True: 0, False: 0}
    for seed in range(DRAWS):
        confidence, right, clusters = clustered(np.random.default_rng([8, seed]))
        for told in false:
            find = certified(clusters=clusters if told else None)
            false[told] += find(confidence, right) is not None
    assert false[True] <= MOST < false[False]


@pytest.mark.parametrize(("queries", "least"), [(500, 0.35), (5000, 0.48)])
def test_where_the_confidence_tells_a_threshold_is_found_near_the_best(queries, least):
    """Right with chance expit(1 + 3 z) for normal z: 56% of queries can be answered at precision .9."""
    coverage = []
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        signal = rng.standard_normal(queries)
        found = certified_threshold(
            expit(signal), rng.random(queries) < expit(1.0 + 3.0 * signal), target=TARGET, confidence_level=LEVEL, grid=GRID
        )
        coverage.append(0.0 if found is None else found.coverage)
    assert least < np.mean(coverage) < 0.56


def test_one_early_error_does_not_end_everything():
    confidence = np.linspace(1.0, 0.01, 1000)
    right = (confidence > 0.5) & (np.arange(1000) != 3)
    found = certified_threshold(confidence, right, target=0.95, confidence_level=LEVEL)
    assert found is not None
    assert 0.45 < found.coverage < 0.55
    assert certified_threshold(confidence, right, target=0.95, confidence_level=LEVEL, starts=1) is None


def test_the_least_number_without_an_error_is_the_least():
    least = least_without_error(0.95, LEVEL)
    for queries, expected in ((least - 1, False), (least, True)):
        found = certified_threshold(np.linspace(0.9, 0.5, queries), np.ones(queries, dtype=bool), target=0.95, confidence_level=LEVEL)
        assert (found is not None) == expected


def test_a_threshold_that_answers_every_query_is_called_inert():
    found = certified_threshold(np.linspace(0.9, 0.5, 60), np.ones(60, dtype=bool), target=0.9, confidence_level=LEVEL)
    assert found is not None
    assert (found.inert, found.coverage, found.probability) == ("rejects nothing", 1.0, 0.5)


def test_a_probability_of_zero_is_never_answered():
    confidence = np.concatenate([np.linspace(0.9, 0.5, 60), np.zeros(40)])
    for grid in (None, np.array([0.0, 0.2])):
        found = certified_threshold(confidence, np.ones(100, dtype=bool), target=0.9, confidence_level=LEVEL, grid=grid)
        assert found is not None
        assert (found.answered, found.inert) == (60, None)
    assert certified_threshold(np.zeros(100), np.ones(100, dtype=bool), target=0.9, confidence_level=LEVEL) is None


def slow_walk(confidence, right, *, target, level, starts, grid):
    """The rule of the docstring, one threshold at a time, with the bounds of scipy."""
    entries = [1] + [-(-len(confidence) // 2**j) for j in range(starts - 1, 0, -1)]
    share, hand, best, seen = (1.0 - level) / starts, 0, None, 0
    for threshold in sorted({value for value in (confidence if grid is None else grid) if value > 0.0}, reverse=True):
        answered = [ok for value, ok in zip(confidence, right, strict=True) if value >= threshold]
        if len(answered) == seen:
            continue
        hand += sum(seen < entry <= len(answered) for entry in entries)
        seen, errors = len(answered), answered.count(False)
        if not hand:
            continue
        bound = binomtest(errors, seen, alternative="less").proportion_ci(1.0 - share * hand, method="exact").high
        if bound <= 1.0 - target:
            best = threshold, 1.0 - bound
        elif errors:
            hand = 0
    return best


answers = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0]), st.integers(0, 9)), min_size=1, max_size=60)
targets = st.sampled_from([0.3, 0.5, 0.6, 0.7, 0.8])
grids = st.none() | st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.55, 0.8, 0.95]), min_size=1, max_size=5).map(np.array)


def drawn_arrays(drawn):
    """Mostly right where the confidence is high."""
    confidence = np.array([value for value, _ in drawn])
    return confidence, np.array([luck <= 10 * value for value, luck in drawn])


@given(st.integers(0, 10**6), st.integers(1, 200), targets, st.integers(1, 6), grids)
def test_the_walk_is_the_slow_walk(seed, queries, target, starts, grid):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(21, size=queries) / 20.0
    right = rng.random(queries) < target + 0.1
    found = certified_threshold(confidence, right, target=target, confidence_level=0.8, starts=starts, grid=grid)
    expected = slow_walk(confidence.tolist(), right.tolist(), target=target, level=0.8, starts=starts, grid=grid)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.probability == expected[0]
        assert found.precision_low == pytest.approx(expected[1], rel=1e-6)


@given(answers, targets, grids, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_reported_is_what_is_answered_in_any_order(drawn, target, grid, grouped, random):
    confidence, right = drawn_arrays(drawn)
    clusters = np.arange(confidence.size) // 2 if grouped else None
    order = np.array(random.sample(range(confidence.size), confidence.size))
    moved = clusters[order] if clusters is not None else None
    claim = {"target": target, "confidence_level": 0.8, "grid": grid}
    found = certified_threshold(confidence, right, clusters=clusters, **claim)
    again = certified_threshold(confidence[order], right[order], clusters=moved, **claim)
    assert again == found
    if found is not None:
        answered = confidence >= found.probability
        assert found.answered == answered.sum()
        assert found.coverage == answered.mean()
        assert found.precision == right[answered].mean()
        assert target <= found.precision_low + 1e-12
        assert found.precision_low <= found.precision
        assert np.array_equal(decide(confidence, found)[0], ~answered)


@given(answers, st.lists(targets, min_size=2, max_size=2), grids, st.booleans(), st.sampled_from([(0.8, 0.8), (0.6, 0.8)]))
def test_a_laxer_claim_never_answers_less(drawn, two, grid, grouped, levels):
    confidence, right = drawn_arrays(drawn)
    clusters = np.arange(confidence.size) // 3 if grouped else None
    lax, strict = (
        certified_threshold(confidence, right, target=target, confidence_level=level, grid=grid, clusters=clusters)
        for target, level in zip(sorted(two), levels, strict=True)
    )
    assert strict is None or (lax is not None and lax.answered >= strict.answered)


@given(answers, targets, grids)
def test_clusters_of_one_are_no_clusters(drawn, target, grid):
    confidence, right = drawn_arrays(drawn)
    plain = certified_threshold(confidence, right, target=target, confidence_level=0.8, grid=grid)
    alone = certified_threshold(confidence, right, target=target, confidence_level=0.8, grid=grid, clusters=np.arange(confidence.size))
    assert (plain is None) == (alone is None)
    if plain is not None and alone is not None:
        assert (alone.probability, alone.precision_low) == pytest.approx((plain.probability, plain.precision_low), rel=1e-9)


def test_single_precision_is_compared_as_it_is():
    confidence = np.full(60, 0.7, dtype=np.float32)
    found = certified_threshold(confidence, np.ones(60, dtype=bool), target=0.9, confidence_level=LEVEL, grid=np.array([0.7]))
    assert found is None or found.answered == 60 * (float(confidence[0]) >= 0.7)


def test_decisions_come_with_their_figures():
    confidence = np.concatenate([np.full(60, 0.71), np.full(60, 0.4)])
    found = certified_threshold(confidence, confidence > 0.5, target=0.95, confidence_level=LEVEL)
    abstain, reasons = decide(np.array([0.83, 0.71, 0.70996, 0.0]), found)
    assert abstain.tolist() == [False, False, True, True]
    assert reasons[0] == "probability 0.83 reaches 0.71, the threshold for precision 0.95 with 90% confidence"
    assert reasons[1].startswith("probability 0.71 reaches 0.71,")
    assert reasons[2] == "probability 0.70996 is below 0.71, the threshold for precision 0.95 with 90% confidence"
    assert reasons[3].startswith("probability 0 is below 0.71,")


def test_without_a_threshold_the_answer_is_to_abstain():
    abstain, reasons = decide(np.array([0.99, 0.2]), None)
    assert abstain.tolist() == [True, True]
    assert reasons[0] == "no usable threshold exists on the queries this was calibrated on: 0.99 does not say whether the hit is right"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": 1.0}, "target is 1.0; .* no finite data"),
        ({"target": 95.0}, "target is 95.0"),
        ({"confidence_level": 0.5}, "confidence_level is 0.5; expected more than 0.5"),
        ({"confidence_level": 1.0}, "confidence_level is 1.0"),
        ({"starts": 0}, "starts is 0"),
        ({"confidence": np.array([0.5, np.nan])}, "confidence of query 1 is nan"),
        ({"confidence": np.array([0.5, 400.0])}, "query 1 is 400.0; .* with a calibrator"),
        ({"confidence": np.array([-0.5, 0.5])}, "query 0 is -0.5"),
        ({"confidence": np.array([0.5])}, "1 queries, right 2"),
        ({"confidence": np.array([]), "right": np.array([], dtype=bool)}, "holds no query"),
        ({"clusters": np.array([1])}, "clusters has 1 queries"),
        ({"grid": np.array([0.5, np.nan])}, "grid holds nan at place 1"),
    ],
)
def test_what_no_test_can_read_is_refused(change, words):
    call = {"confidence": np.array([0.5, 0.6]), "right": np.array([True, False]), "target": 0.9, "confidence_level": 0.9} | change
    with pytest.raises(InputError, match=words):
        certified_threshold(call.pop("confidence"), call.pop("right"), **call)


def test_no_decision_on_what_is_no_probability():
    with pytest.raises(InputError, match="probability of query 1 is nan"):
        decide(np.array([0.5, np.nan]), None)
