"""The folder of an index when it takes its place: late files, links, calibrations, other writers, and writers that die."""

import errno
import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
from contextlib import closing

import numpy as np
import pytest
from contract import mixed, names

from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.index import faiss_index, opening
from normwise.index.build import build_index
from normwise.index.opening import check_out, open_index

VECTORS = mixed(20, 4, seed=1)


def build(folder, *, count=20, overwrite=False, log=None):
    config = IndexConfig(similarity="dot")
    return build_index(config, folder, ids=names(count), vectors=VECTORS[:count], overwrite=overwrite, log=log)


def once(do):
    """Do something at the first call and nothing at the others."""
    seen = []

    def call(*arguments):
        seen.append(arguments)
        if len(seen) == 1:
            do()

    return call


@pytest.fixture(params=["before its folder is begun", "when its folder is almost written"])
def during(request, monkeypatch):
    """The settings of a build that does something at a moment of it."""
    write = opening.write_manifest

    def settings(do):
        act = once(do)
        if request.param.startswith("before"):
            return {"log": act}

        def written(folder, manifest):
            act()
            return write(folder, manifest)

        monkeypatch.setattr(faiss_index, "write_manifest", written)
        return {}

    return settings


def at_swap(monkeypatch, *, number, do):
    """Do something right after the nth rename of a swap."""
    replace, calls = os.replace, []

    def renamed(source, target):
        replace(source, target)
        if ".old." in f"{source}{target}" or os.path.isdir(target):
            calls.append(target)
            if len(calls) == number:
                do()

    monkeypatch.setattr(os, "replace", renamed)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.fixture
def index(tmp_path):
    """The folder of an index with a calibration."""
    build(tmp_path / "i").close()
    (tmp_path / "i" / "calibration.json").write_text("precious")
    return tmp_path / "i"


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "left"), [(1, 20), (2, 9)])
def test_an_interrupted_overwrite_leaves_an_index_and_its_calibration(index, monkeypatch, number, left):
    at_swap(monkeypatch, number=number, do=interrupt)
    with pytest.raises(KeyboardInterrupt):
        build(index, count=9, overwrite=True)
    with closing(open_index(index)) as opened:
        assert len(opened) == left
    assert (index / "calibration.json").read_text() == "precious"
    assert hidden(index.parent) == []


def test_the_calibration_is_there_at_every_moment_at_which_the_index_is(index, monkeypatch):
    """Looked at after every rename and every deletion, as a kill at that moment would leave it."""
    rename, remove, seen = os.replace, shutil.rmtree, []

    def look():
        if (index / "index.json").exists():
            seen.append((index / "calibration.json").exists())

    def renamed(source, target):
        rename(source, target)
        look()

    def removed(*arguments, **options):
        look()
        remove(*arguments, **options)

    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr("shutil.rmtree", removed)
    build(index, overwrite=True).close()
    assert len(seen) > 2
    assert all(seen)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_save_leaves_the_index_and_its_calibration(index, monkeypatch):
    opened = open_index(index)
    opened.delete(["d3"])
    with monkeypatch.context() as patch:
        at_swap(patch, number=1, do=interrupt)
        with pytest.raises(KeyboardInterrupt):
            opened.save()
    with closing(open_index(index)) as again:
        assert len(again) == 20
    assert (index / "calibration.json").read_text() == "precious"
    assert hidden(index.parent) == []
    opened.save()
    with closing(open_index(index)) as again:
        assert len(again) == 19


def _save_and_die(folder):
    replace = os.replace

    def renamed(source, target):
        replace(source, target)
        if ".old." in str(target):
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = renamed
    opened = open_index(folder)
    opened.delete(["d3"])
    opened.save()


