"""The embedded index: FAISS or compressed codes in a folder, with everything else in plain JSON and `.npy` files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json, write_json
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest
from normwise.core.similarity import Similarity
from normwise.index.approximate import ApproximateStore, Graph, Lists
from normwise.index.checks import Value
from normwise.index.compressed import CompressedStore
from normwise.index.contents import Contents, check_beside, check_contents, texts_hash
from normwise.index.faiss_build import Built, build_store, raise_store
from normwise.index.faiss_flat import FlatStore
from normwise.index.opening import open_index, seal_of, write_manifest
from normwise.index.placing import placed, replaced
from normwise.index.protocol import Found, Index, Where
from normwise.index.questions import check_k, check_known_ids, check_new_ids, check_queries, check_where
from normwise.index.request import BuildRequest
from normwise.index.row_hashes import sum_hashes
from normwise.index.scan import load_faiss
from normwise.index.self_test import SelfTest, make_self_test
from normwise.index.store import Store, best
from normwise.index.table import Table, stored_norms

_SETTINGS, _QUERIES = "settings.json", "self_test.npy"
# An approximate index of which more than this share came or went since its self-test is measured again.
_MOST_CHANGED = 0.2


class FaissIndex:
    """An index in this process. What `add` and `delete` change is found at once, and is on disk only after `save`.

    An approximate index is measured again, on the real queries of its first self-test or on others made from what it holds, when
    more than a fifth of it came or went, and before a changed one is saved; its effort rises then until the target is met. Where
    none meets it, where more than a fifth of a graph is dead, or where a norm beyond those seen joins an augmented one, it is
    built anew. A compressed index keeps no vectors to measure on: its recall counts as unknown after as many changes.
    """

    def __init__(self, path: Path, manifest: IndexManifest, settings: IndexConfig, table: Table, store: Store) -> None:
        self._path, self._manifest, self._settings = path, manifest, settings
        self._table, self._store = table, store
        self._similarity = Similarity(manifest.similarity)
        self.queries: np.ndarray | None = None
        # Of the manifest on disk that this one follows; None before the first is written.
        self.seal: str | None = None
        self.radius, self.added, self.deleted = 0.0, 0, 0
        self._closed = False

    @property
    def manifest(self) -> IndexManifest:
        """What is in it and how it was built; after `add` and `delete`, the corpus as it is now."""
        if not self.added and not self.deleted:
            return self._manifest
        words = f"{self._manifest.words} Since then {self.added:,} came and {self.deleted:,} went."
        if self._manifest.storage == "float32" or self.added + self.deleted <= _MOST_CHANGED * len(self):
            return self._manifest.model_copy(update={"words": words})
        # Raw vectors, which alone tell, are not kept; and codes were fitted to those that were there first.
        words = f"{words} The recall of so changed a {self._manifest.storage} index is not known: build it again."
        return self._manifest.model_copy(update={"words": words, "recall": None})

    def __len__(self) -> int:
        return len(self._table)

    def search(self, queries: np.ndarray, *, k: int, where: Where | None = None) -> Found:
        """Return the k best candidates; see `Index.search`."""
        self._check_open()
        directions, lengths = check_queries(queries, dimensions=self._manifest.dimensions)
        width = min(check_k(k), len(self))
        conditions = check_where(where, self._table.kinds)
        rows = self._table.rows_where(conditions) if conditions else None
        hits = width if rows is None else min(width, rows.size)
        found, keys = best(self._store, directions, k=hits, rows=rows)
        if not self._similarity.normalizes_query:
            keys *= lengths[:, None]
        return self._answer(found, keys, width=width)

    def _answer(self, rows: np.ndarray, scores: np.ndarray, *, width: int) -> Found:
        table, hits = self._table, rows.shape[1]

        def filled(values: np.ndarray, dtype: type, empty: object) -> np.ndarray:
            if hits == width:
                return values.astype(dtype, copy=False)
            whole = np.full((rows.shape[0], width), empty, dtype=dtype)
            whole[:, :hits] = values
            return whole

        return Found(
            ids=filled(table.ids[rows], object, None),
            scores=filled(scores, np.float64, -np.inf),
            norms=filled(table.norms[rows], np.float64, 0.0),
            counts=np.full(rows.shape[0], hits, dtype=np.int64),
            lengths=None if table.lengths is None else filled(table.lengths[rows], np.float64, 0.0),
        )

    def add(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        *,
        texts: Sequence[str] | None = None,
        lengths: np.ndarray | None = None,
        metadata: Sequence[Mapping[str, Value]] | None = None,
    ) -> None:
        """Add candidates; see `Index.add`. Nothing is added when one of them is refused."""
        self._check_open()
        known = self._table.known(self._manifest.dimensions)
        contents = check_contents(ids, vectors, texts=texts, lengths=lengths, metadata=metadata, known=known)
        check_new_ids(contents.ids, self._table.row_of)
        norms = stored_norms(contents.norms, self._settings.norm_storage)
        fits = self._store.takes(contents.norms)
        before = None if fits else self._raw()
        if fits:
            self._store.add(contents.directions if self._manifest.storage != "float32" else contents.scored(self._similarity), norms)
        self._table.append(contents, norms=norms)
        self.added += len(contents)
        self._follow(
            corpus_vectors=sum_hashes(map(bytes, self._table.hashes[-len(contents) :]), start=self._manifest.corpus_vectors),
            corpus_texts=texts_hash(contents, start=self._manifest.corpus_texts),
        )
        if before is not None:
            self._build_again(np.concatenate([before, contents.vectors]))
        else:
            self._refresh()

    def check_new(self, ids: Sequence[str], *, texts: Sequence[str] | None, metadata: Sequence[Mapping[str, Value]] | None) -> None:
        """Refuse, before there are vectors, what `add` would refuse."""
        check_beside(ids, texts=texts, metadata=metadata, kinds=self._table.kinds)
        check_new_ids(ids, self._table.row_of)

    def delete(self, ids: Sequence[str]) -> None:
        """Take candidates out; see `Index.delete`."""
        self._check_open()
        names = check_known_ids(ids, self._table.row_of)
        rows = np.sort(np.array([self._table.row_of[name] for name in names], dtype=np.int64))
        if not rows.size:
            return
        gone, hashes = self._without_vectors(rows), self._table.hashes[rows]
        self._store.remove(rows)
        self._table.remove(rows)
        self.deleted += rows.size
        self._follow(
            corpus_vectors=sum_hashes(map(bytes, hashes), start=self._manifest.corpus_vectors, take_away=True),
            corpus_texts=texts_hash(gone, start=self._manifest.corpus_texts, take_away=True),
        )
        self._refresh()

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The texts of candidates, None where the index was given none."""
        return self._table.texts_of(ids)

    def metadata(self, ids: Sequence[str]) -> list[Mapping[str, Value]]:
        """The metadata of candidates; see `Index.metadata`."""
        return self._table.metadata_of(ids)

    def save(self) -> None:
        """Write the index as it is now over its folder, whole or not at all; files of others in it (a calibration) stay.

        Raises:
            WorkError: the disk refused, or somebody else has saved since this one was opened; the folder is as it was.
        """
        self._check_open()
        if self.added or self.deleted:
            self._measure_again()
        with replaced(self._path, self._manifest, seal=self.seal) as folder:
            written = self.write(folder)
        self.seal = seal_of(written)
        self._manifest = self._manifest.model_copy(update={"files": written.files})

    def write(self, folder: Path) -> IndexManifest:
        """Write everything into an empty folder; the manifest with the hashes of all files."""
        self._store.save(folder)
        self._table.save(folder)
        if self.queries is not None:
            np.save(folder / _QUERIES, self.queries, allow_pickle=False)
        since = {"words": self._manifest.words, "added": self.added, "deleted": self.deleted}
        write_json(folder / _SETTINGS, {"config": self._settings.model_dump(mode="json"), "radius": self.radius, "self_test": since})
        return write_manifest(folder, self.manifest)

    def close(self) -> None:
        """Let go of the memory map; a closed index answers no more."""
        self._closed = True
        self._store = FlatStore.build(np.empty((0, self._manifest.dimensions), dtype=np.float32))

    def _check_open(self) -> None:
        if self._closed:
            raise WorkError(f"the index of {self._path} was closed: open it again")

    def _without_vectors(self, rows: np.ndarray) -> Contents:
        texts = self._table.texts
        names = tuple(self._table.ids[rows])
        return Contents(
            ids=names,
            vectors=np.empty((len(names), 0), dtype=np.float32),
            norms=np.empty(0),
            texts=None if texts is None else tuple(texts[row] for row in rows),
        )

    def _follow(self, **hashes: str | None) -> None:
        update = {"candidates": len(self), "metadata_keys": tuple(sorted(self._table.kinds)), **hashes}
        self._manifest = self._manifest.model_copy(update=update)

    def _refresh(self) -> None:
        """Build an approximate index anew when too much of it is dead; measure it again when much has changed."""
        if self._store.stale() and len(self):
            self._build_again(self._raw())
        elif self.added + self.deleted > _MOST_CHANGED * len(self):
            self._measure_again()

    def _measure_again(self) -> None:
        """Raise the effort of an approximate index as far as it has to be now, or build it anew where that is not enough."""
        if not isinstance(self._store, ApproximateStore) or not len(self):
            return
        vectors = self._raw()
        test = self._test(vectors)
        built = raise_store(self._settings, self._store, self._manifest, test)
        if built is None:
            self._build_again(vectors)
        else:
            self._keep(built, test)

    def _test(self, vectors: np.ndarray) -> SelfTest:
        norms = self._table.norms.astype(np.float64)
        contents = Contents(ids=tuple(self._table.ids), vectors=vectors, norms=norms)
        settings = self._settings
        return make_self_test(contents, self.queries, similarity=self._similarity, k=settings.recall_k, seed=settings.seed)

    def _raw(self) -> np.ndarray:
        vectors = self._store.take(slice(None))
        if self._similarity.normalizes_candidate:
            vectors = vectors * self._table.norms.astype(np.float32)[:, None]
        return np.ascontiguousarray(vectors)

    def _build_again(self, vectors: np.ndarray) -> None:
        test = self._test(vectors)
        self._keep(build_store(self._settings, test.contents, self._table.norms, test, lambda _: None), test)

    def _keep(self, built: Built, test: SelfTest) -> None:
        self._store, self.radius, self.added, self.deleted = built.store, built.radius, 0, 0
        measured = {"recall_k": test.k, "recall_queries": len(test), "recall_source": test.source}
        self._manifest = self._manifest.model_copy(update=_found(built) | measured)


