"""What indexes on servers share: hits as they come back, their order, the answer made of them, and the check of an exact one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import WorkError
from normwise.core.index_records import IndexManifest
from normwise.index.protocol import Found
from normwise.index.request import BuildRequest
from normwise.index.self_test import exact_keys

# Fetched beyond the k-th place, so that what ties with it, or nearly, is seen.
SPARE = 4
_UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True)
class Hit:
    """A candidate that one query found; `key` = direction of the query . stored vector."""

    id: str
    key: float
    norm: float
    length: float | None
    position: int


def rounding(dimensions: int) -> float:
    """The worst rounding of a float32 product of a unit vector with one of norm 1: (D + 16) 2^-24.

    Example:
        >>> rounding(384) < 3e-5
        True
    """
    return (dimensions + 16) * _UNIT_ROUNDOFF


def settled_keys(vectors: np.ndarray, direction: np.ndarray, positions: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Score found vectors in float64, round to float32, and order them: best first, ties in the order of adding.

    Args:
        vectors: (n, D) stored vectors.
        direction: (D,) float64 direction of the query.
        positions: n places in the order of adding.

    Returns:
        (n,) float64 keys and (n,) places in their order.

    Example:
        >>> keys, order = settled_keys(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.array([1.0, 0.0]), [7, 8, 3])
        >>> order.tolist()
        [1, 2, 0]
    """
    # A reduction over a contiguous last axis depends on that row's values only: copies get equal keys. Adding 0 turns -0 into 0.
    keys = np.add.reduce(vectors.astype(np.float64) * direction, axis=1).astype(np.float32).astype(np.float64) + 0.0
    return keys, np.lexsort((positions, -keys))


def found_of(hits: list[list[Hit]], *, k: int, scale: np.ndarray, with_lengths: bool) -> Found:
    """Put the first k hits of each query into arrays; a score is the key times `scale`, the query's norm where the similarity has it."""
    shape = (len(hits), k)
    ids = np.full(shape, None, dtype=object)
    scores, norms = np.full(shape, -np.inf), np.zeros(shape)
    lengths = np.zeros(shape) if with_lengths else None
    for query, whole in enumerate(hits):
        row = whole[:k]
        count = len(row)
        ids[query, :count] = [hit.id for hit in row]
        scores[query, :count] = np.array([hit.key for hit in row]) * scale[query]
        norms[query, :count] = [hit.norm for hit in row]
        if lengths is not None:
            lengths[query, :count] = [hit.length for hit in row]
    counts = np.array([min(k, len(row)) for row in hits], dtype=np.int64)
    return Found(ids, scores, norms, counts, lengths)


def manifest_now(manifest: IndexManifest, *, candidates: int, vectors: str, texts: str | None, kinds: Mapping[str, type]) -> IndexManifest:
    """The manifest of an index with the corpus that it has now."""
    update = {"candidates": candidates, "corpus_vectors": vectors, "corpus_texts": texts, "metadata_keys": tuple(sorted(kinds))}
    return manifest.model_copy(update=update)


def check_exact(request: BuildRequest, hits: list[list[Hit]], *, largest_key: float, where: str) -> None:
    """Refuse a server whose exact search finds anything else than the best, beyond what rounding of stored vectors explains.

    Raises:
        WorkError: it does.
    """
    test, contents = request.test, request.contents
    row_of = {name: row for row, name in enumerate(contents.ids)}
    rows = np.array([[row_of.get(hit.id, -1) for hit in row] for row in hits], dtype=np.int64)
    keys = exact_keys(test.queries, contents.vectors, rows, similarity=test.similarity)
    if not (keys >= test.floor[:, None] - rounding(contents.dimensions) * largest_key).all():
        raise WorkError(f"exact search of {where} did not find the best candidates: its software is broken, or what was loaded was changed")
