import json

import numpy as np
import pytest
from PIL import Image

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.core.files import read_json
from normwise.data.export import export_beir
from normwise.data.load import load_data
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs


def folder(path, *, corpus=None, queries=None, **qrels):
    path.mkdir(exist_ok=True)
    (path / "qrels").mkdir(exist_ok=True)
    corpus = corpus or [{"_id": f"d{n}", "title": "T" if n == 0 else "", "text": f"text {n}"} for n in range(12)]
    queries = queries or [{"_id": f"q{n}", "text": f"query {n}"} for n in range(12)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, text in qrels.items():
        (path / "qrels" / f"{split}.tsv").write_text(text)
    return DataConfig(name=str(path))


HEADER = "query-id\tcorpus-id\tscore\n"


def test_grades_titles_and_the_optional_header(tmp_path):
    config = folder(tmp_path / "b", test=HEADER + "q0\td0\t2\nq0\td1\t1\nq1\td2\t0\nq2\td3\t1\n")
    data = load_data(config, seed=0)
    bare = load_data(folder(tmp_path / "b", test="q0\td0\t2\nq0\td1\t1\nq1\td2\t0\nq2\td3\t1\n"), seed=0)
    assert data == bare
    assert (data.train, data.dev) == (None, None)
    assert data.test.relevance == ({0: 2.0, 1: 1.0}, {}, {3: 1.0})
    assert data.test.corpus.texts[:2] == ("T text 0", "text 1")
    assert data.test.no_answer == 1


def test_grade_zero_in_training_is_an_explicit_negative(tmp_path):
    train = HEADER + "".join(f"q{n}\td{n}\t1\n" for n in range(10)) + "q0\td10\t0\nq0\td11\t0\n"
    data = load_data(folder(tmp_path / "b", train=train, dev="q10\td10\t1\n", test="q11\td11\t1\n"), seed=0)
    assert data.train.negatives[0] == (10, 11)
    assert set(data.train.negatives[1:]) == {()}


def test_missing_dev_is_split_off_training(tmp_path):
    train = HEADER + "".join(f"q{n}\td{n}\t1\n" for n in range(10))
    data = load_data(folder(tmp_path / "b", train=train, test="q11\td11\t1\n"), seed=0)
    assert (len(data.train), len(data.dev), len(data.test)) == (9, 1, 1)
    assert "dev split by clusters" in data.notes[0]


def test_queries_marked_as_unanswerable_have_no_relevance(tmp_path):
    queries = [
        {"_id": "q0", "text": "a"},
        {"_id": "q1", "text": "b", "no_answer": True},
        {"_id": "q2", "text": "c", "no_answer": True, "split": "dev"},
    ]
    data = load_data(folder(tmp_path / "b", queries=queries, test="q0\td0\t1\n"), seed=0)
    assert data.test.relevance == ({0: 1.0}, {})
    assert data.dev.relevance == ({},)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": "q0\tnope\t1\n"}, r"test\.tsv, row 1, column corpus-id: 'nope' is not in corpus\.jsonl"),
        ({"test": HEADER + "who\td1\t1\n"}, r"test\.tsv, row 2, column query-id: 'who' is not in queries\.jsonl"),
        ({"test": HEADER + "q0\td1\thigh\n"}, "row 2, column score: expected a finite number >= 0 .*, got 'high'"),
        ({"test": "q0 d1 1\n"}, "row 1: expected query-id, corpus-id and score separated by tabs, got 1 cells"),
        ({"test": "q0\td1\tnan\n"}, "expected a finite number"),
        ({"test": "q0\td1\t1\nq0\td1\t2\n"}, "judged twice with different scores"),
        ({}, "a BEIR folder needs at least one"),
        ({"test": "q0\td0\t1\n", "corpus": [{"_id": "d0", "text": "x"}, {"_id": "d0", "text": "y"}]}, "'d0' stands there twice"),
        ({"test": "q0\td0\t1\n", "corpus": [{"_id": 7, "text": "x"}]}, "row 1, column _id: expected a text, got 7"),
        ({"test": "q0\td0\t1\n", "corpus": [{"_id": "d0", "text": None}]}, r"corpus\.jsonl: row 1, column text: is None"),
        ({"test": "q0\td0\t1\n", "corpus": [{"_id": "d0", "title": 3, "text": "x"}]}, "row 1, column title: is int"),
        ({"test": "q0\td0\t1\n", "queries": [{"_id": "q0"}]}, r"queries\.jsonl: row 1, column text: is missing"),
        ({"test": "q0\td0\t1\n", "queries": [{"_id": "q0", "text": "\ud800"}]}, "lone surrogate"),
    ],
)
def test_broken_folders_are_refused_by_file_and_row(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_data(folder(tmp_path / "b", **change), seed=0)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["qrels/qrels.tsv", "qrels/test.txt"], r"qrels holds qrels\.tsv, test\.txt: give the file"),
        (["qrels/"], "qrels holds nothing: give the file"),
        ([f"qrels/{n}" for n in range(11)], "qrels holds 0, 1, 10, 2, 3, 4, 5, 6 and 3 more: give"),
        (["test.tsv"], r"there is no folder .*qrels, and beside it lie corpus\.jsonl, queries\.jsonl, test\.tsv: give"),
    ],
    ids=["other names", "empty", "many", "none"],
)
def test_a_folder_without_judgements_tells_what_stands_in_their_place(tmp_path, names, words):
    """A query without an answer is no substitute: nothing can be measured on such queries alone."""
    config = folder(tmp_path / "b", queries=[{"_id": "q0", "text": "a", "no_answer": True}])
    (tmp_path / "b" / "qrels").rmdir()
    for name in names:
        place = tmp_path / "b" / name
        (place if name.endswith("/") else place.parent).mkdir(exist_ok=True)
        if not name.endswith("/"):
            place.write_text("q0\td0\t1\n")
    with pytest.raises(
        InputError, match=rf"none of qrels/train\.tsv, qrels/dev\.tsv, qrels/test\.tsv was found: .* at least one; .*{words}"
    ):
        load_data(config, seed=0)


