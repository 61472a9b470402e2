"""`advise_negatives` end to end: on vectors whose truth is known, and on what people get wrong."""

import json

import numpy as np
import pytest

import normwise
from normwise.core.errors import InputError
from normwise.core.negatives_records import NegativesReport
from normwise.core.similarity import Similarity
from normwise.workflows.negatives import advise_negatives
from normwise.workflows.negatives_inputs import Limits, Words
from normwise.workflows.negatives_material import prepared


def world(seed=0, *, queries=600, pool=3000, width=8, noise=0.7):
    random = np.random.default_rng(seed)
    target = random.normal(size=(queries, width))
    return target + noise * random.normal(size=(queries, width)), target, random.normal(size=(pool, width))


def advise(*vectors, **more):
    queries, positives, *rest = vectors
    return advise_negatives(queries, positives, **({"similarity": "cosine", "temperature": 0.3, "pool": rest[0] if rest else None} | more))


@pytest.fixture(scope="module")
def found():
    return advise(*world(), candidates=1024)


def test_the_result_has_the_promised_keys_and_round_trips(found):
    value = json.loads(found.to_json())
    assert set(value) >= {"k", "risk", "risk_ci", "cross_entropy", "cv2", "effective_negatives", "bounds", "temperatures", "advice"}
    assert set(value["cross_entropy"]) >= {"estimate", "ci_low", "ci_high", "method"}
    assert set(value["cv2"]) >= {"median", "p90"}
    assert set(value["temperatures"][0]) >= {"temperature", "risk", "cross_entropy", "recall@1"}
    assert len(value["k"]) == len(value["risk"]) == len(value["risk_ci"]) == len(value["effective_negatives"])
    assert NegativesReport.from_json(found.to_json()) == found
    assert normwise.advise_negatives is advise_negatives


def test_the_limit_is_below_the_risk_of_a_good_encoder_and_within_the_bounds(found):
    assert found.cross_entropy.method == "jackknife"
    gap = found.cross_entropy.estimate - found.risk[-1]
    assert found.bounds.low <= gap <= found.bounds.high
    assert found.search is not None
    assert found.search.estimate == pytest.approx(found.risk[found.k.index(1024)])
    assert found.fit.limit == pytest.approx(found.cross_entropy.estimate, abs=0.02)


def test_vectors_in_another_order_or_length_say_the_same_by_cosine(found):
    queries, positives, pool = world()
    order = np.random.default_rng(1).permutation(len(queries))
    other = advise(3.0 * queries[order], positives[order] / 7.0, pool, candidates=1024)
    np.testing.assert_allclose(other.risk, found.risk, atol=1e-4)
    assert other.false_negatives.above_own == pytest.approx(found.false_negatives.above_own)
    assert other.false_negatives.at_most == pytest.approx(found.false_negatives.at_most)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "query_normalized", "candidate_normalized"])
def test_every_similarity_scores_as_it_says(similarity):
    queries, positives, pool = world(2, queries=40, pool=64)
    seen = advise(queries, positives, pool, similarity=similarity, temperature=2.0)
    parsed = Similarity(similarity)

    def unit(vectors, wanted):
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if wanted else vectors

    q = unit(queries, parsed.normalizes_query)
    p, n = (unit(each, parsed.normalizes_candidate) for each in (positives, pool))
    own, scores = (q * p).sum(axis=1) / 2.0, q @ n.T / 2.0
    expected = np.log(1.0 / 64 + np.exp(scores - own[:, None]).mean(axis=1)).mean()
    assert seen.risk[-1] == pytest.approx(expected, abs=1e-4)


def test_in_a_batch_the_own_positive_is_no_negative_nor_are_its_copies():
    queries, positives, _ = world(3, queries=50)
    positives[7] = positives[3]
    seen = advise(queries, positives)
    assert seen.pool.kind == "positives of other queries"
    assert seen.k[-1] == 48
    assert seen.pool.masked == 52
    assert any("2 pairs of a query and a copy of its own positive" in note for note in seen.notes)
    assert seen.pool.collision == pytest.approx(2 / 50 * 48 / 49)
    assert advise(queries, world(3, queries=50)[1]).pool.collision == 0.0


def test_positives_in_the_pool_are_masked_and_counted():
    queries, positives, pool = world(4, queries=30, pool=100)
    seen = advise(queries, positives, np.concatenate([pool, positives[:10]]))
    assert seen.pool.masked == 10
    bare = advise(queries, positives, pool)
    assert seen.risk[0] == pytest.approx(bare.risk[0], abs=0.2)


def test_files_of_any_float_type_are_read_as_what_they_hold(tmp_path):
    queries, positives, pool = world(5, queries=30, pool=100)
    for name, vectors in (("q", queries.astype(np.float64)), ("p", positives.astype(np.float32)), ("n", np.asfortranarray(pool))):
        np.save(tmp_path / f"{name}.npy", vectors)
    paths = [tmp_path / f"{name}.npy" for name in "qpn"]
    seen = advise_negatives(paths[0], paths[1], pool=paths[2], similarity="dot", temperature=1.0)
    assert seen.risk == advise(queries, positives, pool, similarity="dot", temperature=1.0).risk
    assert seen.source == "q.npy x p.npy x n.npy"


