"""The loss against torch and slow loops, its floor against minimization, collisions against drawn batches."""

import inspect
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from normwise.core.errors import InputError
from normwise.theory.infonce_loss import collision_share, decoupled_losses, epoch_collision_share, infonce_losses, loss_floor

seeds = st.integers(0, 10**6)
counts = st.integers(1, 9)


def some_scores(seed, k, *, spread=3.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=5), spread * rng.normal(size=(5, k))


@given(seeds, counts, st.sampled_from([1e-3, 1.0, 20.0, 400.0]))
def test_the_loss_is_cross_entropy_less_log_k(seed, k, spread):
    positive, negatives = some_scores(seed, k, spread=spread)
    logits = torch.from_numpy(np.concatenate([positive[:, None], negatives], axis=1))
    theirs = torch.nn.functional.cross_entropy(logits, torch.zeros(5, dtype=torch.long), reduction="none").numpy()
    assert infonce_losses(positive, negatives) == pytest.approx(theirs - math.log(k), rel=1e-12, abs=1e-12)


@given(seeds, counts)
def test_losses_are_their_equations(seed, k):
    positive, negatives = some_scores(seed, k)
    slow = [math.log(1 / k + math.fsum(math.exp(s - plus) for s in row) / k) for plus, row in zip(positive, negatives, strict=True)]
    assert infonce_losses(positive, negatives) == pytest.approx(slow)
    slow = [math.log(math.fsum(math.exp(s - plus) for s in row) / k) for plus, row in zip(positive, negatives, strict=True)]
    assert decoupled_losses(positive, negatives) == pytest.approx(slow)


@given(seeds, counts)
def test_the_two_losses_differ_by_the_positive(seed, k):
    positive, negatives = some_scores(seed, k)
    infonce, decoupled = infonce_losses(positive, negatives), decoupled_losses(positive, negatives)
    assert infonce == pytest.approx(np.logaddexp(-math.log(k), decoupled))
    assert (infonce >= np.maximum(decoupled, -math.log(k)) - 1e-12).all()


@given(seeds, counts)
def test_the_order_of_negatives_and_a_term_of_the_query_change_nothing(seed, k):
    positive, negatives = some_scores(seed, k)
    rng = np.random.default_rng(seed)
    rows, order = 100.0 * rng.normal(size=5), rng.permutation(k)
    for losses in (infonce_losses, decoupled_losses):
        expected = losses(positive, negatives)
        assert losses(positive + rows, negatives[:, order] + rows[:, None]) == pytest.approx(expected, abs=1e-11)


@given(seeds, counts)
def test_each_negative_twice_is_the_same_mean(seed, k):
    positive, negatives = some_scores(seed, k)
    twice = np.repeat(negatives, 2, axis=1)
    assert decoupled_losses(positive, twice) == pytest.approx(decoupled_losses(positive, negatives))
    # The positive weighs half as much among twice as many.
    assert (infonce_losses(positive, twice) < infonce_losses(positive, negatives)).all()


def test_extreme_scores():
    far = np.array([[-400.0, -400.0]])
    assert infonce_losses(np.array([400.0]), far)[0] == pytest.approx(-math.log(2))
    assert infonce_losses(np.array([-400.0]), -far)[0] == pytest.approx(800.0)
    assert decoupled_losses(np.array([400.0]), far)[0] == pytest.approx(-800.0)


@pytest.mark.parametrize("losses", [infonce_losses, decoupled_losses])
@pytest.mark.parametrize(
    ("positive", "negatives", "message"),
    [
        (np.zeros(2), np.zeros((3, 4)), r"positive has shape \(2,\), negatives \(3, 4\); expected \(B,\) and \(B, k\), k at least 1"),
        (np.zeros(2), np.zeros((2, 0)), r"negatives \(2, 0\); expected"),
        (np.zeros((2, 1)), np.zeros((2, 3)), r"positive has shape \(2, 1\)"),
        (np.zeros(2), np.zeros(2), r"negatives \(2,\); expected"),
        (np.array([0.0, np.nan]), np.zeros((2, 3)), "scores of query 1 are not all finite; check the vectors, and the temperature"),
        (np.zeros(3), np.array([[0.0], [0.0], [-np.inf]]), "scores of query 2 are not all finite"),
    ],
)
def test_what_has_no_loss_is_refused(losses, positive, negatives, message):
    # Without the checked signature of the test run, which refuses a wrong number of axes in its own words.
    with pytest.raises(InputError, match=message):
        inspect.unwrap(losses)(positive, negatives)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def batch_loss(queries, documents, tau):
    """Mean usual loss of a batch, less log k."""
    cosines = unit(queries) @ unit(documents).T / tau
    k = len(cosines) - 1
    return float(infonce_losses(np.diag(cosines), cosines[~np.eye(k + 1, dtype=bool)].reshape(k + 1, k)).mean())


