"""Build an index: documents encoded by a model, or bare vectors, raw norms kept, recall measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.index_config import IndexConfig
from normwise.core.search_records import IndexReport
from normwise.data.documents import read_documents
from normwise.data.opening import check_new_place, kind_of, user_path
from normwise.index.build import build_index as build
from normwise.index.build import check_engine
from normwise.index.contents import check_beside
from normwise.index.opening import check_out
from normwise.workflows.change_index import check_not_current, naming, report_index
from normwise.workflows.index_rows import encoded_queries, encoded_rows, given_rows, query_vectors
from normwise.workflows.search_model import UNKNOWN, model_hash, open_encoder

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

_LIBRARY = {"faiss": "faiss", "pgvector": "psycopg", "qdrant": "qdrant_client"}


def build_index(
    out: str | Path,
    *,
    model: str | Path | Encoder | None = None,
    data: str | Path | None = None,
    vectors: str | Path | np.ndarray | None = None,
    ids: str | Path | Sequence[str] | None = None,
    queries: str | Path | np.ndarray | Sequence[str] | None = None,
    image_root: str | Path | None = None,
    overwrite: bool = False,
    batch_size: int = 64,
    log: Callable[[str], None] | None = None,
    **settings: Any,
) -> IndexReport:
    """Build an index of documents by a model, or of bare vectors, and measure its recall against exact search.

    Args:
        out: the folder to make; it appears whole or not at all.
        model: a folder, hub id or open encoder that encodes the documents of `data`; its similarity is the index's.
        data: a BEIR folder, a built-in set, a file like corpus.jsonl, a file of texts, or one of columns `text` and `image`, a
            path; with `vectors`, what their rows are. Pictures stay where they are: the index keeps names and digests.
            Flat fields of `metadata` in corpus.jsonl become filters.
        vectors: in place of a model, a `.npy` file or array (N, D) of raw vectors.
        ids: of bare vectors, a list or a file with one per line; None takes those of `data`, else row numbers.
        queries: real queries for the self-test: a list of texts or pictures, or a file of texts or of columns `text` and
            `image`, for a model, vectors (a `.npy` file or array) else. None takes those that come with `data` for a model, and
            else makes some from the candidates. At most 400 are used.
        image_root: the folder that paths of pictures in `data` begin at, and that none may leave; None is the folder of the file.
        overwrite: replace an index at `out`; nothing else is ever replaced.
        batch_size: texts per forward pass.
        log: takes a line of words for each thing done.
        settings: fields of `IndexConfig`: engine, method, storage, norm_storage, target_recall, url, name, and, of bare vectors
            only, similarity.

    Returns:
        What was built and what was tried.

    Raises:
        InputError: arguments that do not fit together, bad content, or `out` exists.
        WorkError: the disk or a server refused.
        MissingExtraError: the library of the engine, or of models, is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = build_index(f"{folder}/index", vectors=np.eye(3), similarity="dot")
        >>> report.candidates, report.manifest.recall
        (3, 1.0)
    """
    start, say = time.perf_counter(), log or (lambda _: None)
    if image_root is not None and data is None:
        raise InputError("image_root is of the pictures that data names: give data too, or leave it out")
    _check_out(out, overwrite=overwrite)
    _need_engine(settings.get("engine", "faiss"))
    if vectors is not None:
        _check_bare(model, settings)
        config = IndexConfig.read(settings, source="build_index")
        asked, own, name = query_vectors(queries), UNKNOWN, ""
        made = nullcontext(given_rows(vectors, ids=ids, data=data, image_root=image_root))
    else:
        if model is None or data is None:
            raise InputError("an index is built of a model and data, or of vectors: give model and data, or vectors and similarity")
        _check_encoded(ids, settings)
        documents = read_documents(data, image_root=image_root)
        with naming(documents.source):
            check_beside(documents.ids, texts=documents.texts, metadata=documents.metadata or None)
        encoder = open_encoder(model)
        config = IndexConfig.read({**settings, "similarity": encoder.similarity.value}, source="build_index")
        check_engine(config, out, overwrite=overwrite)
        asked = encoded_queries(encoder, queries, documents, seed=config.seed, batch_size=batch_size)
        own, name = _known_model(encoder)
        say(f"{encoder.name} encodes {len(documents):,} documents of {documents.source}")
        made = encoded_rows(encoder, documents, batch_size=batch_size)
    with made as rows:
        index = build(
            config,
            out,
            ids=rows.ids,
            vectors=rows.vectors,
            queries=asked,
            model=own,
            model_name=name,
            overwrite=overwrite,
            log=say,
            **rows.beside,
        )
    try:
        return report_index(index, out, notes=rows.notes, started=start)
    finally:
        index.close()


def _check_bare(model: Any, settings: Mapping[str, Any]) -> None:
    if model is not None:
        raise InputError("model encodes data, and vectors are there already: leave one of them out; a search may name the model")
    if settings.get("similarity") is None:
        raise InputError("bare vectors do not tell how they are scored: give similarity, such as dot or cosine")


def _check_encoded(ids: Any, settings: Mapping[str, Any]) -> None:
    if ids is not None:
        raise InputError("ids are of bare vectors; documents bring their own: leave ids out")
    if settings.get("similarity") is not None:
        raise InputError("similarity is the model's own, and is told of bare vectors only: leave it out")


def _check_out(out: str | Path, *, overwrite: bool) -> None:
    path = user_path(out, what="out")
    if kind_of(path) is None:
        check_new_place(path)
    check_out(path, overwrite=overwrite)
    if kind_of(path) is None:
        return
    check_not_current(path)


def _need_engine(engine: Any) -> None:
    """Refuse before the work an engine whose library is not installed."""
    library = _LIBRARY.get(str(engine))
    if library is not None and find_spec(library) is None:
        raise MissingExtraError(library, extra="index")


def _known_model(encoder: Encoder) -> tuple[str, str]:
    """The hash of a model, and its name; of a folder the whole path, since a search may start elsewhere."""
    path = Path(encoder.name)
    return model_hash(encoder), str(path.resolve()) if path.is_dir() else encoder.name
