"""nAUC: the curve's loop over all orders of ties, its scale, resamples repeated, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.abstention_nauc import abstention_nauc, naucs
from normwise.theory.resamples import Resamples
from normwise.theory.tied_answers import RankedResamples, rank

values = st.sampled_from([0.0, 0.25, 0.5, 1.0])
queries = st.lists(st.tuples(st.sampled_from([-2.0, -0.5, 0.0, 0.3, 0.3, 400.0]), values), min_size=1, max_size=5)
many = st.lists(st.tuples(st.integers(-9, 9).map(float), values), min_size=1, max_size=40)


def arrays(pairs):
    return np.array([c for c, _ in pairs]), np.array([m for _, m in pairs])


def area(pairs):
    """The trapezoids under the mean metric of those that stay, over every order that abstains on the least confident first."""
    curves = []
    for order in itertools.permutations(pairs):
        if any(a[0] > b[0] for a, b in itertools.pairwise(order)):
            continue
        left = [min(round(rate * len(pairs)), len(pairs) - 1) for rate in np.linspace(0, 1, 11)[:-1].tolist()]
        curves.append([np.mean([m for _, m in order[gone:]]) for gone in left])
    curve = np.mean(curves, axis=0)
    return sum((a + b) / 2 * 0.1 for a, b in itertools.pairwise(curve)), curve[0] * 0.9


@given(queries)
def test_it_is_the_loop_over_all_orders_of_ties(pairs):
    metric = [m for _, m in pairs]
    found = abstention_nauc(*arrays(pairs))
    if len(set(metric)) == 1:
        assert found is None
        return
    (own, flat), (best, _) = area(pairs), area([(m, m) for m in metric])
    assert found == pytest.approx((own - flat) / (best - flat), abs=1e-12)


@given(many)
def test_it_runs_up_to_1_and_the_metric_itself_reaches_it(pairs):
    confidence, metric = arrays(pairs)
    found = abstention_nauc(confidence, metric)
    if found is not None:
        assert found <= 1.0 + 1e-12
        assert abstention_nauc(metric, metric) == pytest.approx(1.0)
        assert abstention_nauc(np.zeros(metric.size), metric) == pytest.approx(0.0, abs=1e-12)
        assert abstention_nauc(-metric, metric) < 0.0
        assert abstention_nauc(np.exp(confidence), metric) == pytest.approx(found, abs=1e-12)
        assert abstention_nauc(confidence, 7.0 * metric - 3.0) == pytest.approx(found, abs=1e-9)
        assert abstention_nauc(confidence[::-1], metric[::-1]) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 1e-300])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_constant_metric_has_none(value, count):
    assert abstention_nauc(np.random.default_rng(0).random(count), np.full(count, value)) is None


@given(many, st.integers(0, 10**6))
def test_resamples_are_repeated_queries(pairs, seed):
    confidence, metric = arrays(pairs)
    times = np.random.default_rng(seed).integers(0, 4, size=(5, metric.size))
    times[:, 0] += ~times.any(axis=1)
    drawn = Resamples(times.astype(float), np.arange(metric.size))
    found = naucs(RankedResamples(rank(confidence), drawn), RankedResamples(rank(metric), drawn), metric)
    expected = [abstention_nauc(np.repeat(confidence, row), np.repeat(metric, row)) for row in times]
    assert found == pytest.approx([np.nan if each is None else each for each in expected], abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("confidence", "metric", "message"),
    [
        (np.array([]), np.array([]), "confidence holds no query"),
        (np.array([0.1]), np.array([0.1, 0.2]), r"metric has shape \(2,\) for 1 confidences"),
        (
            np.array([0.1, 0.2]),
            np.array([0.1, np.nan]),
            "metric of query 1 is nan; expected a finite number, 0 for a query that has no answer",
        ),
        (np.array([-np.inf, 0.2]), np.array([0.1, 0.2]), "confidence of query 0 is -inf"),
    ],
)
def test_refusals(confidence, metric, message):
    with pytest.raises(InputError, match=message):
        abstention_nauc(confidence, metric)
