"""One stage on a real, small encoder: what moves, what resumes, what fails loudly."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback

from normwise.core.config import StageConfig
from normwise.core.errors import InputError, WorkError
from normwise.models.lora import merge_lora
from normwise.training.observers import CheckpointMark
from normwise.training.stage import StageRun, _save_interval, train_stage
from normwise.training.trackers import check_trackers
from normwise.training.trainer import StageTrainer, complete_checkpoints, load_checkpoint

pytestmark = pytest.mark.slow

STAGES = {
    "full": {"trainable": "full", "learning_rate": 1e-3},
    "lora": {"trainable": "lora", "lora": {"rank": 4}, "learning_rate": 1e-2},
    "learnable": {"similarity": "dot", "trainable": "full", "temperature": {"mode": "learnable", "value": 2.0}, "learning_rate": 1e-3},
}


def stage(name="s", **settings):
    return StageConfig.model_validate({"name": name, "temperature": 0.05, "batch_size": 6, "steps": 6, **settings})


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def run_of(pairs, plan, **settings):
    return StageRun(pairs=pairs, plan=plan, seed=1, **settings)


def test_observers_change_no_weight(base_folder, pairs, plan, tmp_path):
    results, trained, said = [], [], []
    for every in (1, None):
        model = SentenceTransformer(str(base_folder), local_files_only=True)
        run = run_of(pairs, plan, observe_every=every, say=said.append if every else None)
        results.append(train_stage(model, stage(hard_negatives=2, accumulation=2, steps=3), run, tmp_path / str(every)))
        trained.append(weights(model))
    assert same(*trained)
    assert not same(trained[0], weights(SentenceTransformer(str(base_folder), local_files_only=True)))
    row = results[0].curve[-1]
    for key in (
        "loss",
        "residual",
        "norm_mean",
        "anisotropy",
        "norm_cv",
        "norm_length",
        "entanglement",
        "gradient_norm",
        "learning_rate",
        "temperature",
    ):
        assert row.get(key) is not None, key
    assert len(results[0].curve) == 3
    assert [line.partition(" (")[0] for line in said] == ["stage 's': step 1 of 3", "stage 's': step 2 of 3"]
    assert f"loss {results[0].curve[0]['loss']:.3f}, " in said[1]


class Kill(TrainerCallback):
    """Ends the process's work in the middle of a stage, as a kill would."""

    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", sorted(STAGES))
def test_a_killed_stage_resumes_bit_equal(kind, base_folder, pairs, plan, tmp_path, monkeypatch):
    settings = stage(checkpoint_every=2, hard_negatives=1, **STAGES[kind])
    run = run_of(pairs, plan)
    straight = SentenceTransformer(str(base_folder), local_files_only=True)
    expected = train_stage(straight, settings, run, tmp_path / "straight")

    original = StageTrainer.__init__

    def with_kill(self, **kwargs):
        original(self, **{**kwargs, "callbacks": [*kwargs["callbacks"], Kill(5)]})

    with monkeypatch.context() as patch:
        patch.setattr(StageTrainer, "__init__", with_kill)
        with pytest.raises(KeyboardInterrupt):
            train_stage(SentenceTransformer(str(base_folder), local_files_only=True), settings, run, tmp_path / "killed")
    assert list(complete_checkpoints(tmp_path / "killed")) == [2, 4]
    # As if the kill had come while the last checkpoint was written.
    (tmp_path / "killed" / "checkpoint-4" / "complete").unlink()
    (tmp_path / "killed" / "checkpoint-4" / "resume.safetensors").write_bytes(b"half")

    resumed = SentenceTransformer(str(base_folder), local_files_only=True)
    result = train_stage(resumed, settings, run, tmp_path / "killed")
    assert same(weights(straight), weights(resumed))
    assert result.temperature == expected.temperature
    assert [row["step"] for row in result.curve] == [row["step"] for row in expected.curve]
    np.testing.assert_array_equal([row["loss"] for row in result.curve], [row["loss"] for row in expected.curve])


