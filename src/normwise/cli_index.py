"""`normwise index` and `normwise search`: their arguments, one workflow call each, and what a person sees of the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_hits, show_rows, stdout_console
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity

if TYPE_CHECKING:
    import numpy as np

    from normwise.core.index_records import IndexManifest
    from normwise.core.records import Record
    from normwise.core.search_records import IndexReport
    from normwise.data.contents import Content
    from normwise.workflows.search_result import SearchResult

_SETTINGS = ("engine", "method", "storage", "norm_storage", "similarity", "target_recall", "url", "name")
_BUILD_EXAMPLES = """Example: normwise index build --vectors docs.npy --ids ids.txt --similarity dot --out my-index

Example: normwise index build --model MODEL --data DATA --engine pgvector --url postgresql://me@host:5432/db --out my-index"""
_SEARCH_EXAMPLES = """Example: normwise search my-index "how do I sort a list?" --k 5

Example: normwise search my-index --queries questions.txt --where lang=de --where year=2020 --json

Example: normwise search my-index "the same in red" --image car.png"""
# What a log line has that tells a measurement: the result tells it again.
_MEASURED = "recall@"

index_app = typer.Typer(
    help="Build an index that keeps norms, change it, and say what it is.",
    epilog="Example: normwise index build --model runs/demo/model --data my-beir-folder --out my-index",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")]
Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="The folder of an index.")]
Model = Annotated[
    str | None, typer.Option("--model", help="What reads the texts: a folder or hub id; without it the model that the index names.")
]
Url = Annotated[
    str | None, typer.Option("--url", help="Address of the server with its password, which the index does not keep; or where it has moved.")
]


def mount(app: typer.Typer) -> None:
    """Add `index` and `search` to an app."""
    app.add_typer(index_app, name="index")
    app.command("search", epilog=_SEARCH_EXAMPLES)(search)


@index_app.command("build", epilog=_BUILD_EXAMPLES)
def build(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="INDEX", help="Folder of the index to make.")],
    model: Annotated[str | None, typer.Option("--model", help="What encodes --data: a folder or hub id.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="Documents: a BEIR folder, a built-in set, a corpus.jsonl, columns text and image, or texts, one a line."
        ),
    ] = None,
    vectors: Annotated[Path | None, typer.Option("--vectors", metavar="D.npy", help="Vectors in place of a model, one a row.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of --vectors, one per line; without it row numbers.")] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            help="Real queries to measure recall on: a file of them, or Q.npy with --vectors; else those of --data, else made up.",
        ),
    ] = None,
    image_root: Annotated[
        Path | None, typer.Option("--image-root", help="What paths of pictures in --data begin at; without it the folder of the file.")
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="Where vectors are kept: faiss (in the folder), pgvector (at --url) or qdrant (either).")
    ] = "faiss",
    method: Annotated[
        str, typer.Option("--method", help="exact compares with every vector; ivf and hnsw with some, for large indices.")
    ] = "exact",
    storage: Annotated[
        str, typer.Option("--storage", help="Directions as float32, or smaller and less exact, in faiss: int8, pq or binary.")
    ] = "float32",
    norm_storage: Annotated[str, typer.Option("--norm-storage", help="Norms as float32 or float16 (faiss).")] = "float32",
    similarity: Annotated[
        str | None, typer.Option("--similarity", help=f"How --vectors are scored: {', '.join(Similarity)}; a model has its own.")
    ] = None,
    target_recall: Annotated[
        float | None,
        typer.Option(
            "--target-recall",
            show_default="0.95",
            help="Share of the exact best hits that ivf and hnsw must find, or the index becomes exact.",
        ),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Address of the server of pgvector or qdrant.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Table or collection on the server.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index at --out.")] = False,
    as_json: Json = False,
) -> None:
    """Build an index, raw norms kept, and measure its recall: the share of exact search's best hits that it finds.

    It takes documents (--model and --data) or bare vectors (--vectors and --similarity).
    """
    given = (engine, method, storage, norm_storage, similarity, target_recall, url, name)
    settings: dict[str, Any] = {key: value for key, value in zip(_SETTINGS, given, strict=True) if value is not None}

    def work() -> Record:
        _check_settings(settings)
        from normwise.workflows.build_index import build_index

        log = cli_work.LOG.info if as_json else _log_steps
        given = {"model": model, "data": data, "vectors": vectors, "ids": ids, "queries": queries, "image_root": image_root}
        return build_index(out, **given, overwrite=overwrite, log=log, **settings)

    cli_work.do(context, work, show_index, as_json=as_json)


