"""The hash of each row of a corpus alone, so that a server can give back what a deletion takes out of the corpus hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from normwise.core.contents_hash import pair_hash
from normwise.theory.directions import row_chunks

_SIZE = 1 << 256


def vectors_hash(ids: Sequence[str], vectors: np.ndarray) -> str:
    """Return the corpus hash of vectors: that of (id, float32 vector, little-endian) pairs in any order.

    Args:
        ids: N names.
        vectors: (N, D) raw vectors, hashed as float32.

    Example:
        >>> vectors_hash(["a", "b"], np.eye(2)) == vectors_hash(["b", "a"], np.eye(2)[::-1])
        True
    """
    return sum_hashes(map(bytes, row_hashes(ids, vectors)))


def row_hashes(ids: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Return the corpus hash of each row by itself; those of a corpus add up to its own (`sum_hashes`).

    Args:
        ids: N names.
        vectors: (N, D) raw vectors, hashed as float32.

    Returns:
        (N, 32) uint8.
    """
    hashes = []
    for part in row_chunks(*vectors.shape):
        # Adding 0 makes -0 and 0, which no score tells apart, one value.
        rows = np.ascontiguousarray(vectors[part] + np.float32(0.0), dtype="<f4")
        packed, size = rows.data.cast("B"), rows.shape[1] * rows.itemsize
        hashes += [pair_hash(name, packed[row * size : (row + 1) * size]) for row, name in enumerate(ids[part])]
    # The highest byte first, as the hexadecimal digits of a corpus hash have it.
    return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(len(ids), 32)[:, ::-1]


def sum_hashes(hashes: Iterable[bytes], *, start: str | None = None, take_away: bool = False) -> str:
    """Return the corpus hash after rows with these hashes came, or left.

    Example:
        >>> sum_hashes([b"1" * 32], start=sum_hashes([b"1" * 32]), take_away=True) == "0" * 64
        True
    """
    total = sum(int.from_bytes(row, "big") for row in hashes)
    before = 0 if start is None else int(start, 16)
    return f"{(before - total if take_away else before + total) % _SIZE:064x}"
