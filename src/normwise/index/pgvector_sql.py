"""The SQL of a pgvector index: identifiers quoted by the driver, values as parameters, `<#>` read with its sign turned back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from normwise.core.errors import InputError
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import Method

REGISTER = "normwise_indexes"
_STAGING = "normwise_load_"
_LONGEST_NAME = 63
MOST_STORED, MOST_INDEXED = 16_000, 2_000
MOST_EFFORT = 1_000
EFFORT_NAMES: dict[str, str] = {"hnsw": "ef_search", "ivf": "probes"}
Statement = sql.SQL | sql.Composed


@dataclass(frozen=True)
class Layout:
    """A table of candidates, and what its approximate index is over.

    Args:
        table: its name as the server has it, unquoted.
        dimensions: D.
        method: exact, hnsw or ivf.
        graph: "inner product", "augmented" or "directions".
        largest_norm: R, at least every norm in the table; the augmented graph is built with it.
    """

    table: str
    dimensions: int
    method: Method = "exact"
    graph: str = "inner product"
    largest_norm: float = 0.0

    @property
    def largest_key(self) -> float:
        """The largest inner product that a unit vector can have with a stored one."""
        return 1.0 if self.graph == "directions" else self.largest_norm


class _Name(sql.Identifier):
    """An identifier in a statement that has parameters, where the driver reads % as the start of one."""

    def as_bytes(self, context: Any = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")


def named(text: str, *names: str) -> Statement:
    """Put quoted identifiers into the {} of a statement that is run with parameters (`run`)."""
    return sql.SQL(text).format(*map(_Name, names))  # type: ignore[arg-type]


def run(connection: psycopg.Connection, statement: Statement | str, *values: Any) -> psycopg.Cursor:
    """Run a statement with its parameters, always as parameters, so that %% means % in every statement."""
    return connection.execute(sql.SQL(statement) if isinstance(statement, str) else statement, values)  # type: ignore[arg-type]


def check_name(name: str) -> str:
    """Check the name of a table: any characters, quoted wherever it is used, but no more than PostgreSQL keeps.

    Raises:
        InputError: empty, over 63 bytes (PostgreSQL would cut it in silence), a NUL or half a character, or one of our own.

    Example:
        >>> check_name('docs"; DROP TABLE x; --')
        'docs"; DROP TABLE x; --'
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise InputError(f"name is {name!r:.80}, which is no valid Unicode: choose another name") from None
    if not 0 < size <= _LONGEST_NAME:
        raise InputError(f"name has {size} bytes; PostgreSQL keeps 1 to {_LONGEST_NAME} of a table's name: choose a name of that length")
    if "\0" in name:
        raise InputError("name holds a NUL character: take it out")
    if name == REGISTER or name.startswith(_STAGING):
        raise InputError(f"name {name!r} is one that normwise uses itself: choose another name")
    return name


def staging_name(name: str) -> str:
    """The table that is filled before it gets its name.

    Example:
        >>> staging_name("docs")[:14], len(staging_name("docs"))
        ('normwise_load_', 38)
    """
    return _STAGING + hashlib.sha256(name.encode("utf-8")).hexdigest()[:24]


def check_dimensions(dimensions: int, method: Method, *, augmented: bool = False) -> None:
    """Refuse vectors that pgvector cannot store or index.

    Raises:
        InputError: over 16,000 dimensions, or over 2,000 with an approximate method; the message names the way out.
    """
    if dimensions > MOST_STORED:
        raise InputError(f"vectors have {dimensions} dimensions; pgvector stores at most {MOST_STORED:,}: choose engine faiss or qdrant")
    if method != "exact" and dimensions + augmented > MOST_INDEXED:
        raise InputError(
            f"vectors have {dimensions} dimensions; pgvector's {method} takes at most {MOST_INDEXED:,}"
            f"{' with the one that it adds' if dimensions <= MOST_INDEXED else ''}: choose method exact, or engine faiss or qdrant"
        )


def create_table(layout: Layout) -> Statement:
    """The table of candidates: raw norm and order of adding beside each vector."""
    columns = (
        f"position bigint NOT NULL, norm double precision NOT NULL, row_hash bytea NOT NULL, length double precision, "
        f"vector vector({int(layout.dimensions)}) NOT NULL, id text NOT NULL, text text, metadata jsonb"
    )
    return named(f"CREATE TABLE {{}} ({columns})", layout.table)


def key_of(layout: Layout) -> Statement:
    """What the approximate index is over, and its distance to a query's direction q.v.

    Augmented: (c, sqrt(R^2 - ||c||^2)) has norm R for every c, and its L2 distance to (q, 0) orders as -q . c does.
    """
    if layout.graph != "augmented":
        return sql.SQL("vector")
    rest = sql.SQL("ARRAY[sqrt(greatest({} - norm * norm, 0))]::vector(1)").format(sql.Literal(layout.largest_norm**2))
    return sql.SQL("((vector || {})::vector({}))").format(rest, sql.Literal(layout.dimensions + 1))


