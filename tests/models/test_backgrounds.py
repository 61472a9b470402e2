"""What shows where a picture is transparent: kept with the model, the same for whoever hands pictures over."""

import json

import numpy as np
import pytest
from PIL import Image
from sentence_transformers import SentenceTransformer

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.backgrounds import on_background, set_on_background
from normwise.data.contents import Interleaved, content_digest, pictures_of, sameness
from normwise.data.load import load_data, picture_source
from normwise.data.picture_decoding import show_image
from normwise.data.pictures import Picture
from normwise.models.backgrounds import as_trained, color_name
from normwise.models.contract import Contract, describe_encoder
from normwise.models.seal import CONTRACT_FILE, read_contract

BLACK, WHITE, RED = (0, 0, 0), (255, 255, 255), (255, 0, 0)


def clear(mode="RGBA"):
    """A picture whose left half is a color and whose right half is transparent."""
    image = Image.new("RGBA", (4, 2), (9, 90, 200, 255))
    image.paste((9, 90, 200, 0), (2, 0, 4, 2))
    return image.convert(mode)


def corner(picture):
    """Left and right end of what a model sees."""
    image = picture.open()
    return image.getpixel((0, 0)), image.getpixel((3, 0))


def of_file(folder, name="clear.png"):
    clear().save(folder / name)
    return Picture.of_file(folder / name)


def test_a_background_that_nobody_states_is_white_until_a_model_says_otherwise(tmp_path):
    picture = of_file(tmp_path)
    assert picture.background is None
    assert corner(picture) == ((9, 90, 200), WHITE)
    assert corner(on_background(picture, BLACK)) == ((9, 90, 200), BLACK)
    assert on_background(picture, BLACK).name == picture.name


def test_a_stated_background_stays():
    picture = Picture.of_bytes(b"x", name="x", background=RED)
    assert on_background(picture, BLACK).background == RED
    parts = on_background(Interleaved((picture, "beside", Picture.of_bytes(b"y", name="y"))), BLACK).pictures
    assert [part.background for part in parts] == [RED, BLACK]


MODES = {
    "RGBA": clear(),
    "LA": clear("LA"),
    "palette": clear().quantize(8),
    "palette with alpha": clear().quantize(8).convert("PA"),
    "premultiplied": clear("RGBa"),
}


@pytest.mark.parametrize("mode", MODES)
def test_an_open_picture_stays_transparent_until_it_is_shown(mode):
    found = set()
    for color in (BLACK, WHITE, RED):
        shown = on_background(Picture.of_image(MODES[mode], name="a"), color).open()
        np.testing.assert_array_equal(shown, show_image(MODES[mode], name="a", background=color))
        found.add(shown.getpixel((3, 0)))
    assert found == {BLACK, WHITE, RED}


def test_a_half_transparent_grey_of_sixteen_bits_is_shown_on_any_color():
    image = Image.fromarray(np.array([[0, 65535], [514, 1000]], dtype=np.uint16))
    image.info["transparency"] = 514
    shown = on_background(Picture.of_image(image, name="a"), RED).open()
    assert [shown.getpixel((x, y)) for y in (0, 1) for x in (0, 1)] == [(0, 0, 0), WHITE, RED, (4, 4, 4)]


def test_what_is_not_stated_and_white_are_one_content_to_hashes():
    left_open, white, black = (Picture.of_bytes(b"x", name="x", background=color) for color in (None, WHITE, BLACK))
    for known in (content_digest, sameness):
        assert known(left_open) == known(white) != known(black)


def test_contents_are_shown_as_the_contract_says():
    picture, stated = Picture.of_bytes(b"x", name="x.png"), Picture.of_bytes(b"y", name="y.png", background=BLACK)
    both = Interleaved((picture, "a text"))
    contents = ["a text", picture, stated, both]
    shown = as_trained(contents, "#000000", model="m", what="contents")
    assert shown[0] is contents[0]
    assert [picture.background for content in shown for picture in pictures_of(content)] == [BLACK] * 3
    assert as_trained(contents, None, model="m", what="contents") == contents
    assert as_trained([], "white", model="m", what="contents") == []


def test_another_background_than_the_contract_says_is_refused_by_its_number():
    stated = Picture.of_bytes(b"y", name="y.png", background=(255, 128, 0))
    message = (
        r"queries\[8\] \(\[y.png\] as it is\) is to be shown on #ff8000, and runs/x/model was trained with pictures on white: leave "
        r"background out of the config \(and of a Picture\), or make it white"
    )
    with pytest.raises(InputError, match=message):
        as_trained(["a", Interleaved((stated, "as it is"))], "white", model="runs/x/model", what="queries", first=7)


def test_names_of_colors_are_those_of_a_config():
    for name in ("white", "black", "#ff8000"):
        assert color_name(picture_source(DataConfig(name="x", background=name)).background) == name
    assert picture_source(DataConfig(name="x")).background is None


def test_a_whole_set_is_shown_on_a_color_and_shares_what_it_shared(tmp_path):
    rows = []
    for number in range(12):
        Image.new("RGBA", (4, 4), (number * 20, 9, 9, 128)).save(tmp_path / f"{number}.png")
        rows.append({"query": f"number {number}", "positive_image": f"{number}.png"})
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_data(DataConfig(name=str(tmp_path / "pairs.jsonl")), seed=0)
    dark = set_on_background(data, BLACK)
    assert {picture.background for picture in dark.train.corpus.contents} == {BLACK}
    assert {picture.background for picture in data.train.corpus.contents} == {None}
    assert dark.train.corpus is dark.dev.corpus is dark.test.corpus
    assert dark.test.queries == data.test.queries
    assert set_on_background(dark, WHITE) == dark
    stated = load_data(DataConfig(name=str(tmp_path / "pairs.jsonl"), background="#000000"), seed=0)
    assert stated.test == dark.test


def test_settings_of_before_stand_for_the_same_run():
    assert "background" not in DataConfig(name="x").model_dump(mode="json")
    assert DataConfig(name="x", background="black").model_dump(mode="json")["background"] == "black"


def contract(**more):
    return {
        "similarity": "dot",
        "plain_similarity": "dot",
        "pooling": None,
        "dimensions": 4,
        "max_tokens": None,
        "layers": None,
        "base_model": "x",
        **more,
    }


def test_a_contract_of_before_means_white(tmp_path):
    old = contract()
    assert Contract.model_validate(old).background == "white"
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(old))
    assert read_contract(tmp_path / CONTRACT_FILE).background == "white"


@pytest.mark.parametrize("color", [None, "white", "black", "#12ab9F"])
def test_a_contract_keeps_its_background(color, tmp_path):
    (tmp_path / CONTRACT_FILE).write_text(Contract.model_validate(contract(background=color)).model_dump_json())
    assert read_contract(tmp_path / CONTRACT_FILE).background == color


def test_a_contract_with_a_color_that_is_none_is_refused(tmp_path):
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(contract(background="reddish")))
    with pytest.raises(InputError, match="is not a contract that this version of normwise reads: background"):
        read_contract(tmp_path / CONTRACT_FILE)


def test_a_described_encoder_leaves_it_open_until_somebody_trains_it():
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    st = SentenceTransformer(modules=[StaticEmbedding(words, embedding_weights=np.eye(2, 3, dtype=np.float32))], device="cpu")
    assert describe_encoder(st, similarity=Similarity.DOT).background is None
    assert describe_encoder(st, similarity=Similarity.DOT, background="black").background == "black"
