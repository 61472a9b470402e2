"""Hit lists: exact under every similarity, with hidden answers passed over, judged, and with what is known of candidates."""

from dataclasses import replace

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.sets import Corpus, Judged
from normwise.index.protocol import Found
from normwise.theory.directions import normalize
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.calibrate_hits import DEPTH, judge_hits, relevant_hits, search_index, search_vectors, with_density

WIDTH = 5


def world(*, queries=9, candidates=40, hidden=(), seed=0, popularity=None):
    random = np.random.default_rng(seed)
    asked = (random.normal(size=(queries, WIDTH)) * random.lognormal(size=(queries, 1))).astype(np.float32)
    known = (random.normal(size=(candidates, WIDTH)) * random.lognormal(size=(candidates, 1))).astype(np.float32)
    relevance = tuple({int(row): 1.0 for row in random.permutation(candidates)[: 1 + query % 3]} for query in range(queries))
    corpus = Corpus(tuple(f"d{i}" for i in range(candidates)), tuple(f"text {i}" for i in range(candidates)))
    judged = Judged(
        tuple(f"q{i}" for i in range(queries)), tuple(f"ask {i}" for i in range(queries)), relevance, corpus, np.arange(queries)
    )
    mask = np.isin(np.arange(queries), hidden)
    return asked, known, Asked("toy", judged, np.zeros(queries, dtype=bool), mask, popularity, ())


@pytest.mark.parametrize("similarity", Similarity)
@pytest.mark.parametrize("hidden", [(), (0, 2, 5)])
def test_scores_are_those_of_a_full_sort_by_definition(similarity, hidden):
    queries, candidates, asked = world(hidden=hidden)
    found, notes = search_vectors(queries, candidates, asked, similarity=similarity, depth=7)
    left = normalize(queries.astype(np.float64)) if similarity.normalizes_query else queries.astype(np.float64)
    right = normalize(candidates.astype(np.float64)) if similarity.normalizes_candidate else candidates.astype(np.float64)
    scores = left @ right.T
    for query in hidden:
        scores[query, list(asked.judged.relevance[query])] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :7]
    assert np.array_equal(found.rows, order)
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, order, axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.hit_norms, np.linalg.norm(candidates.astype(np.float64), axis=1)[order])
    assert notes == []


def test_a_small_corpus_is_read_whole_and_a_large_one_to_a_hundred():
    queries, candidates, asked = world()
    found, _ = search_vectors(queries, candidates, asked, similarity=Similarity.COSINE, depth=None)
    assert found.depth == found.candidates == 40
    assert judge_hits(found, asked, similarity=Similarity.COSINE).hits.complete
    queries, candidates, asked = world(candidates=1_001)
    found, _ = search_vectors(queries, candidates, asked, similarity=Similarity.COSINE, depth=None)
    assert found.depth == DEPTH
    assert not judge_hits(found, asked, similarity=Similarity.COSINE).hits.complete


def test_a_depth_beyond_the_corpus_takes_all_and_says_so():
    queries, candidates, asked = world()
    found, notes = search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=99)
    assert found.depth == 40
    assert notes == ["depth is 99, and 40 candidates can be found: all of them are read"]
    with pytest.raises(InputError, match="depth is 0; expected at least 1"):
        search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=0)


def test_hiding_the_only_candidate_leaves_nothing():
    queries, candidates, asked = world(candidates=1, hidden=(0,))
    with pytest.raises(InputError, match=r"the corpus has 1 candidate\(s\), and 1 of them .* nothing is left"):
        search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=None)


def test_relevant_hits_equal_a_loop():
    queries, candidates, asked = world(hidden=(1,))
    found, _ = search_vectors(queries, candidates, asked, similarity=Similarity.COSINE, depth=None)
    rows = found.rows.copy()
    rows[3, :4] = -1
    expected = [
        [int(row) in grades and not asked.hidden[query] for row in rows[query]] for query, grades in enumerate(asked.judged.relevance)
    ]
    assert relevant_hits(rows, asked).tolist() == expected
    assert np.any(expected)


