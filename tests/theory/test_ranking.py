"""Ranking metrics against loops over the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.records import METRICS
from normwise.theory.ranking import metrics_per_query


def slow_metrics(ranking, judged):
    relevant = {row for row, gain in judged.items() if gain > 0}
    if not relevant:
        return dict.fromkeys(METRICS, math.nan)
    dcg = sum(max(judged.get(row, 0.0), 0.0) / math.log2(place + 2) for place, row in enumerate(ranking[:10]))
    best = sorted((gain for gain in judged.values() if gain > 0), reverse=True)[:10]
    ideal = sum(gain / math.log2(place + 2) for place, gain in enumerate(best))
    reciprocal = 0.0
    for place, row in enumerate(ranking[:10]):
        if row in relevant:
            reciprocal = 1 / (place + 1)
            break
    recall = {f"recall@{k}": len(relevant & set(ranking[:k])) / len(relevant) for k in (1, 10, 100)}
    return {"p@1": float(ranking[0] in relevant), "mrr@10": reciprocal, "ndcg@10": dcg / ideal} | recall


@st.composite
def rankings(draw):
    count, queries = draw(st.integers(1, 130)), draw(st.integers(1, 4))
    depth = draw(st.integers(1, count))
    rows = [draw(st.permutations(range(count)))[:depth] for _ in range(queries)]
    gains = st.dictionaries(st.integers(0, count + 3), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), max_size=15)
    return rows, [draw(gains) for _ in range(queries)]


@given(rankings())
def test_equals_the_definitions(case):
    rows, relevance = case
    found = metrics_per_query(np.array(rows), relevance)
    assert list(found) == list(METRICS)
    for query, (ranking, judged) in enumerate(zip(rows, relevance, strict=True)):
        for metric, expected in slow_metrics(ranking, judged).items():
            assert found[metric][query] == pytest.approx(expected, nan_ok=True, abs=1e-12)
            assert math.isnan(expected) or 0.0 <= found[metric][query] <= 1.0 + 1e-12


def test_the_best_order_scores_one():
    found = metrics_per_query(np.array([[2, 0, 1, 3]]), [{0: 2.0, 1: 1.0, 2: 3.0}])
    assert {m: found[m][0] for m in ("p@1", "mrr@10", "ndcg@10", "recall@10")} == dict.fromkeys(
        ("p@1", "mrr@10", "ndcg@10", "recall@10"), 1.0
    )


def test_recall_is_over_all_relevant_also_beyond_the_cutoff():
    found = metrics_per_query(np.arange(20)[None], [dict.fromkeys(range(20), 1.0)])
    assert (found["recall@1"][0], found["recall@10"][0], found["recall@100"][0]) == (1 / 20, 10 / 20, 1.0)
    assert found["ndcg@10"][0] == pytest.approx(1.0)


def test_ten_is_inside_and_eleven_is_not():
    ranking = np.arange(12)[None].repeat(2, axis=0)
    found = metrics_per_query(ranking, [{9: 1.0}, {10: 1.0}])
    assert found["mrr@10"].tolist() == [0.1, 0.0]
    assert found["recall@10"].tolist() == [1.0, 0.0]
    assert found["ndcg@10"][0] == pytest.approx(1 / math.log2(11))


@pytest.mark.parametrize("size", [1e308, 2.0**1023, 1e-300, 5e-324])
def test_gains_of_any_size_are_those_of_gain_one(size):
    ranking = np.arange(12)[None]
    judged = dict.fromkeys((0, 3, 11, 5, 7), 1.0)
    found = metrics_per_query(ranking, [{row: size for row in judged}])
    expected = metrics_per_query(ranking, [judged])
    assert all(found[metric].tolist() == expected[metric].tolist() for metric in METRICS)


def test_tiny_gains_beside_huge_ones_stay_relevant():
    found = metrics_per_query(np.array([[0, 1]]), [{0: 5e-324, 1: 1e308}])
    assert found["p@1"].tolist() == [1.0]
    assert found["ndcg@10"][0] == pytest.approx(1 / math.log2(3))


@given(st.dictionaries(st.integers(0, 15), st.floats(1e-3, 1e3), min_size=1), st.integers(-1000, 1000))
def test_ndcg_does_not_see_the_unit_of_the_gains(judged, exponent):
    ranking = np.arange(16)[None]
    scaled = {row: math.ldexp(gain, exponent) for row, gain in judged.items()}
    assert metrics_per_query(ranking, [scaled])["ndcg@10"] == metrics_per_query(ranking, [judged])["ndcg@10"]


@pytest.mark.parametrize(
    ("indices", "relevance", "options", "message"),
    [
        (np.array([[0]]), [], {}, "rank 1 queries, relevance judges 0"),
        (np.array([[0, 0]]), [{0: 1.0}], {}, "query 0 ranks row 0 twice"),
        (np.array([[-1]]), [{0: 1.0}], {}, "row -1"),
        (np.array([[1]]), [{0: math.nan}], {}, "the gain nan"),
        (np.array([[1]]), [{0: math.inf}], {}, "the gain inf"),
        (np.array([[1]]), [{-2: 1.0}], {}, "row -2"),
        (np.array([[1, 0]]), [{0: 1.0}], {"candidates": 50}, "recall@100 needs 50"),
        (np.empty((1, 0), dtype=int), [{0: 1.0}], {}, "no column"),
    ],
)
def test_refusals(indices, relevance, options, message):
    with pytest.raises(InputError, match=message):
        metrics_per_query(indices, relevance, **options)
