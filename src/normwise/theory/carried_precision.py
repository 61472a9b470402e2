"""How precisely stored numbers are known, told by the numbers themselves: a file's type is only the finest it can be.

Numbers keep the trace of what they went through: bfloat16 copied into float32 ends in sixteen zero bits, a printed number
has few decimals, a quantized one meets its like too often, and a unit vector of rounded numbers has not quite length 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float

_SINGLE = 2.0**-23
_NAMES = {2.0**-52: "float64", _SINGLE: "float32", 2.0**-10: "float16", 2.0**-7: "bfloat16"}
# A trace is believed when it would come by chance in fewer than one row of 2^24.
_BELIEVED = 24.0
_FIRST = 24
_WIDEST = 300.0


@dataclass(frozen=True)
class CarriedPrecision:
    """How far rounding can have moved each value u of a row: max(|u| relative, least) + step; arrays (n,).

    `epsilon` is the distance from 1 to the next number that the row's values use; `decimals` and `digits` are how many
    decimals or significant digits they were written with, 0 where they were not; `stored` is epsilon of the type they are
    given in.
    """

    epsilon: np.ndarray
    relative: np.ndarray
    least: np.ndarray
    step: np.ndarray
    decimals: np.ndarray
    digits: np.ndarray
    stored: float

    def errors(self, values: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        """The largest error of each value, (n, D) -> (n, D)."""
        return np.maximum(np.abs(values) * self.relative[:, None], self.least[:, None]) + self.step[:, None]

    def name(self, row: int) -> str:
        """What the values of a row carry: a type, bits, decimals or digits."""
        digits, decimals = int(self.digits[row]), int(self.decimals[row])
        # Numbers of k decimals have at most k digits below 1, and those of k digits far more decimals.
        if digits and (not decimals or decimals > digits + 2):
            return f"{digits} significant digits"
        return f"{decimals} decimals" if decimals else precision_name(float(self.epsilon[row]))


def precision_name(epsilon: float) -> str:
    """Name a precision by its epsilon.

    Example:
        >>> precision_name(2.0**-7), precision_name(2.0**-5)
        ('bfloat16', '6 significant bits')
    """
    return _NAMES.get(epsilon, f"{1 - round(math.log2(epsilon))} significant bits")


def carried_precision(values: Float[np.ndarray, "n D"], *, epsilon: float | None = None) -> CarriedPrecision:
    """Find how precisely the values of each row are known, from their bits and their decimals.

    Equations: with z the number of low bits that are zero in every value of a row, its epsilon is 2^z times the type's, and
    2^t, the smallest bit that is set anywhere in it (the type's smallest number, unless values end above their last bit), is
    the least that small values lost. Rounding to nearest moves u by max(|u| epsilon, 2^t) / 2; where the row shows a coarser
    type than is known, bits may have been cut off, which doubles it. Numbers that all equal themselves at k decimals moved by
    10^-k / 2 more, at k significant digits by 10^(1 - k) |u| / 2 more. A trace counts only where chance leaves it in fewer
    than one row of 2^24, so that rows of very few values show nothing.

    Rounding that other arithmetic followed is not seen here: see `distinct_levels`, and lengths of unit vectors.

    Args:
        values: (n, D) finite float16, float32 or float64.
        epsilon: of a coarser type that they are known to have passed.

    Returns:
        The precision of each row.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(2, 64)).astype(np.float32)
        >>> x[1] = x[1].astype(np.float16)
        >>> found = carried_precision(x)
        >>> found.name(0), found.name(1)
        ('float32', 'float16')
        >>> carried_precision(np.round(x, 3)).name(0)
        '3 decimals'
    """
    own = float(np.finfo(values.dtype).eps)
    stored = max(own, epsilon or 0.0)
    seen, smallest = _bits(values)
    known = np.maximum(seen, stored)
    # A type that is known rounded to nearest; whoever left the other traces may have dropped the bits.
    share = np.where(known > stored, 1.0, 0.5)
    wide = values.astype(np.float64)
    decimals, digits = _written(values, wide, known, digits=False), _written(values, wide, known, digits=True)
    relative, step = known * share, np.zeros(len(values))
    if values.dtype == np.float64:
        # Few digits in a float64 were printed from a float32 as a rule, whose own rounding came first.
        printed = ((decimals > 0) | (digits > 0)) & (known < _SINGLE)
        relative = np.where(printed, _SINGLE, relative)
    relative = relative + np.where(digits > 0, 0.5 * 10.0 ** (1.0 - digits), 0.0)
    step = np.where(decimals > 0, 0.5 * 10.0 ** -np.maximum(decimals, 1.0), 0.0)
    least = np.maximum(smallest, float(np.finfo(values.dtype).smallest_subnormal)) * share
    return CarriedPrecision(known, relative, least, step, decimals, digits, stored)


def distinct_levels(values: Float[np.ndarray, "n D"], *, epsilon: float) -> float | None:
    """Tell on how few different numbers the values lie, by how often they meet; None where not oftener than their type makes them.

    Equation: two values drawn from L equally frequent numbers are equal with chance 1 / L, so L is pairs over equal pairs,
    counted once among the sizes within each row (one scale per row or for all) and once within each column (one scale per
    dimension); the smaller counts. A scale per row does not hide what was coarse before it; a scale per row and one per
    column together do.

    Args:
        values: (n, D) distinct rows; some hundred are enough. Zeros are left out.
        epsilon: that they are known to carry, which explains meetings of its own.

    Returns:
        L, or None.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(20, 64))
        >>> distinct_levels(x, epsilon=2.0**-52) is None, distinct_levels(np.rint(x * 30.0) / 7.0, epsilon=2.0**-52) < 256
        (True, True)
    """
    rarest = max(2.0**-15, 8.0 * epsilon)
    found = []
    for lists in (np.abs(values), values.T):
        equal = pairs = 0
        for some in lists:
            counts = np.unique(some[some != 0.0], return_counts=True)[1]
            equal += int((counts * (counts - 1)).sum()) // 2
            pairs += int(counts.sum()) * (int(counts.sum()) - 1) // 2
        # A handful may be chance.
        if equal >= 8 and equal > rarest * pairs:
            found.append(pairs / equal)
    return min(found, default=None)


def _bits(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Epsilon by the low bits that no value of a row uses, and the smallest bit that one does, as numbers (n,)."""
    wide = values.dtype == np.float64
    kind, places, bias = (np.uint64, 52, 1075) if wide else (np.uint32, 23, 150)
    bits = np.ascontiguousarray(values, dtype=np.float64 if wide else np.float32).view(kind)
    exponents = (bits >> kind(places)) & kind(0x7FF if wide else 0xFF)
    whole = kind(1 << places)
    significands = (bits & kind((1 << places) - 1)) | np.where(exponents > 0, whole, kind(0))
    shared = np.bitwise_or.reduce(significands, axis=1) | whole
    lowest = shared & (~shared + kind(1))
    zeros = np.log2(lowest.astype(np.float64))
    counted = (significands > 0).sum(axis=1)
    zeros[zeros * counted < _BELIEVED] = 0.0
    # Of each value: where its type's last bit stands, and where the last one that it sets.
    last = np.where(significands > 0, np.maximum(exponents, kind(1)).astype(np.float32) - np.float32(bias), np.float32(np.inf))
    low = (significands & (~significands + kind(1))).astype(np.float32)
    used = np.where(significands > 0, last + np.log2(np.maximum(low, np.float32(1.0))), np.float32(np.inf)).min(axis=1)
    unused = np.maximum(np.where(np.isfinite(used), used, -np.inf)[:, None] - last, 0.0).sum(axis=1)
    smallest = np.where(unused >= _BELIEVED, 2.0 ** used.astype(np.float64), 0.0)
    return 2.0 ** (zeros - places), smallest