@pytest.mark.slow
def test_after_a_kill_between_the_renames_every_door_names_the_command_that_brings_the_index_back(index):
    process = multiprocessing.get_context("spawn").Process(target=_save_and_die, args=(index,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    said = r"i does not exist, and .*/\.i\.old\..*/i stood there until a write was stopped in the middle: put it back with: mv"
    for door in (
        lambda: open_index(index),
        lambda: check_out(index, overwrite=False),
        lambda: build(index),
        lambda: build(index, overwrite=True),
    ):
        with pytest.raises(InputError, match=said) as told:
            door()
    command = str(told.value).split("put it back with: ")[1].split(", or delete")[0]
    subprocess.run(shlex.split(command), check=True)
    with closing(open_index(index)) as again:
        assert len(again) == 20
        assert (index / "calibration.json").read_text() == "precious"
        again.delete(["d3"])
        again.save()
    assert not [name for name in hidden(index.parent) if ".old." in name]


def test_a_reader_waits_for_a_writer_that_is_between_its_renames(index, monkeypatch):
    """A writer may be stopped there by the system for longer than one wait."""
    waits, naps = [], []

    def read_then_nap():
        monkeypatch.setattr(opening.time, "sleep", lambda _: naps.append(1))
        with pytest.raises(WorkError, match="i was replaced 5 times while it was read"):
            open_index(index)
        waits.append(len(naps))

    at_swap(monkeypatch, number=1, do=read_then_nap)
    build(index, overwrite=True).close()
    assert waits == [5]


TAKEN = "i (exists already|was written by somebody else in the meantime): pass --overwrite to replace it, or choose another folder"


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_that_came_during_a_build_are_not_deleted(tmp_path, during, overwrite):
    if overwrite:
        build(tmp_path / "i").close()

    def come():
        (tmp_path / "i").mkdir(exist_ok=True)
        (tmp_path / "i" / "note.txt").write_text("mine")

    with pytest.raises(InputError, match="i holds 'note.txt', which is no part of the index: refusing" if overwrite else TAKEN):
        build(tmp_path / "i", count=9, overwrite=overwrite, **during(come))
    assert (tmp_path / "i" / "note.txt").read_text() == "mine"
    assert (tmp_path / "i" / "index.json").exists() == overwrite
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("then", ["newer", None])
def test_the_calibration_of_the_end_of_a_build_is_kept(index, during, then):
    guest = index / "calibration.json"
    build(index, overwrite=True, **during(guest.unlink if then is None else lambda: guest.write_text(then))).close()
    assert (guest.read_text() if guest.exists() else None) == then


def test_of_two_builds_to_one_place_the_second_is_refused(tmp_path, during):
    with pytest.raises(InputError, match=TAKEN):
        build(tmp_path / "i", **during(lambda: build(tmp_path / "i", count=9).close()))
    with closing(open_index(tmp_path / "i")) as opened:
        assert len(opened) == 9
    assert hidden(tmp_path) == []


def test_of_two_builds_that_overwrite_the_last_one_stays(index, during):
    build(index, overwrite=True, **during(lambda: build(index, count=9, overwrite=True).close())).close()
    with closing(open_index(index)) as opened:
        assert len(opened) == 20
    assert (index / "calibration.json").read_text() == "precious"
    assert hidden(index.parent) == []


def test_a_build_whose_folder_is_replaced_while_it_opens_it_opens_again(index, monkeypatch):
    load, calls = faiss_index.Table.load, []

    def torn(folder):
        calls.append(folder)
        if len(calls) == 1:
            build(index, count=9, overwrite=True).close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "hashes.npy")
        return load(folder)

    monkeypatch.setattr(faiss_index.Table, "load", torn)
    with closing(build(index, overwrite=True)) as opened:
        assert len(opened) == 9


@pytest.mark.parametrize(
    "error", [ValueError("mmap length is greater than file size"), EOFError("No data left in file"), KeyError("radius")]
)
def test_whatever_comes_of_half_an_old_folder_and_half_a_new_one_is_read_again(index, monkeypatch, error):
    writer, load, calls = open_index(index), faiss_index.Table.load, []

    def torn(folder):
        calls.append(folder)
        if len(calls) == 1:
            writer.delete(["d0"])
            writer.save()
            raise error
        return load(folder)

    monkeypatch.setattr(faiss_index.Table, "load", torn)
    with closing(open_index(index)) as opened:
        assert len(opened) == 19
    monkeypatch.setattr(faiss_index.Table, "load", lambda _: (_ for _ in ()).throw(error))
    with pytest.raises(type(error), match=str(error.args[0])):
        open_index(index)


@pytest.mark.parametrize("behind", ["/nowhere/at/all", "../outside.txt", "calibration.json", "notes"])
def test_a_save_keeps_links_as_links(index, behind):
    (index.parent / "outside.txt").write_text("outside")
    (index / "notes").mkdir()
    (index / "link").symlink_to(behind)
    (index / "notes" / "deep").symlink_to(behind)
    opened = open_index(index)
    opened.delete(["d3"])
    opened.save()
    assert os.readlink(index / "link") == behind
    assert os.readlink(index / "notes" / "deep") == behind
    assert len(open_index(index)) == 19
    with pytest.raises(InputError, match="i holds 'link', which is no part of the index: refusing to replace it; move it away"):
        build(index, overwrite=True)
    assert os.readlink(index / "link") == behind


@pytest.mark.parametrize("stands", [False, True])
def test_a_calibration_that_is_a_link_stays_one(index, stands):
    (index / "calibration.json").unlink()
    (index / "calibration.json").symlink_to("../shared.json")
    if stands:
        (index.parent / "shared.json").write_text("shared")
    build(index, overwrite=True).close()
    assert os.readlink(index / "calibration.json") == "../shared.json"
    assert not stands or (index.parent / "shared.json").read_text() == "shared"


def test_what_cannot_be_copied_along_is_named_and_nothing_is_changed(index, monkeypatch):
    os.mkfifo(index / "pipe")
    opened = open_index(index)
    opened.delete(["d3"])
    with pytest.raises(WorkError, match=r"i/pipe lies in the folder of the index and cannot be copied along: .*named pipe.*: move it away"):
        opened.save()
    (index / "pipe").unlink()
    (index / "secret").write_text("x")

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy2", refuse)
        with pytest.raises(WorkError, match=r"i/(secret|calibration.json) lies in .* copied along: Permission denied; nothing was"):
            opened.save()
    with closing(open_index(index)) as again:
        assert len(again) == 20
    assert hidden(index.parent) == []
    opened.save()
    assert np.array_equal(open_index(index).search(VECTORS[:1], k=3).ids, opened.search(VECTORS[:1], k=3).ids)


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_index_takes_its_place_while_no_other_writer_of_one_is_at_work(tmp_path, monkeypatch, overwrite):
    fcntl = pytest.importorskip("fcntl")
    if overwrite:
        build(tmp_path / "i").close()
    name, free = "replace" if overwrite else "rename", []
    move = getattr(os, name)

    def moved(source, target):
        if os.path.isdir(source):
            handle = os.open(tmp_path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free.append(True)
            except BlockingIOError:
                free.append(False)
            os.close(handle)
        move(source, target)

    monkeypatch.setattr(os, name, moved)
    build(tmp_path / "i", overwrite=overwrite).close()
    assert free == [False] * (2 if overwrite else 1)
