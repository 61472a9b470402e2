"""Re-ranking by powers of the norm where the truth is known: norm, length or nothing; a slow loop; choices made elsewhere."""

import numpy as np
import pytest
from usefulness_worlds import CANDIDATES, QUERIES, world

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.usefulness_records import Reranking
from normwise.theory.claims import claim_outcome, size_outcome
from normwise.theory.folds import cluster_folds
from normwise.theory.norm_reranking import FOLDS, STRENGTHS, JudgedVectors, best_power, norm_reranking
from normwise.theory.ranking import metrics_per_query


def slow_metric(candidates, judged, logs, beta):
    unit = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    queries = judged.vectors / np.linalg.norm(judged.vectors, axis=1, keepdims=True)
    return metrics_per_query(np.argsort(-(queries @ unit.T) * np.exp(beta * logs), axis=1, kind="stable")[:, :10], judged.relevance)[
        "ndcg@10"
    ]


def test_a_norm_that_tells_relevance_is_found_beyond_length():
    candidates, test, dev, tokens = world(truth="norm")
    found = norm_reranking(candidates, test, choosing=dev, tokens=tokens)
    assert found.outcome == "reproduced"
    assert found.chosen_on == "dev"
    assert found.priors["norm"].chosen_betas[0] > 0
    assert found.priors["norm"].difference.ci_low > 0.1
    assert found.norm_minus["length"].ci_low > 0.1
    assert found.norm_minus["permuted norm"].ci_low > 0.1
    assert found.priors["norm without length"].difference.ci_low > 0.05
    assert found.claimed_size == "reproduced"
    assert found.dot_minus_cosine.ci_low > 0.1


def test_a_norm_that_is_length_in_disguise_gains_but_is_not_praised():
    candidates, test, dev, tokens = world(truth="length")
    found = norm_reranking(candidates, test, choosing=dev, tokens=tokens)
    assert found.priors["norm"].difference.ci_low > 0.1
    assert found.priors["length"].chosen_betas[0] < 0
    assert abs(found.norm_minus["length"].mean) < 0.02
    assert found.outcome != "reproduced"
    assert "norm without length" in found.priors
    assert found.priors["norm without length"].difference.ci_low <= 0.0


def test_without_token_counts_nothing_is_reproduced():
    candidates, test, dev, _ = world(truth="norm")
    found = norm_reranking(candidates, test, choosing=dev)
    assert found.outcome == "undecided at this size"
    assert "length is not controlled" in found.words
    assert set(found.priors) == {"norm", "permuted norm"}


def test_chance_is_not_praised():
    """A reduced run of benchmarks/usefulness_nulls.py: norms that mean nothing, 5 worlds."""
    alarms = 0
    for seed in range(5):
        candidates, test, dev, tokens = world(truth="nothing", seed=100 + seed)
        alarms += norm_reranking(candidates, test, choosing=dev, tokens=tokens, seed=seed, samples=200).outcome == "reproduced"
    assert alarms == 0


@pytest.mark.parametrize("by_dev", [True, False])
def test_every_figure_equals_a_slow_loop(by_dev):
    candidates, test, dev, tokens = world(truth="norm", seed=3)
    found = norm_reranking(candidates, test, choosing=dev if by_dev else None, tokens=tokens, seed=5)
    folds = cluster_folds(test.clusters, folds=FOLDS, seed=5)
    cosine = slow_metric(candidates, test, np.zeros(CANDIDATES), 0.0)
    assert found.cosine.mean == pytest.approx(cosine.mean())
    for name, logs in (("norm", np.log(np.linalg.norm(candidates, axis=1))), ("length", np.log(tokens))):
        betas = [strength / logs.std() for strength in STRENGTHS]
        reported = np.array([slow_metric(candidates, test, logs, beta) for beta in betas])
        elsewhere = np.array([slow_metric(candidates, dev if by_dev else test, logs, beta) for beta in betas])
        prior = found.priors[name]
        assert [row.beta for row in prior.table] == pytest.approx(betas)
        assert [row.reported for row in prior.table] == pytest.approx(reported.mean(axis=1))
        assert [row.chosen_on for row in prior.table] == pytest.approx(elsewhere.mean(axis=1))
        chosen, expected = [], np.empty(QUERIES)
        for fold in [None] if by_dev else range(FOLDS):
            place = best_power(betas, elsewhere if by_dev else elsewhere[:, folds != fold])
            used = np.ones(QUERIES, dtype=bool) if by_dev else folds == fold
            expected[used] = reported[place, used]
            chosen.append(betas[place])
        assert prior.chosen_betas == pytest.approx(chosen)
        assert prior.reported.mean == pytest.approx(expected.mean())
        assert prior.difference.mean == pytest.approx((expected - cosine).mean())
    assert found.dot_minus_cosine.mean == pytest.approx(
        (slow_metric(candidates, test, np.log(np.linalg.norm(candidates, axis=1)), 1.0) - cosine).mean()
    )


def test_dev_chooses_and_test_only_reports():
    candidates, test, dev, tokens = world(truth="norm", seed=4)
    other_twins = [{row ^ 1: 1.0 for row in judged} for judged in dev.relevance]
    misled = norm_reranking(candidates, test, choosing=JudgedVectors(dev.vectors, other_twins, dev.clusters), tokens=tokens)
    assert misled.priors["norm"].chosen_betas[0] < 0
    assert misled.priors["norm"].difference.ci_high < 0
    assert misled.outcome == "not reproduced"


