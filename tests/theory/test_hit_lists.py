from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.directions import normalize
from normwise.theory.hit_lists import HitLists, JudgedHits


def lists(similarity=Similarity.COSINE, seed=0, queries=5, depth=4):
    rng = np.random.default_rng(seed)
    q, d = rng.normal(size=(queries, 3)), rng.normal(size=(depth, 3)) * np.exp(rng.normal(size=(depth, 1)))
    left = normalize(q) if similarity.normalizes_query else q
    right = normalize(d) if similarity.normalizes_candidate else d
    scores = left @ right.T
    order = np.argsort(-scores, axis=1)
    cosines = np.take_along_axis(normalize(q) @ normalize(d).T, order, axis=1)
    hits = HitLists(
        np.take_along_axis(scores, order, axis=1),
        np.linalg.norm(q, axis=1),
        np.linalg.norm(d, axis=1)[order],
        similarity,
        complete=True,
        query_lengths=rng.integers(1, 9, size=queries).astype(float),
        hit_density=rng.normal(size=(queries, depth)),
    )
    return hits, cosines


@pytest.mark.parametrize("similarity", list(Similarity))
def test_cosines_are_the_same_under_every_similarity(similarity):
    hits, cosines = lists(similarity)
    np.testing.assert_allclose(hits.cosines, cosines, atol=1e-12)


def test_zero_vectors_have_cosine_0_and_are_not_usable():
    hits = HitLists(np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]), np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), Similarity.DOT)
    assert hits.cosines.tolist() == [[0.0, 0.0]] * 3
    assert hits.usable.tolist() == [False, False, True]


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_parts_hold_the_rows_that_were_picked_in_every_column(mask):
    hits, _ = lists()
    rows = np.array(mask)
    part, numbered = hits.subset(rows), hits.subset(np.flatnonzero(rows))
    for column in fields(hits):
        value = getattr(hits, column.name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(part, column.name), value[rows])
            np.testing.assert_array_equal(getattr(numbered, column.name), value[rows])
        else:
            assert getattr(part, column.name) == value
    assert len(part) == sum(mask)
    assert part.depth == hits.depth


def test_a_part_of_judged_hits_takes_its_priors_along():
    hits, _ = lists()
    prior = np.arange(20.0).reshape(5, 4)
    judged = JudgedHits(hits, prior > 7, np.arange(5), prior[:, 0] > 3, {"norm": prior})
    part = judged.subset(np.array([4, 1]))
    assert part.priors["norm"].tolist() == prior[[4, 1]].tolist()
    assert part.clusters.tolist() == [4, 1]
    assert part.right.tolist() == [True, False]
    assert part.answerable.tolist() == [True, True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": np.zeros((5, 0))}, r"scores have shape \(5, 0\); expected \(queries, hits\)"),
        ({"query_norms": np.ones(4)}, r"query_norms have shape \(4,\); expected \(5,\)"),
        ({"hit_norms": np.ones(5)}, r"hit_norms have shape \(5,\); expected \(5, 4\)"),
        ({"query_norms": np.array([1.0, 1.0, -1.0, 1.0, 1.0])}, "query_norms of query 2 hold -1.0; expected finite numbers >= 0"),
        ({"query_lengths": np.array([1.0, np.nan, 1.0, 1.0, 1.0])}, "query_lengths of query 1 hold nan"),
        ({"scores": np.tile([3.0, 2.0, 2.5, 1.0], (5, 1))}, "scores of query 0 ascend somewhere"),
        ({"scores": np.full((5, 4), np.inf)}, "scores of query 0 hold inf"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_query(change, words):
    with pytest.raises(InputError, match=words):
        replace(lists()[0], **change)


def test_judged_hits_that_do_not_fit_are_refused():
    hits, _ = lists()
    whole = np.ones((5, 4), dtype=bool)
    with pytest.raises(InputError, match=r"clusters has shape \(4,\); expected \(5,\)"):
        JudgedHits(hits, whole, np.arange(4), np.ones(5, dtype=bool))
    with pytest.raises(InputError, match=r"length has shape \(5,\); expected \(5, 4\)"):
        JudgedHits(hits, whole, np.arange(5), np.ones(5, dtype=bool), {"length": np.ones(5)})
