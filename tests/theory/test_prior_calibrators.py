"""E5, E6: their searches by slow loops, the truths they must find, and what must change nothing."""

import math

import numpy as np
import pytest
from calibrator_worlds import loss, softmax_world
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import PRIORS, HitLists, JudgedHits
from normwise.theory.listwise_prior import fit_listwise
from normwise.theory.norm_reranking import STRENGTHS
from normwise.theory.prior_calibrators import PriorCalibrator, RerankingCalibrator, log_weights, mean_reciprocal_rank, power_keys
from normwise.theory.softmax_calibrators import TemperatureCalibrator

BOTH = [RerankingCalibrator, PriorCalibrator]


def test_beta_is_the_one_that_a_slow_loop_chooses():
    judged = softmax_world(seed=0, count=250, prior_power=1.0)
    logs = np.log(judged.hits.hit_norms)
    table = []
    for strength in STRENGTHS:
        beta = strength / logs.std()
        right, ranks = 0, []
        for i in range(250):
            keys = [s * math.exp(beta * (w - logs.mean())) for s, w in zip(judged.hits.scores[i], logs[i], strict=True)]
            order = sorted(range(len(keys)), key=lambda j: (-keys[j], j))
            right += judged.relevant[i, order[0]]
            ranks.append(next((1 / (r + 1) for r, j in enumerate(order) if judged.relevant[i, j]), 0.0))
        table.append((right, sum(ranks) / 250, -abs(beta), beta))
    fitted = RerankingCalibrator.fit(judged)
    assert fitted.beta == pytest.approx(max(table, key=lambda row: (row[0], round(row[1], 12), row[2]))[3])
    assert fitted.beta > 0


def test_equal_accuracy_goes_to_the_reciprocal_rank_and_then_to_the_smallest_power():
    """First hits are the same under every power; the second and third change places at a high one."""
    scores, norms = np.tile([0.9, 0.31, 0.3], (8, 1)), np.tile([2.0, 1.0, 1.4], (8, 1))
    relevant = np.zeros((8, 3), dtype=bool)
    relevant[:4, 0] = True
    hits = HitLists(scores, np.ones(8), norms, Similarity.COSINE)
    nothing_to_gain = JudgedHits(hits, relevant.copy(), np.arange(8), np.ones(8, dtype=bool))
    assert RerankingCalibrator.fit(nothing_to_gain).beta == 0.0
    relevant[4:, 2] = True
    third_should_lead = JudgedHits(hits, relevant, np.arange(8), np.ones(8, dtype=bool))
    fitted = RerankingCalibrator.fit(third_should_lead)
    assert fitted.beta > 0
    assert fitted.order(hits).tolist() == [0] * 8
    smaller = [s / np.log(norms).std() for s in STRENGTHS if 0 <= s / np.log(norms).std() < fitted.beta - 1e-9]
    assert smaller, "0 at least is smaller"
    best = mean_reciprocal_rank(fitted.keys(hits), relevant)
    assert max(mean_reciprocal_rank(power_keys(scores, np.log(norms) - fitted.center, b), relevant) for b in smaller) < best


def test_power_0_leaves_the_order_and_is_a_temperature():
    judged = softmax_world(seed=1, count=500)
    plain = TemperatureCalibrator.fit(judged)
    flat = RerankingCalibrator(
        kind="norm_reranking", beta=0.0, center=1.3, inverse_temperature=plain.inverse_temperature, bounds=plain.bounds
    )
    assert not flat.order(judged.hits).any()
    np.testing.assert_array_equal(flat.predict(judged.hits), plain.predict(judged.hits))


def test_power_1_of_cosine_ranks_as_dot():
    hits = softmax_world(seed=2, count=300).hits
    one = RerankingCalibrator(kind="norm_reranking", beta=1.0, center=0.0, inverse_temperature=5.0, bounds=(1e-3, 1e4))
    np.testing.assert_array_equal(one.order(hits), (hits.scores * hits.hit_norms).argmax(axis=1))


