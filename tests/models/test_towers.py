"""Which parameter belongs to which tower, in every family that reads texts and pictures."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from PIL import Image
from sentence_transformers import SentenceTransformer
from tiny_picture_families import ALL_FAMILIES, DUAL, PICTURE_FAMILIES, save_picture_family, tiny_text
from torch import nn

from normwise.models.dual_encoder import build_dual_encoder
from normwise.models.efficientnet import packaged_efficientnet
from normwise.models.loading import load_plain
from normwise.models.padding import pad_as_trained
from normwise.models.towers import frozen_gates, parts_of_model, rest_frozen_towers, tower_linear_names, tower_transformer

TOGETHER = [name for name, family in PICTURE_FAMILIES.items() if family.together]
TEXTS = [{"text": "a cat"}, {"text": "two dogs"}]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(name):
        if name not in made:
            made[name] = save_picture_family(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.fixture
def open_family(folders):
    def open_it(name):
        st = load_plain(str(folders(name)), device="cpu").model
        pad_as_trained(st)
        return st

    return open_it


@pytest.fixture
def packaged(tmp_path):
    return build_dual_encoder(tiny_text(tmp_path / "text"), packaged_efficientnet(folder_cache=tmp_path), dimensions=8)


def pictures(count=2):
    generator = np.random.default_rng(0)
    return [{"image": Image.fromarray(generator.integers(0, 256, (48, 64, 3), dtype=np.uint8))} for _ in range(count)]


def moved_by(st, inputs):
    """The parameters that a loss on these inputs reaches, by one backward pass: the definition of a tower."""
    st.zero_grad()
    st(st.preprocess(inputs))["sentence_embedding"].square().sum().backward()
    return {name for name, parameter in st.named_parameters() if parameter.grad is not None and bool(parameter.grad.any())}


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_parts_are_what_gradients_say(open_family, name):
    st = open_family(name).eval().requires_grad_(True)
    parts = parts_of_model(st)
    assert set(parts) == {key for key, _ in st.named_parameters()}
    by_text, by_picture = moved_by(st, TEXTS), moved_by(st, pictures())

    def those(*wanted):
        return {key for key, part in parts.items() if part in wanted}

    # No text reaches the picture side; a picture reaches all of it, and the language model only where both are read together.
    assert not by_text & those("vision", "projector", "unused")
    assert those("projector") <= by_picture
    assert not (by_text | by_picture) & those("unused")
    reached = by_picture & those("vision")
    assert reached
    if name in TOGETHER:
        assert by_picture & those("text")
    else:
        assert not by_picture & those("text")
    assert by_text & those("text")


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_names_of_each_family(open_family, name):
    parts = parts_of_model(open_family(name))
    projectors = {key.removeprefix("0.model.") for key, part in parts.items() if part == "projector"}
    heads = {key for key, part in parts.items() if part == "head"}
    unused = {key.removeprefix("0.model.") for key, part in parts.items() if part == "unused"}
    if name == DUAL:
        assert heads == {"0.sub_modules.text.2.linear.weight", "0.sub_modules.image.2.linear.weight"}
        assert not projectors
        return
    assert not heads
    if "siglip" in name:
        assert unused == {"logit_scale", "logit_bias"}
        assert not projectors
        assert parts["0.model.vision_model.head.probe"] == "vision"
        assert parts["0.model.text_model.head.weight"] == "text"
    elif "clip" in name:
        assert unused == {"logit_scale"}
        assert projectors == {"visual_projection.weight"}
        assert parts["0.model.text_projection.weight"] == "text"
    else:
        assert not unused
        assert all(key.startswith(("visual.merger.", "visual.deepstack_merger_list.")) for key in projectors)
        assert len(projectors) == {"qwen2-vl": 6, "qwen2.5-vl": 5, "qwen3-vl": 12, "qwen3.5": 6}[name]
        assert {key.split(".")[2] for key, part in parts.items() if part == "text"} == {"language_model"}


def test_a_model_of_texts_alone_has_text_and_head(tmp_path):
    st = tiny_text(tmp_path)
    assert set(parts_of_model(st).values()) == {"text"}
    st.append(build_dual_encoder(tiny_text(tmp_path / "other"), packaged_efficientnet(), dimensions=4)[0].sub_modules["text"][2])
    assert parts_of_model(st)["2.linear.weight"] == "head"
    assert tower_transformer(st, "text") is st[0]
    assert tower_transformer(st, "vision") is None
    assert tower_linear_names(st, "vision") == []


@pytest.mark.parametrize("tower", ["text", "vision"])
@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_adapters_on_a_tower_all_get_a_gradient(open_family, name, tower):
    st = open_family(name)
    names = tower_linear_names(st, tower)
    module = tower_transformer(st, tower)
    assert names
    module.model = get_peft_model(module.model, LoraConfig(r=2, target_modules=names, init_lora_weights=False))
    parts = parts_of_model(st)
    adapters = {key for key in parts if ".lora_" in key}
    assert {parts[key] for key in adapters} == {tower}
    assert len(adapters) == 2 * len(names)
    # Larger than the tiny pictures that merge into one token, so that no attention is over a single place.
    assert adapters <= moved_by(st.eval(), TEXTS if tower == "text" else pictures())
    if tower == "text" and name in TOGETHER:
        assert adapters <= moved_by(st, pictures())


def test_the_packaged_backbone_has_no_linear_map(packaged):
    assert tower_linear_names(packaged, "vision") == []
    assert tower_transformer(packaged, "vision") is packaged[0].sub_modules["image"][0]
    assert tower_transformer(packaged, "text") is packaged[0].sub_modules["text"][0]


class TestFrozenGates:
    def test_they_are_found_where_no_gradient_moves_them(self, packaged):
        gates = frozen_gates(packaged)
        assert len(gates) == 16 * 4
        packaged.eval().requires_grad_(True)
        moved = moved_by(packaged, pictures())
        vision = {name for name, part in parts_of_model(packaged).items() if part == "vision"}
        assert vision - moved == set(gates)

    def test_gates_of_their_own_are_not(self, packaged):
        gates = frozen_gates(packaged)
        block = packaged[0].sub_modules["image"][0].model.encoder.blocks[2].squeeze_excite
        nn.init.normal_(block.expand.weight)
        assert len(frozen_gates(packaged)) == len(gates) - 4

    def test_other_models_have_none(self, open_family):
        assert frozen_gates(open_family("clip")) == ()


def freeze(st, *kept):
    for name, part in parts_of_model(st).items():
        st.get_parameter(name).requires_grad_(part in kept)


class TestResting:
    def test_a_frozen_tower_keeps_its_statistics_and_answers_the_same(self, packaged):
        freeze(packaged, "text", "head")
        before = copy.deepcopy({name: value for name, value in packaged.named_buffers() if "running" in name})
        packaged.train()
        rested = rest_frozen_towers(packaged)
        assert rested == ("0.sub_modules.image.0",)
        features = packaged.preprocess(pictures())
        first = packaged(dict(features))["sentence_embedding"]
        packaged(packaged.preprocess(pictures(5)))
        after = dict(packaged.named_buffers())
        assert all(torch.equal(value, after[name]) for name, value in before.items())
        assert len(before) > 60
        torch.testing.assert_close(packaged(dict(features))["sentence_embedding"], first)
        # What trains is awake, its dropout too.
        assert packaged[0].sub_modules["text"][0].model.embeddings.dropout.training

    def test_left_awake_its_statistics_would_move(self, packaged):
        freeze(packaged, "text", "head")
        before = {name: value.clone() for name, value in packaged.named_buffers() if "running_mean" in name}
        packaged.train()
        packaged(packaged.preprocess(pictures()))
        after = dict(packaged.named_buffers())
        assert not any(torch.equal(value, after[name]) for name, value in before.items())

    def test_only_heads_in_training_lets_both_towers_rest(self, packaged):
        freeze(packaged, "head")
        packaged.train()
        assert rest_frozen_towers(packaged) == ("0.sub_modules.text.0", "0.sub_modules.image.0")
        assert packaged[0].sub_modules["image"][2].training

    @pytest.mark.parametrize("name", TOGETHER)
    def test_vision_tower_and_projector_of_language_models(self, open_family, name):
        st = open_family(name)
        freeze(st, "text")
        st.train()
        assert rest_frozen_towers(st) == ("0.model.visual",)
        assert st[0].model.language_model.training
        freeze(st, "text", "projector")
        st.train()
        rested = rest_frozen_towers(st)
        assert "0.model.visual.blocks" in rested
        assert st[0].model.visual.merger.training
        freeze(st, "text", "projector", "vision")
        assert rest_frozen_towers(st.train()) == ()

    def test_adapters_on_the_text_tower_keep_it_awake(self, open_family):
        st = open_family("clip")
        freeze(st)
        module = tower_transformer(st, "text")
        module.model = get_peft_model(module.model, LoraConfig(r=2, target_modules=tower_linear_names(st, "text")))
        st.train()
        rested = rest_frozen_towers(st)
        assert rested
        assert all("vision" in name or "visual_projection" in name for name in rested)
        assert st[0].model.base_model.model.text_model.training

    def test_a_model_of_texts_alone_is_left_as_it_is(self, tmp_path):
        st: SentenceTransformer = tiny_text(tmp_path)
        st.requires_grad_(False).train()
        assert rest_frozen_towers(st) == ()
        assert all(module.training for module in st.modules())