def test_a_dev_set_without_an_answer_chooses_nothing():
    candidates, test, dev, tokens = world(truth="norm", seed=4)
    empty = JudgedVectors(dev.vectors, [{} for _ in dev.relevance], dev.clusters)
    found = norm_reranking(candidates, test, choosing=empty, tokens=tokens)
    assert (found.chosen_on, len(found.priors["norm"].chosen_betas)) == ("cross-validation", FOLDS)


def test_queries_without_an_answer_are_left_out_and_counted():
    candidates, test, dev, tokens = world(truth="norm", seed=6)
    relevance = [{} if query < 20 else judged for query, judged in enumerate(test.relevance)]
    part = JudgedVectors(test.vectors[20:], relevance[20:], test.clusters[20:])
    some = norm_reranking(candidates, JudgedVectors(test.vectors, relevance, test.clusters), choosing=dev, tokens=tokens)
    assert some.queries == 100
    assert some.priors["norm"].reported.mean == norm_reranking(candidates, part, choosing=dev, tokens=tokens).priors["norm"].reported.mean


def test_popularity_is_a_control_where_it_is_given():
    candidates, test, dev, tokens = world(truth="norm", seed=7)
    asked = np.zeros(CANDIDATES)
    for judged in test.relevance:
        for row in judged:
            asked[row] += 3.0
    found = norm_reranking(candidates, test, choosing=dev, tokens=tokens, popularity=asked)
    assert found.priors["popularity"].difference.ci_low > 0.1
    assert found.norm_minus["popularity"].mean < found.priors["norm"].difference.mean
    flat = norm_reranking(candidates, test, choosing=dev, tokens=tokens, popularity=np.full(CANDIDATES, 4.0))
    assert "popularity" not in flat.priors


def test_equal_norms_change_nothing_and_say_so():
    candidates, test, dev, tokens = world(truth="norm", seed=8)
    unit = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    found = norm_reranking(unit, test, choosing=dev, tokens=tokens)
    assert set(found.priors) == {"length"}
    assert (found.outcome, found.dot_minus_cosine.mean) == ("not reproduced", 0.0)
    assert "all norms are equal" in found.words


def test_the_record_survives_json():
    candidates, test, dev, tokens = world(truth="norm", seed=9)
    found = norm_reranking(candidates, test, choosing=dev, tokens=tokens, popularity=tokens)
    assert Reranking.from_json(found.to_json()) == found
    assert found == norm_reranking(candidates, test, choosing=dev, tokens=tokens, popularity=tokens)
    assert len(found.priors["permuted norm"].chosen_betas) == 5
    assert found.norm_minus.keys() == {"length", "popularity", "permuted norm"}


def test_equal_means_go_to_the_smallest_power():
    flat = np.array([[0.5, 0.5]] * 5)
    assert best_power((-2.0, -1.0, 0.0, 1.0, 2.0), flat) == 2
    assert best_power((-2.0, -1.0, 1.0, 2.0), flat[:4]) == 1
    assert best_power((0.0, 1.0), np.array([[0.0, np.nan], [0.1, np.nan]])) == 1


def test_claims_need_every_part_and_a_size_that_matters():
    above, below, flat, wide = (
        Interval(mean=0.0, ci_low=low, ci_high=high) for low, high in ((0.1, 0.2), (-0.2, -0.1), (-0.001, 0.001), (-0.5, 0.5))
    )
    assert claim_outcome([(above, 0.01)] * 2) == "reproduced"
    assert claim_outcome([(above, 0.01)], complete=False) == "undecided at this size"
    assert claim_outcome([(above, 0.01), (below, 0.0)]) == "not reproduced"
    assert claim_outcome([(above, 0.01), (flat, 0.01)]) == "not reproduced"
    assert claim_outcome([(flat, 0.0)]) == "undecided at this size"
    assert claim_outcome([(wide, 0.01), (above, 0.01)]) == "undecided at this size"
    assert claim_outcome([(Interval(mean=0.3, ci_low=None, ci_high=None), 0.01)]) == "undecided at this size"
    assert [size_outcome(each) for each in (above, below, wide)] == ["reproduced", "not reproduced", "undecided at this size"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": np.ones((5, 3)), "tokens": None}, "5 candidates; expected at least 30"),
        ({"tokens": np.ones(3)}, r"tokens have shape \(3,\) for 40 candidates"),
        ({"tokens": np.zeros(40)}, "tokens: candidate 0 has 0.0; expected a finite count of 1 or more"),
        ({"popularity": np.full(40, np.nan)}, "popularity: candidate 0 has nan"),
        ({"relevance": [{}] * 8}, "no reported query has a relevant candidate"),
    ],
)
def test_refusals(change, message):
    rng = np.random.default_rng(0)
    call = {"candidates": rng.normal(size=(40, 3)), "tokens": np.arange(1.0, 41.0), "popularity": None, "relevance": [{0: 1.0}] * 8}
    call |= change
    judged = JudgedVectors(rng.normal(size=(8, 3)), call["relevance"], np.arange(8))
    with pytest.raises(InputError, match=message):
        norm_reranking(call["candidates"], judged, tokens=call["tokens"], popularity=call["popularity"])


def test_judgements_must_fit_their_queries():
    with pytest.raises(InputError, match="2 query vectors, 1 judgements, 2 clusters"):
        JudgedVectors(np.ones((2, 3)), [{0: 1.0}], np.arange(2))
