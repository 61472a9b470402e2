"""`normwise staircase`: which orders of signatures embeddings learn, and when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from normwise import cli_work
from normwise.cli_staircase_show import show_forecast, show_staircase, show_track
from normwise.core.errors import InputError

if TYPE_CHECKING:
    from normwise.core.records import Record

_EXAMPLE = "Example: normwise staircase demo --task mod --modulus 20 --vocabulary 20"
_TRACK = (
    "Example: normwise staircase track --checkpoints runs/my-model --corpus train.txt --orders 0,1\n\n"
    "Of token ids: normwise staircase track --checkpoints runs/my-model --corpus 'tokens/*.bin' --dtype uint16 --end 0"
)
_PREDICT = "Example: normwise staircase predict --corpus train.txt --tokenizer my-model --init-scale 0.02 --learning-rate 0.5"

staircase_app = typer.Typer(
    help="See token embeddings learn statistics order by order.",
    epilog=_EXAMPLE,
    no_args_is_help=True,
)


# Options that several commands have.
_Corpus = Annotated[
    list[str], typer.Option("--corpus", metavar="FILE", help="Text, or token ids in .npy, .bin, .parquet; again for more, or a glob.")
]
_End = Annotated[int | None, typer.Option("--end", metavar="ID", help="That ends a document.", show_default="none")]
_Dtype = Annotated[str | None, typer.Option("--dtype", help="Of .bin and .dat files.", show_default="none")]
_Column = Annotated[str | None, typer.Option("--column", help="Of parquet files.", show_default="the only one that fits")]
_Documents = Annotated[str | None, typer.Option("--documents", help="Of text: lines or paragraphs.", show_default="lines")]
_Engine = Annotated[str, typer.Option("--engine", help="That counts: local, or ray.")]
_Workers = Annotated[int | None, typer.Option("--workers", help="Processes that count.", show_default="all cores")]
_Page = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Also write a page.", show_default="none")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier page at --report.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")]


@staircase_app.callback()
def _staircase() -> None:
    """See token embeddings learn statistics order by order."""


@staircase_app.command("demo", epilog=_EXAMPLE)
def demo(
    context: typer.Context,
    task: Annotated[str, typer.Option("--task", help="mod, add, parity or text.")] = "mod",
    modulus: Annotated[
        int | None, typer.Option("--modulus", metavar="N", help="Of mod; of add, how many values there are.", show_default="20")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", metavar="V", help="Ids that there are.", show_default="81, parity 61, text 4096")
    ] = None,
    gamma: Annotated[float, typer.Option("--gamma", help="Entries at init have standard deviation 128^-GAMMA.")] = 0.8,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Networks, one seed each; a verdict needs 8 of 10.", show_default="10, text 5")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Updates.", show_default="600; parity with adam 200")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Of the optimizer.", show_default="1 with sgd, 0.001 with adam, text 0.002")
    ] = None,
    optimizer: Annotated[str | None, typer.Option("--optimizer", help="sgd or adam.", show_default="sgd, parity adam, text adamw")] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", metavar="FILE", help="Of text: .txt or .md.", show_default="installed docstrings"),
    ] = None,
    report: _Page = None,
    overwrite: _Overwrite = False,
    as_json: _AsJson = False,
) -> None:
    """Train small networks on a task whose signatures are known, and say which orders their embeddings learn, and when."""

    def work() -> Record:
        _check_overwrite(report, overwrite=overwrite)
        from normwise.workflows.staircase_demo import staircase_demo

        found = staircase_demo(
            task,
            modulus=modulus,
            vocabulary=vocabulary,
            gamma=gamma,
            seeds=seeds,
            steps=steps,
            learning_rate=learning_rate,
            optimizer=optimizer,
            corpus=corpus or None,
            report=report,
            overwrite=overwrite,
            told=cli_work.say,
        )
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_staircase, as_json=as_json)


@staircase_app.command("track", epilog=_TRACK)
def track(
    context: typer.Context,
    checkpoints: Annotated[
        Path,
        typer.Option("--checkpoints", metavar="DIR", help="Folder of checkpoints, with steps in their names; .safetensors."),
    ],
    corpus: _Corpus,
    orders: Annotated[str, typer.Option("--orders", metavar="M,M,..", help="0 the next token, 1 with one before it, 2 with two.")] = "0,1",
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="PATH", help="Of text.", show_default="the one beside the checkpoints")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", help="The most frequent ones are compared.", show_default="200")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", metavar="W", help="Tokens that orders 1 and 2 look back.", show_default="the document")
    ] = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="W,W,..", help="To tell neighbors of.", show_default="weekdays, numbers")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="NAME", help="The embedding's tensor.", show_default="found")] = None,
    leave_out: Annotated[
        str | None, typer.Option("--leave-out", metavar="STEP,..", help="Checkpoints to pass over.", show_default="none")
    ] = None,
    end: _End = None,
    dtype: _Dtype = None,
    column: _Column = None,
    documents: _Documents = None,
    engine: _Engine = "local",
    workers: _Workers = None,
    progress: Annotated[
        Path | None, typer.Option("--progress", metavar="DIR", help="Keep counts here, to go on after a stop.", show_default="none")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the counts in --progress.")] = False,
    recount: Annotated[bool, typer.Option("--recount", help="Throw away the counts in --progress.")] = False,
    report: _Page = None,
    overwrite: _Overwrite = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    as_json: _AsJson = False,
) -> None:
    """Compare the embeddings of saved checkpoints with signatures of a text, order by order; checkpoints are checked first."""

    def work() -> Record:
        asked, left = _whole_numbers(orders, "--orders"), _whole_numbers(leave_out or "", "--leave-out")
        _check_overwrite(report, overwrite=overwrite)
        from normwise.workflows.staircase_track import CorpusReading, staircase_track

        settings = CorpusReading(
            tokenizer=tokenizer,
            end=end,
            dtype=dtype,
            column=column,
            documents=_choice(documents, "--documents", "lines", "paragraphs"),
            orders=asked,
            tokens=tokens,
            window=window,
            words=None if words is None else tuple(word.strip() for word in words.split(",") if word.strip()),
            engine=_choice(engine, "--engine", "local", "ray"),
            workers=workers,
            folder=progress,
            resume=resume,
            recount=recount,
            seed=seed,
        )
        found = staircase_track(
            checkpoints, corpus, settings, table=table, leave_out=left, report=report, overwrite=overwrite, told=cli_work.say
        )
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_track, as_json=as_json)


@staircase_app.command("predict", epilog=_PREDICT)
def predict(
    context: typer.Context,
    corpus: _Corpus,
    tokenizer: Annotated[Path | None, typer.Option("--tokenizer", metavar="PATH", help="Of text.", show_default="none")] = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", metavar="V", help="Ids that there are.", show_default="the tokenizer's")
    ] = None,
    init_scale: Annotated[float, typer.Option("--init-scale", help="Standard deviation of entries at init.")] = 0.02,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Of plain gradient descent.")] = 1.0,
    end: _End = None,
    dtype: _Dtype = None,
    column: _Column = None,
    documents: _Documents = None,
    engine: _Engine = "local",
    workers: _Workers = None,
    as_json: _AsJson = False,
) -> None:
    """Say before training when order 0 of a corpus will have grown into an embedding."""

    def work() -> Record:
        from normwise.workflows.staircase_predict import staircase_predict
        from normwise.workflows.staircase_track import CorpusReading

        settings = CorpusReading(
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            end=end,
            dtype=dtype,
            column=column,
            documents=_choice(documents, "--documents", "lines", "paragraphs"),
            engine=_choice(engine, "--engine", "local", "ray"),
            workers=workers,
        )
        found = staircase_predict(corpus, settings, init_scale=init_scale, learning_rate=learning_rate, told=cli_work.say)
        for note in found.notes:
            cli_work.say(f"note: {note}")
        return found

    cli_work.do(context, work, show_forecast, as_json=as_json)


def mount(app: typer.Typer) -> None:
    """Add the commands of `staircase` to an app."""
    app.add_typer(staircase_app, name="staircase")


def _check_overwrite(report: Path | None, *, overwrite: bool) -> None:
    if overwrite and report is None:
        raise InputError("--overwrite replaces an earlier page at --report: give one, or leave it out")


def _whole_numbers(text: str, name: str) -> tuple[int, ...]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if not part.isascii() or not part.isdigit():
            raise InputError(f"{name} has {part!r}; expected whole numbers with commas between them, such as 0,1")
        found.append(int(part))
    return tuple(found)


def _choice(value: str | None, name: str, *known: str) -> Any:
    if value is not None and value not in known:
        raise InputError(f"{name} is {value!r}; expected {' or '.join(known)}")
    return value
