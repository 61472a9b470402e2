"""Evaluation end to end on vectors that tests control: the identities, the decision, notes, refusals."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.records import METRICS, Evaluation
from normwise.core.similarity import Similarity
from normwise.data.sets import Corpus, Judged, RetrievalData
from normwise.theory.directions import normalize
from normwise.theory.ranking import metrics_per_query
from normwise.workflows.evaluate import check_report, evaluate, evaluate_vectors
from normwise.workflows.ranked import rank

WIDTH = 6


class TableEncoder:
    """An encoder that looks vectors up by text, as `Encoder` would return them."""

    name = "models/table"

    def __init__(self, table):
        self.table, self.calls = table, []

    def encode_queries(self, texts, *, batch_size, progress):
        self.calls.append(("queries", len(texts)))
        return np.stack([self.table[text] for text in texts]).astype(np.float32)

    def encode_candidates(self, texts, *, batch_size, progress):
        self.calls.append(("candidates", len(texts)))
        return np.stack([self.table[text] for text in texts]).astype(np.float32)


def world(*, prior=0.0, queries=40, candidates=120, seed=0):
    """Queries near their target; with a prior, the target is the longer of two candidates of one direction."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(candidates, WIDTH))
    half = candidates // 2
    # Odd candidates are twins of even ones: by angle alone they are nearly alike, and length tells which is meant.
    vectors[1::2] = vectors[0::2] + 0.01 * rng.normal(size=(half, WIDTH))
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    table = {f"c{i}": vectors[i] * (1.0 + prior * (i % 2)) for i in range(candidates)}
    corpus = Corpus(tuple(f"id{i}" for i in range(candidates)), tuple(f"c{i}" for i in range(candidates)))

    def judged(name, shift):
        targets = (2 * rng.permutation(half)[:queries] + 1).tolist()
        for i, target in enumerate(targets):
            table[f"{name}{i}"] = vectors[target] + 0.05 * rng.normal(size=WIDTH) + shift
        texts = tuple(f"{name}{i}" for i in range(queries))
        return Judged(texts, texts, tuple({target: 1.0} for target in targets), corpus, np.arange(queries))

    dev, test = judged("dev", 0.0), judged("test", 0.0)
    data = RetrievalData(name="toy", kind="toy", train=None, dev=dev, test=test, skewed=False, notes=("a note of the data",))
    return TableEncoder(table), data


def test_all_four_similarities_equal_a_full_sort_of_their_own_scores():
    """Each score is computed by its definition; two identities and every metric follow, without the shortcut."""
    rng = np.random.default_rng(1)
    queries, candidates = (
        rng.normal(size=(30, WIDTH)) * rng.lognormal(size=(30, 1)),
        rng.normal(size=(90, WIDTH)) * rng.lognormal(size=(90, 1)),
    )
    relevance = [{int(row): float(gain) for row, gain in zip(rng.permutation(90)[:3], (3, 1, 2), strict=True)} for _ in range(30)]
    found = evaluate_vectors(queries, candidates, relevance=relevance)
    assert list(found.similarities) == [s.value for s in Similarity]
    for name in Similarity:
        left = normalize(queries) if name.normalizes_query else queries
        right = normalize(candidates) if name.normalizes_candidate else candidates
        expected = metrics_per_query(np.argsort(-(left @ right.T), axis=1, kind="stable"), relevance)
        for metric in METRICS:
            assert found.similarities[name.value][metric].mean == pytest.approx(expected[metric].mean())
    assert found.similarities["dot"] == found.similarities["query_normalized"]
    assert found.similarities["cosine"] == found.similarities["candidate_normalized"]
    assert found.similarities["dot"] != found.similarities["cosine"]


def test_the_similarity_is_decided_on_dev_when_test_is_reported():
    encoder, data = world(prior=0.5)
    found = evaluate(encoder, data)
    assert (found.split, found.decision.split) == ("test", "dev")
    assert found.decision.similarity == "dot"
    assert "table (dot) beats the best cosine run" in found.decision.reason
    assert encoder.calls == [("candidates", 120), ("queries", 40), ("queries", 40)]


def test_without_a_prior_cosine_stays():
    encoder, data = world(prior=0.0)
    assert evaluate(encoder, data).decision.similarity == "cosine"


def test_the_dev_queries_decide_not_those_of_test():
    encoder, data = world(prior=0.5)
    dev = data.dev
    shorter_twins = tuple({row - 1: 1.0 for row in judged} for judged in dev.relevance)
    dev = Judged(dev.query_ids, dev.queries, shorter_twins, dev.corpus, dev.clusters)
    data = RetrievalData("toy", "toy", None, dev, data.test, skewed=False)
    assert evaluate(encoder, data).decision.similarity == "cosine"
    assert evaluate(encoder, data, split="dev").decision.split == "dev"
    alone = evaluate(encoder, data.test)
    assert alone.decision.similarity == "dot"
    assert "for want of a dev split" in alone.decision.reason