def test_bad_rows_are_dropped_with_their_judgments(tmp_path):
    corpus = [{"_id": f"d{n}", "text": "" if n == 0 else f"text {n}"} for n in range(4)]
    config = folder(tmp_path / "b", corpus=corpus, test="q0\td0\t1\nq1\td1\t1\n")
    data = load_data(config.model_copy(update={"on_bad_rows": "drop"}), seed=0)
    assert data.test.queries == ("query 1",)
    assert data.dropped == {"corpus.jsonl text is empty or whitespace": 1, "qrels line of a dropped text": 1}


def test_dev_and_test_files_do_not_mix_with_qrels(tmp_path):
    config = folder(tmp_path / "b", test="q0\td0\t1\n")
    with pytest.raises(InputError, match="BEIR folder with qrels of its own"):
        load_data(config.model_copy(update={"dev": "x.jsonl"}), seed=0)


def built():
    corpus = Corpus(tuple(f"d{n}" for n in range(8)), ("a", "b\nc", 'say "x"', "ü\u2028", "e", "f", "g", "h"))
    pool = Corpus(corpus.ids[2:6], corpus.texts[2:6])
    train = TrainingPairs(("q", "q", "r"), np.array([0, 0, 1]), ((2, 3), (), (7,)), corpus, np.array([0, 0, 1]))
    dev = Judged(("x1", "x 2"), ("d", "e"), ({4: 1.0, 5: 0.5}, {}), corpus, np.array([0, 0]))
    test = Judged(("t1", "t2"), ("d", "d"), ({0: 3.0}, {2: 1.0, 1: 2.0}), pool, np.array([0, 0]))
    return RetrievalData("toy", "pairs", train, dev, test, skewed=True, notes=("seen",))


def test_round_trip_is_equal(tmp_path):
    data = built()
    export_beir(data, tmp_path / "out")
    assert load_data(DataConfig(name=str(tmp_path / "out")), seed=5) == data
    assert sorted(path.name for path in (tmp_path / "out" / "candidates").iterdir()) == ["test.tsv"]
    assert read_json(tmp_path / "out" / "normwise-data.json")["kind"] == "pairs"


