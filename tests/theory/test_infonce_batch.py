"""Readings of a batch against loops over its definition, the package's other estimates, and laws whose limit is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory import infonce_batch
from normwise.theory.infonce_batch import join_readings, mean_over_steps, read_scores, regime_of_readings
from normwise.theory.infonce_estimates import jackknife_log_means
from normwise.theory.infonce_loss import decoupled_losses, infonce_losses
from normwise.theory.infonce_regime import regime_of
from normwise.theory.negative_sums import negative_sums

seeds = st.integers(0, 10**6)


def drawn(seed, *, rows=5, columns=9, spread=2.0, masked=0.0):
    rng = np.random.default_rng(seed)
    negatives = spread * rng.standard_normal((rows, columns))
    negatives[:, 1:][rng.random((rows, columns - 1)) < masked] = -np.inf
    return spread * rng.standard_normal(rows), negatives


def log_mean(scores):
    """By the definition, in exact sums of a shifted e^s."""
    high = max(scores)
    return high + math.log(math.fsum(math.exp(s - high) for s in scores) / len(scores))


def slow_limit(positive, scores):
    """Leave out one negative at a time."""
    k = len(scores)
    if k == 1:
        return log_mean(scores) - positive
    left = [log_mean([s for j, s in enumerate(scores) if j != out]) for out in range(k)]
    return k * log_mean(scores) - (k - 1) * math.fsum(left) / k - positive


def check_against_loops(positive, negatives):
    found = read_scores(positive, negatives)
    for row, (own, scores) in enumerate(zip(positive.tolist(), negatives.tolist(), strict=True)):
        there = [s for s in scores if s > -math.inf]
        k = len(there)
        weights = [math.exp(s - log_mean(there)) / k for s in there]
        assert found.negatives[row] == k
        assert found.limit[row] == pytest.approx(slow_limit(own, there), rel=1e-9, abs=1e-9)
        assert found.decoupled[row] == pytest.approx(log_mean(there) - own, rel=1e-12, abs=1e-12)
        assert found.risk[row] == pytest.approx(np.logaddexp(-math.log(k), log_mean(there) - own), rel=1e-12, abs=1e-12)
        assert found.effective_negatives[row] == pytest.approx(1.0 / sum(w * w for w in weights), rel=1e-9)
        all_scores = np.array([own, *there])
        assert found.residual[row] == pytest.approx(1.0 - np.exp(own - np.logaddexp.reduce(all_scores)), abs=1e-12)


@given(seed=seeds, spread=st.sampled_from([0.1, 2.0, 20.0, 200.0]), masked=st.sampled_from([0.0, 0.5]), columns=st.sampled_from([1, 2, 9]))
def test_every_figure_is_that_of_a_loop_over_the_definition(seed, spread, masked, columns):
    check_against_loops(*drawn(seed, spread=spread, masked=masked, columns=columns))


@pytest.mark.parametrize(
    "scores",
    [[800.0, 0.0, -800.0], [5.0, 5.0], [0.0, 0.0, 0.0], [40.0, 0.0, 0.0, 0.0], [-700.0, -745.0], [-math.inf, 3.0]],
    ids=["beyond e^709", "a tie of two", "equal", "one outweighs", "far below", "one left"],
)
def test_extreme_scores_keep_their_digits(scores):
    check_against_loops(np.array([1.0]), np.array([scores]))


def test_the_largest_weight_is_not_rounded_to_one():
    found = read_scores(np.zeros(1), np.array([[50.0, 0.0, 0.0]]))
    # Without the first, log mu = 0; without another, log((e^50 + 1) / 2).
    left = (0.0 + 2 * math.log((math.exp(50.0) + 1) / 2)) / 3
    assert found.limit[0] == pytest.approx(3 * math.log((math.exp(50.0) + 2) / 3) - 2 * left, rel=1e-12)


def test_a_shift_of_all_scores_changes_nothing():
    positive, negatives = drawn(1, masked=0.3)
    before, after = read_scores(positive, negatives), read_scores(positive + 300.0, negatives + 300.0)
    for name in ("risk", "decoupled", "limit", "residual", "cv2"):
        assert np.allclose(getattr(before, name), getattr(after, name), atol=1e-10)


def test_masked_columns_are_as_if_they_were_not_there():
    positive, negatives = drawn(2)
    wide = np.insert(negatives, [0, 4, 9], -np.inf, axis=1)
    for name, values in vars(read_scores(positive, negatives)).items():
        assert np.allclose(values, getattr(read_scores(positive, wide), name), rtol=1e-13)


def test_it_says_what_the_other_functions_of_the_package_say():
    rng = np.random.default_rng(3)
    queries, candidates = rng.standard_normal((40, 6)), rng.standard_normal((256, 6))
    positive, scores = rng.standard_normal(40), queries @ candidates.T
    found, sums = read_scores(positive, scores), negative_sums(queries, candidates)
    assert np.allclose(found.risk, infonce_losses(positive, scores), rtol=1e-12)
    assert np.allclose(found.decoupled, decoupled_losses(positive, scores), rtol=1e-12)
    assert np.allclose(found.limit, jackknife_log_means(sums) - positive, atol=1e-5)
    mine, theirs = regime_of_readings(found), regime_of(positive, sums)
    assert (mine.pool, mine.extrapolates) == (theirs.pool, theirs.extrapolates)
    for name in ("cv2_median", "cv2_p90", "cv2_mean", "positive_weight", "decoupled_start", "start"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-4)


def test_the_limit_is_nearer_to_the_truth_than_either_loss():
    rng = np.random.default_rng(4)
    # s ~ N(0, 1), so that log E e^s is 1/2; the positives score 2, so that H is -3/2.
    errors = {}
    for k in (16, 64):
        found = read_scores(np.full(40_000, 2.0), rng.standard_normal((40_000, k)))
        errors[k] = {name: float(getattr(found, name).mean()) + 1.5 for name in ("risk", "decoupled", "limit")}
    assert all(abs(each["limit"]) < 0.25 * min(abs(each["risk"]), abs(each["decoupled"])) for each in errors.values())
    # The leading orders: cv2 = e - 1, and the positive's weight is e^{3/2}.
    assert errors[64]["decoupled"] == pytest.approx(-(math.e - 1) / 128, rel=0.1)
    assert errors[64]["risk"] == pytest.approx((math.exp(1.5) - (math.e - 1) / 2) / 64, rel=0.1)


def test_under_sampling_correction_the_limit_is_the_cross_entropy_over_all_candidates():
    rng = np.random.default_rng(10)
    scores, law = rng.standard_normal(12), rng.dirichlet(np.full(12, 3.0))
    drawn_negatives = rng.choice(12, p=law, size=(20_000, 64))
    logits = scores - np.log(law)
    found = read_scores(np.full(20_000, logits[3]), logits[drawn_negatives]).limit
    expected = np.logaddexp.reduce(scores) - scores[3] + math.log(law[3])
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / math.sqrt(found.size) + 1e-3)


def test_blocks_of_rows_change_nothing(monkeypatch):
    positive, negatives = drawn(5, rows=17, masked=0.2)
    whole = read_scores(positive, negatives)
    monkeypatch.setattr(infonce_batch, "_BLOCK", 30)
    for name, values in vars(read_scores(positive, negatives)).items():
        assert np.array_equal(values, getattr(whole, name))


def test_joined_readings_keep_their_order():
    parts = [read_scores(*drawn(seed, columns=columns)) for seed, columns in ((6, 3), (7, 5))]
    joined = join_readings(parts)
    assert joined.negatives.tolist() == [3] * 5 + [5] * 5
    assert np.array_equal(joined.limit, np.concatenate([part.limit for part in parts]))


def test_the_error_over_steps_covers_the_truth():
    rng = np.random.default_rng(8)
    queries = rng.integers(8, 33, size=(2000, 30))
    found = [mean_over_steps(rng.standard_normal(30) / np.sqrt(sizes), sizes) for sizes in queries]
    covered = np.mean([abs(each.value) < 2.0 * each.error for each in found])
    assert 0.92 < covered < 0.97
    equal = mean_over_steps(np.array([1.0, 2.0, 6.0]), np.array([4, 4, 4]))
    assert equal.error == pytest.approx(np.std([1.0, 2.0, 6.0], ddof=1) / np.sqrt(3))
    assert math.isnan(mean_over_steps(np.array([1.0]), np.array([4])).error)


def test_a_few_negatives_do_not_extrapolate():
    positive, negatives = drawn(9, columns=8, spread=0.01)
    assert not regime_of_readings(read_scores(positive, negatives)).extrapolates
    assert not regime_of_readings(read_scores(*drawn(9, columns=40, spread=3.0))).extrapolates


@pytest.mark.parametrize(
    ("positive", "negatives", "message"),
    [
        (np.zeros(2), np.zeros((2, 0)), r"positive has shape \(2,\), negatives \(2, 0\); expected .* N at least 1"),
        (np.array([0.0, np.nan]), np.zeros((2, 3)), "scores of query 1 are not all finite"),
        (np.array([0.0, -np.inf]), np.zeros((2, 3)), "scores of query 1 are not all finite"),
        (np.zeros(2), np.array([[np.inf, 0.0], [0.0, 0.0]]), "scores of query 0 are not all finite"),
        (np.zeros(2), np.array([[0.0, 0.0], [np.nan, -np.inf]]), "scores of query 1 are not all finite"),
        (np.zeros(2), np.array([[0.0, 0.0], [-np.inf, -np.inf]]), "query 1 has no negative"),
    ],
)
def test_what_cannot_be_read_is_named(positive, negatives, message):
    with pytest.raises(InputError, match=message):
        read_scores(positive, negatives)
