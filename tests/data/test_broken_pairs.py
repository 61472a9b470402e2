"""Files of named columns that decoders and systems stumble over: each is refused by file, row and column."""

import errno
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.cache import cached_tables
from normwise.data.columns import dataset_rows, read_pair_file
from normwise.data.load import load_data
from normwise.data.sources import folder_sources
from normwise.data.wordnet_files import find_wordnet

DIGITS = "9" * 5000
GOOD = [{"positive": f"p{n}", "query": f"q{n}"} for n in range(3)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_an_empty_table_and_a_blank_column_are_said(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("")
    with pytest.raises(InputError, match=r"x\.csv is empty: expected a first line of column names"):
        read_pair_file(path, on_bad_rows="refuse")
    path.write_text("query,positive\n")
    with pytest.raises(InputError, match=r"x\.csv: it holds no rows"):
        read_pair_file(path, on_bad_rows="refuse")
    for name, shown in (("", "''"), ("__index_level_0__", "__index_level_0__")):
        path.write_text(f"{name},query,positive\n0,a,b\n")
        with pytest.raises(InputError, match=f"has a blank name: save with index=False; found columns {shown}, query, positive"):
            read_pair_file(path, on_bad_rows="refuse")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{{"query": {DIGITS}, "positive": "b"}}', "line 2: not JSON: Exceeds the limit"),
        ("[" * 100_000, "line 2: not JSON that can be read: it is nested too deep"),
        ('{"query": "a", "positive": "b", "query": "c"}', "line 2: key 'query' stands twice"),
        ('{"query": "a", "positive": "b", "negatives": [{"x": 1, "x": 2}]}', "line 2: key 'x' stands twice"),
    ],
)
def test_json_that_python_cannot_or_should_not_read_is_named_by_line(tmp_path, line, message):
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "a", "positive": "b"}\n' + line + "\n")
    with pytest.raises(InputError, match=rf"x\.jsonl, {message}"):
        read_pair_file(path, on_bad_rows="refuse")


@pytest.mark.parametrize(
    ("cell", "message"), [("[" * 100_000, "nested too deep"), (f"[{DIGITS}]", "Exceeds the limit"), ("not json", "expected a JSON list")]
)
def test_a_cell_of_negatives_that_cannot_be_read_is_named(tmp_path, cell, message):
    path = tmp_path / "x.csv"
    path.write_text(f"query,positive,negatives\na,b,{cell}\n")
    with pytest.raises(InputError, match=rf"x\.csv, row 2, column negatives: .*{message}"):
        read_pair_file(path, on_bad_rows="refuse")


def test_text_in_parquet_that_is_not_utf8_is_named_by_row_and_column(tmp_path):
    path = tmp_path / "x.parquet"
    as_bytes = pa.array([b"x", b"y", b"\xff"], type=pa.binary())
    as_text = pa.Array.from_buffers(pa.string(), 3, as_bytes.buffers())
    pq.write_table(pa.table({"query": ["a", "b", "c"], "positive": as_text}), path)
    with pytest.raises(InputError, match=r"x\.parquet, row 3, column positive: cannot be read: 'utf-8' codec"):
        read_pair_file(path, on_bad_rows="refuse")


def test_dates_beyond_those_of_python_are_named_by_row_and_column(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"query": pa.array([0, 10**16], type=pa.timestamp("ms")), "positive": ["a", "b"]}), path)
    with pytest.raises(InputError, match=r"x\.parquet, row 2, column query: cannot be read"):
        read_pair_file(path, on_bad_rows="refuse")


@pytest.mark.parametrize("name", ["x.jsonl.GZ", "x.JSONL.gz"])
def test_upper_case_endings_are_the_same(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b'{"query": "a", "positive": "b"}\n'))
    assert read_pair_file(tmp_path / name, on_bad_rows="refuse").queries == ("a",)


@pytest.mark.parametrize("negatives", [{"negatives": ["n", "p1"]}, {"negative": "p1"}, {"negative_3": "p1"}])
def test_a_positive_among_its_own_negatives_is_a_bad_row(tmp_path, negatives):
    path = write_jsonl(tmp_path / "x.jsonl", [GOOD[0], {**GOOD[1], **negatives}, GOOD[2]])
    with pytest.raises(InputError, match=r"x\.jsonl: row 2, column positive: is also a negative"):
        read_pair_file(path, on_bad_rows="refuse")
    kept = read_pair_file(path, on_bad_rows="drop")
    assert (kept.queries, kept.dropped) == (("q0", "q2"), {"positive is also a negative": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": "\u200b"}, "column query: has no visible character"),
        ({"positive": "\x00"}, "column positive: has no visible character"),
        ({"negatives": ["\u3164\ufe0f"]}, r"column negatives\[0\]: has no visible character"),
    ],
)
def test_texts_that_nobody_sees_are_refused(tmp_path, change, message):
    path = write_jsonl(tmp_path / "x.jsonl", [GOOD[0], {**GOOD[1], **change}])
    with pytest.raises(InputError, match=rf"x\.jsonl: row 2, {message}"):
        read_pair_file(path, on_bad_rows="refuse")


@pytest.mark.parametrize("text", ["\u200bbank", "\U0001f600", "\ue000", "e\u0301", "ก็"])
def test_texts_with_something_to_see_are_kept(tmp_path, text):
    path = write_jsonl(tmp_path / "x.jsonl", [{"query": text, "positive": "p"}])
    assert read_pair_file(path, on_bad_rows="refuse").queries == (text,)


@pytest.mark.parametrize("text", ["[1]", "{}", "3", '{"_data_files": 3}'])
def test_a_datasets_folder_with_broken_settings_is_named(tmp_path, text):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"query": ["a", "b"], "positive": ["c", "d"]}).save_to_disk(str(tmp_path / "one"))
    (tmp_path / "one" / "state.json").write_text(text)
    with pytest.raises(InputError, match="one is not a whole `datasets` folder: its JSON files"):
        load_data(DataConfig(name=str(tmp_path / "one")), seed=0)


def test_text_in_a_datasets_folder_that_is_not_utf8_is_named():
    def rows():
        yield {"query": "a", "positive": "b"}
        b"\xff".decode()

    with pytest.raises(InputError, match=r"set\[train\], row 2: cannot be read: 'utf-8' codec"):
        dataset_rows("set[train]", rows(), ["query", "positive"], on_bad_rows="refuse")


def refuse_stat(monkeypatch, place):
    stat = Path.stat

    def refuse(path, **options):
        if path == place:
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)


def test_roots_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"data\.roots '~nobody-of-that-name': .*write the path out"):
        folder_sources(["~nobody-of-that-name"])
    with pytest.raises(InputError, match=r"data\.roots '~nobody-of-that-name'"):
        find_wordnet(["~nobody-of-that-name"])
    refuse_stat(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        folder_sources([str(tmp_path)])


def test_a_cache_that_may_not_be_read_is_never_fatal(tmp_path, monkeypatch):
    def build():
        return {"t": {"x": [1]}}, {}

    assert cached_tables("n", key="k", cache_dir=tmp_path, build=build) == build()
    refuse_stat(monkeypatch, next(tmp_path.glob("*.parquet")))
    assert cached_tables("n", key="k", cache_dir=tmp_path, build=build)[0] == build()[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/dev/null", "/dev/null is a device or a pipe: expected a folder, or a file ending in"),
        ("~nobody-of-that-name/x.jsonl", "data '~nobody-of-that-name/x.jsonl': .*write the path out"),
    ],
)
def test_names_that_are_no_paths(name, message):
    with pytest.raises(InputError, match=message):
        load_data(DataConfig(name=name), seed=0)
