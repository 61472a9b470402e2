"""Which FAISS index to keep: measured, never assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from normwise.core.errors import WorkError
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest, Method, RecallRow
from normwise.index.approximate import ApproximateStore, Graph, Lists, Structure, augmented
from normwise.index.codecs import fit_codecs
from normwise.index.compressed import CompressedStore
from normwise.index.contents import Contents
from normwise.index.faiss_flat import FlatStore
from normwise.index.questions import check_queries
from normwise.index.self_test import SelfTest, doubling, raise_effort
from normwise.index.store import Store, best

INNER_PRODUCT, AUGMENTED, DIRECTIONS = "inner product", "augmented", "directions"
# Of an exact index, which has neither graph nor lists.
NONE = "none"
_LEAST_EFFORT, _MOST_EFFORT = 16, 2048
_EFFORT_NAMES = {"hnsw": "ef_search", "ivf": "probes"}
_COMPARED = "vectors_compared"
_KINDS = {"hnsw": "graph", "ivf": "lists"}
# FAISS squares what it compares, in float32. Where that overflows, the training of lists ends the whole process.
_LONGEST = 1e18


@dataclass(frozen=True)
class Built:
    """A store and what was found on the way; `method` is exact where no effort reached the target."""

    store: Store
    method: Method
    graph: str
    recall: float
    words: str
    tried: tuple[RecallRow, ...]
    effort: dict[str, int] = field(default_factory=dict)
    radius: float = 0.0


def build_store(config: IndexConfig, contents: Contents, norms: np.ndarray, test: SelfTest, log: Callable[[str], None]) -> Built:
    """Build what the settings ask for, measure it, and say what was done.

    Args:
        config: the settings.
        contents: N candidates.
        norms: (N,) their norms as stored.
        test: exact answers.
        log: takes a line for each measurement.

    Raises:
        WorkError: an exact index does not find what exact search finds.
    """
    if config.storage != "float32":
        return _compressed(config, contents, norms, test, log)
    vectors = contents.scored(config.similarity)
    if config.method == "exact":
        return _exact(config, vectors, test, log, before=(), opening="Exact search")
    if not config.similarity.normalizes_candidate and contents.norms.max() > _LONGEST:
        beyond = f"norms reach {contents.norms.max():.3g}, and {config.method.upper()} works up to {_LONGEST:g}: rescale the vectors for it"
        return _exact(config, vectors, test, log, before=(), opening=f"Kept exact search, since {beyond}; exact search")
    return _approximate(config, vectors, contents, test, log)


def _measured(store: Store, test: SelfTest, *, graph: str, effort: dict[str, int], log: Callable[[str], None]) -> RecallRow:
    """The recall of an exact store as one row, told to the log."""

    def search(queries: np.ndarray, k: int) -> np.ndarray:
        directions, _ = check_queries(queries, dimensions=queries.shape[1])
        return best(store, directions, k=k, rows=None)[0]

    return _told(test.row(search, graph=graph, effort=effort), test, log)


def _measured_effort(
    store: ApproximateStore, test: SelfTest, *, graph: str, effort: dict[str, int], log: Callable[[str], None]
) -> RecallRow:
    """The recall that lists or a graph have alone at an effort, without exhaustive search to help, and the vectors compared."""

    def search(queries: np.ndarray, k: int) -> np.ndarray:
        directions, _ = check_queries(queries, dimensions=queries.shape[1])
        return store.nearest(directions, k=k)[0]

    (store.effort,) = effort.values()
    store.counters.reset()
    row = test.row(search, graph=graph, effort=effort)
    compared = round(store.counters.ndis / len(test))
    return _told(row.model_copy(update={"effort": {**effort, _COMPARED: compared}}), test, log)


def _told(row: RecallRow, test: SelfTest, log: Callable[[str], None]) -> RecallRow:
    at = "".join(f", {name} {value:,}" for name, value in row.effort.items())
    log(f"{row.graph}{at}: recall@{test.k} {row.recall:.4f}, {row.milliseconds_per_query or 0.0:.2f} ms a query")
    return row


def raise_store(config: IndexConfig, store: ApproximateStore, manifest: IndexManifest, test: SelfTest) -> Built | None:
    """Measure an approximate store that has changed and raise its effort until the target is met; None where no effort meets it."""
    name = _EFFORT_NAMES[config.method]
    ladder = [effort for effort in _ladder(config, len(store), test.k) if effort > store.effort]

    def measure(effort: int) -> RecallRow:
        return _measured_effort(store, test, graph=manifest.graph, effort={name: effort}, log=lambda _: None)

    rows = raise_effort(measure, [store.effort, *ladder], target=config.recall_target)
    if rows[-1].recall < config.recall_target:
        return None
    words = f"{_compared(config, list(rows), test, name)} Measured again after changes."
    effort = {**manifest.effort, name: store.effort}
    return Built(store, config.method, manifest.graph, rows[-1].recall, words, rows, effort, store.radius)


def _exact(
    config: IndexConfig,
    vectors: np.ndarray,
    test: SelfTest,
    log: Callable[[str], None],
    *,
    before: tuple[RecallRow, ...],
    opening: str,
) -> Built:
    store = FlatStore.build(vectors)
    graph = DIRECTIONS if config.similarity.normalizes_candidate else INNER_PRODUCT
    row = _measured(store, test, graph=f"exact over {graph}", effort={}, log=log)
    if row.recall < 1.0:
        raise WorkError(
            f"the exact index has recall@{test.k} {row.recall:.6f} in its self-test; expected 1: report this, and do not use it"
        )
    return Built(store, "exact", NONE, row.recall, f"{opening}: recall@{test.k} 1 on {_asked(test)}.", (*before, row))


def _compressed(config: IndexConfig, contents: Contents, norms: np.ndarray, test: SelfTest, log: Callable[[str], None]) -> Built:
    directions = contents.directions
    stores = [
        CompressedStore.build(codec, directions, norms, similarity=config.similarity)
        for codec in fit_codecs(config.storage, directions, seed=config.seed)
    ]
    sizes = [store.bytes_per_vector + norms.itemsize for store in stores]
    rows = tuple(
        _measured(store, test, graph=f"{config.storage}, {size} bytes a vector: {store.codec.words}", effort={}, log=log)
        for store, size in zip(stores, sizes, strict=True)
    )
    # The first of equals: it takes fewer bytes.
    kept = int(np.argmax([row.recall for row in rows]))
    store, row = stores[kept], rows[kept]
    words = (
        f"Exact scan of directions in {config.storage} ({store.codec.words}), norms in {config.norm_storage}: "
        f"{sizes[kept]} bytes a vector, norm included, in place of {4 * contents.dimensions}; "
        f"recall@{test.k} {row.recall:.4f} on {_asked(test)}."
    )
    return Built(store, "exact", NONE, row.recall, words, rows)


def _approximate(config: IndexConfig, vectors: np.ndarray, contents: Contents, test: SelfTest, log: Callable[[str], None]) -> Built:
    name, target = _EFFORT_NAMES[config.method], config.recall_target
    fixed = _fixed_effort(config, len(contents))
    ladder = _ladder(config, len(contents), test.k)
    tried: list[RecallRow] = []
    chosen: tuple[tuple[bool, int, float], str, ApproximateStore] | None = None
    for graph, radius in _graphs(config, contents):
        log(f"building {_KINDS[config.method]} over {graph} of {len(contents):,} vectors")
        structure = _structure(config, augmented(vectors, radius), by_distance=radius > 0.0, lists=fixed.get("lists", 0))
        store = ApproximateStore(structure, np.arange(len(contents)), effort=ladder[0], radius=radius)

        def measure(effort: int, store: ApproximateStore = store, graph: str = graph) -> RecallRow:
            return _measured_effort(store, test, graph=graph, effort={name: effort}, log=log)

        rows = raise_effort(measure, ladder, target=target)
        tried += rows
        # Of those that reach the target, the one that compares fewer vectors: efforts of two graphs are no one measure.
        standing = (rows[-1].recall >= target, -rows[-1].effort[_COMPARED], rows[-1].recall)
        if chosen is None or standing > chosen[0]:
            chosen = (standing, graph, store)
    words = _compared(config, tried, test, name)
    if chosen is None or not chosen[0][0]:
        opening = f"{words} None reached the target {target:g}: kept exact search"
        return _exact(config, vectors, test, log, before=tuple(tried), opening=opening)
    (_, _, recall), graph, store = chosen
    words = f"{words} Kept {graph}."
    return Built(store, config.method, graph, recall, words, tuple(tried), {name: store.effort, **fixed}, store.radius)


def _graphs(config: IndexConfig, contents: Contents) -> list[tuple[str, float]]:
    """What to build over, with the radius of each: directions under cosine, else inner products and augmented vectors."""
    if config.similarity.normalizes_candidate:
        return [(DIRECTIONS, 0.0)]
    radius = float(contents.norms.max())
    return [(INNER_PRODUCT, 0.0)] + ([(AUGMENTED, radius)] if radius > 0.0 else [])


def _structure(config: IndexConfig, vectors: np.ndarray, *, by_distance: bool, lists: int) -> Structure:
    if config.method == "ivf":
        return Lists.build(vectors, lists=lists, by_distance=by_distance, seed=config.seed)
    return Graph.build(vectors, links=config.hnsw_links, construction=config.hnsw_construction, by_distance=by_distance, seed=config.seed)


def _fixed_effort(config: IndexConfig, count: int) -> dict[str, int]:
    if config.method == "ivf":
        return {"lists": config.lists_for(count)}
    return {"links": config.hnsw_links, "construction_effort": config.hnsw_construction}


def _ladder(config: IndexConfig, count: int, k: int) -> list[int]:
    """Efforts to try. Half of all lists, or a walk over 2,048 vectors, is where exact search is the better choice."""
    if config.method == "ivf":
        return doubling(1, max(1, config.lists_for(count) // 2))
    return doubling(max(_LEAST_EFFORT, k), max(_LEAST_EFFORT, min(_MOST_EFFORT, count)))


def _compared(config: IndexConfig, tried: list[RecallRow], test: SelfTest, name: str) -> str:
    last = {row.graph: row for row in tried}
    figures = "; ".join(
        f"{graph} {row.recall:.4f} at {name} {row.effort[name]:,}, {row.effort[_COMPARED]:,} vectors compared a query"
        f"{'' if row.recall >= config.recall_target else ' (target not reached)'}"
        for graph, row in last.items()
    )
    return f"{config.method.upper()}, recall@{test.k} on {_asked(test)}: {figures}."


def _asked(test: SelfTest) -> str:
    if test.source == "queries":
        return f"{len(test)} real queries"
    return f"{len(test)} candidates with noise of half their length, since no query was given"
