"""What may go into an index: each message names argument, row and value."""

import numpy as np
import pytest

from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError
from normwise.index.contents import check_beside, check_contents, texts_hash
from normwise.index.questions import check_where
from normwise.index.row_hashes import vectors_hash

TWO = np.ones((2, 3), dtype=np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ["a"]}, "ids are 1, and the vectors 2"),
        ({"ids": "ab"}, "ids are a str; expected a sequence"),
        ({"ids": ["a", 7]}, "ids: row 1 is 7, a int; expected a string"),
        ({"ids": ["a", ""]}, "ids: row 1 is empty"),
        ({"ids": ["a", "x" * 1001]}, "ids: row 1 has 1,001 characters"),
        ({"ids": ["a", "b\0"]}, "ids: row 1 holds a NUL character"),
        ({"ids": ["a", "\ud800"]}, "ids: row 1 holds half a character"),
        ({"ids": ["a", "a"]}, "ids: row 1 is 'a', as row 0"),
        ({"vectors": [[1.0]]}, "vectors are a list; expected a numpy array"),
        ({"vectors": np.ones((2, 0))}, r"vectors have shape \(2, 0\); expected at least one row and one column"),
        ({"vectors": np.ones((0, 3)), "ids": []}, r"vectors have shape \(0, 3\); expected at least one row"),
        ({"vectors": np.ones((2, 3), dtype=bool)}, "vectors hold bool; expected float16"),
        ({"vectors": np.array([[1.0, 1], [np.nan, 1]])}, "vectors: row 1, column 0 is nan"),
        ({"vectors": np.array([[1.0, 1], [1e37, 1]])}, r"vectors: row 1 has norm 1e\+37; expected 0 or"),
        ({"vectors": np.array([[1.0, 1], [1e-40, 0]])}, "vectors: row 1 has norm 1e-40; expected 0 or"),
        ({"texts": ["a", None]}, "texts: row 1 is None, a NoneType; expected a string"),
        ({"lengths": np.array([1, -1])}, r"lengths: row 1 is -1.0; expected a finite number >= 0"),
        ({"lengths": np.array([1.0])}, "lengths have shape"),
        ({"metadata": [{}]}, "metadata are 1, and the vectors 2"),
        ({"metadata": [{}, 3]}, "metadata: row 1 is a int; expected a flat table"),
        ({"metadata": [{}, {"a": [1]}]}, "metadata: row 1, key 'a' is a list; expected str, int, float or bool"),
        ({"metadata": [{}, {"a": None}]}, "metadata: row 1, key 'a' is a NoneType"),
        ({"metadata": [{"a": 1}, {"a": True}]}, "metadata: row 1, key 'a' is True, a bool, and row 0 has int"),
        ({"metadata": [{"a": 1}, {"a": 1.5}]}, "metadata: row 1, key 'a' is 1.5, a float, and row 0 has int"),
        ({"metadata": [{}, {"a": float("inf")}]}, "metadata: row 1, key 'a' is inf"),
        ({"metadata": [{}, {"a": 2**63}]}, "whole number beyond 64 bits"),
        ({"metadata": [{}, {"": 1}]}, "expected a name of at least one character"),
    ],
)
def test_refused(changes, message):
    values = {"ids": ["a", "b"], "vectors": TWO} | changes
    with pytest.raises(InputError, match=message):
        check_contents(values.pop("ids"), values.pop("vectors"), **values)


def test_the_hashes_are_those_of_ids_with_texts_and_little_endian_vectors():
    vectors = np.arange(6, dtype=np.float64).reshape(2, 3)
    contents = check_contents(["a", "b"], vectors, texts=["x", "ü"])
    assert texts_hash(contents) == contents_hash([("a", b"x"), ("b", "ü".encode())])
    wanted = contents_hash([("b", vectors[1].astype("<f4").tobytes()), ("a", vectors[0].astype("<f4").tobytes())])
    assert vectors_hash(["a", "b"], vectors) == vectors_hash(contents.ids, contents.vectors) == wanted


def test_norms_are_those_of_the_vectors_as_they_came():
    vectors = np.array([[0.1, 0.2]])
    assert check_contents(["a"], vectors).norms[0] == np.sqrt(0.1**2 + 0.2**2)


def test_filters_hold_numbers_that_a_machine_holds():
    assert check_where({"size": 3}, {"size": float}) == {"size": 3.0}
    for value in (10**400, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"where: size is "):
            check_where({"size": value}, {"size": float})


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"ids": ["a", "a"]}, r"ids: row 1 is 'a', as row 0"),
        ({"ids": ["a", "b"], "texts": ["x", "\0"]}, r"texts: row 1 holds a NUL character"),
        ({"ids": ["a", "b"], "metadata": [{"y": 1}]}, r"metadata are 1, and the vectors 2"),
        ({"ids": ["a", "b"], "metadata": [{}, {"y": "1"}], "kinds": {"y": int}}, r"metadata: row 1, key 'y' is '1', a str, and the index"),
    ],
)
def test_what_stands_beside_vectors_is_checked_before_there_are_any(beside, message):
    with pytest.raises(InputError, match=message):
        check_beside(**beside)


def test_masked_vectors_are_refused():
    with pytest.raises(InputError, match=r"vectors are a masked array, and an index knows no holes"):
        check_contents(["a"], np.ma.masked_array(np.ones((1, 2)), mask=[[True, False]]))