def graph_options(config: IndexConfig, candidates: int) -> dict[str, int]:
    """How an approximate index is to be built."""
    if config.method == "hnsw":
        return {"m": config.hnsw_links, "ef_construction": config.hnsw_construction}
    return {"lists": config.lists_for(candidates)}


def _operators(layout: Layout) -> str:
    return "vector_l2_ops" if layout.graph == "augmented" else "vector_ip_ops"


def create_graph(layout: Layout, options: Mapping[str, int]) -> Statement:
    """The approximate index of a table."""
    kind = "hnsw" if layout.method == "hnsw" else "ivfflat"
    head = named(f"CREATE INDEX ON {{}} USING {kind} ", layout.table)
    settings = ", ".join(f"{name} = {int(value)}" for name, value in options.items())
    return sql.SQL("{}({} {}) WITH ({})").format(head, key_of(layout), sql.SQL(_operators(layout)), sql.SQL(settings))  # type: ignore[arg-type]


def drop_graphs(connection: psycopg.Connection, table: str, *, but: Layout | None = None) -> dict[str, int]:
    """Drop the approximate indexes of a table, all or all but one, and return the options of the last that went."""
    statement = (
        "SELECT c.relname, c.reloptions, o.opcname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam JOIN pg_opclass o ON o.oid = i.indclass[0] "
        "WHERE i.indrelid = to_regclass(quote_ident(%s)) AND a.amname IN ('hnsw', 'ivfflat')"
    )
    options: dict[str, int] = {}
    for name, settings, operators in run(connection, statement, table).fetchall():
        if but is not None and operators == _operators(but):
            continue
        options = {key: int(value) for key, _, value in (setting.partition("=") for setting in settings or ())}
        run(connection, named("DROP INDEX {}", name))
    return options


def search_statement(layout: Layout, *, exact: bool, filtered: bool) -> Statement:
    """The k best of each of many queries in one statement; parameters: queries, filter (where filtered), limit.

    Answers rows of number of the query from 1, id, key, norm, length, position, and the vector where exact. The key is the
    inner product: `<#>` is its negative.
    """
    far = sql.SQL("t.vector <#> q.v")
    if exact:
        order, vector = sql.SQL("t.vector <#> q.v, t.position"), sql.SQL("t.vector")
    elif layout.graph == "augmented":
        order, vector = sql.SQL("{} <-> (q.v || '[0]'::vector(1))").format(key_of(layout)), sql.SQL("NULL")
    else:
        order, vector = far, sql.SQL("NULL")
    found = sql.SQL("SELECT t.id, -({}) AS key, t.norm, t.length, t.position, {} AS found_vector FROM {} t {} ORDER BY {} LIMIT %b").format(
        far, vector, _Name(layout.table), sql.SQL("WHERE t.metadata @> %s::jsonb" if filtered else ""), order
    )
    return sql.SQL(
        "SELECT q.n, h.* FROM unnest(%b::vector[]) WITH ORDINALITY q(v, n) CROSS JOIN LATERAL ({}) h ORDER BY q.n, h.key DESC, h.position"
    ).format(found)


def near_statement(layout: Layout, *, filtered: bool) -> Statement:
    """All candidates whose inner product with one query may reach a bound; parameters: query, query, error, bound, filter.

    The server's float32 product may be off by the error times the vector's norm.
    """
    norm = "1" if layout.graph == "directions" else "t.norm"
    where = "AND t.metadata @> %s::jsonb" if filtered else ""
    return sql.SQL(
        "SELECT 1, t.id, -(t.vector <#> %b::vector), t.norm, t.length, t.position, t.vector FROM {} t "
        "WHERE -(t.vector <#> %b::vector) + %b * {} >= %b {} ORDER BY t.position"
    ).format(_Name(layout.table), sql.SQL(norm), sql.SQL(where))


def settings_for(layout: Layout, *, exact: bool, filtered: bool, effort: int, k: int) -> dict[str, str]:
    """The server's settings of one search, for its transaction only.

    An exact search forbids every ordered index, also one that somebody added; an approximate one has its effort raised to k and
    goes on where a filter or deletions leave too few.
    """
    settings = {"jit": "off"}
    if exact:
        return settings | {"enable_indexscan": "off", "enable_indexonlyscan": "off"}
    if layout.method == "hnsw":
        settings |= {"hnsw.ef_search": str(min(MOST_EFFORT, max(effort, k))), "hnsw.iterative_scan": "relaxed_order"}
    else:
        settings |= {"ivfflat.probes": str(effort), "ivfflat.iterative_scan": "relaxed_order"}
    # With a filter the planner may know better: few rows are sorted faster than a graph is walked.
    return settings if filtered else settings | {"enable_seqscan": "off", "enable_bitmapscan": "off"}
