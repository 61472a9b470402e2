from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize

from normwise import Encoder
from normwise.core.config import ModelConfig
from normwise.core.errors import InputError, WorkError
from normwise.core.similarity import Similarity
from normwise.models.arrays import ArrayWriter
from normwise.models.contract import describe_encoder
from normwise.models.loading import load_base
from normwise.models.probe import probe_vectors
from normwise.models.saving import save_encoder
from normwise.models.seal import check_unchanged

TEXTS = ["short", "a text of some more words", "", "def f(x):\n    return x", "short"]


@pytest.fixture(scope="module")
def encoder(make_small):
    return Encoder(make_small(query_prompt="query: ", candidate_prompt="text: "), similarity="query_normalized")


@pytest.fixture(scope="module")
def saved_folder(make_small, tmp_path_factory):
    st, out = make_small(query_prompt="query: "), tmp_path_factory.mktemp("saved") / "model"
    save_encoder(st, out, contract=describe_encoder(st, similarity=Similarity.QUERY_NORMALIZED), card_text="# Card\n")
    return out


@pytest.fixture
def folder(saved_folder, tmp_path):
    copy = Path(shutil.copytree(saved_folder, tmp_path / "model"))
    yield copy
    shutil.rmtree(copy)  # a copy for each test is much to keep


def test_vectors_are_raw_float32_in_order_with_prompts(encoder):
    queries = encoder.encode_queries(TEXTS, batch_size=2)
    assert queries.shape == (5, 384)
    assert queries.dtype == np.float32
    expected = encoder.model.encode([f"query: {text}" for text in TEXTS])
    np.testing.assert_allclose(queries, expected, atol=1e-5)
    candidates = encoder.encode_candidates(TEXTS)
    np.testing.assert_allclose(candidates, encoder.model.encode([f"text: {text}" for text in TEXTS]), atol=1e-5)
    assert not np.allclose(queries, candidates, atol=1e-2)
    np.testing.assert_allclose(queries[0], queries[4], atol=1e-6)
    assert np.linalg.norm(candidates, axis=1).std() > 0.05


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode_queries([]).shape == (0, 384)
    assert encoder.encode_candidates(()).dtype == np.float32


@pytest.mark.parametrize(("bad", "shown"), [(None, "None"), (float("nan"), "nan"), (3, "3"), (b"x", "b'x'"), (["x"], r"\['x'\]")])
def test_what_is_no_text_is_named_by_its_index(encoder, bad, shown):
    with pytest.raises(InputError, match=rf"contents\[2\] must be a text \(str\) or a picture \(pathlib.Path, PIL image\), got {shown}"):
        encoder.encode_queries(["a", "b", bad])


def test_other_bad_calls(encoder):
    with pytest.raises(InputError, match=r"contents\[1\] has a lone surrogate"):
        encoder.encode_candidates(["a", "b\ud800"])
    with pytest.raises(InputError, match="got one str: put it into a list"):
        encoder.encode_candidates("a text")
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        encoder.encode_candidates(["a"], batch_size=0)


def test_a_vector_that_is_not_finite_is_an_error_with_its_index(make_small):
    own = Encoder(make_small(), similarity="dot")
    token = own.model.tokenizer("zebra")["input_ids"][1]
    with torch.no_grad():
        own.model[0].model.embeddings.word_embeddings.weight[token] = float("nan")
    with pytest.raises(WorkError, match=r"the vector of contents\[1\] is not finite \(1 in all\)"):
        own.encode_candidates(["horse", "zebra", "cow"])


@pytest.mark.parametrize("similarity", list(Similarity))
def test_scores_follow_the_similarity(make_small, similarity):
    own = Encoder(make_small(), similarity=similarity)
    generator = np.random.default_rng(0)
    queries, candidates = generator.normal(size=(3, 384)) * 3, generator.normal(size=(5, 384))
    candidates[2] = 0
    scores = own.score(queries, candidates)
    for i in range(3):
        for j in range(5):
            expected = queries[i] @ candidates[j]
            if similarity.normalizes_query:
                expected /= np.linalg.norm(queries[i])
            if similarity.normalizes_candidate and j != 2:
                expected /= np.linalg.norm(candidates[j])
            assert scores[i, j] == pytest.approx(expected)


