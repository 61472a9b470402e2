"""A Qdrant collection as an index: Distance.DOT (cosine would normalize what comes in), raw norms and ids in the payload."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from qdrant_client import QdrantClient, models

from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.index.checks import Value
from normwise.index.load_contents import LoadContents

Condition = models.FieldCondition
_KEY = "normwise"
_SPACE = uuid.UUID("6c1f3a0e-5d0b-4f0e-9a52-0c8f7c0a9a11")
_FORBIDDEN = '<>:"/\\|?*'
_LONGEST_NAME = 200
MOST_DIMENSIONS = 65_536
_REQUEST_BYTES = 4 << 20
# A float32 as JSON text.
_DIGITS = 12
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool)}
_SCHEMAS = {str: "keyword", int: "integer", float: "float", bool: "bool"}


class Entry(Record):
    """What a collection says of itself, in its metadata.

    `state` is "loading" until everything is in it. An addition is marked (`adding`) before its first point and unmarked after
    its last: one that was cut off is taken back, since its points have positions from `next_position` on. A deletion names
    its points (`leaving`) first: one that was cut off is finished. `identity` is the token that a server's collection shares with
    its folder, `built_at` the time when that was written.
    """

    state: Literal["loading", "ready"] = "loading"
    fingerprint: str
    settings: str = ""
    candidates: int
    next_position: int
    corpus_vectors: str
    corpus_texts: str | None = None
    built_vectors: str
    largest_norm: float
    kinds: tuple[tuple[str, str], ...] = ()
    adding: bool = False
    leaving: tuple[str, ...] = ()
    manifest: str | None = None
    identity: str | None = None
    built_at: str | None = None

    @property
    def types(self) -> dict[str, type]:
        """The type of each metadata key."""
        return {key: _KINDS[name] for key, name in self.kinds}


def kinds_of(types: Mapping[str, type], before: Sequence[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
    """The types of metadata keys, those that were there before in their places: the place names the field of the payload."""
    known = {key for key, _ in before}
    return (*before, *((key, kind.__name__) for key, kind in types.items() if key not in known))


def check_collection_name(name: str) -> str:
    """Check the name of a collection.

    Raises:
        InputError: empty, too long, or with characters that Qdrant refuses.

    Example:
        >>> check_collection_name("docs of 2026")
        'docs of 2026'
    """
    bad = [letter for letter in name if letter in _FORBIDDEN or ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000]
    if not 0 < len(name) <= _LONGEST_NAME or name in (".", "..") or bad:
        what = f"holds {bad[0]!r}" if bad else f"has {len(name)} characters"
        raise InputError(
            f"name {name!r:.80} {what}; Qdrant takes 1 to {_LONGEST_NAME} characters, none of {_FORBIDDEN}: choose another name"
        )
    return name


def point_id(name: str) -> str:
    """The point of an id: a UUID made from it, since Qdrant takes no other names.

    Example:
        >>> point_id("a") == point_id("a") != point_id("b")
        True
    """
    return str(uuid.uuid5(_SPACE, name))


def read_entry(client: QdrantClient, collection: str) -> Entry | None:
    """What a collection says of itself; None where it is none of ours."""
    text = (client.get_collection(collection).config.metadata or {}).get(_KEY)
    return None if text is None else Entry.from_json(text)


def write_entry(client: QdrantClient, collection: str, entry: Entry) -> None:
    """Write what a collection says of itself; as one text, since Qdrant merges tables."""
    client.update_collection(collection, metadata={_KEY: entry.to_json()})


def create_collection(client: QdrantClient, collection: str, *, dimensions: int, entry: Entry, links: int, construction: int) -> None:
    """Make an empty collection that says that it is loading; `links` 0 builds no graph."""
    graph = models.HnswConfigDiff(m=links, ef_construct=construction) if links else models.HnswConfigDiff(m=0)
    client.create_collection(
        collection,
        vectors_config=models.VectorParams(size=dimensions, distance=models.Distance.DOT),
        hnsw_config=graph,
        # Small collections get their graph too: the self-test is to measure it.
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=1) if links else None,
        metadata={_KEY: entry.to_json()},
    )


def index_fields(client: QdrantClient, collection: str, entry: Entry) -> None:
    """Make filters fast on a server."""
    for place, (_, name) in enumerate(entry.kinds):
        client.create_payload_index(collection, _field(place), field_schema=models.PayloadSchemaType(_SCHEMAS[_KINDS[name]]), wait=True)
    client.create_payload_index(collection, "position", field_schema=models.PayloadSchemaType.INTEGER, wait=True)


def chunk_rows(dimensions: int) -> int:
    """How many points one request holds; it depends on nothing else, so that a load knows where its chunks begin."""
    return max(1, _REQUEST_BYTES // (_DIGITS * dimensions + 256))


def put_points(client: QdrantClient, collection: str, load: LoadContents, rows: slice, *, entry: Entry, first: int) -> None:
    """Send points, and wait until they are there; those that are there already are written over.

    Args:
        client: the engine.
        collection: where to.
        load: the candidates.
        rows: which of them.
        entry: for the places of metadata keys.
        first: the position of row 0.
    """
    contents = load.contents
    places = {key: _field(place) for place, (key, _) in enumerate(entry.kinds)}
    payloads: list[dict[str, Any]] = []
    hashes = load.hashes(rows)
    for row in range(rows.start, rows.stop):
        payload: dict[str, Any] = {"id": contents.ids[row], "position": first + row, "norm": float(contents.norms[row])}
        payload["hash"] = hashes[row - rows.start].tobytes().hex()
        if contents.lengths is not None:
            payload["length"] = float(contents.lengths[row])
        if contents.texts is not None:
            payload["text"] = contents.texts[row]
        if contents.metadata is not None:
            payload |= {places[key]: value for key, value in contents.metadata[row].items()}
        payloads.append(payload)
    points = models.Batch(ids=[point_id(name) for name in contents.ids[rows]], vectors=load.vectors[rows].tolist(), payloads=payloads)
    client.upsert(collection, points=points, wait=True)


def conditions(where: Mapping[str, Value], entry: Entry) -> list[Condition]:
    """A filter by equality; a fraction is asked for as a range of one value, since Qdrant matches none."""
    places = {key: _field(place) for place, (key, _) in enumerate(entry.kinds)}
    found = []
    for key, value in where.items():
        if isinstance(value, float):
            found.append(Condition(key=places[key], range=models.Range(gte=value, lte=value)))
        else:
            found.append(Condition(key=places[key], match=models.MatchValue(value=value)))
    return found


def metadata_fields(entry: Entry) -> list[str]:
    """The fields of the payload that hold metadata."""
    return [_field(place) for place in range(len(entry.kinds))]


def metadata_of(payload: Mapping[str, Any], entry: Entry) -> dict[str, Value]:
    """The metadata in a payload; JSON knows one kind of number, so that each value gets its type back."""
    fields = ((key, name, _field(place)) for place, (key, name) in enumerate(entry.kinds))
    return {key: _KINDS[name](payload[field]) for key, name, field in fields if field in payload}


def drop_from(client: QdrantClient, collection: str, position: int) -> None:
    """Delete every point whose position is at least `position`."""
    selector = models.Filter(must=[Condition(key="position", range=models.Range(gte=position))])
    client.delete(collection, points_selector=models.FilterSelector(filter=selector), wait=True)


def drop_points(client: QdrantClient, collection: str, points: Sequence[str]) -> None:
    """Delete points by their own names."""
    client.delete(collection, points_selector=models.PointIdsList(points=list(points)), wait=True)


def count_points(client: QdrantClient, collection: str) -> int:
    """How many points there are."""
    return client.count(collection, exact=True).count


def _field(place: int) -> str:
    return f"metadata_{place}"
