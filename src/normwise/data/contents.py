"""What a query or a candidate is made of: a text, a picture, or texts and pictures in an order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from normwise.core.errors import InputError
from normwise.data.pictures import Picture
from normwise.data.texts import normalize_text, text_problem

Modality = Literal["text", "image", "text+image"]
MODALITIES: tuple[Modality, ...] = ("text", "image", "text+image")
PLACE = "<image>"


@final
@dataclass(frozen=True)
class Interleaved:
    """Texts and pictures in the order in which a model reads them; at least one picture and one text, or several pictures.

    Raises:
        InputError: there is nothing to interleave.

    Example:
        >>> shown = Picture.of_bytes(b"...", name="a.png")
        >>> Interleaved((shown, "the same in red")).text
        'the same in red'
    """

    parts: tuple[str | Picture, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or not any(isinstance(part, Picture) for part in self.parts):
            raise InputError("Interleaved holds a picture and a text, or several pictures: give a lone text or picture as it is")

    @property
    def text(self) -> str:
        """Its texts, joined by a blank."""
        return " ".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its pictures, in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


Content = str | Picture | Interleaved


def compose(text: str | None, pictures: tuple[Picture, ...]) -> Content:
    """Put a text and its pictures together: each picture stands where the text says `<image>`, else before the text.

    Args:
        text: may hold one `<image>` for each picture; None or blank for a picture alone.
        pictures: in the order of their places.

    Raises:
        InputError: the text has places, but not as many as there are pictures; or there is neither text nor picture.

    Example:
        >>> shown = Picture.of_bytes(b"...", name="a.png")
        >>> compose("as <image> but in red", (shown,)).parts[0]
        'as'
    """
    if not pictures:
        if text is None:
            raise InputError("neither text nor picture: give one of them")
        return text
    pieces = [piece.strip() for piece in (text or "").split(PLACE)]
    if len(pieces) == 1:
        parts: list[str | Picture] = [*pictures, *(piece for piece in pieces if piece)]
    elif len(pieces) - 1 != len(pictures):
        raise InputError(f"the text has {len(pieces) - 1} {PLACE} for {len(pictures)} picture(s): give one for each, or none")
    else:
        parts = [part for pair in zip(pieces, (*pictures, ""), strict=True) for part in pair if part]
    if len(parts) == 1:
        return parts[0]
    return Interleaved(tuple(parts))


def modality_of(content: Content) -> Modality:
    """Whether a content is text, image, or both.

    Example:
        >>> modality_of("bank")
        'text'
    """
    if isinstance(content, Interleaved):
        return "text+image" if any(isinstance(part, str) for part in content.parts) else "image"
    # What is no content at all (None in a file) counts as the text that it stands for; the checks name it.
    return "image" if isinstance(content, Picture) else "text"


def pictures_of(content: Content) -> tuple[Picture, ...]:
    """The pictures of a content, in order."""
    if isinstance(content, str):
        return ()
    return (content,) if isinstance(content, Picture) else content.pictures


def parts_of(content: Content) -> tuple[str | Picture, ...]:
    """The texts and pictures of a content, in order."""
    return content.parts if isinstance(content, Interleaved) else (content,)


def text_of(content: Content) -> str:
    """The text of a content; empty where it has none."""
    return content if isinstance(content, str) else "" if isinstance(content, Picture) else content.text


def content_problem(content: object) -> str | None:
    """Say why a content cannot be used, or None when it can; a picture is not decoded for it.

    Example:
        >>> content_problem(" "), content_problem("bank")
        ('is empty or whitespace', None)
    """
    if isinstance(content, Picture):
        return None
    if isinstance(content, Interleaved):
        return next((problem for part in content.parts if isinstance(part, str) and (problem := text_problem(part))), None)
    return text_problem(content)


def sameness(content: Content) -> str:
    """What two contents have in common that count as the same: texts up to case and whitespace, pictures by their bytes.

    Example:
        >>> sameness("A  bank") == sameness("a bank")
        True
    """
    if isinstance(content, str):
        return normalize_text(content)
    return "\0".join(normalize_text(part) if isinstance(part, str) else f"\1{part.digest}{part.shown_on}" for part in parts_of(content))


def content_digest(content: Content) -> bytes:
    """A hash of exactly this content: every character, every byte, and their order."""
    digest = hashlib.sha256()
    for part in parts_of(content):
        known = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else repr((part.digest, part.shown_on)).encode()
        digest.update(b"t" if isinstance(part, str) else b"p")
        digest.update(len(known).to_bytes(8, "big"))
        digest.update(known)
    return digest.digest()


def content_words(content: Content) -> str:
    """A content in words: texts as they are, pictures by their names in brackets.

    Example:
        >>> content_words(Picture.of_bytes(b"...", name="cat.png"))
        '[cat.png]'
    """
    return " ".join(part if isinstance(part, str) else f"[{part.name or 'picture'}]" for part in parts_of(content))


def content_place(content: Content) -> str:
    """File, row and column that named the first picture of a content; empty where none did.

    Example:
        >>> content_place(Picture.of_bytes(b"...", name="cat.png", where="pairs.jsonl, row 3")), content_place("a text")
        ('pairs.jsonl, row 3', '')
    """
    return next((picture.where for picture in pictures_of(content) if picture.where), "")


def texts_only(contents: tuple[Content, ...], *, what: str) -> tuple[str, ...]:
    """The contents as texts, for work that reads nothing else.

    Args:
        contents: all of them.
        what: whose contents they are, for the message.

    Raises:
        InputError: one has a picture.
    """
    for row, content in enumerate(contents):
        if not isinstance(content, str):
            place = f" of {found}" if (found := content_place(content)) else ""
            raise InputError(
                f"{what}: row {row} (from 0) is {modality_of(content)} ({content_words(content):.60}{place}), and texts are read here only"
            )
    return tuple(content for content in contents if isinstance(content, str))


def count_modalities(contents: tuple[Content, ...]) -> dict[Modality, int]:
    """How many contents are of each modality; those that there are, in a fixed order."""
    counts: dict[Modality, int] = {kind: sum(modality_of(content) == kind for content in contents) for kind in MODALITIES}
    return {modality: count for modality, count in counts.items() if count}


def iter_pictures(contents: tuple[Content, ...]) -> Iterator[Picture]:
    """Every picture once, in the order of first use."""
    seen: set[Picture] = set()
    for content in contents:
        for picture in pictures_of(content):
            if picture not in seen:
                seen.add(picture)
                yield picture
