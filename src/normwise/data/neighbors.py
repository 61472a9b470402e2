"""Near-duplicate texts by Jaccard similarity of token shingles (MinHash with banding, then the exact figure)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

_TOKEN = re.compile(r"[^\W\d]\w*|\d+|[^\s\w]")
_BANDS, _ROWS = 20, 4
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def shingles(text: str, numbers: dict[str, int], *, width: int = 5) -> np.ndarray:
    """Distinct hashes of all runs of `width` tokens; whitespace and everything after # on a line do not count.

    Args:
        text: code or prose.
        numbers: token -> number, shared by all texts of one comparison and filled here.
        width: tokens per shingle; a shorter text has one shingle.

    Returns:
        (S,), uint64, sorted.
    """
    words = _TOKEN.findall(re.sub(r"#.*", "", text))
    ids = np.asarray([numbers.setdefault(word, len(numbers) + 1) for word in words] or [0], dtype=np.uint64)
    if len(ids) < width:
        ids = np.pad(ids, (0, width - len(ids)))
    total = np.zeros(len(ids) - width + 1, dtype=np.uint64)
    for place in range(width):
        total = (total ^ ids[place : place + len(total)]) * _PRIME
        total ^= total >> np.uint64(29)
    return np.unique(total)


def keep_distinct(texts: Sequence[str], *, threshold: float = 0.7) -> np.ndarray:
    """Keep a text unless an earlier kept one is a near-duplicate: Jaccard |A & B| / |A | B| of their shingles >= threshold.

    Candidates are found by MinHash (20 bands of 4): a pair exactly at similarity s is compared with probability
    1 - (1 - s^4)^20, above 0.99 from s = 0.7 on. Deterministic.

    Args:
        texts: in order of preference.
        threshold: in (0, 1].

    Returns:
        (n,), bool.

    Example:
        >>> keep_distinct(["a = f(b, c, d)", "a = f(b,  c, d)  # same", "while x: y(z)"]).tolist()
        [True, False, True]
    """
    rng = np.random.default_rng(7)
    factors = rng.integers(1, 2**63, size=(_BANDS * _ROWS, 1), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = rng.integers(0, 2**63, size=(_BANDS * _ROWS, 1), dtype=np.uint64)
    numbers: dict[str, int] = {}
    tables: list[dict[bytes, list[int]]] = [{} for _ in range(_BANDS)]
    kept_sets: dict[int, np.ndarray] = {}
    keep = np.ones(len(texts), dtype=bool)
    for row, text in enumerate(texts):
        mine = shingles(text, numbers)
        mixed = mine[None, :] * factors + offsets
        sketch = (mixed ^ (mixed >> np.uint64(31))).min(axis=1).reshape(_BANDS, _ROWS)
        keys = [band.tobytes() for band in sketch]
        near = {other for table, key in zip(tables, keys, strict=True) for other in table.get(key, ())}
        if any(jaccard(mine, kept_sets[other]) >= threshold for other in sorted(near)):
            keep[row] = False
            continue
        kept_sets[row] = mine
        for table, key in zip(tables, keys, strict=True):
            table.setdefault(key, []).append(row)
    return keep


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Jaccard similarity of two sorted arrays of distinct values.

    Example:
        >>> jaccard(np.array([1, 2, 3]), np.array([2, 3, 4]))
        0.5
    """
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)