def test_lengths_counts_and_shuffled_norms_stand_beside_the_hits():
    queries, candidates, asked = world(popularity=np.arange(40.0))
    candidates[7] = 0.0
    found, _ = search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=None)
    norms = np.linalg.norm(candidates.astype(np.float64), axis=1)
    judged = judge_hits(found, asked, similarity=Similarity.DOT, query_lengths=np.arange(9), candidate_lengths=np.arange(40) + 1.0)
    assert np.array_equal(judged.hits.hit_lengths, found.rows + 1.0)
    assert np.array_equal(judged.hits.hit_frequency, found.rows)
    assert np.array_equal(judged.priors["frequency"], np.log1p(found.rows))
    logs = np.log(np.where(norms > 0, norms, 1.0))
    np.testing.assert_allclose(judged.priors["norm"], logs[found.rows])
    by_row = np.full((9, 40), np.nan)
    np.put_along_axis(by_row, found.rows, judged.priors["permuted norm"], axis=1)
    # One shuffle for the corpus: the same candidate has the same weight for each query, and the values are those of the norms.
    assert np.array_equal(by_row, np.tile(by_row[0], (9, 1)))
    np.testing.assert_allclose(np.sort(by_row[0]), np.sort(logs))
    assert not np.allclose(by_row[0], logs)


def test_a_zero_query_is_not_usable_and_nothing_is_nan():
    queries, candidates, asked = world()
    queries[4] = 0.0
    for similarity in Similarity:
        found, _ = search_vectors(queries, candidates, asked, similarity=similarity, depth=None)
        hits = judge_hits(found, asked, similarity=similarity).hits
        assert hits.usable.tolist() == [query != 4 for query in range(9)]
        assert np.isfinite(hits.scores).all()


@pytest.mark.parametrize("count", [3, 30])
def test_density_equals_a_loop_that_leaves_the_query_itself_out(count):
    queries, candidates, asked = world(queries=40)
    found, _ = search_vectors(queries, candidates, asked, similarity=Similarity.COSINE, depth=6)
    judged = judge_hits(found, asked, similarity=Similarity.COSINE)
    fit = np.arange(5, 5 + count)
    density = with_density(judged, found, queries, candidates, fit, seed=0).hits.hit_density
    cosines = normalize(candidates.astype(np.float64)) @ normalize(queries.astype(np.float64)).T
    for query in (0, 5, 6, 7, 39):
        others = fit[fit != query]
        for place, row in enumerate(found.rows[query]):
            assert density[query, place] == pytest.approx(np.sort(cosines[row, others])[::-1][:10].mean(), abs=1e-5)


class ListIndex:
    """An index that answers from an exact search, with ids of its own choice and a hit that the data do not know."""

    def __init__(self, vectors, *, ids, counts=None, lengths=None):
        self.vectors, self.ids, self.counts, self.lengths = vectors, np.array(ids, dtype=object), counts, lengths

    def __len__(self):
        return len(self.ids)

    def search(self, queries, *, k, where=None):
        scores = queries.astype(np.float64) @ self.vectors.T.astype(np.float64)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        counts = np.full(len(queries), order.shape[1]) if self.counts is None else self.counts
        return Found(
            ids=self.ids[order],
            scores=np.take_along_axis(scores, order, axis=1),
            norms=np.linalg.norm(self.vectors, axis=1)[order].astype(np.float64),
            counts=counts,
            lengths=None if self.lengths is None else self.lengths[order],
        )


@pytest.mark.parametrize("hidden", [(), (0, 2, 5)])
def test_an_exact_index_gives_what_the_search_gives(hidden):
    queries, candidates, asked = world(hidden=hidden)
    index = ListIndex(candidates, ids=asked.judged.corpus.ids, lengths=np.arange(40.0))
    there, _ = search_index(queries, index, asked, depth=7)
    here, _ = search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=7)
    assert np.array_equal(there.rows, here.rows)
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-5)
    assert np.array_equal(there.lengths, there.rows)
    assert judge_hits(there, asked, similarity=Similarity.DOT).hits.hit_lengths is not None


