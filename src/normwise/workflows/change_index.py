"""Change an index, and say what is in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.errors import InputError
from normwise.core.search_records import IndexReport
from normwise.data.documents import Documents, Scalar, read_documents
from normwise.data.opening import user_path
from normwise.data.texts import printable
from normwise.index.opening import open_index
from normwise.index.protocol import Index
from normwise.workflows.index_rows import Rows, encoded_rows, given_rows, read_ids
from normwise.workflows.search_model import UNKNOWN, encoder_of

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

# What stands in the folder of an embedded index beside vectors and norms, and what only building anew reads.
_SIDE = frozenset({"ids.json", "texts.json", "lengths.npy", "metadata.json", "hashes.npy", "settings.json", "self_test.npy"})


def add_to_index(
    index: str | Path,
    *,
    data: str | Path | None = None,
    vectors: str | Path | np.ndarray | None = None,
    ids: str | Path | Sequence[str] | None = None,
    model: str | Path | Encoder | None = None,
    image_root: str | Path | None = None,
    url: str | None = None,
    batch_size: int = 64,
) -> IndexReport:
    """Add documents, or bare vectors, to an index.

    Args:
        index: its folder.
        data: as in `build_index`; ids that the index holds already are refused.
        vectors: as in `build_index`, for an index of bare vectors.
        ids: of bare vectors.
        model: None takes the one that the index names.
        image_root: as in `build_index`.
        url: of the server, where the one in the folder lacks a password.
        batch_size: texts per forward pass.

    Returns:
        The index as it is now.

    Raises:
        InputError: as `build_index`; another model than the index's; an id that is there already; documents without metadata for an
            index that has some. Nothing is added then.
    """
    start = time.perf_counter()
    if image_root is not None and data is None:
        raise InputError("image_root is of the pictures that data names: give data too, or leave it out")
    with _opened(index, url=url) as opened:
        _check_savable(opened, index)
        if vectors is not None:
            if opened.manifest.model != UNKNOWN or model is not None:
                raise InputError(f"{index} was built with a model, which encodes what joins it: give data, and leave vectors out")
            if opened.manifest.has_texts and data is None:
                raise InputError(f"{index} keeps a text for every vector: give data too, a file like corpus.jsonl with a line for each row")
            rows = given_rows(vectors, ids=ids, data=data, image_root=image_root)
            left_out = _check_keys(opened, rows.metadata, source="vectors" if data is None else str(data), notes=rows.notes)
            _add(opened, rows)
            opened.save()
            return report_index(opened, index, changed=len(rows.ids), notes=(*rows.notes, *left_out), started=start)
        if data is None:
            raise InputError("nothing to add: give data, or vectors for an index of bare vectors")
        if ids is not None:
            raise InputError("ids are of bare vectors; documents bring their own: leave ids out")
        documents = read_documents(data, image_root=image_root)
        left_out = _check_new(opened, documents)
        encoder, notes = encoder_of(opened.manifest, model, index=str(index))
        with encoded_rows(encoder, documents, batch_size=batch_size) as rows:
            _add(opened, rows)
        opened.save()
        return report_index(opened, index, changed=len(documents), notes=(*notes, *rows.notes, *left_out), started=start)


def delete_from_index(index: str | Path, ids: str | Path | Sequence[str], *, url: str | None = None) -> IndexReport:
    """Take candidates out of an index.

    Args:
        index: its folder.
        ids: a list, or a file with one per line; where the index lacks one of them, nothing is deleted.
        url: as in `add_to_index`.

    Returns:
        The index as it is now.

    Raises:
        InputError: an unknown id, or none at all.
    """
    start = time.perf_counter()
    names = read_ids(ids)
    if not names:
        raise InputError("no ids came: name what is to be deleted")
    with _opened(index, url=url) as opened:
        _check_savable(opened, index)
        opened.delete(names)
        opened.save()
        return report_index(opened, index, changed=len(names), started=start)


def index_info(index: str | Path, *, url: str | None = None) -> IndexReport:
    """Open an index, which checks every file of it, and say what it is.

    Raises:
        InputError: no index, or one that is cut short or changed; WorkError: its server does not answer.
    """
    start = time.perf_counter()
    with _opened(index, url=url) as opened:
        return report_index(opened, index, started=start)


def report_index(index: Index, folder: str | Path, *, changed: int = 0, notes: Sequence[str] = (), started: float) -> IndexReport:
    """Say what an open index is.

    Args:
        index: the index.
        folder: where it lies.
        changed: how many candidates were added, or deleted.
        notes: what a person should know.
        started: when the work began, by `time.perf_counter`.
    """
    path, manifest, size = Path(folder), index.manifest, len(index)
    embedded = manifest.engine == "faiss"
    files = {file: file.stat().st_size for file in path.rglob("*") if file.is_file()}
    vectors = sum(length for file, length in files.items() if file.name in manifest.files and file.name not in _SIDE)
    return IndexReport(
        index=printable(str(folder)),
        manifest=manifest,
        candidates=size,
        bytes_on_disk=sum(files.values()),
        bytes_per_vector=vectors / size if embedded and size else None,
        changed=changed,
        notes=tuple(notes),
        seconds=time.perf_counter() - started,
    )


def check_not_current(folder: Path) -> None:
    """Refuse to replace the folder that one stands in: a shell, and whatever else does, would be left in one that is gone.

    Raises:
        InputError: it is the current folder or above it.
    """
    if Path.cwd().is_relative_to(folder.resolve()):
        raise InputError(f"{folder} is the current folder or above it, and is replaced as a whole: go to another folder and name this one")


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Put the name of a file in front of what is wrong with a row of it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


@contextmanager
def _opened(index: str | Path, *, url: str | None) -> Iterator[Index]:
    opened = open_index(user_path(index, what="index"), url=url)
    try:
        yield opened
    finally:
        opened.close()


def _check_savable(index: Index, folder: str | Path) -> None:
    if index.manifest.location is None:
        check_not_current(user_path(folder, what="index"))


def _check_new(index: Index, documents: Documents) -> tuple[str, ...]:
    """Refuse, before a model is opened, what an index would refuse after long encoding; notes of what is left out."""
    left_out = _check_keys(index, documents.metadata, source=documents.source, notes=documents.notes)
    if index.manifest.has_lengths and any(not isinstance(content, str) for content in documents.contents):
        raise InputError(
            f"{documents.source} holds pictures, and the index, built of texts alone, keeps a token count for every candidate, which a "
            "picture does not have: build the index anew of all candidates; nothing was added"
        )
    check = getattr(index, "check_new", None)
    if check is not None:
        with naming(documents.source):
            check(documents.ids, texts=documents.texts, metadata=documents.metadata if index.manifest.metadata_keys else None)
    return left_out


def _check_keys(index: Index, metadata: Sequence[Mapping[str, Scalar]] | None, *, source: str, notes: Sequence[str]) -> tuple[str, ...]:
    """Refuse documents without metadata for an index that has some: no filter would ever find them; notes of what is left out."""
    keys = index.manifest.metadata_keys
    if keys and not metadata:
        way = ", ".join(f"{json.dumps(key, ensure_ascii=False)}: ..." for key in keys)
        raise InputError(
            f"metadata are missing in {source}, and the candidates of the index have some ({', '.join(keys)}): give data like "
            f'corpus.jsonl, with "metadata": {{{way}}} on each line; nothing was added{"".join(f"; {note}" for note in notes)}'
        )
    bare = sum(not set(keys) & set(table) for table in metadata or ()) if keys else 0
    if bare:
        return (
            f"{bare:,} of {len(metadata or ()):,} documents of {source} have none of the keys of the index ({', '.join(keys)}): no "
            "filter will find them",
        )
    if metadata and not keys:
        came = ", ".join(sorted({key for table in metadata for key in table}))
        return (f"metadata of {source} ({came}) are left out, since the index was built without: build it again to filter by them",)
    return ()


def _add(index: Index, rows: Rows) -> None:
    """Add rows; an index is not given what it was built without."""
    manifest = index.manifest
    kept = replace(
        rows,
        texts=rows.texts if manifest.has_texts else None,
        lengths=rows.lengths if manifest.has_lengths else None,
        metadata=rows.metadata if manifest.metadata_keys else None,
    )
    index.add(kept.ids, kept.vectors, **kept.beside)