def build_faiss(request: BuildRequest) -> Index:
    """Build what a request asks for, write the folder, and return the index.

    Raises:
        InputError: a norm does not fit into `norm_storage`, or the folder exists.
        WorkError: the disk refused, or an exact index failed its self-test.
        MissingExtraError: faiss is not installed.
    """
    load_faiss()
    config, test = request.config, request.test
    table = Table(request.contents, norm_storage=config.norm_storage)
    built = build_store(config, request.contents, table.norms, test, request.log)
    request.log(built.words)
    manifest = request.manifest(corpus_vectors=sum_hashes(map(bytes, table.hashes)), **_found(built))
    index = FaissIndex(request.out, manifest, config, table, built.store)
    index.queries = test.queries if config.method != "exact" and test.source == "queries" else None
    index.radius = built.radius
    with placed(request.out, overwrite=request.overwrite) as folder:
        index.write(folder)
    # Another writer may already be at the folder again: it is read as by anybody else.
    return open_index(request.out)


def open_faiss(folder: Path, manifest: IndexManifest) -> FaissIndex:
    """Open a folder whose files were checked; large ones are mapped into memory.

    Raises:
        MissingExtraError: faiss is not installed.
    """
    load_faiss()
    settings, seal = read_json(folder / _SETTINGS), seal_of(manifest)
    table, since = Table.load(folder), settings["self_test"]
    manifest = manifest.model_copy(update={"words": since["words"]})
    index = FaissIndex(folder, manifest, IndexConfig.read(settings["config"]), table, _load_store(folder, manifest, table, settings))
    index.seal = seal
    index.radius, index.added, index.deleted = settings["radius"], since["added"], since["deleted"]
    queries = folder / _QUERIES
    index.queries = np.load(queries, allow_pickle=False) if queries.exists() else None
    if len(table) != manifest.candidates or len(index._store) != manifest.candidates:
        raise InputError(f"{folder} holds {len(table)} rows, and its manifest says {manifest.candidates}: build the index again")
    return index


def _load_store(folder: Path, manifest: IndexManifest, table: Table, settings: Mapping) -> Store:
    similarity = Similarity(manifest.similarity)
    if manifest.storage != "float32":
        return CompressedStore.load(folder, manifest.storage, table.norms, similarity=similarity, width=manifest.dimensions)
    if manifest.method == "exact":
        return FlatStore.load(folder)
    kind, effort = (Graph, "ef_search") if manifest.method == "hnsw" else (Lists, "probes")
    return ApproximateStore.load(folder, kind, effort=manifest.effort[effort], radius=settings["radius"])


def _found(built: Built) -> dict:
    return {
        "method": built.method,
        "graph": built.graph,
        "effort": built.effort,
        "recall": built.recall,
        "tried": built.tried,
        "words": built.words,
    }
