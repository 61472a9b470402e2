"""The order-0 stair before training: how fast it comes, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.early_phase import EarlyPhase
from normwise.theory.quantities import Quantity, Result, Span, quantities


@dataclass(frozen=True)
class ZerothStair:
    """The order-0 stair that a law of sequences predicts before training.

    Args:
        growth_rate: sigma_1(A) per unit of time.
        time: log(1 / init scale) / sigma_1, of the gradient flow.
        steps: time / learning rate, of full-batch gradient descent.
        tells_tokens_apart: whether order-0 signatures differ between tokens; if not, the stair is all tokens in one direction.
    """

    growth_rate: float
    time: float
    steps: float
    tells_tokens_apart: bool


@dataclass(frozen=True)
class NoZerothStair:
    """No order-0 stair exists: A is 0, and the first stair is one of a higher order.

    Args:
        reason: why, in words.
        growth_rate: sigma_1(A), 0 up to rounding or to the tolerance that was asked for.
    """

    reason: str
    growth_rate: float


def zeroth_stair(
    phase: EarlyPhase, *, init_scale: float, learning_rate: float = 1.0, tolerance: float = 1e-9
) -> ZerothStair | NoZerothStair:
    """Predict the order-0 stair of training, or say that there is none.

    Equation: sigma_1 of A = c diag(L r) (Phi_0 - 1/Y), `staircase_time`. A = 0 exactly where c = 0, or every token that occurs has
    uniform labels over all Y outputs. Equal rows alone do not prevent the stair: with V > N ids the N labels that occur rise over the
    others.

    Args:
        phase: the early phase.
        init_scale: standard deviation of the entries of E and U at init, in (0, 1).
        learning_rate: eta > 0.
        tolerance: entries of Phi_0 this close to 1/Y are called uniform, >= 0; counts of a sample need one above their own noise.

    Returns:
        The stair, or why there is none.

    Raises:
        InputError: a value outside its range.

    Reference: ours.

    Example:
        >>> zeroth_stair(EarlyPhase(np.full((4, 4), 0.25), np.full(4, 0.25), length=2), init_scale=0.01).growth_rate
        0.0
    """
    quantities(learning_rate=(learning_rate, Span.POSITIVE), tolerance=(tolerance, Span.NONNEGATIVE))
    time = staircase_time(phase.growth_rate, init_scale)
    if phase.slope == 0.0:
        return NoZerothStair("the activation has no slope at 0, so that no embedding moves to first order", phase.growth_rate)
    labels = phase.order_zero.shape[1]
    apart = np.abs(phase.order_zero[phase.frequency > 0.0] - 1.0 / labels).max(initial=0.0)
    if apart <= tolerance:
        reason = (
            f"every token that occurs has labels uniform over all {labels} outputs, which is what the softmax says at init; "
            "a vocabulary larger than the set of labels would give a zeroth stair"
        )
        return NoZerothStair(reason, phase.growth_rate)
    return ZerothStair(phase.growth_rate, float(time), float(time) / learning_rate, tells_tokens_apart=not phase.rows_equal)


def staircase_time(growth_rate: Quantity, init_scale: Quantity) -> Result:
    """Return the time in which the fastest direction of the early phase grows from the init to 1.

    Equation: (1 / sigma_1) log(1 / scale), up to a constant over sigma_1 that the init's part in that direction decides.

    Args:
        growth_rate: sigma_1 >= 0.
        init_scale: standard deviation of the entries of E and U at init, in (0, 1); d^-gamma for width d.

    Returns:
        The time of the gradient flow; infinite where sigma_1 = 0.

    Raises:
        InputError: a value outside its range, or shapes that do not broadcast.

    Reference: ours.

    Example:
        >>> staircase_time([0.5, 0.0], 0.01).round(3).tolist()
        [9.21, inf]
    """
    rate, scale = quantities(growth_rate=(growth_rate, Span.NONNEGATIVE), init_scale=(init_scale, Span.POSITIVE))
    if (scale >= 1.0).any():
        raise InputError(f"init_scale is {scale.max():g}; expected below 1: the phase needs a small init")
    rate, growth = np.broadcast_arrays(rate, -np.log(scale))
    return np.divide(growth, rate, out=np.full(rate.shape, np.inf), where=rate > 0.0)[()]


def modular_growth_rate(modulus: int, outputs: int, *, length: int = 2, slope: float = 1.0) -> float:
    """Return sigma_1 of modular addition over all sequences of N tokens: its labels are uniform over N of V outputs for every token.

    Equation: sigma_1 = c (L / sqrt N) sqrt(1/N - 1/V), (2 / sqrt N) sqrt(1/N - 1/V) for L = 2 and c = 1; A has rank one. At V = N it
    is 0: the zeroth stair exists only because there are more outputs than labels.

    Args:
        modulus: N >= 1.
        outputs: V >= N, rows of the unembedding.
        length: L >= 2; a single token would decide its label.
        slope: c = sigma'(0).

    Raises:
        InputError: a value outside its range.

    Reference: ours.

    Example:
        >>> round(modular_growth_rate(20, 81), 4), modular_growth_rate(20, 20)
        (0.0868, 0.0)
    """
    quantities(modulus=(modulus, Span.COUNT), outputs=(outputs, Span.COUNT), length=(length, Span.COUNT), slope=(slope, Span.FINITE))
    if outputs < modulus or length < 2:
        raise InputError(
            f"outputs is {outputs}, modulus {modulus}, length {length}; expected as many outputs as labels at least, length >= 2"
        )
    return abs(slope) * length / math.sqrt(modulus) * math.sqrt((outputs - modulus) / (outputs * modulus))
