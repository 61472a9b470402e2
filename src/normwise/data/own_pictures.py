"""A query's own picture among its candidates: found, so that it is not ranked as an answer to itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from normwise.data.contents import Content, pictures_of
from normwise.data.pictures import Picture

OwnPictures = Literal["exclude", "keep"]
LEFT_OUT = (
    "a query's own picture is no candidate of that query unless it is judged relevant, as CIRR and FashionIQ have it "
    '(own_pictures = "keep" under [data] ranks it too)'
)
RANKED = "a query's own picture is ranked among its candidates here, though normwise evaluate leaves it out"
KEPT = 'a query\'s own picture is ranked among its candidates (own_pictures = "keep"), unlike in CIRR and FashionIQ'


def as_ranked(notes: Sequence[str]) -> tuple[str, ...]:
    """The notes of a set for work that ranks queries' own pictures like any candidate.

    Example:
        >>> as_ranked(["a note", LEFT_OUT]) == ("a note", RANKED)
        True
    """
    return tuple(RANKED if note == LEFT_OUT else note for note in notes)


def own_rows(queries: Sequence[Content], candidates: Sequence[Content], relevance: Sequence[Mapping[int, float]]) -> list[tuple[int, ...]]:
    """For each query, the candidates that are one of its own pictures and are not judged relevant.

    A query of a picture and a change in words finds that picture first wherever it is a candidate, and it is never the
    answer; so the published protocols take it out. What counts is the bytes of a picture, not its name. A candidate of a
    picture and a text stays: sets that ask which text goes with a picture have the query's picture in every candidate.

    Args:
        queries: B contents.
        candidates: N contents.
        relevance: B mappings, row of a candidate -> gain.

    Returns:
        B tuples of rows in ascending order; almost all empty.

    Reference: Liu et al., CIRR (arXiv 2108.04024), and Wu et al., Fashion IQ (arXiv 1905.12794): the reference picture is
    left out of the ranked candidates.

    Example:
        >>> car, bus = Picture.of_bytes(b"car", name="car.png"), Picture.of_bytes(b"bus", name="bus.png")
        >>> own_rows([car, "a bus"], [bus, car], [{0: 1.0}, {0: 1.0}])
        [(1,), ()]
    """
    asked = [{picture.digest for picture in pictures_of(query)} for query in queries]
    if not any(asked):
        return [()] * len(asked)
    rows: dict[str, list[int]] = {}
    for row, candidate in enumerate(candidates):
        if isinstance(candidate, Picture):
            rows.setdefault(candidate.digest, []).append(row)
    return [
        tuple(sorted(row for digest in shown for row in rows.get(digest, ()) if judged.get(row, 0.0) <= 0))
        for shown, judged in zip(asked, relevance, strict=True)
    ]
