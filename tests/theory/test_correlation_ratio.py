"""Correlation ratios and block tests: exact F tests, coverage, levels where spreads differ, and upper ends that cannot collapse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, f, f_oneway, ncf

from normwise.theory.correlation_ratio import block_test, correlation_ratio
from normwise.theory.partial_rank import correlation_test, residuals
from normwise.theory.rank_design import categorical_columns, control_columns, numeric_columns


def test_correlation_ratio_is_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 120)
    y = rng.normal(size=120) + 0.5 * (codes == 2)
    y -= y.mean()
    block = categorical_columns(codes).shape
    interval = correlation_ratio(y, block, 119)
    exact = f_oneway(*[y[codes == k] for k in range(4)])
    assert (interval.ci_low > 0.0) == (exact.pvalue < 0.025)
    high = interval.ci_high**2
    assert ncf.cdf(exact.statistic, 3, 116, high / (1 - high) * 120) == pytest.approx(0.025, abs=1e-3)


@pytest.mark.parametrize("effect", [0.0, 0.4])
def test_the_interval_of_a_ratio_covers(effect):
    covered, lowest = 0, 0
    codes = np.arange(200) % 4
    mean = effect * np.array([-1.0, 1.0, 0.0, 0.0])[codes]
    truth = np.sqrt(mean.var() / (mean.var() + 1.0))
    for seed in range(300):
        y = mean + np.random.default_rng(seed).normal(size=200)
        interval = correlation_ratio(y - y.mean(), categorical_columns(codes).shape, 199)
        covered += interval.ci_low <= truth <= interval.ci_high
        lowest += interval.ci_low == 0.0
    assert covered >= binom.ppf(0.001, 300, 0.95)
    assert lowest >= 280 if effect == 0.0 else lowest < 100


@pytest.mark.parametrize(("block", "mean"), [(np.zeros((50, 1)), 0.0), (np.ones((50, 2)) * np.arange(50)[:, None], 1.0)])
def test_a_ratio_of_nothing_and_of_everything(block, mean):
    y, block = np.arange(50.0) - 24.5, block - block.mean(axis=0)
    assert correlation_ratio(y, block, 49).mean == pytest.approx(mean)
    assert (block_test(y, block, residuals(block, None)) == 1.0) == (mean == 0.0)


@given(st.integers(0, 10**6))
def test_a_block_of_one_is_the_correlation_test(seed):
    rng = np.random.default_rng(seed)
    z, own = rng.normal(size=(2, 60))
    x, y = z**2 + own, np.exp(z) + 0.6 * own + rng.normal(size=60)
    left = residuals(np.column_stack([x, y]), control_columns([numeric_columns(z)]))
    assert block_test(left.values[:, 1], left.values[:, :1], left) == pytest.approx(
        correlation_test(left.values[:, 0], left.values[:, 1], left)[1], rel=1e-6
    )


def test_a_block_keeps_its_level_where_spreads_differ():
    """The category whose norms spread widest is also the rarest: the analysis of variance cries wolf, the block test does not."""
    block = exact = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        codes = np.repeat([0, 1, 2], [240, 40, 20])
        left = residuals((rng.normal(size=300) * np.array([1.0, 2.0, 4.0])[codes])[:, None], None)
        y = left.values[:, 0]
        block += block_test(y, categorical_columns(codes).shape, left) < 0.05
        exact += f_oneway(*[y[codes == k] for k in range(3)]).pvalue < 0.05
    assert block <= binom.ppf(0.999, 300, 0.05)
    assert exact > binom.ppf(0.999, 300, 0.05)


@pytest.mark.parametrize("sizes", [(500, 500), (333, 333, 334), (940, 50, 10)])
def test_the_upper_end_is_never_below_what_the_design_can_see(sizes):
    """An F near 0 comes by chance one time in forty, and then nothing would be left open: the median F of no effect is the floor."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    block = categorical_columns(codes).shape
    y = np.random.default_rng(0).normal(size=1000)
    y -= block @ np.linalg.lstsq(block, y, rcond=None)[0]
    found = correlation_ratio(y - y.mean(), block, 999)
    width = len(sizes) - 1
    share = found.ci_high**2 / (1.0 - found.ci_high**2) * 1000
    assert (found.mean, found.ci_low) == (0.0, 0.0)
    assert ncf.cdf(f.median(width, 999 - width), width, 999 - width, share) == pytest.approx(0.025, abs=1e-3)
    assert found.ci_high > 0.07
