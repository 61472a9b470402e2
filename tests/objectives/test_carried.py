"""A learned temperature comes back with the optimizer's state, or the first step after the resume is refused."""

import copy
import io
import math

import pytest
import torch
from torch import nn

from normwise.core.config import TemperatureConfig
from normwise.core.errors import WorkError
from normwise.objectives.carried import NOTE
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.temperature import load_temperature_state, temperature_state

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    "foreach": lambda p: torch.optim.AdamW(p, lr=0.05, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.05, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)))

    def forward(self, features):
        return {"sentence_embedding": self.rows[features["rows"]]}


def batch(step):
    order = torch.randperm(4, generator=torch.Generator().manual_seed(step))
    return [{"rows": order}, {"rows": order + 4}]


class Run:
    """A loss, its model and an optimizer that takes steps of its own number."""

    def __init__(self, optimizer="adamw", **bounds):
        self.model = Table()
        self.loss = FocalEmbeddingLoss(self.model, temperature=TemperatureConfig(mode="learnable", value=0.3, **bounds))
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())

    def steps(self, *numbers):
        for number in numbers:
            self.optimizer.zero_grad()
            self.loss(batch(number)).backward()
            self.optimizer.step()
        return self

    def saved(self, *, note=True):
        state = copy.deepcopy({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})
        if not note:
            for entry in state["optimizer"]["state"].values():
                entry.pop(NOTE, None)
        file = io.BytesIO()
        torch.save(state, file)
        return file.getvalue()

    def resumed(self, checkpoint, *parts):
        state = torch.load(io.BytesIO(checkpoint), weights_only=True)
        for part in parts or ("model", "optimizer"):
            getattr(self, part).load_state_dict(state[part])
        return self

    @property
    def bias(self):
        return float(self.loss.temperature.parameter.detach())


def assert_same(one, other):
    assert one.bias == other.bias
    assert torch.equal(one.model.rows, other.model.rows)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("bounds", [{}, {"minimum": 0.29, "maximum": 0.31}])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(optimizer, bounds):
    full = Run(optimizer, **bounds).steps(1, 2, 3, 4)
    checkpoint = Run(optimizer, **bounds).steps(1, 2).saved()
    assert full.bias != pytest.approx(-math.log(0.3), abs=1e-6)
    assert_same(Run(optimizer, **bounds).resumed(checkpoint).steps(3, 4), full)


def test_carrying_changes_no_step(monkeypatch):
    run = Run().steps(1, 2, 3)
    assert [NOTE in run.optimizer.state[p] for p in (run.loss.temperature.parameter, run.model.rows)] == [True, False]
    monkeypatch.setattr("normwise.objectives.carried._carried_by", lambda optimizer: [])
    plain = Run().steps(1, 2, 3)
    assert NOTE not in plain.optimizer.state[plain.loss.temperature.parameter]
    assert_same(run, plain)


def test_the_same_loss_goes_back_to_an_earlier_checkpoint():
    run = Run().steps(1, 2)
    checkpoint = run.saved()
    run.steps(7, 8, 9).resumed(checkpoint).steps(3, 4)
    assert_same(run, Run().steps(1, 2, 3, 4))


def test_an_evaluation_before_the_first_step_sees_the_saved_temperature():
    run = Run().steps(1, 2)
    resumed = Run().resumed(run.saved())
    with torch.no_grad():
        assert float(resumed.loss(batch(1))) == float(run.loss(batch(1)))
    assert float(resumed.loss.temperature.current()) == float(run.loss.temperature.current())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_second_optimizer_does_not_take_the_note_of_the_first(order):
    run = Run()
    both = [run.optimizer, OPTIMIZERS["adamw"](run.model.parameters())]
    for which, steps in zip(order, [(1, 2), (3,)], strict=True):
        run.optimizer = both[which]
        run.steps(*steps)
    bias = run.bias
    run.resumed(run.saved(), "model").loss(batch(4))
    assert run.bias == bias


def test_an_optimizer_loaded_after_the_first_batch_is_refused_unless_the_value_was_given():
    run = Run().steps(1, 2)
    checkpoint, state = run.saved(), temperature_state(run.loss)

    def late():
        resumed = Run().resumed(checkpoint, "model")
        resumed.loss(batch(3)).backward()
        return resumed.resumed(checkpoint, "optimizer")

    with pytest.raises(WorkError, match="optimizer was resumed at a learned temperature of .* but the loss computed with 0.3"):
        late().optimizer.step()
    given = Run().resumed(checkpoint, "model")
    load_temperature_state(given.loss, state)
    assert_same(given.resumed(checkpoint, "optimizer").steps(3, 4), Run().steps(1, 2, 3, 4))


@pytest.mark.parametrize("parts", [("model", "optimizer"), ("model",)])
def test_a_checkpoint_without_a_note_is_warned_of_once_unless_the_value_was_given(parts):
    run = Run().steps(1, 2)
    old, state = run.saved(note=False), temperature_state(run.loss)
    resumed = Run().resumed(old, *parts)
    with pytest.warns(UserWarning, match=r"no learned temperature came with the optimizer's state: it starts at 0\.3"):
        resumed.steps(3)
    resumed.steps(4)
    given = Run().resumed(old, *parts)
    load_temperature_state(given.loss, state)
    assert given.bias == run.bias
    given.steps(3)


def test_a_step_without_a_gradient_leaves_the_state_as_it_was():
    run = Run()
    run.model.rows.grad = torch.ones_like(run.model.rows)
    run.optimizer.step()
    assert run.loss.temperature.parameter not in run.optimizer.state
    run.steps(1)
    assert float(run.optimizer.state[run.loss.temperature.parameter][NOTE]) == run.bias
