"""Directions in fewer bytes: one byte a dimension, product quantization, or one bit a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from normwise.core.index_records import Storage
from normwise.index.scan import load_faiss
from normwise.theory.directions import normalize

_STEPS = 127.0
_PER_PART = 4
_MOST_BITS = 8


class Codec(Protocol):
    """A direction as a row of bytes, and back."""

    @property
    def words(self) -> str:
        """What it does."""
        ...

    def encode(self, directions: np.ndarray) -> np.ndarray:
        """(n, C) uint8 codes of (n, D) float32 directions."""
        ...

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """(n, D) float32 directions, nearly of length 1; what a zero direction becomes is of no meaning."""
        ...

    def save(self, folder: Path) -> None:
        """Write what decoding needs."""
        ...


@dataclass(frozen=True)
class VectorScaled:
    """int8: x_d is about s c_d with one scale s = max |x_d| / 127 for each vector, kept behind its code in float32."""

    words: str = "one byte a dimension and a scale for each vector"

    def encode(self, directions: np.ndarray) -> np.ndarray:
        """Round x / s to whole numbers in -127..127."""
        scales = np.abs(directions).max(axis=1) / np.float32(_STEPS)
        whole = np.rint(np.divide(directions, scales[:, None], out=np.zeros_like(directions), where=scales[:, None] > 0.0))
        return np.hstack([whole.astype(np.int8).view(np.uint8), scales.astype("<f4")[:, None].view(np.uint8)])

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Multiply by the scale."""
        codes = np.ascontiguousarray(codes)
        scales = np.ascontiguousarray(codes[:, -4:]).view("<f4")
        return codes[:, :-4].view(np.int8).astype(np.float32) * scales

    def save(self, folder: Path) -> None:
        """Nothing stands outside the codes."""


@dataclass(frozen=True)
class DimensionScaled:
    """int8: x_d is about s_d c_d with a scale s_d = max |x_d| / 127 for each dimension; later vectors are cut off beyond it."""

    scales: np.ndarray
    words: str = "one byte a dimension and a scale for each dimension"

    @classmethod
    def fit(cls, directions: np.ndarray) -> DimensionScaled:
        """Find the scales of (N, D) directions; a dimension that is always 0 gets 1."""
        largest = np.abs(directions).max(axis=0)
        return cls(np.where(largest > 0.0, largest / np.float32(_STEPS), 1.0).astype(np.float32))

    def encode(self, directions: np.ndarray) -> np.ndarray:
        """Round x / s to whole numbers in -127..127."""
        return np.clip(np.rint(directions / self.scales), -_STEPS, _STEPS).astype(np.int8).view(np.uint8)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Multiply by the scales."""
        return codes.view(np.int8).astype(np.float32) * self.scales

    def save(self, folder: Path) -> None:
        """Write the scales."""
        np.save(folder / "scales.npy", self.scales, allow_pickle=False)


@dataclass(frozen=True)
class Product:
    """Product quantization: every 4 dimensions become the number of one of at most 256 centers."""

    quantizer: Any
    width: int

    @property
    def words(self) -> str:
        """What it does."""
        return f"{self.quantizer.M} parts of {self.quantizer.dsub} dimensions, {self.quantizer.nbits} bits each"

    @classmethod
    def fit(cls, directions: np.ndarray, *, seed: int) -> Product:
        """Train centers on (N, D) directions; few vectors get fewer bits. D is filled up with zeros to a multiple of 4."""
        count, width = directions.shape
        bits = max(1, min(_MOST_BITS, int(np.log2(count))))
        quantizer = cls._empty(width, bits)
        quantizer.cp.seed, quantizer.cp.min_points_per_centroid = seed, 1
        training = _padded(directions, quantizer.d)
        quantizer.train(np.repeat(training, 2, axis=0) if count < 2 else training)
        return cls(quantizer, width)

    @classmethod
    def load(cls, folder: Path, *, width: int) -> Product:
        """Read the centers that `save` wrote."""
        faiss = load_faiss()
        centers = np.load(folder / "centers.npy", allow_pickle=False)
        quantizer = cls._empty(width, int(np.log2(centers.shape[1])))
        faiss.copy_array_to_vector(centers.ravel(), quantizer.centroids)
        return cls(quantizer, width)

    @staticmethod
    def _empty(width: int, bits: int) -> Any:
        parts = -(-width // _PER_PART)
        return load_faiss().ProductQuantizer(parts * _PER_PART, parts, bits)

    def encode(self, directions: np.ndarray) -> np.ndarray:
        """Number the nearest centers."""
        return self.quantizer.compute_codes(_padded(directions, self.quantizer.d))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Look the centers up and bring the vector to length 1."""
        decoded = self.quantizer.decode(np.ascontiguousarray(codes))[:, : self.width]
        return _unit(np.ascontiguousarray(decoded))

    def save(self, folder: Path) -> None:
        """Write the centers (parts, centers, dimensions of a part)."""
        shape = (self.quantizer.M, self.quantizer.ksub, self.quantizer.dsub)
        centers = load_faiss().vector_to_array(self.quantizer.centroids).reshape(shape)
        np.save(folder / "centers.npy", centers, allow_pickle=False)


@dataclass(frozen=True)
class Signs:
    """Binary: x_d is about m_d + a_d sign(x_d - m_d), with the mean m_d and mean distance a_d from it; queries stay whole."""

    means: np.ndarray
    distances: np.ndarray
    words: str = "one bit a dimension around the mean direction; queries stay whole"

    @classmethod
    def fit(cls, directions: np.ndarray) -> Signs:
        """Find means and mean distances of (N, D) directions."""
        means = directions.mean(axis=0, dtype=np.float64).astype(np.float32)
        distances = np.abs(directions - means).mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(means, distances)

    def encode(self, directions: np.ndarray) -> np.ndarray:
        """Keep which side of the mean each value is on."""
        return np.packbits(directions >= self.means, axis=1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Put the two values back, and bring the vector to length 1."""
        sides = np.unpackbits(codes, axis=1, count=self.means.size).astype(np.float32)
        return _unit(self.means + self.distances * (2.0 * sides - 1.0))

    def save(self, folder: Path) -> None:
        """Write means and distances."""
        np.save(folder / "means.npy", self.means, allow_pickle=False)
        np.save(folder / "distances.npy", self.distances, allow_pickle=False)


def fit_codecs(storage: Storage, directions: np.ndarray, *, seed: int) -> list[Codec]:
    """The codecs that a storage may use, fitted; the builder keeps the one that measures best."""
    if storage == "int8":
        return [DimensionScaled.fit(directions), VectorScaled()]
    return [Product.fit(directions, seed=seed)] if storage == "pq" else [Signs.fit(directions)]


def load_codec(storage: Storage, folder: Path, *, width: int) -> Codec:
    """Read a codec that was saved in a folder."""
    if storage == "int8":
        path = folder / "scales.npy"
        return DimensionScaled(np.load(path, allow_pickle=False)) if path.exists() else VectorScaled()
    if storage == "pq":
        return Product.load(folder, width=width)
    return Signs(np.load(folder / "means.npy", allow_pickle=False), np.load(folder / "distances.npy", allow_pickle=False))


def _padded(directions: np.ndarray, width: int) -> np.ndarray:
    missing = width - directions.shape[1]
    return np.ascontiguousarray(np.pad(directions, ((0, 0), (0, missing))) if missing else directions, dtype=np.float32)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return normalize(vectors)
