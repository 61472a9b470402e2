"""Copies of rows: those that all differences side by side find, bit for bit or but for half precision, in any amount."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.vector_copies import HALF_PRECISION, find_copies, kinds_of


def slow(first, second, within):
    """Every difference, one by one."""
    apart = np.linalg.norm(first.astype(np.float64)[:, None] - second.astype(np.float64)[None], axis=2)
    near = apart <= within * np.linalg.norm(first.astype(np.float64), axis=1)[:, None]
    equal = (first[:, None] == second[None]).all(axis=2)
    rows, places = np.nonzero(near | equal)
    return list(zip(rows.tolist(), places.tolist(), equal[rows, places].tolist(), strict=True))


def listed(found):
    return [tuple(each) for each in zip(*(part.tolist() for part in found.pairs()), strict=True)]


def to_bfloat16(vectors):
    """Rounded to the 8 bits of bfloat16, to even."""
    bits = vectors.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    counts=st.tuples(st.integers(1, 40), st.integers(1, 60)),
    width=st.sampled_from([1, 2, 3, 7, 8, 9, 40, 64]),
    within=st.sampled_from([0.0, 1e-3, HALF_PRECISION, 0.05, 0.3]),
    scale=st.sampled_from([1e-30, 1.0, 1e15]),
)
def test_copies_are_those_that_all_differences_find(seed, counts, width, within, scale):
    random = np.random.default_rng(seed)
    kinds = scale * random.normal(size=(8, width))
    kinds[0] = 0.0

    def some(count):
        drawn = kinds[random.integers(len(kinds), size=count)]
        noise = random.choice([0.0, 1e-4, 2e-3, 3e-2], size=(count, 1)) * random.normal(size=(count, width)) / np.sqrt(width)
        return (drawn * (1.0 + noise)).astype(np.float32)

    first, second = some(counts[0]), some(counts[1])
    found = find_copies(first, second, within=within)
    assert listed(found) == slow(first, second, within)
    assert found.counts().tolist() == np.bincount(found.pairs()[0], minlength=len(first)).tolist()
    assert found.distinct == len(np.unique(second + np.float32(0.0), axis=0))


@pytest.mark.parametrize("width", [8, 384])
@pytest.mark.parametrize("stored", [lambda x: x.astype(np.float16), to_bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_makes_copies_and_what_differs_by_more_is_none(stored, width):
    random = np.random.default_rng(0)
    first, other = (random.normal(size=(200, width)) for _ in range(2))
    first, other = ((each / np.linalg.norm(each, axis=1, keepdims=True)).astype(np.float32) for each in (first, other))
    rows, places, equal = find_copies(first, np.concatenate([other, stored(first).astype(np.float32)])).pairs()
    assert rows.tolist() == list(range(200))
    assert (places - 200).tolist() == list(range(200))
    assert not equal.any()
    moved = first + HALF_PRECISION * 1.01 * other
    assert not find_copies(first, moved.astype(np.float32)).pairs()[0].size


def test_a_copy_that_is_there_a_thousand_times_is_found_as_often():
    first = np.random.default_rng(1).normal(size=(30, 16)).astype(np.float32)
    second = np.concatenate(
        [np.repeat(first[:1], 1000, axis=0), first[1:5] * np.float32(1.001), np.repeat(first[:1] * np.float32(1.002), 7, axis=0)]
    )
    found = find_copies(first, second)
    assert found.counts().tolist() == [1007, 1, 1, 1, 1, *[0] * 25]
    assert len(found.near) == 5
    assert found.pairs()[2].sum() == 1000


def test_the_reach_is_that_of_the_first_set():
    assert listed(find_copies(np.array([[100.0]]), np.array([[99.0]]), within=0.01)) == [(0, 0, False)]
    assert not listed(find_copies(np.array([[99.0]]), np.array([[100.0]]), within=0.01))


def test_minus_zero_is_zero_and_float_types_are_compared_in_the_wider_one():
    assert listed(find_copies(np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]]), within=0.0)) == [(0, 0, True)]
    half = np.array([[0.1, 1.0]], dtype=np.float16)
    assert listed(find_copies(half, half.astype(np.float64), within=0.0)) == [(0, 0, True)]


def test_copies_of_copies_are_of_one_kind_in_any_order():
    chain = np.array([[1.0, 0.0], [1.003, 0.0], [0.0, 1.0], [1.006, 0.0], [1.0, 0.0]])
    assert kinds_of(chain).tolist() == [0, 0, 1, 0, 0]
    order = np.array([3, 2, 4, 0, 1])
    assert kinds_of(chain[order]).tolist() == [0, 1, 0, 0, 0]


@pytest.mark.slow
def test_neither_a_large_pool_nor_one_that_hardly_differs_takes_a_product():
    """Ten thousand rows against a hundred thousand, of which the last set lies within a twentieth of one direction."""
    random = np.random.default_rng(2)
    middle = random.normal(size=(1, 128))
    for share in (1.0, 0.2):
        first, second = (
            ((1.0 - share) * middle + share * random.normal(size=(count, 128))).astype(np.float32) for count in (10_000, 100_000)
        )
        second[:500] = to_bfloat16(first[:500])
        assert find_copies(first, second).pairs()[1].tolist() == list(range(500))


def test_shapes_and_values_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="expected rows of one width"):
        find_copies(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(InputError, match="second: row 1, column 0 is nan"):
        find_copies(np.ones((2, 1)), np.array([[1.0], [np.nan]]))
