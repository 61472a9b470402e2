"""Searching a pgvector table: batches in one statement, exact answers settled down to ties, short ones completed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from pgvector import Vector

from normwise.index.checks import Value
from normwise.index.load_contents import json_object
from normwise.index.pgvector_sql import Layout, named, near_statement, run, search_statement, settings_for
from normwise.index.served import SPARE, Hit, rounding, settled_keys

_SCANNED_ROWS, _SCANNED_SHARE = 2000, 0.1
# Queries in one statement.
TOGETHER = 128


@dataclass(frozen=True)
class Asked:
    """What a search asks of a table.

    Args:
        layout: the table.
        candidates: how many it holds.
        k: how many hits, at most `candidates`.
        effort: ef_search or probes; 0 where the search is exact.
        where: the filter.
    """

    layout: Layout
    candidates: int
    k: int
    effort: int = 0
    where: Mapping[str, Value] | None = None


def search_table(connection: psycopg.Connection, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    """Return the k best candidates of each query, best first, equal keys in the order of adding.

    Exact methods compute keys in float64 and round them to float32; approximate ones have the server's float32 keys. Where an
    approximate search finds fewer than k, exact search answers that query.

    Args:
        connection: in a transaction.
        asked: what is searched for.
        directions: (B, D) float64 directions of queries; zero vectors tie with everything, and every key is 0.
    """
    results: list[list[Hit]] = [[] for _ in range(directions.shape[0])]
    if asked.k == 0:
        return results
    nothing = ~directions.any(axis=1)
    exact = asked.layout.method == "exact" or _few(connection, asked)
    _fill(results, np.flatnonzero(~nothing), directions, lambda some: (_exact if exact else _approximate)(connection, asked, some))
    # Every zero vector has the same answer: the first k that were added.
    left = [query for query in np.flatnonzero(~nothing) if len(results[query]) < asked.k and not exact]
    left += np.flatnonzero(nothing)[:1].tolist()
    _fill(results, np.array(left, dtype=np.int64), directions, lambda some: _exact(connection, asked, some))
    for query in np.flatnonzero(nothing)[1:]:
        results[query] = results[left[-1]]
    return results


def _few(connection: psycopg.Connection, asked: Asked) -> bool:
    """Whether a filter leaves so few rows that scanning them beats walking a graph of which most is skipped."""
    if not asked.where:
        return False
    most = max(_SCANNED_ROWS, int(_SCANNED_SHARE * asked.candidates))
    counted = named("SELECT count(*) FROM (SELECT FROM {} WHERE metadata @> %s::jsonb LIMIT %s) found", asked.layout.table)
    row = run(connection, counted, json_object(asked.where), most + 1).fetchone()
    return row is not None and row[0] <= most


def _fill(results: list[list[Hit]], queries: np.ndarray, directions: np.ndarray, search: Callable[[np.ndarray], list[list[Hit]]]) -> None:
    for start in range(0, queries.size, TOGETHER):
        some = queries[start : start + TOGETHER]
        for query, hits in zip(some, search(directions[some]), strict=True):
            results[query] = hits


def _approximate(connection: psycopg.Connection, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    rows = _rows(connection, asked, directions, exact=False, limit=asked.k)
    return [[_hit(row, row[2]) for row in found] for found in rows]


def _exact(connection: psycopg.Connection, asked: Asked, directions: np.ndarray) -> list[list[Hit]]:
    """Score what the server's float32 search found again, and what may tie with its end or beat it."""
    limit = min(asked.k + SPARE, asked.candidates)
    results = []
    for direction, rows in zip(directions, _rows(connection, asked, directions, exact=True, limit=limit), strict=True):
        hits = _settled(rows, direction)
        # Only where the server stopped at the limit is there more that could tie.
        if direction.any() and asked.k < len(hits) and len(rows) == limit < asked.candidates:
            error = rounding(direction.size)
            if hits[asked.k - 1].key <= rows[-1][2] + error * asked.layout.largest_key:
                hits = _settled(_near(connection, asked, direction, bound=hits[asked.k - 1].key, error=error), direction)
        results.append(hits[: asked.k])
    return results


def _rows(connection: psycopg.Connection, asked: Asked, directions: np.ndarray, *, exact: bool, limit: int) -> list[list[tuple]]:
    filtered = bool(asked.where)
    settings = settings_for(asked.layout, exact=exact, filtered=filtered, effort=asked.effort, k=asked.k)
    calls = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    run(connection, f"SELECT {calls}", *(text for pair in settings.items() for text in pair))
    values: list[Any] = [[Vector(row) for row in directions.astype(np.float32)]]
    values += [json_object(asked.where)] if asked.where else []
    with connection.cursor(binary=True) as cursor:
        cursor.execute(search_statement(asked.layout, exact=exact, filtered=filtered), [*values, limit])
        rows: list[list[tuple]] = [[] for _ in range(directions.shape[0])]
        for row in cursor:
            rows[row[0] - 1].append(row)
    return rows


def _near(connection: psycopg.Connection, asked: Asked, direction: np.ndarray, *, bound: float, error: float) -> list[tuple]:
    query = Vector(direction.astype(np.float32))
    values: list[Any] = [query, query, error, bound]
    values += [json_object(asked.where)] if asked.where else []
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(near_statement(asked.layout, filtered=bool(asked.where)), values).fetchall()


def _settled(rows: list[tuple], direction: np.ndarray) -> list[Hit]:
    if not rows:
        return []
    keys, order = settled_keys(np.stack([row[6].to_numpy() for row in rows]), direction, [row[5] for row in rows])
    return [_hit(rows[place], float(keys[place])) for place in order]


def _hit(row: tuple, key: float) -> Hit:
    # Adding 0 turns the -0 of a negated distance into 0.
    return Hit(row[1], key + 0.0, row[3], row[4], row[5])
