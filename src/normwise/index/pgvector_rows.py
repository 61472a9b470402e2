"""Rows in PostgreSQL's binary COPY format, a chunk at a time: what has a fixed width is laid out by numpy, not value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_NULL = np.array([-1], dtype=">i4").tobytes()


@dataclass(frozen=True)
class RowChunk:
    """Some candidates as they are stored; `metadata` is JSON text.

    Args:
        position: (n,) int64 order of adding.
        ids: n names.
        vectors: (n, D) float32.
        norms: (n,) float64.
        hashes: (n, 32) uint8 hash of each row's id and raw vector.
        lengths: (n,) float64, or None.
        texts: n texts, or None.
        metadata: n JSON objects, or None.
    """

    position: np.ndarray
    ids: Sequence[str]
    vectors: np.ndarray
    norms: np.ndarray
    hashes: np.ndarray
    lengths: np.ndarray | None = None
    texts: Sequence[str | None] | None = None
    metadata: Sequence[str] | None = None


def column_names() -> tuple[str, ...]:
    """The columns of `encode_rows`, in its order."""
    return ("position", "norm", "row_hash", "length", "vector", "id", "text", "metadata")


def encode_rows(chunk: RowChunk) -> bytes:
    """Return the rows of a chunk as binary COPY data, without header and trailer.

    Layout of a row: int16 number of columns; of each column int32 size (-1 for null) and its bytes, all big-endian. A vector
    is int16 D, int16 0 and D float32.

    Example:
        >>> one = np.ones(1)
        >>> chunk = RowChunk(np.arange(1), ["a"], np.ones((1, 2), np.float32), one, np.zeros((1, 32), np.uint8))
        >>> len(encode_rows(chunk)) == 2 + 12 + 12 + 36 + 4 + (4 + 4 + 8) + 5 + 4 + 4
        True
    """
    fixed = _fixed(chunk)
    width = fixed.dtype.itemsize
    block = memoryview(fixed.tobytes())
    ids = _sized(chunk.ids)
    texts = _sized(chunk.texts) if chunk.texts is not None else [_NULL] * len(ids)
    metadata = _sized(chunk.metadata, version=b"\1") if chunk.metadata is not None else [_NULL] * len(ids)
    parts: list[bytes | memoryview] = []
    for row, (name, text, data) in enumerate(zip(ids, texts, metadata, strict=True)):
        parts += (block[row * width : (row + 1) * width], name, text, data)
    return b"".join(parts)


def _fixed(chunk: RowChunk) -> np.ndarray:
    """Lay out the columns of fixed width."""
    count, width = chunk.vectors.shape
    fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [("columns", ">i2")]
    fields += [("position_size", ">i4"), ("position", ">i8"), ("norm_size", ">i4"), ("norm", ">f8")]
    fields += [("hash_size", ">i4"), ("hash", "u1", (32,)), ("length_size", ">i4")]
    if chunk.lengths is not None:
        fields += [("length", ">f8")]
    fields += [("vector_size", ">i4"), ("vector_width", ">u2"), ("vector_flags", ">u2"), ("vector", ">f4", (width,))]
    rows = np.zeros(count, dtype=np.dtype(fields))
    rows["columns"] = len(column_names())
    rows["position_size"], rows["position"] = 8, chunk.position
    rows["norm_size"], rows["norm"] = 8, chunk.norms
    rows["hash_size"], rows["hash"] = 32, chunk.hashes
    rows["length_size"] = -1 if chunk.lengths is None else 8
    if chunk.lengths is not None:
        rows["length"] = chunk.lengths
    rows["vector_size"], rows["vector_width"], rows["vector"] = 4 + 4 * width, width, chunk.vectors
    return rows


def _sized(values: Sequence[str | None], *, version: bytes = b"") -> list[bytes]:
    """Return each text with its size before it; jsonb has a version byte between."""
    result = []
    for value in values:
        if value is None:
            result.append(_NULL)
            continue
        data = version + value.encode("utf-8")
        result.append(len(data).to_bytes(4, "big") + data)
    return result
