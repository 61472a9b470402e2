"""Which queries fit and which test: dev and test where they can, halves by cluster elsewhere, refusals with counts."""

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.workflows.calibrate_split import split_queries


def judged(right, *, clusters=None, norms=None):
    right = np.asarray(right, dtype=bool)
    count = right.size
    hits = HitLists(np.tile([0.9, 0.1], (count, 1)), np.ones(count) if norms is None else norms, np.ones((count, 2)), Similarity.COSINE)
    relevant = np.stack([right, np.zeros(count, dtype=bool)], axis=1)
    return JudgedHits(hits, relevant, np.arange(count) if clusters is None else clusters, np.ones(count, dtype=bool))


def mixed(count):
    return np.arange(count) % 2 == 0


def test_dev_fits_and_test_tests_where_both_have_enough():
    split = split_queries(judged(mixed(140)), np.arange(140) < 64, seed=0)
    assert split.fit.tolist() == list(range(64))
    assert split.test.tolist() == list(range(64, 140))
    assert split.notes == ("dev queries fit, test queries test",)


def test_shared_clusters_of_dev_and_test_are_counted():
    clusters = np.arange(140)
    clusters[100] = 3
    split = split_queries(judged(mixed(140), clusters=clusters), np.arange(140) < 64, seed=0)
    assert "1 test queries share" in split.notes[1]


def test_a_small_dev_leaves_halves_of_test():
    split = split_queries(judged(mixed(200)), np.arange(200) < 20, seed=0)
    assert set(split.fit) | set(split.test) == set(range(20, 200))
    assert not set(split.fit) & set(split.test)
    assert "queries of test were split in halves" in split.notes[0]


def test_both_together_serve_where_neither_does_alone():
    split = split_queries(judged(mixed(140)), np.arange(140) < 40, seed=0)
    assert set(split.fit) | set(split.test) == set(range(140))
    assert "dev and test together" in split.notes[0]


def test_halves_keep_clusters_whole_and_follow_the_seed():
    clusters = np.repeat(np.arange(60), 3)
    kinds = np.random.default_rng(0).random(180) < 0.5
    split = split_queries(judged(kinds, clusters=clusters), np.zeros(180, dtype=bool), seed=1)
    assert not set(clusters[split.fit]) & set(clusters[split.test])
    again = split_queries(judged(kinds, clusters=clusters), np.zeros(180, dtype=bool), seed=1)
    assert np.array_equal(split.fit, again.fit)
    assert not np.array_equal(split.fit, split_queries(judged(kinds, clusters=clusters), np.zeros(180, dtype=bool), seed=2).fit)


@pytest.mark.parametrize(
    ("right", "clusters", "message"),
    [
        (np.ones(200), None, "all 200 first hits are right.*harder queries"),
        (np.zeros(200), None, "all 200 first hits are wrong.*check that model"),
        (
            np.arange(200) < 40,
            None,
            r"too few judged queries.*\d+ right and \d+ wrong first hits in \d+ clusters.*need 30 right and 30 wrong",
        ),
        (np.arange(200) < 40, None, "give more judged queries; where this few are right, check that model"),
        (np.arange(200) >= 40, None, "give harder queries, some without an answer .*or let --unanswerable"),
        (mixed(70), None, "each: give more judged queries$"),
        (mixed(200), np.repeat(np.arange(8), 25), "in 4 clusters.*in 10 clusters each: give queries of other texts"),
        (
            mixed(200),
            np.zeros(200, dtype=np.int64),
            "they have 100 right and 100 wrong .* in 1 clusters.*give queries of other texts",
        ),
    ],
)
def test_too_few_of_one_kind_are_refused_with_counts(right, clusters, message):
    with pytest.raises(InputError, match=message):
        split_queries(judged(right, clusters=clusters), np.zeros(len(right), dtype=bool), seed=0)


def test_zero_vectors_do_not_count():
    with pytest.raises(InputError, match="for each of 200 queries, the query or its first hit is a zero vector"):
        split_queries(judged(mixed(200), norms=np.zeros(200)), np.zeros(200, dtype=bool), seed=0)
    norms = np.where(np.arange(200) % 2 == 0, 1.0, 0.0)
    with pytest.raises(InputError, match=r"all 100 first hits are right \(100 queries more are left out.* zero vectors\)"):
        split_queries(judged(mixed(200), norms=norms), np.zeros(200, dtype=bool), seed=0)


def test_zero_vectors_are_not_counted_into_enough():
    norms = np.ones(200)
    norms[[0, 2, 4]] = 0.0
    split = split_queries(judged(mixed(200), norms=norms), np.arange(200) < 64, seed=0)
    assert "split in halves" in split.notes[0]
