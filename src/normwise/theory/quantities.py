"""The border of the closed forms: numbers and arrays checked by name, range and shape, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from normwise.core.errors import InputError

# What the closed forms take: a number, an array, or (nested) lists of numbers.
Quantity = int | float | np.generic | np.ndarray | Sequence[Any]
# What they return: a float64 number for numbers alone, else the broadcast array (as numpy's own functions are typed).
Result = Any


class Span(Enum):
    """The range in which every value of an argument must lie."""

    POSITIVE = "a finite number > 0"
    NONNEGATIVE = "a finite number >= 0"
    FINITE = "a finite number"
    SHARE = "a number in 0..1"
    BELOW_ONE = "a number >= 0 and < 1"
    COUNT = "a whole number >= 1"

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Return where the values lie in this range; NaN and infinity lie in none.

        Example:
            >>> Span.BELOW_ONE.holds(np.array([0.0, 0.5, 1.0, np.nan])).tolist()
            [True, True, False, False]
        """
        inside = np.asarray(np.isfinite(values))
        if self is Span.POSITIVE:
            inside &= values > 0.0
        elif self is Span.COUNT:
            inside &= (values >= 1.0) & (values == np.floor(values))
        elif self is not Span.FINITE:
            inside &= values >= 0.0
        if self is Span.SHARE:
            inside &= values <= 1.0
        if self is Span.BELOW_ONE:
            inside &= values < 1.0
        return inside


def quantities(**named: tuple[Any, Span]) -> tuple[np.ndarray, ...]:
    """Return the arguments as float64 arrays, refused unless all lie in their ranges and broadcast together.

    Args:
        named: argument name -> (what came, its range).

    Returns:
        One float64 array per argument, in the order given, each in its own shape.

    Raises:
        InputError: not a number, outside its range (the message names the position), or shapes that do not broadcast.

    Example:
        >>> quantities(r=([1.0, -2.0], Span.POSITIVE))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: r[1] is -2.0; expected a finite number > 0
    """
    arrays = {name: _read(name, value, span) for name, (value, span) in named.items()}
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items() if array.ndim)
        raise InputError(f"shapes do not broadcast: {shapes}; expected one number or one value per item for each") from None
    return tuple(arrays.values())


def check_decay(learning_rate: np.ndarray, weight_decay: np.ndarray) -> Result:
    """Return learning_rate * weight_decay, the share of a vector that one step of decay takes.

    Raises:
        InputError: it is 1 or more somewhere: one step would erase or flip the vector.

    Example:
        >>> check_decay(np.array([0.1]), np.array(0.5)).tolist()
        [0.05]
    """
    product = learning_rate * weight_decay
    if np.any(product >= 1.0):
        raise InputError(
            f"learning_rate * weight_decay is {np.max(product):g}; expected below 1, or one step of decay erases the vector: lower either"
        )
    return product


def decay_weighted_steps(steps: Quantity, rate: Quantity) -> Result:
    """Return how many steps' worth of growth remains when each step keeps the share 1 - rate of what was there.

    Equation: sum_{t < T} (1 - rate)^t = (1 - (1 - rate)^T) / rate, and T in the limit rate -> 0. T need not be whole.

    Args:
        steps: T >= 0.
        rate: in 0..1, below 1.

    Returns:
        The broadcast sum, between 0 and both T and 1 / rate.

    Example:
        >>> decay_weighted_steps(3.0, [0.5, 0.0]).tolist()
        [1.75, 3.0]
    """
    steps, rate = np.asarray(steps), np.asarray(rate)
    # Below 1e-150 the rate is far under rounding for any number of steps, and its quotient would lose digits as a subnormal.
    none = rate < 1e-150
    some = np.where(none, 0.5, rate)
    return np.where(none, steps, -np.expm1(steps * np.log1p(-some)) / some)


def _read(name: str, value: Any, span: Span) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} is ragged; expected {span.value}, or an array of them") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} holds {array.dtype}; expected {span.value}, or an array of them")
    array = array.astype(np.float64)
    bad = np.argwhere(~span.holds(array))
    if bad.size or (array.ndim == 0 and not span.holds(array)):
        place = tuple(int(i) for i in bad[0])
        at = f"[{', '.join(map(str, place))}]" if place else ""
        raise InputError(f"{name}{at} is {array[place]}; expected {span.value}")
    return array
