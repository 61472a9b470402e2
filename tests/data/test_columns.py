import csv
import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from normwise.core.errors import InputError
from normwise.data.columns import read_pair_file


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


GOOD = [{"positive": f"p{n}", "query": f"q{n}"} for n in range(3)]


def test_columns_go_by_name_whatever_their_order(tmp_path):
    swapped = read_pair_file(write_jsonl(tmp_path / "a.jsonl", GOOD), on_bad_rows="refuse")
    straight = read_pair_file(
        write_jsonl(tmp_path / "b.jsonl", [{"query": r["query"], "positive": r["positive"]} for r in GOOD]), on_bad_rows="refuse"
    )
    anchors = read_pair_file(
        write_jsonl(tmp_path / "c.jsonl", [{"positive": r["positive"], "anchor": r["query"]} for r in GOOD]), on_bad_rows="refuse"
    )
    assert swapped.queries == straight.queries == anchors.queries == ("q0", "q1", "q2")
    assert swapped.positives == straight.positives == anchors.positives == ("p0", "p1", "p2")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "a", "anchor": "b", "positive": "c"}, "query and anchor mean the same.*found columns query, anchor, positive"),
        ({"positive": "c"}, r"column query \(or anchor\) is missing; found columns positive"),
        ({"query": "c", "answer": "d"}, "column positive is missing; found columns query, answer"),
        ({"query": "c", "positive": "d", "negatve": "e"}, "unknown column negatve; found columns query, positive, negatve"),
        ({"query": "c", "positive": "d", "negative_0": "e"}, "unknown column negative_0"),
        ({}, r"is missing; found columns \(none\)"),
    ],
)
def test_wrong_columns_are_refused_and_listed(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read_pair_file(write_jsonl(tmp_path / "x.jsonl", [row]), on_bad_rows="refuse")


def test_negatives_may_be_ragged_lists_and_numbered(tmp_path):
    rows = [
        {"query": "a", "positive": "b", "negatives": ["c", "d"]},
        {"query": "e", "positive": "f", "negatives": []},
        {"query": "g", "positive": "h", "negative_10": "j10", "negative_2": "j2", "negative": "j"},
    ]
    read = read_pair_file(write_jsonl(tmp_path / "x.jsonl", rows), on_bad_rows="refuse")
    assert read.negatives == (("c", "d"), (), ("j", "j2", "j10"))


BAD = [
    ({"query": None}, "row 2, column query: is None"),
    ({"query": float("nan")}, "row 2, column query: is NaN"),
    ({"positive": ""}, "row 2, column positive: is empty or whitespace"),
    ({"positive": " \t\n"}, "row 2, column positive: is empty or whitespace"),
    ({"query": "broken \ud800"}, "row 2, column query: holds a lone surrogate"),
    ({"query": 7}, "row 2, column query: is int, not text"),
    ({"positive": ["a"]}, "row 2, column positive: is list, not text"),
    ({"negatives": ["a", None]}, r"row 2, column negatives\[1\]: is None"),
    ({"negatives": "a"}, "row 2, column negatives: expected a list of texts, but it is one text"),
    ({"negatives": None}, "row 2, column negatives: expected a list of texts, but it is None"),
    ({"negative_1": None}, "row 2, column negative_1: is None"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_values_name_file_row_and_column(tmp_path, change, message):
    path = write_jsonl(tmp_path / "x.jsonl", [GOOD[0], {**GOOD[1], **change}, GOOD[2]])
    with pytest.raises(InputError, match=rf"x\.jsonl: {message}"):
        read_pair_file(path, on_bad_rows="refuse")
    kept = read_pair_file(path, on_bad_rows="drop")
    assert kept.queries == ("q0", "q2")
    assert kept.rows.tolist() == [1, 3]
    assert sum(kept.dropped.values()) == 1


def test_many_bad_rows_are_counted(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"query": None, "positive": "p"}] * 9)
    with pytest.raises(InputError, match="row 5, column query: is None; and 4 more"):
        read_pair_file(path, on_bad_rows="refuse")
    with pytest.raises(InputError, match="no usable rows: 9 dropped"):
        read_pair_file(path, on_bad_rows="drop")


def test_surrogate_pairs_are_whole_characters(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "\\ud83d\\ude00 smile", "positive": "b"}\n', encoding="utf-8")
    assert read_pair_file(path, on_bad_rows="refuse").queries == ("\U0001f600 smile",)


def test_bom_crlf_blank_lines_and_gzip(tmp_path):
    text = "\ufeff" + "\r\n".join(json.dumps(row) for row in GOOD) + "\r\n\r\n"
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_pair_file(path, on_bad_rows="refuse").queries == ("q0", "q1", "q2")
    path.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(InputError, match="not a whole gzip file"):
        read_pair_file(path, on_bad_rows="refuse")


def test_csv_with_quotes_line_breaks_and_bom(tmp_path):
    path = tmp_path / "x.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["positive", "anchor", "negatives"])
        writer.writerow(["two\nlines, and a comma", 'a "quoted" word', '["n1", "n2"]'])
        writer.writerow(["p", "q", ""])
    read = read_pair_file(path, on_bad_rows="refuse")
    assert read.positives == ("two\nlines, and a comma", "p")
    assert read.queries == ('a "quoted" word', "q")
    assert read.negatives == (("n1", "n2"), ())
    assert read.rows.tolist() == [2, 4]  # the first record takes lines 2 and 3


def test_broken_tables_are_refused_by_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,positive\na,b\nc,d,e\n")
    with pytest.raises(InputError, match=r"x\.csv, row 3: 3 cells for 2 columns"):
        read_pair_file(path, on_bad_rows="drop")
    path.write_text('query,positive\na,"b\n')
    with pytest.raises(InputError, match=r"x\.csv, line 2: .*check the quotes"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_text("query,positive,negatives\na,b,not json\n")
    with pytest.raises(InputError, match="row 2, column negatives: not JSON: .*; expected a JSON list"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_text("query,positive\n ,b\n")
    with pytest.raises(InputError, match="row 2, column query: is empty"):
        read_pair_file(path, on_bad_rows="refuse")


def test_parquet_and_its_types(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"positive": ["a", "b"], "query": ["c", "d"], "negatives": [["x"], []]}), path)
    read = read_pair_file(path, on_bad_rows="refuse")
    assert (read.queries, read.positives, read.negatives) == (("c", "d"), ("a", "b"), (("x",), ()))
    pq.write_table(pa.table({"positive": [1, 2], "query": ["c", "d"]}), path)
    with pytest.raises(InputError, match="row 1, column positive: is int, not text"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="not a readable parquet file"):
        read_pair_file(path, on_bad_rows="refuse")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_pair_file(tmp_path / "none.jsonl", on_bad_rows="refuse")
    with pytest.raises(InputError, match="does not exist"):
        read_pair_file(tmp_path / "none.parquet", on_bad_rows="refuse")
    with pytest.raises(InputError, match="expected a file ending in"):
        read_pair_file(tmp_path / "x.txt", on_bad_rows="refuse")
    path = tmp_path / "x.jsonl"
    path.write_text("")
    with pytest.raises(InputError, match="it holds no rows; expected at least 2"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_text('{"query": "a", "positive": "b"}\n[1]\n')
    with pytest.raises(InputError, match="line 2: expected one JSON object per line, got list"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_text('{"query": "a", "positive": "b"}\n{"query": \n')
    with pytest.raises(InputError, match="line 2: not JSON"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_bytes(b'{"query": "a", "positive": "b"}\n{"query": "\xff"}\n')
    with pytest.raises(InputError, match=r"line 2: not UTF-8 \(byte 0xff\)"):
        read_pair_file(path, on_bad_rows="refuse")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_named(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", GOOD)
    path.chmod(0)
    with pytest.raises(InputError, match=r"x\.jsonl cannot be read"):
        read_pair_file(path, on_bad_rows="refuse")


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "x.jsonl").mkdir()
    with pytest.raises(InputError, match=r"x\.jsonl cannot be read"):
        read_pair_file(tmp_path / "x.jsonl", on_bad_rows="refuse")
