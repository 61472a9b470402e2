"""Partial rank correlation: least squares, the jackknife, a bootstrap that ranks and fits anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from normwise.theory.correlation_ratio import block_test
from normwise.theory.partial_rank import (
    correlation_influence,
    correlation_test,
    fisher_interval,
    holm_adjusted,
    resampled_deviations,
    residuals,
    slope_influence,
)
from normwise.theory.rank_design import centered_midranks, control_columns, numeric_columns


def curved(seed, rows, *, ties=False):
    """A factor and a norm that both bend with a control and also share something of their own."""
    rng = np.random.default_rng(seed)
    z, own = rng.normal(size=(2, rows))
    x, y = z**2 + own, np.exp(z) + 0.6 * own + rng.normal(size=rows)
    return (np.round(x), np.round(2 * y) / 2, z) if ties else (x, y, z)


def slow_partial(x, y, z, *, with_controls=True):
    u, v = centered_midranks(x), centered_midranks(y)
    if with_controls:
        design = np.column_stack([np.ones(u.size), control_columns([numeric_columns(z)])])
        u, v = (a - design @ np.linalg.lstsq(design, a, rcond=None)[0] for a in (u, v))
    return float(np.corrcoef(u, v)[0, 1])


def influence_of(x, y, z, *, with_controls=True):
    u, v = centered_midranks(x), centered_midranks(y)
    left = residuals(np.column_stack([u, v]), control_columns([numeric_columns(z)]) if with_controls else None)
    rho, _ = correlation_test(left.values[:, 0], left.values[:, 1], left)
    return rho, correlation_influence(left.values[:, 0], left.values[:, 1], u, v, left.leverage)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_residuals_and_leverages_are_those_of_least_squares(seed, width):
    rng = np.random.default_rng(seed)
    y, controls = rng.normal(size=(40, 2)), rng.normal(size=(40, width))
    controls -= controls.mean(axis=0)
    design = np.column_stack([np.ones(40), controls])
    hat = design @ np.linalg.pinv(design)
    found = residuals(y, controls)
    np.testing.assert_allclose(found.values, y - hat @ y, atol=1e-6)
    np.testing.assert_allclose(found.leverage, np.diag(hat), atol=1e-6)
    assert found.freedom == 40 - 1 - width


def test_dependent_controls_do_no_harm():
    x, _, z = curved(0, 200)
    once = control_columns([numeric_columns(z)])
    twice = residuals(x[:, None], np.column_stack([once, once @ np.ones((once.shape[1], 2))]))
    np.testing.assert_allclose(twice.values, residuals(x[:, None], once).values, atol=1e-6)
    assert twice.freedom == residuals(x[:, None], once).freedom


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("with_controls", [False, True])
def test_influence_is_what_the_jackknife_finds(ties, with_controls):
    """Leave one row out, rank and fit anew: (N - 1)(rho - rho without i) is the influence to first order."""
    x, y, z = curved(1, 250, ties=ties)
    rho, influence = influence_of(x, y, z, with_controls=with_controls)
    assert rho == pytest.approx(slow_partial(x, y, z, with_controls=with_controls), abs=1e-6)
    kept = [np.delete(np.arange(250), i) for i in range(250)]
    jackknife = np.array([249 * (rho - slow_partial(x[k], y[k], z[k], with_controls=with_controls)) for k in kept])
    jackknife -= jackknife.mean()
    assert np.corrcoef(influence, jackknife)[0, 1] > 0.98
    assert influence.std() / jackknife.std() == pytest.approx(1.0, abs=0.06)


def test_deviations_spread_as_a_bootstrap_that_ranks_and_fits_anew():
    x, y, z = curved(2, 400)
    _, influence = influence_of(x, y, z)
    moved = resampled_deviations(influence[None], seed=0, resamples=2000)[:, 0]
    rng = np.random.default_rng(1)
    slow = [slow_partial(x[i], y[i], z[i]) for i in (rng.integers(400, size=400) for _ in range(400))]
    assert moved.std() == pytest.approx(np.std(slow), rel=0.15)
    assert moved.std() == pytest.approx(influence.std() / 20, rel=0.06)


def test_p_values_are_uniform_where_spreads_differ():
    """Both sides vary most at the same rows: T with its own scale stays exact, the plain correlation test does not."""
    robust, plain = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        scale = rng.uniform(0.0, 1.0, size=200) ** 1.5
        e = residuals(rng.normal(size=(200, 2)) * scale[:, None], None)
        rho, p_value = correlation_test(e.values[:, 0], e.values[:, 1], e)
        robust.append(p_value)
        plain.append(abs(rho) * np.sqrt(198 / (1 - rho**2)) > 1.972)
    assert kstest(robust, "uniform").pvalue > 0.001
    assert binom.ppf(0.001, 400, 0.05) <= np.sum(np.array(robust) < 0.05) <= binom.ppf(0.999, 400, 0.05)
    assert np.sum(plain) > binom.ppf(0.999, 400, 0.05)


def test_many_controls_for_few_rows_do_not_raise_the_level():
    """Twenty controls for sixty rows: leaving the leverage out, or dividing both sides by it, would double the false alarms."""
    alone = together = 0
    for seed in range(600):
        rng = np.random.default_rng(seed)
        left = residuals(rng.uniform(size=(60, 4)), rng.normal(size=(60, 20)))
        alone += correlation_test(left.values[:, 0], left.values[:, 1], left)[1] < 0.05
        together += block_test(left.values[:, 0], left.values[:, 1:], left) < 0.05
    assert binom.ppf(0.001, 600, 0.03) <= alone <= binom.ppf(0.999, 600, 0.05)
    assert together <= binom.ppf(0.999, 600, 0.05)


def test_nothing_shared_has_no_evidence():
    e = residuals(np.zeros((30, 2)), None)
    assert correlation_test(e.values[:, 0], e.values[:, 1], e) == (0.0, 1.0)


def test_slope_is_least_squares_and_its_influence_the_sandwich():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = 0.25 * x + rng.normal(size=300) * np.abs(x)
    x, y = x - x.mean(), y - y.mean()
    slope, influence = slope_influence(x, y, np.zeros(300))
    assert slope == pytest.approx(np.polyfit(x, y, 1)[0])
    assert influence.std() / np.sqrt(300) == pytest.approx(np.sqrt(np.sum(x**2 * (y - slope * x) ** 2)) / np.sum(x**2))


@given(st.floats(-1.0, 1.0), st.integers(0, 1000))
def test_intervals_stay_within_one_and_hold_the_estimate(rho, seed):
    found = fisher_interval(rho, np.random.default_rng(seed).normal(size=200) * 0.1 * (1 - rho**2))
    assert -1.0 <= found.ci_low <= rho <= found.ci_high <= 1.0


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_rule_rejects(p_values):
    adjusted = holm_adjusted(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    for alpha in (0.01, 0.05, 0.3):
        rejected = set()
        for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if (len(p_values) - step) * p_values[index] > alpha:
                break
            rejected.add(index)
        assert {i for i, a in enumerate(adjusted) if a <= alpha} == rejected


def test_a_resample_moves_all_figures_together():
    influence = np.random.default_rng(0).normal(size=50)
    moved = resampled_deviations(np.stack([influence, -2 * influence]), seed=3, resamples=150)
    np.testing.assert_allclose(moved[:, 1], -2 * moved[:, 0])
    assert moved.shape == (150, 2)
    np.testing.assert_array_equal(moved, resampled_deviations(np.stack([influence, -2 * influence]), seed=3, resamples=150))
