from __future__ import annotations

import re

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from report_material import interval, metric_table, train_result

from normwise.core.errors import InputError
from normwise.core.records import Decision, RunResult
from normwise.core.similarity import Similarity
from normwise.report.card import CardFacts, render_card, summarize_norms
from normwise.report.recipes import faiss_recipe
from normwise.report.svg import clean


def facts(**changes: object) -> CardFacts:
    result = train_result()
    known = {
        "name": "me/my-model",
        "load_from": "me/my-model",
        "similarity": "dot",
        "temperature": 1.58,
        "base_model": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "apache-2.0",
        "languages": ("en",),
        "dimensions": 384,
        "max_tokens": 64,
        "query_prompt": "query: ",
        "data": result.data,
        "data_notes": result.data_notes,
        "runs": result.runs,
        "stages": result.runs[6].stages,
        "decision": Decision(run="dot_full", similarity="dot", reason="the paired interval excludes 0"),
        "comparisons": result.comparisons,
        "candidate_norms": summarize_norms(result.figures.norms_candidates),
        "norm_freedom": "The norm is free.",
    }
    return CardFacts(**{**known, **changes})


def header(card: str) -> dict:
    opening, yaml_text, _ = card.split("---\n", 2)
    assert opening == ""
    return yaml.safe_load(yaml_text)


