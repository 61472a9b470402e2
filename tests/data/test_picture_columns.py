"""Pictures in named columns: read with their rows, put together with texts, refused with row and column."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.columns import BadRowsError, check_columns, read_pair_file
from normwise.data.contents import Interleaved, compose, content_digest, iter_pictures, modality_of, sameness
from normwise.data.hygiene import check_data
from normwise.data.load import load_data
from normwise.data.picture_columns import PictureSource, instruct, parse_color
from normwise.data.pictures import Picture


def png(color, size=(8, 6)):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pics").mkdir()
    for number in range(12):
        (tmp_path / "pics" / f"{number}.png").write_bytes(png((number * 20, 10, 10)))
    return tmp_path


def write(folder, rows, name="pairs.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_text_to_picture_picture_to_text_and_both_in_one_file(folder):
    path = write(folder, [
        {"query": "red", "query_image": None, "positive": None, "positive_image": "pics/1.png", "task": "t2i"},
        {"query": "", "query_image": "pics/2.png", "positive": "darker", "positive_image": "", "task": "i2t"},
        {"query": "as <image> in blue", "query_image": "pics/3.png", "positive": "a caption", "positive_image": "pics/4.png", "task": ""},
    ])  # fmt: skip
    rows = read_pair_file(path, on_bad_rows="refuse")
    assert [modality_of(query) for query in rows.queries] == ["text", "image", "text+image"]
    assert [modality_of(positive) for positive in rows.positives] == ["image", "text", "text+image"]
    assert rows.tasks == ("t2i", "i2t", "")
    assert [type(part).__name__ for part in rows.queries[2].parts] == ["str", "Picture", "str"]
    assert [type(part).__name__ for part in rows.positives[2].parts] == ["Picture", "str"]
    np.testing.assert_array_equal(np.asarray(rows.positives[0].open())[0, 0], (20, 10, 10))


def test_lists_of_negatives_stand_beside_their_texts(folder):
    path = write(folder, [
        {"query": "a", "positive_image": "pics/1.png", "negatives": ["x", None], "negative_images": [None, "pics/2.png"]},
        {"query": "b", "positive_image": "pics/3.png", "negative_images": ["pics/4.png"]},
        {"query": "c", "positive_image": "pics/5.png", "negatives": ["y"], "negative_images": []},
    ])  # fmt: skip
    with pytest.raises(BadRowsError, match=r"row 3, column negative_images: 0 pictures beside 1 negatives: give one for each"):
        read_pair_file(path, on_bad_rows="refuse")
    rows = read_pair_file(path, on_bad_rows="drop")
    assert [[modality_of(negative) for negative in own] for own in rows.negatives] == [["text", "image"], ["image"]]


def test_bytes_and_the_dicts_of_datasets_are_read_from_parquet(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "pairs.parquet"
    stored = [{"bytes": png((1, 2, 3)), "path": None}, {"bytes": None, "path": "pics/7.png"}]
    pq.write_table(pa.table({"query": ["one", "two"], "positive_image": stored}), path)
    rows = read_pair_file(path, on_bad_rows="refuse")
    assert rows.positives[0] == Picture.of_bytes(png((1, 2, 3)), name="elsewhere")
    assert rows.positives[1] == Picture.of_file(folder / "pics" / "7.png")
    pq.write_table(pa.table({"query": ["one"], "positive_image": [png((9, 9, 9))]}), path)
    assert read_pair_file(path, on_bad_rows="refuse").positives[0] == Picture.of_bytes(png((9, 9, 9)), name="x")


@pytest.mark.parametrize(("value", "problem"), [
    ("../outside.png", r"row 2, column positive_image: .*\.\./outside\.png"),
    ("https://example.org/cat.png", "row 2, column positive_image: .*https://example.org/cat.png.*download"),
    ("pics/absent.png", "row 2, column positive_image: .*absent.png"),
    (7, r"row 2, column positive_image: expected a path, bytes, or a dict of bytes and path, got 7 \(int\)"),
    (None, "row 2, column positive_image: is empty: neither a picture nor a text"),
])  # fmt: skip
def test_what_is_no_picture_is_named_by_row_and_column(folder, value, problem):
    path = write(folder, [{"query": "a", "positive_image": "pics/1.png"}, {"query": "b", "positive_image": value}])
    with pytest.raises(BadRowsError, match=problem):
        read_pair_file(path, on_bad_rows="refuse")
    rows = read_pair_file(path, on_bad_rows="drop")
    assert len(rows.queries) == 1
    assert sum(rows.dropped.values()) == 1


def test_a_picture_that_cannot_be_decoded_is_told_before_any_work_or_dropped_with_its_reason(folder):
    (folder / "pics" / "cut.png").write_bytes(png((5, 5, 5), size=(64, 64))[:-30])
    (folder / "pics" / "empty.png").write_bytes(b"")
    names = ["pics/1.png", "pics/cut.png", "pics/2.png", "pics/empty.png"]
    path = write(folder, [{"query": name, "positive_image": name} for name in names])
    with pytest.raises(
        BadRowsError,
        match=r"row 2, column positive_image: picture pics/cut.png is cut off or damaged .*; "
        r"row 4, column positive_image: picture pics/empty.png is empty",
    ):
        read_pair_file(path, on_bad_rows="refuse")
    rows = read_pair_file(path, on_bad_rows="drop")
    assert rows.queries == ("pics/1.png", "pics/2.png")
    unchecked = read_pair_file(path, on_bad_rows="drop", pictures=PictureSource(check=False))
    assert len(unchecked.queries) == 3  # the empty file is seen without decoding


def test_columns_of_pictures_go_by_name_too():
    check_columns("x", ["positive_image", "query_image", "negative_3_image", "task"])
    for names, problem in (
        (["query", "image"], "column positive is missing"),
        (["query", "positive", "image"], "unknown column image"),
        (["query", "anchor_image", "positive"], "query and anchor mean the same"),
        (["positive_image"], r"column query \(or anchor\) is missing"),
    ):
        with pytest.raises(InputError, match=problem):
            check_columns("x", names)


def test_an_image_root_holds_the_pictures_of_a_manifest_elsewhere(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("manifests")
    rows = [{"query": f"number {n}", "positive_image": f"{n}.png"} for n in range(12)]
    path = write(other, rows)
    with pytest.raises(BadRowsError, match=r"column positive_image: .*0\.png"):
        load_data(DataConfig(name=str(path)), seed=0)
    data = load_data(DataConfig(name=str(path), image_root=str(folder / "pics"), background="#ff0000"), seed=0)
    assert data.train.modalities == {"text", "image"}
    assert data.train.corpus.contents[0].background == (255, 0, 0)
    with pytest.raises(InputError, match="data.image_root: .*pairs.jsonl is not a folder"):
        load_data(DataConfig(name=str(path), image_root=str(path)), seed=0)
    with pytest.raises(InputError, match="data.image_root belongs to files of named columns with pictures: leave it out for 'python-docs'"):
        load_data(DataConfig(name="python-docs", image_root=str(folder)), seed=0)


def test_instructions_are_written_into_the_queries_of_their_task(folder):
    rows = [{"query": f"red {n}", "positive_image": f"pics/{n}.png", "task": "t2i"} for n in range(6)]
    rows += [{"query_image": f"pics/{n}.png", "positive": f"caption {n}", "task": "i2t"} for n in range(6)]
    path = write(folder, rows)
    data = load_data(DataConfig(name=str(path), instructions={"t2i": "Retrieve an image.", "*": "Find the caption."}), seed=0)
    for part in (data.train, data.dev, data.test):
        for query, task in zip(part.queries, part.tasks, strict=True):
            if task == "t2i":
                assert query.startswith("Retrieve an image.\nred")
            else:
                assert isinstance(query, Interleaved)
                assert query.parts[1] == "Find the caption."
    with pytest.raises(InputError, match=r"data.instructions: task 't2j' is none of this set: did you mean t2i"):
        load_data(DataConfig(name=str(path), instructions={"t2j": "x"}), seed=0)


def test_questions_about_one_picture_stay_on_one_side_of_the_split(folder):
    rows = [{"query": f"question {k}?", "query_image": f"pics/{n}.png", "positive": f"answer {k} {n}"} for n in range(12) for k in range(4)]
    data = load_data(DataConfig(name=str(write(folder, rows))), seed=3)
    shown = [{query.pictures[0].digest for query in part.queries} for part in (data.train, data.dev, data.test)]
    assert all(shown)
    assert len(set.union(*shown)) == sum(map(len, shown))


def test_copies_of_a_picture_are_one_candidate(folder):
    (folder / "pics" / "copy.png").write_bytes((folder / "pics" / "3.png").read_bytes())
    rows = [{"query": f"q{n}", "positive_image": f"pics/{n}.png"} for n in range(12)] + [
        {"query": "again", "positive_image": "pics/copy.png"}
    ]
    data = load_data(DataConfig(name=str(write(folder, rows))), seed=0)
    assert len(data.train.corpus) == 12


def test_text_only_work_refuses_pictures_by_row(folder):
    rows = [{"query": f"q{n}", "positive_image": f"pics/{n}.png"} for n in range(12)]
    data = load_data(DataConfig(name=str(write(folder, rows))), seed=0)
    message = (
        r"candidates: row 0 \(from 0\) is image \(\[pics/0.png\] of .*pairs.jsonl, row 1, column positive_image\), "
        r"and texts are read here only"
    )
    with pytest.raises(InputError, match=message):
        _ = data.train.corpus.texts
    assert data.train.query_texts == data.train.queries


def test_colors_and_instructions_on_every_kind_of_content():
    assert parse_color("black") == (0, 0, 0)
    shown = Picture.of_bytes(b"x", name="x")
    assert instruct("a", "Do.") == "Do.\na"
    assert instruct(shown, "Do.") == Interleaved((shown, "Do."))
    assert instruct(Interleaved((shown, "why?")), "Do.") == Interleaved((shown, "Do.\nwhy?"))
    assert instruct(Interleaved((shown, shown)), "Do.") == Interleaved((shown, shown, "Do."))
    with pytest.raises(ValueError, match="background"):
        DataConfig(name="x", background="reddish")


def test_identity_of_contents_sees_order_and_ignores_names():
    a, b = Picture.of_bytes(b"a", name="one"), Picture.of_bytes(b"b", name="two")
    assert compose("x", (a,)) == compose("x", (Picture.of_bytes(b"a", name="another"),))
    assert sameness(Interleaved((a, "x"))) != sameness(Interleaved(("x", a)))
    assert content_digest(Interleaved((a, b))) != content_digest(Interleaved((b, a)))
    assert content_digest("a") != content_digest("A")
    assert sameness("a") == sameness(" A ")


def test_the_check_counts_modalities_and_pairs_that_stand_the_other_way_round(folder):
    train = write(folder, [{"query": f"name {n}", "positive_image": f"pics/{n}.png"} for n in range(6)], "train.jsonl")
    rows = [{"query": "name 9", "positive_image": "pics/9.png"}, {"query_image": "pics/2.png", "positive": "NAME 2"}]
    dev = write(folder, rows, "dev.jsonl")
    data = load_data(DataConfig(name=str(train), dev=str(dev), test=str(dev)), seed=0)
    report = check_data(data)
    assert report.modalities["dev queries"] == {"text": 1, "image": 1}
    assert report.modalities["train queries"] == {"text": 6}
    assert report.counts["mirrored pairs"] == 2  # one in dev, one in test
    assert any("2 dev and test queries stand in training as the answer of their answer" in warning for warning in report.warnings)


def test_a_picture_that_is_asked_about_is_no_answer_elsewhere(folder):
    rows = [{"query": f"name {n}", "positive_image": f"pics/{n}.png", "task": "a"} for n in range(12)]
    rows += [{"query_image": f"pics/{n}.png", "positive": f"caption {n}", "task": "b"} for n in range(12)]
    data = load_data(DataConfig(name=str(write(folder, rows))), seed=1)
    seen = [{picture.digest for picture in iter_pictures(part.queries)} for part in (data.train, data.dev, data.test)]
    for part, mine in zip((data.train, data.dev, data.test), seen, strict=True):
        answers = part.positives if part is data.train else [row for grades in part.relevance for row in grades]
        mine |= {picture.digest for picture in iter_pictures(tuple(part.corpus.contents[row] for row in answers))}
    assert sum(map(len, seen)) == len(set.union(*seen)) == 12


def test_a_dict_of_other_keys_is_no_picture_left_out(folder):
    path = write(folder, [{"query": "a", "query_image": {"file": "pics/1.png"}, "positive": "b"}, {"query": "c", "positive": "d"}])
    with pytest.raises(BadRowsError, match="row 1, column query_image: expected bytes or path, got a dict of file"):
        read_pair_file(path, on_bad_rows="refuse")


def test_rows_that_are_dropped_are_counted_by_column_and_not_by_file(folder):
    names = ["pics/1.png", *(f"pics/absent{n}.png" for n in range(30))]
    (folder / "pics" / "bad.png").write_bytes(b"junk")
    path = write(folder, [{"query": name, "positive_image": name} for name in (*names, "pics/bad.png")])
    assert read_pair_file(path, on_bad_rows="drop").dropped == {"positive_image has a picture that cannot be used": 31}
