"""Searching with vectors: the right hits with the right probabilities, honest where nobody knows, refusals that say what to do."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise import Searcher, build_index
from normwise.core.errors import InputError
from normwise.core.search_records import Hit
from normwise.core.similarity import Similarity
from normwise.index.opening import open_index
from normwise.index.protocol import Found
from normwise.theory.hit_lists import HitLists
from normwise.theory.lower_hits import LowerHits
from normwise.theory.prior_calibrators import RerankingCalibrator
from normwise.workflows.search_calibration import read_calibration
from normwise.workflows.search_judging import Query, calibrated
from search_material import ROWS, calibration_for, mixed_vectors

LOWER = LowerHits(intercept=-1.0, weights=(0.3, 0.1, -0.2, 0.5))
QUERIES = mixed_vectors(12, seed=5)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "index"
    build_index(folder, vectors=mixed_vectors(), similarity="dot")
    return folder


@pytest.fixture(scope="module")
def calibration(index):
    return calibration_for(index, lower=LOWER)


def by_hand(queries, calibration, *, k, depth=10):
    """A slow second opinion: exact scores, sorted, judged, cut."""
    vectors = mixed_vectors().astype(np.float64)
    scores = queries.astype(np.float64) @ vectors.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    norms = np.linalg.norm(vectors, axis=1)
    hits = HitLists(
        np.take_along_axis(scores, order, axis=1), np.linalg.norm(queries.astype(np.float64), axis=1), norms[order], Similarity.DOT
    )
    applied = calibration.apply(hits)
    return order[:, :k], hits.scores[:, :k], applied.probabilities[:, :k], applied.abstain[:, :k]


def test_hits_are_those_of_exact_search_with_the_probabilities_of_the_calibration(index, calibration):
    with Searcher.open(index, calibration=calibration) as searcher:
        found = searcher.search(QUERIES, k=4)
    rows, scores, probabilities, abstain = by_hand(QUERIES, calibration, k=4)
    assert found.ids.tolist() == [[str(row) for row in line] for line in rows]
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.probabilities, probabilities, rtol=1e-5)
    assert found.abstains.tolist() == abstain.tolist()
    assert not found.why_not_calibrated
    assert found.abstains[:-1, 0].any()
    assert not found.abstains[:-1, 0].all()


@given(k=st.integers(1, 60), signal=st.sampled_from(["score", "lead", "margin"]))
def test_probabilities_do_not_depend_on_how_many_hits_are_shown(index, k, signal):
    with Searcher.open(index, calibration=calibration_for(index, signal=signal, lower=LOWER)) as searcher:
        few, many = searcher.search(QUERIES, k=k), searcher.search(QUERIES, k=60)
    shown = min(k, ROWS)
    assert few.ids.shape == (12, shown)
    assert few.ids.tolist() == many.ids[:, :shown].tolist()
    np.testing.assert_array_equal(few.probabilities, many.probabilities[:, :shown])
    assert not np.isnan(few.probabilities).any()
    assert [hit.reason for hit in few.hits(0)] == [hit.reason for hit in many.hits(0)[:shown]]


def test_hits_say_what_the_columns_say(index, calibration):
    with Searcher.open(index, calibration=calibration) as searcher:
        found = searcher.search(QUERIES, k=3)
    flat = [hit for hits in found for hit in hits]
    assert flat == found.all_hits()
    assert [(hit.query, hit.rank) for hit in flat] == [(row, place) for row in range(12) for place in (1, 2, 3)]
    for hit in flat:
        at = (hit.query, hit.rank - 1)
        assert (hit.id, hit.score, hit.norm) == (found.ids[at], found.scores[at], found.norms[at])
        assert (hit.probability, hit.abstain, hit.similarity, hit.text) == (found.probabilities[at], found.abstains[at], "dot", None)
        assert hit.reason
    assert [Hit.model_validate(row) for row in json.loads(found.to_json())] == flat


def test_a_result_is_a_sequence_of_lists_of_hits(index, calibration):
    with Searcher.open(index, calibration=calibration) as searcher:
        found = searcher.search(QUERIES, k=2)
    rows = list(found)
    assert [found[row] for row in range(12)] == rows == [found.hits(row) for row in range(12)]
    assert [found[row] for row in range(-12, 0)] == rows == [found.hits(row - 12) for row in range(12)]
    assert found[np.int64(3)] == rows[3]
    assert (found[-1][0].query, found.query(-1)) == (11, 11)
    assert found[2:5] == rows[2:5]
    assert found[::-1] == rows[::-1]
    for row in (12, -13):
        for ask in (found.__getitem__, found.hits, found.query):
            with pytest.raises(IndexError, match=f"row {row} of a result of 12 queries"):
                ask(row)
    with pytest.raises(TypeError, match="float"):
        found[1.0]


def test_an_answer_and_an_abstention_give_their_reason(index, calibration):
    with Searcher.open(index, calibration=calibration) as searcher:
        found = searcher.search(QUERIES[:-1], k=2)
    for row in range(11):
        first, second = found.hits(row)
        assert first.abstain == (first.probability < 0.6)
        assert first.reason.startswith("probability is below 0.6" if first.abstain else "probability reaches 0.6")
        assert "that precision is of first hits" in second.reason


def test_a_zero_vector_has_probability_zero_and_abstains_calibrated_or_not(index, calibration):
    for chosen in (None, calibration):
        with Searcher.open(index, calibration=chosen) as searcher:
            hits = searcher.search(np.zeros((1, 6), dtype=np.float32), k=3).hits(0)
        assert [(hit.probability, hit.abstain, hit.score) for hit in hits] == [(0.0, True, 0.0)] * 3
        assert all(hit.reason.startswith("zero vector") for hit in hits)


def test_a_zero_candidate_abstains_whoever_asks(index, calibration):
    with Searcher.open(index, calibration=calibration) as searcher:
        hits = {hit.id: hit for hit in searcher.search(QUERIES[:1], k=ROWS).hits(0)}
    assert (hits[str(ROWS - 1)].probability, hits[str(ROWS - 1)].abstain, hits[str(ROWS - 1)].norm) == (0.0, True, 0.0)


def test_without_a_calibration_nothing_is_claimed(index):
    with Searcher.open(index) as searcher:
        assert searcher.calibration is None
        found = searcher.search(QUERIES[:1], k=2)
    for hit in found.hits(0):
        assert (hit.probability, hit.abstain) == (None, False)
        assert hit.reason.startswith("not calibrated: no calibration.json lies in the index or beside the model; fit one with")


def test_without_a_threshold_every_hit_abstains(index):
    with Searcher.open(index, calibration=calibration_for(index, usable=False)) as searcher:
        found = searcher.search(QUERIES[:1], k=2)
    hits = found.hits(0)
    assert found.verdict == "as the test says"
    assert all(hit.abstain and hit.reason == "no usable threshold exists on the queries this was calibrated on" for hit in hits)
    assert 0.0 < hits[0].probability < 1.0
    assert hits[1].probability is None


def test_a_calibration_that_reranks_moves_its_first_hit_to_the_front(index):
    fitted = calibration_for(index, lower=LOWER)
    reranking = RerankingCalibrator(kind="norm_reranking", beta=-2.0, center=0.0, inverse_temperature=1.0, bounds=(0.1, 10.0))
    chosen = fitted.model_copy(update={"calibrator": reranking})
    with Searcher.open(index, calibration=chosen) as searcher:
        found, many = searcher.search(QUERIES[:-1], k=1), searcher.search(QUERIES[:-1], k=10)
    rows, _, _, _ = by_hand(QUERIES[:-1], fitted, k=10)
    moved = found.ids[:, 0] != np.array([str(row) for row in rows[:, 0]], dtype=object)
    assert moved.any()
    assert found.ids[:, 0].tolist() == many.ids[:, 0].tolist()
    assert [sorted(line) for line in many.ids.tolist()] == [sorted(str(row) for row in line) for line in rows]


def test_a_query_with_fewer_hits_than_the_calibration_reads_is_not_judged(index):
    chosen = calibration_for(index, signal="lead", lower=LOWER)
    queries = QUERIES[[0, 11, 1, 2, 3]]
    whole = open_index(index).search(queries, k=10)
    short = Found(whole.ids, whole.scores, whole.norms, np.array([3, 3, 10, 10, 10]))
    norms = np.linalg.norm(queries.astype(np.float64), axis=1)
    shown = calibrated(short, Query(norms), chosen, shown=5, candidates=ROWS)
    assert np.isnan(shown.probabilities[0]).all()
    assert shown.abstains[:2].all()
    assert shown.reason_at(0, 0) == "no probability is known: 3 hits were found, and the calibration reads 10"
    assert (shown.probabilities[1] == 0.0).all()
    assert shown.reason_at(1, 0).startswith("zero vector")
    alone = calibrated(whole, Query(norms), chosen, shown=5, candidates=ROWS)
    np.testing.assert_array_equal(shown.probabilities[2:], alone.probabilities[2:])
    assert [shown.reason_at(row, 0) for row in (2, 3, 4)] == [alone.reason_at(row, 0) for row in (2, 3, 4)]
    assert len({alone.reason_at(row, 0) for row in (2, 3, 4)}) == 2


def test_queries_with_unequal_counts_are_judged_each_by_its_own(index, calibration):
    queries = QUERIES[:6]
    whole, norms = open_index(index).search(queries, k=10), np.linalg.norm(queries.astype(np.float64), axis=1)
    counts = np.array([10, 4, 7, 10, 4, 1])
    mixed = calibrated(Found(whole.ids, whole.scores, whole.norms, counts), Query(norms), calibration, shown=10, candidates=ROWS)
    alone = calibrated(whole, Query(norms), calibration, shown=10, candidates=ROWS)
    for row, count in enumerate(counts):
        np.testing.assert_array_equal(mixed.probabilities[row, :count], alone.probabilities[row, :count])
        np.testing.assert_array_equal(mixed.abstains[row, :count], alone.abstains[row, :count])
        assert [mixed.reason_at(row, place) for place in range(count)] == [alone.reason_at(row, place) for place in range(count)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": "0" * 64}, "the model is vectors, fitted on 000000000000"),
        ({"similarity": "cosine"}, "the similarity is dot, fitted on cosine"),
        ({"search": "faiss-hnsw"}, "the kind of search is exact, fitted on faiss-hnsw"),
        ({"corpus_vectors": "1" * 64}, "the corpus differs"),
        ({"candidates": 39}, "the corpus has 40 candidates, fitted on 39"),
    ],
)
def test_a_calibration_for_something_else_is_refused_when_named_and_left_out_when_found(tmp_path, changed, words):
    folder = tmp_path / "index"
    build_index(folder, vectors=mixed_vectors(), similarity="dot")
    wrong = calibration_for(folder, **changed)
    (tmp_path / "wrong.json").write_text(wrong.to_json())
    with pytest.raises(InputError, match=f"(?s)wrong.json: .*{words}.*normwise calibrate"):
        Searcher.open(folder, calibration=tmp_path / "wrong.json")
    with pytest.raises(InputError, match=words):
        Searcher.open(folder, calibration=wrong)
    (folder / "calibration.json").write_text(wrong.to_json())
    with Searcher.open(folder) as searcher:
        assert searcher.calibration is None
        assert words in searcher.why_not_calibrated
        assert searcher.why_not_calibrated.startswith(f"{folder / 'calibration.json'}: this calibration does not hold here: ")
        assert searcher.why_not_calibrated.count("does not hold here") == 1
        assert "normwise calibrate" in searcher.why_not_calibrated
        first = ", where a search of the index finds it, once corpus.jsonl and qrels of the data are up to date with the index: normwise"
        assert (first in searcher.why_not_calibrated) == ("corpus" in words)
        hits = searcher.search(QUERIES[:1], k=1).hits(0)
    assert hits[0].probability is None
    assert words in hits[0].reason


def test_a_calibration_in_the_folder_of_the_index_is_found(tmp_path):
    folder = tmp_path / "index"
    build_index(folder, vectors=mixed_vectors(), similarity="dot")
    (folder / "calibration.json").write_text(calibration_for(folder).to_json())
    for named in (None, folder, folder / "calibration.json"):
        with Searcher.open(folder, calibration=named) as searcher:
            assert "calibrated" in repr(searcher)
            assert not searcher.why_not_calibrated
            assert searcher.search(QUERIES[:1], k=1).hits(0)[0].probability is not None


def test_a_broken_calibration_is_refused_when_named_and_told_when_found(tmp_path):
    folder = tmp_path / "index"
    build_index(folder, vectors=mixed_vectors(), similarity="dot")
    whole = calibration_for(folder).to_json()
    (folder / "calibration.json").write_text(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is no JSON"):
        read_calibration(folder)
    with Searcher.open(folder) as searcher:
        assert searcher.why_not_calibrated.startswith(f"{folder / 'calibration.json'} is no JSON")
    with pytest.raises(InputError, match=r"gone\.json does not exist"):
        Searcher.open(folder, calibration=tmp_path / "gone.json")


def test_a_changed_corpus_ends_a_calibration(tmp_path):
    from normwise.workflows.change_index import add_to_index, delete_from_index

    folder = tmp_path / "index"
    vectors = mixed_vectors()
    build_index(folder, vectors=vectors, similarity="dot")
    (folder / "calibration.json").write_text(calibration_for(folder).to_json())
    delete_from_index(folder, ["3"])
    assert "the corpus has 39 candidates, fitted on 40" in Searcher.open(folder).why_not_calibrated
    add_to_index(folder, vectors=vectors[4:5], ids=["3"])
    assert "the corpus differs" in Searcher.open(folder).why_not_calibrated
    delete_from_index(folder, ["3"])
    add_to_index(folder, vectors=vectors[3:4], ids=["3"])
    assert not Searcher.open(folder).why_not_calibrated


def test_a_named_calibration_is_refused_once_the_corpus_under_an_open_searcher_has_changed(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    shared = open_index(tmp_path / "index")
    with Searcher.open(shared, calibration=calibration_for(tmp_path / "index")) as searcher:
        before = searcher.search(QUERIES, k=2)
        shared.delete(["3"])
        for _ in range(2):
            with pytest.raises(
                InputError, match=r"calibration: this calibration does not hold here: the corpus has 39 candidates, fitted on 40"
            ):
                searcher.search(QUERIES, k=2)
        shared.add(["3"], mixed_vectors()[3:4])
        after = searcher.search(QUERIES, k=2)
    np.testing.assert_array_equal(after.probabilities, before.probabilities)


def test_a_calibration_that_was_found_is_looked_for_anew_once_the_corpus_has_changed(tmp_path):
    build_index(tmp_path / "index", vectors=mixed_vectors(), similarity="dot")
    file = tmp_path / "index" / "calibration.json"
    file.write_text(calibration_for(tmp_path / "index").to_json())
    with Searcher.open(tmp_path / "index") as searcher:
        assert searcher.search(QUERIES, k=1).why_not_calibrated == ""
        vectors = np.concatenate([mixed_vectors(), mixed_vectors(5, seed=8)])
        searcher._index.add([f"new {row}" for row in range(5)], vectors[ROWS:])
        changed = searcher.search(QUERIES, k=12)
        assert "the corpus has 45 candidates, fitted on 40" in changed.why_not_calibrated
        assert np.isnan(changed.probabilities[:-1, 0]).all()
        assert searcher.calibration is None
        # Somebody calibrates what is there now, deeper, and the corpus changes once more and back.
        searcher._index.save()
        file.write_text(calibration_for(tmp_path / "index", depth=20).to_json())
        searcher._index.delete(["new 4"])
        assert searcher.search(QUERIES, k=1).why_not_calibrated
        searcher._index.add(["new 4"], vectors[-1:])
        again = searcher.search(QUERIES, k=1)
    assert again.why_not_calibrated == ""
    with Searcher.open(tmp_path / "index") as fresh:
        np.testing.assert_array_equal(again.probabilities, fresh.search(QUERIES, k=1).probabilities)


def test_a_filter_has_no_probability_and_refuses_a_named_calibration(tmp_path):
    from search_material import write_corpus

    folder = tmp_path / "index"
    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"third": row % 3}})
    build_index(folder, vectors=mixed_vectors(27), data=corpus, similarity="dot")
    (folder / "calibration.json").write_text(calibration_for(folder).to_json())
    with Searcher.open(folder) as searcher:
        assert searcher.search(QUERIES[:1], k=3).hits(0)[0].probability is not None
        found = searcher.search(QUERIES[:1], k=20, where={"third": 1})
        assert found.counts.tolist() == [9]
        hits = found.hits(0)
    assert {int(hit.id[1:]) % 3 for hit in hits} == {1}
    assert all(hit.probability is None and not hit.abstain for hit in hits)
    assert "where searches a part of the corpus" in hits[0].reason
    with Searcher.open(folder, calibration=folder) as searcher, pytest.raises(InputError, match="index and calibrate that part"):
        searcher.search(QUERIES[:1], where={"third": 1})
    with Searcher.open(folder) as searcher, pytest.raises(InputError, match="no candidate has a metadata key 'thrid': did you mean third"):
        searcher.search(QUERIES[:1], where={"thrid": 1})


def test_a_searcher_tells_the_metadata_of_candidates(tmp_path, index):
    from search_material import write_corpus

    corpus = write_corpus(tmp_path / "set", extra=lambda row: {"metadata": {"third": row % 3, "lang": "de"}})
    build_index(tmp_path / "index", vectors=mixed_vectors(27), data=corpus, similarity="dot")
    with Searcher.open(tmp_path / "index") as searcher:
        assert searcher.metadata(["d4", "d0", "d4"]) == [{"third": row % 3, "lang": "de"} for row in (4, 0, 4)]
        with pytest.raises(InputError, match="d27"):
            searcher.metadata(["d27"])
    with Searcher.open(index) as searcher:
        assert searcher.metadata(["1", "2"]) == [{}, {}]


def test_a_calibration_that_reads_lengths_needs_texts(index):
    chosen = calibration_for(index, signal="hit length")
    with Searcher.open(index, calibration=chosen) as searcher, pytest.raises(InputError, match="reads token counts"):
        searcher.search(QUERIES[:1])


def test_more_hits_than_candidates_are_all_of_them(index):
    with Searcher.open(index) as searcher:
        found = searcher.search(QUERIES[:2], k=1_000)
        assert found.ids.shape == (2, ROWS)
        assert found.notes == ("k is 1,000, and the index has 40 candidates: all of them are returned",)
        assert searcher.search(QUERIES[:2], k=ROWS).notes == ()


def test_no_query_and_an_empty_index_give_nothing(tmp_path, index):
    with Searcher.open(index) as searcher:
        nothing = searcher.search(np.empty((0, 6), dtype=np.float32), k=3)
    assert (len(nothing), nothing.all_hits(), nothing.to_json()) == (0, [], "[]")
    build_index(tmp_path / "one", vectors=np.eye(2)[:1], similarity="dot")
    chosen = calibration_for(tmp_path / "one", depth=1)
    with Searcher.open(tmp_path / "one", calibration=chosen) as searcher:
        hits = searcher.search(np.eye(2)[:1], k=3).hits(0)
    assert [(hit.id, hit.score) for hit in hits] == [("0", 1.0)]
    assert math.isfinite(hits[0].probability)


@pytest.mark.parametrize(
    ("queries", "settings", "words"),
    [
        (QUERIES, {"k": 0}, "k is 0; expected a whole number of at least 1"),
        (QUERIES, {"k": True}, "k is True"),
        (QUERIES, {"k": 2.5}, "k is 2.5"),
        (np.ones((1, 5)), {}, "queries have 5 dimensions, and the index has 6"),
        (np.ones(6), {}, "expected two dimensions"),
        (np.array([[1.0] * 6, [np.nan] * 6]), {}, "row 1, column 0 is nan"),
        (np.array([[1.0] * 5 + [np.inf]]), {}, "row 0, column 5 is inf"),
        (np.ones((1, 6), dtype=np.int64), {}, "queries are an array of int64"),
        ("red", {}, "queries are one text; expected a list"),
        (3, {}, "queries are a int"),
        (["red", ""], {}, "queries: row 1 is empty or whitespace"),
        (["   "], {}, "queries: row 0 is empty or whitespace"),
        ([None], {}, "queries: row 0 is None"),
        (["red"], {}, "holds bare vectors, and no model is known that reads texts"),
        (QUERIES, {"where": {"lang": "de"}}, "this index has no metadata"),
    ],
)
def test_bad_queries_are_refused(index, queries, settings, words):
    with Searcher.open(index) as searcher, pytest.raises(InputError, match=words):
        searcher.search(queries, **settings)


def test_an_open_index_may_be_searched(index):
    opened = open_index(index)
    searcher = Searcher.open(opened)
    assert len(searcher) == ROWS
    assert searcher.manifest == opened.manifest
    assert searcher.search(QUERIES[:1], k=2).ids.shape == (1, 2)
