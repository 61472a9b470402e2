"""The probability of hits after the first: a known truth is found, nothing is made up where too little is known."""

from dataclasses import replace

import numpy as np
import pytest
from bake_off_worlds import judged
from scipy.special import expit, logit

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.lower_hits import COLUMNS, DEPTH, LEAST_HITS, LowerHits


def world(*, seed=0, count=3000, depth=10):
    """Hits whose relevance follows the model itself: p_j = sigmoid(-1 + 3 s_j + 2 (s_j - s_1) - .5 log j + .4 logit p_1)."""
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.normal(size=(count, depth)), axis=1)[:, ::-1].copy()
    first = rng.uniform(0.05, 0.95, count)
    odds = -1.0 + 3.0 * scores + 2.0 * (scores - scores[:, :1]) - 0.5 * np.log(np.arange(1, depth + 1)) + 0.4 * logit(first)[:, None]
    relevant = rng.random((count, depth)) < expit(odds)
    hits = HitLists(scores, np.ones(count), np.ones((count, depth)), Similarity.DOT)
    return JudgedHits(hits, relevant, np.arange(count), np.ones(count, dtype=bool)), first, expit(odds)


@pytest.fixture(scope="module")
def fitted():
    made, first, truth = world()
    return made, first, truth, LowerHits.fit(made, first)


def test_the_truth_is_found(fitted):
    made, first, truth, model = fitted
    found = model.predict(made.hits, first)
    assert np.abs(found - truth)[:, 1:].mean() < 0.02
    assert (model.hits, model.relevant) == (3000 * 9, int(made.relevant[:, 1:].sum()))
    assert len(model.weights) == len(COLUMNS)


def test_on_the_hits_of_the_fit_the_mean_is_the_share_of_relevant_ones(fitted):
    made, first, _, model = fitted
    assert model.predict(made.hits, first)[:, 1:].mean() == pytest.approx(made.relevant[:, 1:].mean(), abs=1e-4)


def test_the_first_keeps_its_own_probability_and_its_label_is_not_read(fitted):
    made, first, _, model = fitted
    assert np.array_equal(model.predict(made.hits, first)[:, 0], first)
    flipped = made.relevant.copy()
    flipped[:, 0] = ~flipped[:, 0]
    assert LowerHits.fit(replace(made, relevant=flipped), first) == model


def test_the_unit_of_scores_does_not_matter(fitted):
    made, first, _, model = fitted
    scaled = replace(made, hits=replace(made.hits, scores=400.0 * made.hits.scores - 7.0))
    found = LowerHits.fit(scaled, first).predict(scaled.hits, first)
    assert np.abs(found - model.predict(made.hits, first)).max() < 1e-6


def test_hits_behind_the_tenth_neither_fit_nor_lack_a_probability():
    made, first, _ = world(count=400, depth=25)
    model = LowerHits.fit(made, first)
    other = made.relevant.copy()
    other[:, DEPTH:] = ~other[:, DEPTH:]
    assert LowerHits.fit(replace(made, relevant=other), first) == model
    flat = replace(made.hits, scores=np.zeros((400, 25)))
    found = model.predict(flat, first)
    assert np.isfinite(found).all()
    slope = np.diff(logit(found[:, 1:]), axis=1) / np.diff(np.log(np.arange(2, 26)))
    assert np.allclose(slope, model.weights[2]), "places count by their logarithm, behind the tenth too"


def test_a_hit_that_moves_to_the_front_sends_those_before_it_one_place_back():
    model = LowerHits(intercept=0.0, weights=(0.0, 0.0, 1.0, 0.0))
    hits = HitLists(np.array([[0.9, 0.8, 0.7, 0.6]]), np.ones(1), np.ones((1, 4)), Similarity.COSINE)
    found = model.predict(hits, np.array([0.25]), places=np.array([2]))
    assert np.allclose(logit(found[0, [0, 1, 3]]), np.log([2.0, 3.0, 4.0]))
    assert found[0, 2] == 0.25
    gap = LowerHits(intercept=0.0, weights=(0.0, 1.0, 0.0, 0.0)).predict(hits, np.array([0.25]), places=np.array([2]))
    assert np.allclose(logit(gap[0, [0, 1, 3]]), [0.2, 0.1, -0.1]), "the score to compare with is that of the hit shown first"


@pytest.mark.parametrize("kind", [True, False])
def test_too_few_hits_of_one_kind_give_none(kind):
    made, first, _ = world(count=400)
    relevant = np.full(made.relevant.shape, not kind)
    relevant[: LEAST_HITS - 1, 1] = kind
    assert LowerHits.fit(replace(made, relevant=relevant), first) is None
    relevant[LEAST_HITS - 1, 1] = kind
    assert LowerHits.fit(replace(made, relevant=relevant), first) is not None


def test_a_single_hit_per_query_has_none_after_it():
    made = judged(seed=0, count=100, depth=1)
    assert LowerHits.fit(made, np.full(100, 0.5)) is None


def test_zero_vectors_do_not_fit(fitted):
    made, first, _, _ = fitted
    norms = made.hits.hit_norms.copy()
    norms[:200, 3] = 0.0
    queries = np.where(np.arange(3000) < 100, 0.0, 1.0)
    hits = replace(made.hits, hit_norms=norms, query_norms=queries)
    wild = made.relevant.copy()
    wild[:100], wild[:200, 3] = True, True
    assert LowerHits.fit(replace(made, hits=hits, relevant=wild), first) == LowerHits.fit(replace(made, hits=hits), first)


def test_the_trip_through_json_changes_no_bit(fitted):
    made, first, _, model = fitted
    again = LowerHits.from_json(model.to_json())
    assert again == model
    assert np.array_equal(again.predict(made.hits, first), model.predict(made.hits, first))


def test_certainties_and_scores_beyond_reason_stay_inside():
    model = LowerHits(intercept=0.0, weights=(1e6, 1e6, 0.0, 1.0))
    hits = HitLists(np.array([[400.0, -400.0]]), np.ones(1), np.ones((1, 2)), Similarity.DOT)
    for first in (0.0, 1.0):
        found = model.predict(hits, np.array([first]))[0]
        assert 0.0 < found[1] < 1.0
        assert found[0] == first


def test_what_does_not_fit_is_refused(fitted):
    made, first, _, model = fitted
    with pytest.raises(InputError, match=r"first has shape \(5,\) for 3000 queries"):
        model.predict(made.hits, first[:5])
    with pytest.raises(InputError, match="one probability each, 0 to 1"):
        model.predict(made.hits, first + 1.0)
    with pytest.raises(InputError, match="from 0 to 9"):
        model.predict(made.hits, first, places=np.full(3000, 10))
