"""Our nAUC is MTEB's own function: random queries, ties, negative scores, few queries, its own confidence scores."""

import numpy as np
import pytest

from normwise.theory.abstention_nauc import abstention_nauc

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb._evaluators import retrieval_metrics

    return retrieval_metrics


def same(theirs, confidence, metric):
    expected = theirs.nauc(confidence, metric)
    found = abstention_nauc(confidence, metric)
    assert (np.nan if found is None else found) == pytest.approx(expected, abs=1e-9, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("count", [*range(1, 32), 45, 99, 100, 1234])
def test_random_queries_with_and_without_ties(theirs, count):
    """45 and 15 queries abstain on another number where a rate is .3 rather than 3 steps of a tenth."""
    rng = np.random.default_rng(count)
    for decimals in (0, 1, 12):
        confidence = rng.normal(scale=2.0, size=count).round(decimals)
        for metric in (rng.random(count), (rng.random(count) < 0.4).astype(float), rng.random(count).round(1)):
            # A metric that is the same throughout is below: theirs is then a quotient of rounding errors.
            if np.ptp(metric) > 0.0 or metric[0] in (0.0, 1.0):
                same(theirs, confidence, metric)


def test_scores_of_any_sign_and_size(theirs):
    rng = np.random.default_rng(0)
    metric = rng.random(50)
    for confidence in (-rng.random(50), 400.0 * rng.normal(size=50), np.full(50, -1.0), np.repeat([-1.0, 2.0], 25)):
        same(theirs, confidence, metric)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_constant_metric_is_undefined_in_both(theirs, value):
    confidence = np.random.default_rng(0).random(16)
    assert np.isnan(theirs.nauc(confidence, np.full(16, value)))
    assert abstention_nauc(confidence, np.full(16, value)) is None


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_its_own_confidence_scores_from_rows_of_scores(theirs, shift):
    """max, std and diff1 of MTEB are score, spread and margin of a row."""
    rng = np.random.default_rng(1)
    scores = -np.sort(-(rng.normal(size=(80, 10)).round(1) + shift), axis=1)
    metric = rng.random(80).round(2)
    own = {"max": scores[:, 0], "std": scores.std(axis=1), "diff1": scores[:, 0] - scores[:, 1]}
    rows = [theirs.confidence_scores(row.tolist()) for row in scores]
    for name, confidence in own.items():
        given = np.array([row[name] for row in rows])
        assert confidence == pytest.approx(given, abs=1e-12)
        # Their own values: two orders of summing a row may part what is equal in the other.
        same(theirs, given, metric)


def test_the_whole_evaluator_agrees(theirs):
    """Names and figures as its retrieval evaluation gives them."""
    rng = np.random.default_rng(2)
    scores = -np.sort(-rng.normal(size=(40, 5)), axis=1)
    results = {f"q{query}": {f"d{hit}": float(score) for hit, score in enumerate(row)} for query, row in enumerate(scores)}
    metric = rng.random(40)
    found = theirs.evaluate_abstention(results, {"NDCG@10": metric.tolist()})
    own = {"max": scores[:, 0], "diff1": scores[:, 0] - scores[:, 1]}
    for name, confidence in own.items():
        assert abstention_nauc(confidence, metric) == pytest.approx(found[f"nAUC_NDCG@10_{name}"], abs=1e-9)
