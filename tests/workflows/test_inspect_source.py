"""What a source turns out to be, and what is said where it is none: files, folders, texts and rows by their names."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from normwise.core.errors import InputError
from normwise.workflows.inspect_source import OBVIOUS, Reading, open_source


@pytest.fixture
def stored(tmp_path):
    """Five vectors as an array and as two files."""
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    pq.write_table(pa.table({"v": list(x)}), tmp_path / "x.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
@pytest.mark.parametrize("table", [OBVIOUS, "wte.weight"])
def test_a_table_is_of_a_checkpoint_only_even_the_obvious_one(stored, name, table):
    with pytest.raises(InputError, match=f"table = '{table}' is of a checkpoint, and .*{name} is none: leave it out"):
        open_source(stored / name, None, Reading(table=table))


def test_the_file_of_texts_is_named_where_their_number_is_wrong(stored):
    (stored / "t.txt").write_text("a\nb\nc\nd\n")
    with pytest.raises(InputError, match=r"t.txt: 4 texts for 5 vectors: expected one each"):
        open_source(stored / "x.npy", stored / "t.txt", Reading())
    with pytest.raises(InputError, match=r"^texts: 4 texts for 5 vectors"):
        open_source(stored / "x.npy", list("abcd"), Reading())
    (stored / "t.txt").write_text("a\nb\nc\nd\ne\n\n\n")
    assert open_source(stored / "x.npy", stored / "t.txt", Reading()).texts == tuple("abcde")


def test_a_list_of_texts_is_counted_from_zero(stored):
    with pytest.raises(InputError, match=r"^texts, row 2 is empty or whitespace; expected a text for every row"):
        open_source(stored / "x.npy", ["a", "b", " ", "d", "e"], Reading())


def test_a_masked_array_is_refused_by_its_row():
    x = np.ma.masked_greater(np.arange(12.0).reshape(4, 3), 7.5)
    with pytest.raises(InputError, match="array is masked: row 2, the first of 2 such rows"):
        open_source(x, None, Reading())
    assert open_source(x[:2], None, Reading()).vectors.rows.shape == (2, 3)


@pytest.mark.parametrize("table", [None, OBVIOUS])
def test_a_folder_that_is_no_model_is_called_so(tmp_path, table):
    with pytest.raises(InputError, match=r"is no model's folder: .* expected a folder that sentence-transformers or transformers saved"):
        open_source(tmp_path, None, Reading(table=table))
