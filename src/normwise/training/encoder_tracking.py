"""Fine-tuning a sentence-transformers model with a cosine loss while the norm tracker and the drift meter watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from normwise.core.track_records import NormTrack
from normwise.training.norm_tracker import NormTracker
from normwise.training.radial_drift import DriftMeter
from normwise.training.tracked_items import TrackedTexts


@dataclass(frozen=True)
class TrackedTrainingSettings:
    """Settings of a tracked run: `optimizer` is sgd or adamw, the learning rate is constant, nothing is clipped."""

    optimizer: str
    learning_rate: float
    weight_decay: float
    temperature: float
    batch_size: int
    seed: int
    measure_every: int


@dataclass(frozen=True)
class TrackedTraining:
    """What a tracked run left."""

    track: NormTrack
    learning_rates: np.ndarray
    drift: dict[str, float | None]


@final
class DriftCallback(TrainerCallback):
    """Calls a drift meter around the optimizer's step; it stands behind the tracker whose ledger it reads."""

    def __init__(self, meter: DriftMeter) -> None:
        self._meter = meter

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Remember weights and norms."""
        self._meter.before_step()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure."""
        self._meter.after_step(kwargs["optimizer"])


def train_tracked(
    model: SentenceTransformer,
    pairs: Sequence[tuple[str, str]],
    texts: Sequence[str],
    settings: TrackedTrainingSettings,
    folder: Path,
) -> TrackedTraining:
    """Train one pass over the pairs, in their order, with in-batch negatives and cosine.

    Args:
        model: trained in place, all parameters that ask for gradients.
        pairs: (anchor, positive) texts.
        texts: those to track.
        settings: of the run.
        folder: for the trainer's own use.

    Returns:
        The track, the learning rates of its steps and the drift's figures.

    Raises:
        InputError: texts that cannot be tracked.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    make = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.AdamW
    optimizer = make(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    items = TrackedTexts(model, texts)
    tracker = NormTracker(items)
    meter = DriftMeter(items.vectors, parameters, lambda: tracker.ledger, every=settings.measure_every)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"anchor": [a for a, _ in pairs], "positive": [b for _, b in pairs]}),
        loss=MultipleNegativesRankingLoss(model, scale=1.0 / settings.temperature),
        callbacks=[tracker, DriftCallback(meter)],
        optimizers=(optimizer, None),  # pyright: ignore[reportArgumentType]  # the trainer makes the scheduler
    )
    # Without a progress bar the trainer prints its summary to stdout, which belongs to results.
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return TrackedTraining(tracker.result(), np.array(tracker.ledger.learning_rates), meter.figures())
