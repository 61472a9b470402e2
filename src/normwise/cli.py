"""The command line: arguments -> config -> one workflow call -> exit code.

Exit codes: 0 done; 1 the work failed; 2 bad input or usage; 130 stopped from the keyboard. stdout carries results
only (with `--json`, exactly one JSON value); everything else goes to stderr. Heavy modules load inside the commands.
"""

from __future__ import annotations

import sys

try:
    import os
    from pathlib import Path
    from typing import TYPE_CHECKING, Annotated, Any

    import typer
    from typer.core import TyperGroup

    from normwise import (
        __version__,
        cli_calibrate,
        cli_concepts,
        cli_index,
        cli_inspect,
        cli_negatives,
        cli_simulate,
        cli_staircase,
        cli_streams,
        cli_tables,
        cli_work,
    )
    from normwise.cli_two_files import TwoFilesCommand
    from normwise.core.errors import InputError, WorkError
except KeyboardInterrupt:
    # Loading takes a noticeable time, and whoever stops the command in it wants no traceback.
    sys.exit(130)

if TYPE_CHECKING:
    from normwise.core.records import Record


class _Commands(TyperGroup):
    """The commands; no argument of theirs may be empty, or text that no JSON and no page can hold."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for argument in args:
            if argument == "" or (argument.startswith("--") and argument.endswith("=") and argument.count("=") == 1):
                name = argument.rstrip("=")
                raise typer.BadParameter(f"{name or 'an argument'} is empty: give it a value, or leave it out (the current folder is .)")
            if any("\ud800" <= character <= "\udfff" for character in argument):
                raise typer.BadParameter(f"argument {argument!r} is not UTF-8 text: rename the file or folder")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="normwise",
    cls=_Commands,
    help="Train, explain and use embeddings by their length as well as their direction.",
    epilog="Example: normwise demo --quick --out out/quick",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List, export and check data sets.", epilog="Example: normwise data list", no_args_is_help=True)
app.add_typer(data_app, name="data")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; logs stay on stderr.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what stands at --out.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run of the same settings.")]


def main() -> None:
    """Run the command `normwise`."""
    cli_streams.open_streams()
    cli_streams.keep_interrupts()
    _set_environment()
    if sys.stdout is None:
        cli_work.say("stdout is closed, so the result would go nowhere: redirect it to a file or to /dev/null")
        sys.exit(InputError.exit_code)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(cli_work.STOPPED)  # before a command began; a command tells its own
    except OSError as error:
        cli_work.say(f"could not write to stdout: {error.strerror or error}")  # help and version
        sys.exit(WorkError.exit_code)
    finally:
        cli_streams.settle_stdout()


def _set_environment() -> None:
    # Read by libraries when they are first imported; what the user has set stays.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    if not sys.stderr.isatty():
        for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TQDM_DISABLE"):
            os.environ.setdefault(name, "1")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"normwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)] = False,
) -> None:
    context.obj = debug


@app.command(epilog="Example: normwise demo --quick --out out/quick")
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run: models, results and report.html.")] = Path("out/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of the whole path: under a minute, no meaning.")] = False,
    data: Annotated[str, typer.Option("--data", help="python-docs or python-calls; see `normwise data list`.")] = "python-docs",
    overwrite: Overwrite = False,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Train a retriever on the Python code of this machine, compare it with its baselines, and explain it on one page."""
    parts = [*(["--quick"] if quick else []), *(["--data", data] if data != "python-docs" else [])]
    command = cli_work.command_line("demo", *parts, "--out", out)

    def work() -> Record:
        _check_out(resume=resume, overwrite=overwrite)
        from normwise.workflows.demo import demo as run

        return run(
            out,
            quick=quick,
            data=data,
            resume=resume,
            overwrite=overwrite,
            command=command,
            progress=sys.stderr.isatty(),
            log=cli_work.LOG.info,
        )

    cli_work.do(context, work, cli_tables.show_training, as_json=as_json, resume_with=f"{command} --resume")


