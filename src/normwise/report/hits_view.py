"""Queries with their nearest hits: what a result keeps of them, pictures included, and what a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from normwise.core.calibration_records import CalibrationReport
from normwise.core.records import NearestHits, NearHit, NearHits, Record
from normwise.report import words
from normwise.report.inspect_words import settle
from normwise.report.svg import shorten
from normwise.report.thumbnails import thumbnail_view

_LONGEST_TEXT = 200
_SCORES = {"cosine": "the cosine", "dot": "the dot product"}


class ExamplePictures(Record):
    """Thumbnails of an example, as data URIs, where query or hit have pictures and the page has room."""

    query: str | None = None
    hit: str | None = None


class ShownPictures(Record):
    """What a page shows of pictures: those of `figures.confident_errors` and `good_abstentions`, in their order, and nearest hits."""

    errors: tuple[ExamplePictures, ...] = ()
    abstentions: tuple[ExamplePictures, ...] = ()
    nearest: tuple[NearHits, ...] = ()


class DirectionReport(CalibrationReport):
    """The calibration of one direction, such as "text -> image", or of one task of that direction."""

    direction: str = ""
    task: str = ""
    shown: ShownPictures = ShownPictures()

    @property
    def name(self) -> str:
        """What it is called: its task where it has one, else its direction."""
        return self.task or self.direction


class DirectionsReport(Record):
    """Calibrations of a set with several directions or tasks, each by its name; `refused` says why some have none."""

    model: str
    data: str
    directions: Mapping[str, DirectionReport] = Field(min_length=1)
    refused: Mapping[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    calibration: str | None = None
    report: str | None = None
    seconds: float | None = None


def nearest_view(report: CalibrationReport) -> list[dict[str, Any]]:
    """The queries with their nearest hits, for a template; none where the result has none."""
    return [_query(each) for each in report.shown.nearest] if isinstance(report, DirectionReport) else []


def nearest_hits_view(found: NearestHits | None, *, queries: str, model: str) -> dict[str, Any] | None:
    """Queries with their nearest hits, for a template; None where the result has none.

    `calibrated` says whether anything is known of a probability: without a calibration nothing is, and a page says so.

    Args:
        found: of the result.
        queries: what one of them is called, such as "test query".
        model: whose hits they are.
    """
    if found is None or not found.shown:
        return None
    drawn = f"{len(found.shown):,} of {words.counted(found.queries, queries)}"
    return {
        "lead": f"{drawn}, drawn by seed {found.seed} and not by what they found, each with its nearest hits by {model}. "
        f"The score is {_SCORES.get(found.ranking, settle(found.ranking))}.",
        "calibrated": any(hit.probability is not None or hit.abstain for each in found.shown for hit in each.hits),
        "asked": [{**_query(each), "place": _place(each, depth=found.depth)} for each in found.shown],
    }


def example_pictures(report: CalibrationReport, kind: Literal["errors", "abstentions"]) -> list[dict[str, Any]]:
    """The thumbnails of each example of a kind; None for those that there are not."""
    examples = report.figures.confident_errors if kind == "errors" else report.figures.good_abstentions
    pictures = getattr(report.shown, kind) if isinstance(report, DirectionReport) else ()
    beside = (*pictures, *(ExamplePictures() for _ in examples))[: len(examples)]
    return [
        {
            "query_picture": thumbnail_view(each.query, words=settle(hit.query)),
            "hit_picture": thumbnail_view(each.hit, words=settle(hit.hit)),
        }
        for each, hit in zip(beside, examples, strict=True)
    ]


def _query(asked: NearHits) -> dict[str, Any]:
    first = asked.hits[0] if asked.hits else None
    said = shorten(settle(asked.query), limit=_LONGEST_TEXT)
    return {
        "words": said,
        "picture": thumbnail_view(asked.picture, words=said),
        "unknown": first is None or first.abstain,
        "probability": "" if first is None else probability_words(first.probability),
        "answerable": asked.answerable,
        "task": shorten(settle(asked.task), limit=80),
        "place": "",
        "hits": [_hit(hit) for hit in asked.hits],
    }


def _place(asked: NearHits, *, depth: int) -> str:
    if not asked.answerable:
        return "Nothing to find"
    if asked.first_right is None:
        return f"No right hit among the first {depth:,}"
    return "The first hit is right" if asked.first_right == 1 else f"The first right hit comes at place {asked.first_right:,}"


def _hit(hit: NearHit) -> dict[str, Any]:
    said = shorten(settle(hit.words), limit=_LONGEST_TEXT)
    return {
        "id": shorten(settle(hit.id), limit=80),
        "words": said,
        "picture": thumbnail_view(hit.picture, words=said),
        "score": f"{hit.score:.3f}".replace("-", "−"),
        "probability": probability_words(hit.probability),
        "abstain": hit.abstain,
        "right": hit.right,
    }


def probability_words(value: float | None) -> str:
    """A probability with three decimals; one that only rounds to 0 or 1 says so, and one that nobody knows is "–".

    Example:
        >>> probability_words(0.5), probability_words(0.99999), probability_words(1.0), probability_words(None)
        ('0.500', '> 0.999', '1.000', '–')
    """
    if value is None:
        return "–"
    if 0.9995 <= value < 1.0:
        return "> 0.999"
    return "< 0.001" if 0.0 < value < 0.0005 else f"{value:.3f}"