def test_draws_are_those_of_the_seed_and_said():
    vectors = world(6, queries=80, pool=200)
    how = {"limit_queries": 40, "limit_pool": 100}
    first, again, other = (advise(*vectors, **how, seed=seed) for seed in (1, 1, 2))
    assert first.risk == again.risk != other.risk
    assert (first.queries, first.pool.size) == (40, 100)
    assert any("40 of 80 queries" in note for note in first.notes)
    assert any("100 of 200 negatives" in note for note in first.notes)


def test_cosine_of_long_vectors_is_as_asked_and_said():
    assert any("cosine, as asked" in note for note in advise(*world(7, queries=20, pool=40)).notes)
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in world(7, queries=20, pool=40)]
    assert not advise(*unit).notes
    assert any("dot is cosine here" in note for note in advise(*unit, similarity="dot").notes)


def test_heavy_tails_get_no_limit_and_are_told_what_it_takes():
    seen = advise(*world(8), temperature=0.01, candidates=10**6)
    assert seen.cross_entropy.method == "none"
    assert seen.cross_entropy.estimate is None
    assert "no extrapolation is given" in seen.advice
    assert seen.search is not None
    assert seen.search.estimate is None


def test_scores_of_hundreds_stay_finite():
    queries, positives, pool = world(9, queries=60, pool=300)
    seen = advise(20.0 * queries, 20.0 * positives, pool, similarity="dot", temperature=1.0)
    assert all(np.isfinite(seen.risk))
    assert all(np.isfinite(seen.decoupled))


@pytest.mark.parametrize("k", [1, 64, 3000, 10**6])
def test_any_number_of_negatives_gets_an_answer(k):
    seen = advise(*world(10), k=k)
    assert seen.at == k
    assert any("the pool holds 3,000" in note for note in seen.notes) == (k > 3000)
    assert seen.advice.endswith(".")


@pytest.mark.parametrize(("k", "near", "after"), [(300, 256, 400), (7, 8, 32), (64, None, 256)])
def test_a_k_beside_the_curve_is_said(k, near, after):
    queries, positives, pool = world(14, queries=60, pool=400)
    seen = advise(queries, positives, pool, k=k)
    assert seen.advice.startswith(f"Going from {near or k} to {after} negatives")
    assert [note for note in seen.notes if "on the curve" in note] == (
        [] if near is None else [f"k = {k} is not on the curve: the advice is about {near}, the nearest"]
    )


def test_a_search_beyond_a_pool_that_cannot_tell_is_said_once():
    queries, positives, pool = world(15, queries=60, pool=400)
    seen = advise(queries, positives, pool, temperature=0.03, candidates=401)
    assert seen.search is not None
    assert seen.search.estimate is None
    assert [note for note in seen.notes if "401 candidates" in note] == [
        note for note in seen.notes if note.endswith("no extrapolation is given, nor a risk over 401 candidates")
    ]
    inside = advise(queries, positives, pool, temperature=0.03, candidates=300)
    assert inside.search is not None
    assert any("read off the curve" in note for note in inside.notes)
    assert inside.search.estimate is not None
    ends = inside.risk[inside.k.index(256)], inside.risk[inside.k.index(400)]
    assert min(ends) <= inside.search.estimate <= max(ends)


def test_one_query_and_one_negative_have_no_errors_and_words_for_one():
    queries, positives, pool = world(16, queries=1, pool=400)
    seen = advise(queries, positives, pool)
    assert "nan" not in seen.advice
    assert "beyond the error" not in seen.advice
    assert "too few queries or negatives to tell its error" in seen.advice
    assert "1 negatives" not in advise(queries, positives, pool[:1]).advice


@pytest.mark.parametrize("temperature", [0.03, 0.3])
def test_effective_negatives_are_those_of_sets_of_k(temperature):
    queries, positives, pool = world(17, queries=60, pool=400)
    seen = advise(queries, positives, pool, temperature=temperature)
    assert seen.effective_negatives[0] == 1.0
    assert all(1.0 <= each <= k for each, k in zip(seen.effective_negatives, seen.k, strict=True))
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, pool)]
    weights = np.exp(unit[0] @ unit[1].T / temperature - 1.0 / temperature)
    whole = np.median(weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1))
    assert seen.effective_negatives[-1] == pytest.approx(whole, rel=1e-3)
    # Of sets of 8 any 8 are as good: not k / (1 + cv2) of the whole pool, which is below 1 where it is cold.
    eight = np.median((weights.reshape(60, 50, 8).sum(axis=2) ** 2 / (weights**2).reshape(60, 50, 8).sum(axis=2)).mean(axis=1))
    assert seen.effective_negatives[seen.k.index(8)] == pytest.approx(eight, rel=0.05)
    assert eight > 1.2


