"""What the page of a calibration draws: bins, curves, and a few examples with their contents, the only ones that a report keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from normwise.core.calibration_records import CalibrationFigures, ExampleHit
from normwise.data.contents import Content, content_words
from normwise.data.documents import shown_text
from normwise.data.thumbnails import ThumbnailBudget
from normwise.report.hits_view import ExamplePictures, NearHit, NearHits, ShownPictures
from normwise.theory.applied_calibration import Applied
from normwise.theory.calibration_error import reliability_bins
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.selective_metrics import risk_curve

EXAMPLES = 8
_CURVE = 50
_LONGEST_TEXT = 400
NEAREST, HITS = 4, 3
# From row of the query and place of the hit to the contents of query and hit, and the hit's id between them.
Described = Callable[[int, int], tuple[Content, str, Content]]


@dataclass(frozen=True)
class Answers:
    """What was answered to B test queries: probability, place of the hit shown first, whether right, and which are abstained on."""

    probability: np.ndarray
    place: np.ndarray
    right: np.ndarray
    abstain: np.ndarray


def figures(test: JudgedHits, answers: Answers, describe: Described) -> CalibrationFigures:
    """Return bins and curves of test queries, the most confident errors, and the least probable of the hits that were rightly abstained on.

    Args:
        test: B queries.
        answers: what the chosen calibrator answered.
        describe: of the hits that are shown.

    Returns:
        At most `EXAMPLES` of each kind: errors from the highest probability down, abstentions from the lowest up. A good
        abstention is one on a query whose first hit is wrong; without a threshold all wrong ones are.
    """
    coverages = np.linspace(1.0 / _CURVE, 1.0, _CURVE)
    orders = {"chosen": answers.probability, "score": test.hits.scores[:, 0], "oracle": answers.right.astype(np.float64)}
    first_right = {"score": test.right}
    curves = {
        name: tuple(risk_curve(values, first_right.get(name, answers.right), coverages=coverages).tolist())
        for name, values in orders.items()
    }
    errors, good = _example_rows(test, answers)
    return CalibrationFigures(
        bins=reliability_bins(answers.probability, answers.right),
        coverage=tuple(coverages.tolist()),
        risk=curves,
        confident_errors=tuple(_example(test, answers, row, describe) for row in errors.tolist()),
        good_abstentions=tuple(_example(test, answers, row, describe) for row in good.tolist()),
    )


def _example_rows(test: JudgedHits, answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the most confident errors, and of the least probable good abstentions."""
    wrong = np.flatnonzero(~answers.right & test.hits.usable)
    errors = wrong[np.argsort(-answers.probability[wrong], kind="stable")][:EXAMPLES]
    good = np.flatnonzero(answers.abstain & ~answers.right & test.hits.usable)
    # Of equal ones those that a score alone would have trusted most teach most.
    return errors, good[np.lexsort((-test.hits.scores[good, 0], answers.probability[good]))][:EXAMPLES]


def nearest_rows(probability: np.ndarray, usable: np.ndarray, *, count: int = NEAREST) -> np.ndarray:
    """Queries that stand for all: evenly spaced from the most probable to the least.

    Example:
        >>> nearest_rows(np.array([0.1, 0.9, 0.5, 0.3]), np.ones(4, dtype=bool), count=3).tolist()
        [1, 2, 0]
    """
    rows = np.flatnonzero(usable)
    order = rows[np.argsort(-probability[rows], kind="stable")]
    return order[np.unique(np.linspace(0, max(order.size - 1, 0), min(count, order.size)).astype(np.int64))]


def shown_pictures(
    test: JudgedHits, answers: Answers, describe: Described, *, applied: Callable[[np.ndarray], Applied], budget: ThumbnailBudget
) -> ShownPictures:
    """Return thumbnails of the examples of `figures`, and a few queries with their nearest hits as a search would show them.

    Args:
        test: B queries.
        answers: what the chosen calibrator answered.
        describe: of the hits that are shown.
        applied: from rows of queries to what a search would say of their hits.
        budget: thumbnails that the page still has room for; the nearest hits come first.
    """
    rows = nearest_rows(answers.probability, test.hits.usable)
    nearest = _nearest(test, rows, applied(rows), describe, budget) if rows.size else ()
    kinds = []
    for shown in _example_rows(test, answers):
        contents = [describe(row, int(answers.place[row])) for row in shown.tolist()]
        kinds.append(tuple(ExamplePictures(query=budget.show(query), hit=budget.show(hit)) for query, _, hit in contents))
    return ShownPictures(errors=kinds[0], abstentions=kinds[1], nearest=nearest)


def _nearest(test: JudgedHits, rows: np.ndarray, said: Applied, describe: Described, budget: ThumbnailBudget) -> tuple[NearHits, ...]:
    places, found = said.places(HITS), []
    for at, row in enumerate(rows.tolist()):
        query = describe(row, int(places[at, 0]))[0]
        asked = budget.show(query)
        hits = []
        for place in places[at].tolist():
            _, name, hit = describe(row, place)
            probability = float(said.probabilities[at, place])
            hits.append(
                NearHit(
                    id=_cut(name),
                    words=_cut(shown_text(content_words(hit))),
                    picture=budget.show(hit),
                    score=float(test.hits.scores[row, place]),
                    probability=None if np.isnan(probability) else probability,
                    abstain=bool(said.abstain[at, place]),
                    right=bool(test.relevant[row, place]),
                )
            )
        found.append(NearHits(query=_cut(content_words(query)), picture=asked, answerable=bool(test.answerable[row]), hits=tuple(hits)))
    return tuple(found)


def _example(test: JudgedHits, answers: Answers, row: int, describe: Described) -> ExampleHit:
    place = int(answers.place[row])
    query, name, hit = describe(row, place)
    return ExampleHit(
        query=_cut(content_words(query)),
        hit_id=_cut(name),
        hit=_cut(shown_text(content_words(hit))),
        probability=float(answers.probability[row]),
        score=float(test.hits.scores[row, place]),
        norm=float(test.hits.hit_norms[row, place]),
        right=bool(answers.right[row]),
        answerable=bool(test.answerable[row]),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