def test_a_negative_score_falls_under_a_larger_weight():
    hits = HitLists(np.array([[-0.1, -0.2]]), np.ones(1), np.array([[8.0, 1.0]]), Similarity.COSINE)
    one = RerankingCalibrator(kind="norm_reranking", beta=1.0, center=0.0, inverse_temperature=5.0, bounds=(1e-3, 1e4))
    assert one.order(hits).tolist() == [1]


def test_listwise_weights_are_where_a_brute_search_ends():
    judged = softmax_world(seed=3, count=200, prior_power=0.7)
    relevant = judged.relevant | (np.random.default_rng(3).random(judged.relevant.shape) < 0.05)
    scores, logs = judged.hits.scores, np.log(judged.hits.hit_norms)

    def slow(w):
        total = 0.0
        for s, x, r in zip(scores, logs, relevant, strict=True):
            z = w[0] * s + w[1] * x
            total -= np.mean([v - np.log(np.exp(z).sum()) for v in z[r]]) if r.any() else 0.0
        return total / 200

    wanted = minimize(slow, np.array([5.0, 0.0]), method="Nelder-Mead", tol=1e-9).x
    found = fit_listwise(scores, logs, relevant, np.ones(scores.shape, dtype=bool))
    assert found == pytest.approx(wanted.tolist(), abs=2e-3)


@pytest.mark.parametrize("power", [-0.5, 0.0, 0.8])
def test_true_weights_are_recovered_and_stand_calibrated(power):
    judged = softmax_world(seed=4, count=6000, prior_power=power, inverse=12.0)
    fitted = PriorCalibrator.fit(judged)
    assert fitted.score_weight == pytest.approx(12.0, abs=0.6)
    assert fitted.prior_weight == pytest.approx(power, abs=0.12)
    assert fitted.inverse_temperature == pytest.approx(1.0, abs=0.1)
    if power:
        fresh = softmax_world(seed=5, count=6000, prior_power=power, inverse=12.0)
        right = fresh.relevant[np.arange(6000), fitted.order(fresh.hits)]
        assert right.mean() > fresh.right.mean()
        assert abs(fitted.predict(fresh.hits).mean() - right.mean()) < 0.02
        assert loss(fitted, fresh) < loss(TemperatureCalibrator.fit(judged), fresh)


def test_unanswerable_queries_teach_doubt_and_not_order():
    judged = softmax_world(seed=6, count=4000, prior_power=0.6)
    answered = PriorCalibrator.fit(judged)
    half = np.arange(4000) % 2 == 0
    none = JudgedHits(judged.hits, judged.relevant & half[:, None], judged.clusters, half)
    doubtful, same = PriorCalibrator.fit(none), PriorCalibrator.fit(judged.subset(half))
    assert doubtful.score_weight == pytest.approx(same.score_weight, rel=1e-4)
    assert doubtful.prior_weight == pytest.approx(same.prior_weight, rel=1e-3)
    assert doubtful.inverse_temperature < 0.8 * answered.inverse_temperature


@pytest.mark.parametrize("calibrator", BOTH)
def test_controls_read_their_own_weights(calibrator):
    judged = softmax_world(seed=7, count=1500, prior_power=2.0)
    for prior in PRIORS:
        fitted = calibrator.fit(judged, prior=prior)
        assert fitted.prior == prior
        assert fitted.kind.startswith(prior.replace(" ", "_"))
        p = fitted.predict(judged.hits, priors=judged.priors)
        assert ((p > 0) & (p < 1)).all()
    norm, null = calibrator.fit(judged), calibrator.fit(judged, prior="permuted norm")
    right = [judged.relevant[np.arange(1500), each.order(judged.hits, priors=judged.priors)].mean() for each in (norm, null)]
    assert right[0] > right[1] + 0.02
    with pytest.raises(InputError, match="prior 'permuted norm': these hits do not know it"):
        null.predict(judged.hits)
    with pytest.raises(InputError, match="prior 'size' is unknown"):
        calibrator.fit(judged, prior="size")


def test_log_weights_come_from_the_hits_or_else_as_given():
    hits = softmax_world(seed=8, count=3).hits
    given = np.zeros(hits.scores.shape)
    np.testing.assert_array_equal(log_weights(hits, "length", {"length": given}), np.log1p(hits.hit_lengths))
    bare = HitLists(hits.scores, hits.query_norms, hits.hit_norms, hits.similarity)
    assert log_weights(bare, "length", {"length": given}) is given
    with pytest.raises(InputError, match=r"prior 'frequency' has shape \(3, 2\); expected finite log weights of shape"):
        log_weights(bare, "frequency", {"frequency": np.zeros((3, 2))})


