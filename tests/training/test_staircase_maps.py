"""Maps of tokens against the covariance's own eigenvectors, under moves and turns, and where there is nothing to draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.training.staircase_maps import token_maps

RANDOM = np.random.default_rng(0)


def one_map(rows):
    (found,) = token_maps(np.array([5]), np.asarray(rows)[None], [str(i) for i in range(len(rows))], [0])
    return np.array(found.points), np.array(found.shares)


def test_shares_and_points_are_those_of_the_covariance():
    rows = RANDOM.normal(size=(30, 7)) * np.arange(1, 8)
    points, shares = one_map(rows)
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    assert shares == pytest.approx(values[::-1][:2] / values.sum())
    for axis in (0, 1):
        scores = (rows - rows.mean(axis=0)) @ vectors[:, -1 - axis]
        assert points[:, axis] == pytest.approx(scores if abs(scores).argmax() == scores.argmax() else -scores)


def test_each_axis_points_to_its_largest_entry():
    for seed in range(20):
        points, _ = one_map(np.random.default_rng(seed).normal(size=(9, 4)))
        assert all(column[np.abs(column).argmax()] > 0.0 for column in points.T)


def test_of_equally_large_entries_the_first_is_positive():
    points, _ = one_map([[-1.0, 0.0], [0.0, 0.5], [1.0, 0.0], [0.0, -0.5]])
    assert points[:, 0] == pytest.approx([1.0, 0.0, -1.0, 0.0])
    assert points[:, 1] == pytest.approx([0.0, 0.5, 0.0, -0.5])


def test_a_ring_in_any_plane_stays_a_ring():
    angles = 2 * np.pi * np.arange(20) / 20
    plane = np.linalg.qr(RANDOM.normal(size=(64, 2)))[0]
    points, shares = one_map(3.0 + np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane.T)
    assert np.hypot(*points.T) == pytest.approx(np.ones(20))
    assert shares == pytest.approx([0.5, 0.5])


def test_moving_all_rows_and_turning_them_changes_nothing():
    rows = RANDOM.normal(size=(15, 6)) * np.array([5.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    turn = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]
    for other in (rows + 7.0, rows @ turn):
        for before, after in zip(one_map(rows), one_map(other), strict=True):
            assert after == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("rows", [np.zeros((5, 3)), np.full((20, 8), 0.1), np.full((3, 2), 1e300), np.ones((1, 4)), np.full((7, 1), -0.3)])
def test_rows_that_are_all_equal_lie_at_0(rows):
    points, shares = one_map(rows)
    assert (points == 0.0).all()
    assert (shares == 0.0).all()


def test_rows_on_a_line_have_no_second_component():
    direction = RANDOM.normal(size=8)
    points, shares = one_map(np.outer(np.arange(6.0), direction) + 0.1)
    assert shares == pytest.approx([1.0, 0.0])
    assert (points[:, 1] == 0.0).all()
    assert np.diff(points[:, 0]) == pytest.approx([np.diff(points[:, 0])[0]] * 5)
    assert one_map([[1.0], [2.0]])[0][:, 1].tolist() == [0.0, 0.0]


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1e-200, 1e-3, 1.0, 1e150]))
def test_shares_are_a_part_of_one_and_fall(tokens, width, seed, size):
    points, shares = one_map(np.random.default_rng(seed).normal(size=(tokens, width)) * size)
    assert np.isfinite(points).all()
    assert 1.0 >= shares[0] >= shares[1] >= 0.0
    assert shares.sum() <= 1.0
    assert points.sum(axis=0) == pytest.approx([0.0, 0.0], abs=1e-9 * size)


def test_places_are_drawn_in_their_order_with_their_steps_and_names():
    copies = RANDOM.normal(size=(4, 3, 2)).astype(np.float32)
    found = token_maps(np.array([0, 10, 20, 30]), copies, ["a", "", "<c>"], [3, 1])
    assert [each.step for each in found] == [30, 10]
    assert all(each.names == ("a", "", "<c>") for each in found)
    assert token_maps(np.array([10]), copies[1:2], ["a", "", "<c>"], [0]) == found[1:]
    assert token_maps(np.array([0, 10, 20, 30]), copies, ["a", "", "<c>"], []) == ()


@pytest.mark.parametrize(
    ("shape", "names", "places", "words"),
    [
        ((2, 3), 3, [0], r"embedding has shape \(2, 3\)"),
        ((3, 3, 4), 3, [0], "T = 2 steps"),
        ((2, 3, 4), 2, [0], "A = 2 names"),
        ((2, 0, 4), 0, [0], "both above 0"),
        ((2, 3, 0), 3, [0], "D above 0"),
        ((2, 3, 4), 3, [0, 2], "places hold 2; expected places of checkpoints, 0 to 1"),
        ((2, 3, 4), 3, [-1], "places hold -1"),
    ],
)
def test_what_does_not_fit_is_refused(shape, names, places, words):
    with pytest.raises(InputError, match=words):
        token_maps(np.array([0, 10]), np.ones(shape), ["a"] * names, places)


def test_an_entry_that_is_not_finite_is_refused_with_its_step():
    copies = np.ones((2, 3, 4))
    copies[1, 0, 0] = math.nan
    assert token_maps(np.array([0, 10]), copies, ["a"] * 3, [0])
    with pytest.raises(InputError, match="embedding at step 10 holds an entry that is not finite"):
        token_maps(np.array([0, 10]), copies, ["a"] * 3, [0, 1])


@pytest.mark.parametrize("seed", [198, 232])
def test_rounding_makes_no_more_than_one_of_two_shares(seed):
    # Of these rows, in a plane, the rounded shares add to more than 1.
    assert one_map(np.random.default_rng(seed).normal(size=(6, 2)))[1].sum() <= 1.0
