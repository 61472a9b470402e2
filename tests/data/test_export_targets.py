"""What an export may replace, and what it must refuse before it writes anything."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.files import read_json
from normwise.data.export import check_target, export_beir
from normwise.data.sets import Corpus, Judged, RetrievalData


def built(key="a", text="x"):
    part = Judged(("q",), ("t",), ({0: 1.0},), Corpus((key,), (text,)), np.zeros(1, dtype=np.int64))
    return RetrievalData("toy", "pairs", None, None, part, skewed=False)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def foreign_folder(path):
    path.mkdir()
    (path / "thesis.tex").write_text("years of work")


def export_with_more(path):
    export_beir(built(), path)
    (path / "thesis.tex").write_text("years of work")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_folder, "was not written by normwise data export"),
        (lambda path: path.mkdir(), "was not written by normwise data export"),
        (lambda path: path.write_text("vectors"), "an export never replaces a file"),
        (lambda path: path.symlink_to("/dev/null"), "an export never replaces a file"),
        (export_with_more, r"files that no export wrote \(thesis\.tex\)"),
    ],
)
def test_only_an_export_is_ever_replaced(tmp_path, make, message):
    make(tmp_path / "out")
    before = tree(tmp_path)
    with pytest.raises(InputError, match=message):
        export_beir(built(), tmp_path / "out", overwrite=True)
    assert tree(tmp_path) == before


def test_a_file_above_is_said_before_the_work(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"deep/out cannot be made: .*file is no folder"):
        export_beir(built(), tmp_path / "file" / "deep" / "out")


def test_the_root_folder_is_never_replaced():
    with pytest.raises(InputError, match="/ was not written by normwise data export"):
        check_target(Path("/"), overwrite=True)


def test_an_export_is_replaced_by_another(tmp_path):
    export_beir(built(), tmp_path / "out")
    export_beir(built(text="new"), tmp_path / "out", overwrite=True)
    assert "new" in (tmp_path / "out" / "corpus.jsonl").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_names_that_are_not_utf8_are_exported_readable(tmp_path):
    export_beir(replace(built(), name="bad\udcff", notes=("from bad\udcff",)), tmp_path / "out")
    side = read_json(tmp_path / "out" / "normwise-data.json")
    assert (side["name"], side["notes"]) == ("bad\ufffd", ["from bad\ufffd"])


@pytest.mark.parametrize(("key", "text"), [("a\udc00", "x"), ("a", "x\udc00")])
def test_lone_surrogates_are_refused_before_anything_is_written(tmp_path, key, text):
    with pytest.raises(InputError, match="lone surrogate"):
        export_beir(built(key, text), tmp_path / "deep" / "out")
    assert tree(tmp_path) == []
