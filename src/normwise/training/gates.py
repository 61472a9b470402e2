"""What is checked between two stages, in figures and in words."""

from __future__ import annotations

import numpy as np

from normwise.core.records import GateReport
from normwise.core.similarity import Similarity
from normwise.theory.directions import normalize, norms


def angular_gate(before: np.ndarray, after: np.ndarray) -> GateReport:
    """Say whether the stage improved what cosine can see.

    Args:
        before: (B,) nDCG@10 under cosine of each dev query before the stage.
        after: (B,) the same after it.

    Returns:
        A report that passes when the mean rose by more than two of its paired standard errors.
    """
    difference = after - before
    difference = difference[np.isfinite(difference)]
    mean = float(difference.mean()) if len(difference) else float("nan")
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else float("nan")
    passed = bool(mean > 2 * error) if np.isfinite(error) else bool(mean > 0)
    worse = "the angles did not improve, so the next stage starts from no better directions than this one did"
    told = "the angles improved" if passed else "within two standard errors, so no improvement is shown" if mean > 0 else worse
    words = f"cosine nDCG@10 on dev moved by {mean:+.4f} (standard error {error:.4f}) over the stage: {told}"
    figures = {"before": float(np.nanmean(before)), "after": float(np.nanmean(after)), "difference": mean, "standard_error": error}
    return GateReport(name="angular_quality", passed=passed, words=words, figures=figures)


def _logits(queries: np.ndarray, candidates: np.ndarray, similarity: Similarity, temperature: float) -> np.ndarray:
    left = normalize(queries) if similarity.normalizes_query else queries
    right = normalize(candidates) if similarity.normalizes_candidate else candidates
    return left.astype(np.float64) @ right.astype(np.float64).T / temperature


def logit_gate(
    queries: np.ndarray,
    candidates: np.ndarray,
    *,
    before: tuple[Similarity, float],
    after: tuple[Similarity, float],
    tolerance: float = 0.25,
) -> GateReport:
    """Say whether the next stage starts from the logits that the stage before ended with.

    Args:
        queries: (B, D) raw query vectors of a calibration batch.
        candidates: (B, D) raw vectors of their positives.
        before: similarity and temperature of the stage before.
        after: similarity and temperature at the start of the next stage.
        tolerance: the relative change of the logits' standard deviation up to which they count as matched.

    Returns:
        A report with the standard deviations, their ratio and the largest difference of two logits of a query
        (after each query's mean is taken out, which no softmax sees).

    Reference:
        PACE, temperature at the switch (tau_2 = tau_1 * mean ||q|| * mean ||c||).
    """
    old, new = _logits(queries, candidates, *before), _logits(queries, candidates, *after)
    old = old - old.mean(axis=1, keepdims=True)
    new = new - new.mean(axis=1, keepdims=True)
    ratio = float(new.std() / old.std()) if old.std() > 0 else float("nan")
    passed = bool(abs(ratio - 1) <= tolerance)
    words = (
        f"logits of the next stage ({after[0]}, temperature {after[1]:.4g}) are {ratio:.2f} times as wide as those of the stage before "
        f"({before[0]}, temperature {before[1]:.4g}): " + ("matched" if passed else "not matched, so the loss jumps at the switch")
    )
    figures = {
        "logit_sd_before": float(old.std()),
        "logit_sd_after": float(new.std()),
        "ratio": ratio,
        "largest_difference": float(np.abs(new - old).max()),
        "query_norm_mean": float(norms(queries).mean()),
        "candidate_norm_mean": float(norms(candidates).mean()),
    }
    return GateReport(name="logits_matched", passed=passed, words=words, figures=figures)
