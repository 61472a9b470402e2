"""What a stranger reads when pictures go wrong: the row that named the picture, and a way out that the command has."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from normwise.cli import app
from normwise.core.config import DataConfig
from normwise.core.errors import InputError, WorkError
from normwise.data.contents import content_place
from normwise.data.load import load_data
from normwise.data.mmeb import read_mmeb_eval
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture
from normwise.models.encoder import Encoder
from normwise.workflows.build_index import build_index
from normwise.workflows.search_queries import asked_contents
from search_material import save_encoder

RUN = CliRunner()


def said(*arguments, code=2):
    found = RUN.invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found.stderr


def pictures(folder, count=4):
    for number in range(count):
        Image.new("RGB", (8, 8), (number * 20, 9, 9)).save(folder / f"{number}.png")


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("model") / "texts")


def test_a_picture_knows_the_row_that_named_it(tmp_path):
    pictures(tmp_path)
    rows = [{"query": f"q{n}", "positive_image": f"{n}.png"} for n in range(4)]
    pairs = load_data(DataConfig(name=str(lines(tmp_path / "pairs.jsonl", rows))), seed=0).train
    where = content_place(pairs.corpus.contents[0])
    assert where == f"{tmp_path}/pairs.jsonl, row 1, column positive_image"
    (tmp_path / "0.png").write_bytes(b"another")
    with pytest.raises(WorkError, match=r"picture 0.png \(.*pairs.jsonl, row 1, column positive_image\): the file was changed"):
        pairs.corpus.contents[0].open()
    assert Picture.of_bytes(b"x", name="row 3", where="row 3").told == "row 3"
    assert Picture.of_bytes(b"x", name="row 3") == Picture.of_bytes(b"x", name="row 3", where="elsewhere")


def test_a_bad_picture_of_a_corpus_is_told_by_its_row_once(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture at all")
    corpus = lines(tmp_path / "photos.jsonl", [{"_id": "a", "image": "broken.png"}])
    with pytest.raises(InputError, match=r"photos.jsonl, line 1, column image: ") as caught:
        build_index(tmp_path / "index", model="none", data=corpus)
    assert str(caught.value).count("photos.jsonl") == 1


def test_a_corrupt_picture_of_mmeb_names_its_task_and_row(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "bad.png").write_bytes(b"no picture at all")
    row = {"qry_text": "what is it?", "qry_img_path": "bad.png", "tgt_text": ["a", "b"], "tgt_img_path": ["", ""]}
    lines(tmp_path / "OK-VQA.jsonl", [{**row, "qry_img_path": ""}, row])
    with pytest.raises(InputError, match=r"OK-VQA.jsonl: row 2, column qry_img_path: picture bad.png "):
        read_mmeb_eval(tmp_path)
    (task,) = read_mmeb_eval(tmp_path, check_pictures=False)
    with pytest.raises(PictureError, match=r"picture bad.png \(.*OK-VQA.jsonl, row 2, column qry_img_path\) "):
        task.queries[1].pictures[0].open()


def test_pictures_for_a_model_of_texts_are_told_by_their_row_before_any_work(model, tmp_path):
    pictures(tmp_path)
    rows = [{"_id": "t", "text": "red cat"}, {"_id": "p", "image": "1.png", "text": "a car"}]
    photos = lines(tmp_path / "photos.jsonl", rows)
    wanted = (
        r"photos.jsonl, line 2, column image: \[1.png\] a car is text\+image, and .* reads texts only: choose a model that reads pictures"
    )
    with pytest.raises(InputError, match=wanted):
        build_index(tmp_path / "index", model=model, data=photos)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    "address", ["https://example.org/cat.png", "http://example.org/cat.png", "data:image/png;base64,AAAA", "s3://bucket/cat.png"]
)
def test_an_address_in_place_of_a_picture_is_told_as_one(address, tmp_path):
    message = said("search", tmp_path, "--image", address)
    assert "is an address, and addresses are not fetched: download the file, and give its path" in message
    assert address.partition(":")[0] in message


def test_a_name_with_a_colon_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path, 1)
    (tmp_path / "0.png").rename("at:12.png")
    asked = asked_contents([], [Path("at:12.png"), tmp_path / "at:12.png"])
    assert [shown.name for shown in asked] == [
        "at:12.png",
        f"{tmp_path}/at:12.png",
    ]


BAD = [{"query": "a", "positive_image": "1.png"}, {"query": "b", "positive_image": "../2.png"}, {"query": "", "positive_image": "2.png"}]


@pytest.mark.parametrize("command", [("evaluate", "--model", "m", "--data"), ("calibrate", "--model", "m", "--data"), ("data", "check")])
def test_a_command_without_settings_of_its_own_says_where_they_go(command, tmp_path):
    pictures(tmp_path)
    (tmp_path / "inner").mkdir()
    pictures(tmp_path / "inner")
    data = lines(tmp_path / "inner" / "pairs.jsonl", BAD)
    message = said(*command, data)
    place = "PATH" if command[0] == "data" else "--data"
    *_, way = message.splitlines()
    names = [name for name in ("image_root", "on_bad_rows") if f"data.{name}" in message]
    assert "image_root" in names
    are = "is a setting" if len(names) == 1 else "are settings"
    which, own = " and ".join(f"data.{name}" for name in names), " and ".join(names)
    assert way == f"{which} {are} of a config file: write {own} under [data], beside name, and give that file as {place}"
    config = tmp_path / "data.toml"
    config.write_text(f'[data]\nname = "{data}"\nimage_root = "{tmp_path}"\non_bad_rows = "drop"\n')
    assert "column positive_image" not in RUN.invoke(app, [*command, str(config)]).stderr


def test_training_has_these_settings_and_is_told_no_more(tmp_path):
    pictures(tmp_path)
    config = tmp_path / "run.toml"
    config.write_text(f'[data]\nname = "{lines(tmp_path / "pairs.jsonl", BAD)}"\n[[arms.a]]\nname = "one"\ntemperature = 0.05\n')
    message = said("train", "--config", config, "--out", tmp_path / "run")
    assert "data.on_bad_rows" in message
    assert "config file" not in message


def test_saving_over_a_folder_says_what_python_takes(model, tmp_path):
    encoder = Encoder.load(model)
    encoder.save(tmp_path / "copy")
    before = (tmp_path / "copy" / "normwise.json").read_bytes()
    with pytest.raises(InputError, match=r"copy exists already: choose another folder, or pass overwrite=True to replace it$"):
        encoder.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "normwise.json").read_bytes() == before
    encoder.save(tmp_path / "copy", overwrite=True)
    np.testing.assert_array_equal(Encoder.load(tmp_path / "copy").encode_queries(["red cat"]), encoder.encode_queries(["red cat"]))