@index_app.command("add", epilog="Example: normwise index add my-index --data more.jsonl")
def add(
    context: typer.Context,
    index: Folder,
    data: Annotated[str | None, typer.Option("--data", help="Documents to add, as in `index build`.")] = None,
    vectors: Annotated[
        Path | None, typer.Option("--vectors", metavar="D.npy", help="Vectors to add, for an index of bare vectors.")
    ] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of --vectors, one per line.")] = None,
    model: Model = None,
    image_root: Annotated[
        Path | None, typer.Option("--image-root", help="What paths of pictures in --data begin at; without it the folder of the file.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add documents or vectors to an index; an id that is there already is refused."""

    def work() -> Record:
        from normwise.workflows.change_index import add_to_index

        return add_to_index(index, data=data, vectors=vectors, ids=ids, model=model, image_root=image_root, url=url)

    cli_work.do(context, work, lambda report: show_index(report, done="added"), as_json=as_json)


@index_app.command("delete", epilog="Example: normwise index delete my-index doc-17 doc-18")
def delete(
    context: typer.Context,
    index: Folder,
    names: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids to take out.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="A file of them, one per line.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take candidates out of an index; an id that is not there is refused, and nothing is deleted then."""

    def work() -> Record:
        from normwise.workflows.change_index import delete_from_index

        if (ids is None) == (not names):
            raise InputError("delete needs ids: as arguments, or in a file by --ids (one of the two)")
        return delete_from_index(index, ids if ids is not None else names or [], url=url)

    cli_work.do(context, work, lambda report: show_index(report, done="deleted"), as_json=as_json)


@index_app.command("info", epilog="Example: normwise index info my-index --json")
def info(context: typer.Context, index: Folder, url: Url = None, as_json: Json = False) -> None:
    """Open an index, check every file of it, and say what it is and how it was built."""

    def work() -> Record:
        from normwise.workflows.change_index import index_info

        return index_info(index, url=url)

    cli_work.do(context, work, _show_info, as_json=as_json)


def search(
    context: typer.Context,
    index: Folder,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...", help="Texts to search for, each in quotes.")] = None,
    model: Model = None,
    k: Annotated[int, typer.Option("--k", help="How many hits to show per query.")] = 10,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", help="A calibration.json; without it the one in the index, else beside the model.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="KEY=VALUE", help="Only hits with that metadata; repeat it for further keys.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A file of queries: one per line, or columns text and image of jsonl, csv or parquet.")
    ] = None,
    vectors: Annotated[Path | None, typer.Option("--vectors", metavar="Q.npy", help="Query vectors in place of texts, one a row.")] = None,
    images: Annotated[
        list[Path] | None, typer.Option("--image", metavar="FILE", help="A picture to search for; with one QUERY both are one query.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Of the queries, where the calibrations of several tasks share a direction.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Search an index; every hit comes with its score, norm and, where calibrated, probability and whether to trust it.

    Queries come as QUERY, by --image, as both together, by --queries or by --vectors.

    `normwise index info INDEX` lists the keys for --where.

    A value of --where is a number or true/false where it reads as one, else a text; in double quotes always a text: 'year="2020"'.
    """

    def work() -> SearchResult:
        if vectors is not None and model is not None:
            raise InputError("--model reads texts, and --vectors are there already: leave one of them out")
        asked = _asked(texts, queries, vectors, images)
        from normwise.workflows.search_filters import read_filters, told_as_typed

        filters = read_filters(where)
        from normwise.workflows.search import Searcher

        with Searcher.open(index, model=model, calibration=calibration, url=url, task=task) as searcher:
            try:
                result = searcher.search(asked, k=k, where=filters)
            except InputError as error:
                raise InputError(told_as_typed(str(error), where)) from error
            if result.why_not_calibrated:
                cli_work.say(f"note: no probabilities: {result.why_not_calibrated}")
            for note in result.notes:
                cli_work.say(f"note: {note}")
            if as_json and result.verdict:
                cli_work.say(f"note: no usable threshold exists: {result.verdict}")
            return result.with_texts()

    cli_work.do(context, work, show_hits, as_json=as_json)


def show_index(report: IndexReport, *, done: str = "") -> None:
    """Show what an index is and what its builder kept; `done` says what became of the candidates that changed."""
    from normwise.report.words import counted

    console, manifest = stdout_console(), report.manifest
    kind = ", ".join([manifest.engine, manifest.method, *([manifest.graph] if manifest.graph != "none" else [])])
    held = counted(report.candidates, "candidate")
    console.print(f"{report.index}: {held} of {manifest.dimensions} dimensions, {manifest.similarity} ({kind})")
    if manifest.location:
        console.print(f"vectors at {manifest.location}")
    if report.changed:
        console.print(f"{counted(report.changed, 'candidate')} {done}")
    if report.bytes_per_vector is not None:
        stored = f"{manifest.storage}, norm in {manifest.norm_storage}"
        console.print(f"{report.bytes_per_vector:,.0f} bytes per vector ({stored}); {report.bytes_on_disk or 0:,} on disk in all")
    for line in (_recall_words(manifest), manifest.words):
        if line:
            console.print(line)
    if manifest.model_name:
        console.print(f"model: {manifest.model_name}")
    if manifest.metadata_keys:
        console.print(f"filters: {', '.join(manifest.metadata_keys)}")
    for note in report.notes:
        console.print(f"note: {note}")


def _show_info(report: IndexReport) -> None:
    """Show an index, and every measurement of its builder."""
    show_index(report)
    manifest = report.manifest
    if manifest.tried:
        rows = [
            {
                "graph": row.graph,
                "effort": ", ".join(f"{key} {value}" for key, value in row.effort.items()) or "none",
                f"recall@{manifest.recall_k}": row.recall,
                "ms per query": row.milliseconds_per_query,
            }
            for row in manifest.tried
        ]
        show_rows("measured", rows)


def _recall_words(manifest: IndexManifest) -> str:
    """The recall of an index, and on what; of that only what the builder's own words do not tell."""
    if manifest.recall is None:
        return ""
    told, asked = _MEASURED in manifest.words, f"on {manifest.recall_queries}"
    if told and f"{asked} " in manifest.words:
        return ""
    source = f"{asked} {'real queries' if manifest.recall_source == 'queries' else 'queries made from candidates'}"
    if told:
        return f"measured against exact search, {source}"
    return f"recall@{manifest.recall_k} against exact search: {manifest.recall:.4f}, {source}"


def _log_steps(line: str) -> None:
    """Log a step of the work; a measurement is left to the result, which tells it on the same screen."""
    if _MEASURED not in line:
        cli_work.LOG.info(line)


def _check_settings(settings: dict[str, Any]) -> None:
    """Refuse settings before a model is opened, by the names that people typed."""
    from normwise.cli_options import built, option_names
    from normwise.core.index_config import IndexConfig

    built(IndexConfig, {"similarity": "cosine", **settings}, options=option_names(_SETTINGS), source="index build")


def _asked(
    texts: list[str] | None, queries: Path | None, vectors: Path | None, images: list[Path] | None
) -> Sequence[Content] | np.ndarray:
    own = "QUERY" if not images else "--image" if not texts else "QUERY with --image"
    given = [name for name, value in ((own, texts or images), ("--queries", queries), ("--vectors", vectors)) if value]
    if len(given) != 1:
        came = "none came" if not given else f"{' and '.join(given)} came"
        raise InputError(
            f"search needs queries, as arguments or by --image FILE, by --queries FILE or by --vectors Q.npy, one of the three: {came}"
        )
    if vectors is not None:
        from normwise.data.vectors import load_vectors

        return load_vectors(vectors)
    if queries is not None:
        from normwise.data.document_rows import read_queries

        return read_queries(queries)
    if images:
        from normwise.workflows.search_queries import asked_contents

        return asked_contents(texts or [], images)
    return texts or []
