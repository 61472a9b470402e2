"""Which rows of two sets of vectors are copies of each other: bit for bit, or but for storage in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.directions import exact_norms, row_chunks

# bfloat16 moves no value by more than 2^-9 of it, hence no vector by more than 2^-9 of its length; two of them, by twice that.
HALF_PRECISION = 4e-3
# A projection on so few orthonormal directions lengthens no distance, and where they are drawn without a look at the vectors, it leaves
# of a squared one about 8 / D: more than 48 / D once in ten million times (chi squared with 8 degrees of freedom).
_SHADOW, _TAIL = 8, 48.0
# Pairs measured at once.
_PAIRS = 1 << 16
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Copies:
    """Rows of a first and of a second set that are copies of each other.

    Args:
        first: (A,) a number of each row of the first set, from 0 on; equal where rows are, bit for bit.
        second: (B,) likewise of the second set; what is equal to a row of the first has its number.
        near: (L, 2) numbers of a row of the first and one of the second that are near, and not equal.
    """

    first: Int[np.ndarray, " A"]
    second: Int[np.ndarray, " B"]
    near: Int[np.ndarray, "L 2"]

    @property
    def distinct(self) -> int:
        """How many rows of the second set differ from each other."""
        return np.unique(self.second).size

    def counts(self) -> Int[np.ndarray, " A"]:
        """How many rows of the second set are copies of each row of the first."""
        many = np.bincount(self.second, minlength=self._numbers)
        by_number = many.copy()
        np.add.at(by_number, self.near[:, 0], many[self.near[:, 1]])
        return by_number[self.first]

    def pairs(self) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"], Bool[np.ndarray, " P"]]:
        """Row of the first, row of the second, and whether they are equal bit for bit, of all copies, sorted."""
        both = np.intersect1d(self.first, self.second)
        links = np.concatenate([np.stack([both, both], axis=1), self.near])
        rows, row_starts, row_counts = self._grouped(self.first)
        places, place_starts, place_counts = self._grouped(self.second)
        wide = place_counts[links[:, 1]]
        many = row_counts[links[:, 0]] * wide
        which = np.repeat(np.arange(len(links)), many)
        within = np.arange(which.size) - np.repeat(np.cumsum(many) - many, many)
        row = rows[row_starts[links[which, 0]] + within // wide[which]]
        place = places[place_starts[links[which, 1]] + within % wide[which]]
        order = np.argsort(row * self.second.size + place)
        return row[order], place[order], (which < both.size)[order]

    @property
    def _numbers(self) -> int:
        return int(max(self.first.max(initial=-1), self.second.max(initial=-1))) + 1

    def _grouped(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows in order of their numbers; where those of each number start, and how many there are."""
        counts = np.bincount(numbers, minlength=self._numbers)
        return np.argsort(numbers, kind="stable"), np.cumsum(counts) - counts, counts


