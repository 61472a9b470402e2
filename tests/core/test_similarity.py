"""The four similarities and their two ranking classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity, parse_similarity


def scores(queries, candidates, similarity):
    if similarity.normalizes_query:
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    if similarity.normalizes_candidate:
        candidates = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    return queries @ candidates.T


@given(st.integers(0, 10_000), st.sampled_from(list(Similarity)))
def test_a_similarity_ranks_as_its_class_says(seed, similarity):
    random = np.random.default_rng(seed)
    queries, candidates = random.normal(size=(3, 5)), random.normal(size=(7, 5)) * random.uniform(0.1, 9, size=(7, 1))
    own, of_class = (np.argsort(-scores(queries, candidates, s), axis=1) for s in (similarity, similarity.ranking))
    np.testing.assert_array_equal(own, of_class)


def test_the_two_classes_differ():
    queries, candidates = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [9.0, 9.0]])
    assert scores(queries, candidates, Similarity.COSINE).argmax() == 0
    assert scores(queries, candidates, Similarity.DOT).argmax() == 1


def test_names_are_read_and_unknown_ones_get_near_names():
    assert [parse_similarity(s.value) for s in Similarity] == list(Similarity)
    assert parse_similarity(Similarity.DOT) is Similarity.DOT
    with pytest.raises(InputError, match=r"similarity 'cosin' is unknown: did you mean cosine\?"):
        parse_similarity("cosin")
    with pytest.raises(InputError, match="known names: candidate_normalized, cosine, dot, query_normalized"):
        parse_similarity("L2")