def test_header_is_what_the_hub_reads():
    data = header(render_card(facts()))
    assert data["library_name"] == "sentence-transformers"
    assert data["pipeline_tag"] == "sentence-similarity"
    assert data["similarity_fn_name"] == "dot"
    assert data["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert data["license"] == "apache-2.0"
    assert "sentence-transformers" in data["tags"]
    results = data["model-index"][0]["results"][0]
    assert {row["type"]: row["value"] for row in results["metrics"]}["ndcg@10"] == 0.391


def test_the_hub_library_takes_the_card():
    hub = pytest.importorskip("huggingface_hub")
    parsed = hub.ModelCard(render_card(facts()))
    assert parsed.data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert {row.metric_type for row in parsed.data.eval_results} >= {"ndcg@10", "p@1"}


@pytest.mark.parametrize("path", ["/home/me/model", "./model", "../model", "a/b/c", "C:\\model", ""])
def test_a_path_is_no_base_model_of_the_header(path):
    assert "base_model" not in header(render_card(facts(base_model=path)))


@pytest.mark.parametrize("similarity", list(Similarity))
def test_contract_of_each_similarity(similarity):
    card = render_card(facts(similarity=similarity.value))
    assert header(card)["similarity_fn_name"] == similarity.ranking.value
    assert f"**Score with `{similarity.value}`**" in card
    assert ("**Do not normalize.**" in card) is not similarity.normalizes_candidate
    assert ("It has no name for" in card) is (similarity.ranking is not similarity)
    assert "IndexFlatIP" in card
    assert ("faiss.normalize_L2(candidates)" in card) is similarity.normalizes_candidate
    assert ("Distance.DOT" in card) is not similarity.normalizes_candidate
    assert ("<#>" in card) is not similarity.normalizes_candidate
    for server in ("text-embeddings-inference", "vLLM", "Ollama", "infinity"):
        assert server in card


@pytest.mark.parametrize("similarity", list(Similarity))
def test_code_in_the_card_is_code(similarity):
    blocks = re.findall(r"```python\n(.*?)```", render_card(facts(similarity=similarity.value)), flags=re.S)
    assert len(blocks) == 4
    for block in blocks:
        compile(block, "card", "exec")


@pytest.mark.parametrize("similarity", list(Similarity))
def test_faiss_recipe_ranks_as_the_contract_says(similarity):
    pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    queries = draw.normal(size=(5, 8)).astype(np.float32)
    candidates = (draw.normal(size=(40, 8)) * draw.lognormal(0, 1, size=(40, 1))).astype(np.float32)
    unit = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    expected = np.argsort(-(queries @ (unit if similarity.normalizes_candidate else candidates).T), axis=1)[:, :10]
    scope = {"queries": queries, "candidates": candidates.copy()}
    exec(faiss_recipe(similarity), scope)  # the recipe is what people paste
    np.testing.assert_array_equal(scope["rows"], expected)


def test_pgvector_orders_by_the_operator_and_turns_the_sign():
    card = render_card(facts())
    assert "-(embedding <#> :query) AS score" in card
    assert re.search(r"ORDER BY embedding <#> :query\s", card)
    assert "vector_ip_ops" in card
    assert "vector(384)" in card


def test_decision_intervals_and_saved_run_are_in_words():
    card = render_card(facts())
    assert "**Decision** (run `dot_full`, `dot`, on dev): the paired interval excludes 0" in card
    assert "dot\\_full (saved)" in card
    assert "0.391 [0.375, 0.407]" in card
    assert "(98.33%)" in card


def test_a_card_without_measurements_says_so():
    card = render_card(CardFacts(name="x", similarity="dot"))
    assert "model-index" not in card
    assert "The distribution of the norms was not measured." in card
    assert "Not measured." in card
    assert "Temperature at the end of training: not measured" in card
    assert "vector(D)" in card


def headings(card: str) -> list[str]:
    return [line for line in card.splitlines() if line.startswith("## ")]


@given(st.text(max_size=40).filter(lambda t: t.strip()))
@example("x\n---\n# y")
@example("``` \n## break")
@example('"quoted": yes # not a comment')
@example("<script>alert(1)</script>")
@example("a | b \\ [l](u)")
@example("a" + chr(0xD800))
@example("a\u2028b\ufeff")
def test_no_text_breaks_out_of_its_place(word):
    run = RunResult(name=word, similarity=word, metrics=metric_table(0.4), dev={"ndcg@10": interval(0.4)}, seeds=(0,))
    hostile = CardFacts(
        name=word, similarity="dot", load_from=word, base_model=word, license=word, languages=(word,), tags=(word,), query_prompt=word,
        data=word,
        data_notes=(word,), runs=(run,), decision=Decision(run=word, similarity=word, reason=word, split=word), norm_freedom=word,
        limits=(word,), versions={word: word},
    )  # fmt: skip
    card = render_card(hostile)
    card.encode("utf-8")
    data = header(card)
    assert data["library_name"] == "sentence-transformers"
    assert data["model-index"][0]["name"] == clean(word)
    assert headings(card) == headings(render_card(facts()))
    body = card.split("---\n", 2)[2]
    assert body.count("```") == 10
    assert not re.search(r"(?<!\\)<script", re.sub(r"```.*?```|`[^`]*`", "", body, flags=re.S))


def test_bad_facts_are_refused():
    with pytest.raises(InputError, match="similarity 'dott' is unknown: did you mean dot"):
        render_card(CardFacts(name="x", similarity="dott"))
    with pytest.raises(InputError, match="name of the model card is empty"):
        render_card(CardFacts(name="  ", similarity="dot"))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_norm_summary_is_numpys(norms):
    summary = summarize_norms(norms)
    assert summary is not None
    assert summary.count == len(norms)
    assert summary.mean == pytest.approx(np.mean(norms), rel=1e-9, abs=1e-12)
    assert summary.cv * summary.mean == pytest.approx(np.std(norms), rel=1e-6, abs=1e-6)
    for level, value in summary.quantiles.items():
        assert value == pytest.approx(np.quantile(norms, level), rel=1e-9, abs=1e-9)


def test_norms_that_are_not_finite_are_left_out():
    assert summarize_norms([]) is None
    assert summarize_norms([float("nan")]) is None
    summary = summarize_norms([1.0, float("inf"), 1.0])
    assert summary is not None
    assert (summary.count, summary.cv) == (2, 0.0)
