"""The border of the embedding flows: finite arrays by shape, and signatures that are probabilities."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.quantities import Quantity, Span, quantities

_SUM = 1e-6


def finite(name: str, value: Quantity, axes: str) -> np.ndarray:
    """Return a float64 array of as many axes as `axes` names, none of them empty, refused unless every value is finite.

    Raises:
        InputError: another number of axes, an empty one, or a value that is not finite.

    Example:
        >>> finite("embedding", [1.0, 2.0], "(V, d)")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: embedding has shape (2,); expected (V, d), each at least 1
    """
    (array,) = quantities(**{name: (value, Span.FINITE)})
    if array.ndim != len(axes.strip("(),").split(",")) or not array.size:
        raise InputError(f"{name} has shape {array.shape}; expected {axes}, each at least 1")
    return array


def law_rows(name: str, value: Quantity, *, shape: tuple[int, ...], rates: np.ndarray) -> np.ndarray:
    """Return a signature in float64, refused unless each row holds probabilities of sum 1, or zeros for a token of frequency 0.

    Args:
        name: of the argument, for the message.
        value: the signature, one row of any shape for each token.
        shape: expected, (A, ..).
        rates: (A,) r_a >= 0.

    Raises:
        InputError: another shape, a row that is no law, or one of zeros for a token that occurs.

    Example:
        >>> law_rows("order_zero", [[3.0, 1.0]], shape=(1, 2), rates=np.ones(1))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: order_zero: row 0 sums to 4, its least value is 1, its frequency 1; expected probabilities \
of sum 1, or zeros for a token of frequency 0: divide counts by their sum
    """
    (values,) = quantities(**{name: (value, Span.FINITE)})
    if values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}; expected {shape}")
    flat = values.reshape(len(values), -1)
    sums, least = flat.sum(axis=1), flat.min(axis=1)
    proper = (np.abs(sums - 1.0) <= _SUM) | ((sums == 0.0) & (rates == 0.0))
    bad = np.flatnonzero(~proper | (least < 0.0))
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{name}: row {row} sums to {sums[row]:.9g}, its least value is {least[row]:.6g}, its frequency {rates[row]:g}; "
            "expected probabilities of sum 1, or zeros for a token of frequency 0: divide counts by their sum"
        )
    return values
