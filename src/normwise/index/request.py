"""What every engine is asked to build: settings, checked contents, the self-test, and where the folder goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest
from normwise.index.contents import Contents, texts_hash
from normwise.index.self_test import SelfTest


def _silent(_: str) -> None:
    return None


@dataclass(frozen=True)
class BuildRequest:
    """One index to build; everything in it was checked.

    Args:
        config: the settings.
        out: the folder that is to hold `index.json`, whole or not at all (`core.files.whole_folder`).
        contents: what goes in.
        test: exact answers to measure the index against.
        model: hash of the model, or "vectors".
        model_name: its name, for people.
        overwrite: whether a folder at `out` is replaced.
        log: takes one line of words for each thing done.
    """

    config: IndexConfig
    out: Path
    contents: Contents
    test: SelfTest
    model: str = "vectors"
    model_name: str = ""
    overwrite: bool = False
    log: Callable[[str], None] = _silent

    def manifest(self, *, corpus_vectors: str, **found: Any) -> IndexManifest:
        """The manifest of this request.

        Args:
            corpus_vectors: the order-free hash of its vectors, which the builder made of its rows.
            found: what the builder did: method, graph, effort, recall, tried, words, location, name.
        """
        contents, config = self.contents, self.config
        values: dict[str, Any] = {
            "engine": config.engine,
            "method": config.method,
            "similarity": config.similarity.value,
            "dimensions": contents.dimensions,
            "candidates": len(contents),
            "storage": config.storage,
            "norm_storage": config.norm_storage,
            "graph": "directions" if config.similarity.normalizes_candidate else "inner product",
            "recall_k": self.test.k,
            "recall_queries": len(self.test),
            "recall_source": self.test.source,
            "model": self.model,
            "model_name": self.model_name,
            "corpus_texts": texts_hash(contents),
            "corpus_vectors": corpus_vectors,
            "metadata_keys": tuple(sorted(contents.kinds)),
            "has_texts": contents.texts is not None,
            "has_lengths": contents.lengths is not None,
        }
        return IndexManifest(**(values | found))
