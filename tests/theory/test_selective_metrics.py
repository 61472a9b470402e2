"""Risk at a coverage and coverage at a risk: loops over all orders of ties, identities with the area, resamples repeated."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.resamples import Resamples
from normwise.theory.risk_coverage import aurc, auroc, excess_aurc
from normwise.theory.selective_metrics import (
    areas,
    coverage_at_risk,
    coverages_at,
    excess_areas,
    pair_shares,
    risk_at_coverage,
    risk_curve,
    risks,
)
from normwise.theory.tied_answers import Answers, tied_answers

answers = st.lists(st.tuples(st.sampled_from([-3.0, 0.1, 0.4, 0.4, 0.8, 400.0]), st.booleans()), min_size=1, max_size=6)
many = st.lists(st.tuples(st.integers(-9, 9).map(float), st.booleans()), min_size=1, max_size=40)


def arrays(pairs):
    return np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])


def orders(pairs):
    """Every order of the answers in which confidence does not rise."""
    every = itertools.permutations(pairs)
    return [order for order in every if all(a[0] >= b[0] for a, b in itertools.pairwise(order))]


@given(answers, st.integers(1, 20))
def test_risk_is_the_mean_over_all_orders_of_equal_confidences(pairs, twentieths):
    first = max(1, math.ceil(Fraction(twentieths, 20) * len(pairs)))
    expected = np.mean([sum(not y for _, y in order[:first]) / first for order in orders(pairs)])
    assert risk_at_coverage(*arrays(pairs), coverage=twentieths / 20) == pytest.approx(expected, abs=1e-12)


@given(many)
def test_the_mean_of_the_curve_is_the_area(pairs):
    coverages = np.arange(1, len(pairs) + 1) / len(pairs)
    curve = risk_curve(*arrays(pairs), coverages=coverages)
    assert curve.mean() == pytest.approx(aurc(*arrays(pairs)), abs=1e-12)
    assert curve[-1] == pytest.approx(1.0 - np.mean([y for _, y in pairs]))


@given(many, st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.2, 0.29, 0.5, 1.0]))
def test_coverage_is_the_loop_over_thresholds(pairs, risk):
    best = 0.0
    for threshold in {p for p, _ in pairs}:
        held = [y for p, y in pairs if p >= threshold]
        if Fraction(sum(not y for y in held), len(held)) <= Fraction(str(risk)):
            best = max(best, len(held) / len(pairs))
    assert coverage_at_risk(*arrays(pairs), risk=risk) == best


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_share_that_is_the_risk_to_the_digit_is_low_enough(percent):
    right = np.arange(100) >= percent
    assert coverage_at_risk(np.zeros(100), right, risk=percent / 100) == 1.0
    assert coverage_at_risk(np.zeros(100), right, risk=(percent - 0.5) / 100) == 0.0


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_coverage_that_is_a_whole_number_of_queries_is_that_number(percent):
    """.07 of 100 is 7.000000000000001 in floating point, and 7 queries."""
    right = np.arange(100) < percent
    assert risk_at_coverage(-np.arange(100.0), right, coverage=percent / 100) == 0.0
    assert risk_at_coverage(-np.arange(100.0), right, coverage=(percent + 0.01) / 100) == pytest.approx(1 / (percent + 1))


def test_the_largest_coverage_counts_though_the_risk_was_higher_before_it():
    right = np.array([False, True, True, True, True, False])
    assert coverage_at_risk(-np.arange(6.0), right, risk=0.2) == pytest.approx(5 / 6)
    assert coverage_at_risk(-np.arange(6.0), right, risk=0.1) == 0.0


def test_only_the_order_counts():
    rng = np.random.default_rng(1)
    confidence, right = rng.normal(size=200).round(1), rng.random(200) < 0.6
    shuffled = rng.permutation(200)
    for figure in (lambda c, y: risk_at_coverage(c, y, coverage=0.4), lambda c, y: coverage_at_risk(c, y, risk=0.4)):
        assert figure(np.exp(3.0 * confidence), right) == figure(confidence, right)
        assert figure(confidence[shuffled], right[shuffled]) == figure(confidence, right)


@given(many, st.integers(0, 10**6))
def test_resamples_are_repeated_answers(pairs, seed):
    confidence, right = arrays(pairs)
    times = np.random.default_rng(seed).integers(0, 4, size=(5, right.size))
    times[:, 0] += ~times.any(axis=1)
    tied = tied_answers(Answers(confidence, right), Resamples(times.astype(float), np.arange(right.size)))
    repeated = [(np.repeat(confidence, row), np.repeat(right, row)) for row in times]
    coverages = np.array([0.1, 0.5, 0.8, 1.0])
    assert areas(tied) == pytest.approx([aurc(*each) for each in repeated], abs=1e-12)
    assert excess_areas(tied) == pytest.approx([excess_aurc(*each) for each in repeated], abs=1e-12)
    assert (excess_areas(tied) >= 0.0).all()
    expected = [auroc(*each) for each in repeated]
    assert pair_shares(tied) == pytest.approx([np.nan if each is None else each for each in expected], abs=1e-12, nan_ok=True)
    assert risks(tied, coverages).tolist() == [pytest.approx(risk_curve(*each, coverages=coverages), abs=1e-12) for each in repeated]
    for risk in (0.0, 0.1, 0.5):
        assert coverages_at(tied, risk) == pytest.approx([coverage_at_risk(*each, risk=risk) for each in repeated])


@given(many)
def test_a_perfect_order_has_no_excess(pairs):
    _, right = arrays(pairs)
    assume(right.any())
    assert excess_areas(tied_answers(Answers(right.astype(float), right)))[0] == pytest.approx(0.0, abs=1e-12)
    assert coverage_at_risk(right.astype(float), right, risk=0.0) == pytest.approx(right.mean())


def test_areas_of_many_answers_keep_their_digits():
    rng = np.random.default_rng(2)
    right = rng.random(40_000) < 0.7
    confidence = right + rng.normal(size=40_000)
    tied = tied_answers(Answers(confidence, right))
    assert areas(tied)[0] == pytest.approx(aurc(confidence, right), rel=1e-11)
    assert excess_areas(tied)[0] == pytest.approx(excess_aurc(confidence, right), rel=1e-10)
    assert pair_shares(tied)[0] == pytest.approx(auroc(confidence, right), rel=1e-12)


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.01, math.nan])
def test_a_coverage_is_a_share_above_0(coverage):
    with pytest.raises(InputError, match="coverage is .*; expected a share of the queries above 0"):
        risk_at_coverage(np.array([0.1]), np.array([True]), coverage=coverage)


@pytest.mark.parametrize("risk", [-0.1, 1.01, math.nan])
def test_a_risk_is_a_share(risk):
    with pytest.raises(InputError, match="risk is .*; expected a share of wrong answers"):
        coverage_at_risk(np.array([0.1]), np.array([True]), risk=risk)


def test_refusals():
    for confidence, right, message in (
        (np.array([]), np.array([], dtype=bool), "holds no answer"),
        (np.array([0.5]), np.array([True, False]), r"confidence has shape \(1,\), right \(2,\)"),
        (np.array([0.5, np.nan]), np.array([True, False]), "confidence of query 1 is nan"),
    ):
        with pytest.raises(InputError, match=message):
            risk_at_coverage(confidence, right, coverage=0.5)
        with pytest.raises(InputError, match=message):
            coverage_at_risk(confidence, right, risk=0.5)
    with pytest.raises(InputError, match="right is of type int64; expected bool"):
        Answers(np.array([0.5]), np.array([1]))