def least_loss(loss, width, rows):
    """The least of five searches from random vectors."""
    found = []
    for seed in range(5):
        start = np.random.default_rng(seed).normal(size=rows * width)
        found.append(minimize(lambda flat: loss(flat.reshape(rows, width)), start, method="L-BFGS-B", options={"maxiter": 500}).fun)
    return min(found)


@pytest.mark.parametrize(("k", "tau"), [(1, 1.0), (3, 0.5), (4, 2.0)])
def test_free_negatives_reach_the_floor_and_fall_no_lower(k, tau):
    def loss(rows):
        query, positive, others = unit(rows[0]), unit(rows[1]), unit(rows[2:])
        return float(infonce_losses(np.array([query @ positive]) / tau, (others @ query / tau)[None])[0])

    assert least_loss(loss, 3, 2 + k) == pytest.approx(loss_floor(k, tau), abs=1e-5)


@pytest.mark.parametrize(("k", "tau"), [(1, 1.0), (2, 0.5), (3, 1.0)])
def test_a_batch_reaches_its_floor_and_falls_no_lower(k, tau):
    """Queries and documents are free of each other, in a width that has room for the simplex."""
    found = least_loss(lambda rows: batch_loss(rows[: k + 1], rows[k + 1 :], tau), k + 1, 2 * (k + 1))
    assert found == pytest.approx(loss_floor(k, tau, in_batch=True), abs=1e-5)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_regular_simplex_is_the_floor_of_a_batch(k):
    corners = np.eye(k + 1) - 1 / (k + 1)
    assert batch_loss(corners, corners, 0.3) == pytest.approx(loss_floor(k, 0.3, in_batch=True))


def test_a_narrow_batch_stays_above_its_floor():
    """Six directions of a plane are no simplex."""
    found = least_loss(lambda rows: batch_loss(rows[:6], rows[6:], 1.0), 2, 12)
    assert found > loss_floor(5, 1.0, in_batch=True) + 0.05


