"""Pairs of a query and a row of the pool that are no negatives, and queries that have too few left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.vector_copies import HALF_PRECISION, find_copies

# Of what chance pairs are apart: where an encoder tells vectors by less than half precision can, rows that differ are no copies.
_SHARE, _CHANCE, _QUANTILE = 0.1, 2_000, 0.95
_MOST_PAIRS = 50_000_000
_NAMED = 3
_FEW = 0.05
# A pool with fewer copies has intervals as wide as they should be, near enough.
_DISTINCT = 0.99


@dataclass(frozen=True)
class Masked:
    """Pairs that are no negatives.

    Args:
        rows: (P,) of queries, ascending.
        places: (P,) of the pool.
        rounded: (P,) whether the place is a copy of the query's positive but for rounding.
        distinct: how many rows of the pool differ from each other.
    """

    rows: np.ndarray
    places: np.ndarray
    rounded: np.ndarray
    distinct: int

    def many(self, queries: int) -> np.ndarray:
        """(B,) how many of each query."""
        return np.bincount(self.rows, minlength=queries)

    def of(self, kept: np.ndarray, *, size: int | None = None) -> Masked:
        """Those of some queries, and of the first `size` of the pool; queries are numbered anew."""
        here = kept[self.rows]
        if size is not None:
            here &= self.places < size
        return replace(self, rows=(np.cumsum(kept) - 1)[self.rows[here]], places=self.places[here], rounded=self.rounded[here])


def reach_of(own: np.ndarray, others: np.ndarray, *, seed: int) -> float:
    """How near copies are, relative to a positive's length: as half precision moves vectors, or less where all lie that near."""
    random = np.random.default_rng([seed, 8])
    first, second = own[random.integers(len(own), size=_CHANCE)], others[random.integers(len(others), size=_CHANCE)]
    apart = np.linalg.norm(first.astype(np.float64) - second, axis=1)
    length = np.linalg.norm(first.astype(np.float64), axis=1)
    there = length > 0.0
    if not there.any():
        return 0.0
    return min(HALF_PRECISION, _SHARE * float(np.quantile(apart[there] / length[there], _QUANTILE)))


def find_masked(
    own: np.ndarray,
    others: np.ndarray,
    *,
    within: float,
    places: Sequence[np.ndarray] | None = None,
    pool: str,
) -> Masked:
    """Find rows of the pool that are copies of a query's positive, or relevant to it.

    Args:
        own: (B, D) positives, as they are scored.
        others: (M, D) the pool, likewise.
        within: how near copies are, relative to the positive's length.
        places: of what is relevant to each query, beside.
        pool: what messages call the pool.

    Raises:
        InputError: more pairs than memory has room for.
    """
    found = find_copies(own, others, within=within)
    total = int(found.counts().sum())
    if total > _MOST_PAIRS:
        raise InputError(
            f"{total:,} pairs of a query and a row of {pool} are no negatives, since that row is a copy of its positive: "
            f"expected {_MOST_PAIRS:,} at most; give a pool without copies, or a lower limit_queries or limit_pool"
        )
    rows, at, equal = found.pairs()
    width = len(others)
    copies = rows * width + at
    keys, rounded = copies, ~equal
    if places is not None and any(each.size for each in places):
        keys = np.union1d(copies, np.concatenate([each + row * width for row, each in enumerate(places)]).astype(np.int64))
        rounded = np.zeros(keys.size, dtype=bool)
        rounded[np.searchsorted(keys, copies)] = ~equal
    rows, at = np.divmod(keys, width)
    return Masked(rows, at, rounded, found.distinct)


def enough_left(left: np.ndarray) -> np.ndarray:
    """(B,) which queries have negatives enough that the curve of all need not end at theirs.

    Equation: left >= half of the 5% quantile of those that have any; fewer than a twentieth of these have less.

    Example:
        >>> enough_left(np.array([3, 0, *[100] * 40])).nonzero()[0].tolist() == list(range(2, 42))
        True
    """
    some = left > 0
    if not some.any():
        return some
    return some & (left >= np.quantile(left[some], _FEW, method="lower") / 2.0)


def left_out_note(kept: np.ndarray, many: np.ndarray, names: Sequence[str], *, size: int, what: str) -> str:
    """Say how many queries are left out, the first of them, and why.

    Args:
        kept: (B,) which queries stay.
        many: (B,) rows of the pool that are none of each query's negatives.
        names: of the first that are left out.
        size: of the pool.
        what: those rows are.
    """
    gone = np.flatnonzero(~kept)
    told = [f"{name} ({many[row]:,} of {size:,} rows of the pool {what})" for name, row in zip(names, gone, strict=False)]
    first = "" if gone.size == len(told) else "the first: "
    return f"{gone.size:,} of {kept.size:,} queries have next to no negatives and were left out of everything: {first}{', '.join(told)}"


def first_names(kept: np.ndarray, rows: np.ndarray) -> list[int]:
    """Rows of what was given, of the first few queries that are left out."""
    return rows[np.flatnonzero(~kept)[:_NAMED]].tolist()


def cut_note(left: np.ndarray, size: int) -> str | None:
    """Say that even what is left cuts the curve for all."""
    least = int(left.min())
    if least >= size / 2.0:
        return None
    return (
        f"the curve ends at {least:,} of {size:,} in the pool: the other rows are copies of the positive of at least one query, or "
        "relevant to it, and no negatives of that query"
    )


def copy_notes(masked: Masked, size: int, *, own: int, judged: bool) -> list[str]:
    """Say what is masked beside a query's own row of a batch, and that rows of the pool are copies of each other.

    Args:
        masked: of the queries that stay.
        size: of the pool.
        own: queries whose own positive is a row of the pool, since it is a batch.
        judged: whether relevant rows are known.
    """
    notes = []
    if (many := len(masked.rows) - own) > 0:
        what = "a copy of its own positive" if own else "its own positive, or another relevant row," if judged else "its own positive"
        rounded = int(masked.rounded.sum())
        more = f" ({rounded:,} of them are copies but for rounding)" if rounded else ""
        notes.append(f"{many:,} pairs of a query and {what} in the pool are no negatives: masked{more}")
    if masked.distinct < _DISTINCT * size:
        notes.append(
            f"of {size:,} rows of the pool only {masked.distinct:,} differ from each other, and each row is taken as a draw of its own: "
            "intervals are too narrow"
        )
    return notes


def equal_note(queries: np.ndarray, positives: np.ndarray, *, lengths: tuple[np.ndarray, np.ndarray]) -> list[str]:
    """Say how many queries are their own positive, as they are where one file was given twice."""
    apart = queries.astype(np.float64) / _unit(queries) - positives.astype(np.float64) / _unit(positives)
    near = np.linalg.norm(apart, axis=1) <= HALF_PRECISION
    near &= np.abs(lengths[0] - lengths[1]) <= HALF_PRECISION * lengths[0]
    equal = int(near.sum())
    if not equal:
        return []
    return [f"{equal:,} of {len(queries):,} queries are equal to their own positive: with one vector for both there is nothing to find"]


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.where(lengths == 0.0, 1.0, lengths)
