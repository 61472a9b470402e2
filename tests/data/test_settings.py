"""The data of a training config, read by name by every other verb."""

import io
import json

import pytest
from PIL import Image

from normwise.core.errors import InputError
from normwise.data.settings import data_settings
from normwise.workflows.data import check
from normwise.workflows.evaluate import evaluate


@pytest.fixture
def config(tmp_path):
    (tmp_path / "pics").mkdir()
    rows = []
    for number in range(12):
        buffer = io.BytesIO()
        Image.new("RGBA", (32, 32), (number * 20, 9, 9, 128)).save(buffer, format="PNG")
        (tmp_path / "pics" / f"{number}.png").write_bytes(buffer.getvalue())
        rows.append({"query": f"number {number}", "positive_image": f"{number}.png"})
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "run.toml"
    path.write_text(f'[data]\nname = "{tmp_path}/pairs/all.jsonl"\nimage_root = "{tmp_path}/pics"\nbackground = "black"\n')
    return path


def test_a_name_is_a_name_and_a_config_its_data(config):
    assert data_settings("python-docs", source="x", limit_queries=5).limit_queries == 5
    found = data_settings(config, source="x", limit_queries=3, limit_candidates=None)
    assert (found.background, found.limit_queries, found.limit_candidates) == ("black", 3, None)
    assert data_settings("absent.toml", source="x").name == "absent.toml"


def test_check_reads_the_pictures_where_training_did(config):
    with pytest.raises(InputError, match="positive_image"):
        check(str(config.parent / "pairs" / "all.jsonl"))
    assert check(str(config)).modalities["candidates"] == {"image": 12}


def test_a_config_without_data_and_a_wrong_setting_are_told(tmp_path):
    path = tmp_path / "bare.toml"
    path.write_text("seeds = [1]\n")
    with pytest.raises(InputError, match=r"bare.toml is a config without a \[data\] table"):
        data_settings(path, source="x")
    path.write_text('[data]\nname = "a"\nbackgrund = "white"\n')
    with pytest.raises(InputError, match=r"bare.toml, data: unknown key 'backgrund': did you mean background"):
        data_settings(path, source="x")


@pytest.mark.slow
def test_evaluation_shows_the_background_that_training_showed(config):
    from normwise.core.config import ModelConfig
    from normwise.models.encoder import Encoder
    from normwise.models.loading import load_base

    encoder = Encoder(load_base(ModelConfig(layers=1, max_tokens=8, vision={"dimensions": 16, "image_size": 64})), similarity="cosine")
    dark = evaluate(encoder, config)
    config.write_text(config.read_text().replace("black", "white"))
    light = evaluate(encoder, config)
    assert dark.queries == light.queries == 12
    assert dark.geometry != light.geometry
