"""Writing: whole or not at all, on a full disk, in a crash, over an old file."""

import errno
import json
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


@pytest.mark.parametrize("text", ["{", "\xff", "9" * 5000, "[" * 100_000])
def test_unreadable_json_is_named(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match=r"gone\.json does not exist"):
        read_json(tmp_path / "gone.json")


def test_a_folder_in_place_of_json_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_json(tmp_path)


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


A, B = "a" * 64, "b" * 64


def open_run(path, *, fingerprint=A, resume=False, overwrite=False):
    return RunFolder.open(path, fingerprint=fingerprint, resume=resume, overwrite=overwrite)


def test_a_run_goes_on_where_it_stopped(tmp_path):
    run = open_run(tmp_path / "run")
    assert not run.complete
    run.start()
    write_text(tmp_path / "run" / "stage.json", "{}")
    again = open_run(tmp_path / "run", resume=True)
    again.start()
    assert not again.complete
    assert (tmp_path / "run" / "stage.json").read_text() == "{}"
    again.close()
    assert open_run(tmp_path / "run", resume=True).complete


def test_resume_starts_a_run_where_there_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    assert not open_run(tmp_path / "empty", resume=True).complete
    assert not open_run(tmp_path / "new", resume=True).complete


@pytest.mark.parametrize("complete", [False, True])
def test_a_run_is_not_used_again_unasked(tmp_path, complete):
    run = open_run(tmp_path)
    run.start()
    if complete:
        run.close()
    with pytest.raises(
        InputError,
        match="a complete run: choose another --out, or pass --overwrite"
        if complete
        else "an unfinished run: pass --resume .* or --overwrite",
    ):
        open_run(tmp_path)
    with pytest.raises(InputError, match="started with other settings"):
        open_run(tmp_path, fingerprint=B, resume=True)
    assert not open_run(tmp_path, fingerprint=B, overwrite=True).complete


def test_foreign_folders_are_never_deleted(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for flags in ({}, {"resume": True}):
        with pytest.raises(InputError, match="holds other files"):
            open_run(tmp_path, **flags)
    with pytest.raises(InputError, match="not a run folder of normwise: refusing to delete it"):
        open_run(tmp_path, overwrite=True)
    assert everything_in(tmp_path) == ["thesis.tex"]


STATE = {"fingerprint": A, "complete": False}


@pytest.mark.parametrize(
    "state",
    ["[1]", "null", "{", "{}", '"text"', "[" * 100_000, '{"fingerprint": ' + "9" * 5000 + "}", b"\xff\xfe"]
    + [json.dumps({**STATE, **change}) for change in ({"fingerprint": "a"}, {"fingerprint": 5}, {"complete": 1})]
    + [json.dumps({key: value for key, value in STATE.items() if key != left_out}) for left_out in STATE],
)
@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
def test_a_state_file_of_others_makes_no_run(tmp_path, state, flags):
    (tmp_path / "state.json").write_bytes(state if isinstance(state, bytes) else state.encode())
    with pytest.raises(InputError, match="refusing to delete it" if flags.get("overwrite") else "holds other files"):
        open_run(tmp_path, **flags)
    assert everything_in(tmp_path) == ["state.json"]


def test_a_state_file_of_ours_makes_one(tmp_path):
    write_json(tmp_path / "state.json", STATE)
    assert not open_run(tmp_path, resume=True).complete


def finished_run(path):
    run = open_run(path)
    run.start()
    (path / "work").mkdir()
    write_text(path / "work" / "weights", "1")
    write_text(path / "report.html", "old")
    run.close()


def test_overwriting_deletes_the_old_run_and_nothing_else(tmp_path):
    (tmp_path / "mine").mkdir()
    write_text(tmp_path / "mine" / "thesis.tex", "years of work")
    finished_run(tmp_path / "run")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "mine")
    fresh = open_run(tmp_path / "run", overwrite=True)
    assert "work" in everything_in(tmp_path / "run")
    fresh.start()
    assert everything_in(tmp_path / "run") == ["state.json"]
    assert everything_in(tmp_path / "mine") == ["thesis.tex"]
    assert not open_run(tmp_path / "run", resume=True).complete


def test_a_run_behind_a_link_is_replaced_behind_the_link(tmp_path):
    finished_run(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    open_run(tmp_path / "link", overwrite=True).start()
    assert (tmp_path / "link").is_symlink()
    assert everything_in(tmp_path / "run") == ["state.json"]


def test_an_old_run_that_cannot_be_deleted_is_an_unfinished_one(tmp_path, monkeypatch):
    finished_run(tmp_path)

    def refuse(_path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    fresh = open_run(tmp_path, overwrite=True)
    monkeypatch.setattr(files.shutil, "rmtree", refuse)
    with pytest.raises(InputError, match="old run in .* cannot be deleted: Permission denied; change the permissions"):
        fresh.start()
    monkeypatch.undo()
    again = open_run(tmp_path, resume=True)
    assert not again.complete


def test_a_run_in_a_forbidden_folder_is_refused(tmp_path, monkeypatch):
    def refuse(_path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files.Path, "exists", refuse)
    with pytest.raises(InputError, match="cannot be looked into: Permission denied; change the permissions"):
        open_run(tmp_path)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "free space or choose another folder"),
        (errno.EDQUOT, "free space or"),
        (errno.EACCES, "change the permissions or"),
        (errno.EROFS, "change the permissions or"),
        (errno.ENOTDIR, "a file stands where a folder should"),
        (errno.EEXIST, "a file stands where a folder should"),
        (errno.ENAMETOOLONG, "choose a shorter name or"),
        (errno.EIO, "; choose another folder"),
    ],
)
def test_a_refusal_names_the_step_that_fits(tmp_path, monkeypatch, number, step):
    def refuse(*_args, **_settings):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(WorkError, match=f"could not write .*{os.strerror(number)}.*{step}") as caught:
        write_text(tmp_path / "a", "x")
    assert ("free space" in str(caught.value)) == (number in (errno.ENOSPC, errno.EDQUOT))