def _written(values: np.ndarray, wide: np.ndarray, epsilon: np.ndarray, *, digits: bool) -> np.ndarray:
    """With how few decimals (or significant digits) every value of a row can be written, (n,); 0 where that is no trace."""
    double = values.dtype == np.float64
    most = (15 if double else 7) if digits else (15 if double else 12)
    found = np.zeros(len(values), dtype=np.int64)
    left = np.arange(len(values))
    # Small values tell most.
    first = np.partition(np.abs(values), min(_FIRST, values.shape[1]) - 1, axis=1)[:, :_FIRST]
    wide_first = first.astype(np.float64)
    for count in range(1, most + 1):
        likely = left[_equal(first[left], wide_first[left], count, digits=digits)[0].all(axis=1)]
        if not likely.size:
            continue
        equal, scale = _equal(values[likely], wide[likely], count, digits=digits)
        finest = np.abs(wide[likely]) * epsilon[likely, None] * scale
        with np.errstate(divide="ignore"):
            chance = np.where(finest > 0.0, np.log2(np.minimum(finest, 1.0)), 0.0).sum(axis=1)
        told = likely[equal.all(axis=1) & (chance < -_BELIEVED)]
        found[told] = count
        left = left[found[left] == 0]
    return found


def _equal(values: np.ndarray, wide: np.ndarray, count: int, *, digits: bool) -> tuple[np.ndarray, np.ndarray]:
    scale = np.full(wide.shape, float(count))
    if digits:
        size = np.abs(wide)
        scale -= 1.0 + np.floor(np.log10(np.where(size > 0.0, size, 1.0)))
    scale = 10.0 ** np.clip(scale, -_WIDEST, _WIDEST)
    back = np.rint(wide * scale) / scale
    if values.dtype != np.float64:
        return back.astype(values.dtype) == values, scale
    # Powers of ten beyond 10^22 are not exact.
    return np.abs(back - wide) <= 2.0**-51 * np.abs(wide), scale
