"""Both stages of PACE on every family: adapters on its language side, a merge that holds for pictures too, then the whole of it."""

import numpy as np
import pytest
import torch
from tiny_picture_families import ALL_FAMILIES, save_picture_family

from normwise.core.config import ModelConfig, PaceConfig, StageConfig
from normwise.data.batches import choose_plan
from normwise.data.contents import Interleaved
from normwise.data.sets import Corpus, TrainingPairs
from normwise.models.encoding import encode_contents
from normwise.models.loading import load_base
from normwise.models.lora import merge_lora
from normwise.models.probe import probe_pictures
from normwise.models.towers import parts_of_model
from normwise.training.stage import StageRun, train_stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pairs():
    shown = probe_pictures()
    queries = ("red", shown[0], Interleaved((shown[1], "in blue")), "a dog", shown[2], "cat", shown[3], "x y z")
    corpus = Corpus(
        tuple("abcdefgh"), (shown[4], "a caption", shown[5], shown[0], "another", "words", Interleaved((shown[2], "sea")), "end")
    )
    return TrainingPairs(queries, np.arange(8), ((1, 2),) + ((),) * 7, corpus, np.arange(8))


@pytest.mark.parametrize("name", ALL_FAMILIES)
def test_both_stages_train_what_they_name_and_nothing_else(name, pairs, tmp_path):
    st = load_base(ModelConfig(name=str(save_picture_family(name, tmp_path / "model"))), device="cpu")
    parts = parts_of_model(st)
    start = {key: value.detach().clone() for key, value in st.named_parameters()}
    run = StageRun(
        pairs=pairs, plan=lambda stage, batches, seed: choose_plan(pairs, batch_size=4, steps=batches, seed=seed).batches, seed=0
    )
    common = {
        "temperature": 0.1,
        "steps": 3,
        "batch_size": 4,
        "learning_rate": 1e-2,
        "hard_negatives": 1,
        "focal": {"gamma": 2.0, "temperature": 0.1},
    }
    train_stage(st, StageConfig.model_validate({"name": "one", "trainable": "lora", "lora": {"rank": 2}, **common}), run, tmp_path / "one")
    before = encode_contents(st, [*pairs.queries])
    gate = merge_lora(st)
    assert gate.passed
    assert "texts and pictures" in gate.words
    np.testing.assert_allclose(encode_contents(st, [*pairs.queries]), before, atol=1e-3)
    train_stage(st, StageConfig.model_validate({"name": "two", "similarity": "dot", **common, "temperature": 1.0}), run, tmp_path / "two")
    moved = {key for key, value in st.named_parameters() if not torch.equal(value, start[key])}
    assert moved
    assert {parts[key] for key in moved} <= {"text", "head"}
    assert "text" in {parts[key] for key in moved}


def test_the_published_arms_fit_a_family_of_their_kind(tmp_path):
    st = load_base(ModelConfig(name=str(save_picture_family("qwen3.5", tmp_path / "model")), chat_template="own"), device="cpu")
    config = PaceConfig.read({"data": {"name": "x"}, "arms": {"pace": "pace", "baseline": "vlm2vec"}})
    from normwise.models.trainable import check_stage

    for stages in config.arms.values():
        for stage in stages:
            check_stage(st, stage)
