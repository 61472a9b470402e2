"""Writing: whole or not at all, on a full disk, in a crash, over an old file."""

import errno
import multiprocessing
import os
import signal
import stat
from pathlib import Path

import pytest

from normwise.core import files
from normwise.core.errors import InputError, WorkError
from normwise.core.files import RunFolder, read_json, whole_folder, write_bytes, write_json, write_text


def full_disk(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def everything_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_and_read_back(tmp_path):
    write_json(tmp_path / "deep" / "a.json", {"x": [1, "é"]})
    assert read_json(tmp_path / "deep" / "a.json") == {"x": [1, "é"]}
    write_text(tmp_path / "deep" / "a.json", "[]")
    assert read_json(tmp_path / "deep" / "a.json") == []
    assert everything_in(tmp_path / "deep") == ["a.json"]


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert everything_in(tmp_path) == []


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
        with whole_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


@pytest.mark.parametrize("call", ["fsync", "replace", "fdopen"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_litter(tmp_path, monkeypatch, call):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    monkeypatch.setattr(files.os, call, full_disk)
    with pytest.raises(WorkError, match=r"could not write .*a\.txt: No space left on device; free space"):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert everything_in(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("text", ["{", "\xff"])
def test_unreadable_json_is_named(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match=r"gone\.json does not exist"):
        read_json(tmp_path / "gone.json")


def test_a_folder_appears_whole(tmp_path):
    path = tmp_path / "model"
    with whole_folder(path) as work:
        (work / "weights").write_text("1")
        assert not path.exists()
    assert everything_in(path) == ["weights"]
    assert everything_in(tmp_path) == ["model"]


def test_a_folder_is_not_overwritten_unasked(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="exists already: pass --overwrite"), whole_folder(tmp_path / "model"):
        pytest.fail("the body must not run")


def test_overwriting_replaces_the_whole_folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("0")
    with whole_folder(path, overwrite=True) as work:
        (work / "new").write_text("1")
        assert everything_in(path) == ["old"]
    assert everything_in(path) == ["new"]
    assert everything_in(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), WorkError, "could not write .*model: No space left on device"),
        (KeyboardInterrupt("from the keyboard"), KeyboardInterrupt, "from the keyboard"),
    ],
)
def test_a_failure_inside_leaves_what_stood_there(tmp_path, error, raised, message):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("0")

    def fill():
        with whole_folder(path, overwrite=True) as work:
            (work / "half").write_text("1")
            raise error

    with pytest.raises(raised, match=message):
        fill()
    assert everything_in(path) == ["old"]
    assert everything_in(tmp_path) == ["model"]


def _die_while_writing(path: Path) -> None:
    def die(*_args):
        os.kill(os.getpid(), signal.SIGKILL)

    files.os.replace = die
    write_bytes(path, b"new")


def _die_while_filling(path: Path) -> None:
    with whole_folder(path, overwrite=True) as work:
        (work / "half").write_text("1")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_in_the_middle_leaves_the_old_content(tmp_path, kind):
    path = tmp_path / "thing"
    with whole_folder(path) as work:
        (work / "state").write_text("old")
    target, victim = (_die_while_writing, path / "state") if kind == "file" else (_die_while_filling, path)
    process = multiprocessing.get_context("spawn").Process(target=target, args=(victim,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (path / "state").read_text() == "old"
    assert not (path / "half").exists()


def open_run(path, *, fingerprint="a", resume=False, overwrite=False):
    return RunFolder.open(path, fingerprint=fingerprint, resume=resume, overwrite=overwrite)


def test_a_run_goes_on_where_it_stopped(tmp_path):
    run = open_run(tmp_path / "run")
    assert not run.complete
    assert run.done("stage") is None
    run.finish("stage", {"steps": 3})
    again = open_run(tmp_path / "run", resume=True)
    assert again.done("stage") == {"steps": 3}
    again.close()
    assert open_run(tmp_path / "run", resume=True).complete


def test_resume_starts_a_run_where_there_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    assert open_run(tmp_path / "empty", resume=True).done("x") is None
    assert open_run(tmp_path / "new", resume=True).done("x") is None


@pytest.mark.parametrize("complete", [False, True])
def test_a_run_is_not_used_again_unasked(tmp_path, complete):
    run = open_run(tmp_path)
    run.finish("stage", {})
    if complete:
        run.close()
    with pytest.raises(InputError, match=("a complete" if complete else "an unfinished") + " run: pass --resume .* or --overwrite"):
        open_run(tmp_path)
    with pytest.raises(InputError, match="started with other settings"):
        open_run(tmp_path, fingerprint="b", resume=True)
    assert open_run(tmp_path, fingerprint="b", overwrite=True).done("stage") is None


def test_foreign_folders_are_never_deleted(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for flags in ({}, {"resume": True}):
        with pytest.raises(InputError, match="holds other files"):
            open_run(tmp_path, **flags)
    with pytest.raises(InputError, match="not a run folder of normwise: refusing to delete it"):
        open_run(tmp_path, overwrite=True)
    assert everything_in(tmp_path) == ["thesis.tex"]


def test_a_file_in_place_of_a_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file (holds other files|is a file)"):
        open_run(tmp_path / "file")
    with pytest.raises(InputError, match="refusing to delete it"):
        open_run(tmp_path / "file", overwrite=True)


def test_a_full_disk_keeps_the_state_of_the_run(tmp_path, monkeypatch):
    run = open_run(tmp_path)
    run.finish("one", {"n": 1})
    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(WorkError, match="No space left"):
        run.finish("two", {"n": 2})
    monkeypatch.undo()
    again = open_run(tmp_path, resume=True)
    assert again.done("one") == {"n": 1}
    assert again.done("two") is None


def test_a_failed_swap_puts_the_old_folder_back(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("0")
    replace, calls = os.replace, []

    def second_fails(source, target):
        calls.append(target)
        if len(calls) == 2:
            full_disk()
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", second_fails)
    with pytest.raises(WorkError, match=r"could not write .*model: No space left"), whole_folder(path, overwrite=True):
        pass
    assert everything_in(path) == ["old"]
    assert everything_in(tmp_path) == ["model"]


@pytest.mark.parametrize("write", [lambda path: write_text(path, "x"), lambda path: whole_folder(path).__enter__()])
def test_a_file_in_the_way_is_told_as_ours(tmp_path, write):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkError, match=r"could not write .*inside: (Not a directory|File exists)"):
        write(tmp_path / "file" / "inside")


def test_a_run_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"inside cannot be made: (Not a directory|File exists)"):
        open_run(tmp_path / "file" / "inside").start()