def test_round_trip_keeps_missing_splits_missing(tmp_path):
    data = built()
    data = RetrievalData(data.name, data.kind, data.train, None, None, skewed=True)
    export_beir(data, tmp_path / "out")
    again = load_data(DataConfig(name=str(tmp_path / "out")), seed=0)
    assert again == data


def test_round_trip_of_a_cut_file(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"query": f"q{n}", "positive": f"p{n}", "negatives": [f"n{n}", f"m{n}"]}) + "\n" for n in range(80)))
    data = load_data(DataConfig(name=str(path), limit_candidates=30, limit_train=20), seed=0)
    export_beir(data, tmp_path / "out")
    again = load_data(DataConfig(name=str(tmp_path / "out")), seed=9)
    assert (again.train, again.dev, again.test) == (data.train, data.dev, data.test)


def test_nothing_is_overwritten_unasked(tmp_path):
    export_beir(built(), tmp_path / "out")
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        export_beir(built(), tmp_path / "out")
    export_beir(built(), tmp_path / "out", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_ids_that_qrels_cannot_hold_are_refused(tmp_path):
    corpus = Corpus(("a\tb",), ("x",))
    data = RetrievalData("toy", "pairs", None, None, Judged(("q",), ("t",), ({0: 1.0},), corpus, np.zeros(1, dtype=np.int64)), skewed=False)
    with pytest.raises(InputError, match="which a qrels file cannot hold"):
        export_beir(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def pictured(path, **rows):
    path.mkdir()
    for number in range(3):
        Image.new("RGB", (5, 4), (40 * number, 90, 20)).save(path / f"{number}.png")
    Image.new("RGB", (5, 4)).save(path.parent / "out.png")
    (path / "bad.png").write_text("no picture")
    corpus = rows.get("corpus", [{"_id": f"d{number}", "image": f"{number}.png"} for number in range(3)])
    queries = rows.get("queries", [{"_id": f"q{number}", "text": f"query {number}"} for number in range(3)])
    return folder(path, corpus=corpus, queries=queries, test=HEADER + "".join(f"q{n}\td{n}\t1\n" for n in range(3)))


def test_pictures_of_both_sides_are_read_and_join_clusters(tmp_path):
    queries = [
        {"_id": "q0", "text": "the same in red", "image": "1.png"},
        {"_id": "q1", "text": "b"},
        {"_id": "q2", "text": "c", "image": ""},
    ]
    judged = load_data(pictured(tmp_path / "b", queries=queries), seed=0).test
    assert [type(content).__name__ for content in judged.corpus.contents] == ["Picture"] * 3
    assert [type(content).__name__ for content in judged.queries] == ["Interleaved", "str", "str"]
    assert judged.clusters.tolist() == [0, 0, 1]  # what q0 shows is the answer of q1


@pytest.mark.parametrize("side", ["corpus", "queries"])
@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("../out.png", r"column image: '\.\./out\.png' leads out of .*: put the picture into that folder"),
        ("gone.png", r"column image: 'gone\.png' does not exist"),
        ("bad.png", r"column image: picture bad\.png"),
        ("https://example.org/a.png", r"column image: .* is a URL"),
        (3, r"column image: 3 .* is not the name of a picture"),
    ],
)
def test_pictures_that_cannot_be_used_are_refused_or_dropped_by_row(tmp_path, side, image, words):
    letter = side[0].replace("c", "d")
    rows = [{"_id": f"{letter}{number}", "text": f"text {number}"} for number in range(3)]
    rows[1]["image"] = image
    config = pictured(tmp_path / "b", **{side: rows})
    with pytest.raises(InputError, match=rf"{side}\.jsonl: row 2, {words}"):
        load_data(config, seed=0)
    found = load_data(config.model_copy(update={"on_bad_rows": "drop"}), seed=0)
    assert found.test.query_ids == ("q0", "q2")
    assert sum(count for why, count in found.dropped.items() if "column" not in why and side in why) == 1
