"""Every row of the "works with" tables is exercised: rows and families of the tests agree, and cells say what the tiny models do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tiny_families import FAMILIES
from tiny_picture_families import ALL_FAMILIES, DUAL, PICTURE_FAMILIES, save_picture_family

from normwise.core.config import LoraConfig, StageConfig
from normwise.models.freedom import norm_freedom
from normwise.models.inputs import reads
from normwise.models.loading import load_plain
from normwise.models.lora import lora_targets
from normwise.models.probe import probe_pictures
from normwise.models.towers import parts_of_model
from normwise.models.trainable import set_trainable

ROOT = Path(__file__).parents[2]
# Rows of the table of texts: families of tests/models/tiny_families.py, or the tests that run the real weights.
TEXT_ROWS = {
    "MiniLM": ["test_encoder.py", "test_packaged_models.py"],
    "Llama, causal": ["test_packaged_models.py"],
    "ALBERT": ["albert"],
    "DistilBERT": ["distilbert", "distilbert-cls"],
    "E5": ["e5"],
    "GTE, BERT": ["gte-bert"],
    "GTE, new": ["gte-new"],
    "GTE, ModernBERT": ["gte-modernbert"],
    "jina-embeddings-v3": ["jina-v3"],
    "jina-embeddings-v3, its own code": ["test_own_code.py"],
    "Qwen3-Embedding": ["qwen3"],
}
PICTURE_ROWS = {
    "CLIP": "clip",
    "MetaCLIP": "metaclip",
    "MetaCLIP 2": "metaclip-2",
    "SigLIP": "siglip",
    "SigLIP 2": "siglip-2",
    "dual encoder: any text encoder + EfficientNet, ViT or DINOv2": DUAL,
    "Qwen2-VL": "qwen2-vl",
    "Qwen2.5-VL": "qwen2.5-vl",
    "Qwen3-VL": "qwen3-vl",
    "Qwen3.5": "qwen3.5",
}
# Text towers of models that the table of pictures has.
TOWERS_ALONE = {"clip", "metaclip"}
EXERCISES = ("test_picture_families.py", "test_picture_family_training.py", "test_towers.py")


def tables():
    """The two tables, each as rows of a column's name -> cell."""
    section = (ROOT / "docs/guide/models.md").read_text(encoding="utf-8").split("## Works with")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


TEXT_TABLE, PICTURE_TABLE = tables()
BY_FAMILY = {PICTURE_ROWS.get(row["family"]): row for row in PICTURE_TABLE}


def test_every_row_of_texts_has_a_test_and_every_family_a_row():
    assert {row["family"] for row in TEXT_TABLE} == set(TEXT_ROWS)
    named = {name for names in TEXT_ROWS.values() for name in names}
    files = {name for name in named if name.endswith(".py")}
    assert named - files == set(FAMILIES) - TOWERS_ALONE
    assert all((ROOT / "tests/models" / name).is_file() for name in files)


def test_every_row_of_pictures_has_a_family_and_every_family_a_row():
    assert [row["family"] for row in PICTURE_TABLE] == list(PICTURE_ROWS)
    assert set(PICTURE_ROWS.values()) == set(ALL_FAMILIES)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_tests_of_families_run_all_of_them(name):
    text = (ROOT / "tests/models" / name).read_text(encoding="utf-8")
    assert re.search(r'parametrize\("name", ALL_FAMILIES\)', text)


def test_backbones_of_the_dual_encoder_are_those_that_tests_build():
    text = (ROOT / "tests/models/test_dual_encoder.py").read_text(encoding="utf-8")
    for kind in ("efficientnet", "vit", "dinov2"):
        assert f'"{kind}"' in text
        assert kind in BY_FAMILY[DUAL]["family"].lower()


@pytest.fixture(scope="module")
def open_family(tmp_path_factory):
    def open_it(name):
        return load_plain(str(save_picture_family(name, tmp_path_factory.mktemp(name))), device="cpu").model

    return open_it


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_cells_say_what_the_model_does(open_family, name):
    row, st = BY_FAMILY[name], open_family(name)
    together = reads(st) == "together"
    assert together == (name in PICTURE_FAMILIES and PICTURE_FAMILIES[name].together)
    assert row["reads"] == ("text, picture, both in one pass" if together else "text, picture")
    assert row["text + picture"] == ("one pass" if together else "sum of two vectors")
    targets = {target.rpartition(".")[2] for target in lora_targets(st, LoraConfig())}
    assert set(re.findall(r"`(\w+)`", row["LoRA targets"])) == targets
    freedom = [norm_freedom(st).words, norm_freedom(st, texts=list(probe_pictures())).words]
    assert row["norm of texts, of pictures"] == ", ".join(re.split(r"[:\s]", words)[0] for words in freedom)
    assert "random weights" in row["tested with"]


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_what_is_frozen_by_default_gets_no_gradient(open_family, name):
    st = open_family(name)
    parts = parts_of_model(st)
    trained = {parts[key] for key in set_trainable(st, StageConfig.model_validate({"name": "a", "temperature": 1}))}
    frozen = [words for part, words in (("vision", "vision tower"), ("projector", "projector")) if part in set(parts.values()) - trained]
    assert BY_FAMILY[name]["frozen by default"] == ", ".join(frozen)
    assert "text" in trained
