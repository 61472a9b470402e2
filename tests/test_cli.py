"""The command line: exit codes, one JSON value on stdout, everything else on stderr, and light help."""

import errno
import io
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from normwise import __version__, cli, cli_streams
from normwise.core.errors import InputError, WorkError
from normwise.core.records import METRICS, Record

HEAVY = ("torch", "numpy", "scipy", "sklearn", "pydantic", "transformers", "sentence_transformers", "datasets", "pyarrow", "matplotlib")


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert not isinstance(result.exception, Exception), result.exception
    return result


def loaded_after(code):
    script = f"import sys\n{code}\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "loaded"),
    # typer itself loads pydantic once a command has parameters to explain.
    [(["--help"], "[]"), (["--version"], "[]"), (["train", "--help"], "['pydantic']"), (["data", "export", "--help"], "['pydantic']")],
)
def test_help_loads_no_heavy_module(arguments, loaded):
    code = f"from normwise.cli import app\ntry:\n    app({arguments!r})\nexcept SystemExit as stop:\n    assert not stop.code"
    assert loaded_after(code) == loaded


@pytest.mark.slow
def test_the_check_for_heavy_modules_can_fail():
    assert loaded_after("import pydantic") == "['pydantic']"


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["train"], ["evaluate"], ["data"], ["data", "list"], ["data", "export"], ["data", "check"]]
)
def test_every_help_has_an_example(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Example: normwise" in result.stdout


def test_version():
    assert invoke("--version").stdout == f"normwise {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmeo"], "No such command"),
        (["demo", "--fast"], "No such option"),
        (["train", "--out", "x"], "Missing option"),
        (["data", "export", "python-docs"], "Missing option"),
        (["evaluate"], "evaluate needs --model and --data, or --vectors"),
        (["evaluate", "--model", "m"], "evaluate needs --model and --data"),
        (["evaluate", "--model", "m", "--data", "d", "--qrels", "q.tsv"], "--qrels judges --vectors"),
        (["evaluate", "--vectors", "q.npy", "d.npy", "--model", "m"], "--vectors evaluates bare vectors"),
        (["evaluate", "--vectors", "q.npy", "d.npy", "--split", "dev"], "leave --model, --data and --split out"),
        (["evaluate", "--vectors", "q.npy", "d.npy", "--split", "nope"], "leave --model, --data and --split out"),
        (["evaluate", "--model", "", "--data", "d"], "an argument is empty: give it a value"),
        (["data", "check", ""], "an argument is empty"),
        (["demo", "--out="], "--out is empty"),
        (["data", "check", "bad\udcff"], "is not UTF-8 text: rename the file or folder"),
        (["train", "--config", "a.toml", "--set", "data.name=\udcff", "--out", "x"], "is not UTF-8 text"),
        (["demo", "--resume", "--overwrite"], "pass one of them"),
        (["train", "--config", "gone.toml", "--out", "x"], "config file gone.toml does not exist"),
        (["train", "--config", "gone.ini", "--dry-run"], "a config file ends in"),
    ],
)
def test_bad_usage_is_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[data]\nname = "nowhere.jsonl"\n[[arms.pace]]\nname = "angular"\ntemperature = 0.1\nsteps = 5\n', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("arms.pace.0.stpes=5", "run.toml: unknown key 'arms.pace.0.stpes': did you mean steps?"),
        ("arms.pace.1.steps=5", "arms.pace is a list of 1"),
        ("arms.pace.0.steps=0", "arms.pace.0.steps: expected 1 or above"),
        ("arms.pace.0.batch_size=1", "leaves every query without a negative"),
        ("steps", "expected KEY=VALUE"),
    ],
)
def test_a_bad_setting_is_named(config, tmp_path, setting, message):
    result = invoke("train", "--config", config, "--set", setting, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


def test_training_needs_a_place_to_write(config):
    result = invoke("train", "--config", config)
    assert result.exit_code == 2
    assert "train needs --out DIR" in result.stderr


@pytest.fixture
def listing(monkeypatch):
    """Let `normwise data list` do whatever a test wants, to see what the command line makes of it."""

    def replace(work):
        monkeypatch.setitem(sys.modules, "normwise.workflows.data", SimpleNamespace(list_sets_verb=work))

    return replace


class OneSet(Record):
    """An entry as `normwise data list` has them."""

    name: str = "x"
    available: bool = True


ONE_SET = OneSet()


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("row 3 is empty"), 2, "normwise: row 3 is empty\n"),
        (WorkError("the disk is full"), 1, "normwise: the disk is full\n"),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            2,
            'normwise: torch is not installed; run: pip install "normwise[train]"\n',
        ),
        (ModuleNotFoundError("No module named 'pyarrow.lib'", name="pyarrow.lib"), 2, "normwise[train]"),
        (RuntimeError("odd"), 1, "normwise: unexpected RuntimeError: odd\n"),
        (KeyboardInterrupt(), 130, "normwise: stopped.\n"),
    ],
)
def test_an_error_is_one_block_and_an_exit_code(listing, error, code, message):
    listing(raising(error))
    result = invoke("data", "list", "--json")
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_unexpected_error_says_how_to_see_more(listing):
    listing(raising(RuntimeError("odd")))
    assert "For the traceback: normwise --debug data list ..." in invoke("data", "list").stderr
    result = invoke("--debug", "data", "list")
    assert "Traceback" in result.stderr
    assert result.exit_code == 1


