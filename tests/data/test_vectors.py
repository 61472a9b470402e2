"""Files of bare vectors and judgements by row number."""

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.vectors import load_row_judgements, load_vectors


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_are_mapped_not_read(tmp_path, dtype):
    x = np.arange(12, dtype=dtype).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    found = load_vectors(tmp_path / "x.npy")
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert np.array_equal(found, x)
    assert found.dtype == dtype


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.ones(3), r"x.npy has shape \(3,\); expected two dimensions"),
        (np.ones((1, 2, 3)), "expected two dimensions"),
        (np.ones((2, 0)), r"x.npy has shape \(2, 0\); expected at least one row"),
        (np.ones((0, 2)), "expected at least one row"),
        (np.ones((2, 2), dtype=np.int8), "x.npy holds int8; expected float16"),
        (np.array([["a", "b"]]), "x.npy holds <U1"),
        (np.array([[None, 1]], dtype=object), "x.npy is not a .npy file of numbers: it holds Python objects"),
        (np.array([[1.0, 2.0], [1.0, np.nan]]), "x.npy, row 1, column 1: nan"),
        (np.array([[1.0, -np.inf]], dtype=np.float16), "x.npy, row 0, column 1: -inf"),
    ],
)
def test_arrays_that_are_no_vectors_are_named(tmp_path, content, message):
    np.save(tmp_path / "x.npy", content, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        load_vectors(tmp_path / "x.npy")


@pytest.mark.parametrize(
    "content", [b"", b"1,2,3\n", b"PK\x03\x04rest", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x10\x00{'descr': broken\n"]
)
def test_files_that_are_no_arrays_are_named(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match="x.npy is not a .npy file of numbers: .*numpy.save"):
        load_vectors(tmp_path / "x.npy")


def test_a_file_cut_short_is_named(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((100, 8)))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"x.npy is cut short: \(100, 8\) of float64 make 6,528 bytes, and it has 6,428; copy it again"):
        load_vectors(tmp_path / "x.npy")


def test_bytes_behind_the_array_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with (tmp_path / "x.npy").open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="x.npy goes on behind its array"):
        load_vectors(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("shape", "message"),
    [("(-9, 5)", r"has shape \(-9, 5\); expected at least one row"), (f"({10**30}, 5)", "cut short"), (f"({'9' * 5000}, 5)", "not a .npy")],
)
def test_headers_that_promise_the_impossible_are_refused(tmp_path, shape, message):
    header = ("{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }\n").encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(360))
    with pytest.raises(InputError, match=message):
        load_vectors(tmp_path / "x.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_column_order_and_both_versions_are_read(tmp_path, version):
    x = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=version)
    assert np.array_equal(load_vectors(tmp_path / "x.npy"), x)


def test_a_device_is_told_from_nothing():
    with pytest.raises(InputError, match="/dev/null is a device or a pipe: expected a .npy file"):
        load_vectors("/dev/null")
    with pytest.raises(InputError, match=r"vectors '~nobody-of-that-name/x.npy': .*write the path out"):
        load_vectors("~nobody-of-that-name/x.npy")


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="gone.npy does not exist"):
        load_vectors(tmp_path / "gone.npy")
    with pytest.raises(InputError, match="is a folder"):
        load_vectors(tmp_path)


def test_a_far_row_is_found_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.data.vectors._CHUNK_VALUES", 6)
    x = np.ones((11, 3))
    x[10, 2] = np.inf
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InputError, match="row 10, column 2: inf"):
        load_vectors(tmp_path / "x.npy")


@pytest.mark.parametrize("head", ["", "query\tcandidate\tgain\n", "query-id\tcorpus-id\tscore\n"])
def test_judgements_are_read_with_and_without_names(tmp_path, head):
    (tmp_path / "q.tsv").write_text(head + "0\t3\t1\n0\t1\t2.5\n\n2\t0\t0\n")
    assert load_row_judgements(tmp_path / "q.tsv", queries=3, candidates=4) == ({3: 1.0, 1: 2.5}, {}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 1\n", "q.tsv, line 1: 1 tab-separated columns"),
        ("0\t0\t1\t1\n", "line 1: 4 tab-separated columns"),
        ("0\t0\t1\nx\t0\t1\n", "line 2: query is 'x'"),
        ("0\t0\t1\n0\t1.5\t1\n", "line 2: candidate is '1.5'"),
        ("0\t9\t1\n", "line 1: candidate is 9; expected a row from 0 to 3"),
        ("-1\t0\t1\n", "line 1: query is -1; expected a row from 0 to 2"),
        ("0\t0\t-1\n", "line 1, column gain: expected a finite number >= 0 .*, got '-1'"),
        ("0\t0\tnan\n", "line 1, column gain: expected a finite number >= 0 .*, got 'nan'"),
        ("0\t0\t1e-400\n", "line 1, column gain: '1e-400' is too small for a float64"),
        ("0\t0\t1e400\n", "line 1, column gain: expected a finite number"),
        ("0\t0\tbad\n0\t0\t1\n", "line 1, column gain: expected a finite number >= 0 .*, got 'bad'"),
        (f"{'9' * 5000}\t0\t1\n", "line 1: query is"),
        ("0\t0\t1\n0\t0\t2\n", "line 2: query 0 and candidate 0 are judged a second time"),
        ("0\t0\t0\n", "q.tsv holds no relevant pair"),
        ("", "q.tsv holds no relevant pair"),
    ],
)
def test_bad_judgements_are_named(tmp_path, text, message):
    (tmp_path / "q.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        load_row_judgements(tmp_path / "q.tsv", queries=3, candidates=4)