@app.command(epilog="Example: normwise train --config pace.toml --set seeds=[0,1,2] --out runs/pace")
def train(
    context: typer.Context,
    config: Annotated[Path, typer.Option("--config", help="Settings of the run: a .toml, .json or .yaml file.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the run: models, results and report.html.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, as in arms.pace.1.steps=5; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be trained, on how many negatives and how much memory; train nothing.")
    ] = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Train the arms of a config file, let the dev set decide between them, and save the model it chose."""
    overrides = settings or []
    command = cli_work.command_line(
        "train", "--config", config, *(part for setting in overrides for part in ("--set", setting)), *(("--out", out) if out else ())
    )

    def work() -> Record:
        from normwise.core.config import PaceConfig
        from normwise.core.config_file import apply_overrides, read_config_file

        _check_out(resume=resume, overwrite=overwrite)
        if out is None and not dry_run:
            raise InputError("train needs --out DIR to write to (only --dry-run does without)")
        parsed = PaceConfig.read(apply_overrides(read_config_file(config), overrides), source=str(config))
        if out is None or dry_run:
            from normwise.workflows.dry_run import plan

            return plan(parsed, out=out, resume=resume, overwrite=overwrite, log=cli_work.LOG.info)
        from normwise.workflows.train import train as run

        return run(parsed, out, resume=resume, overwrite=overwrite, command=command, progress=sys.stderr.isatty(), log=cli_work.LOG.info)

    show = (lambda record: cli_tables.show_record("What would be trained", record)) if dry_run else cli_tables.show_training
    cli_work.do(context, work, show, as_json=as_json, resume_with=f"{command} --resume")


@app.command(cls=TwoFilesCommand, epilog="Example: normwise evaluate --vectors queries.npy documents.npy --qrels qrels.tsv")
def evaluate(
    context: typer.Context,
    model: Annotated[str | None, typer.Option("--model", help="A saved model, a sentence-transformers folder or a hub id.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="A built-in set, a BEIR or MMEB folder, a file of named columns, or a training config.")
    ] = None,
    vectors: Annotated[
        tuple[Path, Path] | None, typer.Option("--vectors", metavar="QUERIES.npy CANDIDATES.npy", help="Bare vectors in place of a model.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="Judgements of --vectors by row number; without it query row i asks for candidate row i.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="test or dev; without it test, and of a bare file of pairs every row.")
    ] = None,
    similarity: Annotated[str, typer.Option("--similarity", help="all, or one of the four similarities.")] = "all",
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Also write a page.")] = None,
    subset: Annotated[list[str] | None, typer.Option("--subset", help="Of an MMEB folder, a task to measure; repeatable.")] = None,
    image_root: Annotated[Path | None, typer.Option("--image-root", help="Of an MMEB folder, what paths of pictures begin at.")] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE.json", help="Of an MMEB folder, what --json said of another model: compare.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval under every similarity, with intervals and the geometry of the vectors.

    A folder in MMEB's layout is measured in MMEB's protocol: P@1 of every query in its own candidate set, task by task.
    """

    def work() -> Record:
        from normwise import cli_mmeb

        if cli_mmeb.asked(data, subset, image_root, baseline):
            cli_mmeb.refuse(vectors=vectors, qrels=qrels, split=split, similarity=None if similarity == "all" else similarity)
            return cli_mmeb.evaluate(model, data, subsets=subset, image_root=image_root, baseline=baseline, report=report)
        _check_similarity(similarity)
        if vectors is not None:
            if model is not None or data is not None or split is not None:
                raise InputError("--vectors evaluates bare vectors: leave --model, --data and --split out, or leave --vectors out")
            from normwise.workflows.evaluate import evaluate_vectors

            return evaluate_vectors(vectors[0], vectors[1], qrels=qrels, similarity=similarity, report=report)
        if model is None or data is None:
            raise InputError("evaluate needs --model and --data, or --vectors QUERIES.npy CANDIDATES.npy")
        if qrels is not None:
            raise InputError("--qrels judges --vectors; the judgements of --data come with it: leave --qrels out")
        from normwise.workflows.evaluate import evaluate as run

        return run(model, data, split=split, similarity=similarity, progress=sys.stderr.isatty(), report=report)

    def show(record: Any) -> None:
        from normwise import cli_mmeb

        (cli_mmeb.show if cli_mmeb.is_mmeb_record(record) else cli_tables.show_evaluation)(record)

    cli_work.do(context, work, show, as_json=as_json)


def _check_out(*, resume: bool, overwrite: bool) -> None:
    if resume and overwrite:
        raise InputError("--resume goes on with a run and --overwrite throws it away: pass one of them")


def _check_similarity(name: str) -> None:
    if name != "all":
        from normwise.core.similarity import parse_similarity

        parse_similarity(name)


@data_app.command("list", epilog="Example: normwise data list --json")
def data_list(context: typer.Context, as_json: Json = False) -> None:
    """List the built-in data sets, and how to get those that are missing."""

    def work() -> Any:
        from normwise.workflows.data import list_sets_verb

        return [entry.model_dump(mode="json") for entry in list_sets_verb()]

    cli_work.do(context, work, lambda rows: cli_tables.show_rows("Built-in data sets", rows), as_json=as_json)


@data_app.command("export", epilog="Example: normwise data export python-docs --out data/my-code --roots ~/src/my_package")
def data_export(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A built-in set; see `normwise data list`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write in BEIR layout.")],
    roots: Annotated[
        list[str] | None, typer.Option("--roots", help="Folders of your own code in place of this machine's; repeatable.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a built-in data set in BEIR layout: corpus.jsonl, queries.jsonl, qrels/."""

    def work() -> Any:
        from normwise.workflows.data import export_set

        return export_set(name, out, roots=roots, overwrite=overwrite)

    cli_work.do(context, work, lambda record: cli_tables.show_record("Exported", record), as_json=as_json)


@data_app.command("check", epilog="Example: normwise data check data/my-code")
def data_check(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="A BEIR folder, a file of named columns, a built-in set or a training config.")],
    model: Annotated[str | None, typer.Option("--model", help="Also count texts longer than this encoder reads.")] = None,
    as_json: Json = False,
) -> None:
    """Look for what spoils training: empty and repeated texts, leakage between train and test; with --model, truncation.

    Exit code 2 says that training would refuse these data.
    """

    def work() -> Any:
        from normwise.workflows.data import check

        return check(path, model=model)

    found = cli_work.do(context, work, lambda record: cli_tables.show_record(f"Check of {path}", record), as_json=as_json)
    if found.refusals:
        raise typer.Exit(InputError.exit_code)


cli_inspect.mount(app)
cli_index.mount(app)
cli_calibrate.mount(app)
cli_negatives.mount(app)
cli_staircase.mount(app)
cli_concepts.mount(cli_simulate.simulate_app)
app.add_typer(cli_simulate.simulate_app, name="simulate")
