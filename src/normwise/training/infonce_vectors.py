"""What a loop hands to the InfoNCE meter: read and checked at the border, and which candidates are a query's own positive again."""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.core.similarity import Similarity
from normwise.core.strict import shown
from normwise.objectives.scores import normalize, norms
from normwise.theory.vector_copies import HALF_PRECISION

# What normalizing in float32 leaves of a difference: so near, two vectors are one whatever the others are.
_SAME = 1e-6
# A collapsing encoder puts every text within half precision of every other: a copy must also be ten times nearer than candidates usually
# are.
_OF_USUAL = 0.1
# Directions closer than this are measured in full. Far below 1 - HALF_PRECISION^2 / 2, since TF32 products are good to 1e-3 only.
_WORTH_A_LOOK = 0.99
_BLOCK = 1 << 22


def read_vectors(values: Any, *, name: str) -> Float[Tensor, "N D"]:
    """Take a matrix of real numbers as a detached tensor.

    Args:
        values: a dense tensor, an array of any float or integer type and byte order, or rows of numbers.
        name: of the argument, for the message.

    Raises:
        InputError: something else.

    Example:
        >>> read_vectors([[3.0, 4.0]], name="query_vectors").shape
        torch.Size([1, 2])
    """
    expected = "expected a matrix of real numbers, one row for each vector"
    if isinstance(values, Tensor):
        if values.layout is not torch.strided or values.is_complex() or values.dtype == torch.bool:
            raise InputError(f"{name} is a tensor of {values.dtype}, {values.layout}; {expected}, dense")
        found = values.detach()
    else:
        try:
            array = np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} is {shown(values)}, and no array: {error}; {expected}") from None
        if array.dtype.kind not in "fiu":
            raise InputError(f"{name} is {shown(values)} with values of type {array.dtype}; {expected}")
        # torch knows neither foreign byte orders nor long doubles, and warns of arrays that must not be written to.
        kept = array.dtype.kind == "f" and array.dtype.itemsize <= np.dtype(np.float64).itemsize
        found = torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=") if kept else np.float64, order="C"))
    if found.ndim != 2 or not found.shape[1]:
        raise InputError(f"{name} have shape {tuple(found.shape)}; {expected}, of at least one number")
    return found


def read_temperature(value: Any) -> float:
    """Take a number, or a tensor or array of one number, which may be learned.

    Raises:
        InputError: anything else, or a number that is not finite and above 0.

    Example:
        >>> read_temperature(torch.tensor(0.5, requires_grad=True))
        0.5
    """
    expected = "expected a finite number above 0"
    if isinstance(value, Tensor | np.ndarray):
        came = f"has shape {tuple(value.shape)} and type {value.dtype}"
        # Unlike float(), it does not warn of a learned one.
        value = value.item() if math.prod(value.shape) == 1 else None
    else:
        came = f"is {shown(value)}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"temperature {came}; {expected}")
    try:
        tau = float(value)
    except OverflowError:
        tau = math.inf
    if not (math.isfinite(tau) and tau > 0.0):
        raise InputError(f"temperature is {tau}; {expected}")
    return tau


def read_count(value: Any, *, name: str) -> int:
    """Take a whole number of at least 1, as 64 bits hold it.

    Raises:
        InputError: anything else.

    Example:
        >>> read_count(np.int64(3), name="window")
        3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= sys.maxsize:
        raise InputError(f"{name} is {shown(value)}; expected at least 1, as a whole number of 64 bits")
    return int(value)


def why_unreadable(queries: Float[Tensor, "B D"], candidates: Float[Tensor, "N D"], similarity: Similarity) -> str | None:
    """Say why a batch has no scores to read: it is empty, or a vector that is to be normalized has no direction; None if it can be read.

    Example:
        >>> why_unreadable(torch.ones(1, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), Similarity.COSINE)
        'candidate_vectors, row 1 holds zeros only, which have no direction by cosine; leave it out'
    """
    if not len(queries):
        return "the batch is empty"
    sides = (
        ("query_vectors", queries, similarity.normalizes_query),
        ("candidate_vectors", candidates, similarity.normalizes_candidate),
    )
    for name, vectors, normalized in sides:
        # Where the norm is NaN the scores will say so.
        zero = norms(vectors) == 0.0
        if normalized and zero.any():
            return f"{name}, row {int(zero.int().argmax())} holds zeros only, which have no direction by {similarity.value}; leave it out"
    return None


def copies_of_positives(candidates: Float[Tensor, "N D"], rows: Int[Tensor, " R"], *, normalized: bool) -> Bool[Tensor, "R N"]:
    """Find which columns are a row's positive again, as half precision or another scale stores it.

    Equation: |a - b| <= |a| max(1e-6, min(4e-3, s / 10)), a the positive, b another candidate, both divided by their norms if
    `normalized`; s |a| is the root mean square of |a - c| over all candidates c. Without s, an encoder that collapses would have no
    negatives left, just when they matter.

    Args:
        candidates: (N, D) raw vectors, float32 or float64; column i is the positive of query i.
        rows: (R,) queries that are read, on the same device.
        normalized: whether scores divide a candidate by its norm.

    Returns:
        (R, N) mask, False at the positive itself. Bit-equal candidates are always in it.

    Reference: ours.

    Example:
        >>> x = torch.eye(3)
        >>> copies_of_positives(torch.cat([x, 2 * x[:1]]), torch.arange(3), normalized=True)[:, 3].tolist()
        [True, False, False]
    """
    vectors = normalize(candidates) if normalized else _in_usual_lengths(candidates)
    lengths, directions = norms(vectors), normalize(vectors)
    own = lengths[rows].unsqueeze(1)
    found = (own == 0.0) & (lengths == 0.0)
    near = (directions[rows] @ directions.T > _WORTH_A_LOOK) & ((lengths - own).abs() <= 2.0 * HALF_PRECISION * own)
    middle = vectors.mean(dim=0)
    spread = (vectors - middle).square().sum(dim=1)
    usual = (spread[rows] + spread.mean()).sqrt().nan_to_num(nan=torch.inf)
    reach = torch.maximum(_SAME * own[:, 0], torch.minimum(HALF_PRECISION * own[:, 0], _OF_USUAL * usual))
    row, column = near.nonzero(as_tuple=True)
    for i, j in zip(*(each.split(max(1, _BLOCK // vectors.shape[1])) for each in (row, column)), strict=True):
        found[i, j] = torch.linalg.vector_norm(vectors[rows[i]] - vectors[j], dim=1) <= reach[i]
    return found.scatter(1, rows.unsqueeze(1), False)


def _in_usual_lengths(vectors: Tensor) -> Tensor:
    """Vectors in units of their median norm, so that squares of 1e-30 and 1e30 stay within range."""
    unit = norms(vectors).median()
    return vectors / unit if unit > 0.0 else vectors
