"""A text encoder and a vision model as one model of two towers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dense
from tiny_picture_families import PICTURE_FAMILIES, save_picture_family, save_vision, tiny_text
from torch import nn

from normwise.core.errors import InputError
from normwise.models.dual_encoder import build_dual_encoder
from normwise.models.efficientnet import packaged_efficientnet
from normwise.models.freedom import norm_freedom
from normwise.models.probe import probe_pictures
from normwise.models.structure import foreign_modules

TEXTS = ["a cat", "two dogs in a house", "rivers"]


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = save_vision(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return folder


@pytest.fixture
def text(tmp_path):
    return tiny_text(tmp_path / "text")


def pictures(count=3):
    generator = np.random.default_rng(0)
    return [Image.fromarray(generator.integers(0, 256, (40, 50 + number, 3), dtype=np.uint8)) for number in range(count)]


def encode(st, kind):
    return st.encode([{"text": text} for text in TEXTS] if kind == "text" else [{"image": picture} for picture in pictures()])


@pytest.mark.parametrize("kind", ["efficientnet", "vit", "dinov2"])
def test_vectors_are_the_heads_of_the_towers_means(text, vision, kind):
    plain = text.encode(TEXTS)
    st = build_dual_encoder(text, vision(kind), dimensions=16, seed=4)
    route = st[0].sub_modules["image"]
    pixels = route[0].processor(images=pictures(), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        states = route[0].model(pixel_values=pixels).last_hidden_state
    # (n, places, width), or a feature map (n, width, height, width).
    means = states.mean(1) if states.ndim == 3 else states.mean((2, 3))
    W, V = (st[0].sub_modules[name][2].linear.weight.detach() for name in ("text", "image"))
    np.testing.assert_allclose(encode(st, "text"), plain @ W.numpy().T, atol=1e-5)
    np.testing.assert_allclose(encode(st, "image"), (means @ V.T).numpy(), atol=1e-5)
    torch.testing.assert_close(W @ W.T, torch.eye(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(V @ V.T, torch.eye(16), atol=1e-5, rtol=0)
    assert st.get_embedding_dimension() == 16


@pytest.mark.parametrize("kind", ["efficientnet", "vit", "dinov2"])
def test_plain_sentence_transformers_loads_it(text, vision, tmp_path, kind):
    st = build_dual_encoder(text, vision(kind), dimensions=16)
    st.save(str(tmp_path / "saved"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    for inputs in ("text", "image"):
        np.testing.assert_allclose(encode(again, inputs), encode(st, inputs), atol=1e-6)
    assert again.similarity_fn_name == st.similarity_fn_name == "cosine"
    assert not foreign_modules(again)
    assert set(again.modalities) == {"text", "image"}
    heads = [route[len(route) - 1] for route in again[0].sub_modules.values()]
    assert all(isinstance(head, Dense) and isinstance(head.activation_function, nn.Identity) for head in heads)


def test_the_packaged_backbone_at_two_sizes(text, tmp_path):
    folder = packaged_efficientnet(folder_cache=tmp_path)
    st = build_dual_encoder(text, folder, dimensions=24)
    assert st[0].sub_modules["image"][2].in_features == 1280
    assert st.preprocess([{"image": pictures()[0]}])["pixel_values"].shape[-2:] == (96, 96)
    larger = build_dual_encoder(text, folder, dimensions=24, image_size=128)
    assert larger.preprocess([{"image": pictures()[0]}])["pixel_values"].shape[-2:] == (128, 128)
    larger.save(str(tmp_path / "saved"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    np.testing.assert_allclose(encode(again, "image"), encode(larger, "image"), atol=1e-5)
    assert np.abs(encode(st, "image") - encode(larger, "image")).max() > 1e-3


def test_other_image_processors_are_resized_too(text, vision):
    st = build_dual_encoder(text, vision("dinov2"), dimensions=8, image_size=48)
    assert st.preprocess([{"image": pictures()[0]}])["pixel_values"].shape[-2:] == (48, 48)


def test_a_final_normalize_goes_and_prompts_stay(text, vision):
    expected = text.encode(TEXTS)
    text.append(Normalize())
    text.prompts["query"] = "find: "
    st = build_dual_encoder(text, vision("vit"), dimensions=32)
    norms = np.linalg.norm(encode(st, "text"), axis=1)
    # A square head is a rotation: the raw norms are those before the Normalize module.
    np.testing.assert_allclose(norms, np.linalg.norm(expected, axis=1), rtol=1e-5)
    assert st.prompts["query"] == "find: "
    prompted = st.encode([{"text": "a cat"}], prompt_name="query")
    np.testing.assert_allclose(prompted, st.encode([{"text": "find: a cat"}]), atol=1e-6)


def test_a_task_does_not_change_the_route(text, vision):
    st = build_dual_encoder(text, vision("vit"), dimensions=8)
    np.testing.assert_array_equal(st.encode_query([{"text": "a"}]), st.encode_document([{"text": "a"}]))
    picture = {"image": pictures()[0]}
    np.testing.assert_array_equal(st.encode_query([picture]), st.encode_document([picture]))


def test_seeds_decide_the_heads_and_nothing_else_does(text, vision):
    def heads(seed):
        st = build_dual_encoder(copy.deepcopy(text), vision("vit"), dimensions=8, seed=seed)
        return [route[len(route) - 1].linear.weight.detach() for route in st[0].sub_modules.values()]

    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    first = heads(1)
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(one, other) for one, other in zip(first, heads(1), strict=True))
    assert not any(torch.equal(one, other) for one, other in zip(first, heads(2), strict=True))


class TestTextsThatLookLikePictures:
    """The library opens a bare str that names a picture; in a dict it is what it is: a text."""

    def test_a_path(self, text, vision, tmp_path):
        file = tmp_path / "cat.png"
        pictures()[0].save(file)
        st = build_dual_encoder(text, vision("vit"), dimensions=8)
        as_picture = st.encode([{"image": pictures()[0]}])
        np.testing.assert_allclose(st.encode([str(file)]), as_picture, atol=1e-6)
        as_text = st.encode([{"text": str(file)}])
        assert np.abs(as_text - as_picture).max() > 0.1
        head = st[0].sub_modules["text"][2].linear.weight.detach().numpy()
        np.testing.assert_allclose(as_text, text.encode([str(file)]) @ head.T, atol=1e-5)

    @pytest.mark.parametrize("words", ["http://localhost:1/cat.png", "data:image/png;base64,AAAA"])
    def test_an_address(self, text, vision, words):
        st = build_dual_encoder(text, vision("vit"), dimensions=8)
        with pytest.raises(Exception, match="refused|localhost|connect|base64|image"):
            st.encode([words])
        assert np.isfinite(st.encode([{"text": words}])).all()


class TestRefused:
    def test_dimensions_and_sizes(self, text, vision):
        with pytest.raises(InputError, match="dimensions must be at least 1, got 0"):
            build_dual_encoder(text, vision("vit"), dimensions=0)
        with pytest.raises(InputError, match="image_size must be at least 1 pixel, got 0"):
            build_dual_encoder(text, vision("vit"), dimensions=4, image_size=0)

    def test_a_text_model_as_vision_and_a_folder_that_is_not_there(self, text, tmp_path):
        with pytest.raises(InputError, match=r"reads text and gives token_embeddings: choose a vision backbone"):
            build_dual_encoder(text, tmp_path / "text", dimensions=4)
        with pytest.raises(InputError, match=r"vision model '.*nothing' is no folder here: give the folder of a vision model"):
            build_dual_encoder(text, tmp_path / "nothing", dimensions=4)

    def test_a_model_of_two_towers_on_either_side(self, text, vision, tmp_path):
        folder = save_picture_family("clip", tmp_path)
        assert "clip" in PICTURE_FAMILIES
        with pytest.raises(InputError, match="reads text, image and gives sentence_embedding: choose a vision backbone"):
            build_dual_encoder(text, folder, dimensions=4)
        clip = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        with pytest.raises(InputError, match="the text encoder reads text, image: choose one that reads texts only"):
            build_dual_encoder(clip, vision("vit"), dimensions=4)

    def test_modules_of_somebodys_own(self, text, vision):
        class Doubled(nn.Module):
            def forward(self, features):
                return features

        text.append(Doubled())
        with pytest.raises(InputError, match=r"modules of its own \(Doubled\)"):
            build_dual_encoder(text, vision("vit"), dimensions=4)

    def test_weights_that_are_missing(self, text, vision, tmp_path):
        from safetensors.torch import load_file, save_file

        for path in vision("vit").iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        tensors = load_file(tmp_path / "model.safetensors")
        removed = next(name for name in tensors if name.endswith("q_proj.weight") or "query.weight" in name)
        save_file({name: value for name, value in tensors.items() if name != removed}, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(InputError, match="its weights do not fit its configuration: 1 missing"):
            build_dual_encoder(text, tmp_path, dimensions=4)


def test_text_and_picture_in_one_is_no_modality_of_it(text, vision):
    st = build_dual_encoder(text, vision("vit"), dimensions=8)
    assert isinstance(st[0], Router)
    with pytest.raises(ValueError, match="cannot combine them in a single input"):
        st.encode([{"text": "a cat", "image": pictures()[0]}])


def test_the_norm_of_each_tower_is_judged_by_its_own_ending(tmp_path):
    # A full-rank head behind the last LayerNorm of a ViT keeps its hyperplane; one to fewer dimensions, and a network of
    # convolutions, leave the norm free.
    text = tiny_text(tmp_path / "text")
    width = 64  # above that of both towers
    vit = build_dual_encoder(text, save_vision("vit", tmp_path / "vit"), dimensions=width)
    norm = vit[0].sub_modules["image"][0].model.layernorm
    with torch.no_grad():
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.normal_()
    bound = norm_freedom(vit, texts=probe_pictures())
    assert bound.words.startswith("plane-bound")
    assert bound.figures["closed_form_error"] < 1e-3
    fewer = build_dual_encoder(tiny_text(tmp_path / "again"), tmp_path / "vit", dimensions=8)
    with torch.no_grad():
        fewer[0].sub_modules["image"][0].model.layernorm.load_state_dict(norm.state_dict())
    assert "a Dense that breaks the tie" in norm_freedom(fewer, texts=probe_pictures()).words
    net = build_dual_encoder(tiny_text(tmp_path / "third"), save_vision("efficientnet", tmp_path / "net"), dimensions=width)
    assert "not the output of a norm layer" in norm_freedom(net, texts=probe_pictures()).words