def test_loading_what_was_saved_keeps_contract_and_vectors(folder, make_small, recwarn):
    own = Encoder.load(folder)
    assert not recwarn.list
    assert own.similarity is Similarity.QUERY_NORMALIZED
    assert own.contract.query_prompt == "query: "
    expected = Encoder(make_small(query_prompt="query: "), similarity="dot").encode_queries(TEXTS)
    np.testing.assert_array_equal(own.encode_queries(TEXTS), expected)
    assert "similarity=query_normalized" in repr(own)
    assert "raw norms kept" in repr(own)


def change_weights(folder, change):
    file = folder / "model.safetensors"
    weights = load_file(str(file))
    change(weights)
    save_file(weights, str(file), metadata={"format": "pt"})


def change_json(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def make_old(folder, **values):
    """Turn a saved folder into one of the format before the hashes of settings and contract."""
    contract = json.loads((folder / "normwise.json").read_text())
    for key in ("files_sha256", "contract_sha256"):
        del contract[key]
    (folder / "normwise.json").write_text(json.dumps({**contract, **values}))


def opened_as_base(folder):
    return load_base(ModelConfig(name=str(folder)), device="cpu")


@pytest.mark.parametrize("open_folder", [Encoder.load, opened_as_base])
def test_changed_weights_are_refused_even_where_no_probe_text_sees_them(folder, open_folder):
    # Row 30521 of the vocabulary is in none of the probe texts.
    change_weights(folder, lambda weights: weights["embeddings.word_embeddings.weight"][30521].mul_(-100))
    with pytest.raises(InputError, match=r"weight files .* are others\. restore .* save the model anew .* or remove normwise\.json"):
        open_folder(folder)
    make_old(folder)
    with pytest.raises(InputError, match="weight files .* are others"):
        open_folder(folder)
    (folder / "normwise.json").unlink()
    open_folder(folder)


@pytest.mark.parametrize("open_folder", [Encoder.load, opened_as_base])
@pytest.mark.parametrize(
    "values",
    [
        {"similarity": "dot"},
        {"temperature": 99.0},
        {"dimensions": 7},
        {"probe_tolerance": 1e9},
        {"pooling": "cls"},
        {"candidate_prompt": "other: "},
        {"files_sha256": {}},
    ],
)
def test_a_changed_contract_is_refused(folder, values, open_folder):
    change_json(folder, "normwise.json", **values)
    with pytest.raises(InputError, match=r"normwise\.json was changed after it was saved: restore"):
        open_folder(folder)


def test_a_contract_that_is_only_laid_out_anew_is_the_same(folder):
    contract = json.loads((folder / "normwise.json").read_text())
    (folder / "normwise.json").write_text(json.dumps(dict(reversed(contract.items()))))
    assert Encoder.load(folder).similarity is Similarity.QUERY_NORMALIZED


@pytest.mark.parametrize("open_folder", [Encoder.load, opened_as_base])
@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "cls"}),
        ("config_sentence_transformers.json", {"similarity_fn_name": "cosine"}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
        ("config_sentence_transformers.json", {"prompts": {"query": "other: ", "document": ""}}),
        ("config.json", {"layer_norm_eps": 1e-3}),
        ("tokenizer_config.json", {"do_lower_case": False}),
    ],
)
def test_changed_settings_are_refused_by_the_name_of_their_file(folder, file, values, open_folder):
    change_json(folder, file, **values)
    with pytest.raises(InputError, match=f"this is not the model that was saved: {file} was changed"):
        open_folder(folder)


def add_normalize(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "2_Normalize").mkdir()


def test_files_that_come_and_go(folder):
    (folder / "README.md").write_text("# Another card\n")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    (folder / "LICENSE").write_text("free\n")
    Encoder.load(folder)
    (folder / "README.md").unlink()
    Encoder.load(folder)
    (folder / "added_tokens.json").write_text("{}")
    with pytest.raises(InputError, match=r"saved: added_tokens\.json was added\. restore"):
        Encoder.load(folder)
    (folder / "added_tokens.json").unlink()
    kept = (folder / "tokenizer_config.json").read_text()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer_config\.json is missing"):
        Encoder.load(folder)
    (folder / "tokenizer_config.json").write_text(kept)
    Encoder.load(folder)
    add_normalize(folder)
    with pytest.raises(InputError, match=r"modules\.json was changed; a Normalize module was put at its end"):
        Encoder.load(folder)


