"""Tables out of their order are named, and honest series are left in peace."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.series_integrity import find_disorder, find_exchanges, find_gaps, shared_coordinates


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
    # At an end, a random walk is as long as noise that ends in its own optimum, unless three tables beside it tell.
    unclear = kind == "walk" and at in (0, count - 2) and count < 5
    assert found.swapped + (found.doubtful if unclear else ()) == ((at, at + 1),)
    assert (found.outliers, found.breaks) == ((), ())


@pytest.mark.parametrize("at_start", [True, False])
def test_noise_that_ends_in_its_optimum_is_in_doubt(at_start):
    """The way is (1 + 2^.5) of the noise's size, and 1 + 1 with the two exchanged."""
    tables = way("swarm", seed=8, count=9, width=4000)
    tables[0 if at_start else -1] = 0.0
    found = judged(tables)
    assert (found.swapped, found.outliers) == ((), ())
    assert found.doubtful == (((0, 1),) if at_start else ((7, 8),))


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


def apart(tables):
    return np.linalg.norm(tables[:, None] - tables, axis=2)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 500), count=st.integers(0, 12), width=st.sampled_from([300, 2000]))
@settings(max_examples=100, deadline=None)
def test_no_two_look_exchanged_in_an_honest_series(kind, seed, count, width):
    assert find_exchanges(apart(way(kind, seed=seed, count=count, width=width))) == ()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [6, 10, 20])
def test_chance_in_noise_of_few_dimensions_is_no_exchange(seed, count):
    """Some exchange makes the way shorter by a tenth and more, since distances in 20 dimensions differ: the series has no order."""
    tables = way("swarm", seed=seed, count=count, width=20)
    assert find_exchanges(apart(tables)) == ()
    assert judged(tables).outliers == ()


@given(kind=st.sampled_from(("line", "walk")), seed=st.integers(0, 500), count=st.integers(8, 16), data=st.data())
@settings(max_examples=100, deadline=None)
def test_any_two_inside_that_were_exchanged_are_named(kind, seed, count, data):
    tables = way(kind, seed=seed, count=count)
    a = data.draw(st.integers(1, count - 3))
    b = data.draw(st.integers(a + 1, count - 2))
    tables[[a, b]] = tables[[b, a]]
    assert find_exchanges(apart(tables)) == ((a, b),)


def test_two_exchanges_are_both_named():
    tables = way("line", seed=1, count=14)
    tables[[2, 9, 5, 6]] = tables[[9, 2, 6, 5]]
    assert find_exchanges(apart(tables)) == ((2, 9), (5, 6))


def test_a_table_from_elsewhere_is_no_exchange():
    """At the end of the series it would have one neighbor, and the way would be half as long: but it would be as far from it."""
    for at in (2, 5, 9):
        tables = way("line", seed=2, count=12)
        tables[at] += 200.0 * np.random.default_rng(3).normal(size=300)
        assert find_exchanges(apart(tables)) == ()


def test_distances_that_are_none_are_refused():
    with pytest.raises(InputError, match="not square, or one is negative or not finite"):
        find_exchanges(np.full((3, 3), np.nan))


def test_the_score_has_the_moments_of_all_orders_of_columns():
    """The mean of the trace over all orders is 0 and its spread the denominator, by going through all of them."""
    first, second = np.random.default_rng(4).normal(size=(2, 7, 5))
    traces = np.array([np.sum(first * second[:, list(order)]) for order in itertools.permutations(range(5))])
    expected = (np.sum(first * second) - traces.mean()) / traces.std()
    assert shared_coordinates(first, second).score == pytest.approx(expected)


def test_tables_of_two_trainings_score_as_a_standard_normal():
    random = np.random.default_rng(5)
    scores = [shared_coordinates(*random.normal(size=(2, 40, 12))).score for _ in range(2000)]
    assert abs(np.mean(scores)) < 4 / 2000**0.5
    assert np.std(scores) == pytest.approx(1.0, abs=4 * (0.5 / 2000) ** 0.5)


@given(seed=st.integers(0, 500), factor=st.sampled_from([1e-150, 1e-12, 1.0, 1e12, 1e150]), offset=st.floats(-5, 5))
@settings(max_examples=60, deadline=None)
def test_scale_rows_means_and_a_common_order_of_columns_change_nothing(seed, factor, offset):
    random = np.random.default_rng(seed)
    first, second = random.normal(size=(2, 30, 8))
    order = random.permutation(8)
    found, moved = shared_coordinates(first, second), shared_coordinates(factor * (first + offset)[:, order], factor * second[:, order])
    assert moved.score == pytest.approx(found.score, abs=1e-9)
    assert moved.reach == pytest.approx(found.reach)


def test_reach_is_the_score_of_a_part():
    random = np.random.default_rng(6)
    table, rest = random.normal(size=(2, 2000, 30))
    whole = table + 20.0 * rest
    found = shared_coordinates(table, whole)
    assert found.reach == pytest.approx(found.score, abs=3.0)
    assert shared_coordinates(whole, table).reach == pytest.approx(found.reach)
    assert shared_coordinates(table, np.zeros_like(table)) == shared_coordinates(np.ones((3, 4)), np.ones((3, 4)))


def test_tables_that_cannot_be_compared_are_refused():
    with pytest.raises(InputError, match=r"shapes \(3, 2\) and \(4, 2\); expected one shape with at least 2 columns"):
        shared_coordinates(np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(InputError, match="a table holds a value that is not finite"):
        shared_coordinates(np.eye(3), np.diag([1.0, np.nan, 1.0]))