@given(seeds, st.integers(1, 6), st.floats(0.05, 5.0))
def test_no_batch_lies_below_its_floor(seed, k, tau):
    """Pairs from far apart to nearly one, around the simplex too."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 9))
    queries = rng.normal(size=(k + 1, width))
    if width == k + 1 and rng.random() < 0.5:
        queries = np.eye(width) - 1 / width + 0.05 * queries
    documents = queries + rng.choice([0.01, 0.3, 10.0]) * rng.normal(size=queries.shape)
    assert batch_loss(queries, documents, tau) >= loss_floor(k, tau, in_batch=True) - 1e-12


def test_one_query_of_a_batch_may_lie_below_the_floor_of_its_mean():
    vectors = np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    first = infonce_losses(np.array([1.0]), (vectors[1:] @ vectors[0])[None])[0]
    assert loss_floor(2, 1.0) == pytest.approx(first)
    assert first < loss_floor(2, 1.0, in_batch=True)


@given(st.integers(1, 10**6), st.floats(1e-3, 100.0))
def test_the_floor_is_its_equation(k, tau):
    for in_batch, gap in ((False, 2 / tau), (True, (1 + 1 / k) / tau)):
        usual = loss_floor(k, tau, in_batch=in_batch, normalized=False)
        assert usual == pytest.approx(math.log1p(k * math.exp(-gap)), rel=1e-9, abs=1e-300)
        assert loss_floor(k, tau, in_batch=in_batch) == pytest.approx(usual - math.log(k), abs=1e-12)
    assert loss_floor(k, tau, in_batch=True) >= loss_floor(k, tau)
    assert loss_floor(1, tau, in_batch=True) == loss_floor(1, tau)


def test_a_tiny_temperature_has_no_floor_but_log_k():
    assert loss_floor(5, 1e-300, normalized=False) == 0.0


@pytest.mark.parametrize("k", [0, -1])
def test_a_floor_without_negatives_is_refused(k):
    with pytest.raises(InputError, match=f"k is {k}; expected at least 1 negative"):
        loss_floor(k, 1.0)


@pytest.mark.parametrize("tau", [0.0, -1.0, math.inf, math.nan])
def test_a_floor_without_temperature_is_refused(tau):
    with pytest.raises(InputError, match=f"temperature is {tau}; expected a finite number above 0"):
        loss_floor(3, tau)


@given(seeds, st.integers(0, 4))
def test_collisions_are_a_sum_over_all_batches(seed, k):
    shares = np.random.default_rng(seed).dirichlet(np.ones(3))
    slow = math.fsum(
        shares[own] * math.prod(shares[j] for j in others)
        for own in range(3)
        for others in itertools.product(range(3), repeat=k)
        if own in others
    )
    assert collision_share(shares, k) == pytest.approx(slow, abs=1e-12)


def test_collisions_of_drawn_batches():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(50, 0.5))
    drawn = rng.choice(50, p=shares, size=(40_000, 17))
    hits = (drawn[:, 1:] == drawn[:, :1]).any(axis=1)
    assert abs(hits.mean() - collision_share(shares, 16)) < 4 * hits.std() / math.sqrt(len(hits))


def test_collisions_at_their_ends():
    assert collision_share(np.ones(1), 0) == 0.0
    assert collision_share(np.ones(1), 3) == 1.0
    assert collision_share(np.array([0.0, 1.0]), 3) == 1.0
    assert collision_share(np.full(10**6, 1e-6), 1) == pytest.approx(1e-6, rel=1e-9)
    assert collision_share(np.full(4, 0.25), 10**6) == 1.0


@pytest.mark.parametrize(
    ("shares", "k", "message"),
    [
        (np.array([0.5, 0.6]), 1, "2 shares sum to 1.1, their least value is 0.5; expected values of at least 0 of sum 1: divide counts"),
        (np.array([1.5, -0.5]), 1, "2 shares sum to 1, their least value is -0.5"),
        (np.array([np.nan, 1.0]), 1, "2 shares sum to nan"),
        (np.empty(0), 1, "0 shares sum to 0; expected"),
        (np.ones(1), -1, "k is -1; expected at least 0 negatives"),
    ],
)
def test_what_has_no_collisions_is_refused(shares, k, message):
    with pytest.raises(InputError, match=message):
        collision_share(shares, k)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 25))
def test_collisions_of_an_epoch_are_those_of_all_its_batches(counts, k):
    rows, others = sum(counts), min(k, sum(counts) - 1)
    slow = sum(c / rows * (1 - math.comb(rows - c, others) / math.comb(rows - 1, others)) for c in counts)
    assert epoch_collision_share(np.array(counts), k) == pytest.approx(slow, abs=1e-12)


def test_collisions_of_shuffled_epochs():
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 5, size=20)
    positives = np.repeat(np.arange(20), counts)
    batches = np.array([rng.permutation(positives)[:9] for _ in range(20_000)])
    hits = (batches[:, 1:] == batches[:, :1]).any(axis=1)
    assert abs(hits.mean() - epoch_collision_share(counts, 8)) < 4 * hits.std() / math.sqrt(len(hits))


def test_distinct_positives_never_collide_and_equal_ones_always():
    assert epoch_collision_share(np.ones(500, dtype=np.int64), 499) == 0.0
    assert epoch_collision_share(np.ones(1, dtype=np.int64), 3) == 0.0
    assert epoch_collision_share(np.array([7]), 1) == 1.0
    assert epoch_collision_share(np.array([7]), 0) == 0.0
    # 10^6 rows, one pair of them equal: digits that a difference of log-gammas has lost.
    rare = np.append(np.ones(10**6 - 2, dtype=np.int64), 2)
    assert epoch_collision_share(rare, 5) == pytest.approx(2e-6 * 5 / (10**6 - 1), rel=1e-9)


def test_rows_that_were_drawn_collide_as_all_of_them_do():
    """Unbiased: over all draws of 5 of 8 rows, the mean share is that of the whole."""
    positives = np.array([0, 0, 0, 1, 1, 2, 3, 4])
    few = [
        epoch_collision_share(np.unique(positives[list(some)], return_counts=True)[1], 2) for some in itertools.combinations(range(8), 5)
    ]
    assert np.mean(few) == pytest.approx(epoch_collision_share(np.array([3, 2, 1, 1, 1]), 2), abs=1e-12)


@pytest.mark.parametrize(
    ("counts", "k", "message"),
    [
        (np.array([1, 0]), 1, "2 counts, the least is 0; expected the rows of each positive"),
        (np.empty(0, dtype=np.int64), 1, "0 counts; expected"),
        (np.ones(1, dtype=np.int64), -1, "k is -1; expected at least 0 negatives"),
    ],
)
def test_an_epoch_of_no_rows_is_refused(counts, k, message):
    with pytest.raises(InputError, match=message):
        epoch_collision_share(counts, k)
