"""Conformity and the share of norms in dot products: loops, identities, limits."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from modality_worlds import isotropic

from normwise.core.errors import InputError
from normwise.theory.association import associations
from normwise.theory.conformity import conformity, conformity_report, mean_direction, own_conformity
from normwise.theory.norm_share import log_score_shares, norm_share


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(2, 20), width=st.integers(1, 6))
def test_conformity_is_the_mean_cosine_and_the_cosine_to_the_mean_times_its_length(seed, rows, width):
    x, reference = isotropic(rows, width, seed=seed), isotropic(rows + 3, width, seed=seed + 1)
    found = conformity(x, reference)
    cosines = [np.mean([u @ v / np.linalg.norm(u) / np.linalg.norm(v) for v in reference]) for u in x]
    assert found == pytest.approx(np.array(cosines))
    m = mean_direction(reference)
    length = np.linalg.norm(m)
    assume(length > 0)  # unit vectors of one dimension can cancel to the last bit: then there is no direction to be close to
    to_mean = (x @ m) / np.linalg.norm(x, axis=1) / length
    assert found == pytest.approx(to_mean * length)
    own = own_conformity(x)
    alone = [np.mean([x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for j in range(rows) if j != i]) for i in range(rows)]
    assert own == pytest.approx(np.array(alone), abs=1e-12)
    assert own.mean() == pytest.approx((rows * np.linalg.norm(mean_direction(x)) ** 2 - 1) / (rows - 1), abs=1e-12)


def test_a_zero_vector_conforms_to_nothing():
    assert conformity(np.zeros((1, 2)), np.eye(2)).tolist() == [0.0]
    assert own_conformity(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])).tolist() == [0.0, 0.5, 0.5]


def test_norms_that_follow_conformity_are_found_beyond_the_length():
    rng = np.random.default_rng(0)
    x = isotropic(500, 8, seed=1) + 0.7
    tokens = rng.integers(2, 40, size=500).astype(float)
    logs = own_conformity(x) + 0.02 * rng.normal(size=500)
    found = conformity_report(x, logs, {"tokens": tokens}, seed=0)
    assert found.norm.partial_spearman > 0.9
    assert found.norm.controls == ("tokens",)
    assert found.norm.exponent is None
    assert found.mean == pytest.approx(own_conformity(x).mean())
    assert found.mean_length == pytest.approx(np.linalg.norm(mean_direction(x)))
    assert [record.name for record in found.factors] == ["tokens"]
    # A norm of the length alone: what conformity shows goes away with the length held.
    mixed = (isotropic(500, 8, seed=2) + np.linspace(0, 2, 500)[:, None]).astype(np.float64)
    length = np.linspace(0, 2, 500) + 0.05 * rng.normal(size=500)
    shared = conformity_report(mixed, length + 0.05 * rng.normal(size=500), {"tokens": length}, seed=0)
    assert shared.norm.spearman > 0.6
    assert abs(shared.norm.partial_spearman) < 0.2


def test_the_relation_with_the_norm_is_that_of_the_house():
    x = isotropic(100, 4, seed=0) + 0.4
    logs = np.log(np.linalg.norm(x, axis=1))
    direct = associations(logs, {"conformity": own_conformity(x)}, seed=3)[0]
    assert conformity_report(x, logs, {}, seed=3).norm == direct.model_copy(update={"exponent": None})


def test_shares_are_those_of_a_slow_loop_and_sum_to_one():
    rng = np.random.default_rng(0)
    queries, candidates = rng.normal(size=(7, 5)), rng.normal(size=(60, 5)) * np.exp(rng.normal(size=(60, 1)))
    lengths = np.linalg.norm(candidates, axis=1)
    scores = queries @ candidates.T
    found = log_score_shares(scores, lengths)
    for row, score in enumerate(scores):
        kept = score > 0
        log_s, log_r = np.log(score[kept]), np.log(lengths[kept])
        by_norm = np.cov(log_s, log_r)[0, 1] / np.var(log_s, ddof=1)
        by_cosine = np.cov(log_s, log_s - log_r)[0, 1] / np.var(log_s, ddof=1)
        assert found[row] == pytest.approx(by_norm)
        assert by_norm + by_cosine == pytest.approx(1.0)


def test_the_top_tenth_is_that_of_the_cosine():
    rng = np.random.default_rng(3)
    candidates = rng.normal(size=(200, 5)) * np.exp(rng.normal(size=(200, 1)))
    lengths = np.linalg.norm(candidates, axis=1)
    scores = rng.normal(size=(4, 5)) @ candidates.T
    for row, score in enumerate(scores):
        best = sorted(range(200), key=lambda place: -score[place] / lengths[place])[:20]
        log_s, log_r = np.log(score[best]), np.log(lengths[best])
        expected = np.cov(log_s, log_r)[0, 1] / np.var(log_s, ddof=1)
        assert log_score_shares(scores, lengths, top=0.1)[row] == pytest.approx(expected)
    # Scores near 0 make most of the variance over all candidates.
    found = norm_share(rng.normal(size=(60, 5)), candidates, np.arange(60), names=("a", "b"), seed=0)
    assert found.top_share.mean > found.share.mean
    assert found.outcome == "by the norm"


def test_the_share_is_0_without_norms_and_1_without_directions():
    rng = np.random.default_rng(1)
    queries = np.abs(rng.normal(size=(40, 4)))
    unit = np.abs(rng.normal(size=(50, 4)))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    flat = norm_share(queries, unit, np.arange(40), names=("texts", "pictures"), seed=0)
    assert flat.share.mean == pytest.approx(0.0, abs=1e-9)
    assert (flat.outcome, flat.same_first, flat.positive) == ("by the direction", 1.0, 1.0)
    one = np.ones((50, 4)) * rng.lognormal(size=(50, 1))
    long = norm_share(queries, one, np.arange(40), names=("texts", "pictures"), seed=0)
    assert long.share.mean == pytest.approx(1.0)
    assert long.outcome == "by the norm"


def test_the_share_does_not_depend_on_the_norms_of_queries():
    rng = np.random.default_rng(2)
    queries, candidates = rng.normal(size=(20, 4)), rng.normal(size=(60, 4))
    one = norm_share(queries, candidates, np.arange(20), names=("a", "b"), seed=0)
    two = norm_share(queries * rng.lognormal(size=(20, 1)), candidates, np.arange(20), names=("a", "b"), seed=0)
    assert two.share.mean == pytest.approx(one.share.mean)
    assert two.same_first == one.same_first


def test_few_scores_above_0_leave_the_share_open():
    found = norm_share(-np.ones((12, 2)), np.ones((20, 2)), np.arange(12), names=("a", "b"), seed=0)
    assert found.share.mean is None
    assert (found.outcome, found.positive) == ("undecided", 0.0)


def test_what_does_not_fit_is_named():
    with pytest.raises(InputError, match="expected vectors of one width, at least one"):
        conformity(np.eye(2), np.empty((0, 2)))
    with pytest.raises(InputError, match="no others to conform to"):
        own_conformity(np.eye(2)[:1])
    with pytest.raises(InputError, match="row 1 is zero and has no logarithm"):
        norm_share(np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]]), np.arange(2), names=("a", "b"), seed=0)
