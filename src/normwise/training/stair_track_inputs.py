"""What a loop of one's own gives a track: tables of any kind, steps and losses, checked before anything is recorded."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from normwise.core.errors import InputError
from normwise.core.strict import shown


def as_array(values: Any) -> np.ndarray:
    """Return an array of a float type from an array, a tensor, a parameter or nested lists; half precision of torch becomes float32.

    Raises:
        InputError: values that are no real numbers.

    Example:
        >>> as_array(torch.ones(2, 1, dtype=torch.bfloat16, requires_grad=True)).tolist()
        [[1.0], [1.0]]
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float().numpy() if values.dtype in (torch.float16, torch.bfloat16) else values.numpy()
    try:
        found = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"the table is no array of numbers: {error}") from None
    if found.dtype.kind not in "fiu":
        raise InputError(f"the table is of type {found.dtype}; expected real numbers")
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def checked_step(step: Any, *, after: int | None) -> int:
    """Return a step as an int, above the last one.

    Raises:
        InputError: no whole number of 0 or more, or not above.
    """
    if isinstance(step, bool | np.bool_) or not isinstance(step, Integral) or step < 0:
        raise InputError(f"step is {shown(step)}; expected a whole number of at least 0")
    if after is not None and int(step) <= after:
        raise InputError(f"step is {int(step)} after {after}; expected rising steps, each recorded once")
    return int(step)


def checked_number(name: str, value: Any, *, least: float | None = None, most: float | None = None) -> float | None:
    """Return a number as a float, None where there is none; NaN is none.

    Raises:
        InputError: no number, or outside its range.
    """
    if value is None:
        return None
    try:
        if isinstance(value, torch.Tensor | np.ndarray | np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} is {shown(value)}; expected a number, or None") from None
    if (least is not None and found < least) or (most is not None and found > most):
        raise InputError(f"{name} is {found:g}; expected {least:g} to {most:g}")
    return found
