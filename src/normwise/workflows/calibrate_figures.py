"""What the page of a calibration draws: bins, curves, and a few examples with their texts, the only ones that a report keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from normwise.core.calibration_records import CalibrationFigures, ExampleHit
from normwise.theory.calibration_error import reliability_bins
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.selective_metrics import risk_curve

EXAMPLES = 8
_CURVE = 50
_LONGEST_TEXT = 400


@dataclass(frozen=True)
class Answers:
    """What was answered to B test queries: probability, place of the hit shown first, whether right, and which are abstained on."""

    probability: np.ndarray
    place: np.ndarray
    right: np.ndarray
    abstain: np.ndarray


def figures(test: JudgedHits, answers: Answers, describe: Callable[[int, int], tuple[str, str, str]]) -> CalibrationFigures:
    """Return bins and curves of test queries, the most confident errors, and the least probable of the hits that were rightly abstained on.

    Args:
        test: B queries.
        answers: what the chosen calibrator answered.
        describe: (row of the query, place of the hit) -> texts of query and hit and the hit's id between them.

    Returns:
        At most `EXAMPLES` of each kind: errors from the highest probability down, abstentions from the lowest up. A good
        abstention is one on a query whose first hit is wrong; without a threshold all wrong ones are.
    """
    coverages = np.linspace(1.0 / _CURVE, 1.0, _CURVE)
    usable = test.hits.usable
    orders = {"chosen": answers.probability, "score": test.hits.scores[:, 0], "oracle": answers.right.astype(np.float64)}
    first_right = {"score": test.right}
    curves = {
        name: tuple(risk_curve(values, first_right.get(name, answers.right), coverages=coverages).tolist())
        for name, values in orders.items()
    }
    wrong = np.flatnonzero(~answers.right & usable)
    errors = wrong[np.argsort(-answers.probability[wrong], kind="stable")][:EXAMPLES]
    good = np.flatnonzero(answers.abstain & ~answers.right & usable)
    # Of equal ones those that a score alone would have trusted most teach most.
    good = good[np.lexsort((-test.hits.scores[good, 0], answers.probability[good]))][:EXAMPLES]
    return CalibrationFigures(
        bins=reliability_bins(answers.probability, answers.right),
        coverage=tuple(coverages.tolist()),
        risk=curves,
        confident_errors=tuple(_example(test, answers, row, describe) for row in errors.tolist()),
        good_abstentions=tuple(_example(test, answers, row, describe) for row in good.tolist()),
    )


def _example(test: JudgedHits, answers: Answers, row: int, describe: Callable[[int, int], tuple[str, str, str]]) -> ExampleHit:
    place = int(answers.place[row])
    query, name, hit = describe(row, place)
    return ExampleHit(
        query=_cut(query),
        hit_id=_cut(name),
        hit=_cut(hit),
        probability=float(answers.probability[row]),
        score=float(test.hits.scores[row, place]),
        norm=float(test.hits.hit_norms[row, place]),
        right=bool(answers.right[row]),
        answerable=bool(test.answerable[row]),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