def test_a_stopped_run_says_how_to_go_on(monkeypatch, tmp_path):
    stop = raising(KeyboardInterrupt())
    monkeypatch.setitem(sys.modules, "normwise.workflows.demo", SimpleNamespace(demo=lambda *_args, **_settings: stop()))
    result = invoke("demo", "--quick", "--out", tmp_path / "a b")
    assert result.exit_code == 130
    assert f"Go on with: normwise demo --quick --out '{tmp_path}/a b' --resume" in result.stderr


def test_stray_prints_go_to_stderr(listing, capfd):
    def noisy():
        print("python prints")  # noqa: T201 - what libraries do
        os.write(1, b"compiled code prints\n")
        logging.getLogger("normwise.data").info("a log line")
        return [ONE_SET]

    listing(noisy)
    result = invoke("data", "list", "--json")
    assert json.loads(result.stdout) == [ONE_SET.model_dump()]
    assert result.stdout.count("\n") == 1
    assert "python prints" in result.stderr
    assert "a log line" in result.stderr
    assert capfd.readouterr() == ("", "compiled code prints\n")


def test_a_warning_is_a_line_without_its_place_in_the_source(listing):
    def careful():
        warnings.warn("the weights were\n changed", UserWarning, stacklevel=1)
        return [ONE_SET]

    listing(careful)
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = invoke("data", "list", "--json")
    assert [line.split(" ", 1)[1] for line in result.stderr.splitlines()] == ["warning: the weights were changed"]
    assert json.loads(result.stdout) == [ONE_SET.model_dump()]
    assert warnings.showwarning is before