def test_a_temperature_that_looks_like_a_scale_is_said():
    queries, positives, pool = world(7, queries=20, pool=40)
    words = "temperature 20 leaves cosines scores of 0.05 at most, and looks like a scale: was 1 / 20 = 0.05 meant?"
    assert words in advise(queries, positives, pool, temperature=20.0).notes
    assert (
        words
        in advise(*(each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, positives, pool)), temperature=20.0).notes
    )
    assert not any("scale" in note for note in advise(queries, positives, pool, temperature=20.0, similarity="dot").notes)
    assert not any("scale" in note for note in advise(queries, positives, pool, temperature=1.0).notes)


def test_an_answer_does_not_contradict_itself_where_most_queries_are_easy():
    """All but a tenth of the queries are told with certainty; the others alone make the change."""
    queries, positives, pool = world(20, queries=200, pool=2000, width=48, noise=0.2)
    queries[:20] = np.random.default_rng(1).normal(size=(20, 48))
    seen = advise(queries, positives, pool, temperature=0.05, k=256)
    first, second, *_ = seen.advice.split("; ")
    assert first.endswith("and the risk of these falls by log 4 = 1.386 whatever is learned")
    assert "too easy" in seen.advice
    assert second.startswith("half of the queries leave less than")
    assert "still change what is learned" not in seen.advice


def test_where_every_positive_is_first_nobody_is_sent_to_the_cold():
    queries, positives, pool = world(21, queries=200, pool=2000, width=48, noise=0.2)
    seen = advise(queries, positives, pool, temperature=0.3)
    assert seen.temperatures[0].recall_at_1 == 1.0
    assert "recall@1 is 1.000 among 2,000 negatives already" in seen.advice
    assert "look further" not in seen.advice


def test_the_sweep_says_how_many_negatives_each_query_has():
    queries, positives, pool = world(18, queries=100, pool=200)
    assert (advise(queries, positives).sweep_k, advise(queries, positives).sweep_pool) == (99, 100)
    assert advise(queries, positives, pool).sweep_k == 200


def test_the_interval_of_a_change_in_the_report_is_that_of_the_advice():
    seen = advise(*world(19, pool=60), temperature=0.5, temperatures=[0.35])
    row = seen.temperatures[0]
    low, high = row.change_ci
    assert row.change is not None
    assert low is not None
    assert high is not None
    assert f"by {-row.change:.3f} nats ({-high:.3f} to {-low:.3f})" in seen.advice


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"similarity": None}, "similarity is missing"),
        ({"temperature": None}, "temperature is missing: give that of the training loss"),
        ({"temperature": 0.0}, r"temperature is 0\.0; expected a finite number above 0"),
        ({"temperatures": [0.1, -1.0]}, r"temperatures\[1\] is -1\.0"),
        ({"k": 0}, "k is 0; expected 1 or above"),
        ({"candidates": 0}, "candidates is 0"),
        ({"limit_queries": 1}, "limit_queries is 1; expected 2 or above"),
        ({"pool": np.ones((3, 5))}, "queries has 8 dimensions, and pool has 5"),
        ({"pool": np.ones((3, 8), dtype=np.int64)}, "expected rows of float vectors"),
        ({"model": "m"}, "leave queries, positives and pool out"),
    ],
)
def test_what_cannot_be_advised_is_refused(change, words):
    queries, positives, _ = world(11, queries=12)
    with pytest.raises(InputError, match=words):
        advise(queries, positives, **change)


def test_vectors_that_do_not_fit_are_refused(tmp_path):
    queries, positives, _ = world(12, queries=12)
    with pytest.raises(InputError, match="queries has 12 rows, and positives has 11: row i is the positive of query i"):
        advise(queries, positives[:11])
    bad = positives.copy()
    bad[3, 2] = np.nan
    with pytest.raises(InputError, match="row 3"):
        advise(queries, bad)
    with pytest.raises(InputError, match="no query has a negative: of 1 in positives all are copies of its positive"):
        advise(queries[:1], positives[:1])
    with pytest.raises(InputError, match="needs vectors of queries and of their positives"):
        advise_negatives(similarity="dot", temperature=1.0)
    with pytest.raises(InputError, match="a model needs data"):
        advise_negatives(model="m")
    with pytest.raises(InputError, match="beyond float32"):
        advise(1e300 * queries, positives, similarity="dot")


def test_relevant_rows_of_the_pool_are_no_negatives():
    queries, positives, pool = world(13, queries=5, pool=20)
    relevant = [np.array([row, 19]) for row in range(5)]
    how = {"similarity": Similarity.DOT, "temperature": 1.0, "limits": Limits(10, 100, 0), "words": Words("x")}
    found = prepared(queries, positives, pool, relevant=relevant, **how)
    assert found.pairs is not None
    seen = {(int(row), found.pool[place].tobytes()) for row, place in zip(*found.pairs, strict=True)}
    assert seen == {(row, pool[other].astype(np.float32).tobytes()) for row in range(5) for other in (row, 19)}