def test_dev_with_a_corpus_of_its_own_is_searched_in_it():
    encoder, data = world(prior=0.5)
    corpus = Corpus(data.dev.corpus.ids[:100], data.dev.corpus.texts[:100])
    kept = np.array([i for i, judged in enumerate(data.dev.relevance) if max(judged) < 100])
    part = data.dev.subset(kept)
    dev = Judged(part.query_ids, part.queries, part.relevance, corpus, part.clusters)
    evaluate(encoder, RetrievalData("toy", "toy", None, dev, data.test, skewed=False))
    assert ("candidates", 100) in encoder.calls


def test_the_record_is_whole_and_survives_json():
    encoder, data = world()
    found = evaluate(encoder, data)
    assert (found.model, found.data, found.queries, found.candidates, found.clusters) == ("models/table", "toy", 40, 120, 40)
    assert "a note of the data" in found.notes
    assert Evaluation.from_json(found.to_json()) == found
    assert {"e1_pearson", "radial_freedom", "a5_alignment", "hub_share_dot"} <= set(found.geometry)
    interval = found.similarities["cosine"]["ndcg@10"]
    assert interval.ci_low <= interval.mean <= interval.ci_high


def test_the_same_seed_gives_the_same_record():
    encoder, data = world()
    assert evaluate(encoder, data, seed=3) == evaluate(encoder, data, seed=3)


def test_one_similarity_is_reported_alone_and_nothing_is_decided():
    encoder, data = world()
    found = evaluate(encoder, data, similarity="query_normalized")
    assert list(found.similarities) == ["query_normalized"]
    assert found.decision.similarity == "query_normalized"
    assert "nothing was compared" in found.decision.reason
    assert ("queries", 40) in encoder.calls
    assert len(encoder.calls) == 2


def test_limits_cut_queries_and_keep_relevant_candidates():
    encoder, data = world()
    found = evaluate(encoder, data, limit_queries=10, limit_candidates=60)
    assert (found.queries, found.candidates) == (10, 60)
    assert evaluate(encoder, data.test, limit_queries=7).queries == 7


def test_queries_without_an_answer_are_left_out_and_counted():
    encoder, data = world()
    test = data.test
    judged = Judged(test.query_ids, test.queries, ({}, {}, *test.relevance[2:]), test.corpus, test.clusters)
    found = evaluate(encoder, judged)
    assert found.clusters == 38
    assert any(note.startswith("2 of 40 queries have no relevant candidate") for note in found.notes)
    kept = evaluate(encoder, judged.subset(np.arange(2, 40)))
    assert found.similarities["cosine"]["p@1"].mean == pytest.approx(kept.similarities["cosine"]["p@1"].mean)


def test_one_search_gives_every_metric_of_every_query():
    encoder, data = world()
    vectors = encoder.encode_queries(data.test.queries, batch_size=1, progress=False)
    candidates = encoder.encode_candidates(data.test.corpus.texts, batch_size=1, progress=False)
    found = rank(vectors, candidates, data.test.relevance).metrics
    assert set(found) == {"cosine", "dot"}
    assert all(tuple(table) == METRICS and all(v.shape == (40,) for v in table.values()) for table in found.values())
    table = evaluate(encoder, data).similarities["cosine"]
    assert found["cosine"]["mrr@10"].mean() == pytest.approx(table["mrr@10"].mean)


def test_shared_candidates_are_also_counted_once():
    """Nine queries ask for the one candidate that is found, one query for another that is not."""
    candidates = np.eye(4)
    queries = np.concatenate([np.tile([1.0, 0.1, 0.0, 0.0], (9, 1)), [[0.0, 0.0, 0.2, 1.0]]])
    found = evaluate_vectors(queries, candidates, relevance=[{0: 1.0}] * 9 + [{2: 1.0}])
    assert found.similarities["cosine"]["p@1"].mean == pytest.approx(0.9)
    assert found.one_query_per_candidate["cosine"]["p@1"].mean == pytest.approx(0.5)
    assert found.one_query_per_candidate["dot"] == found.one_query_per_candidate["query_normalized"]
    assert Evaluation.from_json(found.to_json()) == found
    assert evaluate_vectors(candidates, candidates).one_query_per_candidate == {}


def test_every_row_of_a_file_of_pairs_is_judged(tmp_path):
    encoder, data = world()
    rows = [
        {"query": data.test.queries[i], "positive": data.test.corpus.texts[next(iter(data.test.relevance[i]))]}
        for i in range(len(data.test))
    ]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = evaluate(encoder, str(file))
    assert (found.queries, found.candidates, found.split) == (40, 40, "test")
    assert any("every row is a test query; a model trained on these rows knows the answers" in note for note in found.notes)
    held_out = evaluate(encoder, str(file), split="test")
    assert held_out.queries == 4
    assert not any("every row" in note for note in held_out.notes)


