"""Risk and coverage: brute force over all orders, closed-form limits, invariances, refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.risk_coverage import aurc, auroc, excess_aurc, log_losses, negative_log_likelihood

answers = st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.4, 0.8, 0.9]), st.booleans()), min_size=1, max_size=6)


def area(order, correct):
    """The mean over k of the error rate among the first k."""
    return sum(sum(not correct[i] for i in order[:k]) / k for k in range(1, len(order) + 1)) / len(order)


def sorted_orders(confidence):
    """Every order of the answers in which confidence does not rise."""
    count = len(confidence)
    return [o for o in itertools.permutations(range(count)) if all(confidence[o[i]] >= confidence[o[i + 1]] for i in range(count - 1))]


@given(answers)
def test_aurc_is_the_mean_over_all_orders_of_equal_confidences(given_answers):
    confidence, correct = ([pair[i] for pair in given_answers] for i in (0, 1))
    expected = np.mean([area(order, correct) for order in sorted_orders(confidence)])
    assert aurc(np.array(confidence), np.array(correct)) == pytest.approx(expected, abs=1e-12)


@given(answers)
def test_the_excess_is_over_the_best_of_all_orders(given_answers):
    confidence, correct = (np.array([pair[i] for pair in given_answers]) for i in (0, 1))
    best = min(area(order, correct.tolist()) for order in itertools.permutations(range(correct.size)))
    assert excess_aurc(confidence, correct) == pytest.approx(aurc(confidence, correct) - best, abs=1e-12)
    assert excess_aurc(correct.astype(float), correct) == 0.0
    assert excess_aurc(confidence, correct) >= -1e-12


@given(answers)
def test_auroc_counts_pairs(given_answers):
    confidence, correct = ([pair[i] for pair in given_answers] for i in (0, 1))
    pairs = [
        1.0 if confidence[i] > confidence[j] else 0.5 if confidence[i] == confidence[j] else 0.0
        for i, right in enumerate(correct)
        for j, other in enumerate(correct)
        if right and not other
    ]
    found = auroc(np.array(confidence), np.array(correct))
    assert found is None if not pairs else found == pytest.approx(np.mean(pairs))


@given(answers)
def test_likelihood_is_the_loop(given_answers):
    confidence, correct = ([pair[i] for pair in given_answers] for i in (0, 1))
    terms = [-math.log(p if y else 1.0 - p) for p, y in given_answers]
    assert negative_log_likelihood(np.array(confidence), np.array(correct)) == pytest.approx(np.mean(terms))
    assert log_losses(np.array(confidence), np.array(correct)) == pytest.approx(terms)


def test_the_best_area_tends_to_its_closed_form():
    correct = np.arange(200_000) < 50_000
    assert aurc(correct - np.arange(200_000) * 1e-7, correct) == pytest.approx(0.75 + 0.25 * math.log(0.25), abs=1e-4)


def test_a_constant_confidence_has_the_error_rate_as_its_area():
    correct = np.random.default_rng(0).random(500) < 0.3
    assert aurc(np.full(500, 0.7), correct) == pytest.approx(1.0 - correct.mean())
    assert auroc(np.full(500, 0.7), correct) == 0.5


def test_only_the_order_counts():
    rng = np.random.default_rng(1)
    confidence, correct = rng.random(200).round(2), rng.random(200) < 0.5
    shuffled = rng.permutation(200)
    for figure in (aurc, excess_aurc, auroc):
        expected = figure(confidence, correct)
        assert figure(np.exp(5.0 * confidence), correct) == pytest.approx(expected)
        assert figure(confidence[shuffled], correct[shuffled]) == pytest.approx(expected)


def test_a_wrong_certainty_costs_everything():
    assert negative_log_likelihood(np.array([1.0]), np.array([False])) == math.inf
    assert negative_log_likelihood(np.array([1.0, 0.0]), np.array([True, False])) == 0.0


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        (np.array([]), np.array([], dtype=bool), "holds no answer"),
        (np.array([0.5]), np.array([True, False]), "confidence has 1 answers, correct 2"),
        (np.array([0.5, np.nan]), np.array([True, False]), "answer 1 has nan"),
    ],
)
def test_refusals(confidence, correct, message):
    for figure in (aurc, excess_aurc, auroc, negative_log_likelihood):
        with pytest.raises(InputError, match=message):
            figure(confidence, correct)


def test_a_likelihood_takes_probabilities_only():
    with pytest.raises(InputError, match=r"confidence runs from -0.1 to 1.2"):
        log_losses(np.array([-0.1, 1.2]), np.array([True, False]))
