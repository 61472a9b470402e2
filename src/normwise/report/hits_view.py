"""Queries with their nearest hits: what a result keeps of them, pictures included, and what a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from normwise.core.calibration_records import CalibrationReport
from normwise.core.records import Record
from normwise.report.inspect_words import settle
from normwise.report.svg import shorten
from normwise.report.thumbnails import thumbnail_view

_LONGEST_TEXT = 200


class ExamplePictures(Record):
    """Thumbnails of an example, as data URIs, where query or hit have pictures and the page has room."""

    query: str | None = None
    hit: str | None = None


class NearHit(Record):
    """One hit of a query as a search would show it. `probability` None: nobody knows."""

    id: str
    words: str
    picture: str | None = None
    score: float
    probability: float | None
    abstain: bool
    right: bool


class NearHits(Record):
    """A test query with its nearest hits, best first; `answerable` says whether anything in the corpus is relevant to it."""

    query: str
    picture: str | None = None
    answerable: bool
    hits: tuple[NearHit, ...]


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
    words = shorten(settle(asked.query), limit=_LONGEST_TEXT)
    return {
        "words": words,
        "picture": thumbnail_view(asked.picture, words=words),
        "unknown": first is None or first.abstain,
        "probability": "" if first is None else probability_words(first.probability),
        "answerable": asked.answerable,
        "hits": [_hit(hit) for hit in asked.hits],
    }


def _hit(hit: NearHit) -> dict[str, Any]:
    words = shorten(settle(hit.words), limit=_LONGEST_TEXT)
    return {
        "id": shorten(settle(hit.id), limit=80),
        "words": words,
        "picture": thumbnail_view(hit.picture, words=words),
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
