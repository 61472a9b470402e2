"""The fingerprint: one for one encoder wherever it lies, another after any change that moves a vector."""

import copy

import pytest
import torch

from normwise.models.encoder import Encoder
from normwise.models.fingerprint import model_fingerprint
from normwise.models.loading import load_plain
from normwise.models.towers import tower_transformer


@pytest.fixture(scope="module")
def small(make_small):
    return make_small()


@pytest.fixture
def encoder(small):
    return Encoder(copy.deepcopy(small), name="here")


@pytest.fixture(scope="module")
def known(small):
    return model_fingerprint(Encoder(copy.deepcopy(small)))


def test_names_use_and_similarity_do_not_count(encoder, known):
    assert len(known) == 64
    encoder.encode_queries(["a text", "a longer text than that"])
    assert model_fingerprint(encoder) == known
    assert model_fingerprint(Encoder(encoder.model, similarity="dot", name="elsewhere")) == known


def test_saving_and_loading_keep_it(encoder, known, tmp_path):
    encoder.save(tmp_path / "model")
    assert model_fingerprint(Encoder.load(tmp_path / "model")) == known
    (tmp_path / "moved").mkdir()
    (tmp_path / "model").rename(tmp_path / "moved" / "other")
    assert model_fingerprint(Encoder.load(tmp_path / "moved" / "other")) == known


def change_weight(encoder):
    with torch.no_grad():
        next(encoder.model.parameters())[3, 5] += 1e-6


def swap_rows(encoder):
    with torch.no_grad():
        rows = next(encoder.model.parameters())
        rows[[100, 101]] = rows[[101, 100]]


def cut_texts(encoder):
    encoder.model.max_seq_length = 17


def prompt_queries(encoder):
    encoder.model.prompts["query"] = "ask: "


def prompt_by_default(encoder):
    encoder.model.prompts.pop("query", None)
    encoder.model.prompts["other"] = "ask: "
    encoder.model.default_prompt_name = "other"


def pool_otherwise(encoder):
    encoder.model[1].pooling_mode = "cls"


def add_a_token(encoder):
    encoder.model.tokenizer.add_tokens(["quizzaciously"])


def fewer_heads(encoder):
    encoder.model[0].model.config.num_attention_heads = 6


@pytest.mark.parametrize(
    "change", [change_weight, swap_rows, cut_texts, prompt_queries, prompt_by_default, pool_otherwise, add_a_token, fewer_heads]
)
def test_what_moves_a_vector_changes_it(encoder, known, change):
    change(encoder)
    assert model_fingerprint(encoder) != known


def test_a_prompt_that_is_empty_is_none(encoder, known):
    encoder.model.prompts.clear()
    assert model_fingerprint(encoder) == known


def test_two_decoders_that_differ_in_pooling_alone_differ(make_decoder):
    one, other = (model_fingerprint(Encoder(make_decoder(pooling), similarity="dot")) for pooling in ("lasttoken", "mean"))
    assert one != other
    assert one == model_fingerprint(Encoder(make_decoder("lasttoken"), similarity="cosine"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip", "siglip", "qwen2-vl", "dual"])
def test_how_pictures_are_read_is_part_of_it(tmp_path, name):
    from tiny_picture_families import ALL_FAMILIES, DUAL, save_picture_family

    family = DUAL if name == "dual" else next(known for known in ALL_FAMILIES if known == name)
    folder = str(save_picture_family(family, tmp_path))
    encoder = Encoder(load_plain(folder, device="cpu").model)
    before = model_fingerprint(encoder)
    assert model_fingerprint(Encoder(load_plain(folder, device="cpu").model)) == before
    vision = tower_transformer(encoder.model, "vision") or encoder.model[0]
    processor = getattr(vision.processor, "image_processor", vision.processor)
    processor.image_mean = [0.1, 0.1, 0.1]
    assert model_fingerprint(encoder) != before
