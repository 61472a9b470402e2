"""Thresholds in words: numbers that stay apart when they are rounded, and thresholds that decide nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float


def is_inert(threshold: float, confidence: Float[np.ndarray, " B"], *, what: str = "first hits") -> str | None:
    """Say that a threshold rejects nothing or everything on these data, or return None where it parts them.

    Args:
        threshold: what is answered: a confidence of at least this; any finite number, also a score's.
        confidence: (B,) finite confidences or scores, of any scale.
        what: whose they are, in the plural.

    Returns:
        One clause with the figures, or None.

    Raises:
        InputError: there is no confidence, or it or the threshold is not finite.

    Example:
        >>> is_inert(0.7, np.array([0.71, 0.93]))
        '0.7 rejects nothing: all 2 first hits score 0.71 or more'
        >>> is_inert(0.7, np.array([0.31, 0.65])), is_inert(0.7, np.array([0.31, 0.7]))
        ('0.7 rejects everything: all 2 first hits score 0.65 or less', None)
    """
    if not confidence.size:
        raise InputError("confidence holds no query: expected at least one to see what the threshold rejects")
    bad = np.flatnonzero(~np.isfinite(confidence))
    if bad.size or not np.isfinite(threshold):
        came = f"confidence of query {bad[0]} is {confidence[bad[0]]}" if bad.size else f"threshold is {threshold}"
        raise InputError(f"{came}; expected a finite number")
    kind = inert(threshold, confidence)
    if kind is None:
        return None
    edge, side = (confidence.min(), "more") if kind == "rejects nothing" else (confidence.max(), "less")
    said, seen = apart(float(threshold), float(edge))
    return f"{said} {kind}: all {confidence.size:,} {what} score {seen} or {side}"


def inert(threshold: float, confidence: np.ndarray) -> Literal["rejects nothing", "rejects everything"] | None:
    """Return what a threshold does to all of these confidences alike, or None.

    Example:
        >>> inert(0.5, np.array([0.5, 0.6])), inert(0.7, np.array([0.5, 0.6])), inert(0.6, np.array([0.5, 0.6]))
        ('rejects nothing', 'rejects everything', None)
    """
    answered = confidence.astype(np.float64) >= threshold
    if answered.all():
        return "rejects nothing"
    return None if answered.any() else "rejects everything"


def apart(value: float, other: float) -> tuple[str, str]:
    """Return two numbers in the fewest significant digits, three or more, in which different ones look different.

    Example:
        >>> apart(0.70996, 0.71), apart(0.5, 0.5), apart(0.123456, 2.0)
        (('0.70996', '0.71'), ('0.5', '0.5'), ('0.123', '2'))
    """
    value, other = value + 0.0, other + 0.0  # no -0
    for digits in range(3, 18):
        words = f"{value:.{digits}g}", f"{other:.{digits}g}"
        if words[0] != words[1]:
            return words
    return f"{value:.3g}", f"{other:.3g}"
