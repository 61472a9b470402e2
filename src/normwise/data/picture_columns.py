"""Pictures in named columns: a picture beside or in place of every text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.contents import Content, Interleaved, compose
from normwise.data.picture_decoding import WHITE, Color, PictureError
from normwise.data.picture_paths import resolve_picture
from normwise.data.pictures import Picture

PICTURE_LIST = "negative_images"
_PICTURE = re.compile(r"(?:query|anchor|positive|negative(?:_[1-9][0-9]*)?)_image")
_SUFFIX = "_image"
_COLORS: dict[str, Color] = {"white": WHITE, "black": (0, 0, 0)}


def parse_color(name: str) -> Color:
    """The color of a name: white, black, or #rrggbb.

    Example:
        >>> parse_color("white"), parse_color("#ff8000")
        ((255, 255, 255), (255, 128, 0))
    """
    if name in _COLORS:
        return _COLORS[name]
    value = bytes.fromhex(name.removeprefix("#"))
    return value[0], value[1], value[2]


@dataclass(frozen=True)
class PictureSource:
    """Where the pictures of a set stand and how they are shown.

    Args:
        root: the folder that relative names are taken from, and that no name may leave; None is the folder of the file
            that names them.
        background: red, green and blue 0..255, shown where a picture is transparent; None leaves it to the model.
        check: decode every picture once before any work, so that a bad one is told with its row.
    """

    root: Path | None = None
    background: Color | None = None
    check: bool = True


def is_picture_column(name: str) -> bool:
    """Whether a column holds pictures.

    Example:
        >>> [is_picture_column(name) for name in ("query_image", "negative_2_image", "negative_images", "image")]
        [True, True, True, False]
    """
    return name == PICTURE_LIST or _PICTURE.fullmatch(name) is not None


_NEEDED = ("query", "anchor", "positive")


def has_pictures(names: Iterable[str]) -> bool:
    """Whether any column holds pictures."""
    return any(is_picture_column(name) for name in names)


def text_column(name: str) -> str:
    """The column whose text a picture column stands beside.

    Example:
        >>> text_column("negative_2_image"), text_column("negative_images")
        ('negative_2', 'negatives')
    """
    return "negatives" if name == PICTURE_LIST else name.removesuffix(_SUFFIX)


def compose_row(
    record: Mapping[str, Any], *, where: str, home: Path | None, source: PictureSource
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Put the texts and pictures of one row together.

    Args:
        record: column name -> value; a picture is a path, bytes, a dict of `bytes` and `path` (as `datasets` keeps them),
            a PIL image, or a list of these; None and "" are no picture.
        where: file and row, for messages.
        home: the folder of the file; None where rows come from no file.
        source: where pictures stand.

    Returns:
        The row with text columns that hold contents and without picture columns, and the first (column, problem).
    """
    row = {name: value for name, value in record.items() if not is_picture_column(name)}
    for name in filter(is_picture_column, record):
        try:
            base = text_column(name)
            reader = _Reader(where=f"{where}, column {name}", root=source.root or home, background=source.background)
            if name == PICTURE_LIST:
                row[base] = _compose_list(record.get(base), record[name], reader)
            else:
                row[base] = _compose(record.get(base), reader.pictures(record[name]))
                if row[base] is None and base in _NEEDED and base not in record:
                    return row, (name, "is empty: neither a picture nor a text")
        except PictureError as error:
            # Pictures without a name of their own are called by their row, which is told by the caller.
            named = "" if where in error.name else f" {error.name}"
            return row, (name, f"picture{named} {error.problem} ({error.way_out})")
        except InputError as error:
            return row, (name, str(error).removeprefix(f"{where}, column {name}").lstrip(":, "))
    return row, None


def _compose(text: Any, pictures: tuple[Picture, ...]) -> Any:
    if not pictures:
        return text
    if text is not None and not isinstance(text, str):
        raise InputError(f"beside the picture stands {text!r:.40} ({type(text).__name__}), not text")
    return compose(text, pictures)


def _compose_list(texts: Any, values: Any, reader: _Reader) -> list[Any]:
    if values in (None, ""):
        return list(texts) if isinstance(texts, list | tuple) else []
    if not isinstance(values, list | tuple):
        raise InputError(f"expected a list of pictures, got {type(values).__name__}")
    beside: Sequence[Any] = [None] * len(values) if texts in (None, "", [], ()) else texts
    if not isinstance(beside, list | tuple) or len(beside) != len(values):
        raise InputError(f"{len(values)} pictures beside {len(beside)} negatives: give one for each (null where there is none)")
    return [_compose(text, reader.pictures(value)) for text, value in zip(beside, values, strict=True)]


@dataclass(frozen=True)
class _Reader:
    where: str
    root: Path | None
    background: Color | None

    def pictures(self, value: Any) -> tuple[Picture, ...]:
        if isinstance(value, list | tuple):
            return tuple(picture for item in value for picture in self.pictures(item))
        if value is None or value == "" or (isinstance(value, Mapping) and value.keys() <= {"bytes", "path"} and not any(value.values())):
            return ()
        return (self._picture(value),)

    def _picture(self, value: Any) -> Picture:
        if isinstance(value, Mapping):
            if unknown := sorted(str(name) for name in value if name not in ("bytes", "path")):
                raise InputError(f"expected bytes or path, got a dict of {', '.join(unknown)}")
            return self._picture(value["bytes"] if value.get("bytes") else value["path"])
        if isinstance(value, bytes | bytearray | memoryview):
            return Picture.of_bytes(bytes(value), name=self.where, background=self.background)
        if isinstance(value, str):
            if self.root is None and "://" in value:
                raise InputError(f"{value!r:.60} is a URL: download the picture first, and give its file")
            if self.root is None:
                raise InputError(
                    f"{value!r:.60} is a path, and these rows come from no file: set data.image_root to the folder of the pictures"
                )
            path = resolve_picture(value, root=self.root, where=self.where)
            return Picture.of_file(path, name=value, background=self.background, where=self.where)
        if type(value).__module__.startswith("PIL."):
            return Picture.of_image(value, name=self.where, background=self.background)
        raise InputError(f"expected a path, bytes, or a dict of bytes and path, got {value!r:.40} ({type(value).__name__})")


def instruct(content: Content, instruction: str) -> Content:
    r"""Write a task's instruction into a query: before its first text, else behind its pictures.

    Example:
        >>> instruct("a cat", "Retrieve an image that best matches the following description.")
        'Retrieve an image that best matches the following description.\na cat'
    """
    if isinstance(content, str):
        return f"{instruction}\n{content}"
    if isinstance(content, Picture):
        return Interleaved((content, instruction))
    parts = list(content.parts)
    for place, part in enumerate(parts):
        if isinstance(part, str):
            parts[place] = f"{instruction}\n{part}"
            return Interleaved(tuple(parts))
    return Interleaved((*parts, instruction))
