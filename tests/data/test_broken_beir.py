"""BEIR folders that are broken, contradict themselves or may not be read: each is refused by file and row."""

import errno
import gzip
import json
from pathlib import Path

import pytest

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.load import load_data

HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def make(tmp_path):
    """Write a folder of 12 queries and candidates; keyword arguments replace its files."""

    def write(*, corpus=None, queries=None, candidates=None, side=None, **qrels):
        (tmp_path / "qrels").mkdir()
        corpus = corpus or [{"_id": f"d{n}", "text": f"text {n}"} for n in range(12)]
        queries = queries or [{"_id": f"q{n}", "text": f"query {n}"} for n in range(12)]
        for name, rows in (("corpus", corpus), ("queries", queries)):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for split, text in (qrels or {"test": "q0\td0\t1\n"}).items():
            (tmp_path / "qrels" / f"{split}.tsv").write_text(text)
        if candidates is not None:
            (tmp_path / "candidates").mkdir()
            (tmp_path / "candidates" / "test.tsv").write_text(candidates)
        if side is not None:
            (tmp_path / "normwise-data.json").write_text(side)
        return DataConfig(name=str(tmp_path))

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": "q0\td1\thigh\nq1\td1\t1\n"}, r"test\.tsv, row 1, column score: expected a finite number >= 0 .*, got 'high'"),
        ({"test": "q0\tnope\tbad\nq1\td1\t1\n"}, "row 1, column score: expected a finite number >= 0 .*, got 'bad'"),
        ({"test": "q0\td1\tscore\nq1\td1\t1\n"}, "row 1, column score: expected a finite number >= 0 .*, got 'score'"),
        ({"test": "q0\td1\t1\nq1\td1\t-1\n"}, "row 2, column score: expected a finite number >= 0 .*, got '-1'"),
        ({"test": "q0\td1\t1e-400\n"}, "row 1, column score: '1e-400' is too small"),
        ({"corpus": [{"_id": "d\udc00", "text": "x"}]}, "row 1, column _id: .* lone surrogate"),
        ({"corpus": [{"_id": "d0", "text": "\u200b"}]}, "row 1, column text: has no visible character"),
        ({"candidates": "nope\nd0\n"}, r"candidates/test\.tsv, row 1: 'nope' is not in corpus\.jsonl"),
        ({"candidates": "corpus-id\nnope\n"}, r"candidates/test\.tsv, row 2: 'nope'"),
        ({"candidates": "corpus-id\n"}, r"candidates/test\.tsv lists no candidate"),
        ({"candidates": "\ncorpus-id\nd1\n"}, r"candidates/test\.tsv leaves out a judged candidate, 'd0': add it"),
        ({"side": "[1]"}, r"normwise-data\.json: expected one JSON object, got list"),
        ({"side": "{"}, r"normwise-data\.json: not JSON"),
        ({"side": '{"notes": 3}'}, "key 'notes': expected a list of texts, got 3"),
        ({"side": '{"notes": ["a", 4]}'}, "key 'notes', item 2: expected a text, but it is int"),
        ({"side": '{"name": ["a"]}'}, "key 'name': expected a text, but it is list"),
        ({"side": '{"kind": "\\ud800"}'}, "key 'kind': expected a text, but it holds a lone surrogate"),
        ({"side": f'{{"x": {"9" * 5000}}}'}, "not JSON: Exceeds the limit"),
        ({"side": "[" * 100_000}, "nested too deep"),
    ],
)
def test_broken_content_is_named_by_file_and_row(make, change, message):
    with pytest.raises(InputError, match=message):
        load_data(make(**change), seed=0)


def test_a_header_may_stand_below_a_blank_line(make, tmp_path):
    test = load_data(make(test="\n" + HEADER + "q0\td0\t2\n"), seed=0).test
    assert test.relevance == ({0: 2.0},)
    assert test.file == str(tmp_path / "qrels" / "test.tsv")


def test_a_title_that_nobody_sees_is_no_title(make):
    corpus = [{"_id": "d0", "title": "\u200b", "text": "x"}]
    assert load_data(make(corpus=corpus), seed=0).test.corpus.texts == ("x",)


def test_clusters_may_be_numbers_of_any_size(make):
    queries = [{"_id": f"q{n}", "text": f"query {n}", "metadata": {"cluster": 10**30 * (n % 2)}} for n in range(4)]
    test = "".join(f"q{n}\td{n}\t1\n" for n in range(4))
    assert load_data(make(queries=queries, test=test), seed=0).test.clusters.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_a_file_and_a_packed_one_that_differ_are_refused_by_both_names(make, tmp_path, name):
    config, file, packed = make(), tmp_path / name, tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert load_data(config, seed=0).test.relevance == ({0: 1.0},)
    lines = file.read_bytes().splitlines(keepends=True)
    for other in (lines[::-1], lines[:-1], [*lines, b"{}\n"]):
        packed.write_bytes(gzip.compress(b"".join(other)))
        with pytest.raises(InputError, match=rf"/{name} and .*/{name}\.gz differ, and nothing says which is meant: move one of them"):
            load_data(config, seed=0)
    file.unlink()
    packed.write_bytes(gzip.compress(b"".join(lines)))
    assert load_data(config, seed=0).test.relevance == ({0: 1.0},)


@pytest.mark.parametrize("place", ["corpus.jsonl", "qrels/test.tsv", "candidates/test.tsv", "normwise-data.json"])
def test_folders_without_permission_are_named(make, tmp_path, monkeypatch, place):
    """The system's refusal is played, since root may read everything."""
    config, stat = make(), Path.stat

    def refuse(path, **options):
        if path == tmp_path / place:
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(InputError, match=rf"{place} cannot be read: Permission denied"):
        load_data(config, seed=0)


def test_a_contradiction_is_seen_wherever_the_split_puts_it(tmp_path):
    """Splitting off dev and test takes the explicit negatives away, so the check comes before it."""
    for row in range(30):
        folder = tmp_path / str(row)
        (folder / "qrels").mkdir(parents=True)
        corpus = [{"_id": f"d{number}", "text": f"text {text}"} for number, text in enumerate([*range(30), row])]
        queries = [{"_id": f"q{number}", "text": f"query {number}"} for number in range(30)]
        for name, items in (("corpus", corpus), ("queries", queries)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        lines = [*(f"q{number}\td{number}\t1\n" for number in range(30)), f"q{row}\td30\t0\n"]
        (folder / "qrels" / "train.tsv").write_text("".join(lines))
        with pytest.raises(InputError, match=rf"negative of its query: .*queries\.jsonl, row {row + 1}, column positive"):
            load_data(DataConfig(name=str(folder)), seed=0)
        data = load_data(DataConfig(name=str(folder), on_bad_rows="drop"), seed=0)
        assert data.dropped == {"positive is also a negative": 1}
        assert len(data.train) + len(data.dev) + len(data.test) == 29