def test_an_old_folder_loads_and_is_checked_by_what_it_has(folder):
    make_old(folder)
    own = Encoder.load(folder)
    assert own.contract.contract_sha256 == ""
    own.save(folder.parent / "new")
    assert len(Encoder.load(folder.parent / "new").contract.contract_sha256) == 64
    for values, words in (
        ({"dimensions": 7}, "its vectors have 384 dimensions, normwise.json says 7"),
        ({"similarity": "cosine"}, "normwise.json says cosine, which does not rank like dot"),
        ({"similarity": "cosine", "plain_similarity": "cosine"}, "its similarity, prompts or token limit are"),
        ({"probe_tolerance": 1e9}, "probe_tolerance: Input should be less than or equal to 0.01"),
    ):
        kept = (folder / "normwise.json").read_text()
        change_json(folder, "normwise.json", **values)
        with pytest.raises(InputError, match=words):
            Encoder.load(folder)
        (folder / "normwise.json").write_text(kept)
    change_json(folder, "1_Pooling/config.json", pooling_mode="cls")
    with pytest.raises(WorkError, match=r"not the model that was saved: it answers .*norms by up to .*it was saved with normwise "):
        Encoder.load(folder)
    change_json(folder, "1_Pooling/config.json", pooling_mode="mean")
    add_normalize(folder)
    with pytest.raises(InputError, match="a Normalize module was put at its end"):
        Encoder.load(folder)


@pytest.mark.parametrize("open_folder", [Encoder.load, opened_as_base])
def test_other_rounding_is_the_same_model_and_other_answers_are_not(folder, monkeypatch, open_folder):
    def answer(factor):
        monkeypatch.setattr("normwise.models.seal.probe_vectors", lambda st: probe_vectors(st) * factor)
        open_folder(folder)

    answer(1 + 1e-5)
    with pytest.raises(WorkError, match="it answers the probe texts with vectors that differ"):
        answer(1.01)


def test_a_hub_copy_may_lack_files_that_nobody_asked_for(folder, monkeypatch):
    st = Encoder.load(folder).model
    (folder / "tokenizer_config.json").unlink()
    monkeypatch.setattr("normwise.models.seal.load_file_path", lambda target, file, revision: str(folder / file))
    assert check_unchanged("owner/name", "owner/name", st, revision=None, normalized=False) is not None
    change_json(folder, "1_Pooling/config.json", pooling_mode="cls")
    with pytest.raises(InputError, match=r"^owner/name: .* 1_Pooling/config\.json was changed\. restore"):
        check_unchanged("owner/name", "owner/name", st, revision=None, normalized=False)


