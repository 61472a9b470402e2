"""What the page of a norm report shows of single contents: the shortest, those in the middle and the longest of each modality."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import NormExample
from normwise.report import words
from normwise.report.inspect_words import settle
from normwise.report.svg import shorten
from normwise.report.thumbnails import thumbnail_view

_LONGEST_TEXT = 200


def examples_view(report: InspectReport) -> list[dict[str, Any]]:
    """One table for each modality that has examples: rows of a short, a middle and a long content; None where there is none."""
    return [
        {
            "name": settle(part.modality or part.source),
            "rows": [
                [None if one is None else _example(one) for one in row]
                for row in zip_longest(part.examples.lowest, part.examples.middle, part.examples.highest)
            ],
        }
        for part in (report, *report.parts)
        if part.examples is not None
    ]


def _example(one: NormExample) -> dict[str, Any]:
    said, beside = (shorten(settle(text), limit=_LONGEST_TEXT) for text in (one.words, one.beside))
    return {
        "words": said,
        "picture": thumbnail_view(one.picture, words=said),
        "norm": words.number(one.norm),
        "beside": beside,
        "beside_picture": thumbnail_view(one.beside_picture, words=beside),
    }
