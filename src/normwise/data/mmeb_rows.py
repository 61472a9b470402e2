"""Rows of MMEB's files as contents: cells are checked, places of pictures found, pictures named by their rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from normwise.core.errors import InputError
from normwise.data.columns import BadRowsError
from normwise.data.contents import PLACE, Content, compose, pictures_of
from normwise.data.mmeb_layout import IMAGES, Layout, Subset, read_rows
from normwise.data.opening import kind_of
from normwise.data.picture_check import check_pictures
from normwise.data.picture_decoding import Color, PictureError
from normwise.data.picture_paths import resolve_picture
from normwise.data.pictures import Picture
from normwise.data.texts import has_visible, text_problem

BadRows = Literal["refuse", "drop"]
_WAY_OUT = 'repair these rows, or leave them out with on_bad_rows="drop" (in a config: data.on_bad_rows)'
# How families of models write the place of a picture in a text.
_TOKENS = re.compile(r"<\|vision_start\|>(?:<\|image_pad\|>)+<\|vision_end\|>|<\|image_[0-9]+\|>|<\|image\|>|(?:<\|image_pad\|>)+|<image>")
_UNUSABLE = "picture cannot be used"
_HINTS = 20
_BLOCK = 1_024
_EMPTY = "is empty: neither text nor picture"


class RowProblem(InputError):
    """A row that cannot be used: column, problem, and the reason under which it is counted."""

    def __init__(self, column: str, problem: str, *, kind: str | None = None) -> None:
        super().__init__(f"column {column}: {problem}")
        self.reason = f"{column.partition('[')[0]} {kind or problem}"


@dataclass
class MmebRows:
    """What one reading of a folder keeps: pictures by name, what is wrong with them, and what was left out.

    With `check`, every picture is decoded once, a block of rows at a time, and a row with a bad one is a bad row.
    """

    folder: Path
    image_root: Path | None
    on_bad_rows: BadRows
    background: Color | None = None
    check: bool = True
    pictures: dict[str, Picture] = field(default_factory=dict)
    checked: dict[Picture, str | None] = field(default_factory=dict)
    missing: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def rows(self, subset: Subset, layout: Layout, split: str | None, read: Any) -> Iterator[tuple[Path, int, Any]]:
        """(file, row, what `read` makes of it) for every usable row; the others are refused or counted."""
        for path in subset.files(layout, split):
            problems = []
            records = read_rows(path, layout)
            while block := list(islice(records, _BLOCK)):
                for number, value in self._read(block, path, read):
                    if isinstance(value, RowProblem):
                        problems.append(f"row {number}, {value}")
                        self.dropped[value.reason] += 1
                    elif not problems or self.on_bad_rows == "drop":
                        yield path, number, value
            if problems and self.on_bad_rows == "refuse":
                raise BadRowsError(str(path), problems, way_out=_WAY_OUT)

    def _read(self, block: Sequence[tuple[int, Any]], path: Path, read: Any) -> Iterator[tuple[int, Any]]:
        """(row, what `read` makes of it, or the problem) of a block of rows."""
        found: list[tuple[int, Any]] = []
        for number, record in block:
            try:
                found.append((number, read(record, f"{path}, row {number}")))
            except RowProblem as problem:
                found.append((number, problem))
        if self.check:
            values = [value for _, value in found if not isinstance(value, RowProblem)]
            new = [picture for picture in dict.fromkeys(_pictures_in(values)) if picture not in self.checked]
            self.checked.update(dict.fromkeys(new))
            self.checked.update({new[bad.index]: f"picture {bad}" for bad in check_pictures(new)})
        for number, value in found:
            yield number, value if isinstance(value, RowProblem) else self._bad_picture(value) or value

    def _bad_picture(self, value: Any) -> RowProblem | None:
        for picture in _pictures_in(value):
            if problem := self.checked.get(picture):
                return RowProblem(picture.where.rpartition(", column ")[2] or "picture", problem, kind=_UNUSABLE)
        return None

    def content(self, text: Any, name: Any, columns: tuple[str, str], where: str) -> Content | None:
        """The content of a text and the name of a picture; None where both are empty."""
        for column, value in zip(columns, (text, name), strict=True):
            if value is not None and not isinstance(value, str):
                raise RowProblem(column, text_problem(value) or "is no text")
        text = _TOKENS.sub(PLACE, text).strip() if text and has_visible(text) else ""
        if text and (problem := text_problem(text)) is not None:
            raise RowProblem(columns[0], problem)
        pictures = (self._picture(name, columns[1], where),) if name and name.strip() else ()
        if not text and not pictures:
            return None
        if not pictures and PLACE in text:
            raise RowProblem(
                columns[0], f"has a place for a picture, but {columns[1]} is empty", kind="has a place for a picture that is missing"
            )
        try:
            return compose(text or None, pictures)
        except InputError as error:
            raise RowProblem(columns[0], str(error), kind="has more places than pictures") from None

    def needed(self, text: Any, name: Any, columns: tuple[str, str], where: str) -> Content:
        """As `content`, where something must stand."""
        content = self.content(text, name, columns, where)
        if content is None:
            raise RowProblem(columns[0], _EMPTY)
        return content

    def _picture(self, name: str, column: str, where: str) -> Picture:
        if name not in self.pictures:
            at, root = f"{where}, column {column}", self._root(name)
            try:
                # What may have been meant is looked for in the folder, which takes long where all pictures are missing.
                if self.missing >= _HINTS and kind_of(root / name) is None:
                    raise InputError(f"{name!r} does not exist in {root}")
                path = resolve_picture(name, root=root, where=at)
                self.pictures[name] = Picture.of_file(path, name=name, background=self.background, where=at)
            except PictureError as error:
                raise RowProblem(column, f"picture {error.name} {error.problem}: {error.way_out}", kind=_UNUSABLE) from None
            except InputError as error:
                self.missing += 1
                raise RowProblem(column, str(error).removeprefix(at).lstrip(": "), kind=_UNUSABLE) from None
        return self.pictures[name]

    def _root(self, name: str) -> Path:
        if self.image_root is not None:
            return self.image_root
        inside = self.folder / IMAGES
        return self.folder if name.startswith(f"{IMAGES}/") or kind_of(inside) != "folder" else inside


def _pictures_in(value: Any) -> Iterator[Picture]:
    """The pictures of contents, however deep in tuples and lists."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from _pictures_in(part)
    else:
        yield from pictures_of(value)


