"""Training a small deep encoder on a concept world with a cosine loss, every concept tracked and the kernel drift measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from normwise.core.track_records import OptimizerSettings
from normwise.models.concept_encoder import ConceptEncoder, encoder_inputs
from normwise.objectives.scores import normalize
from normwise.theory.concept_world import ConceptWorld, draw_labels
from normwise.theory.driving_moment import DrivingMoment
from normwise.training.gradient_ledger import GradientLedger
from normwise.training.optimizer_reading import optimizer_settings
from normwise.training.radial_drift import DriftMeter


@dataclass(frozen=True)
class ConceptRun:
    """Settings of a run: `optimizer` is sgd or adamw, `measure_every` the steps between two measurements of the drift."""

    optimizer: str
    learning_rate: float
    weight_decay: float
    temperature: float
    steps: int
    seed: int
    measure_every: int = 1


@dataclass(frozen=True)
class ConceptOutcome:
    """What a run left: arrays are (N,) over concepts; `moments` are G as the law of the optimizer needs them."""

    initial_norms: np.ndarray
    norms: np.ndarray
    ledger: GradientLedger
    settings: OptimizerSettings
    drift: DriftMeter
    loss_drop: float
    moments: np.ndarray


def train_concepts(world: ConceptWorld, run: ConceptRun) -> ConceptOutcome:
    """Train an encoder of concepts and instances from scratch.

    Each step visits concept i with probability f_i and pairs it with one instance of its own. The loss is InfoNCE over the step's
    instances (cosine, mean over the visited concepts), a concept's own instances masked as negatives.

    Args:
        world: concepts, instances, visit rates.
        run: settings; equal ones give equal results.

    Returns:
        Norms, gradients and drift.
    """
    encoder = ConceptEncoder(16 + world.centers.shape[1], world.centers.shape[1], seed=run.seed)
    concepts, instances = encoder_inputs(world, seed=run.seed)
    parameters = list(encoder.parameters())
    make = torch.optim.SGD if run.optimizer == "sgd" else torch.optim.AdamW
    optimizer = make(parameters, lr=run.learning_rate, weight_decay=run.weight_decay)
    ledger = GradientLedger(world.visit_rates.size)
    driving = DrivingMoment(world.visit_rates.size, weight_decay=run.weight_decay)

    def vectors() -> np.ndarray:
        with torch.no_grad():
            return encoder(concepts).double().numpy()

    meter = DriftMeter(vectors, parameters, lambda: ledger, every=run.measure_every)
    random = np.random.default_rng([run.seed, 1])
    initial, losses = np.linalg.norm(vectors(), axis=1), []
    for _ in range(run.steps):
        rows = np.flatnonzero(random.random(world.visit_rates.size) < world.visit_rates)
        if rows.size < 2:
            continue
        positives = draw_labels(world.shares[rows], random, count=1)[:, 0]
        losses.append(_backward(encoder, (concepts, instances), world, (rows, positives), ledger=ledger, temperature=run.temperature))
        ledger.close_step(run.learning_rate)
        driving.add(ledger.last_rows, ledger.last_squares, learning_rate=run.learning_rate)
        meter.before_step()
        optimizer.step()
        optimizer.zero_grad()
        meter.after_step(optimizer)
    settings = optimizer_settings(optimizer, optimizer.param_groups[0], learning_rate=run.learning_rate)
    tenth = max(1, len(losses) // 10)
    drop = float(np.mean(losses[:tenth]) - np.mean(losses[-tenth:]))
    moments = driving.values if settings.name == "sgd" else ledger.stream.second_moments
    return ConceptOutcome(initial, np.linalg.norm(vectors(), axis=1), ledger, settings, meter, drop, moments)


def _backward(
    encoder: nn.Module,
    inputs: tuple[torch.Tensor, torch.Tensor],
    world: ConceptWorld,
    batch: tuple[np.ndarray, np.ndarray],
    *,
    ledger: GradientLedger,
    temperature: float,
) -> float:
    rows, positives = batch
    z = encoder(inputs[0][rows])
    ledger.watch(rows, z)
    scores = normalize(z) @ normalize(encoder(inputs[1][positives])).T / temperature
    own = world.shares[rows][:, positives] > 0
    np.fill_diagonal(own, val=False)
    loss = nn.functional.cross_entropy(scores.masked_fill(torch.as_tensor(own), float("-inf")), torch.arange(rows.size))
    loss.backward()
    return float(loss.detach())
