"""`normwise index` and `normwise search`: their arguments, one workflow call each, and what a person sees of the result."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_tables import show_rows, stdout_console
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity

if TYPE_CHECKING:
    import numpy as np

    from normwise.core.records import Record
    from normwise.core.search_records import Hit, IndexReport
    from normwise.workflows.search_result import SearchResult

_SETTINGS = ("engine", "method", "storage", "norm_storage", "similarity", "target_recall", "url", "name")
_SHOWN = 80
_BUILD_EXAMPLES = """Example: normwise index build --vectors docs.npy --ids ids.txt --similarity dot --out my-index

Example: normwise index build --model MODEL --data DATA --engine pgvector --url postgresql://me@host:5432/db --out my-index"""
_SEARCH_EXAMPLES = """Example: normwise search my-index "how do I sort a list?" --k 5

Example: normwise search my-index --queries questions.txt --where lang=de --where year=2020 --json"""
# Of format characters those that letters and emoji are joined with; the others turn the direction of text, or hide.
_JOINERS = frozenset({"\u200c", "\u200d"})

index_app = typer.Typer(
    help="Build an index that keeps norms, change it, and say what it is.",
    epilog="Example: normwise index build --model runs/demo/model --data my-beir-folder --out my-index",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")]
Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="The folder of an index.")]
Model = Annotated[str | None, typer.Option("--model", help="A folder or hub id; without it the one that the index names.")]
Url = Annotated[str | None, typer.Option("--url", help="Address of the server, where the one in the index lacks a password.")]


def mount(app: typer.Typer) -> None:
    """Add `index` and `search` to an app."""
    app.add_typer(index_app, name="index")
    app.command("search", epilog=_SEARCH_EXAMPLES)(search)