def query_of(reader: MmebRows, record: dict[str, Any], where: str) -> Content:
    """The query of a row of evaluation, its instruction first."""
    text = _joined(record.get("qry_inst"), record["qry_text"], "qry_inst") if "qry_inst" in record else record["qry_text"]
    return reader.needed(text, record["qry_img_path"], ("qry_text", "qry_img_path"), where)


def targets_of(reader: MmebRows, record: dict[str, Any], where: str, known: dict[tuple[Any, Any, Any], Content]) -> list[Content]:
    """The candidates of a row of evaluation, the right one first; `known` keeps what was read before."""
    texts, names = record["tgt_text"], record["tgt_img_path"]
    for column, cells in (("tgt_text", texts), ("tgt_img_path", names)):
        if not isinstance(cells, list):
            raise RowProblem(column, "is None, not a list" if cells is None else f"is {type(cells).__name__}, not a list")
    if len(texts) != len(names):
        raise RowProblem("tgt_text", f"has {len(texts)} entries, tgt_img_path {len(names)}", kind="and tgt_img_path differ in length")
    if not texts:
        raise RowProblem("tgt_text", "holds no target")
    instruction = record.get("tgt_inst")
    found = []
    for place, (text, name) in enumerate(zip(texts, names, strict=True)):
        key = (instruction, text, name)
        try:
            content = known.get(key)
        except TypeError:  # a list or an object in place of a text, which is refused below
            content = None
        if content is None:
            joined = _joined(instruction, text, "tgt_inst") if instruction and name else text
            content = reader.needed(joined, name, (f"tgt_text[{place}]", f"tgt_img_path[{place}]"), where)
            known[key] = content
        found.append(content)
    return found


def _joined(instruction: Any, text: Any, column: str) -> Any:
    if instruction is not None and not isinstance(instruction, str):
        raise RowProblem(column, text_problem(instruction) or "is no text")
    if text is not None and not isinstance(text, str):
        return text
    return " ".join(part for part in (_TOKENS.sub("", instruction or "").strip(), (text or "").strip()) if part)


def negatives_of(reader: MmebRows, record: dict[str, Any], where: str) -> list[Content]:
    """The explicit negatives of a row: none, one, or a list of them; empty ones are none."""
    texts, names = (record.get(column) for column in ("neg_text", "neg_image_path"))
    if not isinstance(texts, list) and not isinstance(names, list):
        texts, names = [texts], [names]
    if isinstance(names, list) and texts in (None, ""):
        texts = [None] * len(names)
    if isinstance(texts, list) and names in (None, ""):
        names = [None] * len(texts)
    if not isinstance(texts, list) or not isinstance(names, list) or len(texts) != len(names):
        raise RowProblem("neg_text", "and neg_image_path are not lists of one length")
    found = []
    for place, (text, name) in enumerate(zip(texts, names, strict=True)):
        columns = (f"neg_text[{place}]", f"neg_image_path[{place}]") if len(texts) > 1 else ("neg_text", "neg_image_path")
        content = reader.content(text, name, columns, where)
        if content is not None:
            found.append(content)
    return found
