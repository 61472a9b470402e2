"""Bootstrap intervals: a slow loop over the same draws, identities, limits, degenerate cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.theory import bootstrap
from normwise.theory.bootstrap import (
    bonferroni_level,
    cluster_mean_interval,
    clusters_by_target,
    excludes_zero,
    hierarchical_interval,
    holm_levels,
    paired_difference_interval,
    paired_hierarchical_interval,
)


def slow_interval(values, clusters, *, seed, level, samples):
    """Draw cluster and seed counts as the module does, then average query by query."""
    rng = np.random.default_rng(seed)
    seeds, _ = values.shape
    used = [q for q in range(values.shape[1]) if not all(math.isnan(row[q]) for row in values)]
    names = sorted({int(clusters[q]) for q in used})
    rng_clusters, rng_seeds = rng.integers(len(names), size=(samples, len(names))), rng.integers(seeds, size=(samples, seeds))
    means = []
    for drawn_clusters, drawn_seeds in zip(rng_clusters, rng_seeds, strict=True):
        pool = [
            values[s][q]
            for s in drawn_seeds
            for c in drawn_clusters
            for q in used
            if int(clusters[q]) == names[c] and not math.isnan(values[s][q])
        ]
        if pool:
            means.append(sum(pool) / len(pool))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 8))
def test_equals_a_loop_over_queries(seed, seeds, queries):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((seeds, queries)) < 0.1, np.nan, rng.random((seeds, queries)))
    values[:, :2] = rng.random((seeds, 2))
    clusters = rng.integers(0, 4, queries)
    clusters[:2] = [50, -7]
    found = hierarchical_interval(values, clusters, seed=seed, level=0.8, samples=300)
    low, high = slow_interval(values, clusters, seed=seed, level=0.8, samples=300)
    assert found.mean == pytest.approx(np.nanmean(values))
    assert (found.ci_low, found.ci_high) == (pytest.approx(low), pytest.approx(high))


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_whole_weights_are_repeated_queries(seed, seeds):
    rng = np.random.default_rng(seed)
    values = rng.random((seeds, 6))
    values[0, 2] = np.nan
    clusters = np.array([0, 0, 1, 2, 2, 3])
    weights = np.array([1.0, 3.0, 2.0, 1.0, 2.0, 0.0])
    repeats = weights.astype(int)
    weighed = hierarchical_interval(values, clusters, seed=seed, weights=weights)
    repeated = hierarchical_interval(np.repeat(values, repeats, axis=1), np.repeat(clusters, repeats), seed=seed)
    assert weighed.mean == pytest.approx(repeated.mean)
    assert (weighed.ci_low, weighed.ci_high) == (pytest.approx(repeated.ci_low), pytest.approx(repeated.ci_high))
    alike = hierarchical_interval(values, clusters, seed=seed, weights=np.full(6, 0.3))
    plain = hierarchical_interval(values, clusters, seed=seed)
    assert (alike.mean, alike.ci_low, alike.ci_high) == pytest.approx((plain.mean, plain.ci_low, plain.ci_high))


@given(st.integers(0, 10**6))
def test_clusters_of_one_follow_the_normal_interval(seed):
    values = np.random.default_rng(seed).normal(size=400)
    found = cluster_mean_interval(values, np.arange(400), seed=seed, samples=2000)
    half = 1.96 * values.std() / 20
    assert found.ci_low == pytest.approx(values.mean() - half, abs=0.2 * half)
    assert found.ci_high == pytest.approx(values.mean() + half, abs=0.2 * half)


def test_copying_every_query_into_its_cluster_changes_nothing():
    """The classic mistake, queries drawn one by one, would shrink the interval by sqrt(10)."""
    values = np.random.default_rng(0).random(50)
    one = cluster_mean_interval(values, np.arange(50), seed=1)
    ten = cluster_mean_interval(np.repeat(values, 10), np.repeat(np.arange(50), 10), seed=1)
    assert (ten.ci_low, ten.ci_high) == (pytest.approx(one.ci_low), pytest.approx(one.ci_high))


def test_repeating_a_seed_changes_nothing():
    """The luck of the queries is shared by all seeds: five equal seeds are no narrower than one."""
    values = np.random.default_rng(0).random(60)
    one = hierarchical_interval(values[None], np.arange(60), seed=1)
    five = hierarchical_interval(np.tile(values, (5, 1)), np.arange(60), seed=1)
    assert (five.ci_low, five.ci_high) == (pytest.approx(one.ci_low), pytest.approx(one.ci_high))


def test_seeds_widen_the_interval():
    values = np.tile(np.array([[0.0], [1.0], [0.5], [0.2], [0.9]]), (1, 30))
    found = hierarchical_interval(values, np.arange(30), seed=0)
    assert found.ci_high - found.ci_low > 0.5
    assert cluster_mean_interval(values.mean(axis=0), np.arange(30), seed=0).ci_low == pytest.approx(0.52)


def test_one_cluster_of_several_seeds_resamples_the_seeds():
    found = hierarchical_interval(np.array([[0.0], [1.0], [1.0]]), np.zeros(1, dtype=int), seed=0)
    assert (found.ci_low, found.ci_high) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[np.nan, np.nan], []])
def test_nothing_defined_gives_nothing(values):
    found = cluster_mean_interval(np.array(values, dtype=float), np.arange(len(values)), seed=0)
    assert found == Interval(mean=None, ci_low=None, ci_high=None)


def test_one_cluster_has_a_mean_but_no_interval():
    found = cluster_mean_interval(np.array([0.0, 1.0, np.nan]), np.array([3, 3, 4]), seed=0)
    assert found == Interval(mean=0.5, ci_low=None, ci_high=None)


def test_undefined_queries_and_seeds_are_left_out():
    values = np.array([0.1, np.nan, 0.9, 0.4])
    whole = cluster_mean_interval(values[[0, 2, 3]], np.array([0, 2, 3]), seed=4)
    assert cluster_mean_interval(values, np.arange(4), seed=4) == whole
    assert hierarchical_interval(np.stack([values, np.full(4, np.nan)]), np.arange(4), seed=4) == whole


def test_pairs_cancel_what_they_share():
    rng = np.random.default_rng(0)
    hard = rng.normal(size=(2, 200)) * 10
    paired = paired_hierarchical_interval(hard + 0.1, hard, np.arange(200), seed=0)
    assert (paired.ci_low, paired.ci_high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert paired_difference_interval(hard[0], hard[0] + 1, np.arange(200), seed=0).mean == pytest.approx(-1.0)


def test_wider_levels_are_wider_and_tails_are_filled():
    values = np.random.default_rng(0).normal(size=100)
    near, far = (cluster_mean_interval(values, np.arange(100), seed=0, level=level, samples=1) for level in (0.9, 0.999))
    assert far.ci_low < near.ci_low < near.ci_high < far.ci_high


def test_chunks_cover_all_draws(monkeypatch):
    values = np.random.default_rng(0).normal(size=(2, 50))
    monkeypatch.setattr(bootstrap, "_CHUNK_DRAWS", 170)
    sums = np.ones((1, 50))
    assert np.concatenate(list(bootstrap._resampled_means(sums, sums, seed=0, samples=10))).tolist() == [1.0] * 10
    assert hierarchical_interval(values, np.arange(50), seed=0).ci_low is not None


def test_bonferroni_divides_the_error():
    assert bonferroni_level(0.95, 1) == pytest.approx(0.95)
    assert bonferroni_level(0.9, 4) == pytest.approx(0.975)


@given(st.lists(st.floats(0.0001, 0.9999), min_size=1, max_size=7))
def test_holm_levels_agree_with_holm_on_p_values(p_values):
    """A claim of p-value p has an interval that excludes 0 at every coverage below 1 - p."""

    def claim(p):
        return lambda level: Interval(mean=1.0, ci_low=1.0 if p <= 1 - level else -1.0, ci_high=2.0)

    rejected, order = [False] * len(p_values), sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, index in enumerate(order):
        if p_values[index] > 1 - bonferroni_level(0.95, len(p_values) - place):
            break
        rejected[index] = True
    found = holm_levels([claim(p) for p in p_values])
    assert [excludes_zero(interval) for interval, _ in found] == rejected


def test_holm_of_nothing_is_nothing():
    assert holm_levels([]) == []


@given(st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=1, max_size=7))
def test_clusters_join_queries_that_share_targets_also_through_others(targets):
    found = clusters_by_target([dict.fromkeys(rows, 1.0) for rows in targets])
    joined = [{query} for query in range(len(targets))]
    for _ in targets:
        for a in range(len(targets)):
            for b in range(len(targets)):
                if any(targets[x] & targets[y] for x in joined[a] for y in joined[b]):
                    joined[a] = joined[b] = joined[a] | joined[b]
    for a in range(len(targets)):
        assert {b for b in range(len(targets)) if found[a] == found[b]} == joined[a]


def test_gains_of_zero_join_nothing():
    assert len(set(clusters_by_target([{0: 0.0}, {0: 0.0}]).tolist())) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": np.arange(3)}, "values have 2 queries, clusters 3"),
        ({"level": 1.0}, "level is 1.0"),
        ({"level": 0.0}, "level is 0.0"),
        ({"samples": 0}, "samples is 0"),
        ({"values": np.array([0.0, np.inf])}, "infinite"),
        ({"weights": np.ones(3)}, "weights have 3 queries, values 2"),
        ({"weights": np.array([1.0, -1.0])}, r"weights: query 1 has weight -1\.0"),
        ({"weights": np.array([np.nan, 1.0])}, "weights: query 0 has weight nan"),
    ],
)
def test_refusals(options, message):
    given_ = {"values": np.array([0.0, 1.0]), "clusters": np.arange(2), "seed": 0} | options
    with pytest.raises(InputError, match=message):
        cluster_mean_interval(given_.pop("values"), given_.pop("clusters"), **given_)


def test_unequal_pairs_are_refused():
    with pytest.raises(InputError, match="candidate has 2 queries, baseline 3"):
        paired_difference_interval(np.ones(2), np.ones(3), np.arange(2), seed=0)
    with pytest.raises(InputError, match=r"candidate has shape \(1, 2\), baseline \(2, 2\)"):
        paired_hierarchical_interval(np.ones((1, 2)), np.ones((2, 2)), np.arange(2), seed=0)
