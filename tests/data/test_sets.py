import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.clusters import components
from normwise.data.sets import Corpus, Judged, Origin, TrainingPairs, is_skewed, repeated_share

CORPUS = Corpus(("a", "b", "c"), ("x", "y", "z"))


def pairs(positives, negatives=None, queries=None):
    count = len(positives)
    return TrainingPairs(
        queries or tuple(f"q{row}" for row in range(count)),
        np.asarray(positives, dtype=np.int64),
        negatives or ((),) * count,
        CORPUS,
        np.arange(count),
    )


def test_rows_outside_the_corpus_are_refused():
    with pytest.raises(InputError, match=r"positives must be rows 0\.\.2"):
        pairs([0, 3])
    with pytest.raises(InputError, match=r"positives must be rows 0\.\.2 of the corpus, got -1"):
        pairs([0, -1])
    with pytest.raises(InputError, match="negatives must be rows"):
        pairs([0, 1], negatives=((1,), (7,)))
    with pytest.raises(InputError, match="relevance must be rows"):
        Judged(("q",), ("t",), ({5: 1.0},), CORPUS, np.zeros(1, dtype=np.int64))


def test_lengths_types_and_ids_are_checked():
    with pytest.raises(InputError, match="one length, got queries 1, positives 2"):
        pairs([0, 1], queries=("only one",))
    with pytest.raises(InputError, match="id 'a' stands for two candidates"):
        Corpus(("a", "a"), ("x", "y"))
    with pytest.raises(InputError, match="signed integers"):
        TrainingPairs(("q",), np.array([0.0]), ((),), CORPUS, np.array([0]))
    with pytest.raises(InputError, match="a query id is repeated"):
        Judged(("q", "q"), ("t", "u"), ({}, {}), CORPUS, np.zeros(2, dtype=np.int64))
    with pytest.raises(InputError, match="grade is not above 0"):
        Judged(("q",), ("t",), ({0: 0.0},), CORPUS, np.zeros(1, dtype=np.int64))
    with pytest.raises(InputError, match="origin has 1 rows for 3"):
        Corpus(("a", "b", "c"), ("x", "y", "z"), Origin("f", np.array([1])))


def test_equality_compares_arrays_and_ignores_origin():
    one, other = pairs([0, 1]), pairs([0, 1])
    assert one == other
    assert one != pairs([1, 0])
    assert one.subset(np.array([1])).positives.tolist() == [1]


def test_popularity_counts_every_candidate():
    assert pairs([2, 2, 0]).popularity().tolist() == [1, 0, 2]


def test_skew_is_the_share_of_repeated_positives():
    positives = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    seen, repeated = set(), 0
    for row in positives.tolist():
        repeated += row in seen
        seen.add(row)
    assert repeated_share(positives) == pytest.approx(repeated / len(positives))
    assert not is_skewed(positives)
    assert is_skewed(np.array([0, 0, 1, 1]))
    assert repeated_share(np.array([], dtype=np.int64)) == 0.0


def test_components_join_through_any_shared_key():
    keys = [["t1", "f1"], ["t2", "f2"], ["t3", "f1"], ["t2"], ["t9", "t3"]]
    assert components(keys).tolist() == [0, 1, 0, 1, 0]
    assert components([]).tolist() == []
