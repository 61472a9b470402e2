"""Exact scans of compressed directions, their norms kept apart, so that compression never touches a norm."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from normwise.core.index_records import Storage
from normwise.core.similarity import Similarity
from normwise.index.codecs import Codec, load_codec
from normwise.index.scan import top_of
from normwise.theory.directions import normalize, row_chunks

_CODES = "codes.npy"
# Decoded directions are of length 1 but for rounding to a byte, which adds at most this much.
_LONGEST = 1.25


class CompressedStore:
    """N directions as bytes, each with the factor that its inner product is multiplied by.

    Score of a query's direction: factor_i (hat q . decoded direction_i), where the factor is the stored norm, or 1 where the
    similarity divides by it; 0 for a zero vector.
    """

    def __init__(self, codec: Codec, codes: np.ndarray, factors: np.ndarray, *, similarity: Similarity) -> None:
        self.codec, self._codes, self._factors, self._similarity = codec, codes, factors, similarity

    @classmethod
    def build(cls, codec: Codec, vectors: np.ndarray, norms: np.ndarray, *, similarity: Similarity) -> CompressedStore:
        """Hold (N, D) raw or normalized float32 vectors with their norms as stored."""
        return cls(codec, _encoded(codec, vectors), _factors(norms, similarity), similarity=similarity)

    @classmethod
    def load(cls, folder: Path, storage: Storage, norms: np.ndarray, *, similarity: Similarity, width: int) -> CompressedStore:
        """Map what `save` wrote into memory; `norms` are those of the table beside it."""
        codes = np.load(folder / _CODES, mmap_mode="r", allow_pickle=False)
        return cls(load_codec(storage, folder, width=width), codes, _factors(norms, similarity), similarity=similarity)

    def __len__(self) -> int:
        return self._codes.shape[0]

    @property
    def bytes_per_vector(self) -> int:
        """Bytes of one code, its scale included where it has one; the norm stands apart."""
        return self._codes.shape[1]

    @property
    def largest(self) -> float:
        """At least the norm of every vector."""
        return _LONGEST * float(self._factors.max(initial=0.0))

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, D) float32 decoded directions times their factors."""
        return self.codec.decode(np.asarray(self._codes[rows])) * self._factors[rows, None]

    def search(self, directions: np.ndarray, *, k: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The k best of all decoded vectors, exact down to ties."""
        return top_of(self, directions, k=k, rows=rows)

    def takes(self, norms: np.ndarray) -> bool:
        """Whether vectors of these norms can join; always."""
        return True

    def add(self, vectors: np.ndarray, norms: np.ndarray) -> None:
        """Encode vectors at the end."""
        self._codes = np.concatenate([self._codes, _encoded(self.codec, vectors)])
        self._factors = np.concatenate([self._factors, _factors(norms, self._similarity)])

    def remove(self, rows: np.ndarray) -> None:
        """Take ascending rows out; the rows behind them move up."""
        self._codes, self._factors = np.delete(self._codes, rows, axis=0), np.delete(self._factors, rows)

    def stale(self) -> bool:
        """Never: what has left is gone."""
        return False

    def save(self, folder: Path) -> None:
        """Write codes and what decoding needs."""
        np.save(folder / _CODES, np.asarray(self._codes), allow_pickle=False)
        self.codec.save(folder)


def _encoded(codec: Codec, vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([codec.encode(normalize(vectors[rows])) for rows in row_chunks(vectors.shape[0], vectors.shape[1])])


def _factors(norms: np.ndarray, similarity: Similarity) -> np.ndarray:
    return (norms > 0.0).astype(np.float32) if similarity.normalizes_candidate else norms.astype(np.float32)
