"""Hashes of the values of a table, also as they are after rounding to a narrower type: copies are found without a table being held."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Literal, final, get_args

import numpy as np

Narrow = Literal["float32", "float16", "bfloat16"]
NARROW: tuple[Narrow, ...] = get_args(Narrow)


def rounded(values: np.ndarray, kind: Narrow) -> np.ndarray:
    """Values rounded to the nearest number of a narrower type, ties to the even one, and cast up to float32 again.

    float64 goes through float32, as torch does. What is too large for the type becomes infinite.

    Example:
        >>> rounded(np.array([1.0 + 2**-8, 1.0 + 3 * 2**-8, 70000.0], dtype=np.float32), "bfloat16").tolist()
        [1.0, 1.015625, 70144.0]
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32, copy=False)
        if kind == "float32":
            return single
        if kind == "float16":
            return single.astype(np.float16).astype(np.float32)
    # bfloat16 is the upper half of a float32: half of its last bit is added, or just less than half where that bit is even.
    bits = np.ascontiguousarray(single).view(np.uint32)
    return ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) & np.uint32(0xFFFF0000)).view(np.float32)


def fits(values: np.ndarray, kind: Narrow) -> bool:
    """Whether every value is one of a narrower type: such a table may be another's, rounded.

    Example:
        >>> fits(np.array([0.5, 1e-3], dtype=np.float32), "float16"), fits(np.array([0.5, 2.0**-24], dtype=np.float32), "float16")
        (False, True)
    """
    return bool(_same(rounded(values, kind), values).all())


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one == other


@final
class TableDigest:
    """The hash of a table that comes in blocks of rows, equal for equal values whatever type they are stored in; a zero has no sign.

    Args:
        shape: (V, D).
        kinds: narrower types whose rounding is hashed, too.
    """

    def __init__(self, shape: tuple[int, int], kinds: Collection[Narrow] = ()) -> None:
        start = blake2b(f"{shape[0]} {shape[1]}".encode(), digest_size=16)
        # A float64 table whose values are all float32 ones is hashed as such, and which it is is known at its end.
        self._hash, self._double, self._is_double = start, start.copy(), False
        self.kinds = tuple(kinds)
        self._rounded: dict[Narrow, blake2b | None] = dict.fromkeys(kinds)
        self._fitting, self._beyond, self.zero = set(kinds), set[Narrow](), True

    def update(self, block: np.ndarray) -> None:
        """Add the next rows, finite."""
        self.zero = self.zero and not block.any()
        single = rounded(block, "float32")
        if block.dtype.itemsize > 4:
            self._is_double = self._is_double or not _same(single, block).all()
            self._double.update((block + 0.0).tobytes())
        for kind in self._rounded:
            self._update_rounded(kind, single)
        self._hash.update((single + np.float32(0.0)).tobytes())

    def _update_rounded(self, kind: Narrow, single: np.ndarray) -> None:
        if kind in self._beyond:
            return
        narrow = rounded(single, kind)
        if kind in self._fitting and (self._is_double or not _same(narrow, single).all()):
            self._fitting.discard(kind)
            # So far its rounding changed nothing: the two hashes were one.
            self._rounded[kind] = self._hash.copy()
        if kind in self._fitting:
            return
        if not np.isfinite(narrow).all():
            self._beyond.add(kind)
        else:
            own = self._rounded[kind]
            if own is not None:
                own.update((narrow + np.float32(0.0)).tobytes())

    @property
    def exact(self) -> str:
        """The hash of the values."""
        return f"double {self._double.hexdigest()}" if self._is_double else self._hash.hexdigest()

    def narrow(self, kind: Narrow) -> str | None:
        """The hash of the rounded values, comparable with `exact`; None where one of them is too large for the type."""
        own = self._rounded[kind]
        return None if kind in self._beyond else self._hash.hexdigest() if own is None else own.hexdigest()

    def fits(self, kind: Narrow) -> bool:
        """Whether all values are of the narrower type."""
        return kind in self._fitting