def test_missing_and_damaged_side_files(folder):
    (folder / "probe.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match=r"probe\.safetensors was changed"):
        Encoder.load(folder)
    make_old(folder)
    with pytest.raises(InputError, match="holds no probe vectors"):
        Encoder.load(folder)
    (folder / "probe.safetensors").unlink()
    with pytest.raises(InputError, match="probe.safetensors is missing"):
        Encoder.load(folder)
    (folder / "normwise.json").write_text('{"format": 9}')
    with pytest.raises(InputError, match="not a contract that this version of normwise reads: similarity: Field required"):
        Encoder.load(folder)
    # Without a contract it is a model like any other.
    (folder / "normwise.json").unlink()
    assert Encoder.load(folder).similarity is Similarity.DOT


def test_a_model_that_normalizes_is_read_before_it_does_with_a_warning():
    with pytest.warns(UserWarning, match="norms are those before its Normalize module"):
        own = Encoder.load("all-MiniLM-L6-v2", device="cpu")
    assert own.similarity is Similarity.COSINE
    assert own.contract.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    norms = np.linalg.norm(own.encode_candidates(TEXTS), axis=1)
    assert norms.min() > 2


def test_dot_behind_a_normalize_module_is_cosine(make_small, tmp_path):
    st = make_small()
    st.append(Normalize())
    st.similarity_fn_name = "dot"
    st.save(str(tmp_path / "foreign"), create_model_card=False)
    with pytest.warns(UserWarning, match="Normalize"):
        own = Encoder.load(tmp_path / "foreign")
    assert own.similarity is Similarity.COSINE
    plain = SentenceTransformer(str(tmp_path / "foreign"), device="cpu")
    vectors = own.encode_candidates(TEXTS)
    np.testing.assert_allclose(own.score(vectors, vectors), plain.similarity(*[plain.encode(TEXTS)] * 2), atol=1e-5)


def test_a_bare_transformer_warns_that_its_pooling_was_chosen(decoder_folder):
    with pytest.warns(UserWarning, match="pooling was chosen for it"):
        own = Encoder.load(decoder_folder, device="cpu")
    assert own.contract.pooling == "mean"


def test_a_similarity_of_another_kind_must_be_chosen(make_small):
    st = make_small()
    st.similarity_fn_name = "euclidean"
    with pytest.raises(InputError, match="scores by euclidean, which is none of"):
        Encoder(st)
    assert Encoder(st, similarity="dot").similarity is Similarity.DOT


def test_a_similarity_against_the_contract_is_refused(make_small):
    st = make_small()
    contract = describe_encoder(st, similarity=Similarity.DOT)
    with pytest.raises(InputError, match="contradicts the model's contract, which says dot"):
        Encoder(st, similarity="cosine", contract=contract)
    with pytest.raises(InputError, match="the contract says 7 dimensions, but the model has 384"):
        Encoder(st, contract=contract.model_copy(update={"dimensions": 7}))


def test_saving_a_loaded_foreign_model_keeps_raw_norms(make_small, tmp_path):
    st = make_small()
    st.append(Normalize())
    own = Encoder(st, name="somebody/their-model")
    own.save(tmp_path / "out")
    again = Encoder.load(tmp_path / "out")
    np.testing.assert_array_equal(again.encode_candidates(TEXTS), own.encode_candidates(TEXTS))
    assert "# their-model" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(InputError, match="exists already"):
        own.save(tmp_path / "out")


def test_a_stream_goes_to_a_file_in_pieces(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.models.encoder._CHUNKS", 2)
    texts = [f"text number {index} " * (index % 5 + 1) for index in range(11)]
    whole = encoder.encode_candidates(texts)
    mapped = encoder.encode_to_memmap(iter(texts), tmp_path / "deep" / "vectors.npy", batch_size=2)
    assert isinstance(mapped, np.memmap)
    np.testing.assert_allclose(mapped, whole, atol=1e-5)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["vectors.npy"]
    np.testing.assert_allclose(encoder.encode_to_memmap(texts, tmp_path / "q.npy", role="query"), encoder.encode_queries(texts), atol=1e-5)


def test_a_stream_that_breaks_leaves_the_old_file_and_counts_from_its_start(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.models.encoder._CHUNKS", 1)
    np.save(tmp_path / "vectors.npy", np.ones(3))
    with pytest.raises(InputError, match=r"contents\[5\] must be a text \(str\) or a picture \(pathlib.Path, PIL image\), got None"):
        encoder.encode_to_memmap(["a", "b", "c", "d", "e", None], tmp_path / "vectors.npy", batch_size=2)
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), np.ones(3))
    with pytest.raises(InputError, match="got one str"):
        encoder.encode_to_memmap("text", tmp_path / "vectors.npy")


def test_an_empty_stream_is_an_array_of_no_rows(tmp_path):
    with ArrayWriter(tmp_path / "none.npy", width=7):
        pass
    assert np.load(tmp_path / "none.npy").shape == (0, 7)


def test_a_disk_that_refuses(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkError, match="could not write"), ArrayWriter(tmp_path / "file" / "none.npy", width=7):
        pass


def test_the_hub_gets_the_side_files_through_the_library(encoder, monkeypatch):
    seen = {}

    def push(self, repo_id, **kwargs):
        seen.update(kwargs, repo=repo_id, files={path.name for path in Path(kwargs["local_model_path"]).iterdir()})
        return "https://example.org/commit"

    monkeypatch.setattr(SentenceTransformer, "push_to_hub", push)
    assert encoder.push_to_hub("owner/name", private=True) == "https://example.org/commit"
    assert seen["repo"] == "owner/name"
    assert seen["private"] is True
    assert {"normwise.json", "probe.safetensors", "modules.json", "README.md"} <= seen["files"]