@index_app.command("build", epilog=_BUILD_EXAMPLES)
def build(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="INDEX", help="Folder to make.")],
    model: Annotated[str | None, typer.Option("--model", help="A folder or hub id that encodes --data.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="A BEIR folder, a built-in set, a corpus.jsonl or a file of texts, one per line.")
    ] = None,
    vectors: Annotated[Path | None, typer.Option("--vectors", metavar="D.npy", help="Bare vectors in place of a model.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of --vectors, one per line.")] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="Real queries for the self-test: a file of texts, or Q.npy with --vectors.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="faiss (in the folder), pgvector or qdrant.")] = "faiss",
    method: Annotated[str, typer.Option("--method", help="exact, ivf or hnsw.")] = "exact",
    storage: Annotated[str, typer.Option("--storage", help="Directions as float32, int8, pq or binary.")] = "float32",
    norm_storage: Annotated[str, typer.Option("--norm-storage", help="Norms as float32 or float16.")] = "float32",
    similarity: Annotated[
        str | None, typer.Option("--similarity", help=f"How --vectors are scored: {', '.join(Similarity)}; a model has its own.")
    ] = None,
    target_recall: Annotated[
        float | None,
        typer.Option("--target-recall", show_default="0.95", help="What ivf and hnsw must reach on the self-test, or become exact."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Address of the server of pgvector or qdrant.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Table or collection on the server.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index at --out.")] = False,
    as_json: Json = False,
) -> None:
    """Build an index of documents or vectors, raw norms kept, and measure its recall against exact search."""
    given = (engine, method, storage, norm_storage, similarity, target_recall, url, name)
    settings: dict[str, Any] = {key: value for key, value in zip(_SETTINGS, given, strict=True) if value is not None}

    def work() -> Record:
        _check_settings(settings)
        from normwise.workflows.build_index import build_index

        return build_index(
            out, model=model, data=data, vectors=vectors, ids=ids, queries=queries, overwrite=overwrite, log=cli_work.LOG.info, **settings
        )

    cli_work.do(context, work, show_index, as_json=as_json)


@index_app.command("add", epilog="Example: normwise index add my-index --data more.jsonl")
def add(
    context: typer.Context,
    index: Folder,
    data: Annotated[str | None, typer.Option("--data", help="As in `index build`.")] = None,
    vectors: Annotated[Path | None, typer.Option("--vectors", metavar="D.npy", help="For an index of bare vectors.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="Ids of --vectors, one per line.")] = None,
    model: Model = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add documents or vectors to an index; an id that is there already is refused."""

    def work() -> Record:
        from normwise.workflows.change_index import add_to_index

        return add_to_index(index, data=data, vectors=vectors, ids=ids, model=model, url=url)

    cli_work.do(context, work, show_index, as_json=as_json)


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

    cli_work.do(context, work, show_index, as_json=as_json)


@index_app.command("info", epilog="Example: normwise index info my-index --json")
def info(context: typer.Context, index: Folder, url: Url = None, as_json: Json = False) -> None:
    """Open an index, check every file of it, and say what it is and how it was built."""

    def work() -> Record:
        from normwise.workflows.change_index import index_info

        return index_info(index, url=url)

    cli_work.do(context, work, show_index, as_json=as_json)


def search(
    context: typer.Context,
    index: Folder,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...", help="Queries.")] = None,
    model: Model = None,
    k: Annotated[int, typer.Option("--k", help="Hits per query.")] = 10,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", help="A calibration.json; without it one in the index or beside the model.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="KEY=VALUE", help="Metadata that a hit must have; repeatable.")
    ] = None,
    queries: Annotated[Path | None, typer.Option("--queries", help="A file of queries: jsonl, csv, or one per line.")] = None,
    vectors: Annotated[Path | None, typer.Option("--vectors", metavar="Q.npy", help="Query vectors in place of texts.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Search an index; every hit comes with its score, norm and, where calibrated, probability and whether to trust it.

    A value of --where is a number or true/false where it reads as one, else a text; in double quotes it is always a text.
    """

    def work() -> SearchResult:
        if vectors is not None and model is not None:
            raise InputError("--model reads texts, and --vectors are there already: leave one of them out")
        asked = _asked(texts, queries, vectors)
        from normwise.workflows.search_filters import read_filters, told_as_typed

        filters = read_filters(where)
        from normwise.workflows.search import Searcher

        with Searcher.open(index, model=model, calibration=calibration, url=url) as searcher:
            try:
                result = searcher.search(asked, k=k, where=filters)
            except InputError as error:
                raise InputError(told_as_typed(str(error), where)) from error
            if result.why_not_calibrated:
                cli_work.say(f"note: no probabilities: {result.why_not_calibrated}")
            for note in result.notes:
                cli_work.say(f"note: {note}")
            return result.with_texts()

    cli_work.do(context, work, show_hits, as_json=as_json)


def show_index(report: IndexReport) -> None:
    """Show what an index is, what its builder tried, and what it kept."""
    from normwise.report.words import counted

    console, manifest = stdout_console(), report.manifest
    kind = ", ".join([manifest.engine, manifest.method, *([manifest.graph] if manifest.graph != "none" else [])])
    held = counted(report.candidates, "candidate")
    console.print(f"{report.index}: {held} of {manifest.dimensions} dimensions, {manifest.similarity} ({kind})")
    if manifest.location:
        console.print(f"vectors at {manifest.location}")
    if report.changed:
        console.print(f"{counted(report.changed, 'candidate')} came or went")
    if report.bytes_per_vector is not None:
        stored = f"{manifest.storage}, norm in {manifest.norm_storage}"
        console.print(f"{report.bytes_per_vector:,.0f} bytes per vector ({stored}); {report.bytes_on_disk or 0:,} on disk in all")
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
        show_rows("tried", rows)
    if manifest.recall is not None:
        source = "real queries" if manifest.recall_source == "queries" else "queries made from candidates"
        console.print(f"recall@{manifest.recall_k} against exact search: {manifest.recall:.4f}, on {manifest.recall_queries:,} {source}")
    if manifest.words:
        console.print(manifest.words)
    if manifest.model_name:
        console.print(f"model: {manifest.model_name}")
    if manifest.metadata_keys:
        console.print(f"filters: {', '.join(manifest.metadata_keys)}")
    for note in report.notes:
        console.print(f"note: {note}")


def show_hits(result: SearchResult) -> None:
    """Show a table per query, what its first hit comes to above it, and what holds for all queries once, at the end."""
    console = stdout_console()
    for row in range(len(result)):
        hits = result.hits(row)
        asked = result.query(row)
        console.print(f"query: {_plain(asked)}" if isinstance(asked, str) else f"query {asked}")
        console.print(verdict_line(hits, once=result.verdict or result.why_not_calibrated))
        if hits:
            with_texts = any(hit.text is not None for hit in hits)
            show_rows("", [_hit_row(hit, with_text=with_texts) for hit in hits])
    if result.verdict and len(result):
        console.print(f"verdict: {result.verdict}")


def verdict_line(hits: Sequence[Hit], *, once: str = "") -> str:
    """What the first hit of a query comes to: an answer, none, or hits that nobody has calibrated.

    Args:
        hits: of one query.
        once: what is told elsewhere, for all queries, and left out here.

    Example:
        >>> verdict_line([])
        "I don't know: nothing was found"
    """
    if not hits:
        return "I don't know: nothing was found"
    first = hits[0]
    known = "" if first.probability is None else f" (probability {first.probability:.3g})"
    reason = first.reason.removesuffix(f": {once}") if once else first.reason
    if first.abstain:
        return f"I don't know{known}: {reason}"
    return f"answer{known}: {reason}" if known else reason


def _hit_row(hit: Hit, *, with_text: bool) -> dict[str, Any]:
    """The cells of a hit, the same columns for all hits of a table: the first row of one names its columns."""
    unknown = hit.probability is None
    row: dict[str, Any] = {"rank": hit.rank, "id": _plain(hit.id), "score": hit.score, "norm": hit.norm}
    row["probability"] = "–" if unknown else hit.probability
    row["trust"] = "unknown" if unknown and not hit.abstain else not hit.abstain
    if with_text:
        line = _plain(hit.text or "")
        row["text"] = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
    return row


def _check_settings(settings: dict[str, Any]) -> None:
    """Refuse settings before a model is opened, by the names that people typed."""
    from normwise.cli_options import built, option_names
    from normwise.core.index_config import IndexConfig

    built(IndexConfig, {"similarity": "cosine", **settings}, options=option_names(_SETTINGS), source="index build")


def _asked(texts: list[str] | None, queries: Path | None, vectors: Path | None) -> Sequence[str] | np.ndarray:
    given = [name for name, value in (("QUERY", texts), ("--queries", queries), ("--vectors", vectors)) if value]
    if len(given) != 1:
        came = "none came" if not given else f"{' and '.join(given)} came"
        raise InputError(f"search needs queries, as arguments, by --queries FILE or by --vectors Q.npy, one of the three: {came}")
    if vectors is not None:
        from normwise.data.vectors import load_vectors

        return load_vectors(vectors)
    if queries is not None:
        from normwise.data.text_files import read_texts

        return read_texts(queries)
    return texts or []


def _plain(text: str) -> str:
    """The text on one line, with U+FFFD for what a terminal would obey rather than show."""
    line = " ".join(text.split())
    return "".join("\ufffd" if unicodedata.category(letter) in ("Cc", "Cf") and letter not in _JOINERS else letter for letter in line)
