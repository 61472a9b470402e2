"""The moment when one folder takes the place of another: interrupted, killed, or contended, nothing is lost and nothing piles up."""

import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from normwise.core import folder_swap
from normwise.core.errors import InputError, WorkError
from normwise.core.files import whole_folder


def make(path: Path, text: str, *, overwrite: bool = False) -> None:
    with whole_folder(path, overwrite=overwrite) as work:
        (work / "state").write_text(text)


def everything_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def at_rename(number: int, do):
    """`os.replace` that does something right after its nth call."""
    replace, calls = os.replace, []

    def renamed(source, target):
        replace(source, target)
        calls.append(target)
        if len(calls) == number:
            do()

    return renamed


def interrupt():
    signal.raise_signal(signal.SIGINT)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def _make_and_die(path: Path, renames: int) -> None:
    os.replace = at_rename(renames, kill)
    make(path, "new", overwrite=True)


def killed_writer(path: Path, *, renames: int) -> None:
    """Overwrite a folder in another process that is killed after so many renames."""
    process = multiprocessing.get_context("fork").Process(target=_make_and_die, args=(path, renames))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("renames", "left"), [(1, "old"), (2, "new")])
def test_an_interrupt_in_the_swap_leaves_one_whole_folder_and_no_litter(tmp_path, monkeypatch, renames, left):
    make(tmp_path / "model", "old")
    monkeypatch.setattr(os, "replace", at_rename(renames, interrupt))
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / "model" / "state").read_text() == left
    assert everything_in(tmp_path) == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_a_killed_writer_moved_aside_is_named_with_the_command_that_puts_it_back(tmp_path, overwrite):
    place = tmp_path / "my 'models'" / "model"
    make(place, "old")
    killed_writer(place, renames=1)
    assert not place.exists()
    with pytest.raises(
        InputError, match=r"model does not exist, and .*\.model\.old\..*/model stood there.* put it back with: mv .*"
    ) as told:
        make(place, "newer", overwrite=overwrite)
    command = str(told.value).split("put it back with: ")[1].split(", or delete")[0]
    subprocess.run(shlex.split(command), check=True)
    assert (place / "state").read_text() == "old"
    make(place, "newer", overwrite=True)
    assert (place / "state").read_text() == "newer"
    assert not [name for name in everything_in(place.parent) if ".old." in name]


def test_what_a_killed_writer_moved_aside_may_be_deleted_instead(tmp_path):
    make(tmp_path / "model", "old")
    killed_writer(tmp_path / "model", renames=1)
    shutil.rmtree(next(tmp_path.glob(".model.old.*")))
    make(tmp_path / "model", "new")
    assert (tmp_path / "model" / "state").read_text() == "new"


def test_behind_a_link_the_folder_beside_the_target_is_named(tmp_path):
    make(tmp_path / "real" / "model", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "model")
    killed_writer(tmp_path / "link", renames=1)
    with pytest.raises(InputError, match=rf"link does not exist, and {tmp_path}/real/\.model\.old\."):
        folder_swap.refuse_left_aside(tmp_path / "link")


@pytest.mark.parametrize("name", ["model", "c++ [new]", "-rf *"])
def test_the_next_writer_sweeps_what_a_killed_one_replaced(tmp_path, name):
    make(tmp_path / name, "old")
    killed_writer(tmp_path / name, renames=2)
    assert (tmp_path / name / "state").read_text() == "new"
    assert len(everything_in(tmp_path)) == 2
    make(tmp_path / name, "newer", overwrite=True)
    assert everything_in(tmp_path) == [name]
    assert (tmp_path / name / "state").read_text() == "newer"


@pytest.mark.parametrize(
    "name",
    [".model.old.copy", ".model.old.ab12cd34e", ".models.old.ab12cd34", ".model.ab12cd34", "model.old.ab12cd34", ".xmodel.old.ab12cd34"],
)
def test_what_others_call_almost_so_is_not_swept(tmp_path, name):
    make(tmp_path / name / "model", "mine")
    folder_swap.refuse_left_aside(tmp_path / "model")
    make(tmp_path / "model", "old")
    make(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / name / "model" / "state").read_text() == "mine"