class Unwilling(io.StringIO):
    """An output that takes nothing."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_result_that_cannot_be_written_is_told(listing, monkeypatch, capsys, flags):
    listing(lambda: [ONE_SET])
    monkeypatch.setattr(sys, "stdout", Unwilling(errno.ENOSPC))
    with pytest.raises(SystemExit, match="1"):
        cli.app(["data", "list", *flags])
    assert capsys.readouterr().err == "normwise: the result could not be written to stdout: No space left on device\n"


def test_json_is_escaped_where_stdout_lacks_a_letter(monkeypatch):
    for encoding, text in [("ascii", r'["\u00fc\u65e5\ud835\udcb3"]'), ("utf-8", '["ü日𝒳"]')]:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        cli_streams.write_json('["ü日𝒳"]')
        sys.stdout.flush()
        assert raw.getvalue().decode(encoding) == text + "\n"
        assert json.loads(raw.getvalue()) == ["ü日𝒳"]


def test_an_interrupt_that_python_drops_comes_again(monkeypatch):
    told, came = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    monkeypatch.setattr(cli_streams, "interrupt_main", came.set)
    cli_streams.keep_interrupts()
    sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt))
    assert came.wait(10)
    assert told == []
    other = SimpleNamespace(exc_type=ValueError)
    sys.unraisablehook(other)
    assert told == [other]


def run_in_shell(line, folder, **variables):
    environment = {**os.environ, "PYTHON": sys.executable, **variables}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, check=False)


FULL = "no output is ever full" if not os.path.exists("/dev/full") else ""
RUN = '"$PYTHON" -m normwise'


@pytest.mark.slow
@pytest.mark.skipif(bool(FULL), reason=FULL)
@pytest.mark.parametrize(
    ("line", "code", "out", "message"),
    [
        (f"{RUN} data list --json > /dev/full", 1, None, "the result could not be written to stdout: No space left"),
        (f"{RUN} data list > /dev/full", 1, None, "the result could not be written to stdout: No space left"),
        (f"{RUN} --help > /dev/full", 1, None, "could not write to stdout: No space left"),
        (f"{RUN} data list --json >&-", 2, None, "stdout is closed"),
        (f"{RUN} data list --json 2>&-", 0, "python-docs", ""),
        (f"{RUN} data list --json 2> /dev/full", 0, "python-docs", ""),
        (f"{RUN} data list --json <&-", 0, "python-docs", ""),
        (f"{RUN} data check gone 2> /dev/full", 2, None, ""),
        (f"{RUN} data check gone 2>&-", 2, None, ""),
        (f"{RUN} data list | true; exit ${{PIPESTATUS[0]}}", 1, None, None),
        (f"{RUN} data list --json | true; exit ${{PIPESTATUS[0]}}", 1, None, None),
    ],
)
def test_streams_that_are_full_or_closed(tmp_path, line, code, out, message):
    done = run_in_shell(line, tmp_path, PYTHONUNBUFFERED="")
    assert done.returncode == code
    assert (message or "") in done.stderr.decode()
    assert message is not None or not done.stderr
    assert "Traceback" not in done.stderr.decode()
    assert "Exception ignored" not in done.stderr.decode()
    if out:
        assert out in {row["name"] for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_every_letter_can_be_shown_on_a_plain_terminal(tmp_path):
    name = "ünï 日本.jsonl"
    rows = [{"query": f"question {row}", "positive": f"answer {row}"} for row in range(20)]
    (tmp_path / name).write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    for flags in ("", "--json"):
        done = run_in_shell(f'{RUN} data check "{name}" {flags}', tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="1")
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
    assert json.loads(done.stdout)["data"].endswith(name)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "normwise.cli_tables", "typer.main"])
def test_an_interrupt_while_the_command_loads_leaves_no_traceback(module):
    # Stops where the named module would be loaded, as an interrupt from the keyboard does.
    script = f"""
import sys
class Stop:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from normwise.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_before_a_command_begins_is_exit_code_130(monkeypatch):
    monkeypatch.setattr(cli, "app", raising(KeyboardInterrupt()))
    for name in ("open_streams", "keep_interrupts", "settle_stdout"):
        monkeypatch.setattr(cli_streams, name, lambda: None)
    monkeypatch.setattr(cli, "_set_environment", lambda: None)
    with pytest.raises(SystemExit, match="130"):
        cli.main()


def test_only_the_main_process_of_a_launch_speaks(listing, monkeypatch):
    listing(lambda: [ONE_SET])
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert invoke("data", "list", "--json").stdout == ""
    monkeypatch.setenv("RANK", "0")
    assert json.loads(invoke("data", "list", "--json").stdout) == [ONE_SET.model_dump()]


def test_environment_is_set_once_and_what_stands_stays(monkeypatch):
    for name in ("TOKENIZERS_PARALLELISM", "TQDM_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    before = dict(os.environ)
    try:
        cli._set_environment()
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
        assert os.environ["GOMP_SPINCOUNT"] == "7"
        assert ("TQDM_DISABLE" in os.environ) == (not sys.stderr.isatty())
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def vectors(tmp_path):
    """Queries that point at their own candidate; one candidate is long and wins every query by dot product."""
    random = np.random.default_rng(0)
    candidates = random.normal(size=(40, 16)).astype(np.float32)
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    queries = candidates[:20] + 0.05 * random.normal(size=(20, 16)).astype(np.float32)
    candidates[39] = 500 * np.abs(queries).sum(axis=0) * np.sign(queries.sum(axis=0))
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "d.npy", candidates)
    return tmp_path / "q.npy", tmp_path / "d.npy"


