"""Built sets on disk: parquet files keyed by what they were built from. A broken or unwritable cache is never fatal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from normwise.core.errors import WorkError
from normwise.core.files import write_bytes
from normwise.data.parquet_columns import open_pyarrow

Table = dict[str, list[Any]]
BuiltTables = tuple[dict[str, Table], dict[str, Any]]


def default_cache() -> Path:
    """Where built sets go unless told otherwise: `.cache/normwise` in the home folder."""
    return Path.home() / ".cache" / "normwise"


def cached_tables(name: str, *, key: str, cache_dir: Path | None, build: Callable[[], BuiltTables]) -> BuiltTables:
    """Read tables from the cache, or build and store them.

    Args:
        name: of the set.
        key: everything that decides the content (versions of code and sources).
        cache_dir: None means `default_cache()`.
        build: makes (tables by name, plain facts about the build).

    Returns:
        What `build` returned, now or earlier.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()[:20]
    path = (cache_dir or default_cache()) / f"{name}-{digest}.parquet"
    stored = _read(path)
    if stored is not None:
        return stored
    tables, facts = build()
    try:
        write_bytes(path, _packed(tables, facts))
    except (WorkError, OSError):
        facts = {**facts, "cache": f"could not be written below {path.parent}"}
    return tables, facts


def _packed(tables: dict[str, Table], facts: dict[str, Any]) -> bytes:
    pa, pq = open_pyarrow()
    columns = {f"{table}.{column}": [values] for table, mine in tables.items() for column, values in mine.items()}
    sink = pa.BufferOutputStream()
    packed = pa.table(columns).replace_schema_metadata({"facts": json.dumps(facts)})
    pq.write_table(packed, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _read(path: Path) -> BuiltTables | None:
    pa, pq = open_pyarrow()
    try:
        if not path.is_file():
            return None
        packed = pq.read_table(path)
        facts = json.loads(packed.schema.metadata[b"facts"])
        tables: dict[str, Table] = {}
        for full in packed.column_names:
            table, _, column = full.partition(".")
            tables.setdefault(table, {})[column] = packed.column(full)[0].as_py()
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, IndexError):
        return None
    return tables, facts
