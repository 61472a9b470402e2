"""Usefulness of norms from end to end: a real encoder on a BEIR folder, and vectors whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.norm_records import NormDistribution
from normwise.core.usefulness_records import UsefulnessReport
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs
from normwise.theory.norm_verdict import judge
from normwise.workflows import inspect_usefulness
from normwise.workflows.evaluate import evaluate
from normwise.workflows.inspect_usefulness import JudgedSet, measure_usefulness, usefulness_of_vectors

WIDTH, CANDIDATES, QUERIES = 12, 200, 120
CORPUS = Corpus(tuple(f"id{i}" for i in range(CANDIDATES)), tuple(f"text {i}" for i in range(CANDIDATES)))


def vectors(*, seed=0, prior=True):
    """Twin candidates; with a prior, the longer of two is meant."""
    rng = np.random.default_rng(seed)
    directions = np.repeat(rng.normal(size=(CANDIDATES // 2, WIDTH)), 2, axis=0) + 0.02 * rng.normal(size=(CANDIDATES, WIDTH))
    norms = rng.lognormal(0.0, 0.2, size=CANDIDATES)
    candidates = directions / np.linalg.norm(directions, axis=1, keepdims=True) * norms[:, None]
    value = norms if prior else rng.normal(size=CANDIDATES)

    def asked(name):
        pairs = rng.integers(CANDIDATES // 2, size=QUERIES)
        target = 2 * pairs + (value[2 * pairs + 1] > value[2 * pairs])
        ids = tuple(f"{name}{i}" for i in range(QUERIES))
        judged = Judged(ids, ids, tuple({int(row): 1.0} for row in target), CORPUS, pairs)
        return JudgedSet(candidates[2 * pairs] + 0.2 * rng.normal(size=(QUERIES, WIDTH)), judged, rng.integers(3, 30, QUERIES))

    return candidates, asked("test"), asked("dev"), rng.integers(5, 200, CANDIDATES).astype(float)


def test_a_norm_that_tells_relevance_reaches_the_verdict():
    candidates, test, dev, tokens = vectors()
    found = usefulness_of_vectors(candidates, test, choosing=dev, tokens=tokens)
    assert found.reranking.outcome == "reproduced"
    assert found.summary.ranking == found.reranking.dot_minus_cosine
    assert found.summary.confidence == found.confidence.gains_beyond["e_aurc"]
    assert found.confidence.controls == ("tokens of the query", "tokens of the top hit")
    verdict = judge([], NormDistribution(mean=1.0, cv=0.2), usefulness=found.summary)[1]
    assert "ranking" in verdict.usable_for
    assert UsefulnessReport.from_json(found.to_json()) == found


def test_a_norm_without_meaning_stays_unused():
    candidates, test, dev, tokens = vectors(prior=False, seed=1)
    found = usefulness_of_vectors(candidates, test, choosing=dev, tokens=tokens)
    assert found.reranking.outcome != "reproduced"
    assert found.confidence.outcome != "reproduced"
    assert judge([], NormDistribution(mean=1.0, cv=0.2), usefulness=found.summary)[1].usable_for == ()


def test_the_top_hits_are_those_of_cosine():
    candidates, test, _, tokens = vectors(seed=2)
    hits, controls, notes = inspect_usefulness._top_hits(candidates, test, tokens=tokens, popularity=np.arange(CANDIDATES) + 1)
    scores = (test.vectors / np.linalg.norm(test.vectors, axis=1, keepdims=True)) @ (
        candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    ).T
    top = scores.argmax(axis=1)
    assert hits.score == pytest.approx(scores.max(axis=1), abs=1e-6)
    assert hits.margin == pytest.approx(np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0], abs=1e-6)
    assert hits.right.tolist() == [int(row) in judged for row, judged in zip(top, test.judged.relevance, strict=True)]
    assert hits.hit_norms == pytest.approx(np.linalg.norm(candidates, axis=1)[top])
    assert hits.query_norms == pytest.approx(np.linalg.norm(test.vectors, axis=1))
    assert controls["tokens of the top hit"].tolist() == tokens[top].tolist()
    assert controls["popularity of the top hit"].tolist() == (top + 1.0).tolist()
    assert notes == []


def test_without_token_counts_confidence_is_not_handed_on():
    candidates, test, dev, _ = vectors(seed=3)
    found = usefulness_of_vectors(candidates, test, choosing=dev)
    assert found.reranking.outcome == "undecided at this size"
    assert found.summary.confidence is None
    assert any("length is not controlled" in note for note in found.notes)


def test_queries_without_an_answer_and_zero_vectors_are_told():
    candidates, test, dev, tokens = vectors(seed=4)
    asked, judged = test.vectors.copy(), test.judged
    asked[0] = 0.0
    relevance = (judged.relevance[0], {}, {}, *judged.relevance[3:])
    found = usefulness_of_vectors(
        candidates, replace(test, vectors=asked, judged=replace(judged, relevance=relevance)), choosing=dev, tokens=tokens
    )
    assert (found.reranking.queries, found.confidence.queries) == (QUERIES - 2, QUERIES - 1)
    assert found.notes == (
        "1 queries whose vector or top hit is zero are left out of confidence",
        "2 queries without a relevant candidate: left out of ranking, wrong in confidence",
    )


def test_popularity_is_counted_by_name_and_only_where_positives_repeat():
    corpus = Corpus(("id3", "other", "id0"), ("a", "b", "c"))
    train = TrainingPairs(("p", "q", "r"), np.array([0, 0, 1]), ((), (), ()), corpus, np.arange(3))
    test = vectors()[1].judged
    data = RetrievalData("toy", "toy", train, None, test, skewed=True)
    counts = inspect_usefulness._popularity(data, test)
    assert counts is not None
    assert counts[[0, 3]].tolist() == [0.0, 2.0]
    assert counts.sum() == 2.0
    assert inspect_usefulness._popularity(replace(data, skewed=False), test) is None
    assert inspect_usefulness._popularity(replace(data, train=None), test) is None


def test_a_real_encoder_on_a_folder(small_model, beir):
    found = measure_usefulness(str(small_model), beir)
    assert (found.reranking.queries, found.reranking.candidates, found.reranking.chosen_on) == (24, 120, "dev")
    plain = evaluate(str(small_model), beir)
    assert found.reranking.cosine.mean == pytest.approx(plain.similarities["cosine"]["ndcg@10"].mean)
    dot = plain.similarities["dot"]["ndcg@10"].mean
    assert found.reranking.dot_minus_cosine.mean == pytest.approx(dot - found.reranking.cosine.mean)
    # This model reads 16 tokens, which every document fills: length is the same for all, and as a control it is cosine.
    assert set(found.reranking.priors) == {"norm", "permuted norm"}
    assert found.reranking.norm_minus["length"] == found.reranking.priors["norm"].difference
    assert found.confidence.outcome == "undecided at this size"
    assert "clusters; expected at least" in found.confidence.words
    assert found.summary.confidence is None
    assert (found.data, found.split) == (plain.data, "test")
    smaller = measure_usefulness(str(small_model), beir, limit_queries=10, limit_candidates=40)
    assert (smaller.reranking.queries, smaller.reranking.candidates) == (10, 40)


def test_dev_queries_over_other_candidates_choose_nothing(small_model, beir):
    from normwise.core.config import DataConfig
    from normwise.data.load import load_data
    from normwise.models.encoder import Encoder

    encoder, data = Encoder.load(str(small_model)), load_data(DataConfig(name=str(beir)), seed=0)
    shorter = Corpus(data.dev.corpus.ids[:100], data.dev.corpus.texts[:100])
    dev = replace(data.dev.subset(np.arange(4)), corpus=shorter)
    found = measure_usefulness(encoder, replace(data, dev=dev))
    assert found.reranking.chosen_on == "cross-validation"
    assert any("search other candidates" in note for note in found.notes)
    alone = measure_usefulness(encoder, data.test)
    assert (alone.data, alone.reranking.chosen_on) == ("judged queries", "cross-validation")
    assert alone.reranking.cosine == found.reranking.cosine


def test_refusals(beir):
    nothing = replace(vectors()[1].judged, relevance=({},) * QUERIES)
    with pytest.raises(InputError, match="no test query with a relevant candidate"):
        measure_usefulness("no-such-model", nothing)
    with pytest.raises(InputError, match="does not exist"):
        measure_usefulness("all-MiniLM-L6-v2", "/no/such/data.csv")
    with pytest.raises(InputError, match="limit_queries"):
        measure_usefulness("all-MiniLM-L6-v2", beir, limit_queries=-1)
