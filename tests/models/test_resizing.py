"""Pictures resized where they are decoded give features that are equal to the last bit, for every family; others are left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_picture_families import ALL_FAMILIES, DUAL, save_picture_family, save_vision, tiny_text

from normwise.models.dual_encoder import build_dual_encoder
from normwise.models.loading import load_plain
from normwise.models.resizing import resizer

SIZES = [(512, 512), (33, 500), (501, 32), (31, 32), (32, 32), (20, 7), (640, 359), (1, 3)]
RESIZED_FIRST = {"clip", "metaclip", "metaclip-2", "siglip", DUAL}


def pictures():
    generator = np.random.default_rng(0)
    return [Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)) for width, height in SIZES]


def assert_equal_features(st):
    resized = resizer(st)
    assert resized is not None
    for shown in pictures():
        whole, ready = (st.preprocess([{"image": image}]) for image in (shown, resized(shown)))
        assert torch.equal(whole["pixel_values"], ready["pixel_values"]), shown.size


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_features_are_equal_to_the_last_bit(tmp_path, name):
    st = load_plain(str(save_picture_family(name, tmp_path)), device="cpu").model
    if name in RESIZED_FIRST:
        assert_equal_features(st)
    else:
        assert resizer(st) is None


@pytest.mark.parametrize("kind", ["efficientnet", "vit", "dinov2"])
@pytest.mark.parametrize("image_size", [None, 32])
def test_every_backbone_of_a_dual_encoder(tmp_path, kind, image_size):
    st = build_dual_encoder(tiny_text(tmp_path / "text"), save_vision(kind, tmp_path / kind), dimensions=8, image_size=image_size)
    assert_equal_features(st)


def test_what_resizes_in_another_way_is_left_alone(tmp_path):
    st = load_plain(str(save_picture_family("clip", tmp_path)), device="cpu").model
    processor = st[0].processor.image_processor
    st[0].processing_kwargs = {"image": {"size": {"shortest_edge": 16}}}
    assert resizer(st) is None
    st[0].processing_kwargs = {}
    processor.size = {"longest_edge": 64, "shortest_edge": 32}
    assert resizer(st) is None
    processor.size = {"shortest_edge": 32}
    assert resizer(st) is not None
    processor.do_resize = False
    assert resizer(st) is None
    assert resizer(tiny_text(tmp_path / "words")) is None
