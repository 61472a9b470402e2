"""Newton's method inside a box, for the few numbers of a calibrator: deterministic, and never outside what is stated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from normwise.core.shapes import Float

_STEPS = 60
_HALVINGS = 30
_UNSEEN = 1e-9
_ENOUGH = 1e-4

# A point to its value, gradient and Hessian.
Objective = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def bounded_newton(
    objective: Objective,
    start: Float[np.ndarray, " P"],
    *,
    low: Float[np.ndarray, " P"],
    high: Float[np.ndarray, " P"],
    longest: float = 2.0,
) -> tuple[Float[np.ndarray, " P"], float]:
    """Minimize a smooth function of few numbers inside a box.

    Equation: step = -|H|^-1 g in the free coordinates, |H| the Hessian with its eigenvalues made positive, so that every step
    falls even where the function is not convex; cut to `longest`, put back into the box and halved until the value falls.

    Args:
        objective: value, gradient (P,) and Hessian (P, P) at a point.
        start: (P,) inside the box.
        low: (P,) least values.
        high: (P,) greatest values.
        longest: greatest length of one step.

    Returns:
        The point and its value; a local minimum, or the edge of the box that it runs into.

    Reference: projected Newton of Bertsekas (1982), with the eigenvalue change that is standard for saddle-free steps.

    Example:
        >>> square = lambda x: (float(np.sum((x - 3.0) ** 2)), 2.0 * (x - 3.0), 2.0 * np.eye(x.size))
        >>> bounded_newton(square, np.zeros(2), low=np.full(2, -1.0), high=np.array([2.0, 9.0]))[0].tolist()
        [2.0, 3.0]
    """
    point = np.clip(start, low, high)
    value, gradient, hessian = objective(point)
    for _ in range(_STEPS):
        free = ~(((point <= low) & (gradient > 0.0)) | ((point >= high) & (gradient < 0.0)))
        if not free.any():
            break
        step = np.zeros_like(point)
        step[free] = _falling(gradient[free], hessian[np.ix_(free, free)])
        step *= min(1.0, longest / max(float(np.linalg.norm(step)), 1e-300))
        if -float(gradient @ step) <= _UNSEEN:
            # Less than the value's own roundoff: the last step is Newton's word, and no comparison could confirm it.
            trial = np.clip(point + step, low, high)
            last = objective(trial)[0]
            return (trial, last) if last <= value + _UNSEEN else (point, value)
        for _ in range(_HALVINGS):
            trial = np.clip(point + step, low, high)
            found = objective(trial)
            if found[0] <= value + _ENOUGH * float(gradient @ (trial - point)):
                break
            step *= 0.5
        else:
            break
        point, (value, gradient, hessian) = trial, found
    return point, value


def _falling(gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(hessian)
    size = np.abs(values)
    along = vectors.T @ gradient
    # Where the function is flat to the last digit there is no way down, and a division would invent one.
    floor = max(1e-9 * float(size.max()), 1e-14)
    return -(vectors @ (along / np.maximum(size, floor)))
