"""The kernel drift against automatic differentiation, and the meter on encoders for which the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from normwise.models.concept_encoder import ConceptEncoder, encoder_inputs
from normwise.theory.concept_world import concept_tree
from normwise.training.concept_training import ConceptRun, train_concepts
from normwise.training.gradient_ledger import GradientLedger
from normwise.training.radial_drift import DriftMeter, first_order_displacement


def test_the_displacement_is_the_jacobian_times_the_step_and_leaves_the_weights_alone():
    encoder = ConceptEncoder(6, 4, seed=0).double()
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parameters = list(encoder.parameters())
    before = [p.detach().clone() for p in parameters]
    step = [1e-4 * torch.randn(p.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) for p in parameters]
    with torch.no_grad():
        for p, change in zip(parameters, step, strict=True):
            p.add_(change)
    after = [p.detach().clone() for p in parameters]
    names = [name for name, _ in encoder.named_parameters()]

    def forward(*weights):
        return torch.func.functional_call(encoder, dict(zip(names, weights, strict=True)), (x,))

    exact = torch.autograd.functional.jvp(forward, tuple(before), tuple(step))[1]
    found = first_order_displacement(lambda: encoder(x).detach().numpy(), parameters, before)
    assert np.allclose(found, exact.detach().numpy(), rtol=1e-6, atol=1e-12)
    assert all(torch.equal(p, kept) for p, kept in zip(parameters, after, strict=True))


def _measured(encoder, x, *, rate, steps=5):
    ledger, optimizer = GradientLedger(len(x)), torch.optim.SGD(encoder.parameters(), lr=rate)
    meter = DriftMeter(lambda: encoder(x).detach().double().numpy(), list(encoder.parameters()), lambda: ledger)
    target = torch.randn(len(x), encoder(x).shape[1], generator=torch.Generator().manual_seed(3))
    for _ in range(steps):
        z = encoder(x)
        ledger.watch(np.arange(len(x)), z)
        (-nn.functional.cosine_similarity(z, target)).sum().backward()
        ledger.close_step(rate)
        meter.before_step()
        optimizer.step()
        optimizer.zero_grad()
        meter.after_step(optimizer)
    return meter.figures(), meter


class _Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(7, 5, generator=torch.Generator().manual_seed(4)))

    def forward(self, x):
        return self.rows[: len(x)]


def test_on_a_free_table_the_law_is_all_and_there_is_no_drift():
    found, _ = _measured(_Table(), torch.zeros(7, 1), rate=0.1)
    assert found["radial_r2_free"] == pytest.approx(1.0, abs=1e-4)
    assert found["radial_r2_displacement"] == pytest.approx(1.0, abs=1e-4)
    assert found["radial_r2_drift"] == pytest.approx(0.0, abs=1e-2)


def test_on_a_free_table_the_path_gives_the_last_norms_however_large_the_steps_are():
    table = _Table()
    start = table.rows.detach().norm(dim=1).double().numpy()
    _, meter = _measured(table, torch.zeros(7, 1), rate=3.0)
    end = table.rows.detach().norm(dim=1).double().numpy()
    assert np.abs(np.log(end / start)).max() > 0.3
    for name in ("free", "displacement"):
        path = meter.path(name)
        assert path is not None
        assert np.allclose(path, np.log(end / start), atol=1e-4)


def test_on_a_deep_encoder_with_small_steps_the_drift_is_all():
    encoder = ConceptEncoder(6, 5, seed=1)
    found, _ = _measured(encoder, torch.randn(7, 6, generator=torch.Generator().manual_seed(5)), rate=1e-3)
    assert found["radial_r2_drift"] > 0.99
    assert found["radial_r2_free"] < 0.3


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_concepts_train_and_the_run_repeats_itself(optimizer):
    world = concept_tree(per_level=4, width=8, seed=0)
    run = ConceptRun(
        optimizer=optimizer, learning_rate=0.1 if optimizer == "sgd" else 3e-3, weight_decay=0.0, temperature=0.2, steps=40, seed=0
    )
    first, second = train_concepts(world, run), train_concepts(world, run)
    assert np.array_equal(first.norms, second.norms)
    assert first.loss_drop > 0
    assert first.ledger.stream.visits.sum() > 0
    assert first.ledger.radial_share is not None
    assert first.ledger.radial_share < 1e-8
    assert first.drift.figures()["radial_r2_displacement"] > first.drift.figures()["radial_r2_free"]
    path = first.drift.path("drift")
    assert path is not None
    assert path.shape == (16,)


def test_measuring_the_drift_changes_no_weight():
    world = concept_tree(per_level=3, width=8, seed=0)
    settings = {"optimizer": "sgd", "learning_rate": 0.2, "weight_decay": 0.01, "temperature": 0.2, "steps": 12, "seed": 1}
    often, seldom = (train_concepts(world, ConceptRun(**settings, measure_every=every)) for every in (1, 100))
    assert np.array_equal(often.norms, seldom.norms)
    assert seldom.drift.path("drift") is None


def test_the_encoder_is_homogeneous_so_that_its_norm_is_free():
    encoder, x = ConceptEncoder(6, 4, seed=0), torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    z = encoder(x)
    with torch.no_grad():
        encoder.layers[2].weight.mul_(2.0)
    assert torch.allclose(encoder(x), 2.0 * z)
    concepts, instances = encoder_inputs(concept_tree(per_level=2, width=8, seed=0), seed=0)
    assert torch.allclose(concepts.square().sum(dim=1), torch.tensor(2.0))
    assert torch.allclose(instances.square().sum(dim=1), torch.tensor(1.0))
