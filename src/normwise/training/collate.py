"""From row numbers to the tensors of one batch: contents are looked up by name, never by column order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from normwise.core.config import NegativeSource, StageConfig
from normwise.core.errors import InputError
from normwise.data.contents import Content, sameness
from normwise.data.sets import TrainingPairs
from normwise.theory.popularity import log_sampling_probabilities

Preprocess = Callable[..., Mapping[str, Any]]
Grouped = Callable[[Sequence[Content], str | None], Sequence[tuple[np.ndarray, Mapping[str, Any]]]]
Column = tuple[str, list[Content], str | None]


class PairCollator:
    """Builds the batch of one step from rows of `TrainingPairs`.

    The batch holds `anchor_*` and `positive_*` features (B rows each), `negative_*` features (all explicit negatives
    of the batch, flat) and, with uniform negatives, `pool_*` features (one shared pool). What the loss needs to know
    about them travels in `label`: `negative_counts` (B,), `uniform_count` and `log_g` (one value per column of the
    score matrix, source corrected only). A batch with a picture in it holds one group of features for each modality of
    a column (`anchor0_*`, `anchor1_*`, ...), and the label says how they go together (`groups`) and which contents are
    the same (`contents`).

    Args:
        pairs: the training pairs.
        stage: hard negatives per query and where negatives come from.
        preprocess: `SentenceTransformer.preprocess`.
        query_prompt: put before every query.
        candidate_prompt: put before every candidate.
        group: for contents and a prompt, the features of each modality in them (`models.inputs.grouped_features`); needed
            where the pairs have pictures.
        seed: decides the uniform draws; the same rows of the same run always get the same pool, so that a resumed
            run sees the batches of an uninterrupted one.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        stage: StageConfig,
        preprocess: Preprocess,
        *,
        query_prompt: str | None = None,
        candidate_prompt: str | None = None,
        group: Grouped | None = None,
        seed: int = 0,
    ) -> None:
        self.valid_label_columns = ["label"]
        self._pairs = pairs
        self._stage = stage
        self._preprocess = preprocess
        self._query_prompt = query_prompt
        self._candidate_prompt = candidate_prompt
        self._group = group
        self._numbers: dict[str, int] = {}
        self._seed = seed
        self._log_g: np.ndarray | None = None
        if stage.negatives.source is NegativeSource.CORRECTED:
            self._log_g = log_popularity(pairs, smoothing=stage.negatives.smoothing or 0.0)

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Build one batch.

        Args:
            features: one mapping per row, with the key `row`.

        Returns:
            Named features and `label`.
        """
        rows = [int(feature["row"]) for feature in features]
        pairs = self._pairs
        positives = [int(pairs.positives[row]) for row in rows]
        negatives = [tuple(pairs.negatives[row][: self._stage.hard_negatives]) for row in rows]
        flat = [candidate for own in negatives for candidate in own]
        pool = self._draw_pool(rows)
        corpus = pairs.corpus.contents
        columns: list[tuple[str, list[Content], str | None]] = [("anchor", [pairs.queries[row] for row in rows], self._query_prompt)]
        for name, candidates in (("positive", positives), ("negative", flat), ("pool", pool)):
            if candidates:
                columns.append((name, [corpus[candidate] for candidate in candidates], self._candidate_prompt))
        label: dict[str, Any] = {"negative_counts": torch.tensor([len(own) for own in negatives], dtype=torch.int64)}
        if all(isinstance(content, str) for _, contents, _ in columns for content in contents):
            batch = self._texts(columns)
        else:
            batch = self._mixed(columns, label)
        if pool:
            label["uniform_count"] = torch.tensor(len(pool), dtype=torch.int64)
        if self._log_g is not None:
            label["log_g"] = torch.from_numpy(self._log_g[positives + flat + pool].astype(np.float32))
        batch["label"] = label
        return batch

    def _texts(self, columns: Sequence[Column]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for name, texts, prompt in columns:
            for key, value in self._preprocess(texts, prompt=prompt).items():
                batch[f"{name}_{key}"] = value
        return batch

    def _mixed(self, columns: Sequence[Column], label: dict[str, Any]) -> dict[str, Any]:
        if self._group is None:
            raise InputError("the pairs have pictures, and the collator was given no way to read them: pass group")
        batch: dict[str, Any] = {}
        owners: list[list[torch.Tensor]] = []
        for name, contents, prompt in columns:
            groups = self._group(contents, prompt)
            owners.append([torch.from_numpy(rows) for rows, _ in groups])
            for number, (_, features) in enumerate(groups):
                batch |= {f"{name}{number}_{key}": value for key, value in features.items()}
        label["groups"] = owners
        numbers = [self._number(content) for _, contents, _ in columns for content in contents]
        label["contents"] = torch.tensor(numbers, dtype=torch.int64)
        return batch

    def _number(self, content: Content) -> int:
        return self._numbers.setdefault(sameness(content), len(self._numbers))

    def _draw_pool(self, rows: Sequence[int]) -> list[int]:
        count = self._stage.negatives.count
        if count is None:
            return []
        generator = np.random.default_rng([self._seed, *rows])
        return generator.integers(0, len(self._pairs.corpus), size=count).tolist()


def log_popularity(pairs: TrainingPairs, *, smoothing: float) -> np.ndarray:
    """The log probability g with which each candidate is drawn as an in-batch negative.

    Args:
        pairs: the training pairs, whose positives are the draws.
        smoothing: added to the count of every candidate of the corpus.

    Returns:
        (N,) log g; NaN for a candidate that is never drawn (without smoothing), which no batch holds.
    """
    counts = pairs.popularity().astype(np.float64)
    drawn = counts + smoothing > 0
    log_g = np.full(len(counts), np.nan)
    log_g[drawn] = log_sampling_probabilities(counts[drawn], smoothing=smoothing)
    return log_g
