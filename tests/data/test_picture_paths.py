import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data.picture_paths import resolve_picture

WHERE = "pairs.jsonl: row 3, column query_image"


@pytest.fixture
def root(tmp_path):
    """A folder of pictures beside a secret."""
    home = tmp_path / "pictures"
    (home / "cats").mkdir(parents=True)
    for name in ("cats/tabby.png", "cats/tom.png", "a b.png", "back\\slash.png", "dog.png"):
        (home / name).write_bytes(b"x")
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "pictures-too").mkdir()
    (tmp_path / "pictures-too" / "cat.png").write_bytes(b"x")
    return home


def resolve(name, root):
    return resolve_picture(name, root=root, where=WHERE)


@pytest.mark.parametrize(
    "name", ["dog.png", "./dog.png", "cats/tabby.png", "cats/../dog.png", "cats//tom.png", "a b.png", "back\\slash.png"]
)
def test_names_inside_are_found(root, name):
    found = resolve(name, root)
    assert found.is_absolute()
    assert found.samefile(root / name)


def test_absolute_names_and_links_are_fine_as_long_as_they_end_inside(root):
    assert resolve(str(root / "dog.png"), root) == (root / "dog.png").resolve()
    (root / "link.png").symlink_to(root / "dog.png")
    (root / "felines").symlink_to("cats")
    assert resolve("link.png", root).name == "dog.png"
    assert resolve("felines/tom.png", root) == (root / "cats/tom.png").resolve()
    (root.parent / "door").symlink_to(root)
    assert resolve("dog.png", root.parent / "door") == (root / "dog.png").resolve()


@pytest.mark.parametrize("name", ["../secret.png", "cats/../../secret.png", "{outside}", "../pictures-too/cat.png", "../nothing.png", ".."])
def test_what_leads_out_is_refused_whether_it_is_there_or_not(root, name):
    name = name.format(outside=root.parent / "secret.png")
    message = rf"^{re.escape(WHERE)}: {re.escape(repr(name))} leads out of .*pictures \(to .*\): set data.image_root to a folder that holds"
    with pytest.raises(InputError, match=message):
        resolve(name, root)


def test_a_link_that_leads_out_is_refused(root):
    (root / "link.png").symlink_to(root.parent / "secret.png")
    (root / "up").symlink_to("..")
    for name in ("link.png", "up/secret.png"):
        with pytest.raises(InputError, match=r"leads out of .* \(to .*secret\.png\).*'/' for anywhere"):
            resolve(name, root)


def test_anywhere_is_a_root(root):
    from pathlib import Path

    assert resolve(str(root.parent / "secret.png"), Path("/")) == (root.parent / "secret.png").resolve()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("https://example.org/cat.png", "is a URL: download it first, and name the file"),
        ("HTTP://example.org/cat.png", "is a URL: download it first"),
        ("ftp://example.org/cat.png", "is a URL: download it first"),
        ("s3://bucket/cat.png", "is a URL: download it first"),
        ("gs://bucket/cat.png", "is a URL: download it first"),
        ("hf://datasets/cat.png", "is a URL: download it first"),
        ("file:///etc/passwd", "is a URL: give the path alone, without file:"),
        ("data:image/png;base64,AAAA", "holds a picture inside a URL: decode it"),
        (None, "None is not the name of a picture: give a path as text"),
        (float("nan"), "NaN is not the name of a picture"),
        (7, r"7 \(int\) is not the name of a picture"),
        (b"dog.png", r"b'dog.png' \(bytes\) is not the name"),
        ("", "the name '' is empty"),
        (" \t", r"the name ' \\t' is empty"),
        ("dog\0.png", "holds a null character"),
        ("x" * 300 + ".png", r"'x+'\.\.\. \(304 characters\) cannot be looked up \(File name too long\)"),
        ("d/" * 5_000 + "dog.png", r"\(10007 characters\) (?:cannot be looked up|does not exist)"),
        ("dog\ud800.png", "cannot be looked up .*surrogates not allowed"),
        ("cats", "'cats' is a folder: name one picture in it"),
        (".", "'.' is a folder"),
        ("dog.pgn", r"does not exist in .*pictures: did you mean dog\.png\?"),
        ("DOG.PNG", r"does not exist in .*: did you mean dog\.png\?"),
        ("cats/tomm.png", r"\('tomm.png' is missing in .*cats\): did you mean tom\.png\?"),
        ("cast/tom.png", "does not exist in .*: did you mean cats"),
        ("zebra", r"does not exist in .*: check the name, or set data\.image_root to the folder that names begin at"),
        ("cats\\tom.png", "does not exist in .*: 'cats/tom.png' does: write / between folders"),
        ("dog.png/x", "does not exist in"),
    ],
)
def test_bad_names_are_told_with_file_row_column_and_way_out(root, name, message):
    with pytest.raises(InputError, match=f"^{re.escape(WHERE)}: .*{message}|^{re.escape(WHERE)}: {message}") as caught:
        resolve(name, root)
    assert len(str(caught.value)) < 600


def test_a_backslash_does_not_look_outside(root):
    with pytest.raises(InputError, match="does not exist in") as caught:
        resolve("..\\secret.png", root)
    assert "write /" not in str(caught.value)


def test_a_crowded_folder_is_not_listed(root):
    for number in range(30):
        (root / f"{number}.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match="check the name, or set data.image_root to the folder that names begin at"):
        resolve("nothing-like-it", root)


def test_pipes_devices_and_loops_are_refused(root):
    os.mkfifo(root / "pipe.png")
    (root / "loop.png").symlink_to("loop.png")
    with pytest.raises(InputError, match="'pipe.png' is a device, pipe or socket: name a file"):
        resolve("pipe.png", root)
    with pytest.raises(InputError, match="'loop.png' cannot be looked up"):
        resolve("loop.png", root)
    (root / "gone.png").symlink_to(root / "nothing.png")
    with pytest.raises(InputError, match="'gone.png' does not exist"):
        resolve("gone.png", root)


def test_a_root_that_is_no_folder_is_told(root):
    with pytest.raises(InputError, match="the folder of the pictures, .*nowhere, does not exist: set data.image_root"):
        resolve("dog.png", root / "nowhere")
    with pytest.raises(InputError, match="the folder of the pictures, .*dog.png, is no folder: set data.image_root"):
        resolve("dog.png", root / "dog.png")


def test_a_relative_root_is_that_of_the_current_folder(root, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(root)
    assert resolve("dog.png", Path()) == (root / "dog.png").resolve()


@given(st.lists(st.sampled_from(["..", ".", "cats", "tom.png", "up", "/", "", "\\", "secret.png", "~", "\0", "x"]), max_size=6))
def test_no_name_leads_out(tmp_path_factory, parts):
    home = tmp_path_factory.getbasetemp() / "walk" / "home"
    if not home.exists():
        (home / "cats").mkdir(parents=True)
        (home / "cats/tom.png").write_bytes(b"x")
        (home.parent / "secret.png").write_bytes(b"x")
        (home / "up").symlink_to("..")
    try:
        found = resolve("/".join(parts), home)
    except InputError:
        return
    assert home.resolve() in found.parents
    assert found.is_file()
