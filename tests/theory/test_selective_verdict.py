"""Verdicts: no usable threshold where the score is independent of relevance, figures in the words, refusals."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.theory.risk_coverage import auroc
from normwise.theory.selective_threshold import certified_threshold
from normwise.theory.selective_verdict import TARGETS, check_enough, few_answers, passing_target, verdict

LEVEL = 0.9
GOOD = Interval(mean=0.81, ci_low=0.77, ci_high=0.85)
CHANCE = Interval(mean=0.51, ci_low=0.46, ci_high=0.56)


def with_interval(confidence, right):
    """AUROC with the normal interval of DeLong et al. (1988): variances of the shares of pairs that each answer wins."""
    mean = auroc(confidence, right)
    wins = [rankdata(confidence)[kind] - rankdata(confidence[kind]) for kind in (right, ~right)]
    shares = [wins[0] / (~right).sum(), wins[1] / right.sum()]
    half = norm.ppf(0.975) * np.sqrt(sum(share.var(ddof=1) / share.size for share in shares))
    return Interval(mean=mean, ci_low=mean - half, ci_high=mean + half)


def judged(confidence, right, target):
    threshold = certified_threshold(confidence, right, target=target, confidence_level=LEVEL)
    counts = {"queries": right.size, "right": int(right.sum())}
    return threshold, verdict(with_interval(confidence, right), threshold, target=target, confidence_level=LEVEL, **counts)


@pytest.mark.parametrize("target", [0.95, 0.6, 0.5])
def test_relevance_independent_of_the_score_has_no_usable_threshold(target):
    none = passed = 0
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        threshold, said = judged(rng.random(500), rng.random(500) < 0.6, target)
        passed += threshold is not None
        none += said.label == "no-usable-threshold"
    assert none >= 89
    if target == 0.5:
        assert passed > 50  # answering everything meets this target: it is the AUROC that says no


def test_a_confidence_that_tells_is_usable():
    rng = np.random.default_rng(0)
    confidence = rng.beta(2.0, 1.0, 2000)
    threshold, said = judged(confidence, rng.random(2000) < confidence, 0.9)
    assert threshold is not None
    assert said.label == "usable"
    assert f"{threshold.answered:,} of 2,000 test queries" in said.text
    assert "at least 0.9 with 90% confidence" in said.text
    assert f"{threshold.probability:.3g} or more" in said.text


def test_chance_voids_a_threshold_that_passed_and_says_that_nothing_is_gained():
    threshold = certified_threshold(np.linspace(0.9, 0.1, 500), np.arange(500) % 5 > 0, target=0.5, confidence_level=LEVEL)
    assert threshold is not None
    said = verdict(CHANCE, threshold, target=0.5, confidence_level=LEVEL, queries=500, right=400)
    assert said.label == "no-usable-threshold"
    assert "does not tell right hits from wrong ones (AUROC 0.51, interval 0.46 to 0.56, where 0.5 is chance)" in said.text
    assert "precision of 0.8 on 500 test queries, which meets 0.5 already; nothing is gained" in said.text


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(mean=None, ci_low=None, ci_high=None), "AUROC of the probability is undefined"),
        (Interval(mean=0.5, ci_low=None, ci_high=None), "is 0.5 and has no interval (all probabilities may be equal"),
        (Interval(mean=0.56, ci_low=0.5, ci_high=0.6), "interval 0.5 to 0.6"),
        (Interval(mean=0.56, ci_low=0.49996, ci_high=0.6), "interval 0.49996 to 0.6"),
        (Interval(mean=0.4, ci_low=0.3, ci_high=0.45), "ranks wrong hits above right ones (AUROC 0.4, interval 0.3 to 0.45, below 0.5)"),
    ],
)
def test_every_way_to_tell_nothing_is_named(interval, words):
    threshold = certified_threshold(np.linspace(0.9, 0.1, 500), np.arange(500) < 400, target=0.9, confidence_level=LEVEL)
    said = verdict(interval, threshold, target=0.9, confidence_level=LEVEL, queries=500, right=400)
    assert said.label == "no-usable-threshold"
    assert words in said.text
    assert "not known to raise it to 0.9" in said.text


@pytest.mark.parametrize(("right", "words"), [(500, "is right for all 500"), (0, "is wrong for all 500")])
def test_one_class_tells_nothing_whatever_the_interval(right, words):
    said = verdict(GOOD, None, target=0.9, confidence_level=LEVEL, queries=500, right=right)
    assert said.label == "no-usable-threshold"
    assert words in said.text


@pytest.mark.parametrize(("queries", "words"), [(40, "45 answered ones without an error; 40 test queries are too few"), (45, "an error)")])
def test_where_no_coverage_is_certain_the_words_say_what_it_takes(queries, words):
    said = verdict(GOOD, None, target=0.95, confidence_level=LEVEL, queries=queries, right=queries // 2)
    assert said.label == "no-usable-threshold"
    assert "for a precision of 0.95 exists on these data: no threshold shows it with 90% confidence" in said.text
    assert words in said.text


@pytest.mark.parametrize(
    ("passing", "words"),
    [
        (0.6, "On the fit queries, a target precision of 0.6 would have passed: a guess, to be tested on fresh queries"),
        (0.95, "On the fit queries, a target precision of 0.95 would have passed: fit and test queries disagree"),
        (None, "On the fit queries, no target precision down to 0.5 would have passed either."),
    ],
)
def test_what_the_queries_of_the_fit_would_have_passed_is_told_as_a_guess(passing, words):
    said = verdict(GOOD, None, target=0.95, confidence_level=LEVEL, queries=500, right=250, passing=passing)
    assert said.text.startswith("No usable threshold for a precision of 0.95 exists on these data: ")
    assert words in said.text


def test_a_probability_that_tells_nothing_gets_no_guess():
    said = verdict(CHANCE, None, target=0.95, confidence_level=LEVEL, queries=500, right=250, passing=0.6)
    assert "would have passed" not in said.text


@pytest.mark.parametrize("target", [0.95, 0.83])
def test_the_passing_target_is_the_strictest_that_is_certified(target):
    rng = np.random.default_rng(1)
    held_out = rng.beta(2.0, 2.0, 600)
    right = rng.random(600) < 0.85 * held_out
    found = passing_target(held_out, right, target=target, confidence_level=LEVEL)

    def passes(each):
        return certified_threshold(held_out, right, target=each, confidence_level=LEVEL) is not None

    stricter = [each for each in (target, *TARGETS) if found < each <= target]
    assert passes(found)
    assert len(stricter) >= 3
    assert not any(passes(each) for each in stricter)
    assert passing_target(np.linspace(1, 0, 99), np.zeros(99, dtype=bool), target=target, confidence_level=LEVEL) is None


def test_a_threshold_on_few_answers_says_how_many():
    confidence = np.linspace(0.9, 0.1, 90)
    threshold = certified_threshold(confidence, confidence > 0.3, target=0.9, confidence_level=LEVEL)
    words = few_answers(threshold)
    assert f"hangs on {threshold.answered} answered test queries" in words
    assert "another split of the queries may decide otherwise" in words
    many = certified_threshold(np.linspace(0.9, 0.1, 900), np.linspace(0.9, 0.1, 900) > 0.3, target=0.9, confidence_level=LEVEL)
    assert few_answers(many) is None


def test_a_threshold_that_rejects_nothing_says_so():
    confidence, right = np.linspace(0.9, 0.5, 300), np.arange(300) < 297
    threshold = certified_threshold(confidence, right, target=0.9, confidence_level=LEVEL)
    said = verdict(GOOD, threshold, target=0.9, confidence_level=LEVEL, queries=300, right=297)
    assert said.label == "usable"
    assert "It rejects nothing: every test query may be answered." in said.text


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (
            np.ones(500, dtype=bool),
            "fit queries: the first hit is right for 500 of 500, wrong for none; .* corpus does not answer",
        ),
        (np.zeros(500, dtype=bool), "right for none of 500, wrong for 500; .* ids in the judgements"),
        (np.arange(500) < 29, "right for 29 of 500, wrong for 471; expected at least 30 of each: add judged queries"),
        (np.arange(59) < 30, "right for 30 of 59, wrong for 29; .* harder ones"),
        (np.zeros(0, dtype=bool), "right for none of 0, wrong for none"),
    ],
)
def test_too_few_of_a_kind_are_refused(right, words):
    with pytest.raises(InputError, match=words):
        check_enough(right, what="fit queries")


def test_enough_is_enough():
    check_enough(np.arange(60) < 30, what="fit queries")
    check_enough(np.arange(4) < 2, what="fit queries", least=2)


@pytest.mark.parametrize(("queries", "right"), [(0, 0), (10, 11), (10, -1)])
def test_impossible_counts_are_refused(queries, right):
    with pytest.raises(InputError, match=f"right is {right} of {queries} queries"):
        verdict(GOOD, None, target=0.9, confidence_level=LEVEL, queries=queries, right=right)
