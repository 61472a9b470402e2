"""Candidates with their vectors, ready for an index: encoded by a model, or given as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.contents import content_place, content_words, modality_of, pictures_of
from normwise.data.document_rows import column_names, read_queries
from normwise.data.documents import Documents, Scalar, read_documents
from normwise.data.opening import user_path
from normwise.data.text_files import read_texts
from normwise.data.vectors import load_vectors
from normwise.workflows.text_lengths import known_lengths, text_lengths

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

# More queries make the self-test of an index slower, and no more certain than its target asks for.
MOST_QUERIES = 400
_SHOWN = 5


@dataclass(frozen=True)
class Rows:
    """N candidates: ids, (N, D) raw vectors, and what is known beside them."""

    ids: Sequence[str]
    vectors: np.ndarray
    texts: Sequence[str] | None = None
    lengths: np.ndarray | None = None
    metadata: Sequence[Mapping[str, Scalar]] | None = None
    notes: tuple[str, ...] = ()

    @property
    def beside(self) -> dict[str, Any]:
        """What an index takes beside ids and vectors."""
        return {"texts": self.texts, "lengths": self.lengths, "metadata": self.metadata}


@contextmanager
def encoded_rows(encoder: Encoder, documents: Documents, *, batch_size: int) -> Iterator[Rows]:
    """Encode documents into a temporary file, a few batches in memory at a time, and count their tokens.

    Pictures have none, so that an index with pictures among its candidates keeps no counts.

    Raises:
        InputError: pictures for a model that reads texts only, told before any work with the row of the first.
    """
    _check_reads(encoder, documents)
    with tempfile.TemporaryDirectory(prefix="normwise-") as folder:
        vectors = encoder.encode_to_memmap(documents.contents, Path(folder) / "vectors.npy", batch_size=batch_size)
        lengths = known_lengths(text_lengths(encoder, documents.contents))
        yield Rows(documents.ids, vectors, documents.texts, lengths, documents.metadata or None, documents.notes)


def _check_reads(encoder: Encoder, documents: Documents) -> None:
    shown = next(((key, content) for key, content in zip(documents.ids, documents.contents, strict=True) if pictures_of(content)), None)
    if shown is None or "image" in encoder.contract.modalities:
        return
    key, content = shown
    place = content_place(content) or f"{documents.source}, candidate {key!r}"
    raise InputError(
        f"{place}: {content_words(content):.60} is {modality_of(content)}, and {encoder.name} reads texts only: choose a model that reads "
        "pictures (CLIP, SigLIP, Qwen-VL, a dual encoder)"
    )


def given_rows(
    vectors: str | Path | np.ndarray,
    *,
    ids: str | Path | Sequence[str] | None,
    data: str | Path | None,
    image_root: str | Path | None = None,
) -> Rows:
    """Take bare vectors, named by `ids`, by the documents of `data`, or by their row numbers.

    Raises:
        InputError: another shape, or numbers of rows that differ.

    Example:
        >>> given_rows(np.eye(2), ids=None, data=None).ids
        ['0', '1']
    """
    given = load_vectors(vectors) if isinstance(vectors, str | Path) else vectors
    if not isinstance(given, np.ndarray) or given.ndim != 2:
        raise InputError(
            f"vectors are a {type(given).__name__} of shape {np.shape(given)}; expected an array (N, D), or a .npy file of one"
        )
    count = given.shape[0]
    documents = None if data is None else read_documents(data, image_root=image_root)
    if documents is not None and len(documents) != count:
        raise InputError(
            f"{documents.source} holds {len(documents):,} documents, and vectors {count:,} rows: expected one each, in the same order"
        )
    names = None if ids is None else read_ids(ids)
    if names is not None and len(names) != count:
        raise InputError(f"ids are {len(names):,}, and vectors {count:,} rows: expected one each, in the same order")
    if documents is None:
        return Rows([str(row) for row in range(count)] if names is None else names, given)
    return Rows(names or documents.ids, given, documents.texts, metadata=documents.metadata or None, notes=documents.notes)


def read_ids(ids: str | Path | Sequence[str]) -> list[str]:
    """Take ids from a list, or from a file: one per line, or its column `_id` (as in corpus.jsonl), `id` or the only one.

    Raises:
        InputError: as `read_texts`, or a file of texts that have no ids.
    """
    if not isinstance(ids, str | Path):
        return list(ids)
    names = column_names(user_path(ids, what="ids"))
    column = next((name for name in ("_id", "id") if name in names), None)
    if column is None and len(names) > 1:
        raise InputError(f"{ids} has no column _id or id; it has {', '.join(names[:_SHOWN])}: name the one with the ids so")
    return read_texts(ids, column=column)


def query_vectors(queries: Any) -> np.ndarray | None:
    """Take query vectors from an array or a `.npy` file; None where none came.

    Raises:
        InputError: something else came.
    """
    if isinstance(queries, str | Path) and str(queries).lower().endswith(".npy"):
        return load_vectors(queries)
    if queries is not None and not isinstance(queries, np.ndarray):
        raise InputError("queries beside bare vectors are vectors too, since no model reads texts: give an array (B, D) or a .npy file")
    return queries


def encoded_queries(encoder: Encoder, queries: Any, documents: Documents, *, seed: int, batch_size: int) -> np.ndarray | None:
    """Encode real queries for a self-test, at most 400 of them.

    Args:
        encoder: of the index.
        queries: texts or pictures, a file of them, or vectors; None takes those that came with the documents.
        documents: of the index.
        seed: of the draw.
        batch_size: texts per forward pass.

    Returns:
        (B, D) vectors; None where there is no query.
    """
    if isinstance(queries, np.ndarray) or str(queries).lower().endswith(".npy"):
        return query_vectors(queries)
    asked = documents.queries if queries is None else read_queries(queries) if isinstance(queries, str | Path) else list(queries)
    if not asked:
        return None
    if len(asked) > MOST_QUERIES:
        rows = np.sort(np.random.default_rng(seed).choice(len(asked), MOST_QUERIES, replace=False))
        asked = [asked[row] for row in rows]
    return encoder.encode_queries(asked, batch_size=batch_size, progress=False)
