"""What an index is and how it was built: the manifest that stands beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from normwise.core.records import Record

Engine = Literal["faiss", "pgvector", "qdrant"]
Method = Literal["exact", "ivf", "hnsw"]
Storage = Literal["float32", "int8", "pq", "binary"]
NormStorage = Literal["float32", "float16"]


class RecallRow(Record):
    """One thing that the builder tried: which graph, which search effort, the recall@k it had, on how many queries."""

    graph: str
    effort: Mapping[str, int] = Field(default_factory=dict)
    recall: float
    milliseconds_per_query: float | None = None


# What decodes compressed directions, beside the codes themselves.
_CODEC_FILES = ("scales.npy", "centers.npy", "means.npy", "distances.npy")
_SHOWN = 12


class IndexManifest(Record):
    """An index: engine, method, metric, what it holds, and what its self-test found.

    `similarity` is how its scores are to be read. `graph` is what the method was built over: "inner product", "augmented"
    (one more coordinate makes all norms equal, and L2 search ranks as the inner product does), "directions" (cosine), or "none"
    for an exact one.
    `recall` is recall@`recall_k` against exact search over the raw float32 vectors, on `recall_queries` queries from
    `recall_source` ("queries" = real ones, "candidates" = vectors of the corpus itself where no query was given).
    `tried` is every measurement of the builder, `words` what it did. `files` maps file names to SHA-256 hashes.
    `location` is server URL (without password) and table or collection where the vectors live outside the folder.
    """

    format: int = 1
    engine: Engine
    method: Method
    similarity: str
    dimensions: int
    candidates: int
    storage: Storage = "float32"
    norm_storage: NormStorage = "float32"
    graph: str = "inner product"
    effort: Mapping[str, int] = Field(default_factory=dict)
    recall: float | None = None
    recall_k: int = 10
    recall_queries: int = 0
    recall_source: str = "queries"
    tried: tuple[RecallRow, ...] = ()
    words: str = ""
    model: str = "vectors"
    model_name: str = ""
    corpus_texts: str | None = None
    corpus_vectors: str | None = None
    metadata_keys: tuple[str, ...] = ()
    has_texts: bool = False
    has_lengths: bool = False
    location: str | None = None
    name: str | None = None
    files: Mapping[str, str] = Field(default_factory=dict)

    @property
    def search_kind(self) -> str:
        """What a calibration is tied to: "exact" for every exhaustive search of whole vectors, else what decides which hits are found.

        That is method, graph and search effort of an approximate search, and storage and the hash of its codec where directions are
        compressed: another codec decodes the same vectors to other ones.

        Example:
            >>> IndexManifest(engine="faiss", method="hnsw", similarity="dot", dimensions=2, candidates=1).search_kind
            'faiss-hnsw over inner product'
            >>> IndexManifest(engine="qdrant", method="exact", similarity="dot", dimensions=2, candidates=1).search_kind
            'exact'
        """
        kind = "exact"
        if self.method != "exact":
            effort = "".join(f", {name} {value}" for name, value in sorted(self.effort.items()))
            kind = f"{self.engine}-{self.method} over {self.graph}{effort}"
        if self.storage == "float32":
            return kind
        codec = "".join(self.files[name] for name in _CODEC_FILES if name in self.files)
        known = f" {hashlib.sha256(codec.encode()).hexdigest()[:_SHOWN]}" if codec else ""
        return f"{kind}+{self.storage}{known}"