def test_what_holds_more_than_the_folder_is_not_swept(tmp_path):
    make(tmp_path / ".model.old.ab12cd34" / "model", "mine")
    (tmp_path / ".model.old.ab12cd34" / "notes.txt").write_text("mine")
    folder_swap.refuse_left_aside(tmp_path / "model")
    make(tmp_path / "model", "old")
    make(tmp_path / "model", "new", overwrite=True)
    assert everything_in(tmp_path / ".model.old.ab12cd34") == ["model", "notes.txt"]


def test_what_a_writer_at_work_moved_aside_is_neither_swept_nor_offered(tmp_path, monkeypatch):
    make(tmp_path / "model", "old")
    seen = []

    def look():
        monkeypatch.undo()
        seen.append(folder_swap.is_being_replaced(tmp_path / "model"))
        folder_swap.refuse_left_aside(tmp_path / "model")
        make(tmp_path / "model", "of the other")
        seen.append(len([name for name in everything_in(tmp_path) if ".old." in name]))

    monkeypatch.setattr(os, "replace", at_rename(1, look))
    with pytest.raises(WorkError, match="model was written by somebody else in the meantime, and was left as it is: try again when"):
        make(tmp_path / "model", "new", overwrite=True)
    assert seen == [True, 1]
    assert (tmp_path / "model" / "state").read_text() == "of the other"
    assert not folder_swap.is_being_replaced(tmp_path / "model")


def test_without_locks_nothing_is_swept_and_the_way_back_is_still_named(tmp_path, monkeypatch):
    make(tmp_path / "model", "old")
    killed_writer(tmp_path / "model", renames=1)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(InputError, match="put it back with: mv"):
        make(tmp_path / "model", "new")
    make(tmp_path / "aside", "new")
    (tmp_path / "aside").rename(tmp_path / "model")
    make(tmp_path / "model", "newer", overwrite=True)
    assert (tmp_path / "model" / "state").read_text() == "newer"
    assert [name for name in everything_in(tmp_path) if ".old." in name]


def test_a_folder_that_came_meanwhile_is_not_replaced_unasked(tmp_path):
    def slow(comes):
        with whole_folder(tmp_path / "model") as work:
            (work / "state").write_text("slow")
            comes()

    with pytest.raises(InputError, match=r"model was written by somebody else in the meantime: pass --overwrite to replace it, or choose"):
        slow(lambda: make(tmp_path / "model", "quick"))
    assert (tmp_path / "model" / "state").read_text() == "quick"
    assert everything_in(tmp_path) == ["model"]
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(InputError, match="model was written by somebody else"):
        slow(lambda: (tmp_path / "model").write_text("a file"))
    (tmp_path / "model").unlink()
    with pytest.raises(InputError, match="model was written by somebody else"):
        slow(lambda: (tmp_path / "model").mkdir())
    assert everything_in(tmp_path) == ["model"]


def test_a_folder_that_comes_between_the_last_look_and_the_rename_is_not_replaced(tmp_path, monkeypatch):
    def blind(*_):
        monkeypatch.undo()
        make(tmp_path / "aside", "quick")
        (tmp_path / "aside").rename(tmp_path / "model")
        return False

    def slow():
        with whole_folder(tmp_path / "model") as work:
            (work / "state").write_text("slow")
            monkeypatch.setattr(os.path, "lexists", blind)

    with pytest.raises(InputError, match="model was written by somebody else in the meantime"):
        slow()
    assert (tmp_path / "model" / "state").read_text() == "quick"
    assert everything_in(tmp_path) == ["model"]


def test_a_file_that_came_meanwhile_is_not_replaced_by_a_folder(tmp_path):
    def slow():
        with whole_folder(tmp_path / "model", overwrite=True):
            (tmp_path / "model").write_text("mine")

    with pytest.raises(InputError, match="model is a file, and a folder never replaces one"):
        slow()
    assert (tmp_path / "model").read_text() == "mine"
