"""MMEB's files become contents with candidate sets; broken ones are refused with file, row and column."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmeb_material import ASK, EVAL, INSTRUCT, SHOW, TRAIN, row, shown, write_jsonl, write_mmeb, write_parquet
from normwise.core.errors import InputError
from normwise.data.columns import BadRowsError
from normwise.data.contents import Interleaved, modality_of, pictures_of, text_of
from normwise.data.mmeb import CandidateTask, read_mmeb_eval, read_mmeb_train
from normwise.data.mmeb_layout import PUBLISHED, find_subsets, mmeb_layout, subset_kind
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_mmeb(tmp_path_factory.mktemp("mmeb") / "eval", EVAL)


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = write_mmeb(tmp_path_factory.mktemp("mmeb") / "train", TRAIN, split="original")
    write_parquet(folder / "ImageNet_1K" / "diverse_instruction-00000-of-00001.parquet", TRAIN["ImageNet_1K"][:1])
    return folder


@pytest.fixture
def one(tmp_path):
    """Write one subset of these rows and read it."""

    def read(rows, *, name="OK-VQA", on_bad_rows="refuse", reader=read_mmeb_eval, write=write_jsonl):
        write_mmeb(tmp_path, {})
        write(tmp_path / name / f"test.{'jsonl' if write is write_jsonl else 'parquet'}", rows)
        return reader(tmp_path, on_bad_rows=on_bad_rows)

    return read


def good(**changes):
    return row(ASK, "shop/red.png", [("red", ""), ("blue", "")]) | changes


def test_the_published_list_has_36_subsets_of_four_kinds():
    kinds = [meta for meta, _ in PUBLISHED.values()]
    assert {meta: kinds.count(meta) for meta in kinds} == {"classification": 10, "vqa": 10, "retrieval": 12, "grounding": 4}
    assert sum(inside for _, inside in PUBLISHED.values()) == 20
    assert len(PUBLISHED) == 36
    assert subset_kind("MSCOCO") == ("grounding", True)
    assert subset_kind("Visual7W-Pointing") == ("grounding", False)
    assert subset_kind("ImageNet_1K") == subset_kind("ImageNet-1K") == ("classification", True)


def test_tasks_queries_sets_and_answers(root):
    tasks = {task.name: task for task in read_mmeb_eval(root)}
    assert [(task.name, task.meta, task.in_domain, len(task)) for task in tasks.values()] == [
        ("ImageNet-1K", "classification", True, 5),
        ("MSCOCO_t2i", "retrieval", True, 2),
        ("OK-VQA", "vqa", True, 2),
        ("RefCOCO-Matching", "grounding", False, 2),
    ]
    named = tasks["ImageNet-1K"]
    assert named.corpus.contents == ("red", "very green", "blue")
    assert [named.corpus.contents[answer] for answer in named.answers] == ["red", "very green", "blue", "red", "red"]
    assert all(members is named.candidates[0] for members in named.candidates), "one set is one tuple"
    first = named.queries[0]
    assert isinstance(first, Interleaved)
    assert isinstance(first.parts[0], Picture)
    assert first.parts[1] == "Name what is shown"
    assert named.origin.at(3) == f"{root / 'ImageNet-1K' / 'test-00000-of-00001.parquet'}, row 4"
    found = tasks["MSCOCO_t2i"]
    assert [modality_of(query) for query in found.queries] == ["text", "text"]
    assert len(found.corpus) == 3
    assert found.candidates[0] == (0, 1)
    assert not any(task.notes for task in tasks.values())


def test_captions_make_candidates_of_one_picture_distinct(root):
    (task,) = read_mmeb_eval(root, subsets=["RefCOCO-Matching"])
    assert [text_of(content) for content in task.corpus.contents[:2]] == [
        "Represent the given image. the blue part",
        "Represent the given image. the green part",
    ]
    assert len({picture.digest for content in task.corpus.contents for picture in pictures_of(content)}) == 2
    assert len(task.corpus) == 4


def test_instructions_apart_join_to_the_same_contents(root, tmp_path):
    apart = {task.name: task for task in read_mmeb_eval(write_mmeb(tmp_path, INSTRUCT))}
    for task in read_mmeb_eval(root, subsets=list(INSTRUCT)):
        assert task == apart[task.name]
        assert task.queries == apart[task.name].queries


def test_jsonl_and_parquet_are_one(root, tmp_path):
    write_mmeb(tmp_path, {})
    for name, rows in EVAL.items():
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    assert read_mmeb_eval(tmp_path) == read_mmeb_eval(root)


def test_a_lone_subset_folder_and_its_shards(root, tmp_path):
    for place in range(2):
        write_parquet(tmp_path / "OK-VQA" / f"test-0000{place}-of-00002.parquet", EVAL["OK-VQA"][place : place + 1])
    whole = read_mmeb_eval(root, subsets=["OK-VQA"])
    assert read_mmeb_eval(tmp_path / "OK-VQA", image_root=root / "images") == whole
    assert read_mmeb_eval(tmp_path, image_root=root / "images")[0].origin is None
    (tmp_path / "OK-VQA" / "test-00001-of-00002.parquet").unlink()
    with pytest.raises(InputError, match=r"the parts of test are not whole: found test-00000-of-00002.parquet"):
        read_mmeb_eval(tmp_path, image_root=root / "images")
    assert mmeb_layout(tmp_path) is not None


@pytest.mark.parametrize(
    "token",
    [
        "<|image_1|>",
        "<image>",
        "<|vision_start|><|image_pad|><|vision_end|>",
        "<|vision_start|><|image_pad|><|image_pad|><|vision_end|>",
        "<|image|>",
    ],
)
def test_tokens_of_all_families_are_the_place_of_the_picture(one, token):
    (task,) = one([good(qry_text=f"as {token} but greener")])
    assert [part if isinstance(part, str) else "P" for part in task.queries[0].parts] == ["as", "P", "but greener"]


def test_a_picture_without_token_stands_first_and_alone_where_there_is_no_text(one):
    first, second = one([good(qry_text="what is it?"), good(qry_text="\n")])[0].queries
    assert isinstance(first.parts[0], Picture)
    assert isinstance(second, Picture)


def test_copies_of_the_right_answer_count_as_right_and_are_told(one):
    rows = [
        row(ASK, "shop/red.png", [("red", ""), ("blue", ""), ("red", "")]),
        row(ASK, "shop/blue.png", [("blue", ""), ("red", ""), ("red", "")]),
        row(ASK, "shop/green.png", [("green", "")]),
    ]
    (task,) = one(rows)
    assert task.candidates == ((0, 1), (0, 1), (2,))
    assert task.answers == (0, 1, 2)
    assert task.notes == (
        "1 of 3 queries list the right answer more than once: every copy of it counts as right",
        "1 of 3 queries have no other candidate than the right one: they cannot be wrong",
    )


def test_a_copy_of_the_right_picture_under_another_name_is_right(one, tmp_path):
    write_mmeb(tmp_path, {})
    shutil.copy(tmp_path / "images" / "shop" / "red.png", tmp_path / "images" / "shop" / "again.png")
    (task,) = one([row("a red thing", None, shown("red", "again", "blue"))])
    assert task.candidates == ((0, 1),)
    assert "list the right answer more than once" in task.notes[0]


def test_a_subset_of_queries_keeps_their_sets(root):
    (task,) = read_mmeb_eval(root, subsets=["MSCOCO_t2i"])
    part = task.subset(np.array([1]))
    assert part.queries == task.queries[1:]
    contents = lambda held: [held.corpus.contents[row] for row in held.candidates[-1]]  # noqa: E731
    assert contents(part) == contents(task)
    assert part.corpus.contents[part.answers[0]] == task.corpus.contents[task.answers[1]]
    assert part.origin.rows.tolist() == [2]
    first = task.subset(np.array([0]))
    assert len(first.corpus) == 2


def test_pictures_of_a_query_are_its_own_and_those_of_its_answer(root):
    (task,) = read_mmeb_eval(root, subsets=["MSCOCO_t2i"])
    assert task.picture_keys() == [[pictures_of(task.corpus.contents[answer])[0].digest] for answer in task.answers]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qry_text": "", "qry_img_path": ""}, r"row 2, column qry_text: is empty: neither text nor picture"),
        ({"qry_text": None, "qry_img_path": None}, r"column qry_text: is empty"),
        ({"qry_text": "\u200b", "qry_img_path": " "}, r"column qry_text: is empty"),
        ({"qry_text": 7}, r"column qry_text: is int, not text"),
        ({"qry_img_path": ["shop/red.png"]}, r"column qry_img_path: is list, not text"),
        ({"qry_text": "half \ud800"}, r"column qry_text: holds a lone surrogate"),
        ({"qry_img_path": "shop/none.png"}, r"row 2, column qry_img_path: .*none.png"),
        ({"qry_img_path": "../train/red.png"}, r"row 2, column qry_img_path: .*\.\./train/red.png"),
        ({"qry_text": "<|image_1|> and <|image_2|>"}, r"column qry_text: the text has 2 <image> for 1 picture"),
        ({"qry_img_path": ""}, r"column qry_text: has a place for a picture, but qry_img_path is empty"),
        ({"tgt_text": ["red"]}, r"column tgt_text: has 1 entries, tgt_img_path 2"),
        ({"tgt_text": None}, r"column tgt_text: is None, not a list"),
        ({"tgt_img_path": None}, r"column tgt_img_path: is None, not a list"),
        ({"tgt_text": "red"}, r"column tgt_text: is str, not a list"),
        ({"tgt_text": [], "tgt_img_path": []}, r"column tgt_text: holds no target"),
        ({"tgt_text": ["red", ""]}, r"column tgt_text\[1\]: is empty"),
        ({"tgt_text": ["red", {"a": 1}]}, r"column tgt_text\[1\]: is dict, not text"),
        ({"tgt_img_path": ["", "shop/none.png"]}, r"column tgt_img_path\[1\]: .*none.png"),
    ],
)
def test_unusable_rows_are_refused_or_dropped(one, changes, message):
    rows = [good(), good(**changes), good(qry_text="once more")]
    with pytest.raises(BadRowsError, match=message) as refused:
        one(rows)
    assert "OK-VQA" in str(refused.value)
    assert 'on_bad_rows="drop"' in str(refused.value)
    (task,) = one(rows, on_bad_rows="drop")
    assert len(task) == 2
    assert task.origin.rows.tolist() == [1, 3]
    assert sum(task.dropped.values()) == 1
    assert task.notes[-1].startswith("1 rows were left out: ")
    assert len(task.corpus) == 2, "what a dropped row held is no candidate"


def test_an_empty_picture_file_is_told_by_name(one, tmp_path):
    write_mmeb(tmp_path, {})
    (tmp_path / "images" / "shop" / "nothing.png").touch()
    with pytest.raises(BadRowsError, match=r"row 1, column qry_img_path: picture shop/nothing.png is empty \(0 bytes\)"):
        one([good(qry_img_path="shop/nothing.png")])


def test_a_picture_that_no_model_can_read_makes_its_rows_bad_before_any_work(one, tmp_path):
    write_mmeb(tmp_path, {})
    (tmp_path / "images" / "shop" / "bad.png").write_bytes(b"no picture at all")
    beside = good(qry_text="candidates", tgt_text=["", ""], tgt_img_path=["shop/red.png", "shop/bad.png"])
    rows = [good(qry_img_path="shop/bad.png"), good(), beside, good(qry_img_path="shop/bad.png", qry_text="again"), good(qry_text="")]
    with pytest.raises(BadRowsError, match=r"row 1, column qry_img_path: picture shop/bad.png .*; row 3, column ") as refused:
        one(rows)
    assert [problem.partition(",")[0] for problem in refused.value.problems] == ["row 1", "row 3", "row 4"]
    (task,) = one(rows, on_bad_rows="drop")
    assert task.origin.rows.tolist() == [2, 5]
    assert len(read_mmeb_eval(tmp_path, check_pictures=False)[0]) == 5
    pair = {"qry": "a red thing", "qry_image_path": "", "pos_text": "", "pos_image_path": "images/shop/red.png"}
    pairs = [pair, pair | {"pos_image_path": "images/shop/bad.png"}, pair | {"qry": "a blue one"}]
    (tmp_path / "OK-VQA" / "test.jsonl").unlink()
    with pytest.raises(BadRowsError, match=r"row 2, column pos_image_path: picture images/shop/bad.png"):
        one(pairs, reader=read_mmeb_train)
    assert len(one(pairs, reader=read_mmeb_train, on_bad_rows="drop").train) == 2


def test_blocks_of_rows_are_read_in_order_and_bad_ones_told_once(one, tmp_path, monkeypatch):
    write_mmeb(tmp_path, {})
    monkeypatch.setattr("normwise.data.mmeb_rows._BLOCK", 2)
    (tmp_path / "images" / "shop" / "bad.png").write_bytes(b"no picture at all")
    bad = good(qry_img_path="shop/bad.png")
    rows = [good(qry_text="a"), bad, good(qry_text="b"), good(tgt_text=None), good(qry_text="c"), bad, good(qry_text="d")]
    with pytest.raises(BadRowsError) as refused:
        one(rows)
    assert [problem.partition(",")[0] for problem in refused.value.problems] == ["row 2", "row 4", "row 6"]
    (task,) = one(rows, on_bad_rows="drop")
    assert task.origin.rows.tolist() == [1, 3, 5, 7]


def test_many_missing_pictures_are_counted_and_the_first_have_hints(one):
    rows = [good(qry_img_path=f"shop/none-{number}.png") for number in range(40)]
    with pytest.raises(
        BadRowsError, match=r"row 5, column qry_img_path: 'shop/none-4.png' does not exist in .*; and 35 more; repair"
    ) as refused:
        one(rows)
    assert "row 39, column qry_img_path: 'shop/none-38.png' does not exist in" in refused.value.problems[38]
    assert ["check the name" in problem or "did you mean" in problem for problem in refused.value.problems] == [True] * 20 + [False] * 20
    (task,) = one([good(), *rows], on_bad_rows="drop")
    assert task.dropped == {"qry_img_path picture cannot be used": 40}


def test_nothing_left_is_refused(one):
    with pytest.raises(InputError, match=r"OK-VQA of .*: no usable row: 1 dropped"):
        one([good(tgt_text=None)], on_bad_rows="drop")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([good() | {"label": 3}], r"unknown column label; found columns qry_text.*evaluation has qry_text"),
        ([{key: value for key, value in good().items() if key != "tgt_img_path"}], r"column tgt_img_path is missing"),
        (TRAIN["CIRR"], r"has the columns of training, but evaluation was asked for"),
    ],
)
@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_other_columns_are_refused(one, rows, message, write):
    with pytest.raises(InputError, match=message):
        one(rows, write=write)


def test_evaluation_given_as_training_is_refused(root):
    with pytest.raises(InputError, match=r"has the columns of evaluation, but training was asked for"):
        read_mmeb_train(root)


def test_a_repeated_column_a_broken_file_and_bad_text_are_refused(tmp_path):
    write_mmeb(tmp_path, {})
    path = tmp_path / "OK-VQA" / "test.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table([pa.array(["a"])] * 5, names=["qry_text", "qry_text", "qry_img_path", "tgt_text", "tgt_img_path"]), path)
    with pytest.raises(InputError, match=r"test.parquet: a column name is repeated"):
        read_mmeb_eval(tmp_path)
    raw = pa.array([b"\xff"]).cast(pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    lists = pa.array([["a"]])
    pq.write_table(pa.table({"qry_text": bad, "qry_img_path": pa.array([""]), "tgt_text": lists, "tgt_img_path": lists}), path)
    with pytest.raises(InputError, match=r"test.parquet, row 1 or one of the next 255: holds text that is not UTF-8"):
        read_mmeb_eval(tmp_path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"test.parquet is not a readable parquet file"):
        read_mmeb_eval(tmp_path)
    assert mmeb_layout(tmp_path) is None


def test_what_a_folder_is(root, train, tmp_path):
    assert mmeb_layout(root) == "evaluation"
    assert mmeb_layout(root / "OK-VQA") == "evaluation"
    assert mmeb_layout(train) == "training"
    assert mmeb_layout(tmp_path) is None
    assert mmeb_layout(root / "none") is None
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "a", "text": "b"}) + "\n")
    assert mmeb_layout(tmp_path) is None


def test_subsets_are_found_by_name(root, train):
    assert [task.name for task in read_mmeb_eval(root, subsets=["OK-VQA", "ImageNet-1K"])] == ["OK-VQA", "ImageNet-1K"]
    with pytest.raises(InputError, match=r"has no subset 'OKVQA'; did you mean OK-VQA"):
        read_mmeb_eval(root, subsets=["OKVQA"])
    with pytest.raises(InputError, match=r"is no folder"):
        find_subsets(root / "none")
    with pytest.raises(InputError, match=r"CIRR has no split 'test'; known names: original"):
        read_mmeb_train(train, split="test")


def test_splits_that_are_not_usual_must_be_named(tmp_path):
    write_mmeb(tmp_path, {})
    for split in ("one", "two"):
        write_jsonl(tmp_path / "OK-VQA" / f"{split}.jsonl", [good()])
    with pytest.raises(InputError, match=r"OK-VQA has the splits one, two, none called test: name one as split"):
        read_mmeb_eval(tmp_path)
    assert len(read_mmeb_eval(tmp_path, split="two")) == 1
    write_parquet(tmp_path / "OK-VQA" / "one.parquet", [good()])
    with pytest.raises(InputError, match=r"one.jsonl and one.parquet hold the same part"):
        read_mmeb_eval(tmp_path)


def test_a_subset_as_folder_and_file_is_refused(tmp_path):
    write_mmeb(tmp_path, {"OK-VQA": EVAL["OK-VQA"]})
    write_jsonl(tmp_path / "OK-VQA.jsonl", EVAL["OK-VQA"])
    with pytest.raises(InputError, match=r"holds the subset OK-VQA twice"):
        read_mmeb_eval(tmp_path)


def test_training_pairs_tasks_and_negatives(train):
    data = read_mmeb_train(train)
    pairs = data.train
    assert pairs.tasks == ("CIRR", "CIRR", "ImageNet_1K", "ImageNet_1K", "ImageNet_1K")
    contents = pairs.corpus.contents
    assert [modality_of(query) for query in pairs.queries] == ["text+image"] * 5
    assert [modality_of(contents[row]) for row in pairs.positives] == ["image", "image", "text", "text", "text"]
    assert [[contents[row] for row in rows] for rows in pairs.negatives] == [[], [], ["green"], ["blue"], []]
    # By pictures: red is in both composed queries and in the first class, green and blue in a target and in a class.
    assert pairs.clusters.tolist() == [0, 0, 0, 0, 0]
    assert (data.dev, data.test, data.dropped) == (None, None, {})
    assert len(read_mmeb_train(train, subsets=["ImageNet_1K"], split="diverse_instruction").train) == 1
    assert read_mmeb_train(train, limit_per_subset=1).train.tasks == ("CIRR", "ImageNet_1K")
    assert read_mmeb_train(train, subsets=["ImageNet_1K"]).train.clusters.tolist() == [0, 1, 2]


def test_a_limit_below_one_is_refused(train):
    with pytest.raises(InputError, match=r"limit_per_subset is 0; expected at least 1"):
        read_mmeb_train(train, limit_per_subset=0)


def test_lists_of_negatives_and_rows_without_pictures(one):
    pair = {"qry": "a red thing", "qry_image_path": "", "pos_text": "red", "pos_image_path": None}
    rows = [
        pair | {"neg_text": ["blue", "green", "blue"], "neg_image_path": ["", "images/shop/green.png", ""]},
        pair | {"neg_text": None, "neg_image_path": ["images/shop/blue.png"]},
        pair | {"neg_text": ["blue", ""], "neg_image_path": ""},
        pair | {"pos_text": "blue", "neg_text": None, "neg_image_path": None},
    ]
    pairs = one(rows, reader=read_mmeb_train).train
    assert [len(negatives) for negatives in pairs.negatives] == [2, 1, 1, 0]
    assert pairs.clusters.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qry": None, "qry_image_path": None}, r"row 1, column qry: is empty"),
        ({"pos_text": "", "pos_image_path": ""}, r"row 1, column pos_text: is empty"),
        ({"neg_text": "red"}, r"row 1, column neg_text: is the positive too"),
        (
            {"neg_text": ["blue", "green"], "neg_image_path": [""]},
            r"row 1, column neg_text: and neg_image_path are not lists of one length",
        ),
        ({"neg_text": ["blue", 3], "neg_image_path": None}, r"row 1, column neg_text\[1\]: is int, not text"),
        ({"neg_image_path": "images/none.png"}, r"row 1, column neg_image_path: .*none.png"),
    ],
)
def test_unusable_pairs_are_refused_or_dropped(one, changes, message):
    pair = {"qry": "a red thing", "qry_image_path": "", "pos_text": "red", "pos_image_path": "", "neg_text": "", "neg_image_path": ""}
    rows = [pair | changes, pair]
    with pytest.raises(BadRowsError, match=message):
        one(rows, reader=read_mmeb_train)
    data = one(rows, reader=read_mmeb_train, on_bad_rows="drop")
    assert len(data.train) == 1
    assert data.notes[0].startswith("1 rows were left out")


def test_a_task_refuses_an_answer_outside_its_set():
    with pytest.raises(InputError, match=r"CandidateTask t: the answer of query 0, candidate 1, is not in its set"):
        CandidateTask("t", "other", None, ("q",), Corpus(("0", "1"), ("a", "b")), ((0,),), (1,))
    with pytest.raises(InputError, match=r"expected queries with one set and one answer each"):
        CandidateTask("t", "other", None, (), Corpus((), ()), (), ())


def test_texts_of_the_evaluation_are_those_of_the_file(root):
    (task,) = read_mmeb_eval(root, subsets=["MSCOCO_t2i"])
    assert text_of(task.corpus.contents[0]) == SHOW.removeprefix("<|image_1|> ")
