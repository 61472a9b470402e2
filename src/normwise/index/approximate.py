"""Search over lists or a graph: serial numbers that never change, filters, and exact search where that is better."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from normwise.core.errors import WorkError
from normwise.index.faiss_flat import VECTORS, flat_view, largest_norm, mapped_index, owned, write_index
from normwise.index.scan import load_faiss, ranked, top_of

_SERIALS = "serials.npy"
_MOST_DEAD = 0.2
# A filter that leaves fewer rows is scanned exactly: that is faster than a graph of which most nodes are skipped.
_SCANNED_SHARE, _SCANNED_ROWS = 0.1, 2000


class Structure(Protocol):
    """A FAISS index whose vectors are known by serial numbers, the place of each in the order of all additions."""

    index: Any

    def vectors(self, serials: np.ndarray) -> np.ndarray:
        """(n, D) vectors by serial number."""
        ...

    def parameters(self, effort: int, selector: Any, *, share: float) -> Any:
        """FAISS search parameters of an effort; `selector` says which serial numbers may be found (None = all), a share of all."""
        ...

    @property
    def counters(self) -> Any:
        """The counters that FAISS keeps of this kind of search."""
        ...

    def insert(self, vectors: np.ndarray, serials: np.ndarray) -> None:
        """Add vectors under new serial numbers, the largest yet."""
        ...

    def drop(self, serials: np.ndarray) -> None:
        """Take vectors out, where the structure can; else selectors hide them."""
        ...

    def next_serial(self, serials: np.ndarray) -> int:
        """The first serial number that is free, where `serials` live."""
        ...


class ApproximateStore:
    """Vectors in lists or in a graph.

    Args:
        structure: the FAISS index.
        serials: ascending serial numbers of the living rows.
        effort: how hard to search.
        radius: the norm to which one more coordinate brings every vector (0 = none is added): L2 search among those ranks
            as the inner product does.
        mapped: whether the index is a memory map.
    """

    def __init__(self, structure: Structure, serials: np.ndarray, *, effort: int, radius: float, mapped: bool = False) -> None:
        self._structure, self._serials, self._mapped = structure, serials, mapped
        self.effort, self.radius = effort, radius
        self._next = structure.next_serial(serials)
        self._largest = radius

    @classmethod
    def load(cls, folder: Path, kind: Any, *, effort: int, radius: float) -> ApproximateStore:
        """Map what `save` wrote into memory; `kind` is the class of the structure."""
        serials = np.load(folder / _SERIALS, allow_pickle=False)
        return cls(kind(mapped_index(folder / VECTORS)), serials, effort=effort, radius=radius, mapped=True)

    def __len__(self) -> int:
        return self._serials.size

    @property
    def largest(self) -> float:
        """At least the norm of every vector."""
        if not self._largest:
            step = max(1, (1 << 22) // self._structure.index.d)
            self._largest = max((largest_norm(self.take(slice(start, start + step))) for start in range(0, len(self), step)), default=0.0)
        return self._largest

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, D) float32 vectors as they are ranked."""
        vectors = self._structure.vectors(self._serials[rows])
        return vectors[:, :-1] if self.radius > 0.0 else vectors

    def search(self, directions: np.ndarray, *, k: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The k best that the structure finds, scored exactly; where it finds fewer than there are, exhaustive search answers."""
        if rows is not None and rows.size <= max(_SCANNED_ROWS, _SCANNED_SHARE * len(self)):
            return top_of(self, directions, k=k, rows=rows)
        found, keys = self.nearest(directions, k=k, rows=rows)
        short = np.flatnonzero(found[:, -1] < 0)
        if short.size:
            found[short], keys[short] = top_of(self, directions[short], k=k, rows=rows)
        return found, keys

    def nearest(self, directions: np.ndarray, *, k: int, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """What the structure alone finds, scored exactly; -1 and -inf behind it where that is less than there is."""
        allowed = self._serials if rows is None else self._serials[rows]
        queries = directions.astype(np.float32)
        if self.radius > 0.0:
            queries = np.hstack([queries, np.zeros((queries.shape[0], 1), dtype=np.float32)])
        share = allowed.size / max(1, self._structure.index.ntotal)
        parameters = self._structure.parameters(self.effort, self._selector(allowed), share=share)
        _, serials = self._structure.index.search(queries, k, params=parameters)
        return ranked(self, directions, self._rows(serials))

    @property
    def counters(self) -> Any:
        """FAISS counters of this kind of search, those of the whole process: `reset()`, and `ndis` vectors compared since."""
        return self._structure.counters

    def takes(self, norms: np.ndarray) -> bool:
        """Whether vectors of these norms fit within the radius."""
        return self.radius == 0.0 or bool((norms <= self.radius).all())

    def add(self, vectors: np.ndarray, norms: np.ndarray) -> None:
        """Add vectors at the end."""
        if not self.takes(norms):
            raise WorkError(f"a norm of {norms.max():.6g} does not fit within the radius {self.radius:.6g} of this index: build it again")
        self._own()
        serials = self._next + np.arange(vectors.shape[0])
        self._structure.insert(augmented(vectors, self.radius), serials)
        self._serials, self._next = np.concatenate([self._serials, serials]), self._next + serials.size
        self._largest = self.radius

    def remove(self, rows: np.ndarray) -> None:
        """Take ascending rows out; the rows behind them move up."""
        self._own()
        self._structure.drop(self._serials[rows])
        self._serials = np.delete(self._serials, rows)

    def stale(self) -> bool:
        """Whether more than a fifth of what the structure holds is dead."""
        held = self._structure.index.ntotal
        return held - len(self) > _MOST_DEAD * held

    def save(self, folder: Path) -> None:
        """Write the FAISS file and the serial numbers."""
        write_index(self._structure.index, folder / VECTORS)
        np.save(folder / _SERIALS, self._serials, allow_pickle=False)

    def _own(self) -> None:
        if self._mapped:
            self._structure.index, self._mapped = owned(self._structure.index), False

    def _rows(self, serials: np.ndarray) -> np.ndarray:
        rows = np.searchsorted(self._serials, serials)
        rows[serials < 0] = -1
        return rows

    def _selector(self, allowed: np.ndarray) -> Any:
        if allowed.size == self._structure.index.ntotal:
            return None
        bits = np.zeros(self._next, dtype=np.uint8)
        bits[allowed] = 1
        return load_faiss().IDSelectorBitmap(np.packbits(bits, bitorder="little"))


class Lists:
    """Vectors in lists around centers (IVF)."""

    def __init__(self, index: Any) -> None:
        self.index = index

    @classmethod
    def build(cls, vectors: np.ndarray, *, lists: int, by_distance: bool, seed: int) -> Lists:
        """Train centers and fill the lists; `by_distance` for L2 search, else inner products."""
        faiss = load_faiss()
        width = vectors.shape[1]
        centers = faiss.IndexFlatL2(width) if by_distance else faiss.IndexFlatIP(width)
        index = faiss.IndexIVFFlat(centers, width, lists, faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT)
        centers.this.disown()
        index.own_fields = True
        index.cp.seed, index.cp.min_points_per_centroid = seed, 1
        index.cp.spherical = not by_distance
        index.train(vectors)
        # By a hash, which both removal and looking up by serial number can use.
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        index.add_with_ids(vectors, np.arange(vectors.shape[0]))
        return cls(index)

    def vectors(self, serials: np.ndarray) -> np.ndarray:
        """(n, D) vectors by serial number."""
        return self.index.reconstruct_batch(serials)

    def parameters(self, effort: int, selector: Any, *, share: float) -> Any:
        """Look into `effort` lists."""
        return load_faiss().SearchParametersIVF(nprobe=effort, sel=selector)

    @property
    def counters(self) -> Any:
        """The counters of FAISS."""
        return load_faiss().cvar.indexIVF_stats

    def insert(self, vectors: np.ndarray, serials: np.ndarray) -> None:
        """Put vectors into the lists of their centers."""
        self.index.add_with_ids(vectors, serials)

    def drop(self, serials: np.ndarray) -> None:
        """Take vectors out of their lists."""
        self.index.remove_ids(load_faiss().IDSelectorArray(serials))

    def next_serial(self, serials: np.ndarray) -> int:
        """One more than the largest that lives."""
        return int(serials[-1]) + 1 if serials.size else 0


class Graph:
    """Vectors in a graph (HNSW). It cannot let go of a node: dead ones are walked over and never found."""

    def __init__(self, index: Any) -> None:
        self.index = index

    @classmethod
    def build(cls, vectors: np.ndarray, *, links: int, construction: int, by_distance: bool, seed: int) -> Graph:
        """Link all vectors; `by_distance` for L2 search, else inner products. With several threads no two graphs are alike."""
        faiss = load_faiss()
        metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
        index = faiss.IndexHNSWFlat(vectors.shape[1], links, metric)
        index.hnsw.efConstruction = construction
        index.hnsw.rng = faiss.RandomGenerator(seed)
        index.add(vectors)
        return cls(index)

    def vectors(self, serials: np.ndarray) -> np.ndarray:
        """(n, D) vectors by serial number."""
        return flat_view(load_faiss().downcast_index(self.index.storage))[serials]

    def parameters(self, effort: int, selector: Any, *, share: float) -> Any:
        """Keep the `effort` nearest while walking.

        FAISS counts nodes that may not be found too. So with a selector the walk holds as many living ones as without, and
        twice that, since those that left or are filtered out may be the very ones near the query.
        """
        wider = effort if selector is None else math.ceil(2 * effort / share)
        return load_faiss().SearchParametersHNSW(efSearch=wider, sel=selector)

    @property
    def counters(self) -> Any:
        """The counters of FAISS."""
        return load_faiss().cvar.hnsw_stats

    def insert(self, vectors: np.ndarray, serials: np.ndarray) -> None:
        """Link new nodes; their serial numbers are their places."""
        self.index.add(vectors)

    def drop(self, serials: np.ndarray) -> None:
        """Leave the nodes where they are."""

    def next_serial(self, serials: np.ndarray) -> int:
        """The number of nodes, dead ones included."""
        return self.index.ntotal


def augmented(vectors: np.ndarray, radius: float) -> np.ndarray:
    """Give every vector one more coordinate, sqrt(radius^2 - ||x||^2), that brings its norm to the radius; radius 0 adds none.

    Identity: ||(q, 0) - (x, y)||^2 = ||q||^2 + radius^2 - 2 q . x, so nearest by L2 is best by inner product.

    Example:
        >>> augmented(np.array([[3.0, 0.0], [0.0, 5.0]], dtype=np.float32), 5.0).tolist()
        [[3.0, 0.0, 4.0], [0.0, 5.0, 0.0]]
    """
    if radius == 0.0:
        return vectors
    squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    last = np.sqrt(np.maximum(radius**2 - squares, 0.0)).astype(np.float32)
    return np.hstack([vectors, last[:, None]])