def test_a_folder_with_splits_keeps_them(tmp_path):
    from datasets import Dataset, DatasetDict

    encoder, _ = world()
    part = {"query": [f"test{i}" for i in range(6)], "positive": [f"c{i}" for i in range(6)]}
    DatasetDict({"train": Dataset.from_dict(part), "test": Dataset.from_dict({k: v[:3] for k, v in part.items()})}).save_to_disk(
        tmp_path / "d"
    )
    assert evaluate(encoder, str(tmp_path / "d")).queries == 3


def test_a_hub_is_named_with_its_id():
    encoder, data = world()
    encoder.table["c7"] = 1e4 * np.ones(WIDTH)
    found = evaluate(encoder, data)
    assert found.geometry["hub_share_dot"] > 0.3
    assert any("'id7', takes" in note and "under dot: a hub" in note for note in found.notes)
    assert not any("under cosine: a hub" in note for note in found.notes)


def test_a_norm_bound_to_the_direction_is_said():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, WIDTH))
    z[:, -1] = 1.0
    found = evaluate_vectors(z[:50], z)
    assert found.geometry["radial_freedom"] == pytest.approx(0.0, abs=1e-6)
    assert any("the norm is a function of the direction" in note and "e3_affine" in note for note in found.notes)
    assert any("upper bound" in note for note in evaluate_vectors(z[:20], z[:20]).notes)


def test_unit_vectors_have_no_norm_figures():
    x = normalize(np.random.default_rng(0).normal(size=(50, 4))).astype(np.float32)
    found = evaluate_vectors(x, x)
    assert found.geometry["radial_freedom"] is None
    assert found.geometry["e1_pearson"] is None
    assert found.decision.similarity == "cosine"


def test_files_are_mapped_and_judged_by_row(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "q.npy", rng.normal(size=(5, 4)).astype(np.float16))
    np.save(tmp_path / "c.npy", rng.normal(size=(9, 4)).astype(np.float32))
    (tmp_path / "qrels.tsv").write_text("".join(f"{i}\t{8 - i}\t{i + 1}\n" for i in range(5)))
    found = evaluate_vectors(tmp_path / "q.npy", tmp_path / "c.npy", qrels=tmp_path / "qrels.tsv")
    assert (found.data, found.split, found.model) == ("q.npy x c.npy", "given", "bare vectors")
    arrays = np.load(tmp_path / "q.npy"), np.load(tmp_path / "c.npy")
    same = evaluate_vectors(*arrays, relevance=[{8 - i: float(i + 1)} for i in range(5)])
    assert same.similarities == found.similarities
    assert same.geometry == found.geometry


def test_queries_with_a_shared_answer_are_one_cluster():
    x = np.random.default_rng(0).normal(size=(6, 3))
    shared = [{0: 1.0}, {0: 1.0}, {1: 1.0}, {2: 1.0}, {2: 1.0}, {5: 1.0}]
    assert evaluate_vectors(x, x, relevance=shared).clusters == 4
    assert evaluate_vectors(x, x, relevance=shared, clusters=np.zeros(6, dtype=int)).similarities["dot"]["p@1"].ci_low is None


def test_zero_vectors_are_counted(monkeypatch):
    monkeypatch.setattr("normwise.theory.directions._CHUNK_VALUES", 6)
    x = np.random.default_rng(0).normal(size=(8, 3))
    clean = evaluate_vectors(x, x)
    assert not any("are zero" in note for note in clean.notes)
    x[[1, 6, 7]] = 0.0
    found = evaluate_vectors(x[:7], x)
    assert any(note.startswith("2 of 7 query vectors are zero: every candidate scores 0 for them") for note in found.notes)
    assert any(note.startswith("3 of 8 candidate vectors are zero: they score 0 for every query") for note in found.notes)