def find_copies(first: Float[np.ndarray, "A D"], second: Float[np.ndarray, "B _"], *, within: float = HALF_PRECISION) -> Copies:
    """Find rows b of a second set that are copies of rows a of a first one, without a product of the two.

    Equation: ||a - b|| <= within ||a||; a zero vector has equal copies alone.

    How: equal rows get one number, from a hash of 128 bits. Rows that differ are projected onto 8 orthonormal directions that were drawn
    once; a tree of the projections tells which may be near, and these are measured. Of near pairs in more than 48 dimensions, one in
    ten million may be missed; nothing else is ever taken for a copy.

    Args:
        first: (A, D) finite vectors, of float32 or in its range.
        second: (B, D) likewise.
        within: of the length of a, >= 0; the default covers vectors that were stored in float16 or bfloat16. 0 finds equal rows alone.

    Returns:
        The copies, in groups: where one row is there many times, pairs of its copies are many.

    Raises:
        InputError: widths differ, or a value is not finite.

    Example:
        >>> x = np.array([[1.0, 2.0], [3.0, -1.0]])
        >>> found = find_copies(x, np.concatenate([x, x.astype(np.float16) * 1.001]))
        >>> [part.tolist() for part in found.pairs()]
        [[0, 0, 1, 1], [0, 2, 1, 3], [True, False, True, False]]
    """
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise InputError(f"first has shape {first.shape}, second {second.shape}; expected rows of one width")
    lengths = exact_norms(first, name="first")
    exact_norms(second, name="second")
    known: dict[bytes, int] = {}
    numbers = [_numbered(each, known, np.result_type(first, second)) for each in (first, second)]
    rows, places = (np.unique(each, return_index=True)[1] for each in numbers)
    found = [np.empty((0, 2), dtype=np.int64)]
    for some, others in _candidates(first, second, rows, places, within * lengths):
        differ = first[some].astype(np.float64) - second[others]
        near = np.sqrt(np.vecdot(differ, differ)) <= within * lengths[some]
        pairs = np.stack([numbers[0][some[near]], numbers[1][others[near]]], axis=1)
        found.append(pairs[pairs[:, 0] != pairs[:, 1]])
    return Copies(numbers[0], numbers[1], np.concatenate(found))


def kinds_of(vectors: Float[np.ndarray, "N D"], *, within: float = HALF_PRECISION) -> Int[np.ndarray, " N"]:
    """Return (N,) numbers from 0 on, equal where rows are copies, or copies of copies, as in `find_copies`.

    Example:
        >>> kinds_of(np.array([[1.0, 0.0], [0.0, 1.0], [1.001, 0.0]])).tolist()
        [0, 1, 0]
    """
    found = find_copies(vectors, vectors, within=within)
    many = int(found.first.max(initial=-1)) + 1
    near = coo_array((np.ones(len(found.near)), (found.near[:, 0], found.near[:, 1])), shape=(many, many))
    return connected_components(near, directed=False)[1].astype(np.int64)[found.first]


def _numbered(vectors: np.ndarray, known: dict[bytes, int], dtype: np.dtype) -> np.ndarray:
    """Numbers that are equal where rows are, bit for bit but for the sign of 0."""
    found = np.empty(len(vectors), dtype=np.int64)
    for chunk in row_chunks(*vectors.shape):
        block = np.ascontiguousarray(vectors[chunk].astype(dtype) + dtype.type(0.0))
        found[chunk] = [known.setdefault(blake2b(row, digest_size=16).digest(), len(known)) for row in block]
    return found


def _candidates(
    first: np.ndarray, second: np.ndarray, rows: np.ndarray, places: np.ndarray, reach: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and places whose projections are near."""
    width = first.shape[1]
    if not (rows.size and places.size and width):
        return
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(width, min(_SHADOW, width))))[0]
    shadow, others = _projected(first, rows, axes), _projected(second, places, axes)
    tree = KDTree(others)
    # The rounding of a projection must not hide a copy; giants have more of it.
    wide = reach[rows] * min(1.0, np.sqrt(_TAIL / width)) * (1.0 + _ROUNDING) + _ROUNDING * np.linalg.norm(shadow, axis=1)
    many = np.asarray(tree.query_ball_point(shadow, wide, return_length=True))
    some = np.flatnonzero(many)
    parts = np.cumsum(many[some]) // _PAIRS
    for part in np.unique(parts):
        here = some[parts == part]
        near = tree.query_ball_point(shadow[here], wide[here])
        yield np.repeat(rows[here], many[here]), places[np.concatenate([np.asarray(each, dtype=np.int64) for each in near])]


def _projected(vectors: np.ndarray, rows: np.ndarray, axes: np.ndarray) -> np.ndarray:
    found = np.empty((rows.size, axes.shape[1]))
    for chunk in row_chunks(rows.size, vectors.shape[1]):
        found[chunk] = vectors[rows[chunk]].astype(np.float64) @ axes
    return found
