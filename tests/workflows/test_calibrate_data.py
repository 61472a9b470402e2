"""Queries of a calibration: which splits they come from, how they cluster, which are hidden, what is refused."""

import gzip
import json
import re

import numpy as np
import pytest
from calibrate_folders import write_beir

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.load import load_data
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs
from normwise.workflows.calibrate_data import cluster, load_asked, rows_in_folder

CORPUS = [(f"d{i}", f"text {i}") for i in range(12)]
QUERIES = [(f"q{i}", f"question {i}") for i in range(10)]


def lines(rows, *, shift=0):
    return [(f"q{i}", f"d{i + shift}", 1) for i in rows]


def test_dev_comes_before_test_and_training_pairs_stay_out(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"train": lines([0, 1]), "dev": lines([2, 3]), "test": lines([4, 5, 6])})
    asked = load_asked(tmp_path)
    assert asked.judged.query_ids == ("q2", "q3", "q4", "q5", "q6")
    assert asked.from_dev.tolist() == [True, True, False, False, False]
    assert asked.answerable.all()


def test_no_dev_split_is_made_of_training_pairs(tmp_path):
    """`load_data` would carve one out of train; a model may know those answers by heart."""
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"train": lines(range(6)), "test": lines([7, 8])})
    asked = load_asked(tmp_path)
    assert asked.judged.query_ids == ("q7", "q8")
    assert not asked.from_dev.any()


def test_a_folder_of_training_pairs_alone_is_held_out_of_and_says_so(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"train": lines(range(10))})
    asked = load_asked(tmp_path)
    assert 0 < len(asked.judged) < 10
    assert any("only training pairs came" in note for note in asked.notes)


def test_every_row_of_a_file_of_pairs_is_a_query_and_the_notes_warn(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"query": f"q {i}", "positive": f"p {i}"}) + "\n" for i in range(8)))
    asked = load_asked(path)
    assert len(asked.judged) == 8
    assert any("knows the answers" in note for note in asked.notes)


@pytest.mark.parametrize(
    ("dev", "queries"),
    [(lines([4]), QUERIES), (lines([2]), [*QUERIES[:2], ("q2", "  QUESTION\t5 "), *QUERIES[3:]])],
    ids=["the same id", "the same text"],
)
def test_a_query_in_dev_and_test_is_refused_with_both_names(tmp_path, dev, queries):
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels={"dev": dev, "test": lines([4, 5])})
    with pytest.raises(InputError, match=r"query 'q[24]' in .*queries\.jsonl, row [35] .* and query 'q[45]' in .*row [56] .* same query"):
        load_asked(tmp_path)


@pytest.mark.parametrize(
    ("dev", "train", "words"),
    [
        ([2, 3], [0, 1], None),
        ([2, 3], [3, 4, 4, 5], "1 of 2 dev queries and 2 of 3 test queries are training queries too, by id or text"),
        ([], [4, 5, 6], "3 of 3 test queries are training queries too, by id or text"),
        ([2, 3], [9], "1 of 2 dev queries are training queries too"),
    ],
    ids=["none", "by id", "all of them", "by text"],
)
def test_judged_queries_that_trained_are_counted_in_a_note(tmp_path, dev, train, words):
    queries = [*QUERIES[:9], ("q9", "  QUESTION\t2 ")]
    qrels = {"train": lines(train, shift=1), "dev": lines(dev), "test": lines([4, 5, 6])}
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels=qrels)
    notes = [note for note in load_asked(tmp_path).notes if "training queries" in note]
    assert len(notes) == (words is not None)
    assert all(note.startswith(words) and note.endswith("its calibration would promise too much") for note in notes)


@pytest.mark.parametrize("form", ["folder", "pairs"])
def test_bad_rows_are_named_with_a_remedy_that_a_calibration_has(tmp_path, form):
    """A run file may say that they are dropped; a calibration has no such setting, and `load_data` still names it."""
    path = tmp_path
    if form == "folder":
        write_beir(tmp_path, corpus=[*CORPUS[:3], ("d3", " "), *CORPUS[4:]], queries=QUERIES, qrels={"test": lines([1, 5])})
    else:
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps({"query": f"q {i}", "positive": "" if i == 3 else f"p {i}"}) + "\n" for i in range(8)))
    with pytest.raises(InputError, match=r"row 4, column (text|positive): is empty or whitespace; repair these rows, or take them out"):
        load_asked(path)
    with pytest.raises(InputError, match=r"vectors count from 0, those named here from 1\)$") as refused:
        load_asked(path)
    assert "on_bad_rows" not in str(refused.value)
    with pytest.raises(InputError, match=r'row 4, column .*or set data\.on_bad_rows = "drop"'):
        load_data(DataConfig(name=str(path)), seed=0)


