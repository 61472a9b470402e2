"""What an index is made of: ids, texts and metadata of candidates, and the queries that came with them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.data.beir_contents import IMAGE, advising
from normwise.data.beir_layout import CORPUS, QUERIES, beir_file, beir_home
from normwise.data.builtin import BUILTIN
from normwise.data.columns import BadRowsError, is_pair_file
from normwise.data.contents import MODALITIES, Content, Modality, content_digest, content_words, modality_of, pictures_of
from normwise.data.document_rows import ID, checked_content, column_names, is_pairs, named_rows, read_queries, refuse_picture_columns
from normwise.data.load import load_to_judge
from normwise.data.opening import kind_of, user_path
from normwise.data.picture_columns import PictureSource
from normwise.data.sets import Judged
from normwise.data.settings import CONFIGS, data_settings
from normwise.data.text_files import read_texts
from normwise.data.texts import text_problem

Scalar = str | int | float | bool
_METADATA = "metadata"
_ADVICE = "give --image-root, a folder that holds all pictures, or put them into the folder of the file"
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
        >>> from normwise.data.pictures import Picture
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
        >>> from normwise.data.pictures import Picture
        >>> shown_text(indexed_text(Picture.of_bytes(b"...", name="cat.png"))), shown_text("a bank")
        ('[cat.png]', 'a bank')
    """
    return _STORED.sub("", stored)


def stored_modality(stored: str) -> Modality:
    """The modality of what `indexed_text` made.

    Example:
        >>> from normwise.data.pictures import Picture
        >>> stored_modality(indexed_text(Picture.of_bytes(b"...", name="cat.png"))), stored_modality("a bank")
        ('image', 'text')
    """
    found = _STORED.search(stored)
    return "text" if found is None else next(known for known in MODALITIES if known == found[1])


def read_documents(name: str | Path, *, image_root: str | Path | None = None) -> Documents:
    """Read candidates, whatever form they come in.

    Args:
        name: a built-in set; a BEIR folder, whose corpus.jsonl is read (judgements are not needed) and whose queries.jsonl
            gives the queries; a training config, whose data are
            taken; a file like corpus.jsonl, in jsonl, csv, tsv or parquet; a file of pairs, whose distinct
            positives and negatives are the candidates; or a file of texts, or of named columns `text` and `image`, whose ids
            are then row numbers from 0. An `image` is a path inside the folder of the file; beside a text both are one
            candidate.
        image_root: the folder that paths of pictures begin at, and that none may leave; None is the folder of the file.

    Raises:
        InputError: nothing of that name, bad content, or the queries or judgements of a BEIR folder in place of its
            candidates; the message names file, row and column. An `image_root` where nothing names a picture.

    Example:
        >>> read_documents("gone.jsonl")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: gone.jsonl does not exist: check the path
    """
    root = None if image_root is None else user_path(image_root, what="image_root")
    if root is not None and kind_of(root) != "folder":
        raise InputError(f"image_root: {root} is not a folder: give the folder that paths of pictures begin at")
    found = _read(name, PictureSource(root=root))
    if root is not None and not any(pictures_of(content) for content in (*found.contents, *found.queries)):
        raise InputError(f"image_root is {root}, and {found.source} names no picture: leave it out")
    return found


def _read(name: str | Path, source: PictureSource) -> Documents:
    path = user_path(name, what="data")
    kind = None if str(name) in BUILTIN else kind_of(path)
    if kind == "folder" and (corpus := beir_file(path, CORPUS)) is not None:
        return _with_queries(_read_rows(corpus, [ID], source), beir_file(path, QUERIES), source)
    if kind == "file" and path.suffix.lower() in CONFIGS:
        return _of_set(str(name), source)
    if kind == "file":
        _refuse_other_side(path)
    if kind == "file" or (kind is None and (is_pair_file(path) or path.suffix == ".txt")):
        names = column_names(path)
        if ID in names or (not is_pairs(names) and not {IMAGE, _METADATA}.isdisjoint(names)):
            return _read_rows(path, names, source)
        if not is_pairs(names):
            refuse_picture_columns(path, names)
            texts = tuple(read_texts(path))
            return Documents(str(path), tuple(str(row) for row in range(len(texts))), texts)
    return _of_set(str(name), source)


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


def _of_set(name: str, source: PictureSource) -> Documents:
    given = {} if source.root is None else {"image_root": str(source.root)}
    try:
        data, _ = load_to_judge(data_settings(name, source="index", **given), seed=0)
    except BadRowsError as error:
        problems = [advising(problem, _ADVICE) for problem in error.problems]
        raise BadRowsError(error.where, problems, way_out="repair these rows, or take them out") from None
    except InputError as error:
        raise InputError(advising(str(error), _ADVICE).replace("data.image_root", "image_root")) from None
    judged: Judged | None = data.test or data.dev
    pairs = judged or data.train
    if pairs is None:
        raise InputError(f"{name} holds no candidates: expected a corpus")
    corpus = pairs.corpus
    return Documents(data.name, corpus.ids, corpus.contents, queries=tuple(dict.fromkeys(pairs.queries)), notes=data.notes)


def _with_queries(documents: Documents, path: Path | None, source: PictureSource) -> Documents:
    if path is None:
        return documents
    queries = tuple(dict.fromkeys(read_queries(path, pictures=source)))
    return Documents(documents.source, documents.ids, documents.contents, documents.metadata, queries, documents.notes)


def _read_rows(path: Path, names: list[str], source: PictureSource) -> Documents:
    """Rows of `image`, `text` or both, and `metadata`; `_id` where there is such a column, else row numbers."""
    ids: dict[str, str] = {}
    contents: list[Content] = []
    metadata: list[Mapping[str, Scalar]] = []
    skipped: Counter[str] = Counter()
    for place, record in named_rows(path):
        key: Any = record.get(ID) if ID in names else str(len(contents))
        if (problem := text_problem(key)) is not None:
            raise InputError(f"{path}, {place}, column _id: expected a text, got {key!r:.60}: it {problem}")
        if ids.setdefault(key, place) != place:
            raise InputError(f"{path}, {place}, column _id: {key!r} stands there twice ({ids[key]}): ids must be distinct")
        contents.append(checked_content(record, path=path, place=place, source=source, advice=_ADVICE))
        metadata.append(_flat(record.get(_METADATA), skipped))
    if not ids:
        raise InputError(
            f"{path} holds no usable row: expected {'an _id and a text' if ID in names else 'a text'} or a picture in every row"
        )
    notes = [f"metadata {name!r} of {count:,} rows is no text, number or truth value: left out" for name, count in skipped.items()]
    return Documents(str(path), tuple(ids), tuple(contents), tuple(metadata) if any(metadata) else (), notes=tuple(notes))


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
