"""What an embedded index asks of the part that keeps its vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np


class Store(Protocol):
    """N vectors under their row numbers; what ranks them is the inner product with a query's direction."""

    def __len__(self) -> int: ...

    @property
    def largest(self) -> float:
        """At least the norm of every vector."""
        ...

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, D) float32 vectors as they are ranked: directions under cosine, else raw ones."""
        ...

    def search(self, directions: np.ndarray, *, k: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """(B, k) rows and float64 keys of float64 directions (B, D), best first; -1 and -inf where there is nothing."""
        ...

    def takes(self, norms: np.ndarray) -> bool:
        """Whether vectors of these norms can join without building anew."""
        ...

    def add(self, vectors: np.ndarray, norms: np.ndarray) -> None:
        """Add (n, D) float32 vectors, as they are ranked, at the end; `norms` are those of the raw ones, as stored."""
        ...

    def remove(self, rows: np.ndarray) -> None:
        """Take ascending rows out; the rows behind them move up."""
        ...

    def stale(self) -> bool:
        """Whether so much has left that it should be built anew."""
        ...

    def save(self, folder: Path) -> None:
        """Write everything into a folder."""
        ...


def best(store: Store, directions: np.ndarray, *, k: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Answer directions (B, D) as `Store.search` does; a zero one scores 0 everywhere and gets the first k rows.

    Args:
        store: N vectors.
        directions: (B, D) float64.
        k: at most the number of rows.
        rows: ascending rows that may be found; None for all.
    """
    found = np.empty((directions.shape[0], k), dtype=np.int64)
    found[:] = np.arange(k) if rows is None else rows[:k]
    keys = np.zeros(found.shape)
    some = directions.any(axis=1)
    if some.any() and k:
        found[some], keys[some] = store.search(directions if some.all() else directions[some], k=k, rows=rows)
    return found, keys