@pytest.mark.parametrize(
    ("qrels", "words"),
    [
        ({"test": lines(range(8))}, "1 of 10 queries of .* have no judgement in qrels/.* and take no part: 'q8'; where nothing answers"),
        ({"test": lines([0, 1])}, r"7 of 10 queries of .*: 'q2', 'q3', 'q4', \.\.\.; where nothing answers a query, .*\"no_answer\": true"),
        ({"train": lines(range(4)), "dev": lines([4]), "test": [*lines(range(5, 8)), ("q8", "d1", 0)]}, None),
        ({"train": lines(range(7))}, "2 of 10 queries of .*: 'q7', 'q8'; where"),
    ],
    ids=["one", "many", "judged somewhere", "only training pairs"],
)
def test_queries_that_nobody_judges_are_counted_with_what_to_do(tmp_path, qrels, words):
    """The last query says that nothing answers it, in a split that is not calibrated on; a judgement in train counts as one."""
    queries = [*QUERIES[:9], ("q9", {"text": "question 9", "metadata": {"no_answer": True, "split": "train"}})]
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels=qrels)
    notes = [note for note in load_asked(tmp_path, limit_queries=2).notes if "no judgement" in note]
    assert len(notes) == (words is not None)
    assert all(re.match(words, note) for note in notes)


def test_files_that_are_no_beir_folder_have_no_queries_without_judgements(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": lines([0, 1])})
    data = load_data(DataConfig(name=str(tmp_path)), seed=0)
    assert load_asked(data).notes == ()


@pytest.mark.parametrize("name", ["queries.jsonl", "corpus.jsonl", "qrels/test.tsv"])
def test_one_file_of_a_beir_folder_leads_to_the_folder(tmp_path, name):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": lines([0, 1])})
    with pytest.raises(InputError, match=rf"{name} is one file of a BEIR folder: give the folder, {tmp_path}$"):
        load_asked(tmp_path / name)


def test_queries_join_by_text_candidate_and_given_cluster():
    corpus = Corpus(tuple("abcdef"), tuple("uvwxyz"))
    relevance = ({0: 1.0}, {0: 2.0}, {1: 1.0}, {2: 1.0}, {3: 1.0}, {}, {4: 1.0}, {5: 1.0})
    texts = ("a", "b", "c", "C ", "e", "f", "g", "h")
    judged = Judged(tuple("01234567"), texts, relevance, corpus, np.arange(8))
    labels, notes = cluster(judged, own=[np.array([0, 1, 2, 3]), np.array([0, 0, 1, 2])])
    # 0 and 1 share a candidate, 2 and 3 a text, 4 and 5 a cluster of the second split, whose numbers are its own.
    assert labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    assert notes == []


def test_a_candidate_that_joins_most_queries_leaves_texts_as_clusters():
    corpus = Corpus(("a", "b"), ("u", "v"))
    judged = Judged(tuple("0123"), ("p", "q", "r", "R"), ({0: 1.0}, {0: 1.0}, {0: 1.0}, {1: 1.0}), corpus, np.arange(4))
    labels, notes = cluster(judged, own=[np.arange(4)])
    assert labels.tolist() == [0, 1, 2, 2]
    assert "4 of 4 queries" in notes[0]


def test_hidden_queries_are_a_seeded_share_of_the_answered_ones(tmp_path):
    queries = [*QUERIES[:9], ("q9", {"text": "nothing answers this", "no_answer": True})]
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels={"test": lines(range(9))})
    asked = load_asked(tmp_path, unanswerable=1 / 3)
    assert asked.hidden.sum() == 3
    assert not asked.hidden[9]
    assert asked.answerable.sum() == 6
    assert len(asked.judged.corpus) == 12
    assert any("3 of 9 queries were made unanswerable" in note for note in asked.notes)
    assert np.array_equal(asked.hidden, load_asked(tmp_path, unanswerable=1 / 3).hidden)
    assert any(not np.array_equal(asked.hidden, load_asked(tmp_path, unanswerable=1 / 3, seed=seed).hidden) for seed in range(1, 4))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(tmp_path, share):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": lines(range(4))})
    with pytest.raises(InputError, match="unanswerable is .* expected a share"):
        load_asked(tmp_path, unanswerable=share)


def test_empty_judgements_are_refused_by_file(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": []})
    with pytest.raises(InputError, match=r"no judged query .*test\.tsv"):
        load_asked(tmp_path)
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": [("q1", "d1", 0), ("q2", "d1", 0)]})
    with pytest.raises(InputError, match=r"none of 2 queries has a relevant candidate .*test\.tsv.*check the judgements"):
        load_asked(tmp_path)


def test_a_repeated_id_is_refused_by_row(tmp_path):
    write_beir(tmp_path, corpus=[*CORPUS, ("d3", "again")], queries=QUERIES, qrels={"test": lines([1])})
    with pytest.raises(InputError, match=r"corpus\.jsonl, row 13.*'d3' stands there twice"):
        load_asked(tmp_path)


def test_rows_are_those_of_the_files_whatever_is_judged_and_kept(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"dev": lines([7]), "test": lines([5, 3])})
    asked = load_asked(tmp_path, limit_candidates=4)
    queries, corpus, query_count, corpus_count = rows_in_folder(asked, tmp_path)
    assert [QUERIES[row][0] for row in queries] == list(asked.judged.query_ids)
    assert [CORPUS[row][0] for row in corpus] == list(asked.judged.corpus.ids)
    assert (query_count, corpus_count) == (10, 12)
    with pytest.raises(InputError, match="is no BEIR folder"):
        rows_in_folder(asked, tmp_path / "qrels")


