"""Building a pgvector index: load, measure, and only then one transaction that gives the table its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from normwise.core.errors import InputError, WorkError
from normwise.core.index_records import IndexManifest, RecallRow
from normwise.index.identity import new_identity, write_identity
from normwise.index.opening import write_manifest
from normwise.index.pgvector_claim import check_links, left_behind, settings_hash, table_name, tie_to_folder
from normwise.index.pgvector_load import Load, load_rows, prepare_load
from normwise.index.pgvector_register import Entry, read_entry, remove_entry, table_exists, write_entry
from normwise.index.pgvector_search import Asked, search_table
from normwise.index.pgvector_server import PgServer, setting
from normwise.index.pgvector_sql import (
    EFFORT_NAMES,
    MOST_EFFORT,
    Layout,
    check_dimensions,
    create_graph,
    drop_graphs,
    graph_options,
    named,
    run,
    staging_name,
)
from normwise.index.pgvector_table import PgVectorIndex
from normwise.index.placing import placed
from normwise.index.questions import check_queries
from normwise.index.request import BuildRequest
from normwise.index.self_test import doubling, raise_effort
from normwise.index.served import check_exact

_FIXED_NAMES = {"m": "links", "ef_construction": "construction_effort"}
_FIRST_EFFORT = 16
# Neither is the better one on all data: both are measured.
_GRAPHS = ("inner product", "augmented")
_LOCK_SECONDS = 30


def build_table(request: BuildRequest, server: PgServer) -> PgVectorIndex:
    """Load, measure and publish; see `build_index`.

    Raises:
        InputError: the name or width cannot be, or something else stands under that name.
        WorkError: the server was lost or refused; run again, the build goes on where it stopped.
    """
    config, contents = request.config, request.contents
    name = table_name(config, request.out)
    check_dimensions(contents.dimensions, config.method, augmented=not config.similarity.normalizes_candidate)
    check_links(config)
    with placed(request.out, overwrite=request.overwrite) as folder:
        load = prepare_load(name, contents, contents.scored(config.similarity), request.log)
        entry = left_behind(request, server, load)
        if entry is None:
            load_rows(server, load, overwrite=request.overwrite)
            entry = _publish(request, server, load, _measure(request, server, load))
        own = {"model": request.model, "model_name": request.model_name, "location": server.url.shown}
        write_identity(folder, str(entry.identity))
        manifest = write_manifest(folder, IndexManifest.from_json(str(entry.manifest)).model_copy(update=own))
        # Before the folder is in place: a build that is stopped in between leaves a table without a folder, never two with one.
        tie_to_folder(server, name, str(entry.identity))
    return PgVectorIndex(server, name, manifest, identity=entry.identity)


def _measure(request: BuildRequest, server: PgServer, load: Load) -> IndexManifest:
    """Build what was asked for over the staging table, and keep what reached the target."""
    config, contents = request.config, request.contents
    raw = not config.similarity.normalizes_candidate
    graphs = _GRAPHS if raw else ("directions",)
    table = Layout(staging_name(load.name), contents.dimensions, "exact", "inner product" if raw else "directions", load.begun.largest_norm)
    _prepare_rows(request, server, table)
    tried: list[RecallRow] = []
    chosen, effort, words = table, {}, []
    if config.method != "exact":
        chosen, effort = _best_graph(request, server, [replace(table, method=config.method, graph=graph) for graph in graphs], tried)
        words.append(_words_of(tried, chosen, request))
    if chosen.method == "exact":
        tried.append(_row(request, server, chosen, {}))
        words.append("Every search compares with every vector, and no index of the database is used.")
    last = [row for row in tried if chosen.method == "exact" or row.graph == chosen.graph][-1]
    manifest = request.manifest(
        corpus_vectors=load.hashed.corpus,
        method=chosen.method,
        graph="none" if chosen.method == "exact" else chosen.graph,
        effort=effort,
        recall=last.recall,
        tried=tuple(tried),
        words=" ".join(words),
        location=server.url.shown,
        name=load.name,
    )
    request.log(f"recall@{request.test.k} {last.recall:.4f} on {len(request.test)} {request.test.source}. {manifest.words}")
    return manifest


def _prepare_rows(request: BuildRequest, server: PgServer, table: Layout) -> None:
    """Make ids unique, filters fast and the planner's statistics true; what an earlier try left is dropped."""
    with server.transaction("while indexing ids", unlimited=True) as connection:
        drop_graphs(connection, table.table)
        present = run(connection, "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(quote_ident(%s))", table.table).fetchone()
        if present is None or present[0] == 0:
            run(connection, named("CREATE UNIQUE INDEX ON {} (id)", table.table))
            if request.contents.kinds:
                run(connection, named("CREATE INDEX ON {} USING gin (metadata jsonb_path_ops)", table.table))
        run(connection, named("ANALYZE {}", table.table))


