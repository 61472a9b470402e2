"""The test queries of a training page: drawn by seed, their hits those of a slow search, pictures bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from normwise.core.records import NearestHits
from normwise.data.contents import Interleaved
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged
from normwise.theory.ranking import metrics_per_query
from normwise.workflows.nearest_hits import HITS, QUERIES, nearest_hits
from normwise.workflows.shown_contents import shown_words


def plain(number, side=8):
    return Picture.of_image(Image.new("RGB", (side, side), (number * 9 % 256, 40, 200)), name=f"{number}.png")


def judged(queries=12, candidates=20, *, seed=0, tasks=(), pools=None, first=None):
    rng = np.random.default_rng(seed)
    corpus = Corpus(tuple(f"c{row}" for row in range(candidates)), tuple(map(plain, range(candidates))), pools=pools or {})
    relevance = [{int(row): 1.0 for row in rng.choice(candidates, 2, replace=False)} for _ in range(queries)]
    relevance[0] = {}
    return Judged(
        query_ids=tuple(f"q{row}" for row in range(queries)),
        queries=tuple(first or f"words {row}" for row in range(queries)),
        relevance=tuple(relevance),
        corpus=corpus,
        clusters=np.arange(queries),
        tasks=tasks,
    )


def vectors(rows, *, seed, width=5):
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def by_hand(query, candidates, pool, ranking):
    """Candidate rows from the highest score down, and the scores."""
    scores = []
    for row in pool:
        score = sum(float(a) * float(b) for a, b in zip(query, candidates[row], strict=True))
        if ranking == "cosine":
            score /= float(np.linalg.norm(query.astype(float))) * float(np.linalg.norm(candidates[row].astype(float)))
        scores.append((-score, row))
    return [(row, -score) for score, row in sorted(scores)]


@pytest.mark.parametrize("ranking", ["cosine", "dot"])
@given(seed=st.integers(0, 50))
@settings(max_examples=8, deadline=None)
def test_hits_are_those_of_a_slow_search(ranking, seed):
    asked = judged(seed=seed)
    queries, candidates = vectors(12, seed=seed), vectors(20, seed=seed + 1)
    found = nearest_hits(queries, candidates, asked, ranking=ranking, seed=seed)
    assert (found.ranking, found.seed, found.queries, len(found.shown)) == (ranking, seed, 12, QUERIES)
    for near in found.shown:
        query = int(near.query.removeprefix("words "))
        known = by_hand(queries[query], candidates, range(20), ranking)
        assert [hit.id for hit in near.hits] == [f"c{row}" for row, _ in known[:HITS]]
        assert [hit.score for hit in near.hits] == pytest.approx([score for _, score in known[:HITS]], rel=1e-5, abs=1e-6)
        assert [hit.right for hit in near.hits] == [row in asked.relevance[query] for row, _ in known[:HITS]]
        places = [place for place, (row, _) in enumerate(known, start=1) if row in asked.relevance[query]]
        assert near.first_right == (places[0] if places else None)
        assert near.answerable == bool(asked.relevance[query])
        assert all(hit.probability is None and not hit.abstain for hit in near.hits)
        assert all(hit.picture.startswith("data:image/") and hit.words == f"[{hit.id[1:]}.png]" for hit in near.hits)


def test_which_queries_stand_there_hangs_on_the_seed_and_not_on_their_success():
    asked, queries = judged(60), vectors(60, seed=1)
    shown = [[near.query for near in nearest_hits(queries, vectors(20, seed=row), asked, ranking="dot", seed=3).shown] for row in range(3)]
    assert shown[0] == shown[1] == shown[2]
    candidates = vectors(20, seed=0)
    drawn = [tuple(near.query for near in nearest_hits(queries, candidates, asked, ranking="dot", seed=row).shown) for row in range(60)]
    assert len(set(drawn)) == 60
    # The query without an answer is drawn like any other.
    assert any("words 0" in each for each in drawn)


def test_the_place_of_the_first_right_hit_is_that_of_the_metrics():
    asked, queries, candidates = judged(6), vectors(6, seed=1), vectors(20, seed=2)
    found = nearest_hits(queries, candidates, asked, ranking="dot", seed=0)
    order = np.argsort(-(queries.astype(float) @ candidates.astype(float).T), axis=1, kind="stable")
    reciprocal = metrics_per_query(order, asked.relevance, candidates=20)["mrr@10"]
    for near in found.shown:
        value = reciprocal[int(near.query.removeprefix("words "))]
        if near.first_right is not None and near.first_right <= 10:
            assert value == pytest.approx(1 / near.first_right)


def test_a_search_ends_at_its_depth():
    asked = judged(6)
    found = nearest_hits(vectors(6, seed=1), vectors(20, seed=2), asked, ranking="dot", seed=0, depth=4)
    whole = nearest_hits(vectors(6, seed=1), vectors(20, seed=2), asked, ranking="dot", seed=0)
    assert found.depth == 4
    for near, known in zip(found.shown, whole.shown, strict=True):
        assert near.hits == known.hits
        assert near.first_right == (known.first_right if (known.first_right or 99) <= 4 else None)
    assert any(near.first_right != known.first_right for near, known in zip(found.shown, whole.shown, strict=True))


def test_each_task_searches_its_own_candidates():
    tasks = tuple("even" if row % 2 == 0 else "odd" for row in range(12))
    pools = {"even": tuple(range(0, 20, 2)), "odd": tuple(range(1, 20, 2))}
    found = nearest_hits(vectors(12, seed=0), vectors(20, seed=1), judged(tasks=tasks, pools=pools), ranking="cosine", seed=0)
    assert {near.task for near in found.shown} == {"even", "odd"}
    for near in found.shown:
        assert all((int(hit.id[1:]) % 2 == 0) == (near.task == "even") for hit in near.hits)
        known = by_hand(vectors(12, seed=0)[int(near.query[6:])], vectors(20, seed=1), pools[near.task], "cosine")
        assert [hit.id for hit in near.hits] == [f"c{row}" for row, _ in known[:HITS]]


def test_a_querys_own_picture_is_no_hit_of_it():
    corpus = Corpus(("a", "b", "c", "d"), tuple(map(plain, range(4))))
    asked = Judged(("q",), (Interleaved((plain(0), "but in red")),), ({1: 1.0},), corpus, np.zeros(1, dtype=np.int64))
    candidates = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.5, 0.0]], dtype=np.float32)
    (near,) = nearest_hits(np.array([[1.0, 0.0]], dtype=np.float32), candidates, asked, ranking="dot", seed=0).shown
    assert [hit.id for hit in near.hits] == ["b", "c", "d"]
    assert (near.first_right, near.query) == (1, "[0.png] but in red")
    assert near.picture is not None
    # What one query leaves out lets no other look further.
    two = Judged(("q", "r"), (*asked.queries, "words"), ({1: 1.0}, {1: 1.0}), corpus, np.arange(2))
    queries = np.array([[1.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    found = nearest_hits(queries, candidates, two, ranking="dot", seed=0, depth=1)
    assert [[hit.id for hit in near.hits] for near in found.shown] == [["b"], ["a"]]
    assert [near.first_right for near in found.shown] == [1, None]


def test_a_set_of_texts_keeps_nothing():
    corpus = Corpus(("a", "b"), ("x", "y"))
    asked = Judged(("q",), ("?",), ({0: 1.0},), corpus, np.zeros(1, dtype=np.int64))
    assert nearest_hits(np.eye(2, dtype=np.float32)[:1], np.eye(2, dtype=np.float32), asked, ranking="dot", seed=0) is None


def test_what_is_kept_is_bounded_and_survives_json(tmp_path):
    rng = np.random.default_rng(0)
    noisy = tuple(
        Picture.of_image(Image.fromarray(rng.integers(0, 256, (300, 300, 3), dtype=np.uint8)), name=f"{row}.png") for row in range(9)
    )
    corpus = Corpus(tuple(f"c{row}" for row in range(9)), noisy)
    broken = Picture.of_bytes(b"no picture", name="broken.png")
    words = "long & <b>" * 200
    asked = Judged(("q", "r"), (words, broken), ({0: 1.0}, {}), corpus, np.arange(2))
    found = nearest_hits(vectors(2, seed=0), vectors(9, seed=1), asked, ranking="dot", seed=0)
    assert sum(len(hit.picture) for near in found.shown for hit in near.hits) <= 300_000
    assert found.shown[0].query == shown_words(words)
    assert len(found.shown[0].query) == 400
    assert (found.shown[1].picture, found.shown[1].query, found.left_out) == (None, "[broken.png]", 1)
    assert NearestHits.from_json(found.to_json()) == found
