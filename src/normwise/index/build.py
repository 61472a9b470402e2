"""Building an index: check everything, answer the self-test exactly, and hand both to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from normwise.core.index_config import IndexConfig
from normwise.index.checks import Value
from normwise.index.contents import check_contents
from normwise.index.opening import check_out
from normwise.index.protocol import Index
from normwise.index.request import BuildRequest
from normwise.index.self_test import make_self_test


def build_index(
    config: IndexConfig,
    out: str | Path,
    *,
    ids: Sequence[str],
    vectors: np.ndarray,
    texts: Sequence[str] | None = None,
    lengths: np.ndarray | None = None,
    metadata: Sequence[Mapping[str, Value]] | None = None,
    queries: np.ndarray | None = None,
    model: str = "vectors",
    model_name: str = "",
    overwrite: bool = False,
    log: Callable[[str], None] | None = None,
) -> Index:
    """Build an index of raw vectors with their norms, measure its recall against exact search, and open it.

    Args:
        config: engine, method, similarity and the rest.
        out: the folder to make; it appears whole or not at all.
        ids: N distinct names.
        vectors: (N, D) float16, float32 or float64, raw: never normalized before.
        texts: N texts, to be handed back by `Index.texts`.
        lengths: (N,) token counts, to be handed back with hits.
        metadata: N flat tables that hits can be filtered by.
        queries: (B, D) real queries to measure on, at most 400 of them; without any, noisy candidates serve, and the
            manifest says so.
        model: hash of the model that made the vectors.
        model_name: its name, for people.
        overwrite: whether an index at `out` is replaced; a calibration beside it stays.
        log: takes a line of words for each thing done.

    Returns:
        The index; its manifest says what was tried and what was kept.

    Raises:
        InputError: ids, vectors, texts, lengths, metadata or queries are not as above, or `out` exists.
        WorkError: the disk or a server refused, or an exact index did not find what exact search finds.
        MissingExtraError: the engine's library is not installed.
    """
    check_out(Path(out), overwrite=overwrite)
    contents = check_contents(ids, vectors, texts=texts, lengths=lengths, metadata=metadata)
    check_engine(config, out, overwrite=overwrite)
    test = make_self_test(contents, queries, similarity=config.similarity, k=config.recall_k, seed=config.seed)
    request = BuildRequest(config, Path(out), contents, test, model, model_name, overwrite, log or (lambda _: None))
    return _build(request)


def check_engine(config: IndexConfig, out: str | Path, *, overwrite: bool = False) -> None:
    """Look at the server of an index before there are vectors, so that nothing is refused only after long encoding.

    It has to answer, have what the engine needs, and have the name free; an engine in the folder has nothing to look at.

    Args:
        config: the settings.
        out: the folder that is to be made; names the table or collection where the settings do not.
        overwrite: whether an index of that name may be replaced.

    Raises:
        InputError: address, name, password or key, or another index of that name.
        WorkError: the server is down, too old, or grants too little.
        MissingExtraError: the engine's library is not installed.
    """
    if config.engine == "pgvector":
        from normwise.index.pgvector_index import check_pgvector

        check_pgvector(config, Path(out), overwrite=overwrite)
    elif config.engine == "qdrant" and config.url is not None:
        from normwise.index.qdrant_index import check_qdrant

        check_qdrant(config, Path(out), overwrite=overwrite)


def _build(request: BuildRequest) -> Index:
    if request.config.engine == "pgvector":
        from normwise.index.pgvector_index import build_pgvector

        return build_pgvector(request)
    if request.config.engine == "qdrant":
        from normwise.index.qdrant_index import build_qdrant

        return build_qdrant(request)
    from normwise.index.faiss_index import build_faiss

    return build_faiss(request)
