"""What an index is made of: ids, texts and metadata of candidates, and the queries that came with them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.beir_layout import CORPUS, QUERIES, beir_file, beir_home
from normwise.data.builtin import BUILTIN
from normwise.data.columns import BadRowsError, is_pair_file
from normwise.data.contents import MODALITIES, Content, Modality, compose, content_digest, content_words, modality_of
from normwise.data.lines import read_json_lines, read_table
from normwise.data.load import load_to_judge
from normwise.data.opening import kind_of, user_path
from normwise.data.picture_decoding import PictureError
from normwise.data.picture_paths import resolve_picture
from normwise.data.pictures import Picture
from normwise.data.sets import Judged
from normwise.data.text_files import read_texts
from normwise.data.texts import has_visible, text_problem

Scalar = str | int | float | bool
_PAIR = "positive"
_IMAGE, _TEXT = "image", "text"
_STORED = re.compile(r" \{(image|text\+image) sha256 [0-9a-f]{64}\}\Z")


@dataclass(frozen=True)
class Documents:
    """Candidates to be indexed.

    Args:
        source: where they came from.
        ids: N distinct ids.
        contents: N texts, pictures, or both.
        metadata: N mappings of flat fields, empty where a candidate has none; () where none has any.
        queries: real queries that came with them, for the self-test of an index.
        notes: what a person should know.
    """

    source: str
    ids: tuple[str, ...]
    contents: tuple[Content, ...]
    metadata: tuple[Mapping[str, Scalar], ...] = ()
    queries: tuple[Content, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def texts(self) -> tuple[str, ...]:
        """What an index keeps of each: see `indexed_text`."""
        return tuple(map(indexed_text, self.contents))


def indexed_text(content: Content) -> str:
    """What an index keeps of a candidate: a text as it is; of a picture its words, modality and digest, and never the pixels.

    The digest makes another picture under the same name another candidate, to the hash of a corpus too.

    Raises:
        InputError: a text that reads like what is kept of a picture.

    Example:
        >>> indexed_text("a bank")
        'a bank'
        >>> indexed_text(Picture.of_bytes(b"...", name="cat.png"))[:24]
        '[cat.png] {image sha256 '
    """
    if not isinstance(content, str):
        return f"{content_words(content)} {{{modality_of(content)} sha256 {content_digest(content).hex()}}}"
    if _STORED.search(content) is not None:
        raise InputError(f"a text ends like what an index keeps of a picture ({content[-90:]!r}): write that end otherwise")
    return content


def shown_text(stored: str) -> str:
    """The words of what `indexed_text` made.

    Example:
        >>> shown_text(indexed_text(Picture.of_bytes(b"...", name="cat.png"))), shown_text("a bank")
        ('[cat.png]', 'a bank')
    """
    return _STORED.sub("", stored)


def stored_modality(stored: str) -> Modality:
    """The modality of what `indexed_text` made.

    Example:
        >>> stored_modality(indexed_text(Picture.of_bytes(b"...", name="cat.png"))), stored_modality("a bank")
        ('image', 'text')
    """
    found = _STORED.search(stored)
    return "text" if found is None else next(known for known in MODALITIES if known == found[1])


def read_documents(name: str | Path) -> Documents:
    """Read candidates, whatever form they come in.

    Args:
        name: a built-in set; a BEIR folder, whose corpus.jsonl is read (judgements are not needed) and whose queries.jsonl
            gives the queries; a file like corpus.jsonl; a file of pairs, whose distinct positives and negatives are the
            candidates; or a file of texts, or of named columns `text` and `image`, whose ids are then row numbers from 0. An
            `image` is a path inside the folder of the file; beside a text both are one candidate.

    Raises:
        InputError: nothing of that name, bad content, or the queries or judgements of a BEIR folder in place of its
            candidates; the message names file, row and column.

    Example:
        >>> read_documents("gone.jsonl")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.jsonl does not exist: check the path
    """
    path = user_path(name, what="data")
    kind = None if str(name) in BUILTIN else kind_of(path)
    if kind == "folder" and (corpus := beir_file(path, CORPUS)) is not None:
        return _with_queries(_read_corpus(corpus), beir_file(path, QUERIES))
    if kind == "file":
        _refuse_other_side(path)
    if kind == "file" or (kind is None and (is_pair_file(path) or path.suffix == ".txt")):
        names = column_names(path)
        if "_id" in names and (_IMAGE not in names or path.name.lower().removesuffix(".gz").endswith(".jsonl")):
            return _read_corpus(path)
        if _PAIR not in names and _IMAGE in names:
            return _read_pictured(path)
        if _PAIR not in names:
            texts = tuple(read_texts(path))
            return Documents(str(path), tuple(str(row) for row in range(len(texts))), texts)
    return _of_set(str(name))


def _refuse_other_side(path: Path) -> None:
    """Refuse the queries or judgements of a BEIR folder: an index of them would answer every query with a query."""
    folder = beir_home(path)
    corpus = None if folder is None else beir_file(folder, CORPUS)
    if corpus is None or path.name.removesuffix(".gz") == CORPUS:
        return
    if path.name.removesuffix(".gz") == QUERIES:
        raise InputError(
            f"{path} holds queries, and the candidates are in {corpus}: give the folder, {folder}; to index the queries themselves, give "
            "a copy of that file under another name"
        )
    raise InputError(f"{path} holds judgements, and the candidates are in {corpus}: give the folder, {folder}")


def _of_set(name: str) -> Documents:
    try:
        data, _ = load_to_judge(DataConfig.read({"name": name}, source="index"), seed=0)
    except BadRowsError as error:
        raise error.advising("repair these rows, or take them out") from None
    judged: Judged | None = data.test or data.dev
    pairs = judged or data.train
    if pairs is None:
        raise InputError(f"{name} holds no candidates: expected a corpus")
    corpus = pairs.corpus
    return Documents(data.name, corpus.ids, corpus.contents, queries=tuple(dict.fromkeys(pairs.queries)), notes=data.notes)


def _with_queries(documents: Documents, path: Path | None) -> Documents:
    if path is None:
        return documents
    queries = tuple(dict.fromkeys(read_texts(path)))
    return Documents(documents.source, documents.ids, documents.contents, documents.metadata, queries, documents.notes)


def column_names(path: Path) -> list[str]:
    """The names of the columns of a text format that has names; none of other files."""
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".jsonl":
        names = [name for _, record in islice(read_json_lines(path), 1) for name in record]
        # A corpus whose first row has lost its id is still a corpus: as bare texts its rows would get other ids in silence.
        known = "_id" in names or _PAIR in names
        return names if known or not any("_id" in record for _, record in read_json_lines(path)) else [*names, "_id"]
    if suffix in (".csv", ".tsv"):
        rows = islice(read_table(path, delimiter="," if suffix == ".csv" else "\t"), 1)
        return [cell.strip() for _, cells in rows for cell in cells]
    return []


def _read_corpus(path: Path) -> Documents:
    ids: dict[str, int] = {}
    contents: list[Content] = []
    metadata: list[Mapping[str, Scalar]] = []
    skipped: Counter[str] = Counter()
    for line, record in read_json_lines(path):
        key: Any = record.get("_id")
        if (problem := text_problem(key)) is not None:
            raise InputError(f"{path}, line {line}, column _id: expected a text, got {key!r:.60}: it {problem}")
        if ids.setdefault(key, line) != line:
            raise InputError(f"{path}, line {line}, column _id: {key!r} stands there twice (line {ids[key]}): ids must be distinct")
        contents.append(_content(record, home=path.parent, where=f"{path}, line {line}"))
        metadata.append(_flat(record.get("metadata"), skipped))
    if not ids:
        raise InputError(f"{path} holds no usable row: expected one JSON object per line with _id and text")
    notes = [f"metadata {name!r} of {count:,} rows is no text, number or truth value: left out" for name, count in skipped.items()]
    return Documents(str(path), tuple(ids), tuple(contents), tuple(metadata) if any(metadata) else (), notes=tuple(notes))


def _read_pictured(path: Path) -> Documents:
    """Rows of `image`, `text` or both, of a jsonl, csv or tsv file; `_id` where there is such a column, else row numbers."""
    ids: dict[str, int] = {}
    contents: list[Content] = []
    for line, record in _named_rows(path):
        key = record.get("_id", str(len(contents)))
        if (problem := text_problem(key)) is not None:
            raise InputError(f"{path}, line {line}, column _id: expected a text, got {key!r:.60}: it {problem}")
        if ids.setdefault(key, line) != line:
            raise InputError(f"{path}, line {line}, column _id: {key!r} stands there twice (line {ids[key]}): ids must be distinct")
        contents.append(_content(record, home=path.parent, where=f"{path}, line {line}"))
    if not ids:
        raise InputError(f"{path} holds no usable row: expected the path of a picture, or a text, in every row")
    return Documents(str(path), tuple(ids), tuple(contents))


def _named_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".jsonl":
        yield from read_json_lines(path)
        return
    rows = read_table(path, delimiter="," if suffix == ".csv" else "\t")
    names = [cell.strip() for cell in next(rows)[1]]
    for line, cells in rows:
        if len(cells) != len(names):
            raise InputError(f"{path}, line {line}: {len(cells)} cells for {len(names)} columns: quote cells that hold a delimiter")
        yield line, dict(zip(names, cells, strict=True))


def _content(record: Mapping[str, Any], *, home: Path, where: str) -> Content:
    """The candidate of a row: its picture, its text, or both."""
    name = record.get(_IMAGE)
    if name is None or name == "":
        return _joined(record, where=where)
    at = f"{where}, column {_IMAGE}"
    path = resolve_picture(name, root=home, where=at)
    try:
        picture = Picture.of_file(path, name=name)
        picture.open()  # a picture that no model can read is told before any is encoded
    except PictureError as error:
        raise InputError(f"{at}: {error}") from None
    lone = all(record.get(column) in (None, "") for column in ("title", _TEXT))
    try:
        return compose(None if lone else _joined(record, where=where), (picture,))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _joined(record: Mapping[str, Any], *, where: str) -> str:
    """Title and text as one, as `data.beir` joins them: the hash of the same corpus is the same, whoever read it."""
    title, text = record.get("title"), record.get("text")
    has_title = title is not None and not (isinstance(title, str) and not has_visible(title))
    if has_title and (problem := text_problem(title)) is not None:
        raise InputError(f"{where}, column title: {problem}; repair or drop that row")
    if text in (None, "") and has_title:
        return str(title)
    if (problem := text_problem(text)) is not None:
        raise InputError(f"{where}, column text: {'is missing' if 'text' not in record else problem}; repair or drop that row")
    return f"{title} {text}" if has_title else str(text)


def _flat(metadata: Any, skipped: Counter[str]) -> dict[str, Scalar]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        skipped["(the whole object)"] += 1
        return {}
    kept: dict[str, Scalar] = {}
    for name, value in metadata.items():
        if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
            kept[name] = value
        elif value is not None:
            skipped[name] += 1
    return kept