def test_learnable_temperature_moves_and_leaves_the_model(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    result = train_stage(model, stage(**STAGES["learnable"]), run_of(pairs, plan), tmp_path / "c")
    assert result.temperature != pytest.approx(2.0, abs=1e-6)
    assert [name for name, _ in model.named_parameters() if "temperature" in name] == []


def test_a_tensor_that_no_gradient_reaches_is_named(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    idle = "0.model.embeddings.token_type_embeddings.weight"
    model.get_parameter(idle).register_hook(torch.zeros_like)
    with pytest.raises(WorkError, match="1 trainable tensors have not moved after step 3: .*token_type_embeddings.* no gradient reaches"):
        train_stage(model, stage(), run_of(pairs, plan), tmp_path / "c")


def test_a_tensor_that_the_optimizer_leaves_out_is_named(base_folder, pairs, plan, tmp_path, monkeypatch):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    left_out = model.get_parameter("0.model.embeddings.LayerNorm.weight")
    original = StageTrainer.get_optimizer_cls_and_kwargs

    def forgetful(self, args, model=None):
        kind, options = original(self, args, model)
        for group in options["optimizer_dict"]:
            group["params"] = [parameter for parameter in group["params"] if parameter is not left_out]
        return kind, options

    monkeypatch.setattr(StageTrainer, "get_optimizer_cls_and_kwargs", forgetful)
    with pytest.raises(WorkError, match="leaves 1 trainable tensors out: .*LayerNorm.weight"):
        train_stage(model, stage(), run_of(pairs, plan), tmp_path / "c")


def test_warm_up_steps_below_the_rounding_of_weights_are_no_error(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    result = train_stage(model, stage(learning_rate=2e-8, warmup_ratio=0.5, steps=4), run_of(pairs, plan), tmp_path / "c")
    assert len(result.curve) == 4


def test_half_precision_ends_with_the_stage(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    train_stage(model, stage(steps=2, **STAGES["lora"]), run_of(pairs, plan, precision="bf16"), tmp_path / "c")
    gate = merge_lora(model, ["one text", "another"], tolerance=1e-5)
    assert gate.passed


@pytest.mark.parametrize(
    ("steps", "asked", "keep", "expected"),
    [
        (76, None, (), 50),
        (40, None, (), None),
        (7847, None, (), 500),
        (400, None, (), 100),
        (7847, None, (2000,), 500),
        (6, 2, (), 2),
        (6, None, (4,), 2),
    ],
)
def test_checkpoints_are_spaced_by_the_length_of_the_stage(steps, asked, keep, expected):
    assert _save_interval(stage(steps=steps, checkpoint_every=asked), keep) == expected


def test_an_infinite_loss_is_caught_before_the_weights_move(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    with pytest.raises(WorkError, match=r"(not finite at step|stopped at step \d+ \(learning rate|diverged)"):
        train_stage(model, stage(similarity="dot", temperature=1e-3, learning_rate=1e6, steps=30), run_of(pairs, plan), tmp_path / "c")


def test_weights_that_diverge_in_the_last_step_are_caught(base_folder, pairs, plan, tmp_path):
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    settings = stage(learning_rate=1e30, steps=2, warmup_ratio=0.0, scheduler="constant_with_warmup", checkpoint_every=1)
    with pytest.raises(WorkError, match="learning"):
        train_stage(model, settings, run_of(pairs, plan), tmp_path / "c")
    for folder in complete_checkpoints(tmp_path / "c").values():
        fresh = SentenceTransformer(str(base_folder), local_files_only=True)
        load_checkpoint(fresh, folder)
        assert all(bool(torch.isfinite(p).all()) for p in fresh.parameters())


def test_a_full_disk_costs_the_checkpoint_not_the_training(base_folder, pairs, plan, tmp_path, monkeypatch, caplog):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("normwise.training.trainer.save_model", full)
    model = SentenceTransformer(str(base_folder), local_files_only=True)
    result = train_stage(model, stage(checkpoint_every=2), run_of(pairs, plan), tmp_path / "c")
    assert len(result.curve) == 6
    assert complete_checkpoints(tmp_path / "c") == {}
    assert "No space left" in caplog.text


def test_tensorboard_gets_the_norms_and_outlives_the_stage(base_folder, pairs, plan, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = run_of(pairs, plan, report_to=("tensorboard",), logs=tmp_path / "logs")
    result = train_stage(SentenceTransformer(str(base_folder), local_files_only=True), stage(steps=3), run, tmp_path / "c")
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    seen = [scalar.value for scalar in events.Scalars("train/norm_mean")]
    np.testing.assert_allclose(seen, [row["norm_mean"] for row in result.curve], rtol=1e-6)


def test_trackers_are_checked_by_name():
    with pytest.raises(InputError, match="'tensorbord' is unknown: did you mean tensorboard"):
        check_trackers(("tensorbord",))
    with pytest.raises(InputError, match="'comet_ml' is not installed; run: pip install comet_ml"):
        check_trackers(("comet_ml",))
    check_trackers(("tensorboard",))


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_only_finite_checkpoints_are_marked(tmp_path, value):
    folder = tmp_path / "checkpoint-4"
    folder.mkdir()
    (folder / "trainer_state.json").write_text("{}")
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        model.bias.fill_(value)
    arguments, state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=4, is_world_process_zero=True)
    CheckpointMark().on_save(arguments, state, None, model=model)
    assert list(complete_checkpoints(tmp_path)) == ([4] if value == 0.0 else [])
