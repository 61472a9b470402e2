"""Signals against slow loops over real vectors, at their limits, and where numbers break."""

import math

import numpy as np
import pytest
from calibrator_worlds import softmax_world
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists
from normwise.theory.signals import NEAR_HITS, SIGNALS, signals


def searched(similarity, *, seed=0, queries=5, candidates=30):
    """Real vectors and their full hit lists."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(queries, 6)) * rng.lognormal(0, 1, size=(queries, 1))
    c = rng.normal(size=(candidates, 6)) * rng.lognormal(0, 1, size=(candidates, 1))
    qn, cn = np.linalg.norm(q, axis=1), np.linalg.norm(c, axis=1)
    scores = q @ c.T / (qn[:, None] if similarity.normalizes_query else 1.0) / (cn if similarity.normalizes_candidate else 1.0)
    order = np.argsort(-scores, axis=1, kind="stable")
    return q, c, order, HitLists(np.take_along_axis(scores, order, axis=1), qn, cn[order], similarity, complete=True)


@pytest.mark.parametrize("similarity", list(Similarity))
def test_scores_under_the_other_similarities_are_those_of_the_same_vectors(similarity):
    q, c, order, hits = searched(similarity)
    found = signals(hits)
    for other in Similarity:
        name = f"score under {other.value}"
        if other is similarity:
            assert name not in found
            continue
        for row, first in enumerate(order[:, 0]):
            a = q[row] / np.linalg.norm(q[row]) if other.normalizes_query else q[row]
            b = c[first] / np.linalg.norm(c[first]) if other.normalizes_candidate else c[first]
            assert found[name][row] == pytest.approx(a @ b, rel=1e-12)


def test_all_signals_are_their_equations_in_a_slow_loop():
    judged = softmax_world(seed=1, count=6, depth=14)
    hits, tau = judged.hits, 0.07
    found = signals(hits, temperature=tau)
    for i in range(6):
        s = [float(x) for x in hits.scores[i]]
        near = s[:10]
        mean = sum(near) / 10
        weights = [math.exp(x / tau) for x in near]
        p = [w / sum(weights) for w in weights]
        wanted = {
            "score": s[0],
            "margin": s[0] - s[1],
            "spread": math.sqrt(sum((x - mean) ** 2 for x in near) / 10),
            "lead": s[0] - sum(near[1:]) / 9,
            "entropy": -sum(x * math.log(x) for x in p),
            "residual": 1 - math.exp(s[0] / tau) / sum(math.exp(x / tau) for x in s),
            "log query norm": math.log(hits.query_norms[i]),
            "log hit norm": math.log(hits.hit_norms[i, 0]),
            "query length": math.log(1 + hits.query_lengths[i]),
            "hit length": math.log(1 + hits.hit_lengths[i, 0]),
            "query frequency": math.log(1 + hits.query_frequency[i]),
            "hit frequency": math.log(1 + hits.hit_frequency[i, 0]),
            "local scaling": 2 * s[0] - mean - hits.hit_density[i, 0],
        }
        assert {name: value[i] for name, value in found.items() if "under" not in name} == pytest.approx(wanted, abs=1e-12)
    assert list(found) == [name for name in SIGNALS if name in found], "the order of the registry"


def test_a_signal_reads_no_deeper_than_it_says():
    hits = softmax_world(seed=2, count=9, depth=20).hits
    whole = signals(hits, temperature=0.1)
    for depth in (1, 2, NEAR_HITS):
        short = HitLists(
            hits.scores[:, :depth],
            hits.query_norms,
            hits.hit_norms[:, :depth],
            hits.similarity,
            hit_density=hits.hit_density[:, :depth],
        )
        for name, values in signals(short, temperature=0.1).items():
            if SIGNALS[name].depth is not None and SIGNALS[name].depth <= depth:
                np.testing.assert_array_equal(values, whole[name], err_msg=name)


def test_what_is_not_known_is_left_out_and_not_made_up():
    hits = HitLists(np.array([[0.5, 0.1]]), np.ones(1), np.ones((1, 2)), Similarity.COSINE)
    assert not set(signals(hits)) & {"entropy", "residual", "query length", "hit length", "query frequency", "local scaling"}


def test_a_single_hit_has_no_gaps():
    hits = HitLists(np.array([[0.5], [-3.0]]), np.ones(2), np.ones((2, 1)), Similarity.DOT)
    found = signals(hits, temperature=0.01)
    for name in ("margin", "spread", "lead", "entropy", "residual"):
        assert found[name].tolist() == [0.0, 0.0], name


def test_a_zero_vector_has_finite_stand_ins():
    hits = HitLists(np.array([[0.0, 0.0], [0.4, 0.0]]), np.array([0.0, 2.0]), np.array([[1.0, 3.0], [2.0, 0.0]]), Similarity.COSINE)
    found = signals(hits, temperature=0.1)
    assert found["log query norm"].tolist() == [0.0, math.log(2.0)]
    assert found["score under dot"].tolist() == [0.0, 1.6]
    assert hits.usable.tolist() == [False, True]


def test_temperature_at_its_limits():
    hits = softmax_world(seed=3, count=5, depth=12).hits
    hot, cold = signals(hits, temperature=1e9), signals(hits, temperature=1e-9)
    np.testing.assert_allclose(hot["entropy"], np.log(10.0), atol=1e-6)
    np.testing.assert_allclose(hot["residual"], 11 / 12, atol=1e-6)
    np.testing.assert_allclose(cold["entropy"], 0.0, atol=1e-12)
    np.testing.assert_allclose(cold["residual"], 0.0, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(InputError, match="temperature is .*; expected a finite number above 0"):
        signals(softmax_world(seed=0, count=2).hits, temperature=temperature)


@given(
    scale=st.sampled_from([0.0, 1e-12, 1.0, 400.0, 1e8, 1e300]),
    shift=st.floats(-400, 400),
    depth=st.integers(1, 13),
    temperature=st.sampled_from([1e-6, 0.01, 1.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_any_scores_give_finite_signals_in_range(scale, shift, depth, temperature, seed):
    rng = np.random.default_rng(seed)
    scores = -np.sort(-(scale * rng.uniform(-1, 1, size=(3, depth)) + shift), axis=1)
    hits = HitLists(scores, rng.lognormal(0, 50, size=3), rng.lognormal(0, 50, size=(3, depth)), Similarity.DOT)
    found = signals(hits, temperature=temperature)
    assert all(np.isfinite(values).all() and values.dtype == np.float64 for values in found.values())
    assert (found["margin"] >= 0).all()
    assert (found["entropy"] >= 0).all()
    assert (found["entropy"] <= np.log(10) + 1e-12).all()
    assert ((found["residual"] >= 0) & (found["residual"] < 1)).all()


@given(shift=st.floats(-50, 50), seed=st.integers(0, 99))
def test_gaps_ignore_a_shift_of_the_row(shift, seed):
    hits = softmax_world(seed=seed, count=4, depth=11).hits
    moved = HitLists(hits.scores + shift, hits.query_norms, hits.hit_norms, hits.similarity)
    here, there = signals(hits, temperature=0.05), signals(moved, temperature=0.05)
    for name in ("margin", "spread", "lead", "entropy", "residual"):
        np.testing.assert_allclose(there[name], here[name], atol=1e-9, err_msg=name)


def test_orientations_point_towards_right_answers_where_scores_mean_something():
    judged = softmax_world(seed=5, count=3000, depth=12)
    found = signals(judged.hits, temperature=1 / 15)
    for name in ("margin", "lead", "entropy", "residual"):
        oriented = SIGNALS[name].orientation * found[name]
        assert oriented[judged.right].mean() > oriented[~judged.right].mean(), name


def test_some_signals_are_the_same_as_among_all():
    hits = softmax_world(seed=3, count=6, depth=14).hits
    everything = signals(hits, temperature=0.1)
    for name, value in everything.items():
        alone = signals(hits, temperature=0.1, names=[name])
        assert list(alone) == [name]
        assert np.array_equal(alone[name], value)
    assert signals(hits, names=["entropy", "no such signal"]) == {}