def test_dev_over_another_corpus_is_left_out_and_popularity_follows_ids():
    one, other = Corpus(("a", "b"), ("x", "y")), Corpus(("a", "c"), ("x", "z"))
    train = TrainingPairs(("t", "u", "v"), np.array([1, 1, 0]), ((), (), ()), one, np.arange(3))
    dev = Judged(("1",), ("p",), ({0: 1.0},), other, np.arange(1))
    test = Judged(("2",), ("q",), ({1: 1.0},), one, np.arange(1))
    data = RetrievalData(name="toy", kind="toy", train=train, dev=dev, test=test, skewed=True)
    asked = load_asked(data)
    assert asked.judged.query_ids == ("2",)
    assert asked.popularity.tolist() == [1.0, 2.0]
    assert any("other candidates" in note for note in asked.notes)


@pytest.mark.parametrize("field", [lambda rate: {"frequency": rate}, lambda rate: {"metadata": {"frequency": rate}}])
def test_asking_rates_follow_the_queries(tmp_path, field):
    queries = [(f"q{i}", {"text": f"question {i}", **field(i / 2)}) for i in range(10)]
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels={"dev": lines([7]), "test": lines([5, 3])})
    asked = load_asked(tmp_path)
    assert asked.frequency.tolist() == [float(name[1:]) / 2 for name in asked.judged.query_ids]


@pytest.mark.parametrize("odd", [None, -1, "often", True, float("nan"), float("inf"), 10**400])
def test_an_asking_rate_that_is_none_leaves_the_control_out_and_says_where(tmp_path, odd):
    queries = [(f"q{i}", {"text": f"question {i}", "frequency": odd if i == 3 else 2}) for i in range(10)]
    write_beir(tmp_path, corpus=CORPUS, queries=queries, qrels={"test": lines([5, 6])})
    asked = load_asked(tmp_path)
    assert asked.frequency is None
    assert any(re.search(r"frequency of queries is not used as a control: .*queries\.jsonl, row 4 has", note) for note in asked.notes)
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES[5:7], qrels={"test": lines([5, 6])})
    assert load_asked(tmp_path).notes == ()


def test_rows_skip_blank_lines_and_belong_to_the_folder_that_was_read(tmp_path):
    write_beir(tmp_path / "one", corpus=CORPUS, queries=QUERIES, qrels={"dev": lines([7]), "test": lines([5, 3])})
    write_beir(tmp_path / "other", corpus=CORPUS, queries=QUERIES, qrels={"test": lines([5])})
    file = tmp_path / "one" / "queries.jsonl"
    file.write_text("\n" + file.read_text(encoding="utf-8").replace("\n", "\n  \n"), encoding="utf-8")
    asked = load_asked(tmp_path / "one")
    rows, _, count, _ = rows_in_folder(asked, tmp_path / "one")
    assert [QUERIES[row][0] for row in rows] == list(asked.judged.query_ids)
    assert count == len(QUERIES)
    with pytest.raises(InputError, match=r"did not come from .*other.*queries\.jsonl"):
        rows_in_folder(asked, tmp_path / "other")


def test_a_packed_file_of_queries_is_named_as_it_is(tmp_path):
    write_beir(tmp_path, corpus=CORPUS, queries=QUERIES, qrels={"test": lines([0, 1])})
    with gzip.open(tmp_path / "queries.jsonl.gz", "wb") as packed:
        packed.write((tmp_path / "queries.jsonl").read_bytes())
    (tmp_path / "queries.jsonl").unlink()
    assert any("queries.jsonl.gz have no judgement" in note for note in load_asked(tmp_path).notes)


def test_a_folder_named_like_a_built_in_set_is_told_how_to_be_named(tmp_path, monkeypatch):
    write_beir(tmp_path / "python-docs", corpus=CORPUS, queries=QUERIES, qrels={"test": lines(range(4))})
    monkeypatch.chdir(tmp_path)
    asked = load_asked("./python-docs")
    assert rows_in_folder(asked, "./python-docs")[2:] == (10, 12)
    with pytest.raises(InputError, match=r"python-docs names the built-in set.*write \./python-docs"):
        rows_in_folder(asked, "python-docs")