def test_bare_vectors_give_the_promised_json(vectors):
    result = invoke("evaluate", "--vectors", *vectors, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert {"model", "data", "queries", "candidates", "similarities", "geometry", "decision"} <= set(found)
    assert (found["queries"], found["candidates"]) == (20, 40)
    assert set(found["similarities"]) == {"cosine", "dot", "query_normalized", "candidate_normalized"}
    for table in found["similarities"].values():
        assert set(table) == set(METRICS)
        for interval in table.values():
            assert set(interval) == {"mean", "ci_low", "ci_high"}
            assert interval["ci_low"] <= interval["mean"] <= interval["ci_high"]
    assert found["similarities"]["cosine"]["p@1"]["mean"] == 1.0
    assert found["similarities"]["dot"] == found["similarities"]["query_normalized"]
    assert found["similarities"]["cosine"] == found["similarities"]["candidate_normalized"]
    assert found["similarities"]["dot"]["p@1"]["mean"] < 1.0


def test_bare_vectors_show_tables_to_people(vectors):
    result = invoke("evaluate", "--vectors", *vectors)
    assert result.exit_code == 0, result.stderr
    assert "20 queries" in result.stdout
    assert "1.000 [1.000, 1.000]" in result.stdout


def test_one_similarity_can_be_asked_for(vectors):
    result = invoke("evaluate", "--vectors", *vectors, "--similarity", "dot", "--json")
    assert result.exit_code == 0, result.stderr
    assert set(json.loads(result.stdout)["similarities"]) == {"dot"}


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, ["--similarity", "cosin"], "did you mean cosine?"),
        ({"q": np.zeros((3, 7), np.float32)}, [], "16"),
        ({"q": np.zeros(5, np.float32)}, [], "q.npy"),
        ({"d": np.full((40, 16), np.nan, np.float32)}, [], "d.npy"),
        ({"d": None}, [], "d.npy"),
        ({}, ["--qrels", "gone.tsv"], "gone.tsv"),
    ],
)
def test_bad_vectors_are_named(vectors, change, arguments, message):
    for name, value in change.items():
        path = vectors[0].with_name(f"{name}.npy")
        if value is None:
            path.unlink()
        else:
            np.save(path, value)
    result = invoke("evaluate", "--vectors", *vectors, *arguments, "--json")
    assert result.exit_code == 2, result.stderr
    assert message in result.stderr
    assert result.stdout == ""


def test_the_built_in_sets_are_listed():
    rows = json.loads(invoke("data", "list", "--json").stdout)
    assert {"python-docs", "python-calls", "wordnet-senses", "wordnet-glosses"} <= {row["name"] for row in rows}
    assert all(set(row) == {"name", "kind", "available", "how_to_get"} for row in rows)
    assert next(row for row in rows if row["name"] == "python-docs")["available"] is True
    assert "python-docs" in invoke("data", "list").stdout


def test_an_unknown_set_gets_near_names(tmp_path):
    result = invoke("data", "export", "python-dosc", "--out", tmp_path / "x")
    assert result.exit_code == 2
    assert "python-docs" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_path_is_refused(tmp_path):
    result = invoke("data", "check", tmp_path / "gone")
    assert result.exit_code == 2
    assert "gone" in result.stderr


@pytest.fixture
def own_code(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    for module in range(12):
        words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
        functions = [
            f'def {words[module]}_{other}(value):\n    """Turn the {words[module]} of a value into its {other} by rule {module}."""\n'
            f"    result = value * {module + 2}\n    return result + len({other!r})\n"
            for other in words
        ]
        (folder / f"{words[module]}.py").write_text("\n\n".join(functions), encoding="utf-8")
    return folder


def test_refused_data_are_told_and_exit_with_2(tmp_path):
    for name, what in (("corpus", "answer"), ("queries", "question")):
        rows = [{"_id": str(row), "text": f"{what} {row}"} for row in range(20)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    for split, rows, score in (("train", range(10), 1), ("dev", range(10, 15), 1), ("test", range(15, 20), 0)):
        lines = ["query-id\tcorpus-id\tscore", *(f"{row}\t{row}\t{score}" for row in rows)]
        (tmp_path / "qrels" / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    result = invoke("data", "check", tmp_path, "--json")
    assert result.exit_code == 2
    assert "no query has a relevant candidate" in " ".join(json.loads(result.stdout)["refusals"])
    people = invoke("data", "check", tmp_path)
    assert people.exit_code == 2
    assert "refusals" in people.stdout


def test_own_code_is_exported_and_checked(own_code, tmp_path):
    out = tmp_path / "beir"
    exported = invoke("data", "export", "python-docs", "--roots", own_code, "--out", out, "--json")
    assert exported.exit_code == 0, exported.stderr
    assert {"corpus.jsonl", "queries.jsonl", "qrels"} <= {path.name for path in out.iterdir()}
    again = invoke("data", "export", "python-docs", "--roots", own_code, "--out", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = invoke("data", "check", out, "--json")
    assert checked.exit_code == 0, checked.stderr
    assert isinstance(json.loads(checked.stdout), dict)
