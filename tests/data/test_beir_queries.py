"""Queries without an answer: what says so counts, what nearly says so or contradicts itself is refused, all else passes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data.beir import read_beir
from normwise.data.beir_queries import Queries, field_of


@pytest.fixture
def make(tmp_path):
    """Write a folder whose third query has the given fields; `qrels` are lines of each split."""

    def write(fields, *, candidates=None, **qrels):
        for name in ("qrels", "candidates"):
            (tmp_path / name).mkdir()
        queries = [{"_id": f"q{n}", "text": f"query {n}", **(fields if n == 2 else {})} for n in range(5)]
        corpus = [{"_id": f"d{n}", "text": f"text {n}"} for n in range(5)]
        for name, rows in (("corpus", corpus), ("queries", queries)):
            (tmp_path / f"{name}.jsonl").write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows))
        for split, text in ({"test": "q0\td0\t1\n"} | qrels).items():
            (tmp_path / "qrels" / f"{split}.tsv").write_text(text)
        if candidates is not None:
            (tmp_path / "candidates" / "test.tsv").write_text(candidates)
        return tmp_path

    return write


def read(folder):
    return read_beir(folder, on_bad_rows="refuse")[0]


@pytest.mark.parametrize(
    ("fields", "dev", "test"),
    [
        ({"no_answer": True}, None, ("q0", "q2")),
        ({"no_answer": True, "split": "test"}, None, ("q0", "q2")),
        ({"metadata": {"no_answer": True, "split": "dev"}}, ("q2",), ("q0",)),
        ({"no_answer": True, "metadata": {"Split": "of theirs", "split": "dev"}}, ("q2",), ("q0",)),
        ({"no_answer": True, "metadata": {"no_answer": True}}, None, ("q0", "q2")),
        # A training query without an answer trains nothing, and is judged nowhere.
        ({"no_answer": True, "split": "train"}, None, ("q0",)),
        ({"no_answer": False, "split": "tset"}, None, ("q0",)),
    ],
)
def test_what_says_that_nothing_answers_it_is_judged_so(make, fields, dev, test):
    data = read(make(fields))
    assert (None if data.dev is None else data.dev.query_ids) == dev
    assert data.test.query_ids == test
    assert data.test.relevance == ({0: 1.0}, {})[: len(test)]


@pytest.mark.parametrize(
    "fields",
    [
        {"split": "validation"},
        {"Split": 3, "SPLIT": None},
        {"metadata": {"answer": "no", "no_answers_known": 3, "answers": [], "split": "of theirs"}},
        {"metadata": "no_answer"},
        {"metadata": None, "unanswered": "x"},
        {"no_answer": False, "metadata": {"Split": "y"}},
    ],
)
def test_other_people_s_fields_are_their_own(make, fields):
    assert read(make(fields)).test.query_ids == ("q0",)


@pytest.mark.parametrize("value", ["true", "false", "yes", "", 1, 0, 1.0, None, [], {}])
@pytest.mark.parametrize("place", [lambda fields: fields, lambda fields: {"metadata": fields}], ids=["line", "metadata"])
def test_a_value_that_is_neither_true_nor_false_is_refused_by_row(make, value, place):
    with pytest.raises(InputError, match=r"queries\.jsonl, row 4, column no_answer: expected true or false, without quotes, got .*leave"):
        read(make(place({"no_answer": value, "split": "test"})))


@pytest.mark.parametrize(
    ("split", "near"),
    [
        ("tset", r"'tset' is no split, .*: did you mean test\?"),
        ("Test", r"'Test' is no split, .*: did you mean test\?"),
        (" DEV", r"' DEV' is no split, .*: did you mean dev\?"),
        ("validation", "'validation' is no split, .*: known names: dev, test, train"),
        (None, "None is no split"),
        (["test"], r"\['test'\] is no split"),
    ],
)
def test_an_unknown_split_of_a_query_without_an_answer_is_refused_by_row(make, split, near):
    with pytest.raises(InputError, match=r"queries\.jsonl, row 4, column split: " + near):
        read(make({"no_answer": True, "split": split}))


@pytest.mark.parametrize("key", ["No_Answer", "NO_ANSWER", "no-answer", "No-Answer", "no answer", "noAnswer"])
@pytest.mark.parametrize("place", [lambda fields: fields, lambda fields: {"metadata": fields}], ids=["line", "metadata"])
def test_another_spelling_of_the_key_is_refused_by_row(make, key, place):
    with pytest.raises(InputError, match=rf'queries\.jsonl, row 4: the key \'{key}\' is no_answer in another spelling.*write "no_answer"'):
        read(make(place({key: True})))


@pytest.mark.parametrize(
    ("key", "value"),
    [("unanswerable", True), ("Unanswerable", "true"), ("is_impossible", 1), ("answerable", False), ("hasAnswer", "False")],
)
@pytest.mark.parametrize("place", [lambda fields: fields, lambda fields: {"metadata": fields}], ids=["line", "metadata"])
def test_another_word_for_it_is_refused_by_row_where_nobody_judges_the_query(make, key, value, place):
    with pytest.raises(
        InputError,
        match=rf"queries\.jsonl, row 4: 'q2' has no judgement, and the key '{key}' is no_answer in another word, .* take the key out",
    ):
        read(make(place({key: value})))


@pytest.mark.parametrize(
    ("fields", "qrels"),
    [
        ({"unanswerable": True}, {"train": "q2\td1\t1\n"}),
        ({"unanswerable": True}, {"test": "q0\td0\t1\nq2\td1\t0\n"}),
        ({"unanswerable": False}, {}),
        ({"answerable": True}, {}),
        ({"answerable": None, "is_impossible": "sometimes"}, {}),
        ({"answerable": False, "no_answer": True}, {}),
        ({"unanswerable": True, "no_answer": False}, {}),
    ],
    ids=["trained", "judged 0", "answered", "answerable", "unknown", "says both", "says that it has one"],
)
def test_another_word_for_it_is_the_user_s_own_where_the_query_is_judged_or_says_more(make, fields, qrels):
    assert read(make(fields, **qrels)).test.query_ids[0] == "q0"


def test_another_spelling_of_its_split_is_refused(make):
    with pytest.raises(InputError, match=r"row 4: the key 'Split' is split in another spelling, which says nothing: write \"split\""):
        read(make({"no_answer": True, "Split": "dev"}))


def test_a_line_that_contradicts_its_metadata_is_refused(make):
    with pytest.raises(InputError, match="row 4: no_answer is true in one place and false in the other, line and metadata: keep one"):
        read(make({"no_answer": False, "metadata": {"no_answer": True}}))


@pytest.mark.parametrize("qrels", [{"test": "q2\td1\t2\n"}, {"dev": "q2\td1\t1\nq3\td1\t1\n"}, {"train": "q2\td1\t1\n"}])
@pytest.mark.parametrize("own", ["train", "dev", "test"])
def test_a_query_without_an_answer_that_has_one_is_refused_by_row(make, qrels, own):
    split = next(iter(qrels))
    with pytest.raises(InputError, match=rf"queries\.jsonl, row 4: 'q2' says no_answer, and qrels/{split}\.tsv judges 'd1' relevant"):
        read(make({"no_answer": True, "split": own}, **qrels))


def test_judgements_of_0_and_candidates_that_it_does_not_search_are_no_contradiction(make):
    folder = make({"no_answer": True}, train="q2\td1\t1\n", test="q0\td0\t1\nq2\td4\t0\n", candidates="d0\nd4\n")
    data = read(folder)
    assert data.test.relevance == ({0: 1.0}, {})
    assert data.train.queries == ("query 2",)


@given(st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=5))
def test_no_unrelated_field_is_refused(fields):
    """A key with other letters than no_answer, case aside, says nothing."""
    letters = {key: "".join(character for character in key if character.isalpha()).casefold() for key in fields}
    mine = {key: value for key, value in fields.items() if letters[key] != "noanswer"}
    for record in (mine, {"metadata": mine}):
        assert Queries(["q"], ["text"], [1], [record], "queries.jsonl").unanswered() == {}


def test_a_field_of_the_line_comes_before_that_of_its_metadata():
    assert field_of({"a": None, "metadata": {"a": 1}}, "a", 2) is None
    assert field_of({"metadata": {"a": 1}}, "a") == 1
    assert field_of({"metadata": [1]}, "a", 2) == 2
