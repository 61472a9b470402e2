"""The content of a row of corpus.jsonl, queries.jsonl or a file like them: its title and text, its pictures, or both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.contents import Content, compose
from normwise.data.picture_columns import PictureSource
from normwise.data.picture_paths import resolve_picture
from normwise.data.pictures import Picture
from normwise.data.texts import has_visible, text_problem

IMAGE, TEXT, TITLE = "image", "text", "title"
# What the reader of paths advises to those who have a run file; other doors have another way out.
_RUN_FILE = re.compile(r"set data\.image_root to [^;]*")
_INSIDE = "put the picture into that folder"


def joined_text(record: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Title and text of a row as one: whoever reads a corpus, its hash is the same.

    Returns:
        The text, and the column and words of what is wrong with it (None where nothing is).

    Example:
        >>> joined_text({"title": "Banks", "text": "a bank"})
        ('Banks a bank', 'text', None)
    """
    title, text = record.get(TITLE), record.get(TEXT)
    has_title = title is not None and not (isinstance(title, str) and not has_visible(title))
    if has_title and (problem := text_problem(title)) is not None:
        return "", TITLE, problem
    if text in (None, "") and has_title:
        return str(title), TEXT, None
    if (problem := text_problem(text)) is not None:
        return "", TEXT, "is missing" if TEXT not in record else problem
    return (f"{title} {text}" if has_title else str(text)), TEXT, None


def row_content(
    record: Mapping[str, Any], *, where: str, name: str, home: Path, source: PictureSource, advice: str = _INSIDE
) -> tuple[Content, tuple[str, str] | None]:
    """Put the text and the pictures of a row together.

    Args:
        record: column -> value; `image` is a path, bytes, a mapping of `bytes` and `path`, or a list of these; None and "" are
            no picture. With neither `text` nor `title` the picture stands alone.
        where: file and row, for messages.
        name: what a picture is called that came as bytes without a path.
        home: the folder that paths begin at, and that none may leave, where `source` gives none.
        source: where pictures stand, what shows through them, and whether each is decoded once.
        advice: the way out where a path leaves the folder.

    Returns:
        The content, and (column, problem) of what is wrong with it; None where nothing is.

    Example:
        >>> row_content({"text": "a bank"}, where="row 1", name="row 1", home=Path("."), source=PictureSource())
        ('a bank', None)
    """
    text, column, problem = joined_text(record)
    if _is_none(record.get(IMAGE)):
        return text, None if problem is None else (column, problem)
    lone = all(record.get(each) in (None, "") for each in (TITLE, TEXT))
    if problem is not None and not lone:
        return "", (column, problem)
    at = f"{where}, column {IMAGE}"
    try:
        pictures = tuple(_pictures(record[IMAGE], at=at, name=name, root=source.root or home, source=source))
        if source.check:
            for picture in pictures:
                picture.open()  # a picture that no model can read is told before any is encoded
        return compose(None if lone else text, pictures), None
    except InputError as error:
        told = str(error).removeprefix(f"{at}: ").replace(f" ({at})", "")  # the row is told by the caller
        return "", (IMAGE, advising(told, advice))


def advising(message: str, advice: str) -> str:
    """A message of a path that leads astray, with the way out that the asker has in place of a run file's setting.

    Example:
        >>> advising("'../a.png' leads out of photos: set data.image_root to a folder that holds all", "move it")
        "'../a.png' leads out of photos: move it"
    """
    return _RUN_FILE.sub(lambda _: advice, message)


def _is_none(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not value.get("bytes") and not value.get("path")
    return value is None or (isinstance(value, str | list | tuple) and not value)


def _pictures(value: Any, *, at: str, name: str, root: Path, source: PictureSource) -> Iterator[Picture]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pictures(item, at=at, name=name, root=root, source=source)
    elif isinstance(value, Mapping) and value.get("bytes"):
        yield Picture.of_bytes(bytes(value["bytes"]), name=str(value.get("path") or name), background=source.background, where=at)
    elif isinstance(value, bytes):
        yield Picture.of_bytes(value, name=name, background=source.background)
    else:
        path = value.get("path") if isinstance(value, Mapping) else value
        yield Picture.of_file(resolve_picture(path, root=root, where=at), name=path, background=source.background, where=at)
