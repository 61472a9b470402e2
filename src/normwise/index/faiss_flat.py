"""All vectors in one FAISS array, searched exhaustively; and what every FAISS file of ours shares."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from normwise.index.scan import SPARE, load_faiss, settle, top_of

VECTORS = "vectors.faiss"
_CHUNK_VALUES = 1 << 20
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)


class FlatStore:
    """All vectors in one array: exhaustive search, exact down to ties."""

    def __init__(self, index: Any, *, mapped: bool = False) -> None:
        self._index, self._mapped = index, mapped
        self._look()

    @classmethod
    def build(cls, vectors: np.ndarray) -> FlatStore:
        """Hold (N, D) float32 vectors."""
        index = load_faiss().IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        return cls(index)

    @classmethod
    def load(cls, folder: Path) -> FlatStore:
        """Map what `save` wrote into memory."""
        return cls(mapped_index(folder / VECTORS), mapped=True)

    def _look(self) -> None:
        self._view = flat_view(self._index)
        self._largest = largest_norm(self._view)

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def largest(self) -> float:
        """At least the norm of every vector."""
        return self._largest

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, D) float32 vectors as they are ranked."""
        return self._view[rows]

    def search(self, directions: np.ndarray, *, k: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The k best, exact down to ties."""
        if rows is not None:
            return top_of(self, directions, k=k, rows=rows)
        values, found = self._index.search(directions.astype(np.float32), min(k + SPARE, len(self)))
        return settle(self, directions, k=k, found=found, reach=values[:, -1:])

    def takes(self, norms: np.ndarray) -> bool:
        """Whether vectors of these norms can join; always."""
        return True

    def add(self, vectors: np.ndarray, norms: np.ndarray) -> None:
        """Add vectors at the end."""
        self._own()
        self._index.add(vectors)
        self._look()

    def remove(self, rows: np.ndarray) -> None:
        """Take ascending rows out; the rows behind them move up."""
        self._own()
        self._index.remove_ids(load_faiss().IDSelectorArray(rows))
        self._look()

    def stale(self) -> bool:
        """Never: what has left is gone."""
        return False

    def save(self, folder: Path) -> None:
        """Write the FAISS file."""
        write_index(self._index, folder / VECTORS)

    def _own(self) -> None:
        if self._mapped:
            self._index, self._mapped = owned(self._index), False


def flat_view(index: Any) -> np.ndarray:
    """(N, D) float32 array over the memory of a flat FAISS index; it holds as long as nothing is added or taken out."""
    if index.ntotal == 0:
        return np.empty((0, index.d), dtype=np.float32)
    return load_faiss().rev_swig_ptr(index.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)


def largest_norm(vectors: np.ndarray) -> float:
    """The norm of the longest of (N, D) float32 vectors; 0 for none."""
    step = max(1, _CHUNK_VALUES // vectors.shape[1])
    largest = 0.0
    for start in range(0, vectors.shape[0], step):
        block = vectors[start : start + step]
        largest = max(largest, float(np.einsum("nd,nd->n", block, block, dtype=np.float64).max()))
    return largest**0.5


def write_index(index: Any, path: Path) -> None:
    """Write a FAISS file.

    Raises:
        OSError: the disk refused, in the system's own words; FAISS tells it as a RuntimeError with a place in its source.
    """
    try:
        load_faiss().write_index(index, str(path))
    except RuntimeError as error:
        code = next((code for code in _REFUSALS if os.strerror(code) in str(error)), errno.EIO)
        raise OSError(code, os.strerror(code)) from error


def mapped_index(path: Path) -> Any:
    """Open a FAISS file as a memory map. Nothing may be added to it or taken out: FAISS ends the process then."""
    faiss = load_faiss()
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)


def owned(index: Any) -> Any:
    """Copy a mapped index into memory of its own."""
    faiss = load_faiss()
    return faiss.deserialize_index(faiss.serialize_index(index))
