"""What shows where a picture is transparent, stated for contents and whole sets whose readers left it open."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from normwise.data.contents import Content, Interleaved
from normwise.data.picture_decoding import Color
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs

Part = TypeVar("Part", TrainingPairs, Judged)


def on_background(content: Content, color: Color) -> Content:
    """The content, its pictures on a color where they state none of their own.

    Example:
        >>> on_background(Picture.of_bytes(b"...", name="a.png"), (0, 0, 0)).background
        (0, 0, 0)
        >>> on_background("a text", (0, 0, 0))
        'a text'
    """
    if isinstance(content, Picture):
        return _shown(content, color)
    if isinstance(content, Interleaved):
        return Interleaved(tuple(part if isinstance(part, str) else _shown(part, color) for part in content.parts))
    return content


def _shown(picture: Picture, color: Color) -> Picture:
    return replace(picture, background=color) if picture.background is None else picture


def set_on_background(data: RetrievalData, color: Color) -> RetrievalData:
    """The set, all its pictures on a color where they state none of their own; splits that shared a corpus share one still."""
    known: dict[int, Corpus] = {}
    parts = {split: _part_on(part, color, known) for split in ("train", "dev", "test") if (part := getattr(data, split)) is not None}
    return replace(data, **parts)


def _part_on(part: Part, color: Color, known: dict[int, Corpus]) -> Part:
    corpus = part.corpus
    if id(corpus) not in known:
        known[id(corpus)] = replace(corpus, contents=tuple(on_background(content, color) for content in corpus.contents))
    return replace(part, queries=tuple(on_background(query, color) for query in part.queries), corpus=known[id(corpus)])
