"""The settings of an index: strict, frozen; a field that does not apply to the chosen kind is refused, never ignored."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from normwise.core.index_records import Engine, Method, NormStorage, Storage
from normwise.core.similarity import Similarity
from normwise.core.strict import Number, StrictConfig, Text, Whole

_TARGET_RECALL = 0.95
_LINKS, _CONSTRUCTION_EFFORT = 32, 200
_LARGEST_SEED = 2**31 - 1
_ONLY = {"links": "hnsw", "construction_effort": "hnsw", "lists": "ivf"}


class IndexConfig(StrictConfig):
    """Which index to build.

    `engine` holds it: FAISS in a folder, or a pgvector or Qdrant server at `url` (Qdrant without `url`: its local mode, in the
    folder). `method` is `exact`, `ivf` or `hnsw`; the approximate two raise their effort until recall@`recall_k` is at least
    `target_recall` (None = .95) and become exact where they cannot. `storage` other than float32 keeps directions in fewer
    bytes and scans them all (FAISS, exact); the norm stands apart in `norm_storage`. `links` and `construction_effort` (None =
    32 and 200) belong to hnsw, `lists` (None = about 4 sqrt(N)) to ivf. `name` is the table or collection of a server.

    Raises:
        InputError: an unknown key, a value out of range, or two that make no sense together.

    Example:
        >>> IndexConfig(similarity="dot", method="hnsw").hnsw_links
        32
        >>> IndexConfig(similarity="dot", links=8)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: IndexConfig: links belongs to method hnsw, and method is exact: leave links out
    """

    similarity: Similarity
    engine: Engine = "faiss"
    method: Method = "exact"
    storage: Storage = "float32"
    norm_storage: NormStorage = "float32"
    target_recall: Number | None = Field(default=None, gt=0, le=1)
    recall_k: Whole = Field(default=10, ge=1, le=1000)
    seed: Whole = Field(default=0, ge=0, le=_LARGEST_SEED)
    links: Whole | None = Field(default=None, ge=2, le=100)
    construction_effort: Whole | None = Field(default=None, ge=4, le=1000)
    lists: Whole | None = Field(default=None, ge=1, le=32768)
    url: Text | None = None
    name: Text | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        for field, method in _ONLY.items():
            if getattr(self, field) is not None and self.method != method:
                raise ValueError(f"{field} belongs to method {method}, and method is {self.method}: leave {field} out")
        if self.target_recall is not None and self.method == "exact":
            raise ValueError("target_recall belongs to methods ivf and hnsw, and method is exact: leave target_recall out")
        if self.storage != "float32" and self.method != "exact":
            raise ValueError(
                f"storage {self.storage} is scanned exactly, and method is {self.method}: choose method exact, or storage float32"
            )
        if self.engine == "faiss":
            for field in ("url", "name"):
                if getattr(self, field) is not None:
                    raise ValueError(f"{field} belongs to engines pgvector and qdrant, and engine is faiss: leave {field} out")
            return self
        if self.storage != "float32" or self.norm_storage != "float32":
            raise ValueError(
                f"engine {self.engine} stores vectors and norms in float32: leave storage and norm_storage out, or choose faiss"
            )
        if self.engine == "qdrant" and self.method == "ivf":
            raise ValueError("engine qdrant has methods exact and hnsw: choose one of them, or engine faiss or pgvector for ivf")
        if self.engine == "pgvector" and self.url is None:
            raise ValueError('engine pgvector needs url, as in url = "postgresql://user@host:5432/database"')
        return self

    @property
    def recall_target(self) -> float:
        """The recall that an approximate method must reach."""
        return _TARGET_RECALL if self.target_recall is None else self.target_recall

    @property
    def hnsw_links(self) -> int:
        """Links per vector of an HNSW graph (M)."""
        return _LINKS if self.links is None else self.links

    @property
    def hnsw_construction(self) -> int:
        """Search effort while an HNSW graph is built (efConstruction)."""
        return _CONSTRUCTION_EFFORT if self.construction_effort is None else self.construction_effort

    def lists_for(self, candidates: int) -> int:
        """How many lists an IVF index of N candidates has: `lists`, or about 4 sqrt(N), never more than N / 39.

        FAISS asks for 39 training vectors a list; below that its centers are the vectors themselves.

        Example:
            >>> IndexConfig(similarity="dot", method="ivf").lists_for(10_000)
            256
        """
        if self.lists is not None:
            return min(self.lists, candidates)
        return max(1, min(round(4 * candidates**0.5), candidates // 39))
