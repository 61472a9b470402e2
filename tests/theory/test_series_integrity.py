"""Tables out of their order are named, and honest series are left in peace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.series_integrity import find_disorder, find_gaps


def judged(tables, steps=None):
    apart = [np.linalg.norm(tables[:-ahead] - tables[ahead:], axis=1) if len(tables) > ahead else np.zeros(0) for ahead in (1, 2)]
    return find_disorder(np.arange(len(tables)) if steps is None else np.asarray(steps), *apart)


def way(kind, *, seed, count, width=300):
    """A straight line, a random walk, one that slows down, and a swarm around an optimum."""
    random = np.random.default_rng(seed)
    if kind == "line":
        return np.arange(count)[:, None] * random.normal(size=width) + 0.05 * random.normal(size=(count, width))
    if kind == "walk":
        return random.normal(size=(count, width)).cumsum(axis=0)
    if kind == "slowing":
        return (random.normal(size=(count, width)) * 0.8 ** np.arange(count)[:, None]).cumsum(axis=0)
    return random.normal(size=(count, width))


KINDS = ("line", "walk", "slowing", "swarm")


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 500), count=st.integers(2, 25))
@settings(max_examples=150, deadline=None)
def test_nothing_is_found_in_an_honest_series(kind, seed, count):
    found = judged(way(kind, seed=seed, count=count))
    assert (found.swapped, found.outliers, found.breaks) == ((), (), ())


@given(kind=st.sampled_from(("line", "walk")), seed=st.integers(0, 500), count=st.integers(4, 25), data=st.data())
@settings(max_examples=150, deadline=None)
def test_two_neighbors_that_were_exchanged_are_named(kind, seed, count, data):
    tables, at = way(kind, seed=seed, count=count), data.draw(st.integers(0, count - 2))
    tables[[at, at + 1]] = tables[[at + 1, at]]
    found = judged(tables)
    assert found.swapped == ((at, at + 1),)
    assert (found.outliers, found.breaks) == ((), ())


def test_two_pairs_that_were_exchanged_are_both_named():
    tables = way("walk", seed=1, count=12)
    tables[[2, 3, 7, 8]] = tables[[3, 2, 8, 7]]
    assert judged(tables).swapped == ((2, 3), (7, 8))


@pytest.mark.parametrize("kind", ["line", "walk", "slowing"])
def test_a_table_of_another_training_is_named(kind):
    tables = way(kind, seed=2, count=15)
    tables[6] += 200.0 * np.random.default_rng(3).normal(size=300)
    found = judged(tables)
    assert found.outliers == (6,)
    assert (found.swapped, found.breaks) == ((), ())


def test_a_training_that_began_anew_is_a_break():
    tables = way("walk", seed=4, count=16)
    tables[9:] += 100.0 * np.random.default_rng(5).normal(size=300)
    found = judged(tables)
    assert found.breaks == ((8, 9),)
    assert found.swapped == ()


def test_a_longer_time_between_checkpoints_is_no_break():
    line = np.arange(10)[:, None] * np.random.default_rng(6).normal(size=40)
    steps = np.array([0, 1, 2, 3, 43, 44, 45, 46])
    assert judged(np.concatenate([line[:4], 40 * line[1] + line[3:7]]), steps).breaks == ()


def test_tables_that_do_not_move_are_in_order():
    found = judged(np.ones((6, 4)))
    assert (found.swapped, found.outliers, found.breaks) == ((), (), ())


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_changes_nothing(factor):
    tables = way("walk", seed=7, count=9)
    tables[[3, 4]] = tables[[4, 3]]
    assert judged(factor * tables) == judged(tables)


@pytest.mark.parametrize(
    ("steps", "gaps"),
    [
        ([100, 200, 300, 400], ()),
        ([100, 200, 400, 500], ((200, 400),)),
        ([100, 200, 300, 700], ((300, 700),)),
        ([100, 200, 300, 350], ()),
        ([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000, 5000, 6000], ((3000, 5000),)),
        ([0, 500, 600, 700], ()),
        ([5, 10], ()),
    ],
)
def test_gaps_are_told_by_the_steps_beside_them(steps, gaps):
    assert find_gaps(np.array(steps)) == gaps


def test_distances_that_do_not_fit_are_refused():
    steps = np.arange(4)
    with pytest.raises(InputError, match="4 steps have 2 and 2 distances; expected 3 and 2"):
        find_disorder(steps, np.ones(2), np.ones(2))
    with pytest.raises(InputError, match="steps do not ascend"):
        find_disorder(steps[::-1], np.ones(3), np.ones(2))
    with pytest.raises(InputError, match="negative or not finite"):
        find_disorder(steps, np.array([1.0, np.nan, 1.0]), np.ones(2))
