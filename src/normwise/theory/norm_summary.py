"""The norms of any number of vectors: one pass in blocks, then exact figures of their distribution."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.stats import skew

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.directions import exact_norms

QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
BINS = 60
_BLOCK_VALUES = 1 << 22
# Unit vectors of half-precision models leave 1 by about this much; no norm that is free to move stays as near.
_UNIT = 1e-3


@runtime_checkable
class Rows(Protocol):
    """Rows of vectors that need not be in memory: a shape, a type, and blocks or chosen rows on demand, as a memory map has."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D)."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The floating type of what comes out."""
        ...

    def __getitem__(self, key: Any, /) -> np.ndarray:
        """Rows of a slice, or those an array of row numbers names."""
        ...


@dataclass(frozen=True)
class RowScan:
    """What one pass over all rows found.

    `norms` (N,) float64, NaN where a value of the row is not finite. `infinite` and `nan` count such rows (a row with
    both counts as `nan`), `zero` rows of zeros, `repeated` (N,) marks rows that repeat an earlier one bit by bit.
    """

    norms: np.ndarray
    infinite: int
    nan: int
    zero: int
    repeated: np.ndarray

    @property
    def duplicates(self) -> int:
        """How many rows repeat an earlier one."""
        return int(self.repeated.sum())

    @property
    def distinct(self) -> np.ndarray:
        """(N,) whether the row is usable and the first of its kind: copies are no further evidence, and no held-out rows."""
        return self.usable & ~self.repeated

    @property
    def usable(self) -> np.ndarray:
        """(N,) whether the row has a positive, finite norm."""
        return self.norms > 0.0


def scan_rows(rows: Rows) -> RowScan:
    """Return the norm of every row and what is wrong with some, in one pass of blocks.

    Equal rows have bit-identical norms, so the norm is their first hash: only rows that share one are read again, and
    those are compared by a 64-bit hash of their bytes (chance of one false pair among n such rows: n^2 / 2^65).

    Args:
        rows: (N, D) floating vectors; at most about 4 million values are in memory at a time, beside 32 bytes per row.

    Returns:
        The scan.

    Raises:
        InputError: the shape is not two-dimensional, or a finite row has a norm beyond float64.

    Example:
        >>> found = scan_rows(np.array([[3.0, 4.0], [0.0, 0.0], [np.inf, 1.0], [3.0, 4.0]]))
        >>> found.norms.tolist(), found.infinite, found.zero, found.duplicates
        ([5.0, 0.0, nan, 5.0], 1, 1, 1)
    """
    if len(rows.shape) != 2:
        raise InputError(f"vectors have shape {rows.shape}; expected two dimensions: rows of vectors")
    lengths = np.empty(rows.shape[0], dtype=np.float64)
    infinite = nan = 0
    for part in row_blocks(*rows.shape):
        block = np.asarray(rows[part])
        try:
            # A norm beyond float64 is refused below in words.
            with np.errstate(over="ignore"):
                lengths[part] = exact_norms(block, name="vectors")
            continue
        except InputError:
            good = np.asarray(np.isfinite(block).all(axis=1))
            if good.all():
                raise
        has_nan = np.isnan(block).any(axis=1)
        nan += int(has_nan.sum())
        infinite += int((~good & ~has_nan).sum())
        lengths[part] = np.where(good, exact_norms(np.where(good[:, None], block, 0.0).astype(block.dtype), name="vectors"), np.nan)
    return RowScan(lengths, infinite, nan, int((lengths == 0.0).sum()), _repeated(rows, lengths))


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that hold about 4 million values each.

    Example:
        >>> [(s.start, s.stop) for s in row_blocks(3, 1 << 21)]
        [(0, 2), (2, 3)]
    """
    step = max(1, _BLOCK_VALUES // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _repeated(rows: Rows, lengths: np.ndarray) -> np.ndarray:
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    # NaN equals nothing, and rows of zeros are counted as such.
    same = (ordered[1:] == ordered[:-1]) & (ordered[1:] > 0.0)
    shared = np.zeros(lengths.size, dtype=bool)
    shared[:-1] |= same
    shared[1:] |= same
    suspects = np.sort(order[shared])
    repeated = np.zeros(lengths.size, dtype=bool)
    if suspects.size == 0:
        return repeated
    hashes = np.empty(suspects.size, dtype=np.uint64)
    for part in row_blocks(suspects.size, rows.shape[1]):
        block = np.ascontiguousarray(rows[suspects[part]])
        hashes[part] = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little") for row in block]
    _, first = np.unique(hashes, return_index=True)
    repeated[suspects] = True
    repeated[suspects[first]] = False
    return repeated


@dataclass(frozen=True)
class Histogram:
    """Counts of norms in equal bins from the 0.1% to the 99.9% quantile, and how many lie outside on either side."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below: int
    above: int


@dataclass(frozen=True)
class NormFigures:
    """The distribution of positive norms; see `norm_figures`."""

    count: int
    mean: float
    cv: float
    std_log: float
    skew_log: float
    tail_low: float
    tail_high: float
    quantiles: Mapping[str, float]
    histogram: Histogram


def norm_figures(norms: Float[np.ndarray, " N"]) -> NormFigures:
    """Return the exact distribution of positive norms.

    Equations: cv = std r / mean r; std_log and skew_log of log r; tail_low = median / 1% quantile, tail_high =
    99% quantile / median: how many times shorter (longer) than the middle the ends are; quantiles are interpolated
    linearly between order statistics.

    Args:
        norms: (N,) positive, finite, N >= 1.

    Returns:
        The figures.

    Raises:
        InputError: there are none, or one is not positive and finite.

    Example:
        >>> found = norm_figures(np.array([1.0, 2.0, 3.0]))
        >>> found.mean, found.quantiles["0.5"], round(found.cv, 4)
        (2.0, 2.0, 0.4082)
    """
    if norms.size == 0 or not (np.isfinite(norms) & (norms > 0.0)).all():
        raise InputError("norms must be positive and finite, and at least one: leave zero and non-finite vectors out first")
    ordered = np.sort(norms)
    logs = np.log(ordered)
    mean = float(ordered.mean())
    levels = dict(zip(QUANTILES, np.quantile(ordered, QUANTILES).tolist(), strict=True))
    return NormFigures(
        count=int(norms.size),
        mean=mean,
        cv=float(ordered.std() / mean),
        std_log=float(logs.std()),
        skew_log=float(skew(logs)) if logs.std() > 1e-12 else float("nan"),
        tail_low=levels[0.5] / levels[0.01],
        tail_high=levels[0.99] / levels[0.5],
        quantiles={f"{level:g}": value for level, value in levels.items()},
        histogram=_histogram(ordered, levels[0.001], levels[0.999]),
    )


def _histogram(ordered: np.ndarray, low: float, high: float) -> Histogram:
    if not high > low * (1.0 + 1e-12):
        # Equal norms: one bin around them.
        low, high = low * (1.0 - 1e-6), high * (1.0 + 1e-6)
    edges = np.linspace(low, high, BINS + 1)
    counts = np.histogram(ordered, edges)[0]
    below = int(np.searchsorted(ordered, low, side="left"))
    above = int(ordered.size - np.searchsorted(ordered, high, side="right"))
    return Histogram(tuple(edges.tolist()), tuple(int(count) for count in counts), below, above)


def rounding_spread(epsilon: float, width: int) -> float:
    """Return the spread of log norms that storing unit vectors alone can give.

    Equation: 4 max(2^-23, epsilon / sqrt(D)): errors of D coordinates average out, and the arithmetic that divided by the
    norm was at best that of float32.

    Args:
        epsilon: of the stored type: the distance from 1 to the next number.
        width: D >= 1.

    Example:
        >>> rounding_spread(2.0**-23, 384) == 4 * 2.0**-23
        True
    """
    return 4.0 * max(2.0**-23, epsilon / math.sqrt(width))


def is_normalized(norms: Float[np.ndarray, " N"]) -> bool:
    """Whether all norms are 1 up to what half-precision arithmetic leaves: |mean - 1| and the spread at most 0.001.

    A few other rows (below 1 in 1,000) do not change the answer: figures are those between the 0.1% and 99.9% quantiles.

    Example:
        >>> is_normalized(np.ones(5)), is_normalized(np.array([1.0, 1.1]))
        (True, False)
    """
    if norms.size == 0:
        return False
    # Of the order statistics themselves: between two of them there may be nothing.
    low, high = np.quantile(norms, 0.001, method="lower"), np.quantile(norms, 0.999, method="higher")
    middle = norms[(norms >= low) & (norms <= high)]
    return bool(abs(float(middle.mean()) - 1.0) <= _UNIT and float(middle.std()) <= _UNIT)
