"""Gradients of watched vectors, taken by tensor hooks and added up step by step: read, never changed."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from normwise.theory.gradient_stream import GradientStream, tangential


@final
class GradientLedger:
    """The tangential gradients of N items over the steps of a training.

    Within a step the gradients of one item add up, whatever micro-batches and columns it stood in, since the optimizer sees only the
    sum; a step counts as one visit of it. They are those of the loss as it was trained: for a mean over N anchors g holds the factor 1/N,
    which is the form in which the laws with weight decay are right (`mean_loss_moment`). Hooks return nothing, so that the backward pass
    is bit-equal with and without them. `last_rows` and `last_squares` are the items of the last step and their ||g||^2.

    Args:
        items: N >= 1.

    Example:
        >>> ledger = GradientLedger(2)
        >>> z = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
        >>> ledger.watch(np.array([0, -1]), z)
        >>> z.sum().backward()
        >>> ledger.close_step(0.1)
        >>> ledger.stream.visits.tolist(), ledger.stream.second_moments.tolist()[0]
        ([1, 0], 4.0)
    """

    def __init__(self, items: int) -> None:
        self._items = items
        self._stream: GradientStream | None = None
        self._pending: list[tuple[np.ndarray, torch.Tensor, torch.Tensor]] = []
        self._along = self._total = 0.0
        self._clipped = 0
        self.learning_rates: list[float] = []
        self.last_rows, self.last_squares = np.zeros(0, dtype=np.int64), np.zeros(0)

    @property
    def stream(self) -> GradientStream:
        """The moments so far."""
        return GradientStream(self._items, 1) if self._stream is None else self._stream

    @property
    def width(self) -> int:
        """D; 1 before the first visit."""
        return 1 if self._stream is None else self._stream.width

    @property
    def radial_share(self) -> float | None:
        """The part of the squared gradient that points along the vectors; None before the first visit."""
        return self._along / self._total if self._total > 0.0 else None

    @property
    def clipped_share(self) -> float:
        """Share of the steps whose gradient was clipped."""
        return self._clipped / max(1, len(self.learning_rates))

    def watch(self, rows: np.ndarray, vectors: torch.Tensor) -> None:
        """Take the gradient of these vectors when the backward pass reaches them.

        Args:
            rows: (B,) the item of each vector, -1 for one that is not watched.
            vectors: (B, D) part of the loss's graph; nothing is done where no gradient is asked for.
        """
        picked = np.flatnonzero(rows >= 0)
        if picked.size == 0 or not vectors.requires_grad:
            return
        items, index = rows[picked], torch.as_tensor(picked, device=vectors.device)
        values = vectors.detach().index_select(0, index)

        def keep(gradient: torch.Tensor) -> None:
            self._pending.append((items, values, gradient.detach().index_select(0, index)))

        vectors.register_hook(keep)

    def take(self, rows: np.ndarray, vectors: torch.Tensor, gradients: torch.Tensor) -> None:
        """Take gradients that are already there, as those of a table's rows.

        Args:
            rows: (B,) items.
            vectors: (B, D).
            gradients: (B, D).
        """
        if rows.size:
            self._pending.append((rows, vectors.detach().clone(), gradients.detach().clone()))

    def close_step(self, learning_rate: float, *, clip: float = 1.0) -> None:
        """Count what was taken since the last call as one step.

        Args:
            learning_rate: of this step.
            clip: the factor by which gradient clipping shrank the gradients after they were taken.
        """
        self.learning_rates.append(learning_rate)
        self._clipped += clip < 1.0
        pending, self._pending = self._pending, []
        self.last_rows, self.last_squares = self.last_rows[:0], self.last_squares[:0]
        if not pending:
            return
        rows = np.concatenate([items for items, _, _ in pending])
        vectors = torch.cat([values for _, values, _ in pending]).float().cpu().numpy()
        gradients = torch.cat([gradient for _, _, gradient in pending]).float().cpu().numpy()
        alive = (vectors != 0).any(axis=1)
        self._add(rows[alive], vectors[alive], gradients[alive] * np.float32(clip))

    def _add(self, rows: np.ndarray, vectors: np.ndarray, gradients: np.ndarray) -> None:
        tangents, along = tangential(vectors, gradients)
        self._along += float(along @ along)
        self._total += float(along @ along) + float(np.einsum("bd,bd->", tangents, tangents))
        items, place = np.unique(rows, return_inverse=True)
        if items.size < rows.size:
            sums = np.zeros((items.size, tangents.shape[1]))
            np.add.at(sums, place, tangents)
        else:
            sums = tangents[np.argsort(place)]
        if self._stream is None:
            self._stream = GradientStream(self._items, tangents.shape[1])
        if items.size:
            self._stream.add(items, sums)
        self.last_rows, self.last_squares = items, np.einsum("bd,bd->b", sums, sums)