@pytest.mark.parametrize("depth", [2, 7, None])
def test_shuffled_norms_are_those_of_the_found_and_the_same_with_an_exact_index_of_any_order(depth):
    queries, candidates, asked = world()
    turned = np.random.default_rng(3).permutation(40)
    index = ListIndex(candidates[turned], ids=[asked.judged.corpus.ids[row] for row in turned])
    found = [search_index(queries, index, asked, depth=depth)[0]]
    found.append(search_vectors(queries, candidates, asked, similarity=Similarity.DOT, depth=depth)[0])
    there, here = (judge_hits(each, asked, similarity=Similarity.DOT, seed=4).priors["permuted norm"] for each in found)
    # An index may keep norms in float32.
    np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-6)
    weights = dict(zip(found[1].rows.ravel().tolist(), here.ravel().tolist(), strict=True))
    norms = np.linalg.norm(candidates.astype(np.float64), axis=1)[list(weights)]
    np.testing.assert_allclose(np.sort(list(weights.values())), np.sort(np.log(norms)))
    other = judge_hits(found[1], asked, similarity=Similarity.DOT, seed=5).priors["permuted norm"]
    assert not np.allclose(here, other)


def test_candidates_that_the_data_do_not_know_are_wrong_hits():
    queries, candidates, asked = world()
    ids = [f"x{i}" if i % 2 else f"d{i}" for i in range(40)]
    found, _ = search_index(queries, ListIndex(candidates, ids=ids), asked, depth=None)
    assert np.array_equal(found.rows < 0, np.char.startswith(found.names.astype(str), "x"))
    judged = judge_hits(found, asked, similarity=Similarity.DOT, candidate_lengths=np.ones(40))
    assert not judged.relevant[found.rows < 0].any()
    assert judged.hits.hit_lengths is None
    by_name = dict(zip(found.names.ravel(), judged.priors["permuted norm"].ravel(), strict=True))
    assert len(set(by_name.values())) == len(by_name) == 40


def test_an_index_that_leaves_some_queries_short_is_read_as_far_as_all_go():
    queries, candidates, asked = world()
    counts = np.full(9, 40)
    counts[2] = 5
    found, notes = search_index(queries, ListIndex(candidates, ids=asked.judged.corpus.ids, counts=counts), asked, depth=None)
    assert found.depth == 5
    assert "as few as 5 hits" in notes[0]
    counts[0] = 0
    with pytest.raises(InputError, match="without a hit"):
        search_index(queries, ListIndex(candidates, ids=asked.judged.corpus.ids, counts=counts), asked, depth=None)


def test_widths_that_differ_are_refused():
    queries, candidates, asked = world()
    with pytest.raises(InputError, match="query vectors have 5 dimensions, candidate vectors 4"):
        search_vectors(queries, candidates[:, :4], asked, similarity=Similarity.DOT, depth=None)


def test_queries_of_a_task_search_its_candidates_only():
    queries, candidates, asked = world(queries=8)
    pools = {"a": tuple(range(0, 30)), "b": tuple(range(25, 40))}
    corpus = replace(asked.judged.corpus, pools=pools)
    tasks = tuple("ab"[row % 2] for row in range(8))
    judged = replace(asked.judged, corpus=corpus, tasks=tasks, relevance=tuple({pools[task][row]: 1.0} for row, task in enumerate(tasks)))
    found, _ = search_vectors(queries, candidates, replace(asked, judged=judged), similarity=Similarity.DOT, depth=None)
    assert found.depth == 15  # the smallest of the tasks
    scores = queries.astype(np.float64) @ candidates.astype(np.float64).T
    for row, task in enumerate(tasks):
        pool = np.asarray(pools[task])
        assert found.rows[row].tolist() == pool[np.argsort(-scores[row, pool], kind="stable")[:15]].tolist()
