"""The decision rule and the words of evidence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.theory.bootstrap import bonferroni_level, paired_hierarchical_interval
from normwise.theory.decision import decide, outcome


def noisy(mean, *, seed=0, spread=0.05, seeds=1, queries=200):
    return np.random.default_rng(seed).normal(mean, spread, size=(seeds, queries))


def test_a_clearly_better_dot_replaces_cosine_and_says_why():
    decision, comparisons = decide({("base", "cosine"): noisy(0.5), ("base", "dot"): noisy(0.6, seed=1)}, np.arange(200))
    assert (decision.run, decision.similarity, decision.split) == ("base", "dot", "dev")
    assert "base (dot) beats the best cosine run, base (cosine)" in decision.reason
    assert "excludes 0" in decision.reason
    assert [(c.candidate, c.baseline, c.words) for c in comparisons] == [("base (dot)", "base (cosine)", "better")]


def test_a_better_mean_within_the_noise_does_not_replace():
    values = noisy(0.5, spread=1.0)
    decision, comparisons = decide({("a", "cosine"): values, ("a", "dot"): values + noisy(0.01, seed=3, spread=1.0)}, np.arange(200))
    assert decision.similarity == "cosine"
    assert "stays the default" in decision.reason
    assert comparisons[0].words == "no difference shown at this size"


def test_the_default_is_the_best_cosine_run_not_the_first():
    scores = {("a", "cosine"): noisy(0.4), ("b", "cosine"): noisy(0.6, seed=1), ("b", "dot"): noisy(0.5, seed=2)}
    decision, comparisons = decide(scores, np.arange(200))
    assert (decision.run, decision.similarity) == ("b", "cosine")
    assert [c.words for c in comparisons] == ["worse", "worse"]


def test_of_several_better_pairs_the_best_wins():
    scores = {("a", "cosine"): noisy(0.4), ("b", "dot"): noisy(0.7, seed=1), ("c", "dot"): noisy(0.6, seed=2)}
    assert decide(scores, np.arange(200))[0].run == "b"


def test_the_interval_is_corrected_for_the_number_of_candidates():
    """A difference that one comparison would accept is refused among many."""
    queries = 50
    base = noisy(0.5, seed=5, queries=queries)
    difference = np.random.default_rng(9).normal(0.0, 1.0, size=(1, queries))
    difference += 2.3 / np.sqrt(queries) * difference.std() - difference.mean()
    alone = {("a", "cosine"): base, ("a", "dot"): base + difference}
    crowd = alone | {(f"x{i}", "dot"): base - 1.0 for i in range(20)}
    assert decide(alone, np.arange(queries))[0].similarity == "dot"
    decision, comparisons = decide(crowd, np.arange(queries))
    assert decision.similarity == "cosine"
    assert comparisons[0].level == pytest.approx(bonferroni_level(0.95, 21))
    expected = paired_hierarchical_interval(base + difference, base, np.arange(queries), seed=0, level=comparisons[0].level)
    assert comparisons[0].difference == expected


def test_queries_of_one_cluster_count_once():
    base = noisy(0.5, queries=400)
    better = base + np.repeat([0.5, -0.3, 0.4, -0.2, 0.3, -0.1, 0.0, 0.1], 50)[None]
    scores = {("a", "cosine"): base, ("a", "dot"): better}
    assert decide(scores, np.arange(400))[0].similarity == "dot"
    assert decide(scores, np.repeat(np.arange(8), 50))[0].similarity == "cosine"


@given(st.integers(0, 10**6))
def test_equal_pairs_never_replace(seed):
    values = noisy(0.5, seed=seed)
    decision, comparisons = decide({("a", "dot"): values, ("a", "cosine"): values, ("b", "cosine"): values}, np.arange(200))
    assert (decision.run, decision.similarity) == ("a", "cosine")
    assert all(c.difference == Interval(mean=0.0, ci_low=0.0, ci_high=0.0) for c in comparisons)


def test_under_no_difference_dot_is_rarely_chosen():
    chosen = 0
    for seed in range(200):
        a, b = noisy(0.0, seed=seed, spread=1.0, queries=60), noisy(0.0, seed=seed + 10**6, spread=1.0, queries=60)
        chosen += decide({("a", "cosine"): a, ("a", "dot"): b}, np.arange(60), samples=400)[0].similarity == "dot"
    assert chosen <= 14  # one-sided 2.5% nominal: mean 5, and 14 is beyond the 99.9th percentile of Binomial(200, .025)


def test_one_cluster_keeps_cosine_and_undefined_queries_are_left_out():
    better = {("a", "cosine"): np.zeros((1, 4)), ("a", "dot"): np.ones((1, 4))}
    decision, comparisons = decide(better, np.zeros(4, dtype=int))
    assert decision.similarity == "cosine"
    assert "too few clusters" in decision.reason
    assert comparisons[0].words.startswith("no interval")
    values = np.array([[np.nan, 1.0, 1.0]])
    assert decide({("a", "cosine"): values - 1, ("a", "dot"): values}, np.arange(3), split="test")[0].similarity == "dot"


def test_one_pair_needs_no_comparison():
    decision, comparisons = decide({("a", "cosine"): np.ones((2, 3))}, np.arange(3))
    assert (comparisons, decision.reason) == ([], "a (cosine) is the only candidate")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({("a", "dot"): np.ones((1, 2))}, "no cosine pair"),
        ({}, "no cosine pair"),
        ({("a", "cosine"): np.ones((1, 2)), ("a", "l2"): np.ones((1, 2))}, "rankings \\['l2'\\]"),
        ({("a", "cosine"): np.ones((1, 2)), ("a", "dot"): np.ones((2, 2))}, "expected one"),
        ({("a", "cosine"): np.ones(2)}, "expected one"),
        ({("a", "cosine"): np.ones((1, 3))}, "3 queries, clusters 2"),
    ],
)
def test_refusals(scores, message):
    other = {("b", "cosine"): np.ones((1, 3))} if message.startswith("3") else {}
    with pytest.raises(InputError, match=message):
        decide(scores | other, np.arange(2))


@pytest.mark.parametrize(
    ("low", "high", "seeds", "expected"),
    [
        (0.1, 0.2, 5, "reproduced"),
        (0.1, 0.2, 4, "undecided at this size"),
        (-0.2, -0.1, 5, "not reproduced"),
        (-0.2, -0.1, 1, "undecided at this size"),
        (-0.1, 0.1, 9, "undecided at this size"),
        (0.0, 0.1, 9, "undecided at this size"),
        (-0.1, 0.0, 9, "undecided at this size"),
        (0.0, 0.0, 9, "undecided at this size"),
        (None, None, 9, "undecided at this size"),
    ],
)
def test_words_follow_the_evidence(low, high, seeds, expected):
    assert outcome(Interval(mean=0.0, ci_low=low, ci_high=high), seeds) == expected


def test_words_follow_the_threshold_written_down():
    interval = Interval(mean=0.15, ci_low=0.1, ci_high=0.2)
    assert [outcome(interval, 5, threshold=t) for t in (0.05, 0.15, 0.25)] == ["reproduced", "undecided at this size", "not reproduced"]
