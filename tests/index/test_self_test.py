"""Recall against exact search: ties, repeats, what was not found, and the ladder of efforts."""

import numpy as np
import pytest
from contract import all_scores, mixed, names

from normwise.core.errors import InputError
from normwise.core.index_records import RecallRow
from normwise.core.similarity import Similarity
from normwise.index.contents import check_contents
from normwise.index.self_test import doubling, exact_keys, make_self_test, raise_effort

SIMILARITIES = tuple(Similarity)


def corpus(count=50, width=6, *, seed=1):
    return check_contents(names(count), mixed(count, width, seed=seed))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_best_rows_have_recall_one_and_the_worst_none(similarity):
    contents, queries = corpus(), mixed(8, 6, seed=2)
    test = make_self_test(contents, queries, similarity=similarity, k=5, seed=0)
    order = np.argsort(-all_scores(queries, contents.vectors, similarity), axis=1)
    assert test.recall(order[:, :5]) == 1.0
    assert test.recall(order[:, ::-1][:, :5]) == 0.0
    assert test.recall(order[:, 2:7]) == pytest.approx(0.6)
    ids = [[f"d{row}" for row in rows] for rows in order[:, :5]]
    assert test.recall_of_ids(ids) == 1.0
    ids[0] = ["nobody", None, ids[0][0]]
    assert test.recall_of_ids(ids) == pytest.approx(1 - 4 / 40)


def test_a_candidate_tied_with_the_last_place_counts_and_a_repeat_does_not():
    vectors = np.array([[3, 0], [2, 0], [2, 0], [2, 0], [1, 0]], dtype=np.float32)
    test = make_self_test(check_contents(names(5), vectors), np.array([[1.0, 0.0]]), similarity=Similarity.DOT, k=2, seed=0)
    assert test.recall(np.array([[0, 3]])) == 1.0
    assert test.recall(np.array([[2, 3]])) == 1.0
    assert test.recall(np.array([[0, 0]])) == 0.5
    assert test.recall(np.array([[0, 4]])) == 0.5
    assert test.recall(np.array([[0, -1]])) == 0.5


def test_what_float32_cannot_tell_apart_counts_and_what_it_can_does_not():
    base = np.array([[1.0, 0, 0, 0]] * 3)
    base[1, 0], base[2, 0] = 1 - 2e-7, 1 - 1e-4
    test = make_self_test(check_contents(names(3), base), np.array([[1.0, 0, 0, 0]]), similarity=Similarity.DOT, k=1, seed=0)
    assert test.recall(np.array([[1]])) == 1.0
    assert test.recall(np.array([[2]])) == 0.0


def test_keys_are_scores_without_the_query_norm():
    queries, vectors = mixed(3, 5, seed=3), mixed(7, 5, seed=4)
    rows = np.array([[0, 6, -1], [1, 1, 2], [5, 4, 3]])
    for similarity, twin in ((Similarity.DOT, Similarity.QUERY_NORMALIZED), (Similarity.CANDIDATE_NORMALIZED, Similarity.COSINE)):
        keys = exact_keys(queries, vectors, rows, similarity=similarity)
        wanted = np.take_along_axis(all_scores(queries, vectors, twin), np.maximum(rows, 0), axis=1)
        assert np.allclose(keys[rows >= 0], wanted[rows >= 0], rtol=1e-6)
        assert keys[0, 2] == -np.inf


def test_made_queries_are_named_as_such_and_are_no_candidates():
    contents = corpus()
    test = make_self_test(contents, None, similarity=Similarity.COSINE, k=3, seed=5)
    again = make_self_test(contents, None, similarity=Similarity.COSINE, k=3, seed=5)
    assert test.source == "candidates"
    assert len(test) == 50
    assert np.array_equal(test.queries, again.queries)
    noise = np.linalg.norm(test.queries - contents.vectors, axis=1) / contents.norms
    assert 0.05 < noise.min() < 0.5 < noise.max() < 1.0


def test_at_most_four_hundred_queries_are_asked():
    test = make_self_test(corpus(), mixed(900, 6, seed=6), similarity=Similarity.DOT, k=3, seed=0)
    assert (len(test), test.source) == (400, "queries")
    with pytest.raises(InputError, match="queries are none at all"):
        make_self_test(corpus(), np.empty((0, 6)), similarity=Similarity.DOT, k=3, seed=0)


def test_effort_rises_until_the_target_is_met():
    asked = []

    def measure(effort):
        asked.append(effort)
        return RecallRow(graph="g", recall=min(1.0, effort / 100))

    rows = raise_effort(measure, doubling(16, 500), target=0.95)
    assert asked == [16, 32, 64, 128]
    assert [row.recall for row in rows] == [0.16, 0.32, 0.64, 1.0]
    assert raise_effort(measure, doubling(1, 4), target=0.95)[-1].recall == 0.04
