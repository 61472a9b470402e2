"""A threshold by learn-then-test: every threshold of a fixed grid tested at once, under Holm's correction of MAPIE."""

from __future__ import annotations

import numpy as np

from normwise.core.calibration_records import ThresholdRecord
from normwise.core.errors import MissingExtraError
from normwise.core.shapes import Bool, Float
from normwise.theory.clustered_errors import error_tail
from normwise.theory.selective_threshold import check_claim, checked_grid, threshold_record

GRID = np.linspace(0.01, 0.99, 99)


def learn_then_test_threshold(
    confidence: Float[np.ndarray, " B"],
    right: Bool[np.ndarray, " _"],
    *,
    target: float,
    confidence_level: float,
    grid: Float[np.ndarray, " G"] = GRID,
) -> ThresholdRecord | None:
    """Return the lowest threshold of a fixed grid that passes with all others under Holm's correction.

    Equation: p_g = P(Binomial(n_g, 1 - target) <= k_g) for n_g queries answered and k_g of them wrong, 1 where nobody is;
    Holm's step-down over all G at level 1 - confidence_level rejects "precision is below target".

    Beside `certified_threshold` it asks for no order, so that it passes over a dip in precision, and pays with G tests. For
    independent queries only: where queries share documents or repeat, use `certified_threshold`, which takes clusters.

    Args:
        confidence: (B,) probabilities of test queries, 0..1; nothing that read `right` may have made them.
        right: (B,) whether the first hit is relevant.
        target: precision, 0..1, ends excluded.
        confidence_level: above 0.5, at most 0.9999.
        grid: (G,) thresholds in 0..1 that were fixed without these queries; 0 is never answered.

    Returns:
        The threshold, with `target` as the bound that the test gives; of several that answer the same queries, the highest.
        None where nothing passes.

    Raises:
        InputError: as `certified_threshold`.
        MissingExtraError: MAPIE is not installed.

    Reference: Angelopoulos et al. (2021), Learn then test, arXiv 2110.01052; the exact binomial tail in place of the
        Hoeffding-Bentkus bound, which is never below it for right and wrong.

    Example:
        >>> confidence = np.linspace(0.99, 0.01, 400)
        >>> found = learn_then_test_threshold(confidence, confidence > 0.5, target=0.95, confidence_level=0.9)
        >>> found.probability, found.method
        (0.5, 'learn-then-test')
    """
    check_claim(confidence, right, target=target, confidence_level=confidence_level)
    thresholds = checked_grid(grid)
    if not thresholds.size:
        return None
    counts, errors = answered_errors(confidence, right, thresholds)
    passed = _rejected(error_tail(errors, counts, risk=1.0 - target), 1.0 - confidence_level)
    if not passed.size:
        return None
    answered = counts[passed].max()
    probability = thresholds[passed][counts[passed] == answered].max()
    return threshold_record(
        confidence, right, probability, low=target, target=target, confidence_level=confidence_level, method="learn-then-test"
    )


def answered_errors(
    confidence: Float[np.ndarray, " B"], right: Bool[np.ndarray, " _"], thresholds: Float[np.ndarray, " G"]
) -> tuple[Float[np.ndarray, " G"], Float[np.ndarray, " G"]]:
    """Return how many queries each threshold answers, and how many of them are wrong.

    Example:
        >>> answered_errors(np.array([0.9, 0.5]), np.array([True, False]), np.array([0.95, 0.5]))
        (array([0., 2.]), array([0., 1.]))
    """
    confidence = confidence.astype(np.float64)
    order = np.argsort(-confidence, kind="stable")
    counts = np.searchsorted(-confidence[order], -thresholds, side="right")
    errors = np.concatenate([[0.0], np.cumsum(~right[order])])
    return counts.astype(np.float64), errors[counts]


def _rejected(p_values: np.ndarray, level: float) -> np.ndarray:
    """Places of the hypotheses that Holm's step-down rejects with all of them at `level`."""
    try:
        from mapie.risk_control import control_fwer
    except ImportError as error:
        raise MissingExtraError("mapie", extra="risk") from error
    return control_fwer(p_values, level, "bonferroni_holm")
