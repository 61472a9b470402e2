"""Names of pictures begin at the folder of the data or at image_root, in every form of data, and never lead out of it."""

import json
import os
import shutil

import pytest
from datasets import Dataset, DatasetDict, disable_progress_bars
from PIL import Image

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.columns import BadRowsError
from normwise.data.documents import read_documents
from normwise.data.load import load_data
from normwise.data.picture_paths import resolve_picture

disable_progress_bars()
NUMBERS = range(12)


def jsonl(rows, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def columns(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def saved(rows, path):
    Dataset.from_dict(columns(rows)).save_to_disk(str(path))
    return path


def of_split(rows, split):
    return [{**row, "query": f"{split} {row['query']}"} for row in rows]


def saved_splits(rows, path):
    parts = {split: Dataset.from_dict(columns(of_split(rows, split))) for split in ("train", "validation", "test")}
    DatasetDict(parts).save_to_disk(str(path))
    return path


def split_files(rows, path):
    path.mkdir()
    for split in ("train", "validation", "test"):
        jsonl(of_split(rows, split), path / f"{split}.jsonl")
    return path


def structs(rows, path):
    """As `datasets` keeps pictures: bytes and path."""
    packed = [{**row, "positive_image": {"bytes": None, "path": row["positive_image"]}} for row in rows]
    Dataset.from_dict(columns(packed)).to_parquet(str(path))
    return path


def written(kind):
    def write(rows, path):
        getattr(Dataset.from_dict(columns(rows)), f"to_{kind}")(str(path))
        return path

    return write


FILES = {
    "pairs.jsonl": jsonl,
    "pairs.csv": written("csv"),
    "pairs.parquet": written("parquet"),
    "structs.parquet": structs,
}
FOLDERS = {"saved": saved, "saved-splits": saved_splits, "split-files": split_files}
FORMS = FILES | FOLDERS


def rows(first="pics/0.png"):
    return [{"query": f"number {number}", "positive_image": f"pics/{number}.png" if number else first} for number in NUMBERS]


def pictures(folder):
    (folder / "pics").mkdir(parents=True, exist_ok=True)
    for number in NUMBERS:
        Image.new("RGB", (4, 4), (number * 20, 9, 9)).save(folder / "pics" / f"{number}.png")


def home(tmp_path, form):
    """The folder that names of this form begin at."""
    return tmp_path / form if form in FOLDERS else tmp_path


def read(name, **settings):
    data = load_data(DataConfig(name=str(name), **settings), seed=0)
    return {picture.name: picture.path for picture in data.train.corpus.contents}


@pytest.mark.parametrize("form", FORMS)
def test_names_begin_at_the_folder_of_the_data(form, tmp_path, monkeypatch):
    data = FORMS[form](rows(), tmp_path / form)
    pictures(home(tmp_path, form))
    monkeypatch.chdir("/")
    wanted = {f"pics/{number}.png": str((home(tmp_path, form) / "pics" / f"{number}.png").resolve()) for number in NUMBERS}
    assert read(data) == wanted
    monkeypatch.chdir(tmp_path)
    assert read(form) == wanted


@pytest.mark.parametrize("form", FORMS)
def test_or_at_the_root_that_is_given(form, tmp_path):
    data = FORMS[form](rows(), tmp_path / form)
    pictures(tmp_path / "elsewhere")
    with pytest.raises(BadRowsError, match=r"'pics/0.png' does not exist in .*: check the name, or set data.image_root"):
        read(data)
    assert read(data, image_root=str(tmp_path / "elsewhere")).keys() == {f"pics/{number}.png" for number in NUMBERS}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["dots", "absolute", "link"])
def test_a_name_that_leads_out_is_refused_with_its_row(form, way, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    outside = {"dots": "../" * (1 + (form in FOLDERS)) + "secret.png", "absolute": str(tmp_path / "secret.png"), "link": "pics/link.png"}
    data = FORMS[form](rows(outside[way]), inner / form)
    pictures(home(inner, form))
    os.symlink(tmp_path / "secret.png", home(inner, form) / "pics" / "link.png")
    with pytest.raises(BadRowsError, match=rf"row [12], column positive_image: '.*' leads out of {home(inner, form)}"):
        read(data)
    kept = read(data, on_bad_rows="drop")
    assert kept.keys() == {f"pics/{number}.png" for number in NUMBERS if number}


@pytest.mark.parametrize("form", ["saved", "split-files"])
def test_a_folder_that_is_a_link_is_the_folder_it_leads_to(form, tmp_path):
    data = FORMS[form](rows(), tmp_path / form)
    pictures(data)
    os.symlink(data, tmp_path / "link")
    assert set(read(tmp_path / "link")) == {f"pics/{number}.png" for number in NUMBERS}


def test_split_files_are_the_splits_they_are_called_after(tmp_path):
    folder = split_files(rows(), tmp_path / "set")
    pictures(folder)
    data = load_data(DataConfig(name=str(folder)), seed=0)
    assert (len(data.train), len(data.dev), len(data.test)) == (12, 12, 12)
    shutil.copy(folder / "validation.jsonl", folder / "dev.jsonl")
    with pytest.raises(InputError, match=r"set holds dev.jsonl and validation.jsonl, both of the dev split: move one of them away"):
        load_data(DataConfig(name=str(folder)), seed=0)


def test_a_folder_without_such_files_says_what_it_holds(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(
        InputError,
        match=r"no file called after a split \(train.jsonl, dev.csv, test.parquet\), and no subset in MMEB's layout .*: it holds notes.txt",
    ):
        load_data(DataConfig(name=str(tmp_path)), seed=0)


def test_an_index_reads_a_saved_set_the_same_way(tmp_path):
    data = saved(rows(), tmp_path / "saved")
    pictures(data)
    assert {content.name for content in read_documents(data).contents} == {f"pics/{number}.png" for number in NUMBERS}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pics/12.png", "check the name"),  # other numbers are other pictures
        ("pics/1.jpg", "did you mean 1.png"),
        ("pics/unlike.png", "check the name"),
        ("pisc/1.png", "did you mean pics"),
    ],
)
def test_only_close_names_are_suggested(name, hint, tmp_path):
    pictures(tmp_path)
    with pytest.raises(InputError, match=hint) as caught:
        resolve_picture(name, root=tmp_path, where="x.jsonl: row 1")
    assert ("did you mean" in str(caught.value)) is ("did you mean" in hint)