@pytest.mark.parametrize("calibrator", BOTH)
def test_zero_vectors_are_never_put_first_and_do_not_fit(calibrator):
    judged = softmax_world(seed=9, count=400, prior_power=1.0)
    scores, norms = judged.hits.scores.copy(), judged.hits.hit_norms.copy()
    scores[:, -2:], norms[:, -1], norms[:, -2] = [0.0, 0.0], 0.0, 1e-3
    scores[:, :-2] = np.maximum(scores[:, :-2], 0.01)
    query_norms = judged.hits.query_norms.copy()
    query_norms[:20] = 0.0
    hits = HitLists(scores, query_norms, norms, Similarity.COSINE)
    spoiled = JudgedHits(hits, judged.relevant, judged.clusters, judged.answerable)
    fitted = calibrator.fit(spoiled)
    assert fitted == calibrator.fit(spoiled.subset(np.arange(20, 400)))
    p, order = fitted.predict(hits), fitted.order(hits)
    assert (order < 7).all()
    assert (p[:20] == 0).all()
    assert ((p[20:] > 0) & (p[20:] < 1)).all()


@pytest.mark.parametrize("calibrator", BOTH)
def test_equal_weights_change_no_order(calibrator):
    judged = softmax_world(seed=10, count=300)
    hits = HitLists(judged.hits.scores, judged.hits.query_norms, np.full(judged.hits.scores.shape, 3.0), Similarity.COSINE)
    fitted = calibrator.fit(JudgedHits(hits, judged.relevant, judged.clusters, judged.answerable))
    assert not fitted.order(hits).any()
    plain = TemperatureCalibrator.fit(judged)
    np.testing.assert_allclose(fitted.predict(hits), plain.predict(hits), atol=1e-4)


def test_lists_that_the_weights_separate_end_inside_the_range():
    scores = np.tile([0.9, 0.2], (12, 1))
    logs = np.tile([0.0, 1.0], (12, 1))
    first = np.tile([True, False], (12, 1))
    beta, alpha = fit_listwise(scores, logs, first, np.ones((12, 2), dtype=bool))
    assert math.isfinite(beta)
    assert 0 < beta <= 1e4 / 0.7
    assert math.isfinite(alpha)
    beta, alpha = fit_listwise(scores, np.zeros((12, 2)), ~first, np.ones((12, 2), dtype=bool))
    assert beta == 0.0, "scores that always mislead get no weight, never a negative one"
    assert alpha == 0.0, "a log prior that never varies"


@pytest.mark.parametrize("calibrator", BOTH)
def test_a_corpus_of_one_is_refused(calibrator):
    judged = softmax_world(seed=11, count=20, depth=1)
    relevant = np.arange(20)[:, None] % 2 == 0
    with pytest.raises(InputError, match="one hit per query"):
        calibrator.fit(JudgedHits(judged.hits, relevant, judged.clusters, judged.answerable))


@given(seed=st.integers(0, 30), factor=st.sampled_from([1e-3, 7.0, 400.0]))
def test_units_and_the_order_of_queries_change_nothing(seed, factor):
    judged = softmax_world(seed=seed, count=150, prior_power=0.8)
    hits = judged.hits
    scaled = HitLists(factor * hits.scores, hits.query_norms, factor * hits.hit_norms, Similarity.QUERY_NORMALIZED)
    other = JudgedHits(scaled, judged.relevant, judged.clusters, judged.answerable)
    mixed = judged.subset(np.random.default_rng(seed).permutation(150))
    for calibrator in BOTH:
        here = calibrator.fit(judged)
        there = calibrator.fit(other)
        np.testing.assert_array_equal(there.order(scaled), here.order(hits))
        np.testing.assert_allclose(there.predict(scaled), here.predict(hits), atol=1e-4)
        np.testing.assert_allclose(calibrator.fit(mixed).predict(hits), here.predict(hits), atol=1e-4)
