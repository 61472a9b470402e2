"""Places inside candidate sets against a slow loop; ties, zeros and duplicates; draws of task means against a loop over draws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.bootstrap import cluster_mean_interval
from normwise.theory.candidate_ranking import Places, answer_places, chance_rate, drawn_interval, task_mean_draws

AXES = np.array([[1.0, 0.0], [0.0, 1.0]])


def slow_places(queries, candidates, sets, answers, ranking):
    above, tied = [], []
    for query, members, answer in zip(queries.astype(np.float64), sets, answers, strict=True):
        length = math.sqrt(math.fsum(query**2))
        keys = {}
        for row in members:
            candidate = candidates[row].astype(np.float64)
            key = math.fsum(query * candidate) / length if length else 0.0
            size = math.sqrt(math.fsum(candidate**2))
            if ranking == "cosine":
                key = key / size if size else 0.0
            keys[row] = np.float32(key)
        above.append(sum(key > keys[answer] for key in keys.values()))
        tied.append(sum(key == keys[answer] for key in keys.values()) - 1)
    return above, tied


@st.composite
def worlds(draw):
    queries, candidates = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    # Small whole numbers make many exact ties, zero vectors and equal directions of other lengths.
    values = st.integers(-2, 2).map(float)
    matrix = lambda rows: np.array(draw(st.lists(st.lists(values, min_size=3, max_size=3), min_size=rows, max_size=rows)))  # noqa: E731
    asked, known = matrix(queries), matrix(candidates)
    sets, answers = [], []
    for _ in range(queries):
        members = draw(st.lists(st.integers(0, candidates - 1), min_size=1, unique=True))
        sets.append(tuple(members))
        answers.append(draw(st.sampled_from(members)))
    return asked, known, sets, np.array(answers)


@given(worlds())
def test_places_are_those_of_the_slow_loop(world):
    queries, candidates, sets, answers = world
    found = answer_places(queries, candidates, sets, answers)
    for ranking, places in found.items():
        assert (places.above.tolist(), places.tied.tolist()) == slow_places(queries, candidates, sets, answers, ranking)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_random_vectors_with_own_and_shared_sets(dtype):
    rng = np.random.default_rng(0)
    queries, candidates = rng.normal(size=(40, 24)).astype(dtype), rng.normal(size=(90, 24)).astype(dtype)
    candidates *= rng.uniform(0.2, 5.0, size=(90, 1)).astype(dtype)
    shared = tuple(range(0, 90, 2))
    sets = [shared if row % 2 else tuple(sorted(rng.permutation(90)[:17].tolist())) for row in range(40)]
    answers = np.array([members[row % len(members)] for row, members in enumerate(sets)])
    for ranking, places in answer_places(queries, candidates, sets, answers).items():
        assert (places.above.tolist(), places.tied.tolist()) == slow_places(queries, candidates, sets, answers, ranking)


@given(worlds(), st.randoms())
def test_order_of_sets_and_norm_of_queries_mean_nothing(world, random):
    queries, candidates, sets, answers = world
    mixed = [tuple(random.sample(members, len(members))) for members in sets]
    one, other = answer_places(queries, candidates, sets, answers), answer_places(queries * 4.0, candidates, mixed, answers)
    for ranking in one:
        assert np.array_equal(one[ranking].above, other[ranking].above)
        assert np.array_equal(one[ranking].tied, other[ranking].tied)


def test_near_copies_are_told_apart_where_float32_products_are_not():
    rng = np.random.default_rng(1)
    base = rng.normal(size=256)
    candidates = np.stack([base, base * (1 + 3e-7), base * (1 + 3e-7), rng.normal(size=256)])
    found = answer_places(base[None], candidates, [(0, 1, 2, 3)], np.array([0]))
    assert found["dot"].above.tolist() == [2]
    assert (found["cosine"].above.tolist(), found["cosine"].tied.tolist()) == ([0], [2])


def test_copies_tie_wherever_they_stand():
    rng = np.random.default_rng(2)
    candidates = rng.normal(size=(300, 33)).astype(np.float32)
    copies = [0, 7, 64, 129, 255, 299]
    candidates[copies] = candidates[0] * np.float32(50)
    found = answer_places(candidates[:1], candidates, [tuple(range(300))], np.array([129]))
    assert found["dot"].tied.tolist() == found["cosine"].tied.tolist() == [5]
    assert found["dot"].precision_at_1().tolist() == [pytest.approx(1 / 6)]


def test_a_collapsed_encoder_gets_what_chance_gets_and_not_all():
    sets = [(0, 1, 2), (1, 2, 3, 4)]
    found = answer_places(np.ones((2, 3)), np.ones((5, 3)), sets, np.array([0, 1]))
    for places in found.values():
        assert places.precision_at_1().mean() == pytest.approx(chance_rate(sets))


def test_zero_vectors_score_zero():
    candidates = np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
    found = answer_places(AXES[:1], candidates, [(0, 1, 2)], np.array([0]))
    assert found["cosine"].above.tolist() == [0]
    assert found["cosine"].tied.tolist() == [1]
    nothing = answer_places(np.zeros((1, 2)), candidates, [(0, 1, 2)], np.array([1]))
    assert nothing["dot"].precision_at_1().tolist() == [pytest.approx(1 / 3)]


@given(st.integers(0, 5), st.integers(0, 4))
def test_values_of_ties_are_means_over_all_orders(above, tied):
    places = Places(np.array([above]), np.array([tied]))
    orders = list(itertools.permutations(range(tied + 1)))
    ranks = [above + order.index(0) + 1 for order in orders]
    assert places.precision_at_1()[0] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert places.reciprocal_rank()[0] == pytest.approx(np.mean([1 / rank for rank in ranks]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sets": [(0, 1)]}, r"2 queries, 1 sets and 2 answers: expected one set and one answer per query"),
        ({"sets": [(0, 1), (0, 0)]}, r"the set of query 1 repeats a row"),
        ({"sets": [(0, 1), (0, 2)]}, r"query 1 names candidate row 2; expected 0 to 1"),
        ({"sets": [(0, 1), (-1, 0)]}, r"query 1 names candidate row -1"),
        ({"sets": [(1,), (0, 1)]}, r"query 0 has row 0, which is not in its set"),
        ({"candidates": np.eye(3)}, r"queries have 2 dimensions, candidates 3"),
        ({"candidates": np.array([[1.0, np.nan], [0.0, 1.0]])}, r"candidates: row 0, column 1 is nan"),
        ({"queries": np.array([[1.0, 0.0], [np.inf, 0.0]])}, r"queries: row 1, column 0 is inf"),
        ({"candidates": AXES * 1e-40}, r"candidates: row 0 has norm 1e-40; expected 0 or"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    good = {"queries": AXES, "candidates": AXES, "sets": [(0, 1), (0, 1)], "answers": np.array([0, 1])}
    with pytest.raises(InputError, match=message):
        answer_places(**(good | change))


def slow_draws(values, clusters, *, seed, samples):
    names = sorted({int(name) for part in clusters for name in part})
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(samples):
        picked = [names[place] for place in rng.integers(len(names), size=len(names))]
        row = []
        for numbers, groups in zip(values, clusters, strict=True):
            held = [number for name in picked for number, group in zip(numbers, groups, strict=True) if group == name]
            row.append(np.mean(held) if held else np.nan)
        result.append(row)
    return np.array(result)


def test_draws_are_those_of_a_loop_over_whole_clusters():
    rng = np.random.default_rng(3)
    clusters = [np.array([0, 0, 1, 2]), np.array([2, 5, 5])]
    values = [rng.random((2, 4)), rng.random((2, 3))]
    found = task_mean_draws(values, clusters, seed=7, samples=50)
    for place in range(2):
        expected = slow_draws([numbers[place] for numbers in values], clusters, seed=7, samples=50)
        np.testing.assert_allclose(found[place], expected)
    assert np.isnan(found).any(), "with two clusters a draw may hold none of a task: the loop must have met one"


def test_draws_of_a_difference_are_the_difference_of_draws():
    rng = np.random.default_rng(4)
    values, clusters = [rng.random((2, 30)), rng.random((2, 20))], [np.arange(30), np.arange(10, 30)]
    pair = task_mean_draws(values, clusters, seed=0, samples=64)
    alone = task_mean_draws([value[1:] - value[:1] for value in values], clusters, seed=0, samples=64)
    np.testing.assert_allclose(pair[1] - pair[0], alone[0])


def test_one_task_has_the_interval_of_the_cluster_bootstrap():
    rng = np.random.default_rng(5)
    values, clusters = rng.random(400), np.repeat(np.arange(100), 4)
    draws = task_mean_draws([values[None]], [clusters], seed=0, samples=4000)[0]
    found, known = drawn_interval(values.mean(), draws, level=0.95), cluster_mean_interval(values, clusters, seed=1, samples=4000)
    assert found.mean == pytest.approx(known.mean)
    assert found.ci_low == pytest.approx(known.ci_low, abs=0.003)
    assert found.ci_high == pytest.approx(known.ci_high, abs=0.003)


def test_a_picture_in_two_tasks_moves_both():
    rng = np.random.default_rng(6)
    values, clusters = rng.random((1, 200)), np.arange(200)

    def width(others):
        draws = task_mean_draws([values, values], [clusters, others], seed=0, samples=4000)[0]
        found = drawn_interval(values.mean(), draws, level=0.95)
        return found.ci_high - found.ci_low

    # The same pictures twice tell no more than once; other pictures halve the variance.
    assert width(clusters) / width(clusters + 200) == pytest.approx(math.sqrt(2), rel=0.08)


def test_a_task_of_one_cluster_has_no_interval():
    draws = task_mean_draws([np.ones((1, 3)), np.ones((1, 3))], [np.zeros(3, dtype=int), np.arange(3)], seed=0, samples=20)[0]
    assert drawn_interval(1.0, draws[:, :1], level=0.95).ci_low is None
    assert drawn_interval(1.0, draws, level=0.95).ci_high is None
    assert drawn_interval(1.0, draws[:, 1:], level=0.95).ci_low == 1.0


def test_draws_need_a_cluster_for_each_value():
    with pytest.raises(InputError, match=r"task 1: 3 values and 2 clusters"):
        task_mean_draws([np.ones((1, 2)), np.ones((1, 3))], [np.arange(2), np.arange(2)], seed=0, samples=2)