def _best_graph(request: BuildRequest, server: PgServer, graphs: list[Layout], tried: list[RecallRow]) -> tuple[Layout, dict[str, int]]:
    """Build each graph, raise its effort, keep the better one, or none where none reaches the target."""
    config = request.config
    options = graph_options(config, len(request.contents))
    # Half of all lists is where exact search is the better choice.
    most = MOST_EFFORT if config.method == "hnsw" else max(1, options["lists"] // 2)
    knob = EFFORT_NAMES[config.method]
    fixed = {_FIXED_NAMES.get(name, name): value for name, value in options.items()}
    reached: list[tuple[int, float, Layout]] = []
    for graph in graphs:
        with server.transaction("while building the graph", unlimited=True) as connection:
            run(connection, create_graph(graph, options))
        request.log(f"built {config.method} over {graph.graph} vectors" if graph.graph != "directions" else f"built {config.method}")
        ladder = doubling(max(_FIRST_EFFORT, request.test.k) if config.method == "hnsw" else 1, most)
        rows = raise_effort(lambda effort, graph=graph: _row(request, server, graph, {knob: effort}), ladder, target=config.recall_target)
        tried += rows
        if rows[-1].recall >= config.recall_target:
            reached.append((rows[-1].effort[knob], -rows[-1].recall, graph))
    chosen = min(reached, key=lambda one: one[:2], default=None)
    with server.transaction("while keeping the better graph", unlimited=True) as connection:
        drop_graphs(connection, graphs[0].table, but=None if chosen is None else chosen[2])
    return (replace(graphs[0], method="exact"), {}) if chosen is None else (chosen[2], {knob: chosen[0], **fixed})


def _row(request: BuildRequest, server: PgServer, layout: Layout, effort: dict[str, int]) -> RecallRow:
    """Measure one effort, or exact search, which has to find the best."""
    count, hits = len(request.contents), []

    def search(queries: np.ndarray, k: int) -> list[list[str | None]]:
        directions, _ = check_queries(queries, dimensions=layout.dimensions)
        with server.transaction("while measuring recall", unlimited=True) as connection:
            asked = Asked(layout, count, min(k, count), next(iter(effort.values()), 0))
            hits.extend(search_table(connection, asked, directions))
        return [[hit.id for hit in row] for row in hits]

    if layout.method != "exact":
        return request.test.row(search, graph=layout.graph, effort=effort)
    row = request.test.row(search, graph=f"exact over {layout.graph}", effort={})
    check_exact(request, hits, largest_key=layout.largest_key, where=f"PostgreSQL at {server.url.shown}")
    return row


def _words_of(tried: list[RecallRow], chosen: Layout, request: BuildRequest) -> str:
    config = request.config
    best: dict[str, RecallRow] = {}
    for row in tried:
        best[row.graph] = row
    parts = []
    for graph, row in best.items():
        knob, effort = next(iter(row.effort.items()))
        parts.append(f"{config.method} over {graph} reached recall@{request.test.k} {row.recall:.3f} at {knob} {effort}")
    kept = "none reached the target, so the index is exact" if chosen.method == "exact" else f"{chosen.graph} was kept"
    return f"{'; '.join(parts)}; target {config.recall_target:.3f}: {kept}."


def _publish(request: BuildRequest, server: PgServer, load: Load, manifest: IndexManifest) -> Entry:
    """Give the table its name and enter it as whole, in one transaction; what it replaces answers until then."""
    name, staging = load.name, staging_name(load.name)
    with server.transaction("while publishing the table", unlimited=True) as connection:
        setting(connection, "lock_timeout", f"{_LOCK_SECONDS}s")
        loading = read_entry(connection, name, "loading", lock=True)
        if loading is None or loading.fingerprint != load.entry.fingerprint or loading.loaded != len(request.contents):
            raise WorkError(f"the load of table {name!r} was changed by another build: run this build again")
        before = read_entry(connection, name, "ready", lock=True)
        if before is not None:
            run(connection, named("DROP TABLE IF EXISTS {}", name))
        elif table_exists(connection, name):
            raise InputError(f"a table {name!r} appeared meanwhile that is no index of normwise: choose another name")
        run(connection, named("ALTER TABLE {} RENAME TO {}", staging, name))
        remove_entry(connection, name, "loading")
        entry = replace(
            load.whole_entry,
            fingerprint=settings_hash(request, load),
            manifest=manifest.model_copy(update={"files": {}}).to_json(),
            identity=new_identity(),
        )
        write_entry(connection, name, "ready", entry)
    return entry
