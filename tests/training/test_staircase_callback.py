"""The staircase in a trainer: what is recorded, what is logged, and that training does not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerControl, TrainerState, TrainingArguments

from normwise.core.errors import InputError
from normwise.data.token_files import TokenReading, open_token_files
from normwise.engine.order_counting import CountedOrders, OrderCounting, count_orders
from normwise.engine.token_counting import Counting
from normwise.training.staircase_callback import StaircaseCallback, input_embedding

VOCABULARY, LENGTH = 40, 16


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    random = np.random.default_rng(0)
    chain = random.dirichlet(np.full(VOCABULARY, 0.1), size=VOCABULARY)
    found = np.zeros(4_000, dtype=np.uint16)
    for place in range(1, found.size):
        found[place] = random.choice(VOCABULARY, p=chain[found[place - 1]])
    return found


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, ids: np.ndarray) -> CountedOrders:
    path = tmp_path_factory.mktemp("corpus") / "ids.npy"
    np.save(path, ids)
    return count_orders(open_token_files(path, TokenReading(vocabulary=VOCABULARY)), OrderCounting(orders=(0,)), Counting(workers=1))


def small_model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


class Windows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __init__(self, ids: np.ndarray) -> None:
        self._rows = torch.as_tensor(ids[: ids.size // LENGTH * LENGTH].astype(np.int64)).reshape(-1, LENGTH)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._rows[place], "labels": self._rows[place]}


def train(folder: Path, ids: np.ndarray, callback: StaircaseCallback | None, *, joined: bool = True) -> tuple[GPT2LMHeadModel, Trainer]:
    model = small_model()
    args = TrainingArguments(
        output_dir=str(folder),
        max_steps=25,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Windows(ids))
    if callback is not None:
        _ = callback.join(trainer) if joined else trainer.add_callback(callback)
    trainer.train()
    return model, trainer


def test_a_trainer_records_early_steps_and_logs_them(tmp_path: Path, ids: np.ndarray, counted: CountedOrders) -> None:
    callback = StaircaseCallback(counted, every=10)
    model, trainer = train(tmp_path, ids, callback)
    found = callback.report()
    assert found.steps == (0, 1, 2, 4, 8, 10, 20, 25)
    table = input_embedding(model).detach().numpy()[counted.signatures.tokens]
    assert found.alignment["0"][-1] == pytest.approx(counted.signatures.at(table.astype(np.float64))[0].figure.value, abs=1e-6)
    logs = [entry for entry in trainer.state.log_history if "staircase/order_0" in entry]
    assert [entry["step"] for entry in logs] == [5, 10, 20, 25]
    assert logs[1]["staircase/order_0"] == found.alignment["0"][5]
    assert found.loss[-1] is not None
    without, _ = train(tmp_path, ids, None)
    for (name, one), other in zip(model.state_dict().items(), without.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_a_second_training_begins_anew(tmp_path: Path, ids: np.ndarray, counted: CountedOrders) -> None:
    callback = StaircaseCallback(counted, every=10)
    train(tmp_path, ids, callback)
    train(tmp_path, ids, callback, joined=False)
    assert callback.report().steps == (0, 1, 2, 4, 8, 10, 20, 25)


def state_at(step: int, *, main: bool = True) -> TrainerState:
    return TrainerState(global_step=step, is_world_process_zero=main)


def begin(callback: StaircaseCallback, model: Any, tmp_path: Path) -> tuple[TrainingArguments, TrainerControl]:
    args, control = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True), TrainerControl()
    callback.on_train_begin(args, state_at(0), control, model=model)
    return args, control


def test_a_table_that_cannot_be_read_is_passed_over(tmp_path: Path, counted: CountedOrders, caplog: pytest.LogCaptureFixture) -> None:
    model = small_model()
    callback = StaircaseCallback(counted, every=1)
    args, control = begin(callback, model, tmp_path)
    weight = input_embedding(model)
    for step in range(1, 5):
        with torch.no_grad():
            weight[int(counted.signatures.tokens[0]), 0] = float("nan") if step in (2, 3) else float(step)
        callback.on_step_end(args, state_at(step), control)
    found = callback.report()
    assert found.steps == (0, 1, 4)
    assert any("could not be read at 2 steps, such as 2, 3" in note for note in found.notes)
    assert sum("is left out of the staircase" in record.message for record in caplog.records) == 1


def test_other_processes_record_nothing(tmp_path: Path, counted: CountedOrders) -> None:
    callback = StaircaseCallback(counted)
    args, control = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True), TrainerControl()
    callback.on_train_begin(args, state_at(0, main=False), control, model=small_model())
    callback.on_step_end(args, state_at(1, main=False), control)
    callback.on_train_end(args, state_at(1, main=False), control)
    with pytest.raises(InputError, match="no step was recorded"):
        callback.report()


def test_another_vocabulary_is_refused_before_training(tmp_path: Path, counted: CountedOrders) -> None:
    callback = StaircaseCallback(counted, table=torch.zeros(41, 4))
    with pytest.raises(InputError, match=r"has shape \(41, 4\), and the signatures a vocabulary of 40: count with vocabulary=41"):
        begin(callback, small_model(), tmp_path)
    with pytest.raises(InputError, match="Linear has no input embedding that is found: give it as table="):
        begin(StaircaseCallback(counted), nn.Linear(2, 2), tmp_path)


def test_settings_are_checked(counted: CountedOrders) -> None:
    with pytest.raises(InputError, match="every is 0"):
        StaircaseCallback(counted, every=0)
    with pytest.raises(InputError, match="prefix is ' '"):
        StaircaseCallback(counted, prefix=" ")


def test_the_embedding_is_found_inside_what_wraps_a_model() -> None:
    inner = small_model()
    weight = inner.get_input_embeddings().weight

    class Wrapped(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    class Encoder(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.auto_model = model

    assert input_embedding(Wrapped(inner)) is weight
    assert input_embedding(nn.Sequential(Encoder(inner), nn.Identity())) is weight
    assert input_embedding(Wrapped(nn.Sequential(Encoder(inner)))) is weight


def test_an_embedding_that_is_replaced_is_followed(tmp_path: Path, counted: CountedOrders) -> None:
    model = small_model()
    callback = StaircaseCallback(counted, every=1)
    args, control = begin(callback, model, tmp_path)
    model.set_input_embeddings(nn.Embedding(VOCABULARY, 16))
    callback.on_step_end(args, state_at(1), control, model=model)
    with torch.no_grad():
        input_embedding(model).normal_()
    callback.on_step_end(args, state_at(2), control, model=model)
    figures = callback.report().alignment["0"]
    assert len(set(figures)) == 3
    model.set_input_embeddings(nn.Embedding(VOCABULARY + 1, 16))
    callback.on_step_end(args, state_at(3), control, model=model)
    assert callback.report().steps == (0, 1, 2)
