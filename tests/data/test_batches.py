import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data.batches import choose_plan, no_duplicate_batches, random_batches
from normwise.data.sets import Corpus, TrainingPairs


def zipf(rows, documents, seed=0):
    weights = 1.0 / np.arange(1, documents + 1)
    return np.random.default_rng(seed).choice(documents, rows, p=weights / weights.sum())


def pairs(positives, negatives=None):
    size = int(max(positives)) + 1 + (max((max(n) for n in negatives if n), default=0) if negatives else 0)
    corpus = Corpus(tuple(f"c{n}" for n in range(size)), tuple(f"text {n}" for n in range(size)))
    count = len(positives)
    return TrainingPairs(
        tuple(f"q{n}" for n in range(count)), np.asarray(positives, dtype=np.int64), negatives or ((),) * count, corpus, np.arange(count)
    )


@given(st.lists(st.integers(0, 12), min_size=2, max_size=80).filter(lambda rows: len(set(rows)) > 1), st.integers(2, 9), st.integers(0, 5))
def test_no_duplicate_batches_hold_what_they_say(positives, batch_size, seed):
    positives = np.asarray(positives)
    batches = no_duplicate_batches(positives, batch_size=batch_size, seed=seed, epoch=1)
    used = np.concatenate(batches)
    assert len(set(used.tolist())) == len(used)
    for rows in batches:
        assert 2 <= len(rows) <= batch_size
        assert len(set(positives[rows].tolist())) == len(rows)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=60).filter(lambda rows: len(set(rows)) > 1), st.integers(2, 9), st.integers(0, 5))
def test_random_batches_leave_no_query_without_a_negative(positives, batch_size, seed):
    positives = np.asarray(positives)
    batches = random_batches(positives, batch_size=batch_size, seed=seed, epoch=0)
    used = np.concatenate(batches)
    assert len(set(used.tolist())) == len(used)
    for rows in batches:
        assert len(rows) <= batch_size + 1
        assert len(set(positives[rows].tolist())) > 1


def test_all_rows_are_used_where_positives_are_distinct():
    for plan in (random_batches, no_duplicate_batches):
        for count in (6, 7, 8, 64, 65):
            used = np.concatenate(plan(np.arange(count), batch_size=4, seed=0, epoch=0))
            assert sorted(used.tolist()) == list(range(count))


def test_lone_tail_joins_the_batch_before():
    sizes = [len(rows) for rows in random_batches(np.arange(9), batch_size=4, seed=3, epoch=0)]
    assert sizes == [4, 5]


@pytest.mark.parametrize("plan", [random_batches, no_duplicate_batches])
def test_seed_and_epoch_decide_alone(plan):
    positives = np.arange(200)

    def order(seed, epoch):
        return np.concatenate(plan(positives, batch_size=16, seed=seed, epoch=epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(2, 2)
    assert order(1, 2) != order(1, 3)


def test_skewed_data_never_collapse_to_one_row():
    positives = zipf(2000, 500)
    batches = no_duplicate_batches(positives, batch_size=64, seed=0, epoch=0)
    assert min(map(len, batches)) > 48
    left_out = len(positives) - sum(map(len, batches))
    assert left_out > 0
    again = no_duplicate_batches(positives, batch_size=64, seed=0, epoch=1)
    assert set(np.concatenate(batches).tolist()) != set(np.concatenate(again).tolist())


@given(st.integers(0, 50))
def test_explicit_negatives_never_collide(seed):
    rng = np.random.default_rng(seed)
    positives = np.arange(60)
    negatives = tuple(tuple(int(n) for n in rng.choice(60, rng.integers(0, 4), replace=False) if n != row) for row in range(60))
    batches = no_duplicate_batches(positives, batch_size=8, seed=seed, epoch=0, negatives=negatives)
    for rows in batches:
        assert 2 <= len(rows) <= 8
        keys = [key for row in rows for key in {int(positives[row]), *negatives[row]}]
        assert len(keys) == len(set(keys))
    assert sum(map(len, batches)) > 50


def test_dealing_is_uniform_over_partners():
    """Every other row is equally likely to share a batch: a systematic sample of a random order is a random subset."""
    together = np.zeros((12, 12))
    for epoch in range(2000):
        for rows in no_duplicate_batches(np.arange(12), batch_size=4, seed=0, epoch=epoch):
            together[np.ix_(rows, rows)] += 1
    off = together[~np.eye(12, dtype=bool)] / 2000
    assert abs(off - 3 / 11).max() < 0.05  # sd of one entry is 0.010


def test_one_positive_is_refused():
    for plan in (random_batches, no_duplicate_batches):
        with pytest.raises(InputError, match="all 5 rows share one positive"):
            plan(np.zeros(5, dtype=int), batch_size=2, seed=0, epoch=0)
        with pytest.raises(InputError, match="batch_size must be at least 2"):
            plan(np.arange(5), batch_size=1, seed=0, epoch=0)
    assert sum(map(len, random_batches(np.zeros(5, dtype=int), batch_size=1, seed=0, epoch=0, other_negatives=True))) == 5


def test_plan_chooses_by_skew_and_says_why():
    even = choose_plan(pairs(np.arange(100)), batch_size=10, steps=25, seed=4)
    assert (even.kind, len(even.batches), even.epochs, even.left_out) == ("no_duplicates", 25, 3, (0, 0, 0))
    assert "0% of rows repeat" in even.words
    skewed = choose_plan(pairs(zipf(500, 50)), batch_size=10, steps=7, seed=4)
    assert skewed.kind == "random"
    assert "mask" in skewed.reason
    head = choose_plan(pairs(np.r_[np.arange(200), [0] * 9]), batch_size=30, steps=3, seed=0)
    assert head.kind == "random"
    assert "one candidate stands in 10 rows for 7 batches" in head.reason


def test_a_negative_that_stands_everywhere_gives_random_batches():
    plan = choose_plan(pairs(np.arange(100), negatives=((7,),) * 100), batch_size=10, steps=3, seed=0)
    assert plan.kind == "random"


def test_plan_counts_rows_left_out():
    plan = choose_plan(pairs(zipf(2000, 500)), batch_size=64, steps=40, seed=0, kind="no_duplicates")
    assert plan.left_out[0] == 2000 - sum(len(rows) for rows in no_duplicate_batches(zipf(2000, 500), batch_size=64, seed=0, epoch=0))
    assert f"at most {max(plan.left_out)} of 2000 rows left out" in plan.words


def test_longer_plan_begins_with_the_shorter_one():
    train = pairs(np.arange(50))
    short = choose_plan(train, batch_size=8, steps=5, seed=9)
    long = choose_plan(train, batch_size=8, steps=30, seed=9)
    assert all(np.array_equal(one, other) for one, other in zip(short.batches, long.batches, strict=False))
    with pytest.raises(InputError, match="steps must be at least 1"):
        choose_plan(train, batch_size=8, steps=0, seed=9)


def test_a_million_rows_are_planned():
    positives = np.arange(1_000_000)
    assert sum(map(len, no_duplicate_batches(positives, batch_size=128, seed=0, epoch=0))) == 1_000_000
