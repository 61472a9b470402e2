"""sentence-transformers' trainer with planned batches, named features and checkpoints that only resume."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch.utils.data import BatchSampler
from transformers import PrinterCallback

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json, write_json
from normwise.models.towers import rest_frozen_towers
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.temperature import load_temperature_state, temperature_state
from normwise.training.collate import PairCollator
from normwise.training.observers import CurveObserver

logger = logging.getLogger(__name__)

WEIGHTS = "resume.safetensors"
TEMPERATURE = "temperature.json"


class PlannedBatches(BatchSampler):
    """A fixed sequence of batches, decided before training: resuming and ranks see the same plan."""

    def __init__(self, plan: Sequence[np.ndarray]) -> None:
        self._plan = plan
        # None: batches of any size. With a number, accelerate's shards of a launch would skip every batch of another size.
        self.batch_size = None  # pyright: ignore[reportAttributeAccessIssue]
        self.drop_last = False

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[list[int]]:
        for rows in self._plan:
            yield rows.tolist()


class StageTrainer(SentenceTransformerTrainer):
    """The library's trainer for one stage.

    Three things differ from the parent. Batches come from a plan. Features carry the token counts of the batch to the
    observers. A checkpoint holds one weights file (`resume.safetensors`, adapters included)
    next to the optimizer's and the temperature's state: it resumes bit-equal with any adapter library, and it is not a folder that loads as
    a model, so nobody can mistake half a run for one.
    """

    def __init__(
        self,
        *,
        model: SentenceTransformer,
        args: SentenceTransformerTrainingArguments,
        loss: FocalEmbeddingLoss,
        collator: PairCollator,
        plan: Sequence[np.ndarray],
        rows: int,
        callbacks: list[Any],
        observer: CurveObserver | None = None,
    ) -> None:
        self._plan = PlannedBatches(plan)
        self._observer = observer
        super().__init__(
            model=model,
            args=args,
            loss=loss,
            train_dataset=Dataset.from_dict({"row": np.arange(rows)}),
            data_collator=collator,  # pyright: ignore[reportArgumentType]  # any callable that returns features works
            callbacks=[*([observer] if observer else []), *callbacks],
        )
        # Without a progress bar the parent prints every log to stdout, which belongs to results.
        self.remove_callback(PrinterCallback)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave the library's model card out: it would embed training texts."""

    def get_batch_sampler(self, dataset: Any, *args: Any, **kwargs: Any) -> BatchSampler:
        """The planned batches, whatever the arguments ask for."""
        return self._plan

    def collect_features(self, inputs: Mapping[str, Any]) -> tuple[list[dict[str, torch.Tensor]], Any]:
        """Split the batch into features, and note how many tokens each text has."""
        features, labels = super().collect_features(dict(inputs))
        if self._observer is not None:
            mixed = isinstance(labels, Mapping) and "groups" in labels
            self._observer.token_counts = tuple(
                feature["attention_mask"].sum(dim=1).cpu().numpy() for feature in features if "attention_mask" in feature and not mixed
            )
        return features, labels

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """The loss; a batch that it cannot take stops the work and says where. What is frozen of a vision tower rests."""
        rest_frozen_towers(self.model)
        try:
            return super().compute_loss(*args, **kwargs)
        except InputError as error:
            rate = self._get_learning_rate()
            raise WorkError(
                f"training stopped at step {self.state.global_step + 1} (learning rate {rate:.3g}): {error}. If values are not "
                "finite, training diverged: lower learning_rate or raise the temperature"
            ) from error

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what the trainer measured, joined by what the observer saw in the same step."""
        if self._observer is not None and "loss" in logs:
            seen = {key: value for key, value in self._observer.take().items() if value is not None}
            logs = {**logs, **seen}
            if "grad_norm" in logs:
                logs["gradient_norm"] = logs.pop("grad_norm")
        super().log(logs, start_time)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir if output_dir is not None else str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self.model, str(folder / WEIGHTS))
        write_json(folder / TEMPERATURE, temperature_state(self.loss))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint; a disk that is full costs this checkpoint, never the training."""
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError, SafetensorError, WorkError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            logger.warning("checkpoint %s could not be written (%s): training goes on without it", folder.name, error)

    def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:
        load_checkpoint(self.model, Path(checkpoint_path))
        load_temperature_state(self.loss, read_json(Path(checkpoint_path) / TEMPERATURE))


def load_checkpoint(model: torch.nn.Module, folder: Path) -> None:
    """Put the weights of a stage's checkpoint into a model of the same shape.

    Raises:
        RuntimeError: a tensor is missing or of another shape.
    """
    load_model(model, str(folder / WEIGHTS), strict=True)


def complete_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints of a stage that were written to the end, by step.

    A checkpoint counts when its last file is there: a kill while one is written leaves the one before it in use.
    """
    found = {}
    for path in folder.glob("checkpoint-*"):
        step = path.name.removeprefix("checkpoint-")
        if step.isdigit() and (path / "complete").is_file():
            found[int(step)] = path
    return dict(sorted(found.items()))
