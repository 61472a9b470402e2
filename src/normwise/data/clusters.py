"""Which queries depend on each other: connected components over shared targets and source files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components


def components(keys: Sequence[Iterable[Hashable]]) -> np.ndarray:
    """Number the connected components of items that are joined whenever they share a key.

    Args:
        keys: for each of n items, what it depends on (targets, source files); an item without keys stands alone.

    Returns:
        (n,), int64, numbered 0, 1, ... in order of first appearance.

    Example:
        >>> components([["a"], ["b"], ["a", "c"], ["c"], []]).tolist()
        [0, 1, 0, 0, 2]
    """
    count = len(keys)
    numbers: dict[Hashable, int] = {}
    items: list[int] = []
    columns: list[int] = []
    for item, mine in enumerate(keys):
        for key in mine:
            items.append(item)
            columns.append(numbers.setdefault(key, len(numbers)))
    size = count + len(numbers)
    edges = coo_matrix((np.ones(len(items), dtype=np.int8), (items, np.asarray(columns, dtype=np.int64) + count)), shape=(size, size))
    _, labels = connected_components(edges, directed=False)
    return renumber(labels[:count])


def renumber(labels: np.ndarray) -> np.ndarray:
    """Number labels 0, 1, ... in order of first appearance.

    Example:
        >>> renumber(np.array([7, 3, 7])).tolist()
        [0, 1, 0]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]