def test_refusals_of_vectors_name_their_files(tmp_path):
    np.save(tmp_path / "q.npy", np.ones((2, 3)))
    np.save(tmp_path / "c.npy", np.full((2, 3), 1e300))
    np.save(tmp_path / "wide.npy", np.ones((2, 4)))
    np.save(tmp_path / "one.npy", np.ones((1, 3)))
    for name, message in (
        ("c.npy", r"candidates: row 0 has norm .*\(queries: q.npy, candidates: c.npy\)"),
        ("wide.npy", r"3 dimensions, candidates 4.*\(queries: q.npy, candidates: wide.npy\)"),
        ("one.npy", r"row i cannot answer query i; give qrels \(queries: q.npy, candidates: one.npy\)"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_vectors(tmp_path / "q.npy", tmp_path / name)


def test_refusals_of_an_encoder_name_it():
    encoder, data = world()
    encoder.table["c3"] = np.full(WIDTH, np.nan)
    with pytest.raises(InputError, match=r"candidates: row 3, column 0 is nan.*\(vectors of models/table\)"):
        evaluate(encoder, data)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_splits_without_an_answer_are_refused_before_encoding_and_their_file_named(split):
    encoder, data = world()
    part = replace(getattr(data, split), relevance=({},) * 40, file=f"toy/qrels/{split}.tsv")
    with pytest.raises(InputError, match=rf"toy: none of 40 {split} queries has a relevant candidate \(toy/qrels/{split}.tsv\)"):
        evaluate(encoder, replace(data, **{split: part}), split=split)
    with pytest.raises(InputError, match=rf"toy has no {split} queries \(toy/qrels/{split}.tsv\)"):
        evaluate(encoder, replace(data, **{split: part.subset(np.arange(0))}), split=split)
    assert encoder.calls == []
    other = {"dev": "test", "test": "dev"}[split]
    assert evaluate(encoder, replace(data, **{split: part}), split=other).decision.split == other


def test_a_report_is_written_once(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 3))
    evaluate_vectors(x, x, report=tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match="page.html exists already"):
        evaluate_vectors(x, x, report=tmp_path / "page.html")
    with pytest.raises(InputError, match=r"x\.html cannot be made: .*page\.html is no folder"):
        evaluate_vectors(x, x, report=tmp_path / "page.html" / "x.html")


def test_only_a_page_is_replaced(tmp_path):
    page, other = tmp_path / "page.html", tmp_path / "x.npy"
    page.write_text("\n<!DOCTYPE html>\n<html></html>")
    np.save(other, np.ones(3))
    check_report(page, overwrite=True)
    check_report(tmp_path / "new.html", overwrite=True)
    with pytest.raises(InputError, match="page.html exists already: pass --overwrite to replace it"):
        check_report(page, overwrite=False)
    for taken in (other, tmp_path):
        with pytest.raises(InputError, match="is no page, and nothing else is replaced"):
            check_report(taken, overwrite=True)


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((ONES, np.ones((2, 4))), {}, "queries have 3 dimensions, candidates 4"),
        ((np.ones((3, 3)), ONES), {}, "row i cannot answer query i; give qrels"),
        ((np.ones(3), ONES), {}, r"queries are float64 of shape \(3,\)"),
        ((ONES, ONES.astype(int)), {}, "candidates are int64 of shape"),
        ((ONES, [[1.0]]), {}, "candidates are list"),
        ((np.full((1, 3), np.nan), ONES), {}, "queries: row 0, column 0 is nan"),
        ((ONES, ONES), {"relevance": [{0: 1.0}]}, "relevance judges 1 queries; expected 2"),
        ((ONES, ONES), {"relevance": [{0: 1.0}, {2: 1.0}]}, "query 1 names candidate row 2; expected 0 to 1"),
        ((ONES, ONES), {"relevance": [{}, {}]}, "no query has a relevant candidate"),
        ((ONES, ONES), {"relevance": [{}, {}], "qrels": "q.tsv"}, "judgements came twice"),
        ((ONES, ONES), {"clusters": np.zeros(3, dtype=int)}, "expected one whole number for each of 2 queries"),
        ((ONES, ONES), {"clusters": np.zeros(2)}, "clusters are float64"),
        ((ONES, ONES), {"similarity": "cos"}, "did you mean cosine"),
        (("gone.npy", ONES), {}, "gone.npy does not exist"),
    ],
)
def test_bad_vectors_are_refused(arguments, options, message):
    with pytest.raises(InputError, match=message):
        evaluate_vectors(*arguments, **options)


def test_bad_data_are_refused():
    encoder, data = world()
    with pytest.raises(InputError, match="split 'tets' is unknown: did you mean test"):
        evaluate(encoder, data, split="tets")
    with pytest.raises(InputError, match="toy has no dev queries"):
        evaluate(encoder, RetrievalData("toy", "toy", None, None, data.test, skewed=False), split="dev")
    with pytest.raises(InputError, match="limit_queries"):
        evaluate(encoder, data, limit_queries=0)
    with pytest.raises(InputError, match="did you mean python-docs"):
        evaluate(encoder, "python-dosc")
    assert encoder.calls == []


@pytest.mark.slow
def test_a_real_encoder_on_a_beir_folder(small_model, beir):
    found = evaluate(small_model, beir)
    assert (found.queries, found.candidates) == (24, 120)
    assert found.similarities["cosine"]["recall@100"].mean > 0.8
    assert found.decision.split == "dev"
    assert SimpleNamespace(**found.geometry).norm_cv_candidates > 0
