"""Draws of whole clusters and the ends of intervals: slow bootstraps, chunks, undefined draws, figures that resampling pushes up."""

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.theory import resamples as resamples_module
from normwise.theory.calibration_error import ks_errors, width_errors
from normwise.theory.metric_intervals import centered_interval, drawn_figures, draws_for, percentile_interval
from normwise.theory.resamples import cluster_resamples, once
from normwise.theory.tied_answers import Answers, first_totals, tied_answers


def slow_times(clusters, *, seed, samples):
    """How often each query is in each draw, cluster by cluster."""
    names, random = np.unique(clusters), np.random.default_rng(seed)
    for _ in range(samples):
        drawn = names[random.integers(names.size, size=names.size)]
        yield [int((drawn == cluster).sum()) for cluster in clusters]


@pytest.mark.parametrize("values", [1, 30, 1 << 18])
def test_draws_are_whole_clusters_in_any_chunks(values, monkeypatch):
    monkeypatch.setattr(resamples_module, "_CHUNK_VALUES", values)
    clusters = np.array([7, 3, 3, 9, 7, 1])
    order = np.array([5, 0, 1, 2, 3, 4])
    parts = list(cluster_resamples(clusters, seed=4, samples=23))
    assert (len(parts) > 1) == (values < 6 * 23)
    found = np.concatenate([part.times(order) for part in parts])
    assert found.tolist() == np.array(list(slow_times(clusters, seed=4, samples=23)))[:, order].tolist()


def test_a_draw_of_many_queries_is_a_few_megabytes():
    clusters = np.arange(60_000)
    part = next(cluster_resamples(clusters, seed=0, samples=200))
    assert part.times(clusters).nbytes < 4e6


def test_draws_by_size():
    """1,000, then 10 million queries in all, never under 200, nor under 5 in each tail."""
    assert [draws_for(size) for size in (1, 1000, 10_000, 20_000, 50_000, 10**6)] == [1000, 1000, 1000, 500, 200, 200]
    assert draws_for(10**6, level=0.9) == 200
    assert draws_for(10**6, level=0.999) == 10_000


def test_drawn_figures_are_those_of_the_slow_bootstrap():
    rng = np.random.default_rng(0)
    answers = Answers(rng.random(30).round(1), rng.random(30) < 0.5)
    clusters = rng.integers(0, 12, 30)
    found = drawn_figures(lambda drawn: {"ks": ks_errors(tied_answers(answers, drawn))}, clusters, seed=1, samples=40)["ks"]
    expected = []
    for times in slow_times(clusters, seed=1, samples=40):
        repeated = Answers(np.repeat(answers.confidence, times), np.repeat(answers.right, times))
        expected.append(ks_errors(tied_answers(repeated))[0])
    assert found == pytest.approx(expected, abs=1e-12)


def test_one_cluster_draws_nothing():
    assert drawn_figures(lambda drawn: {"x": drawn.drawn[:, 0]}, np.array([4, 4, 4]), seed=0) == {}


def test_ends_are_percentiles_of_the_defined_draws():
    draws = np.concatenate([np.arange(101.0), np.full(100, np.nan)])
    found = percentile_interval(3.0, draws, level=0.8)
    assert (found.mean, found.ci_low, found.ci_high) == (3.0, pytest.approx(10.0), pytest.approx(90.0))
    for nothing in (
        percentile_interval(3.0, None),
        percentile_interval(3.0, np.full(5, np.nan)),
        percentile_interval(3.0, np.array([1.0, np.nan, np.nan])),
        centered_interval(3.0, None),
        centered_interval(3.0, np.array([1.0, np.nan, np.nan])),
    ):
        assert (nothing.mean, nothing.ci_low, nothing.ci_high) == (3.0, None, None)
    assert percentile_interval(None, draws).ci_low is None
    assert centered_interval(None, draws).ci_low is None


def test_centered_ends_are_shifted_percentiles_that_stop_at_the_least():
    draws = np.linspace(0.1, 0.3, 101)
    found = centered_interval(0.15, draws, level=0.8)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.07, 0.23))
    assert centered_interval(0.02, draws, level=0.8).ci_low == 0.0
    assert centered_interval(0.02, draws, level=0.8, least=-1.0).ci_low == pytest.approx(-0.06)


def calibration_worlds(count, queries):
    """Samples of calibrated probabilities: the ECE with the draws of its bootstrap."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        confidence = 1.0 / (1.0 + np.exp(-rng.normal(0.8, 1.3, queries)))
        answers = Answers(confidence, rng.random(queries) < confidence)

        def figures(drawn, answers=answers):
            return {"ece": width_errors(tied_answers(answers, drawn))}

        yield figures(once(queries))["ece"][0], drawn_figures(figures, np.arange(queries), seed=seed, samples=200)["ece"]


def test_centered_ends_hold_the_expected_error_where_percentiles_do_not():
    """Measured over 150 samples of 300: centered 97%, percentiles 76%, and 28% of percentile intervals exclude their own estimate."""
    worlds = list(calibration_worlds(80, 300))
    expected = np.mean([estimate for estimate, _ in worlds])
    centered = [centered_interval(estimate, draws) for estimate, draws in worlds]
    plain = [percentile_interval(estimate, draws) for estimate, draws in worlds]
    assert np.mean([each.ci_low <= expected <= each.ci_high for each in centered]) > 0.9
    assert all(each.ci_low <= each.mean <= each.ci_high for each in centered)
    assert np.mean([each.ci_low > each.mean for each in plain]) > 0.1


def test_first_totals_part_a_group_evenly():
    held, running = np.array([[2.0, 2.0, 5.0]]), np.array([[1.0, 1.0, 4.0]])
    assert first_totals(held, running, np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]))[0].tolist() == [0.5, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("given", "message"), [({"level": 1.0}, "level is 1.0; expected a coverage"), ({"samples": 0}, "samples is 0; expected at least 1")]
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        drawn_figures(lambda drawn: {"x": drawn.drawn[:, 0]}, np.array([1, 2]), seed=0, **given)
