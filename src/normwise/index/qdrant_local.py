"""The points of Qdrant's local mode in an index folder: plain JSON and `.npy`, since its own files are pickles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

from normwise.core.errors import InputError
from normwise.core.files import read_json, write_json
from normwise.index.qdrant_collection import Entry, create_collection, write_entry

_POINTS, _VECTORS, _ENTRY = "points.json", "vectors.npy", "collection.json"
_TOGETHER = 2000


def write_points(client: QdrantClient, collection: str, entry: Entry, folder: Path) -> None:
    """Write every point of a collection, in the order of adding, and what the collection says of itself."""
    records, offset = [], None
    while True:
        some, offset = client.scroll(collection, limit=_TOGETHER, offset=offset, with_payload=True, with_vectors=True)
        records += [(record.id, record.payload or {}, record.vector) for record in some]
        if offset is None:
            break
    records.sort(key=lambda record: record[1]["position"])
    write_json(folder / _POINTS, {"ids": [str(name) for name, _, _ in records], "payloads": [payload for _, payload, _ in records]})
    vectors = np.array([vector for _, _, vector in records], dtype=np.float32)
    np.save(folder / _VECTORS, vectors.reshape(len(records), -1), allow_pickle=False)
    write_json(folder / _ENTRY, entry.model_dump(mode="json"))


def read_points(client: QdrantClient, collection: str, folder: Path, *, dimensions: int) -> None:
    """Fill local mode from a folder whose files were checked by their hashes.

    Raises:
        InputError: the files do not fit together.
    """
    points, entry = read_json(folder / _POINTS), Entry.model_validate(read_json(folder / _ENTRY))
    vectors = np.load(folder / _VECTORS, allow_pickle=False)
    ids, payloads = points["ids"], points["payloads"]
    if not len(ids) == len(payloads) == len(vectors) == entry.candidates or (len(vectors) and vectors.shape[1] != dimensions):
        raise InputError(
            f"{folder} holds {len(vectors)} vectors and {len(ids)} points, and should hold {entry.candidates}: build the index again"
        )
    create_collection(client, collection, dimensions=dimensions, entry=entry, links=0, construction=0)
    for start in range(0, len(ids), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        client.upsert(collection, points=models.Batch(ids=ids[rows], vectors=vectors[rows].tolist(), payloads=payloads[rows]))
    write_entry(client, collection, entry)
