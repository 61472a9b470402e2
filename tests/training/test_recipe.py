"""Stages one after the other: what is shared, what is kept, what the switch measures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from normwise.core.config import PaceConfig, StageConfig
from normwise.core.errors import WorkError
from normwise.models.loading import load_base
from normwise.models.saving import save_plain
from normwise.training import recipe as recipe_module
from normwise.training.recipe import Recipe, confidence_temperature
from normwise.training.trainer import complete_checkpoints

pytestmark = pytest.mark.slow

ANGULAR = {
    "name": "angular",
    "trainable": "lora",
    "lora": {"rank": 4},
    "temperature": 0.1,
    "steps": 4,
    "batch_size": 6,
    "learning_rate": 5e-3,
}
RADIAL = {"name": "radial", "similarity": "dot", "temperature": "match", "steps": 3, "batch_size": 6, "learning_rate": 1e-3}


def config_of(base_folder, arms, **settings):
    return PaceConfig.read({"data": {"name": "toy"}, "model": {"name": str(base_folder)}, "arms": arms, **settings})


def embed(model, texts, prompt):
    return model.encode(list(texts), prompt=prompt, normalize_embeddings=False, show_progress_bar=False)


def recipe_of(config, pairs, plan, work, lines=None):
    return Recipe(
        config=config,
        encoder=lambda: load_base(config.model),
        pairs=pairs,
        plan=plan,
        seed=0,
        work=work,
        data_fingerprint="toy",
        embed=embed,
        dev_cosine=lambda model: (embed(model, pairs.queries[:8], None) ** 2).sum(axis=1),
        log=(lines if lines is not None else []).append,
    )


def product_of(node):
    """Mean query norm times mean candidate norm at the switch, as the gate saw them."""
    figures = next(gate for gate in node.result.gates if gate.name == "logits_matched").figures
    return figures["query_norm_mean"] * figures["candidate_norm_mean"]


@pytest.fixture
def counted(monkeypatch):
    """The names of the stages that were really trained."""
    names = []
    original = recipe_module.train_stage

    def counting(model, stage, *args, **kwargs):
        names.append(stage.name)
        return original(model, stage, *args, **kwargs)

    monkeypatch.setattr(recipe_module, "train_stage", counting)
    return names


def test_arms_share_their_first_stage_and_a_second_call_trains_nothing(base_folder, pairs, plan, tmp_path, counted):
    arms = {"pace": [ANGULAR, RADIAL], "focal": [ANGULAR, {**RADIAL, "name": "radial-focal", "focal": {}}]}
    config = config_of(base_folder, arms)
    recipe = recipe_of(config, pairs, plan, tmp_path)
    first, second = recipe.arm(config.arms["pace"]), recipe.arm(config.arms["focal"])
    assert counted == ["angular", "radial", "radial-focal"]
    assert first[0].key == second[0].key
    assert first[1].key != second[1].key
    again = recipe_of(config, pairs, plan, tmp_path)
    assert [node.key for node in again.arm(config.arms["pace"])] == [node.key for node in first]
    assert counted == ["angular", "radial", "radial-focal"]

    gates = {gate.name: gate for gate in first[1].result.gates}
    assert {"norm_freedom", "logits_matched", "angular_quality"} <= set(gates)
    # The rule matches mean norms; candidates of unequal norm widen the logits a little all the same.
    assert 0.8 < gates["logits_matched"].figures["ratio"] < 1.5
    merge = next(gate for gate in first[0].result.gates if gate.name == "merge")
    assert merge.passed
    assert merge.figures["adapter_effect"] > 10 * merge.figures["largest_difference"]
    product = gates["logits_matched"].figures["query_norm_mean"] * gates["logits_matched"].figures["candidate_norm_mean"]
    assert first[1].result.temperature == pytest.approx(0.1 * product, rel=1e-6)


def test_a_kill_between_the_stages_costs_only_the_second(base_folder, pairs, plan, tmp_path, counted, monkeypatch):
    config = config_of(base_folder, {"pace": [ANGULAR, RADIAL]})
    straight = recipe_of(config, pairs, plan, tmp_path / "straight").arm(config.arms["pace"])
    counted.clear()

    recipe = recipe_of(config, pairs, plan, tmp_path / "killed")
    with monkeypatch.context() as patch:
        patch.setattr(recipe_module, "logit_gate", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            recipe.arm(config.arms["pace"])
    assert counted == ["angular"]
    resumed = recipe_of(config, pairs, plan, tmp_path / "killed").arm(config.arms["pace"])
    assert counted == ["angular", "radial"]
    vectors = [embed(SentenceTransformer(str(nodes[-1].model)), pairs.queries, None) for nodes in (straight, resumed)]
    np.testing.assert_array_equal(*vectors)


def test_the_stage_can_start_from_an_earlier_checkpoint(base_folder, pairs, plan, tmp_path):
    config = config_of(base_folder, {"early": [ANGULAR, {**RADIAL, "start_step": 2}]})
    nodes = recipe_of(config, pairs, plan, tmp_path).arm(config.arms["early"])
    start = json.loads((nodes[0].folder / "start-2.json").read_text())["temperature"]
    assert start == 0.1
    assert nodes[1].result.temperature == pytest.approx(start * product_of(nodes[1]), rel=1e-6)
    early = embed(SentenceTransformer(str(nodes[0].folder / "model-2")), pairs.queries, None)
    gate = next(gate for gate in nodes[1].result.gates if gate.name == "angular_quality")
    assert gate.figures["after"] == pytest.approx(float((early[:8] ** 2).sum(axis=1).mean()), rel=1e-5)
    late = embed(SentenceTransformer(str(nodes[0].model)), pairs.queries, None)
    base = embed(SentenceTransformer(str(base_folder)), pairs.queries, None)
    assert np.abs(early - base).max() > 1e-3
    assert np.abs(early - late).max() > 1e-3
    assert not (nodes[0].folder / "checkpoints" / "checkpoint-4").exists()


def test_a_merge_that_does_not_match_stops_the_run_and_leaves_no_model(base_folder, pairs, plan, tmp_path, monkeypatch):
    from normwise.training import recipe

    def broken(model, texts, *, tolerance):
        raise WorkError("the merged model does not answer as the model with adapters did")

    monkeypatch.setattr(recipe, "merge_lora", broken)
    config = config_of(base_folder, {"pace": [ANGULAR, RADIAL]})
    with pytest.raises(WorkError, match="does not answer"):
        recipe_of(config, pairs, plan, tmp_path).arm(config.arms["pace"])
    assert [path.parent.name.split("-")[0] for path in tmp_path.rglob("modules.json")] == ["model"]
    assert list(tmp_path.glob("seed0-angular-*/stage.json")) == []


def test_a_failed_merge_can_be_resumed_from_its_checkpoint(base_folder, pairs, plan, tmp_path, counted, monkeypatch):
    config = config_of(base_folder, {"pace": [{**ANGULAR, "checkpoint_every": 2}]}, merge_tolerance=1e-30)
    with pytest.raises(WorkError, match="raise merge_tolerance"):
        recipe_of(config, pairs, plan, tmp_path).arm(config.arms["pace"])
    folder = next(tmp_path.glob("seed0-angular-*")) / "checkpoints"
    assert sorted(complete_checkpoints(folder)) == [2, 4]
    mended = config_of(base_folder, {"pace": [{**ANGULAR, "checkpoint_every": 2}]}, merge_tolerance=1e-4)
    nodes = recipe_of(mended, pairs, plan, tmp_path).arm(mended.arms["pace"])
    assert len(nodes[0].result.curve) == 4
    assert not folder.exists() or complete_checkpoints(folder) == {}


def test_focal_confidence_takes_the_temperature_of_its_own_arm():
    first = StageConfig(name="a", temperature=0.02)
    arm = (StageConfig(name="b", temperature=0.5), StageConfig(name="c", similarity="dot", temperature="match"))
    assert confidence_temperature((first,)) == 0.02
    assert confidence_temperature(arm) == 0.5
    assert confidence_temperature(arm[1:]) is None


def test_half_an_export_does_not_load(base_folder, tmp_path, monkeypatch):
    from sentence_transformers.sentence_transformer.modules import Pooling

    def killed(self, *args, **kwargs):
        raise KeyboardInterrupt

    model = SentenceTransformer(str(base_folder), local_files_only=True)
    monkeypatch.setattr(Pooling, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        save_plain(model, tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    with pytest.raises(ValueError, match="Expecting value"):
        SentenceTransformer(str(tmp_path), local_files_only=True)


def test_what_decides_the_weights_decides_the_key(base_folder, pairs, plan, tmp_path):
    config = config_of(base_folder, {"a": [ANGULAR]})
    keys = set()
    for change in ({}, {"steps": 5}, {"learning_rate": 1e-4}, {"temperature": 0.2}):
        changed = config_of(base_folder, {"a": [{**ANGULAR, **change}]})
        keys.add(recipe_of(changed, pairs, plan, tmp_path)._node(changed.arms["a"]).key)
    assert len(keys) == 4
    assert json.loads(config.model_dump_json())["arms"]["a"][0]["name"] == "angular"