@pytest.mark.parametrize("stands", [False, True])
def test_a_link_is_written_through(tmp_path, stands):
    if stands:
        write_text(tmp_path / "target", "old")
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert everything_in(tmp_path) == ["link", "target"]


def test_links_in_a_circle_are_refused_and_stay(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(WorkError, match=r"could not write .*one: Too many levels of symbolic links"):
        write_text(tmp_path / "one", "x")
    assert (tmp_path / "one").is_symlink()


def test_a_file_in_place_of_a_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file is not a folder"):
        open_run(tmp_path / "file")
    with pytest.raises(InputError, match="refusing to delete it"):
        open_run(tmp_path / "file", overwrite=True)


def test_a_full_disk_keeps_the_state_of_the_run(tmp_path, monkeypatch):
    run = open_run(tmp_path)
    run.start()
    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(WorkError, match="No space left"):
        run.close()
    monkeypatch.undo()
    assert not open_run(tmp_path, resume=True).complete


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


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_swap_leaves_nothing_beside_the_old_folder(tmp_path, monkeypatch, failing):
    path = tmp_path / "model"
    path.mkdir()
    replace, calls = os.replace, []

    def one_fails(source, target):
        calls.append(target)
        if len(calls) == failing:
            full_disk()
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", one_fails)
    with pytest.raises(WorkError, match="No space left"), whole_folder(path, overwrite=True):
        pass
    assert everything_in(tmp_path) == ["model"]


def test_folders_made_on_the_way_go_again(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "a" / "b" / "model"):  # noqa: PT012 - both are made by the manager
        assert everything_in(tmp_path / "a") == ["b"]
        raise KeyboardInterrupt
    assert everything_in(tmp_path) == []


def test_a_folder_never_replaces_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(InputError, match="file is a file, and a folder never replaces one"),
        whole_folder(tmp_path / "file", overwrite=True),
    ):
        pytest.fail("the body must not run")
    assert (tmp_path / "file").read_text() == "x"
    assert everything_in(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_moved_stays_without_litter(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(WorkError, match="could not write"), whole_folder(Path(), overwrite=True):
        pass
    assert everything_in(tmp_path) == ["here"]
    assert everything_in(tmp_path / "here") == []


def test_a_link_stays_and_its_folder_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").write_text("0")
    (tmp_path / "link").symlink_to("real")
    with whole_folder(tmp_path / "link", overwrite=True) as work:
        (work / "new").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert everything_in(tmp_path / "real") == ["new"]
    assert everything_in(tmp_path) == ["link", "real"]


@pytest.mark.parametrize("write", [lambda path: write_text(path, "x"), lambda path: whole_folder(path).__enter__()])
def test_a_file_in_the_way_is_told_as_ours(tmp_path, write):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkError, match=r"could not write .*inside: (Not a directory|File exists)"):
        write(tmp_path / "file" / "inside")


def test_a_run_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"inside cannot be made: (Not a directory|File exists)"):
        open_run(tmp_path / "file" / "inside").start()


def test_a_started_run_is_swept_of_what_killed_writers_left(tmp_path):
    run = open_run(tmp_path / "run")
    run.start()
    deep = tmp_path / "run" / "work" / "node"
    for folder in (tmp_path / "run", deep):
        (folder / ".model.ab12_xyz").mkdir(parents=True)
        (folder / ".model.ab12_xyz" / "model.safetensors").write_text("half")
        (folder / ".result.json.0a1b2c3d").write_text("half")
        (folder / ".gitignore").write_text("mine")
        (folder / "whole.json").write_text("{}")
    open_run(tmp_path / "run", resume=True).start()
    assert sorted(path.name for path in (tmp_path / "run").rglob("*") if path.is_file()) == [
        ".gitignore", ".gitignore", "state.json", "whole.json", "whole.json",
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["x/../x", "x/inside/../../x", "gone/../x", "link/../x"])
def test_a_way_up_through_the_folder_that_is_replaced(tmp_path, way):
    (tmp_path / "x" / "inside").mkdir(parents=True)
    (tmp_path / "x" / "old.txt").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(RuntimeError, match="stop"), whole_folder(tmp_path / way, overwrite=True):
        raise RuntimeError("stop")
    assert (tmp_path / "x" / "old.txt").read_text() == "old"
    with whole_folder(tmp_path / way, overwrite=True) as work:
        (work / "new.txt").write_text("new")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["new.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "x"]
